// SPDX-License-Identifier: BSD-3-Clause
// A registered memory region of this process.
#pragma once

#include <cstdint>
#include <memory>

#include "softhca/hca/layout.hpp"

namespace softhca::hca {

class Runtime;

struct RegionSpec {
  std::uint32_t pd = 0;
  std::uint64_t address = 0;
  std::uint64_t length = 0;
  std::uint64_t iova = 0;
  std::uint32_t access = 0;

  bool operator==(const RegionSpec&) const = default;
};

class MemoryRegion {
 public:
  /// nullptr with `error`: EINVAL (access flags: remote write and atomic need local write), ENOMEM
  /// (RLIMIT_MEMLOCK, or no slot left), EFAULT (the range is not mapped, or not writable although
  /// the access asks for it). Like pinning, it faults the pages in.
  static std::unique_ptr<MemoryRegion> create(Runtime& runtime, const RegionSpec& spec, int& error);

  MemoryRegion(const MemoryRegion&) = delete;
  MemoryRegion& operator=(const MemoryRegion&) = delete;

  /// Takes back the key and waits until no access under way uses it any more.
  ~MemoryRegion();

  [[nodiscard]] std::uint32_t key() const { return key_; }
  [[nodiscard]] const RegionSpec& spec() const { return spec_; }

  /// Registers anew: with the same key when nothing but the access changes, with another one
  /// otherwise. 0, or an error as of create(); then nothing has changed.
  int change(const RegionSpec& spec);

 private:
  MemoryRegion(Runtime& runtime, std::uint32_t slot) : runtime_(&runtime), slot_(slot) {}
  static int pin(Runtime& runtime, const RegionSpec& spec);
  void publish(const RegionSpec& spec, bool keep_key);
  void withdraw();

  Runtime* runtime_;
  std::uint32_t slot_;
  std::uint32_t key_ = 0;
  RegionSpec spec_;
};

}  // namespace softhca::hca
