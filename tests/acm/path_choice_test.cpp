// SPDX-License-Identifier: BSD-3-Clause
#include "acm/driver/path_choice.hpp"

#include <gtest/gtest.h>

#include "acm/engine/lid_paths.hpp"
#include "acm/temporary_directory.hpp"

namespace wireup::acm {
namespace {

using std::chrono::seconds;

constexpr Instant kNow{seconds(100)};

PortIdentity port_with(std::uint8_t lmc) {
  PortIdentity port;
  port.gid = Gid::make(0xFE80000000000000, Guid(1));
  port.lid = Lid(16);
  port.lmc = lmc;
  port.pkey = PKey(0xFFFF);
  return port;
}

mad::PathRecord record_to(std::uint16_t dlid, std::uint16_t slid) {
  mad::PathRecord record;
  record.sgid = port_with(0).gid;
  record.dgid = Gid::make(0xFE80000000000000, Guid(2));
  record.slid = Lid(slid);
  record.dlid = Lid(dlid);
  record.pkey = PKey(0xFFFF);
  record.sl = Sl(2);
  record.reversible = true;
  return record;
}

using Lids = std::vector<std::pair<unsigned, unsigned>>;

Lids lids_of(const std::vector<mad::PathRecord>& paths) {
  Lids lids;
  for (const mad::PathRecord& path : paths) {
    lids.emplace_back(path.slid.value(), path.dlid.value());
  }
  return lids;
}

TEST(LidPaths, OneForEachLidOfThePorts) {
  EXPECT_EQ(lids_of(lid_paths(record_to(32, 16), port_with(0))), (Lids{{16, 32}}));
  EXPECT_EQ(lids_of(lid_paths(record_to(32, 16), port_with(2))),
            (Lids{{16, 32}, {17, 33}, {18, 34}, {19, 35}}));
  // Learned by a further LID: that one is first, and none is left out.
  EXPECT_EQ(lids_of(lid_paths(record_to(34, 16), port_with(2))),
            (Lids{{16, 34}, {17, 35}, {18, 32}, {19, 33}}));
  EXPECT_EQ(lid_paths(record_to(0x8000, 0x80), port_with(7)).size(), 128U);
  for (const mad::PathRecord& path : lid_paths(record_to(32, 16), port_with(2))) {
    EXPECT_EQ(path.sl, Sl(2)) << "all but the LIDs stays";
    EXPECT_TRUE(path.reversible);
  }
}

TEST(LidPaths, NoneBeyondTheUnicastLids) {
  EXPECT_EQ(lid_paths(record_to(1, 16), port_with(1)).size(), 1U) << "LID 0 is nobody's";
  EXPECT_EQ(lid_paths(record_to(0xBFFF, 16), port_with(1)).size(), 2U);
}

class PathChoiceTest : public testing::Test {
 protected:
  PathChoiceTest() {
    const PortIdentity port = port_with(0);
    auto opened =
        CacheWriter::open({directory_.path() + "/cache", 256, {port.gid, port.lid, Lid(1)}});
    EXPECT_TRUE(opened.has_value());
    cache_.emplace(std::move(*opened));
    plain_.sgid = port.gid;
    plain_.dgid = record_to(1, 1).dgid;
    plain_.pkey = port.pkey;
  }
  [[nodiscard]] Result<ResolvedPath> choose(const PathKey& wanted, const mad::PathRecord& first) {
    return choose_path(*cache_, plain_, wanted,
                       {first, PathOrigin::AcmMulticast, cache_->generation(), {}}, kNow);
  }

  test::TemporaryDirectory directory_;
  std::optional<CacheWriter> cache_;
  PathKey plain_;
};

TEST_F(PathChoiceTest, ByNumberAndDirection) {
  const mad::PathRecord first = record_to(32, 16);
  store_learned(*cache_, plain_, first, PathOrigin::AcmMulticast, port_with(2), kNow);
  EXPECT_EQ(cache_->size().entries, 4U);
  EXPECT_EQ(choose(plain_, first)->record, first);
  PathKey wanted = plain_;
  wanted.number = 3;
  EXPECT_EQ(choose(wanted, first)->record.dlid, Lid(35));
  EXPECT_EQ(choose(wanted, first)->record.slid, Lid(19));
  wanted.direction = PathDirection::Inbound;
  EXPECT_EQ(choose(wanted, first)->record.dlid, Lid(19));
  EXPECT_EQ(choose(wanted, first)->record.sgid, plain_.dgid);
  wanted.number = 4;
  const auto none = choose(wanted, first);
  ASSERT_FALSE(none.has_value());
  EXPECT_TRUE(none.error().is(Errc::PathUnresolved));
  EXPECT_NE(none.error().what().find("number 4 from GID"), std::string_view::npos);
  EXPECT_EQ(cache_->size().entries, 4U) << "nothing is stored twice";
}

TEST_F(PathChoiceTest, WhatTheSaSaysOfOnePathLeavesTheOthers) {
  std::vector<mad::PathRecord> table = lid_paths(record_to(32, 16), port_with(1));
  cache_->store_paths(plain_, table, PathOrigin::SaQuery, kNow);
  mad::PathRecord news = table[0];
  news.sl = Sl(7);
  store_learned(*cache_, plain_, news, PathOrigin::SaQuery, port_with(1), kNow);
  PathKey wanted = plain_;
  EXPECT_EQ(cache_->lookup(wanted, kNow)->record, news);
  wanted.number = 1;
  EXPECT_EQ(cache_->lookup(wanted, kNow)->record, table[1]);
}

TEST_F(PathChoiceTest, AnSlIsADemandAndAServiceHasItsOwnEntry) {
  const mad::PathRecord first = record_to(32, 16);
  cache_->store(plain_, first, PathOrigin::AcmMulticast, kNow);
  PathKey wanted = plain_;
  wanted.sl = Sl(3);
  const auto refused = choose(wanted, first);
  ASSERT_FALSE(refused.has_value());
  EXPECT_TRUE(refused.error().is(Errc::PathUnresolved));
  wanted.sl = first.sl;
  EXPECT_TRUE(choose(wanted, first).has_value());
  EXPECT_TRUE(cache_->lookup(wanted, kNow).has_value());
  wanted = plain_;
  wanted.service_id = ServiceId(5);
  EXPECT_TRUE(choose(wanted, first).has_value());
  EXPECT_EQ(cache_->size().entries, 3U);
}

}  // namespace
}  // namespace wireup::acm
