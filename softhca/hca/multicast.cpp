// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/hca/multicast.hpp"

#include <algorithm>
#include <cerrno>

#include "softhca/hca/robust_lock.hpp"

namespace softhca::hca {
namespace {

std::uint32_t top_of(const Registry& registry) {
  return std::min(registry.header().attachments_top.load(std::memory_order_acquire),
                  kMaxAttachments);
}

bool is_for(const AttachRecord& record, const Registry& registry, std::uint32_t qp_slot) {
  return record.qp_slot == qp_slot &&
         record.qp_generation == registry.qp(qp_slot).generation.load(std::memory_order_relaxed);
}

bool is_group(const AttachRecord& record, const Gid& mgid, std::uint16_t mlid) {
  return record.mlid == mlid && record.mgid == mgid;
}

}  // namespace

int attach_multicast(const Registry& registry, std::uint32_t self, std::uint32_t qp_slot,
                     const Gid& mgid, std::uint16_t mlid) {
  RegistryHeader& header = registry.header();
  const RobustGuard guard(header.attach_lock, registry.processes(), self);
  std::uint32_t free = kNone;
  const std::uint32_t top = top_of(registry);
  for (std::uint32_t slot = 0; slot < top; ++slot) {
    const AttachRecord& record = registry.attachment(slot);
    if (record.owner.load(std::memory_order_relaxed) == 0) {
      free = std::min(free, slot);
    } else if (is_group(record, mgid, mlid) && is_for(record, registry, qp_slot)) {
      return 0;
    }
  }
  free = std::min(free, top);
  if (free >= kMaxAttachments) {
    return ENOSPC;
  }
  AttachRecord& record = registry.attachment(free);
  record.qp_slot = qp_slot;
  record.qp_generation = registry.qp(qp_slot).generation.load(std::memory_order_relaxed);
  record.hca = registry.qp(qp_slot).hca;
  record.mlid = mlid;
  record.mgid = mgid;
  record.owner.store(self, std::memory_order_release);
  if (free == top) {
    header.attachments_top.store(top + 1, std::memory_order_release);
  }
  return 0;
}

int detach_multicast(const Registry& registry, std::uint32_t self, std::uint32_t qp_slot,
                     const Gid& mgid, std::uint16_t mlid) {
  const RobustGuard guard(registry.header().attach_lock, registry.processes(), self);
  for (std::uint32_t slot = 0; slot < top_of(registry); ++slot) {
    AttachRecord& record = registry.attachment(slot);
    if (record.owner.load(std::memory_order_relaxed) == self && is_group(record, mgid, mlid) &&
        is_for(record, registry, qp_slot)) {
      record.owner.store(0, std::memory_order_release);
      return 0;
    }
  }
  return EINVAL;
}

void detach_all(const Registry& registry, std::uint32_t self, std::uint32_t qp_slot) {
  const RobustGuard guard(registry.header().attach_lock, registry.processes(), self);
  for (std::uint32_t slot = 0; slot < top_of(registry); ++slot) {
    AttachRecord& record = registry.attachment(slot);
    if (record.owner.load(std::memory_order_relaxed) == self && is_for(record, registry, qp_slot)) {
      record.owner.store(0, std::memory_order_release);
    }
  }
}

void attached_qps(const Registry& registry, std::uint32_t hca, const Gid& mgid, std::uint16_t mlid,
                  std::vector<std::uint32_t>& out) {
  const std::uint32_t top = top_of(registry);
  for (std::uint32_t slot = 0; slot < top; ++slot) {
    const AttachRecord& record = registry.attachment(slot);
    if (record.owner.load(std::memory_order_acquire) != 0 && record.hca == hca &&
        is_group(record, mgid, mlid) && record.qp_slot < kMaxQps &&
        is_for(record, registry, record.qp_slot)) {
      out.push_back(record.qp_slot);
    }
  }
}

}  // namespace softhca::hca
