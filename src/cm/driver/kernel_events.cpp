// SPDX-License-Identifier: BSD-3-Clause
// The kernel's events as messages for the engine.
#include <algorithm>
#include <cerrno>

#include "cm/driver/kernel_carrier.hpp"

namespace wireup::cm {
namespace {

using rdmacm::CmEvent;
using rdmacm::CmEventKind;

/// What an event of failure says.
Error error_of(const CmEvent& event) noexcept {
  const int number = event.status < 0 ? -event.status : 0;
  switch (event.kind) {
    case CmEventKind::AddressError:
      return Error::system(number == ETIMEDOUT ? Errc::Timeout : Errc::PathUnresolved, number,
                           "the kernel's CM found no local port for the peer's address");
    case CmEventKind::RouteError:
      return Error::system(number == ETIMEDOUT ? Errc::Timeout : Errc::PathUnresolved, number,
                           "the kernel's CM does not take the path to the peer");
    case CmEventKind::Unreachable:
      return Error::system(Errc::Timeout, number,
                           "the peer's CM did not answer the kernel's messages");
    case CmEventKind::DeviceRemoval:
      return Error::make(Errc::NoResources, "the device was removed (kernel CM)");
    case CmEventKind::TimewaitExit:
      return Error::make(Errc::NoResources, "the kernel's CM has ended the connection");
    case CmEventKind::ConnectError:
    default:
      return Error::system(Errc::NoResources, number,
                           "the kernel's CM could not make the connection");
  }
}

}  // namespace

Result<bool> KernelCarrier::take_event(Instant now) {
  const auto event = kernel_.poll_event();
  if (!event) {
    return fail(event.error());
  }
  if (!event->has_value()) {
    return false;
  }
  handle(**event, now);
  return true;
}

void KernelCarrier::handle(const CmEvent& event, Instant now) {
  if (event.kind == CmEventKind::ConnectRequest) {
    on_request(event, now);
    return;
  }
  if (event.id == listener_) {
    on_listener(event);
    return;
  }
  Link* const link = links_.find(event.id);
  if (link == nullptr) {
    return;
  }
  switch (event.kind) {
    case CmEventKind::AddressResolved:
    case CmEventKind::RouteResolved:
      on_resolved(*link, event, now);
      return;
    case CmEventKind::ConnectResponse:
      on_reply(*link, event, now);
      return;
    case CmEventKind::Rejected:
      on_rejected(*link, event);
      return;
    case CmEventKind::Established:
      on_established(*link);
      return;
    case CmEventKind::Disconnected:
      on_disconnected(*link, event, now);
      return;
    case CmEventKind::AddressError:
    case CmEventKind::RouteError:
    case CmEventKind::ConnectError:
    case CmEventKind::Unreachable:
    case CmEventKind::DeviceRemoval:
    case CmEventKind::TimewaitExit:
      on_error(*link, event);
      return;
    case CmEventKind::ConnectRequest:
    case CmEventKind::Other:
      return;
  }
}

void KernelCarrier::on_request(const CmEvent& event, Instant now) {
  const Address from = source_of(event, options_.medium);
  const bool has_way_back =
      !from.dgid.is_zero() && (options_.medium == Medium::Roce || event.path.has_value());
  if (!has_way_back || !service_id_.has_value()) {
    note(from, Qpn(),
         Error::make(Errc::Malformed, "the kernel's CM tells no path of a request from %s",
                     to_text(from.dgid).data()));
    kernel_.destroy(event.id);
    return;
  }
  KernelDefaults defaults;
  defaults.medium = options_.medium;
  defaults.service_id = *service_id_;
  defaults.mtu = options_.mtu;
  mad::Req req = req_of(event, defaults);
  Link& link = links_.add(event.id, LinkPhase::Offered);
  links_.name_theirs(link);
  link.tid = next_tid();
  link.peer = from;
  link.their_guid = req.local_ca_guid;
  links_.set_deadline(link, now + options_.offer_limit);
  req.tid = link.tid;
  req.local_comm_id = link.theirs;
  deliver(from, mad::serialize(req));
}

void KernelCarrier::on_resolved(Link& link, const CmEvent& event, Instant now) {
  Result<> done;
  if (event.kind == CmEventKind::AddressResolved && link.phase == LinkPhase::Address) {
    enter(link, LinkPhase::Route, now + options_.resolve_limit);
    done = kernel_.set_path(link.id, path_of(*link.req, options_.medium));
  } else if (event.kind == CmEventKind::RouteResolved && link.phase == LinkPhase::Route) {
    enter(link, LinkPhase::Request, now + options_.answer_limit);
    done = kernel_.connect(link.id, values_of(*link.req));
    link.req.reset();
  }
  if (!done) {
    fail_link(link, done.error());
  }
}

void KernelCarrier::on_reply(Link& link, const CmEvent& event, Instant now) {
  if (link.phase != LinkPhase::Request) {
    return;
  }
  links_.name_theirs(link);
  enter(link, LinkPhase::Answered, now + options_.offer_limit);
  mad::Rep rep = rep_of(event, link.their_guid);
  rep.tid = link.tid;
  rep.local_comm_id = link.theirs;
  rep.remote_comm_id = link.ours;
  deliver(link.peer, mad::serialize(rep));
}

void KernelCarrier::on_rejected(Link& link, const CmEvent& event) {
  if (link.phase == LinkPhase::Request && is_abandoned(event)) {
    ++counters_.abandoned;
    end(link);
    return;
  }
  if (link.phase != LinkPhase::Left && link.phase != LinkPhase::Resting) {
    const bool is_reason = event.status > 0 && event.status <= 0xFFFF;
    mad::Rej rej =
        rej_for(link, is_reason ? static_cast<std::uint16_t>(event.status)
                                : static_cast<std::uint16_t>(mad::RejReason::NoResources));
    const auto bytes = trimmed(event.values.private_data.span());
    rej.private_data = mad::private_data<mad::Rej::kPrivateSize>(
        bytes.first(std::min(bytes.size(), mad::Rej::kPrivateSize)));
    deliver(link.peer, mad::serialize(rej));
  }
  end(link);
}

void KernelCarrier::on_established(Link& link) {
  if (link.phase != LinkPhase::Reply) {
    return;
  }
  enter(link, LinkPhase::Established, std::nullopt);
  mad::Rtu rtu;
  rtu.tid = link.tid;
  rtu.local_comm_id = link.theirs;
  rtu.remote_comm_id = link.ours;
  deliver(link.peer, mad::serialize(rtu));
}

void KernelCarrier::on_disconnected(Link& link, const CmEvent& event, Instant now) {
  switch (link.phase) {
    case LinkPhase::Established:
    case LinkPhase::Reply: {
      // The peer's DREQ; it has overtaken the RTU in Reply.
      enter(link, LinkPhase::Left, now + options_.release_limit);
      link.tid = next_tid();
      mad::Dreq dreq;
      dreq.tid = link.tid;
      dreq.local_comm_id = link.theirs;
      dreq.remote_comm_id = link.ours;
      dreq.remote_qpn = link.our_qpn;
      deliver(link.peer, mad::serialize(dreq));
      return;
    }
    case LinkPhase::Leaving: {
      // Of a DREQ that crossed with ours the peer awaits the DREP; where this is the DREP, the
      // kernel has nothing to send and says so.
      static_cast<void>(kernel_.disconnect(link.id));
      enter(link, LinkPhase::Resting, now + options_.rest_limit);
      if (event.status >= 0) {
        mad::Drep drep;
        drep.tid = link.tid;
        drep.local_comm_id = link.theirs;
        drep.remote_comm_id = link.ours;
        deliver(link.peer, mad::serialize(drep));
      }
      // Without an answer the engine's own deadline ends it.
      return;
    }
    case LinkPhase::Left:
    case LinkPhase::Resting:
      return;
    case LinkPhase::Address:
    case LinkPhase::Route:
    case LinkPhase::Request:
    case LinkPhase::Answered:
    case LinkPhase::Offered:
      fail_link(link, Error::make(Errc::NoResources,
                                  "the kernel's CM released the connection while it waited for %s",
                                  awaited(link.phase)));
      return;
  }
}

void KernelCarrier::on_error(Link& link, const CmEvent& event) {
  switch (link.phase) {
    case LinkPhase::Leaving:
    case LinkPhase::Left:
    case LinkPhase::Resting:
      end(link);
      return;
    case LinkPhase::Address:
    case LinkPhase::Route:
    case LinkPhase::Request:
    case LinkPhase::Answered:
    case LinkPhase::Offered:
    case LinkPhase::Reply:
    case LinkPhase::Established:
      fail_link(link, error_of(event));
      return;
  }
}

void KernelCarrier::on_listener(const CmEvent& event) {
  if (event.kind != CmEventKind::DeviceRemoval) {
    return;
  }
  note(Address{}, Qpn(), error_of(event));
  kernel_.destroy(listener_);
  listener_ = 0;
  service_id_.reset();
}

}  // namespace wireup::cm
