// SPDX-License-Identifier: BSD-3-Clause
#include "acm/driver/ibacm_source.hpp"

#include <algorithm>
#include <utility>
#include <variant>

#include "acm/driver/told_path.hpp"
#include "acm/files/address_text.hpp"
#include "base/check.hpp"

namespace wireup::acm {
namespace {

/// A service of more endpoints than this does not end its list.
constexpr std::uint8_t kMaxEndpoints = 250;
/// Failed paths that are remembered.
constexpr std::size_t kMaxFailed = 65536;

bool is_plain(const PathKey& key) noexcept {
  return !key.sl.has_value() && key.service_id.is_zero();
}

/// An address as an endpoint reply writes it.
std::optional<mad::AcmAddress> address_of(const std::string& text) {
  if (const auto ipv4 = parse_ipv4(text)) {
    return mad::AcmAddress::ipv4(*ipv4);
  }
  if (const auto ipv6 = parse_ipv6(text)) {
    return mad::AcmAddress::ipv6(*ipv6);
  }
  const auto name = mad::AcmAddress::name(text);
  return name ? std::optional(*name) : std::nullopt;
}

}  // namespace

Result<IbacmSource> IbacmSource::open(const IbacmClient::Options& options,
                                      const verbs::PortInfo& port, PKey pkey) {
  auto client = IbacmClient::open(options);
  if (!client) {
    return fail(client.error());
  }
  return IbacmSource(std::move(*client), port, pkey);
}

IbacmSource::IbacmSource(IbacmClient client, const verbs::PortInfo& port, PKey pkey) noexcept
    : client_(std::move(client)), port_(port), pkey_(pkey) {}

void IbacmSource::set_port(const verbs::PortInfo& port, PKey pkey) {
  port_ = port;
  pkey_ = pkey;
}

void IbacmSource::ask(QuestionId id, const PathKey& key, Instant deadline, Instant now) {
  WIREUP_CHECK(key.sgid == port_.gid && key.pkey == pkey_);
  PathQuestion question;
  question.path.sgid = key.sgid;
  question.path.dgid = key.dgid;
  question.path.pkey = key.pkey;
  question.path.reversible = true;
  question.path.numb_path = 1;
  question.path.service_id = key.service_id;
  question.path.sl = key.sl.value_or(Sl());
  // ibacm keeps one path a destination and drops what else is asked for, but not on its way to the
  // SA.
  question.query_sa = !is_plain(key) || failed_.contains(key.dgid);
  put({id, mad::AcmAddress::gid(key.dgid), key.sl, deadline}, question, now);
}

void IbacmSource::ask(QuestionId id, const mad::AcmAddress& address, Instant deadline,
                      Instant now) {
  const Question question{id, address, std::nullopt, deadline};
  if (const auto gid = address.as_gid()) {
    ask(id, PathKey{port_.gid, *gid, pkey_, std::nullopt, ServiceId()}, deadline, now);
  } else if (const auto lid = address.as_lid()) {
    PathQuestion path;
    path.path.sgid = port_.gid;
    path.path.slid = port_.lid;
    path.path.dlid = *lid;
    path.path.pkey = pkey_;
    path.path.reversible = true;
    path.path.numb_path = 1;
    put(question, path, now);
  } else if (!sources_.empty()) {
    ask_address(question, now);
  } else {
    sourceless_.push_back(question);
    if (!endpoints_.has_value()) {
      endpoints_ = Endpoints{Tid(), 1, deadline};
      ask_endpoint(deadline, now);
    }
  }
}

void IbacmSource::path_failed(const Gid& dgid) {
  if (failed_.size() >= kMaxFailed) {
    failed_.clear();
  }
  failed_.insert(dgid);
}

void IbacmSource::put(const Question& question, const ClientRequest::Body& body, Instant now) {
  const Tid tid(next_tid_++);
  questions_.emplace(tid, question);
  client_.ask({ClientOp::Resolve, tid, body}, question.deadline, now);
}

void IbacmSource::ask_address(const Question& question, Instant now) {
  put(question,
      AddressQuestion{*source_for(question.destination.type()), question.destination, std::nullopt,
                      false},
      now);
}

/// Of the same kind as the destination, as a peer that answers knows it; else any.
const mad::AcmAddress* IbacmSource::source_for(mad::AcmAddressType type) const noexcept {
  const auto same =
      std::find_if(sources_.begin(), sources_.end(),
                   [type](const mad::AcmAddress& address) { return address.type() == type; });
  return same != sources_.end() ? &*same : &sources_.front();
}

void IbacmSource::ask_endpoint(Instant deadline, Instant now) {
  endpoints_->tid = Tid(next_tid_++);
  endpoints_->deadline = deadline;
  client_.ask(
      {ClientOp::EndpointQuery, endpoints_->tid, EndpointQuery{endpoints_->index, port_.port}},
      deadline, now);
}

void IbacmSource::handle_endpoint(const Result<ClientReply>& reply, Instant now) {
  if (!reply) {
    end_endpoints(fail(reply.error()), now);
    return;
  }
  const auto* endpoint = std::get_if<EndpointReply>(&reply->body);
  if (endpoint != nullptr && endpoint->device == port_.node_guid && endpoint->port == port_.port &&
      endpoint->pkey.partition() == pkey_.partition()) {
    for (const std::string& text : endpoint->addresses) {
      if (const auto address = address_of(text)) {
        sources_.push_back(*address);
      }
    }
    if (!sources_.empty()) {
      end_endpoints({}, now);
      return;
    }
  }
  if (endpoint == nullptr || endpoints_->index == kMaxEndpoints) {
    end_endpoints(fail(Error::make(Errc::PathUnresolved,
                                   "the service at %s has no name or IP address for %s, P_Key "
                                   "0x%04x, to ask from",
                                   socket().c_str(), port_.name().data(), pkey_.value())),
                  now);
    return;
  }
  ++endpoints_->index;
  ask_endpoint(endpoints_->deadline, now);
}

void IbacmSource::end_endpoints(const Result<>& found, Instant now) {
  endpoints_.reset();
  for (const Question& question : std::exchange(sourceless_, {})) {
    if (found) {
      ask_address(question, now);
    } else {
      answers_.push_back({question.id, fail(found.error())});
    }
  }
}

void IbacmSource::progress(Instant now) {
  client_.progress(now);
  std::erase_if(sourceless_, [&](const Question& question) {
    if (question.deadline > now) {
      return false;
    }
    answers_.push_back(
        {question.id, fail(Error::make(Errc::Timeout, "the service at %s did not answer in time",
                                       socket().c_str()))});
    return true;
  });
  while (const auto answer = client_.poll_answer()) {
    if (endpoints_.has_value() && answer->tid == endpoints_->tid) {
      handle_endpoint(answer->reply, now);
      continue;
    }
    const auto at = questions_.find(answer->tid);
    WIREUP_CHECK(at != questions_.end());
    const Question question = at->second;
    questions_.erase(at);
    answers_.push_back({question.id, path_of(question, answer->reply)});
    // It may have been restarted with other addresses.
    if (!answers_.back().path && (question.destination.type() == mad::AcmAddressType::Name ||
                                  question.destination.type() == mad::AcmAddressType::Ipv4 ||
                                  question.destination.type() == mad::AcmAddressType::Ipv6)) {
      sources_.clear();
    }
  }
}

std::optional<IbacmSource::Answer> IbacmSource::poll_answer() {
  if (answers_.empty()) {
    return std::nullopt;
  }
  const Answer answer = answers_.front();
  answers_.pop_front();
  return answer;
}

std::optional<Instant> IbacmSource::poll_timeout() const {
  if (!answers_.empty()) {
    return Instant();
  }
  auto earliest = client_.poll_timeout();
  for (const Question& question : sourceless_) {
    earliest = std::min(earliest.value_or(question.deadline), question.deadline);
  }
  return earliest;
}

Result<mad::PathRecord> IbacmSource::path_of(const Question& question,
                                             const Result<ClientReply>& reply) const {
  if (!reply) {
    return fail(reply.error());
  }
  if (reply->status != ClientStatus::Success) {
    return fail(Error::make(
        reply->status == ClientStatus::NoMemory ? Errc::NoResources : Errc::PathUnresolved,
        "the service at %s has no path to %s: %s", socket().c_str(),
        to_text(question.destination).c_str(), status_sentence(reply->status).data()));
  }
  const auto* resolved = std::get_if<ResolveReply>(&reply->body);
  if (resolved == nullptr || resolved->paths.empty()) {
    return fail(Error::make(Errc::PathUnresolved, "the service at %s answered without a path to %s",
                            socket().c_str(), to_text(question.destination).c_str()));
  }
  const mad::PathRecord& record = resolved->paths.front().record;
  const std::string who = "the service at " + socket();
  if (auto checked =
          check_told_path(record, port_, pkey_, question.destination, question.sl, who.c_str());
      !checked) {
    return fail(checked.error());
  }
  return record;
}

}  // namespace wireup::acm
