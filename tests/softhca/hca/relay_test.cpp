// SPDX-License-Identifier: BSD-3-Clause
// The way into another process's memory without process_vm_writev. Both ends are in this process,
// which the relay cannot tell.
#include "softhca/hca/relay.hpp"

#include <array>
#include <cstring>
#include <numeric>
#include <vector>

#include "softhca/hca/rig.hpp"

namespace softhca::test {
namespace {

using hca::CopyResult;
using hca::RelayRecord;
using hca::SegmentList;

SegmentList list_of(void* start, std::uint64_t length) {
  SegmentList list;
  list.add(reinterpret_cast<std::uint64_t>(start), length);
  return list;
}

class Relays : public Rig {
 protected:
  void SetUp() override {
    Rig::SetUp();
    memory_.resize(200'000);
    h2_->memory().relay().offer();
  }

  void make_known(std::uint64_t length, bool writable) {
    h2_->memory().registered().add(reinterpret_cast<std::uint64_t>(memory_.data()), length,
                                   writable);
  }

  CopyResult copy(bool write, const SegmentList& local, const SegmentList& remote) {
    return hca::copy_by_relay(h1_->registry(), h1_->token(), h2_->token(), write, local, remote);
  }

  const hca::ProcessRecord& process() { return *h1_->registry().processes().find(h2_->token()); }

  RelayRecord& record() {
    return *reinterpret_cast<RelayRecord*>(
        h1_->registry().ring(process().relay.load(), 0, sizeof(RelayRecord)));
  }

  std::vector<char> memory_;
};

TEST_F(Relays, MoveMoreThanABlockBothWays) {
  make_known(memory_.size(), true);
  std::vector<char> sent(150'001);
  std::iota(sent.begin(), sent.end(), '\0');
  SegmentList scattered;
  scattered.add(reinterpret_cast<std::uint64_t>(memory_.data()) + 7, 70'000);
  scattered.add(reinterpret_cast<std::uint64_t>(memory_.data()) + 100'000, 90'000);
  ASSERT_EQ(copy(true, list_of(sent.data(), sent.size()), scattered), CopyResult::Ok);
  EXPECT_EQ(std::memcmp(memory_.data() + 7, sent.data(), 70'000), 0);
  EXPECT_EQ(std::memcmp(memory_.data() + 100'000, sent.data() + 70'000, 80'001), 0);
  EXPECT_EQ(memory_[180'001], 0);
  std::vector<char> back(sent.size());
  ASSERT_EQ(copy(false, list_of(back.data(), back.size()), scattered), CopyResult::Ok);
  EXPECT_EQ(back, sent);
}

TEST_F(Relays, ComeAtTheFirstCall) {
  make_known(memory_.size(), true);
  EXPECT_EQ(process().relay_state.load(), hca::RelayState::Offered);
  EXPECT_EQ(process().relay.load(), 0U);
  std::array<char, 4> local{'d', 'a', 't', 'a'};
  EXPECT_EQ(copy(true, list_of(local.data(), 4), list_of(memory_.data(), 4)), CopyResult::Ok);
  EXPECT_EQ(std::memcmp(memory_.data(), "data", 4), 0);
  EXPECT_EQ(process().relay_state.load(), hca::RelayState::Serving);
}

TEST_F(Relays, AreOfferedByWhoeverRegistersMemory) {
  const hca::ProcessRecord& process = *h1_->registry().processes().find(h1_->token());
  EXPECT_EQ(process.relay_state.load(), hca::RelayState::None);
  const auto end = on_h1({});
  EXPECT_EQ(process.relay_state.load(), hca::RelayState::Offered);
}

TEST_F(Relays, ReachRegisteredMemoryOnly) {
  std::array<char, 64> local{};
  const SegmentList here = list_of(local.data(), local.size());
  EXPECT_EQ(copy(true, here, list_of(memory_.data(), 64)), CopyResult::RemoteFault);
  make_known(1000, false);
  EXPECT_EQ(copy(true, here, list_of(memory_.data(), 64)), CopyResult::RemoteFault);
  EXPECT_EQ(copy(false, here, list_of(memory_.data(), 64)), CopyResult::Ok);
  EXPECT_EQ(copy(false, here, list_of(memory_.data() + 937, 64)), CopyResult::RemoteFault);
  make_known(1000, true);
  EXPECT_EQ(copy(true, here, list_of(memory_.data() + 936, 64)), CopyResult::Ok);
  // One of the two registrations goes, the other stays.
  const auto address = reinterpret_cast<std::uint64_t>(memory_.data());
  h2_->memory().registered().remove(address, 1000, true);
  EXPECT_EQ(copy(true, here, list_of(memory_.data(), 64)), CopyResult::RemoteFault);
  EXPECT_EQ(copy(false, here, list_of(memory_.data(), 64)), CopyResult::Ok);
}

TEST_F(Relays, TellWhoseMemoryIsMissing) {
  make_known(memory_.size(), true);
  EXPECT_EQ(copy(true, list_of(reinterpret_cast<void*>(4096), 8), list_of(memory_.data(), 8)),
            CopyResult::LocalFault);
  // Registered, but not mapped any more.
  h2_->memory().registered().add(4096, 4096, true);
  std::array<char, 8> local{};
  EXPECT_EQ(copy(true, list_of(local.data(), 8), list_of(reinterpret_cast<void*>(4096), 8)),
            CopyResult::RemoteFault);
}

TEST_F(Relays, ARequestThatLiesHarmsNobody) {
  make_known(memory_.size(), true);
  std::array<char, 4> local{'d', 'a', 't', 'a'};
  ASSERT_EQ(copy(false, list_of(local.data(), 0), list_of(memory_.data(), 0)), CopyResult::Ok);
  RelayRecord& record = this->record();
  record.write = 1;
  record.count = 0xFFFFFFFF;
  for (auto& segment : record.segments) {
    segment = {reinterpret_cast<std::uint64_t>(memory_.data()), ~std::uint64_t{0}};
  }
  const std::uint32_t posted = 1;
  record.phase.store(posted);
  // What the last one left is taken over; so is what one left who died while asking.
  EXPECT_EQ(copy(true, list_of(local.data(), 4), list_of(memory_.data(), 4)), CopyResult::Ok);
  EXPECT_EQ(std::memcmp(memory_.data(), "data", 4), 0);
}

TEST_F(Relays, AProcessWithoutOneIsSaidToBeDeniedAndOneThatLeftIsGone) {
  std::array<char, 4> local{};
  const SegmentList list = list_of(local.data(), 4);
  EXPECT_EQ(hca::copy_by_relay(h1_->registry(), h2_->token(), h1_->token(), true, list, list),
            CopyResult::Denied);
  h2_->memory().relay().stop();
  EXPECT_EQ(copy(true, list, list), CopyResult::Denied);
  EXPECT_EQ(hca::copy_by_relay(h1_->registry(), h1_->token(), 0, true, list, list),
            CopyResult::Gone);
}

}  // namespace
}  // namespace softhca::test
