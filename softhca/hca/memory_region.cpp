// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/hca/memory_region.hpp"

#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "softhca/hca/qp.hpp"
#include "softhca/hca/runtime.hpp"

namespace softhca::hca {
namespace {

constexpr std::uint32_t kKnownAccess =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
    IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_HUGETLB;

bool access_ok(std::uint32_t access) {
  const bool remote_change = (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) != 0;
  return (access & ~(kKnownAccess | static_cast<std::uint32_t>(IBV_ACCESS_OPTIONAL_RANGE))) == 0 &&
         (!remote_change || (access & IBV_ACCESS_LOCAL_WRITE) != 0);
}

std::uint64_t pages(const RegionSpec& spec) {
  return pages_of(spec.address, spec.length);
}

bool is_writable(const RegionSpec& spec) {
  return (spec.access & IBV_ACCESS_LOCAL_WRITE) != 0;
}

#ifndef MADV_POPULATE_READ
constexpr int MADV_POPULATE_READ = 22;
constexpr int MADV_POPULATE_WRITE = 23;
#endif

bool populate_range(std::uint64_t start, std::uint64_t end, int advice) {
  return ::syscall(SYS_madvise, start, end - start, advice) == 0;
}

/// A kernel before 5.14 cannot fault pages in on request. EINVAL would mean that, but also a range
/// that is not writable, so it is asked about memory that surely is there.
bool can_populate() {
  static const bool can = [] {
    alignas(4096) static std::array<std::uint8_t, 4096> page{};
    const auto start = reinterpret_cast<std::uint64_t>(page.data());
    return populate_range(start, start + page.size(), MADV_POPULATE_READ);
  }();
  return can;
}

/// Faults the pages in, as pinning would. False when they are not all there, or not writable
/// although the access asks for it.
bool populate(const RegionSpec& spec) {
  if (spec.length == 0 || !can_populate()) {
    return true;
  }
  return populate_range(spec.address & ~std::uint64_t{4095}, page_up(spec.address + spec.length),
                        is_writable(spec) ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
}

}  // namespace

int MemoryRegion::pin(Runtime& runtime, const RegionSpec& spec) {
  if (!access_ok(spec.access) || spec.address + spec.length < spec.address) {
    return EINVAL;
  }
  if (!runtime.memlock().charge(pages(spec))) {
    return ENOMEM;
  }
  if (!populate(spec)) {
    runtime.memlock().uncharge(pages(spec));
    return EFAULT;
  }
  return 0;
}

std::unique_ptr<MemoryRegion> MemoryRegion::create(Runtime& runtime, const RegionSpec& spec,
                                                   int& error) {
  runtime.memory().relay().offer();
  error = pin(runtime, spec);
  if (error != 0) {
    return nullptr;
  }
  std::uint32_t slot = runtime.take_slot(runtime.mr_slots());
  if (slot == 0) {
    // Slot 0 would give keys below 256, and a key of 0 is nobody's: it stays unused.
    slot = runtime.take_slot(runtime.mr_slots());
  }
  if (slot == kNone) {
    runtime.memlock().uncharge(pages(spec));
    error = ENOMEM;
    return nullptr;
  }
  auto region = std::unique_ptr<MemoryRegion>(new MemoryRegion(runtime, slot));
  region->publish(spec, false);
  return region;
}

void MemoryRegion::publish(const RegionSpec& spec, bool keep_key) {
  MrRecord& record = runtime_->registry().mr(slot_);
  record.pd = spec.pd;
  record.access = spec.access;
  record.address = spec.address;
  record.length = spec.length;
  record.iova = spec.iova;
  record.owner.store(runtime_->token());
  if (!keep_key) {
    record.generation = (record.generation + 1) & 0xFF;
    key_ = slot_ << 8 | record.generation;
  }
  spec_ = spec;
  runtime_->memory().registered().add(spec.address, spec.length, is_writable(spec));
  record.key.store(key_, std::memory_order_release);
}

void MemoryRegion::withdraw() {
  runtime_->registry().mr(slot_).key.store(0, std::memory_order_seq_cst);
  runtime_->for_each_qp([this](Qp& qp) {
    if (qp.pd() == spec_.pd) {
      qp.quiesce();
    }
  });
  runtime_->memory().registered().remove(spec_.address, spec_.length, is_writable(spec_));
  runtime_->memlock().uncharge(pages(spec_));
}

MemoryRegion::~MemoryRegion() {
  MrRecord& record = runtime_->registry().mr(slot_);
  std::uint32_t key = key_;
  if (record.owner.load() != runtime_->token() || record.key.load() != key) {
    runtime_->memlock().uncharge(pages(spec_));
    return;  // the process is exiting and has left the fabric
  }
  withdraw();
  record.owner.store(0);
  runtime_->mr_slots().give_back(slot_);
}

int MemoryRegion::change(const RegionSpec& spec) {
  const int error = pin(*runtime_, spec);
  if (error == 0) {
    RegionSpec as_before = spec;
    as_before.access = spec_.access;
    const bool keep_key = as_before == spec_;
    withdraw();
    publish(spec, keep_key);
  }
  return error;
}

}  // namespace softhca::hca
