// SPDX-License-Identifier: BSD-3-Clause
#include "cm/driver/kernel_carrier.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <vector>

#include "base/bytes.hpp"

namespace wireup::cm {
namespace {

/// The reason of a REJ that fits a failure best.
mad::RejReason reason_of(const Error& error) noexcept {
  if (error.is(Errc::Timeout)) {
    return mad::RejReason::Timeout;
  }
  if (error.is(Errc::PathUnresolved)) {
    return mad::RejReason::PrimaryRemoteGid;
  }
  if (error.is(Errc::InvalidArgument) || error.is(Errc::Unsupported)) {
    return mad::RejReason::UnsupportedRequest;
  }
  return mad::RejReason::NoResources;
}

mad::RejOf refused_in(LinkPhase phase) noexcept {
  switch (phase) {
    case LinkPhase::Address:
    case LinkPhase::Route:
    case LinkPhase::Request:
      return mad::RejOf::Req;
    case LinkPhase::Reply:
      return mad::RejOf::Rep;
    case LinkPhase::Answered:
    case LinkPhase::Offered:
    case LinkPhase::Established:
    case LinkPhase::Leaving:
    case LinkPhase::Left:
    case LinkPhase::Resting:
      break;
  }
  return mad::RejOf::Other;
}

}  // namespace

Result<KernelCarrier> KernelCarrier::open(const Options& options, const rdmacm::Ops* ops) {
  auto kernel = rdmacm::KernelCm::open(options.device, ops);
  if (!kernel) {
    return fail(kernel.error());
  }
  return KernelCarrier(std::move(*kernel), options);
}

Result<ServiceId> KernelCarrier::listen(std::uint32_t number) {
  if (service_id_.has_value()) {
    return *service_id_;
  }
  const bool is_roce = options_.medium == Medium::Roce;
  std::vector<std::uint16_t> ports;
  if (!is_roce) {
    ports.push_back(preferred_port(number));
  }
  ports.push_back(0);
  Error last;
  for (const std::uint16_t port : ports) {
    const auto id =
        kernel_.create(is_roce ? rdmacm::KernelCm::Space::Ip : rdmacm::KernelCm::Space::Ib);
    if (!id) {
      return fail(id.error());
    }
    rdmacm::CmAddress address =
        rdmacm::IbAddress{options_.gid, options_.pkey, ServiceId(rdmacm::kIbPortSpace | port)};
    if (is_roce) {
      address = rdmacm::IpAddress{options_.gid, port, options_.scope_id};
    }
    const auto bound = kernel_.listen(*id, address, options_.backlog);
    if (bound) {
      listener_ = *id;
      service_id_ =
          is_roce ? ServiceId(rdmacm::kTcpPortSpace | std::get<rdmacm::IpAddress>(*bound).port)
                  : std::get<rdmacm::IbAddress>(*bound).service;
      return *service_id_;
    }
    kernel_.destroy(*id);
    last = bound.error();
    if (last.error_number() != EADDRINUSE && last.error_number() != EADDRNOTAVAIL) {
      break;
    }
  }
  return fail(last);
}

void KernelCarrier::handle_timeout(Instant now) {
  while (Link* const link = links_.due(now)) {
    switch (link->phase) {
      case LinkPhase::Leaving:
      case LinkPhase::Left:
      case LinkPhase::Resting:
        // The engine has deadlines of its own for a release.
        end(*link);
        break;
      case LinkPhase::Address:
      case LinkPhase::Route:
      case LinkPhase::Request:
      case LinkPhase::Answered:
      case LinkPhase::Offered:
      case LinkPhase::Reply:
      case LinkPhase::Established:
        fail_link(*link,
                  Error::make(Errc::Timeout, "the connection waited too long for %s (kernel CM)",
                              awaited(link->phase)));
        break;
    }
  }
}

std::optional<Instant> KernelCarrier::poll_timeout() const noexcept {
  if (!arrived_.empty()) {
    return Instant();
  }
  return links_.next_deadline();
}

void KernelCarrier::forget(CommId theirs) {
  Link* const link = links_.find_theirs(theirs);
  if (link == nullptr) {
    return;
  }
  if (link->phase == LinkPhase::Offered) {
    // Where this fails, the kernel refuses when the id is destroyed.
    static_cast<void>(kernel_.reject(link->id, abandoned_mark(), false));
  }
  end(*link);
}

Result<> KernelCarrier::notify_established(CommId theirs) {
  const Link* const link = links_.find_theirs(theirs);
  if (link == nullptr || link->phase != LinkPhase::Reply) {
    return {};
  }
  return kernel_.notify_established(link->id);
}

std::optional<KernelCarrier::Failure> KernelCarrier::poll_failure() {
  if (failures_.empty()) {
    return std::nullopt;
  }
  std::optional<Failure> next(failures_.front());
  failures_.pop_front();
  return next;
}

void KernelCarrier::enter(Link& link, LinkPhase phase, std::optional<Instant> deadline) {
  link.phase = phase;
  links_.set_deadline(link, deadline);
}

void KernelCarrier::end(Link& link) {
  const rdmacm::IdNumber id = link.id;
  kernel_.destroy(id);
  links_.remove(id);
}

void KernelCarrier::fail_link(Link& link, const Error& error) {
  ++counters_.failed;
  note(link.peer, link.our_qpn, error);
  deliver(link.peer, mad::serialize(rej_for(link, static_cast<std::uint16_t>(reason_of(error)))));
  end(link);
}

mad::Rej KernelCarrier::rej_for(const Link& link, std::uint16_t reason) const noexcept {
  mad::Rej rej;
  rej.tid = link.tid;
  rej.local_comm_id = link.theirs;
  rej.remote_comm_id = link.ours;
  rej.message = refused_in(link.phase);
  rej.reason = reason;
  if (link.ours.is_zero()) {
    // The engine has not answered the offer yet and is found by the sender's GUID, which goes with
    // this reason only (IBTA vol 1, 12.6.7.2).
    std::array<std::uint8_t, 8> guid{};
    store_be(guid, 0, guid.size(), link.their_guid.value());
    rej.reason = static_cast<std::uint16_t>(mad::RejReason::Timeout);
    rej.ari = *decltype(rej.ari)::make(guid);
  }
  return rej;
}

void KernelCarrier::deliver(const Address& from, const mad::Mad& bytes) {
  arrived_.push_back(Message{from, bytes});
}

void KernelCarrier::note(const Address& peer, Qpn local_qpn, const Error& error) {
  if (failures_.size() >= kMaxFailures) {
    failures_.pop_front();
  }
  failures_.push_back(Failure{peer, local_qpn, error});
}

}  // namespace wireup::cm
