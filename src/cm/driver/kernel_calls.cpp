// SPDX-License-Identifier: BSD-3-Clause
// The engine's messages as calls.
#include <algorithm>
#include <memory>
#include <variant>

#include "cm/driver/kernel_carrier.hpp"

namespace wireup::cm {
namespace {

template <std::size_t N>
bool is_empty(const std::array<std::uint8_t, N>& private_data) noexcept {
  return trimmed(private_data).empty();
}

}  // namespace

Result<> KernelCarrier::send(const Transmit& transmit, Instant now) {
  const auto message = mad::parse_cm(transmit.bytes);
  if (!message) {
    return fail(message.error());
  }
  if (const auto* req = std::get_if<mad::Req>(&*message)) {
    return take(transmit.to, *req, now);
  }
  if (const auto* rep = std::get_if<mad::Rep>(&*message)) {
    return take(*rep, now);
  }
  if (const auto* rtu = std::get_if<mad::Rtu>(&*message)) {
    take(*rtu);
  } else if (const auto* rej = std::get_if<mad::Rej>(&*message)) {
    take(*rej);
  } else if (const auto* mra = std::get_if<mad::Mra>(&*message)) {
    take(*mra, now);
  } else if (const auto* dreq = std::get_if<mad::Dreq>(&*message)) {
    take(transmit.to, *dreq, now);
  } else if (const auto* drep = std::get_if<mad::Drep>(&*message)) {
    take(*drep, now);
  } else {
    return fail(Error::make(Errc::Unsupported, "the kernel's CM carries no %s of ours",
                            mad::cm_kind_name(mad::kind_of(*message)).data()));
  }
  return {};
}

Result<> KernelCarrier::take(const Address& to, const mad::Req& req, Instant now) {
  if (links_.find_ours(req.local_comm_id) != nullptr) {
    return {};  // the kernel repeats it by itself
  }
  if (auto fits = check(req, options_.medium); !fits) {
    refuse(to, req, fits.error());
    return fits;
  }
  const auto id = kernel_.create(options_.medium == Medium::Roce ? rdmacm::KernelCm::Space::Ip
                                                                 : rdmacm::KernelCm::Space::Ib);
  if (!id) {
    refuse(to, req, id.error());
    return {};
  }
  Link& link = links_.add(*id, LinkPhase::Address);
  links_.name_ours(link, req.local_comm_id);
  link.tid = req.tid;
  link.our_qpn = req.local_qpn;
  link.peer = to;
  link.their_guid = req.primary.remote_gid.interface_id();
  link.req = std::make_unique<mad::Req>(req);
  links_.set_deadline(link, now + options_.resolve_limit);
  const KernelEnds ends = ends_of(req, options_.medium, options_.scope_id);
  if (auto asked =
          kernel_.resolve_address(link.id, ends.source, ends.destination, options_.resolve_limit);
      !asked) {
    fail_link(link, asked.error());
  }
  return {};
}

void KernelCarrier::refuse(const Address& to, const mad::Req& req, const Error& error) {
  Link link;
  link.ours = req.local_comm_id;
  link.tid = req.tid;
  link.our_qpn = req.local_qpn;
  link.peer = to;
  // Ends no id: there is none.
  fail_link(link, error);
}

Result<> KernelCarrier::take(const mad::Rep& rep, Instant now) {
  Link* const link = links_.find_theirs(rep.remote_comm_id);
  if (link == nullptr || link->phase != LinkPhase::Offered) {
    return {};  // repeated, or of a request that has ended, of which the engine hears
  }
  links_.name_ours(*link, rep.local_comm_id);
  link->our_qpn = rep.local_qpn;
  if (auto fits = check(rep); !fits) {
    fail_link(*link, fits.error());
    return fits;
  }
  enter(*link, LinkPhase::Reply, now + options_.answer_limit);
  if (auto accepted = kernel_.accept(link->id, values_of(rep)); !accepted) {
    fail_link(*link, accepted.error());
  }
  return {};
}

void KernelCarrier::take(const mad::Rtu& rtu) {
  Link* const link = links_.find_theirs(rtu.remote_comm_id);
  if (link == nullptr || link->phase != LinkPhase::Answered) {
    return;
  }
  if (!is_empty(rtu.private_data)) {
    ++counters_.private_data_lost;
  }
  enter(*link, LinkPhase::Established, std::nullopt);
  if (auto done = kernel_.establish(link->id); !done) {
    fail_link(*link, done.error());
  }
}

void KernelCarrier::take(const mad::Rej& rej) {
  Link* link = links_.find_theirs(rej.remote_comm_id);
  if (link == nullptr) {
    link = links_.find_ours(rej.local_comm_id);
  }
  if (link == nullptr) {
    return;
  }
  const bool has_message = link->phase == LinkPhase::Request ||
                           link->phase == LinkPhase::Answered ||
                           link->phase == LinkPhase::Offered || link->phase == LinkPhase::Reply;
  if (has_message) {
    const bool ece =
        rej.reason == static_cast<std::uint16_t>(mad::RejReason::VendorOptionNotSupported);
    if (!ece && rej.reason != static_cast<std::uint16_t>(mad::RejReason::ConsumerReject)) {
      ++counters_.reasons_lost;
    }
    // Where this fails, the kernel refuses when the id is destroyed.
    static_cast<void>(kernel_.reject(link->id, trimmed(rej.private_data), ece));
  }
  end(*link);
}

void KernelCarrier::take(const mad::Mra& mra, Instant now) {
  Link* const link = links_.find_theirs(mra.remote_comm_id);
  if (link != nullptr &&
      (link->phase == LinkPhase::Offered || link->phase == LinkPhase::Answered)) {
    const Instant promised = now + mra.service_timeout.duration();
    links_.set_deadline(*link, std::max(link->deadline.value_or(promised), promised));
  }
}

void KernelCarrier::take(const Address& to, const mad::Dreq& dreq, Instant now) {
  Link* const link = links_.find_theirs(dreq.remote_comm_id);
  if (link != nullptr && (link->phase == LinkPhase::Leaving || link->phase == LinkPhase::Left)) {
    return;  // repeated; or it crossed with the peer's, which the engine is about to answer
  }
  if (!is_empty(dreq.private_data)) {
    ++counters_.private_data_lost;
  }
  if (link != nullptr && link->phase != LinkPhase::Resting) {
    link->tid = dreq.tid;
    enter(*link, LinkPhase::Leaving, now + options_.release_limit);
    if (kernel_.disconnect(link->id)) {
      return;
    }
  }
  // The kernel knows no such connection any more: nobody else would answer.
  mad::Drep drep;
  drep.tid = dreq.tid;
  drep.local_comm_id = dreq.remote_comm_id;
  drep.remote_comm_id = dreq.local_comm_id;
  deliver(to, mad::serialize(drep));
  if (link != nullptr && link->phase == LinkPhase::Leaving) {
    end(*link);
  }
}

void KernelCarrier::take(const mad::Drep& drep, Instant now) {
  Link* const link = links_.find_theirs(drep.remote_comm_id);
  if (link == nullptr || link->phase != LinkPhase::Left) {
    return;
  }
  if (!is_empty(drep.private_data)) {
    ++counters_.private_data_lost;
  }
  enter(*link, LinkPhase::Resting, now + options_.rest_limit);
  if (!kernel_.disconnect(link->id)) {
    end(*link);
  }
}

}  // namespace wireup::cm
