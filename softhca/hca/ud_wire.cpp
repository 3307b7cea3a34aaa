// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/hca/ud_wire.hpp"

#include <algorithm>

#include "softhca/fabric/random.hpp"
#include "softhca/hca/clock.hpp"
#include "softhca/hca/completion.hpp"
#include "softhca/hca/deliver.hpp"
#include "softhca/hca/multicast.hpp"
#include "softhca/hca/robust_lock.hpp"
#include "softhca/hca/runtime.hpp"

namespace softhca::hca {
namespace {

bool receives(std::uint32_t state) {
  return state == IBV_QPS_RTR || state == IBV_QPS_RTS || state == IBV_QPS_SQD ||
         state == IBV_QPS_SQE;
}

}  // namespace

void UdWire::send(Datagram& datagram, RouteCache& route) {
  Runtime& rt = *runtime_;
  rt.count(datagram.from, Counter::UdSent);
  if (datagram.multicast()) {
    rt.count(datagram.from, Counter::MulticastsSent);
  }
  count_cm_mad(rt.counters(), datagram.from, {datagram.payload.data(), datagram.length});
  UdFate fate = rt.faults().next_fate();
  std::uint64_t delay_ns = 0;
  const PortIndex to =
      datagram.multicast()
          ? kNoPort
          : route.resolve(rt.view(), datagram.from, datagram.dlid).value_or(kNoPort);
  if (fate.drop || !suffer_rules(datagram, to, fate.duplicate, fate.hold_back, delay_ns)) {
    rt.count(datagram.from, Counter::UdDroppedFault);
    return;
  }
  // Those held back longer go after this one: that is the reordering.
  const std::vector<Held> overtaken = take_overtaken();
  const Asynchrony mode = rt.faults().asynchrony();
  if (fate.hold_back) {
    rt.count(datagram.from, Counter::UdReorderedFault);
    hold(datagram, monotonic_ns() + hold_back_ns_, true);
  }
  if (fate.duplicate) {
    rt.count(datagram.from, Counter::UdDuplicatedFault);
  }
  for (int copies = (fate.hold_back ? 0 : 1) + (fate.duplicate ? 1 : 0); copies > 0; --copies) {
    if (delay_ns != 0) {
      hold(datagram, monotonic_ns() + delay_ns, false);
    } else if (mode.on) {
      hold(datagram, on_wire_until(datagram, mode), false);
    } else {
      deliver(datagram, route);
    }
  }
  for (const Held& held : overtaken) {
    RouteCache its_route;
    deliver(*held.datagram, its_route);
  }
}

bool UdWire::suffer_rules(Datagram& datagram, PortIndex to, bool& duplicate, bool& hold_back,
                          std::uint64_t& delay_ns) {
  Faults& faults = runtime_->faults();
  const Traffic traffic{
      .from = datagram.from, .to = to, .src_qpn = datagram.src_qpn, .dst_qpn = datagram.dest_qpn};
  if (faults.strike(RuleKind::UdDrop, traffic)) {
    return false;
  }
  duplicate = faults.strike(RuleKind::UdDuplicate, traffic).has_value() || duplicate;
  hold_back = faults.strike(RuleKind::UdReorder, traffic).has_value() || hold_back;
  if (const auto rule = faults.strike(RuleKind::UdDelay, traffic)) {
    delay_ns = std::uint64_t{rule->delay_us} * 1000;
  }
  if (datagram.length != 0) {
    if (const auto rule = faults.strike(RuleKind::UdCorrupt, traffic)) {
      const std::uint64_t bit = mix(mix(rule->seed) ^ rule->value) % (datagram.length * 8ULL);
      datagram.payload[bit / 8] ^= static_cast<std::uint8_t>(1U << (bit % 8));
    }
  }
  return true;
}

void UdWire::hold(const Datagram& datagram, std::uint64_t until, bool overtakable) {
  {
    const std::lock_guard lock(mutex_);
    held_.push_back({until, overtakable, std::make_unique<Datagram>(datagram)});
  }
  runtime_->pending().schedule(*this, until);
}

/// When a datagram that takes its time arrives: not before those that the same queue pair has sent
/// to the same port, since a path keeps their order.
std::uint64_t UdWire::on_wire_until(const Datagram& datagram, const Asynchrony& mode) {
  const std::uint32_t hca = runtime_->ports().port(datagram.from).hca_index;
  const std::lock_guard lock(mutex_);
  std::uint64_t until =
      monotonic_ns() + drawn_delay_ns(mode, Wait::Wire, hca, datagram.src_qpn, delays_drawn_++);
  for (const Held& held : held_) {
    if (!held.overtakable && held.datagram->src_slot == datagram.src_slot &&
        held.datagram->dlid == datagram.dlid) {
      until = std::max(until, held.until);
    }
  }
  return until;
}

std::vector<UdWire::Held> UdWire::take_overtaken() {
  std::vector<Held> taken;
  const std::lock_guard lock(mutex_);
  for (Held& held : held_) {
    if (held.overtakable) {
      taken.push_back(std::move(held));
    }
  }
  std::erase_if(held_, [](const Held& held) { return held.datagram == nullptr; });
  return taken;
}

/// Those that are due, in the order in which they are.
std::vector<UdWire::Held> UdWire::take_due(std::uint64_t now) {
  std::vector<Held> taken;
  {
    const std::lock_guard lock(mutex_);
    for (Held& held : held_) {
      if (held.until <= now) {
        taken.push_back(std::move(held));
      }
    }
    std::erase_if(held_, [](const Held& held) { return held.datagram == nullptr; });
  }
  std::stable_sort(taken.begin(), taken.end(),
                   [](const Held& a, const Held& b) { return a.until < b.until; });
  return taken;
}

std::optional<std::uint64_t> UdWire::progress(std::uint64_t now) {
  for (const Held& held : take_due(now)) {
    RouteCache route;
    deliver(*held.datagram, route);
  }
  const std::lock_guard lock(mutex_);
  std::optional<std::uint64_t> next;
  for (const Held& held : held_) {
    next = std::min(next.value_or(held.until), held.until);
  }
  return next;
}

void UdWire::flush() {
  for (const Held& held : take_due(~std::uint64_t{0})) {
    RouteCache route;
    deliver(*held.datagram, route);
  }
}

void UdWire::deliver(const Datagram& datagram, RouteCache& route) {
  if (datagram.multicast()) {
    deliver_multicast(datagram);
    return;
  }
  const auto port = route.resolve(runtime_->view(), datagram.from, datagram.dlid);
  if (!port) {
    runtime_->count(datagram.from, Counter::UdDroppedNoRoute);
    return;
  }
  deliver_to_port(datagram, *port);
}

void UdWire::deliver_multicast(const Datagram& datagram) {
  if (!datagram.has_grh) {
    runtime_->count(datagram.from, Counter::UdDroppedNoRoute);
    return;
  }
  std::vector<PortIndex> ports;
  runtime_->view().multicast(datagram.from, datagram.dlid, ports);
  std::vector<std::uint32_t> slots;
  for (const PortIndex port : ports) {
    // A rule that names a destination is about what arrives there; the others were asked already.
    const Traffic arriving{.from = datagram.from,
                           .to = port,
                           .src_qpn = datagram.src_qpn,
                           .dst_qpn = datagram.dest_qpn,
                           .arriving = true};
    if (runtime_->faults().strike(RuleKind::UdDrop, arriving)) {
      runtime_->count(port, Counter::UdDroppedFault);
      continue;
    }
    slots.clear();
    attached_qps(runtime_->registry(), runtime_->ports().port(port).hca_index, datagram.dgid(),
                 datagram.dlid, slots);
    for (const std::uint32_t slot : slots) {
      deliver_to_qp(datagram, port, slot);
    }
  }
}

void UdWire::deliver_to_port(const Datagram& datagram, PortIndex port) {
  const PortAttr& there = runtime_->ports().port(port);
  if (datagram.has_grh) {
    // Addressed to another GID than one of the port's, it is not for it.
    const auto* const last = there.gids.begin() + there.gid_count % (kMaxGids + 1);
    if (std::find(there.gids.begin(), last, datagram.dgid()) == last) {
      runtime_->count(port, Counter::UdDroppedNoRoute);
      return;
    }
  }
  const std::uint32_t slot = runtime_->registry().find_qp(there.hca_index, datagram.dest_qpn);
  if (slot == kNone) {
    runtime_->count(port, Counter::UdDroppedNoRoute);
    return;
  }
  deliver_to_qp(datagram, port, slot);
}

void UdWire::deliver_to_qp(const Datagram& datagram, PortIndex port, std::uint32_t slot) {
  Runtime& rt = *runtime_;
  const Registry& registry = rt.registry();
  QpRecord& qp = registry.qp(slot);
  RobustGuard guard(qp.rx_lock, registry.processes(), rt.token());
  const std::uint32_t owner = qp.owner.load(std::memory_order_acquire);
  const PortAttr& at_port = rt.ports().port(port);
  const bool addressed =
      datagram.multicast() ? true : qp.hca == at_port.hca_index && qp.qpn == datagram.dest_qpn;
  if (owner == 0 || qp.type != IBV_QPT_UD || !addressed || qp.path.port_index != port ||
      !receives(qp.state.load(std::memory_order_relaxed))) {
    rt.count(port, Counter::UdDroppedNoRoute);
    return;
  }
  const bool own = slot == datagram.src_slot &&
                   qp.generation.load(std::memory_order_relaxed) == datagram.src_generation;
  if (datagram.multicast() && own && qp.block_self_multicast != 0) {
    return;
  }
  if (qp.qkey != datagram.qkey || qp.path.pkey_index >= at_port.pkey_count ||
      !pkeys_match(at_port.pkeys[qp.path.pkey_index % kMaxPkeys], datagram.pkey)) {
    rt.count(port, Counter::UdDroppedKey);
    return;
  }
  if (rt.living_pid(owner, datagram.length == 0 ? Belief::None : Belief::Usual) == 0) {
    rt.count(port, Counter::UdDroppedNoRoute);
    return;
  }
  TakenRecv taken;
  if (take_recv(registry, rt.token(), slot, kGrhBytes + datagram.length, taken) != Take::Taken) {
    rt.count(port, Counter::UdDroppedNoReceive);
    return;
  }
  Cqe entry = recv_completion(qp, slot, taken, IBV_WC_SUCCESS);
  const auto scatter = scatter_list(registry, qp, taken);
  if (!scatter) {
    entry.status = IBV_WC_LOC_PROT_ERR;
    entry.solicited = 1;
    push_completion(registry, rt.token(), qp.recv_cq, owner, entry);
    fail_responder(registry, rt.token(), slot, std::nullopt);
    return;
  }
  SegmentList gather;
  if (datagram.has_grh) {
    gather.add(reinterpret_cast<std::uint64_t>(datagram.grh.data()), kGrhBytes);
  }
  gather.add(reinterpret_cast<std::uint64_t>(datagram.payload.data()), datagram.length);
  // Without a GRH its 40 bytes stay as they are.
  const CopyResult copied =
      rt.memory().write(owner, gather, datagram.has_grh ? *scatter : scatter->skip(kGrhBytes));
  if (copied != CopyResult::Ok || !guard.held()) {
    rt.count(port, Counter::UdDroppedNoReceive);
    if (copied == CopyResult::RemoteFault) {
      entry.status = IBV_WC_LOC_PROT_ERR;
      push_completion(registry, rt.token(), qp.recv_cq, owner, entry);
    } else if (guard.held() && taken.srq == kNone) {
      qp.rq_taken.store(taken.counter, std::memory_order_release);
    }
    return;
  }
  entry.byte_len = kGrhBytes + datagram.length;
  entry.src_qp = datagram.src_qpn;
  entry.slid = datagram.slid;
  entry.sl = datagram.sl;
  entry.dlid_path_bits = static_cast<std::uint8_t>(
      datagram.multicast() ? 0 : datagram.dlid & ((1U << at_port.lmc) - 1U));
  entry.pkey_index = qp.path.pkey_index;
  entry.wc_flags = datagram.has_grh ? IBV_WC_GRH : 0;
  if (datagram.has_imm) {
    entry.wc_flags |= IBV_WC_WITH_IMM;
    entry.imm_data = datagram.imm_data;
  }
  entry.solicited = datagram.solicited ? 1 : 0;
  push_completion(registry, rt.token(), qp.recv_cq, owner, entry);
  rt.count(port, Counter::UdReceived);
  if (datagram.multicast()) {
    rt.count(port, Counter::MulticastsReceived);
  }
}

}  // namespace softhca::hca
