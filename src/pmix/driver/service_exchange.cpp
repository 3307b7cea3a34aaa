// SPDX-License-Identifier: BSD-3-Clause
#include "pmix/driver/service_exchange.hpp"

#include <utility>

#include "base/clock.hpp"

namespace wireup::pmix {
namespace {

template <typename... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <typename... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

GetStatus status_of(const GetReply& reply, std::span<const std::uint8_t>& card) {
  if (reply.status.is(Outcome::Success)) {
    const auto* bytes = std::get_if<std::vector<std::uint8_t>>(&reply.value);
    if (bytes == nullptr || bytes->empty() || bytes->size() > Exchange::kMaxCardSize) {
      return GetStatus::Malformed;
    }
    card = *bytes;
    return GetStatus::Found;
  }
  // "Unreachable" may be about the peer's node; the end of our own server comes as an event.
  return reply.status.is(Outcome::NotFound) ? GetStatus::NotFound : GetStatus::Failed;
}

LookupEngine::Config lookup_config(const JobInfo& job) {
  LookupEngine::Config config;
  config.seed = job.id().job ^ job.rank;
  return config;
}

}  // namespace

Result<std::unique_ptr<Exchange>> open_pmix_exchange(const PmixOptions& options) {
  return ServiceExchange::open(process_service(), options);
}

Result<std::unique_ptr<Exchange>> ServiceExchange::open(Service& service,
                                                        const PmixOptions& options) {
  auto mailbox = std::make_shared<Mailbox>();
  if (const auto opened = mailbox->open(); !opened) {
    return fail(opened.error());
  }
  auto job = service.start(monotonic_now() + options.open_limit);
  if (!job) {
    return fail(job.error());
  }
  return std::unique_ptr<Exchange>(
      new ServiceExchange(service, std::move(*job), std::move(mailbox), options.collect));
}

ServiceExchange::ServiceExchange(Service& service, JobInfo job, std::shared_ptr<Mailbox> mailbox,
                                 bool collect)
    : service_(service),
      job_(std::move(job)),
      mailbox_(std::move(mailbox)),
      collect_(collect),
      key_("wireup.card." + std::to_string(service_.attach(mailbox_))),
      engine_(lookup_config(job_)) {}

ServiceExchange::~ServiceExchange() {
  if (!closed_) {
    take_part_without_card();
  }
}

void ServiceExchange::take_part_without_card() {
  // The others' fence waits for this rank, card or no card.
  if (collect_ && state_ == PublishState::NotPublished) {
    state_ = PublishState::Publishing;
    service_.publish(mailbox_, key_, {}, true);
  }
}

Result<> ServiceExchange::publish(std::span<const std::uint8_t> card) {
  if (closed_ || state_ != PublishState::NotPublished) {
    return fail(Error::make(Errc::InvalidState,
                            "card exchange: the card is published once, and "
                            "before close"));
  }
  if (card.empty() || card.size() > kMaxCardSize) {
    return fail(Error::make(Errc::InvalidArgument,
                            "card exchange: a card of %zu bytes, allowed are "
                            "1 to %zu",
                            card.size(), kMaxCardSize));
  }
  state_ = PublishState::Publishing;
  service_.publish(mailbox_, key_, {card.begin(), card.end()}, collect_);
  return {};
}

Result<> ServiceExchange::request(const PeerRef& peer, Instant deadline, Instant now) {
  if (closed_) {
    return fail(Error::make(Errc::InvalidState, "card exchange: it is closed"));
  }
  if (peer.nspace.size() > PeerId::kMaxNamespace) {
    return fail(Error::make(Errc::InvalidArgument,
                            "card exchange: a namespace of %zu bytes, the longest is %zu",
                            peer.nspace.size(), PeerId::kMaxNamespace));
  }
  PeerRef full = peer;
  if (full.nspace.empty()) {
    full.nspace = job_.nspace;
  }
  if (full.nspace == job_.nspace && full.rank >= job_.size) {
    return fail(Error::make(Errc::InvalidArgument,
                            "card exchange: rank %u, this job has ranks 0 to %u", full.rank,
                            job_.size - 1));
  }
  engine_.request(full, deadline, now);
  send_calls(now);
  if (engine_.has_result()) {
    mailbox_->wake();
  }
  return {};
}

std::optional<CardResult> ServiceExchange::poll(Instant now) {
  if (closed_) {
    return std::nullopt;
  }
  if (!engine_.has_result()) {
    mailbox_->clear_fd();
    read_mailbox(now);
    engine_.handle_timeout(now);
    send_calls(now);
    if (engine_.has_result()) {
      mailbox_->wake();
    }
  }
  return engine_.poll_result();
}

void ServiceExchange::send_calls(Instant now) {
  while (auto call = engine_.poll_call(now)) {
    service_.get(mailbox_, key_, std::move(*call));
  }
}

void ServiceExchange::read_mailbox(Instant now) {
  while (const auto reply = mailbox_->take()) {
    std::visit(Overloaded{[&](const GetReply& get) {
                            std::span<const std::uint8_t> card;
                            const GetStatus status = status_of(get, card);
                            engine_.handle_reply(get.id, status, card, now);
                          },
                          [&](const CardIsOut&) {
                            if (collect_) {
                              state_ = PublishState::Collecting;
                            }
                          },
                          [&](const PublishEnded& ended) { end_publish(ended); },
                          [&](const ServerLost&) { engine_.handle_server_gone(); }},
               *reply);
  }
}

void ServiceExchange::end_publish(const PublishEnded& ended) {
  if (ended.failed) {
    state_ = PublishState::Failed;
    failure_ = ended;
    return;
  }
  if (!collect_) {
    state_ = PublishState::Single;
    return;
  }
  state_ = ended.status.is(Outcome::Partial) ? PublishState::Partial : PublishState::Complete;
  engine_.handle_collected();
}

Result<> ServiceExchange::close(Instant deadline) {
  if (std::exchange(closed_, true)) {
    return {};
  }
  engine_.cancel_all();
  take_part_without_card();
  read_mailbox(deadline);
  while (state_ == PublishState::Publishing || state_ == PublishState::Collecting) {
    if (monotonic_now() >= deadline) {
      service_.give_up(mailbox_);
      return fail(Error::make(
          Errc::Timeout, "card exchange: close: %s by the deadline; %s",
          state_ == PublishState::Collecting ? "other ranks of the job had not opened their context"
                                             : "the PMIx library did not take this rank's part",
          state_ == PublishState::Collecting ? "every rank has to open one, or none may collect"
                                             : "look at the launcher and its daemon on this node"));
    }
    mailbox_->wait(deadline);
    read_mailbox(deadline);
  }
  if (state_ == PublishState::Failed && !failure_.status.is(Outcome::Unreachable)) {
    return fail(Error::make(Errc::NoPmix, "card exchange: PMIx %s failed: %s (%d)", failure_.step,
                            failure_.status.name, failure_.status.code));
  }
  return {};
}

}  // namespace wireup::pmix
