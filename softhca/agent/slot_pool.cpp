// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/agent/slot_pool.hpp"

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <utility>

#include "softhca/agent/log.hpp"

namespace softhca {
namespace {

constexpr std::chrono::seconds kRest{1};

/// Names by which ibsim may know a node: the id that ibnetdiscover gives a channel adapter, then
/// the NodeDescription.
std::vector<std::string> candidate_names(const FabricView& view, const PortAttr& port) {
  char guid[32];
  std::snprintf(guid, sizeof guid, "H-%016" PRIx64, port.node_guid);
  std::vector<std::string> names = {guid};
  for (const HcaInfo& hca : view.all_hcas()) {
    if (hca.node_guid == port.node_guid) {
      names.push_back(hca.description);
      names.push_back(hca.host);
    }
  }
  return names;
}

}  // namespace

SlotPool::Slot* SlotPool::acquire(const FabricView& view, PortIndex port, Clock::time_point now,
                                  bool may_move, bool& wait) {
  wait = false;
  const std::uint64_t node = view.brief(port).node_guid;
  Slot* unused = nullptr;
  Slot* idle = nullptr;
  for (Slot& slot : slots_) {
    const bool attached = slot.link != nullptr && slot.link->attached();
    if (slot.owner != kNoPort && !(attached && slot.link->node_guid() == node)) {
      continue;
    }
    if (attached && slot.link->node_guid() == node) {
      const bool own = slot.owner != kNoPort;
      if (slot.awaited.size() < (own ? kMaxAwaitedOwn : kMaxAwaited)) {
        slot.used = now;
        return &slot;
      }
      wait = true;
      return nullptr;
    }
    if (!attached) {
      if (slot.broken_until <= now && unused == nullptr) {
        unused = &slot;
      }
      continue;
    }
    const bool busy = std::any_of(slot.awaited.begin(), slot.awaited.end(),
                                  [now](const auto& entry) { return now - entry.second < kHold; });
    if (busy) {
      wait = true;
    } else if (idle == nullptr || slot.used < idle->used) {
      idle = &slot;
    }
  }
  if (!may_move) {
    wait = true;
    return nullptr;
  }
  for (Slot* slot : {unused, idle}) {
    if (slot != nullptr && move(*slot, view, port, now)) {
      wait = false;
      return slot;
    }
  }
  return nullptr;
}

bool SlotPool::move(Slot& slot, const FabricView& view, PortIndex port, Clock::time_point now) {
  slot.awaited.clear();
  if (slot.link == nullptr) {
    slot.link = IbsimSlot::open(base_, journal_);
    if (slot.link == nullptr) {
      slot.broken_until = now + kRest;
      return false;
    }
  }
  const PortAttr attr = view.port(port);
  const auto known = names_.find(attr.node_guid);
  const std::vector<std::string> names =
      known != names_.end() ? std::vector<std::string>{known->second} : candidate_names(view, attr);
  int error = 0;
  for (const std::string& name : names) {
    const std::uint64_t known_guid = known != names_.end() ? attr.node_guid : 0;
    if (!slot.link->attach(name, known_guid)) {
      error = errno;
      continue;
    }
    if (slot.link->node_guid() == attr.node_guid) {
      names_[attr.node_guid] = name;
      slot.used = now;
      return true;
    }
    slot.link->detach();
    error = ENOENT;
  }
  names_.erase(attr.node_guid);
  log_limited(
      "cannot attach to node %016" PRIx64 " in ibsim: %s; requests from it are lost",
      attr.node_guid,
      error == ENOSPC ? "unknown there, or all 10 client slots are taken" : std::strerror(error));
  if (error == ECONNREFUSED || error == ENOTCONN) {
    slot.link.reset();
  }
  slot.broken_until = now + kRest;
  return false;
}

SlotPool::Slot* SlotPool::own_slot(const FabricView& view, PortIndex port) {
  const std::uint64_t node = view.brief(port).node_guid;
  for (Slot& slot : slots_) {
    if (slot.owner != kNoPort && slot.link != nullptr && slot.link->attached() &&
        slot.link->node_guid() == node) {
      return &slot;
    }
  }
  return nullptr;
}

bool SlotPool::keep_slot(const FabricView& view, PortIndex port, Clock::time_point now) {
  if (own_slot(view, port) != nullptr) {
    return true;
  }
  Slot& slot = slots_.emplace_back();
  slot.owner = port;
  if (move(slot, view, port, now)) {
    return true;
  }
  slots_.pop_back();
  return false;
}

void SlotPool::release_slot(PortIndex port) {
  for (auto slot = slots_.begin() + static_cast<std::ptrdiff_t>(movable_); slot != slots_.end();
       ++slot) {
    if (slot->owner == port) {
      if (slot->is_sm && slot->link != nullptr) {
        slot->link->set_is_sm(false);
      }
      slots_.erase(slot);
      return;
    }
  }
}

void SlotPool::set_is_sm(const FabricView& view, PortIndex port, bool is_sm) {
  Slot* slot = own_slot(view, port);
  if (slot != nullptr && slot->is_sm != is_sm && slot->link->set_is_sm(is_sm)) {
    slot->is_sm = is_sm;
  }
}

void SlotPool::forget(std::uint32_t transaction) {
  for (Slot& slot : slots_) {
    slot.awaited.erase(transaction);
  }
}

}  // namespace softhca
