// SPDX-License-Identifier: BSD-3-Clause
#include "rdmacm/kernel_cm.hpp"

#include <infiniband/sa.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "base/check.hpp"
#include "rdmacm/channel.hpp"
#include "rdmacm/event_values.hpp"
#include "rdmacm/socket_address.hpp"

namespace wireup::rdmacm {
namespace {

/// Events that one poll_event() looks at for one that makes sense.
constexpr int kEventsPerTurn = 256;

/// What the kernel takes: exactly one entry of these flags; the others are ignored.
constexpr std::uint32_t kPathFlags =
    IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY | IBV_PATH_FLAG_BIDIRECTIONAL;
static_assert(sizeof(ibv_path_data) == 8 + mad::PathRecord::kSize);

Errc kind_of(int error) noexcept {
  switch (error) {
    case EACCES:
    case EPERM:
      return Errc::NoPermission;
    case ETIMEDOUT:
      return Errc::Timeout;
    case ENODEV:
    case EADDRNOTAVAIL:
    case ENETUNREACH:
    case EHOSTUNREACH:
      return Errc::PathUnresolved;
    case EADDRINUSE:
      return Errc::Busy;
    case EINVAL:
      return Errc::InvalidState;
    default:
      return Errc::NoResources;
  }
}

rdma_conn_param to_kernel(const ConnectionValues& values) noexcept {
  rdma_conn_param to{};
  to.private_data = values.private_data.empty() ? nullptr : values.private_data.span().data();
  to.private_data_len = static_cast<std::uint8_t>(values.private_data.size());
  to.responder_resources = values.responder_resources;
  to.initiator_depth = values.initiator_depth;
  to.flow_control = values.flow_control ? 1 : 0;
  to.retry_count = values.retry_count.value();
  to.rnr_retry_count = values.rnr_retry_count.value();
  to.srq = values.srq ? 1 : 0;
  to.qp_num = values.qpn.value();
  return to;
}

}  // namespace

struct KernelCm::State {
  Channel channel;
  const Ops* ops;
  IdNumber next = 1;
  std::unordered_map<IdNumber, rdma_cm_id*> by_number;
  std::unordered_map<rdma_cm_id*, IdNumber> numbers;
  std::uint64_t odd = 0;

  explicit State(Channel on) : channel(std::move(on)), ops(&channel.ops()) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    for (const auto& [number, id] : by_number) {
      // It fails only for an id that is none.
      static_cast<void>(ops->destroy_id(id));
    }
  }

  IdNumber own(rdma_cm_id* id) {
    const IdNumber number = next++;
    by_number.emplace(number, id);
    numbers.emplace(id, number);
    return number;
  }

  template <typename Call>
  Result<> call(IdNumber number, const char* name, Call&& make) {
    const auto at = by_number.find(number);
    if (at == by_number.end()) {
      return fail(Error::make(Errc::NotFound, "%s: the id is gone", name));
    }
    if (make(at->second) != 0) {
      const int error = errno;
      return fail(Error::system(kind_of(error), error, "%s", name));
    }
    return {};
  }

  /// `doomed` is an id that came with an event that makes no sense.
  std::optional<CmEvent> take(const rdma_cm_event& event, IdNumber& doomed);
};

Result<KernelCm> KernelCm::open(const std::string& device, const Ops* ops) {
  auto channel = Channel::open(device.c_str(), ops);
  if (!channel) {
    return fail(channel.error());
  }
  return KernelCm(std::make_unique<State>(std::move(*channel)));
}

