// SPDX-License-Identifier: BSD-3-Clause
#include "cm/driver/gsi_carrier.hpp"

#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>

#include "base/clock.hpp"
#include "base/epoll.hpp"
#include "mad/cm.hpp"

namespace wireup::cm {
namespace {

/// When to offer a message again that the kernel did not take: it says nothing when it would.
constexpr long kRetryNanoseconds = 1'000'000;

Error class_is_taken(const GsiCarrier::Options& options, const Error& reason) {
  const bool by_kernel = ::access(options.kernel_cm.c_str(), F_OK) == 0;
  return Error::system(
      Errc::Busy, reason.error_number(), "CM over QP1 of %s port %u is taken, probably by %s%s",
      options.device.c_str(), options.port,
      by_kernel ? "the kernel's ib_cm, which is loaded: use the ud carrier, or unload ib_cm"
                : "another process, and only one can have it: use the ud carrier, or end the other",
      by_kernel ? " with all that needs it" : "");
}

/// What passes by itself: the kernel is out of memory, or a message with the same low half of the
/// transaction id (an MRA before its REP, the same answer twice) has not left yet, which it calls
/// invalid.
bool is_passing(const Error& error) noexcept {
  switch (error.error_number()) {
    case EINVAL:
    case EAGAIN:
    case ENOMEM:
    case ENOBUFS:
    case EINTR:
      return true;
    default:
      return false;
  }
}

}  // namespace

GsiCarrier::GsiCarrier(const Options& options, umad::Port port, UniqueFd epoll,
                       UniqueFd timer) noexcept
    : options_(options),
      port_(std::move(port)),
      epoll_(std::move(epoll)),
      timer_(std::move(timer)) {}

Result<GsiCarrier> GsiCarrier::open(const Options& options, const umad::Ops& ops) {
  umad::Port::Options port_options;
  port_options.device = options.device;
  port_options.port = options.port;
  port_options.mgmt_class = mad::MgmtClass::CommMgt;
  port_options.class_version = mad::kCmClassVersion;
  port_options.rmpp_version = 0;
  // All of CM, and the question for the ClassPortInfo.
  port_options.unsolicited = {mad::Method::Send, mad::Method::Get};
  auto port = umad::Port::open(port_options, ops);
  if (!port) {
    return fail(port.error().is(Errc::Busy) ? class_is_taken(options, port.error()) : port.error());
  }
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  UniqueFd timer(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  if (!epoll.is_open() || !timer.is_open() || !watch_readable(epoll, port->fd()) ||
      !watch_readable(epoll, timer.value())) {
    return fail(Error::system(Errc::NoResources, errno,
                              "making the descriptor of CM over QP1 of %s port %u",
                              options.device.c_str(), options.port));
  }
  return GsiCarrier(options, std::move(*port), std::move(epoll), std::move(timer));
}

Result<> GsiCarrier::send(const Transmit& transmit) {
  if (waiting_.empty()) {
    auto sent = send_now(transmit);
    if (sent || !is_passing(sent.error())) {
      return sent;
    }
    ++counters_.delayed;
  }
  if (waiting_.size() >= options_.max_waiting) {
    ++overflows_;
    return {};
  }
  waiting_.push_back({transmit, monotonic_now() + options_.patience});
  set_timer(kRetryNanoseconds);
  return {};
}

Result<> GsiCarrier::send_now(const Transmit& transmit) {
  const Address& to = transmit.to;
  umad::MadAddress address;
  address.lid = to.dlid;
  address.qpn = to.qpn;
  address.sl = to.sl;
  address.pkey_index =
      to.pkey_index == Address::kCarriersPKey ? options_.pkey_index : to.pkey_index;
  address.path_bits = to.path_bits;
  address.has_grh = to.has_grh;
  if (to.has_grh) {
    address.gid_index = options_.gid_index;
    address.gid = to.dgid;
    address.flow_label = to.flow_label;
    address.hop_limit = to.hop_limit;
    address.traffic_class = to.traffic_class;
  }
  auto sent = port_.send_once(address, transmit.bytes);
  if (sent) {
    ++counters_.sent;
  } else if (!is_passing(sent.error())) {
    ++counters_.failed;
  }
  return sent;
}

/// Offers everything once, in order. One that is not taken does not hold up the others: it may be
/// refused for a reason of its own.
void GsiCarrier::flush() {
  if (waiting_.empty()) {
    return;
  }
  const Instant now = monotonic_now();
  std::deque<Waiting> kept;
  for (const Waiting& each : waiting_) {
    const auto sent = send_now(each.transmit);
    if (sent || !is_passing(sent.error())) {
      continue;
    }
    if (now < each.until) {
      kept.push_back(each);
    } else {
      ++counters_.failed;
    }
  }
  waiting_ = std::move(kept);
  set_timer(waiting_.empty() ? 0 : kRetryNanoseconds);
}

/// Makes fd() readable after a while; 0: not again.
void GsiCarrier::set_timer(long nanoseconds) noexcept {
  itimerspec soon{};
  soon.it_value.tv_nsec = nanoseconds;
  // It can fail only for arguments that are not these.
  static_cast<void>(::timerfd_settime(timer_.value(), 0, &soon, nullptr));
}

bool GsiCarrier::is_message(const umad::ReceivedMad& received) noexcept {
  if (received.status != 0 || received.bytes.size() != mad::kMadSize) {
    ++counters_.ignored;
    return false;
  }
  ++counters_.received;
  return true;
}

Address GsiCarrier::source_of(const umad::MadAddress& mad) noexcept {
  Address from;
  from.dlid = mad.lid;
  from.pkey_index = mad.pkey_index;
  from.qpn = mad.qpn;
  from.sl = mad.sl;
  from.path_bits = mad.path_bits;
  from.has_grh = mad.has_grh;
  if (mad.has_grh) {
    from.dgid = mad.gid;
    from.flow_label = mad.flow_label;
    from.hop_limit = Address::kAnswerHopLimit;
    from.traffic_class = mad.traffic_class;
  }
  return from;
}

}  // namespace wireup::cm
