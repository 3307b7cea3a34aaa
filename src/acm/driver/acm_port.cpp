// SPDX-License-Identifier: BSD-3-Clause
#include "acm/driver/acm_port.hpp"
#include "base/epoll.hpp"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <variant>

namespace wireup::acm {
namespace {

constexpr Duration kLookInterval = std::chrono::milliseconds(500);
constexpr Duration kSendRetry = std::chrono::milliseconds(1);
constexpr std::uint32_t kSendDepth = 128;
/// A job that starts lets every node hear every other one within moments.
constexpr std::uint32_t kReceiveDepth = 512;
constexpr std::size_t kDatagramsPerTurn = 256;

Source source_of(const verbs::UdDatagram& datagram) noexcept {
  return {datagram.slid, datagram.source_qpn, datagram.path_bits, datagram.has_grh, datagram.sgid};
}

verbs::UdDestination destination_of(const Destination& to) noexcept {
  verbs::UdDestination result;
  result.dlid = to.dlid;
  result.qpn = to.qpn;
  result.qkey = QKey(kAcmQKey);
  result.sl = to.sl;
  result.static_rate = to.static_rate;
  result.path_bits = to.path_bits;
  result.global = true;
  result.dgid = to.dgid;
  result.flow_label = to.flow_label;
  result.hop_limit = to.hop_limit;
  result.traffic_class = to.traffic_class;
  return result;
}

}  // namespace

Result<std::unique_ptr<AcmPort>> AcmPort::open(const Options& options, Instant now) {
  std::unique_ptr<AcmPort> port(new AcmPort);
  port->options_ = options;
  auto device = verbs::Device::open(options.device);
  if (!device) {
    return fail(device.error());
  }
  port->device_.emplace(std::move(*device));
  auto events = verbs::PortEvents::open(*port->device_, options.port);
  if (!events) {
    return fail(events.error());
  }
  port->port_events_.emplace(*events);
  auto info = port->device_->query_port(options.port);
  if (!info) {
    return fail(info.error());
  }
  port->info_ = std::move(*info);
  if (!port->info_.active) {
    return fail(Error::make(Errc::NoSubnetManager,
                            "%s is %s, not ACTIVE: is the subnet manager (OpenSM) running?",
                            port->info_.name().data(), port->info_.state));
  }
  port->epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
  if (!port->epoll_.is_open()) {
    return fail(Error::system(Errc::NoResources, errno, "making an epoll descriptor"));
  }
  if (auto watched = port->watch(port->port_events_->fd()); !watched) {
    return fail(watched.error());
  }
  if (auto opened = port->open_endpoint(); !opened) {
    return fail(opened.error());
  }
  if (auto opened = port->open_sa(now); !opened) {
    return fail(opened.error());
  }
  port->engine_.emplace(options.engine, port->identity(), Rng(options.seed), now, options.locals);
  port->next_look_ = now + kLookInterval;
  port->drain(now);
  return port;
}

Result<> AcmPort::open_endpoint() {
  const auto pkey = info_.table_pkey(options_.pkey);
  if (!pkey) {
    return fail(pkey.error());
  }
  table_pkey_ = *pkey;
  verbs::UdEndpoint::Options options;
  options.port = options_.port;
  options.pkey_index = *info_.pkey_index(options_.pkey);
  options.qkey = QKey(kAcmQKey);
  options.send_depth = kSendDepth;
  options.receive_depth = kReceiveDepth;
  options.message_size = mad::kMadSize;
  auto endpoint = verbs::UdEndpoint::open(*device_, options);
  if (!endpoint && endpoint.error().is(Errc::NoPermission)) {
    // Short: whoever cannot help either is named with it.
    return fail(Error::make(Errc::NoPermission,
                            "%s: ACM needs CAP_NET_RAW for its Q_Key 0x%08x: give it to the node's "
                            "first rank (setcap cap_net_raw+ep), or run \"rdma system set "
                            "privileged-qkey on\"",
                            info_.name().data(), kAcmQKey));
  }
  if (!endpoint) {
    return fail(endpoint.error());
  }
  endpoint_.emplace(std::move(*endpoint));
  bound_pkeys_ = info_.pkeys;
  attached_.clear();
  if (auto armed = endpoint_->arm(); !armed) {
    return armed;
  }
  return watch(endpoint_->fd());
}

Result<> AcmPort::watch(int fd) {
  if (!watch_readable(epoll_, fd)) {
    return wireup::fail(Error::system(Errc::NoResources, errno, "watching a descriptor of %s",
                                      info_.name().data()));
  }
  return {};
}

PortIdentity AcmPort::identity() const noexcept {
  return {info_.gid,        info_.lid,        info_.lmc,         table_pkey_,
          endpoint_->qpn(), info_.active_mtu, info_.active_rate, info_.subnet_timeout};
}

Result<> AcmPort::resolve(const mad::AcmAddress& address, Instant deadline, Instant now) {
  auto result = engine_->resolve(address, deadline, now);
  drain(now);
  return result;
}

void AcmPort::path_failed(const mad::AcmAddress& address) {
  engine_->path_failed(address);
}

void AcmPort::set_locals(const std::vector<mad::AcmAddress>& locals, Instant now) {
  options_.locals = locals;
  engine_->set_locals(locals);
  drain(now);
}

void AcmPort::forget_learned() {
  engine_->forget_learned();
}

void AcmPort::progress(Instant now) {
  const verbs::PortNews news = port_events_->take();
  if (news.has_changed || next_look_ <= now) {
    next_look_ = now + kLookInterval;
    look_at_port(news, now);
  }
  receive(now);
  sa_->progress(now);
  handle_sa_replies(now);
  handle_notices(now);
  if (const auto due = engine_->poll_timeout(); due.has_value() && *due <= now) {
    engine_->handle_timeout(now);
  }
  drain(now);
}

void AcmPort::look_at_port(const verbs::PortNews& news, Instant now) {
  auto info = device_->query_port(options_.port);
  if (!info) {
    // The device is going away; the requests end at their deadlines and say why.
    join_error_ = info.error();
    return;
  }
  const verbs::PortInfo before = std::exchange(info_, std::move(*info));
  if (!info_.active && !before.active) {
    return;
  }
  const bool is_same =
      before.active == info_.active && before.gid == info_.gid && before.lid == info_.lid &&
      before.lmc == info_.lmc && before.sm_lid == info_.sm_lid && before.sm_sl == info_.sm_sl &&
      before.active_mtu == info_.active_mtu && before.active_rate == info_.active_rate &&
      before.subnet_timeout == info_.subnet_timeout && bound_pkeys_ == info_.pkeys;
  if (is_same && !news.is_to_register) {
    if (attach_error_.has_value()) {
      attach_all();
    }
    return;
  }
  if (info_.active) {
    sa_->set_sm(sm_address());
    // The queue pair is bound to an index of the P_Key table.
    if (auto opened = bound_pkeys_ == info_.pkeys ? Result<>() : open_endpoint(); !opened) {
      // Tried again at the next look. What is known leads through a partition that is gone.
      join_error_ = opened.error();
      if (before.pkeys == info_.pkeys) {
        return;
      }
    }
  } else {
    // No path leads out of it. It asks again when it is back.
    join_error_ = Error::make(Errc::NoSubnetManager, "%s went from ACTIVE to %s",
                              info_.name().data(), info_.state);
  }
  joins_.clear();
  queries_.clear();
  table_.reset();
  joined_.clear();
  notices_->subscribe_again(sm_address(), now);
  engine_->port_changed(identity(), now);
}

void AcmPort::receive(Instant now) {
  if (auto armed = endpoint_->arm(); !armed) {
    join_error_ = armed.error();
  }
  const auto on_datagram = [&](const verbs::UdDatagram& datagram) {
    engine_->handle_mad(source_of(datagram), datagram.bytes, now);
  };
  if (auto polled = endpoint_->poll(on_datagram, kDatagramsPerTurn); !polled) {
    join_error_ = polled.error();
  } else if (*polled == kDatagramsPerTurn) {
    // More are waiting that were announced already: come back at once.
    retry_send_ = now;
    has_more_ = true;
    return;
  }
  has_more_ = false;
}

void AcmPort::drain(Instant now) {
  send_sa_requests(now);
  while (auto event = engine_->poll_event()) {
    if (const auto* joined = std::get_if<GroupJoined>(&*event)) {
      joined_[joined->mgid] = joined->mlid;
      attach_all();
    } else {
      events_.push_back(*event);
    }
  }
  // A join can have ended at once, for lack of a MAD buffer: its reply is taken in the next turn.
  send_waiting();
  if (waiting_.has_value()) {
    retry_send_ = now + kSendRetry;
  }
}

void AcmPort::send_waiting() {
  while (true) {
    if (!waiting_.has_value()) {
      waiting_ = engine_->poll_transmit();
    }
    if (!waiting_.has_value()) {
      return;
    }
    const auto sent = endpoint_->send(destination_of(waiting_->to), waiting_->bytes);
    if (!sent && sent.error().is(Errc::Busy)) {
      return;
    }
    // A datagram that cannot be sent is like one that was lost: its retry follows.
    if (sent) {
      send_error_.reset();
    } else {
      send_error_ = sent.error();
    }
    waiting_.reset();
  }
}

void AcmPort::attach_all() {
  attach_error_.reset();
  for (const auto& [mgid, mlid] : joined_) {
    const auto at = attached_.find(mgid);
    if (at != attached_.end() && at->second == mlid) {
      continue;
    }
    if (at != attached_.end()) {
      // The group has another LID now. That it could not be detached does no harm.
      static_cast<void>(endpoint_->detach(mgid, at->second));
      attached_.erase(at);
    }
    if (auto attached = endpoint_->attach(mgid, mlid); !attached) {
      attach_error_ = attached.error();
      continue;
    }
    attached_[mgid] = mlid;
  }
}

std::optional<Event> AcmPort::poll_event() {
  if (events_.empty()) {
    return std::nullopt;
  }
  const Event event = events_.front();
  events_.pop_front();
  return event;
}

std::optional<Instant> AcmPort::poll_timeout() const {
  Instant earliest = std::min(next_look_, notices_->poll_timeout());
  if (waiting_.has_value() || has_more_) {
    earliest = std::min(earliest, retry_send_);
  }
  for (const auto& at : {engine_->poll_timeout(), sa_->poll_timeout()}) {
    if (at.has_value()) {
      earliest = std::min(earliest, *at);
    }
  }
  return earliest;
}

Error AcmPort::explain(const PathUnresolved& unresolved) const {
  const std::string peer = to_text(unresolved.address);
  const auto name = info_.name();
  switch (unresolved.reason) {
    case UnresolvedReason::NotJoined:
      if (!info_.active) {
        return Error::make(Errc::NoSubnetManager,
                           "%s is %s, not ACTIVE: is the subnet manager (OpenSM) running?",
                           name.data(), info_.state);
      }
      if (!join_error_.has_value()) {
        return Error::make(Errc::NoSubnetManager,
                           "%s has not joined its multicast group yet: is "
                           "the subnet manager (OpenSM) running?",
                           name.data());
      }
      if (join_error_->is(Errc::Timeout)) {
        return Error::make(Errc::NoSubnetManager, "%.*s",
                           static_cast<int>(join_error_->what().size()),
                           join_error_->what().data());
      }
      return *join_error_;
    case UnresolvedReason::NoAnswer:
    case UnresolvedReason::Absent:
      for (const auto& error : {attach_error_, send_error_}) {
        if (error.has_value()) {
          return Error::make(Errc::PathUnresolved, "no path to %s: %.*s", peer.c_str(),
                             static_cast<int>(error->what().size()), error->what().data());
        }
      }
      return Error::make(Errc::PathUnresolved,
                         "%s %s on %s, P_Key 0x%04x: is its node up, in this partition, and "
                         "does it run wireup or ibacm?",
                         peer.c_str(),
                         unresolved.reason == UnresolvedReason::Absent
                             ? "was silent to ACM requests a moment ago"
                             : "does not answer ACM requests",
                         name.data(), table_pkey_.value());
    case UnresolvedReason::Refused:
      return Error::make(Errc::PathUnresolved, "%s refused an ACM request of %s", peer.c_str(),
                         name.data());
    case UnresolvedReason::OtherClass:
      return Error::make(Errc::PathUnresolved,
                         "%s has no multicast group of traffic class %u in common with %s: "
                         "give both the same ACM groups",
                         peer.c_str(), unresolved.traffic_class, name.data());
    case UnresolvedReason::NoRoute:
    case UnresolvedReason::RouteTimeout:
      if (query_error_.has_value()) {
        return Error::make(
            unresolved.reason == UnresolvedReason::NoRoute ? Errc::PathUnresolved : Errc::Timeout,
            "no path to %s, which is there: %.*s", peer.c_str(),
            static_cast<int>(query_error_->what().size()), query_error_->what().data());
      }
      return Error::make(Errc::PathUnresolved,
                         "no path to %s, which is there: the SA of %s did not answer, or gave a "
                         "path between other ports",
                         peer.c_str(), name.data());
  }
  return Error(Errc::Internal);
}

}  // namespace wireup::acm
