// SPDX-License-Identifier: BSD-3-Clause
#include "rdmacm/kernel_paths.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <utility>

#include "rdmacm/channel.hpp"
#include "rdmacm/ops.hpp"
#include "rdmacm/route_record.hpp"
#include "rdmacm/socket_address.hpp"

namespace wireup::rdmacm {
namespace {

constexpr int kEventsPerTurn = 256;

/// A question as rdma_resolve_addr() wants it. The kernel finds the source of an IP address by
/// its routes.
struct Ends {
  rdma_port_space space = RDMA_PS_UDP;
  SocketAddress destination{};
  std::optional<SocketAddress> source;
};

std::optional<Ends> ends_of(const KernelPaths::Options& options, const mad::AcmAddress& destination,
                            ServiceId service) noexcept {
  Ends ends;
  switch (destination.type()) {
    case mad::AcmAddressType::Ipv4:
      ends.destination.ipv4.sin_family = AF_INET;
      std::memcpy(&ends.destination.ipv4.sin_addr, destination.bytes().data(), 4);
      return ends;
    case mad::AcmAddressType::Ipv6:
      ends.destination.ipv6.sin6_family = AF_INET6;
      std::memcpy(&ends.destination.ipv6.sin6_addr, destination.bytes().data(), 16);
      return ends;
    case mad::AcmAddressType::Gid:
      ends.space = RDMA_PS_IB;
      ends.destination = to_destination(IbAddress{*destination.as_gid(), options.pkey, service});
      ends.source = to_source(IbAddress{options.sgid, options.pkey, ServiceId()});
      return ends;
    case mad::AcmAddressType::Name:
    case mad::AcmAddressType::Lid:
      return std::nullopt;
  }
  return std::nullopt;
}

int milliseconds_until(Instant deadline, Instant now) noexcept {
  constexpr std::int64_t kLongest = 60'000;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - now).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 1, kLongest));
}

}  // namespace

struct KernelPaths::State {
  struct Question {
    QuestionId id = 0;
    mad::AcmAddress destination;
    Instant deadline;
  };

  Options options;
  Channel channel;
  const Ops* ops;
  std::map<rdma_cm_id*, Question> questions;
  std::deque<Answer> answers;

  State(const Options& with, Channel on)
      : options(with), channel(std::move(on)), ops(&channel.ops()) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    while (!questions.empty()) {
      drop(questions.begin());
    }
  }

  void drop(std::map<rdma_cm_id*, Question>::iterator at) {
    // It fails only for an id that is none.
    static_cast<void>(ops->destroy_id(at->first));
    questions.erase(at);
  }
  void finish(std::map<rdma_cm_id*, Question>::iterator at, const Result<mad::PathRecord>& path) {
    answers.push_back({at->second.id, path});
    drop(at);
  }
  [[nodiscard]] Result<> start(rdma_cm_id* id, const Ends& ends, Instant deadline, Instant now);
  void handle(rdma_cm_id* id, rdma_cm_event_type type, int status, Instant now);
  [[nodiscard]] Error refused(const Question& question, const char* step, int error) const;
};

Result<KernelPaths> KernelPaths::open(const Options& options, const Ops* ops) {
  auto channel = Channel::open(options.device.c_str(), ops);
  if (!channel) {
    return fail(channel.error());
  }
  return KernelPaths(std::make_unique<State>(options, std::move(*channel)));
}

