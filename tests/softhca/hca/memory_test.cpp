// SPDX-License-Identifier: BSD-3-Clause
// Memory regions, RLIMIT_MEMLOCK, and gathering and scattering.
#include "softhca/hca/memory.hpp"

#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "softhca/hca/memlock.hpp"
#include "softhca/hca/mr_table.hpp"
#include "softhca/hca/rig.hpp"

namespace softhca::test {
namespace {

using hca::SegmentList;

TEST(SegmentLists, SkipAndFirst) {
  SegmentList list;
  ASSERT_TRUE(list.add(1000, 10));
  ASSERT_TRUE(list.add(5000, 0));
  ASSERT_TRUE(list.add(2000, 20));
  EXPECT_EQ(list.total(), 30U);
  ASSERT_EQ(list.segments().size(), 2U);
  const SegmentList rest = list.skip(15);
  ASSERT_EQ(rest.segments().size(), 1U);
  EXPECT_EQ(rest.segments()[0].address, 2005U);
  EXPECT_EQ(rest.total(), 15U);
  const SegmentList start = list.first(12);
  ASSERT_EQ(start.segments().size(), 2U);
  EXPECT_EQ(start.segments()[1].length, 2U);
}

TEST(Copying, StopsAtTheShorterListAndTellsWhoseMemoryIsMissing) {
  const auto pid = static_cast<std::uint32_t>(::getpid());
  std::array<char, 8> from{'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'};
  std::array<char, 8> to{};
  SegmentList local;
  SegmentList remote;
  local.add(reinterpret_cast<std::uint64_t>(from.data()), 3);
  local.add(reinterpret_cast<std::uint64_t>(from.data() + 5), 3);
  remote.add(reinterpret_cast<std::uint64_t>(to.data()), 5);
  EXPECT_EQ(hca::write_to_process(pid, local, remote), hca::CopyResult::Ok);
  EXPECT_EQ(std::string(to.data(), 6), std::string("abcfg\0", 6));
  SegmentList nowhere;
  nowhere.add(4096, 4);
  EXPECT_EQ(hca::write_to_process(pid, local, nowhere), hca::CopyResult::RemoteFault);
  EXPECT_EQ(hca::write_to_process(pid, nowhere, remote), hca::CopyResult::LocalFault);
  EXPECT_EQ(hca::write_to_process(0x3FFFFFFF, local, remote), hca::CopyResult::Gone);
}

TEST(Pages, AreCountedAsTheKernelDoes) {
  EXPECT_EQ(hca::pages_of(0, 0), 0U);
  EXPECT_EQ(hca::pages_of(4095, 1), 1U);
  EXPECT_EQ(hca::pages_of(4095, 2), 2U);
  EXPECT_EQ(hca::pages_of(4096, 8192), 2U);
  EXPECT_EQ(hca::pages_of(4097, 8192), 3U);
}

class Regions : public Rig {
 protected:
  static hca::RegionSpec spec(void* address, std::uint64_t length, std::uint32_t access) {
    hca::RegionSpec spec;
    spec.pd = kPd;
    spec.address = reinterpret_cast<std::uint64_t>(address);
    spec.iova = spec.address;
    spec.length = length;
    spec.access = access;
    return spec;
  }
  int error_ = 0;
};

TEST_F(Regions, RemoteWriteNeedsLocalWrite) {
  std::array<char, 64> memory{};
  EXPECT_EQ(
      hca::MemoryRegion::create(*h1_, spec(memory.data(), 64, IBV_ACCESS_REMOTE_WRITE), error_),
      nullptr);
  EXPECT_EQ(error_, EINVAL);
  EXPECT_NE(
      hca::MemoryRegion::create(*h1_, spec(memory.data(), 64, IBV_ACCESS_REMOTE_READ), error_),
      nullptr);
}

TEST_F(Regions, UnmappedAndReadOnlyMemoryIsRefused) {
  void* page = ::mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_EQ(hca::MemoryRegion::create(*h1_, spec(page, 4096, IBV_ACCESS_LOCAL_WRITE), error_),
            nullptr);
  EXPECT_EQ(error_, EFAULT);
  EXPECT_NE(hca::MemoryRegion::create(*h1_, spec(page, 4096, 0), error_), nullptr);
  ::munmap(page, 4096);
  EXPECT_EQ(hca::MemoryRegion::create(*h1_, spec(page, 4096, 0), error_), nullptr);
  EXPECT_EQ(error_, EFAULT);
}

TEST_F(Regions, TranslationChecksKeyOwnerPdBoundsAndAccess) {
  std::array<char, 64> memory{};
  hca::RegionSpec shifted = spec(memory.data(), 64, IBV_ACCESS_REMOTE_READ);
  shifted.iova = 0x1000;
  const auto region = hca::MemoryRegion::create(*h1_, shifted, error_);
  ASSERT_NE(region, nullptr);
  const std::uint32_t key = region->key();
  const hca::Registry& registry = h1_->registry();
  const std::uint32_t me = h1_->token();
  const std::uint64_t base = shifted.address;
  EXPECT_EQ(hca::translate(registry, key, me, kPd, 0x1008, 56, 0), base + 8);
  EXPECT_EQ(hca::translate(registry, key, me, kPd, 0x1008, 57, 0), std::nullopt);
  EXPECT_EQ(hca::translate(registry, key, me, kPd, 0xFFF, 1, 0), std::nullopt);
  EXPECT_EQ(hca::translate(registry, key, me, kPd, ~0ULL, 2, 0), std::nullopt);
  EXPECT_EQ(hca::translate(registry, key, me, kPd + 1, 0x1000, 1, 0), std::nullopt);
  EXPECT_EQ(hca::translate(registry, key, h2_->token(), kPd, 0x1000, 1, 0), std::nullopt);
  EXPECT_EQ(hca::translate(registry, key ^ 1, me, kPd, 0x1000, 1, 0), std::nullopt);
  EXPECT_EQ(hca::translate(registry, ~0U, me, kPd, 0x1000, 1, 0), std::nullopt);
  EXPECT_EQ(hca::translate(registry, key, me, kPd, 0x1000, 1, IBV_ACCESS_LOCAL_WRITE),
            std::nullopt);
}

/// Runs `body` in a child that may pin 64 KiB and has no CAP_IPC_LOCK; what it returns is its exit
/// status.
template <typename Body>
int limited(Body&& body) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    const rlimit limit{64 << 10, 64 << 10};
    ::setrlimit(RLIMIT_MEMLOCK, &limit);
    __user_cap_header_struct header{};
    header.version = _LINUX_CAPABILITY_VERSION_3;
    std::array<__user_cap_data_struct, 2> data{};
    ::syscall(SYS_capget, &header, data.data());
    data[0].effective &= ~(1U << CAP_IPC_LOCK);
    ::syscall(SYS_capset, &header, data.data());
    ::_exit(body());
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_F(Regions, MemlockLimitsRegionsAndRings) {
  EXPECT_EQ(
      limited([&] {
        auto runtime = hca::Runtime::open(dir_.path(), "H1");
        const std::uint64_t page = 4096;
        std::vector<char> memory(80 << 10);
        auto* start = reinterpret_cast<char*>(
            (reinterpret_cast<std::uint64_t>(memory.data()) + page - 1) & ~(page - 1));
        int error = 0;
        const auto fifteen = hca::MemoryRegion::create(*runtime, spec(start, 15 * page, 0), error);
        if (fifteen == nullptr || runtime->memlock().pages() != 15) {
          return 1;
        }
        // One page is left: a CQ of 64 entries takes it, and then there is none.
        const auto cq =
            hca::CompletionQueue::create(*runtime, 64, {hca::kNone, 0}, {hca::kNone, 0}, error);
        if (cq == nullptr) {
          return 2;
        }
        if (hca::MemoryRegion::create(*runtime, spec(start, 1, 0), error) != nullptr ||
            error != ENOMEM) {
          return 3;
        }
        if (hca::CompletionQueue::create(*runtime, 1, {hca::kNone, 0}, {hca::kNone, 0}, error) !=
                nullptr ||
            error != ENOMEM) {
          return 4;
        }
        return runtime->memlock().pages() == 16 ? 0 : 5;
      }),
      0);
}

TEST_F(Regions, CapabilityLiftsTheLimit) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "needs CAP_IPC_LOCK";
  }
  hca::Memlock memlock;
  rlimit before{};
  ::getrlimit(RLIMIT_MEMLOCK, &before);
  const rlimit limit{4096, before.rlim_max};
  ::setrlimit(RLIMIT_MEMLOCK, &limit);
  EXPECT_TRUE(memlock.charge(100));
  ::setrlimit(RLIMIT_MEMLOCK, &before);
}

TEST_F(Regions, WhatIsDestroyedIsNotChargedAnyMore) {
  const std::uint64_t before = h1_->memlock().pages();
  on_h1({}).reset();
  EXPECT_EQ(h1_->memlock().pages(), before);
}

}  // namespace
}  // namespace softhca::test