KernelCm::KernelCm(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
KernelCm::KernelCm(KernelCm&&) noexcept = default;
KernelCm& KernelCm::operator=(KernelCm&&) noexcept = default;
KernelCm::~KernelCm() = default;

Result<IdNumber> KernelCm::create(Space space) {
  rdma_cm_id* id = nullptr;
  if (state_->ops->create_id(state_->channel.get(), &id, nullptr,
                             space == Space::Ib ? RDMA_PS_IB : RDMA_PS_TCP) != 0) {
    const int error = errno;
    return fail(Error::system(kind_of(error), error, "rdma_create_id"));
  }
  return state_->own(id);
}

void KernelCm::destroy(IdNumber id) noexcept {
  const auto at = state_->by_number.find(id);
  if (at == state_->by_number.end()) {
    return;
  }
  static_cast<void>(state_->ops->destroy_id(at->second));
  state_->numbers.erase(at->second);
  state_->by_number.erase(at);
}

Result<CmAddress> KernelCm::listen(IdNumber id, const CmAddress& address, int backlog) {
  SocketAddress source = to_source(address);
  auto done = state_->call(id, "rdma_bind_addr",
                           [&](rdma_cm_id* at) { return state_->ops->bind_addr(at, &source.any); });
  if (!done) {
    return fail(done.error());
  }
  done = state_->call(id, "rdma_listen",
                      [&](rdma_cm_id* at) { return state_->ops->listen(at, backlog); });
  if (!done) {
    return fail(done.error());
  }
  const auto bound = from_socket(&state_->by_number.at(id)->route.addr.src_addr);
  if (!bound.has_value() || bound->index() != address.index()) {
    return fail(Error::make(Errc::Malformed, "rdma_listen: the id has no address of its own"));
  }
  return *bound;
}

Result<> KernelCm::resolve_address(IdNumber id, const CmAddress& source,
                                   const CmAddress& destination, Duration limit) {
  constexpr std::int64_t kLongest = 3'600'000;
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(limit).count();
  SocketAddress from = to_source(source);
  SocketAddress to = to_destination(destination);
  return state_->call(id, "rdma_resolve_addr", [&](rdma_cm_id* at) {
    return state_->ops->resolve_addr(at, &from.any, &to.any,
                                     static_cast<int>(std::clamp<std::int64_t>(ms, 1, kLongest)));
  });
}

Result<> KernelCm::set_path(IdNumber id, const mad::PathRecord& path) {
  std::array<std::uint8_t, mad::PathRecord::kSize> bytes{};
  mad::serialize(path, bytes);
  ibv_path_data data{};
  data.flags = kPathFlags;
  std::memcpy(&data.path, bytes.data(), bytes.size());
  return state_->call(id, "rdma_set_option(IB_PATH)", [&](rdma_cm_id* at) {
    return state_->ops->set_option(at, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &data, sizeof(data));
  });
}

Result<> KernelCm::connect(IdNumber id, const ConnectionValues& values) {
  rdma_conn_param to = to_kernel(values);
  return state_->call(id, "rdma_connect",
                      [&](rdma_cm_id* at) { return state_->ops->connect(at, &to); });
}

Result<> KernelCm::accept(IdNumber id, const ConnectionValues& values) {
  rdma_conn_param to = to_kernel(values);
  return state_->call(id, "rdma_accept",
                      [&](rdma_cm_id* at) { return state_->ops->accept(at, &to); });
}

Result<> KernelCm::establish(IdNumber id) {
  return state_->call(id, "rdma_establish",
                      [&](rdma_cm_id* at) { return state_->ops->establish(at); });
}

Result<> KernelCm::reject(IdNumber id, std::span<const std::uint8_t> private_data, bool ece) {
  WIREUP_CHECK(private_data.size() <= ConnectionValues::kMaxPrivateData);
  const void* data = private_data.empty() ? nullptr : private_data.data();
  const auto size = static_cast<std::uint8_t>(private_data.size());
  if (ece) {
    return state_->call(id, "rdma_reject_ece",
                        [&](rdma_cm_id* at) { return state_->ops->reject_ece(at, data, size); });
  }
  return state_->call(id, "rdma_reject",
                      [&](rdma_cm_id* at) { return state_->ops->reject(at, data, size); });
}

Result<> KernelCm::notify_established(IdNumber id) {
  return state_->call(id, "rdma_notify",
                      [&](rdma_cm_id* at) { return state_->ops->notify(at, IBV_EVENT_COMM_EST); });
}

Result<> KernelCm::disconnect(IdNumber id) {
  return state_->call(id, "rdma_disconnect",
                      [&](rdma_cm_id* at) { return state_->ops->disconnect(at); });
}

Result<std::optional<CmEvent>> KernelCm::poll_event() {
  for (int i = 0; i < kEventsPerTurn; ++i) {
    rdma_cm_event* event = nullptr;
    if (state_->ops->get_cm_event(state_->channel.get(), &event) != 0) {
      const int error = errno;
      if (error == EINTR) {
        continue;
      }
      if (error == EAGAIN || error == EWOULDBLOCK) {
        return std::optional<CmEvent>();
      }
      return fail(Error::system(kind_of(error), error, "rdma_get_cm_event"));
    }
    if (event == nullptr) {
      return fail(Error::make(Errc::Malformed, "rdma_get_cm_event: an event of nothing"));
    }
    IdNumber doomed = 0;
    const auto taken = state_->take(*event, doomed);
    static_cast<void>(state_->ops->ack_cm_event(event));
    destroy(doomed);
    if (taken.has_value()) {
      return taken;
    }
    ++state_->odd;
  }
  return std::optional<CmEvent>();
}

std::optional<CmEvent> KernelCm::State::take(const rdma_cm_event& event, IdNumber& doomed) {
  if (event.id == nullptr) {
    return std::nullopt;
  }
  CmEvent to;
  to.kind = event_kind(event.event);
  to.status = event.status;
  if (to.kind == CmEventKind::ConnectRequest) {
    // The id is ours from now on, whatever comes with it.
    to.id = doomed = own(event.id);
    const auto listener = numbers.find(event.listen_id);
    if (listener == numbers.end()) {
      return std::nullopt;
    }
    to.listener = listener->second;
  } else {
    const auto at = numbers.find(event.id);
    if (at == numbers.end()) {
      return std::nullopt;
    }
    to.id = at->second;
  }
  if (has_values(to.kind)) {
    const auto values = event_values(event.param.conn);
    if (values.has_value()) {
      to.values = *values;
    } else if (to.kind == CmEventKind::ConnectRequest) {
      return std::nullopt;
    } else {
      // The connection that waits for it shall not wait on.
      to.kind = CmEventKind::ConnectError;
      to.status = -EPROTO;
      ++odd;
    }
  } else if (to.kind == CmEventKind::Rejected) {
    to.values.private_data = event_private_data(event.param.conn);
  }
  take_route(event.id->route, to);
  doomed = 0;
  return to;
}

int KernelCm::fd() const noexcept {
  return state_->channel.fd();
}

std::size_t KernelCm::ids() const noexcept {
  return state_->by_number.size();
}

std::uint64_t KernelCm::odd_events() const noexcept {
  return state_->odd;
}

}  // namespace wireup::rdmacm
