// SPDX-License-Identifier: BSD-3-Clause
#include "acm/server/routed_paths.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <utility>
#include <vector>

#include "acm/server/client_service.hpp"
#include "acm/server/netlink_message.hpp"

namespace wireup::acm {
namespace {

using Bytes = std::vector<std::uint8_t>;

const Gid kHere = Gid::make(0xFEC0000000000001, Guid(0x101));
const Gid kThere = Gid::make(0xFEC0000000000002, Guid(0x201));

mad::PathRecord record(std::uint16_t slid, std::uint16_t dlid) {
  mad::PathRecord path;
  path.sgid = kHere;
  path.dgid = kThere;
  path.slid = Lid(slid);
  path.dlid = Lid(dlid);
  path.pkey = PKey(0xFFFF);
  path.hop_limit = 255;
  return path;
}

RoutedRecords all_records() {
  RoutedRecords records;
  records.inbound = record(0x0B01, 0x0B02);
  records.outbound = record(0x0C01, 0x0C02);
  records.inbound_reverse = record(0x0D01, 0x0D02);
  return records;
}

template <typename T>
T at(const Bytes& bytes, std::size_t offset) {
  T value{};
  EXPECT_LE(offset + sizeof(T), bytes.size());
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

TEST(RoutedPaths, OtherPrefixesAreOtherSubnets) {
  EXPECT_TRUE(is_routed(record(1, 2)));
  mad::PathRecord local = record(1, 2);
  local.dgid = Gid::make(kHere.prefix(), Guid(0x201));
  EXPECT_FALSE(is_routed(local));
}

TEST(RoutedPaths, TheClientsReplyByteByByte) {
  ClientReply reply;
  reply.body = ResolveReply{routed_answer(record(0x0A01, 0x0A02), all_records()),
                            mad::AcmAddress::ipv4({10, 77, 0, 1})};
  const Bytes bytes = encode_client_reply(reply);
  ASSERT_EQ(bytes.size(), 16U + 5 * 72U);
  EXPECT_EQ(at<std::uint16_t>(bytes, 6), bytes.size());
  struct Expected {
    std::uint32_t flags;
    std::uint8_t high;
  };
  const Expected expected[] = {{0x2B, 0x0A}, {0x12, 0x0B}, {0x0A, 0x0C}, {0x22, 0x0D}};
  std::size_t entry = 16;
  for (const Expected& path : expected) {
    EXPECT_EQ(at<std::uint32_t>(bytes, entry), path.flags);
    EXPECT_EQ(at<std::uint16_t>(bytes, entry + 4), 0x0010) << "a path";
    EXPECT_EQ(bytes[entry + 8 + 8], 0xFE) << "DGID";
    EXPECT_EQ(bytes[entry + 8 + 15], 0x02) << "the other subnet's prefix";
    EXPECT_EQ(bytes[entry + 8 + 40], path.high) << "DLID";
    EXPECT_EQ(bytes[entry + 8 + 41], 0x02);
    EXPECT_EQ(bytes[entry + 8 + 42], path.high) << "SLID";
    EXPECT_EQ(bytes[entry + 8 + 43], 0x01);
    EXPECT_EQ(bytes[entry + 8 + 47], 255) << "hop limit";
    entry += 72;
  }
  EXPECT_EQ(at<std::uint32_t>(bytes, entry), 1U) << "the source that was chosen";
  EXPECT_EQ(at<std::uint16_t>(bytes, entry + 4), 2U);
}

TEST(RoutedPaths, WhatIsNotKnownIsLeftOut) {
  const auto alone = routed_answer(record(1, 2), {});
  ASSERT_EQ(alone.size(), 1U);
  EXPECT_EQ(alone.front().flags, path_flag::kUniversal);
  RoutedRecords records;
  records.inbound = record(3, 4);
  const auto two = routed_answer(record(1, 2), records);
  ASSERT_EQ(two.size(), 2U);
  EXPECT_EQ(path_with(two, 0x12), records.inbound);
  EXPECT_EQ(path_with(two, 0x0A), std::nullopt);
}

TEST(RoutedPaths, TheKernelsReplyByteByByte) {
  NetlinkRequest request;
  request.type = 0x1000;
  request.sequence = 9;
  const auto paths = routed_answer(record(0x0A01, 0x0A02), all_records());
  const Bytes bytes =
      encode_netlink_paths(request, netlink_paths(PathUse::All, paths.front().record,
                                                  path_with(paths, 0x0A), path_with(paths, 0x12)));
  ASSERT_EQ(bytes.size(), 16U + 3 * 76U);
  const std::pair<std::uint32_t, std::uint8_t> expected[] = {
      {0x2B, 0x0A}, {0x12, 0x0B}, {0x0A, 0x0C}};
  std::size_t attribute = 16;
  for (const auto& [flags, high] : expected) {
    EXPECT_EQ(at<std::uint16_t>(bytes, attribute), 76U);
    EXPECT_EQ(at<std::uint16_t>(bytes, attribute + 2) & 0x1FFFU, 1U);
    EXPECT_EQ(at<std::uint32_t>(bytes, attribute + 4), flags);
    EXPECT_EQ(at<std::uint32_t>(bytes, attribute + 8), 0U);
    EXPECT_EQ(bytes[attribute + 12 + 40], high) << "DLID";
    EXPECT_EQ(bytes[attribute + 12 + 42], high) << "SLID";
    attribute += 76;
  }
}

}  // namespace
}  // namespace wireup::acm