KernelPaths::KernelPaths(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
KernelPaths::KernelPaths(KernelPaths&&) noexcept = default;
KernelPaths& KernelPaths::operator=(KernelPaths&&) noexcept = default;
KernelPaths::~KernelPaths() = default;

void KernelPaths::ask(QuestionId id, const mad::AcmAddress& destination, ServiceId service,
                      Instant deadline, Instant now) {
  const auto ends = ends_of(state_->options, destination, service);
  if (!ends.has_value()) {
    state_->answers.push_back(
        {id,
         fail(Error::make(Errc::Unsupported, "the kernel resolves GIDs and IP addresses, not %s",
                          to_text(destination).c_str()))});
    return;
  }
  rdma_cm_id* cm_id = nullptr;
  if (state_->ops->create_id(state_->channel.get(), &cm_id, nullptr, ends->space) != 0) {
    state_->answers.push_back(
        {id, fail(Error::system(Errc::NoResources, errno, "making an id of librdmacm"))});
    return;
  }
  const auto at =
      state_->questions.emplace(cm_id, State::Question{id, destination, deadline}).first;
  if (auto started = state_->start(cm_id, *ends, deadline, now); !started) {
    state_->finish(at, fail(started.error()));
  }
}

Result<> KernelPaths::State::start(rdma_cm_id* id, const Ends& ends, Instant deadline,
                                   Instant now) {
  // The library takes what it does not change by a pointer to what it could.
  Ends copy = ends;
  if (ops->resolve_addr(id, copy.source.has_value() ? &copy.source->any : nullptr,
                        &copy.destination.any, milliseconds_until(deadline, now)) != 0) {
    return wireup::fail(refused(questions.at(id), "rdma_resolve_addr", errno));
  }
  return {};
}

void KernelPaths::progress(Instant now) {
  for (int i = 0; i < kEventsPerTurn; ++i) {
    rdma_cm_event* event = nullptr;
    if (state_->ops->get_cm_event(state_->channel.get(), &event) != 0) {
      if (errno == EINTR) {
        continue;
      }
      break;
    }
    rdma_cm_id* const id = event->id;
    const rdma_cm_event_type type = event->event;
    const int status = event->status;
    // An id with an event that is not given back cannot be destroyed.
    static_cast<void>(state_->ops->ack_cm_event(event));
    state_->handle(id, type, status, now);
  }
  for (auto at = state_->questions.begin(); at != state_->questions.end();) {
    const auto here = at++;
    if (here->second.deadline <= now) {
      state_->finish(here, fail(Error::make(Errc::Timeout, "the kernel had no path to %s in time",
                                            to_text(here->second.destination).c_str())));
    }
  }
}

void KernelPaths::State::handle(rdma_cm_id* id, rdma_cm_event_type type, int status, Instant now) {
  const auto at = questions.find(id);
  if (at == questions.end()) {
    return;
  }
  const Question& question = at->second;
  switch (type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      if (ops->resolve_route(id, milliseconds_until(question.deadline, now)) != 0) {
        finish(at, fail(refused(question, "rdma_resolve_route", errno)));
      }
      return;
    case RDMA_CM_EVENT_ADDR_ERROR:
      finish(at, fail(refused(question, "resolving the address", std::abs(status))));
      return;
    case RDMA_CM_EVENT_ROUTE_ERROR:
      finish(at, fail(refused(question, "resolving the route", std::abs(status))));
      return;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      if (id->route.num_paths < 1 || id->route.path_rec == nullptr) {
        finish(at, fail(Error::make(Errc::Malformed, "the kernel resolved a route to %s of no path",
                                    to_text(question.destination).c_str())));
      } else {
        finish(at, to_record(id->route.path_rec[0]));
      }
      return;
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      finish(at, fail(refused(question, "the device was removed", ENODEV)));
      return;
    default:
      return;  // of a connection, which there is none
  }
}

Error KernelPaths::State::refused(const Question& question, const char* step, int error) const {
  return Error::system(error == ETIMEDOUT ? Errc::Timeout : Errc::PathUnresolved, error,
                       "the kernel has no path to %s: %s", to_text(question.destination).c_str(),
                       step);
}

std::optional<KernelPaths::Answer> KernelPaths::poll_answer() {
  if (state_->answers.empty()) {
    return std::nullopt;
  }
  const Answer answer = state_->answers.front();
  state_->answers.pop_front();
  return answer;
}

int KernelPaths::fd() const noexcept {
  return state_->channel.fd();
}

std::optional<Instant> KernelPaths::poll_timeout() const {
  if (!state_->answers.empty()) {
    return Instant();
  }
  std::optional<Instant> earliest;
  for (const auto& [id, question] : state_->questions) {
    earliest = std::min(earliest.value_or(question.deadline), question.deadline);
  }
  return earliest;
}

std::size_t KernelPaths::pending() const noexcept {
  return state_->questions.size();
}

}  // namespace wireup::rdmacm
