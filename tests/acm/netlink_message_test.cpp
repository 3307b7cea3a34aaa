// SPDX-License-Identifier: BSD-3-Clause
//
// The kernel's netlink local service. Expected bytes are written out by offset; integers are in the
// host's byte order and put with memcpy.
#include "acm/server/netlink_message.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <initializer_list>

namespace wireup::acm {
namespace {

using Bytes = std::vector<std::uint8_t>;
using mad::PathRecord;

constexpr std::uint16_t kMandatory = 0x2000;

template <typename T>
Bytes host(T value) {
  Bytes bytes(sizeof(T));
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

template <typename T>
void put_host(Bytes& to, std::size_t at, T value) {
  ASSERT_LE(at + sizeof(T), to.size());
  std::memcpy(to.data() + at, &value, sizeof(T));
}

Bytes message(std::uint16_t type, std::size_t size, std::uint16_t flags = 1) {
  Bytes bytes(size);
  put_host(bytes, 0, static_cast<std::uint32_t>(size));
  put_host(bytes, 4, type);
  put_host(bytes, 6, flags);
  put_host(bytes, 8, std::uint32_t{0x01020304});
  return bytes;
}

/// The kernel's request: device "mlx5_0", port 2, no attribute yet.
Bytes resolve_bytes(std::uint8_t use) {
  Bytes bytes = message(0x1000, 16 + 68);
  std::memcpy(bytes.data() + 16, "mlx5_0", 6);
  bytes[16 + 64] = 2;
  bytes[16 + 65] = use;
  return bytes;
}

Bytes ip_resolve_bytes() {
  Bytes bytes = message(0x1002, 16 + 4);
  put_host(bytes, 16, std::uint32_t{5});
  return bytes;
}

/// Appends an attribute as the kernel does: head, value, padding to 4 bytes.
void add(Bytes& to, std::uint16_t type, const Bytes& value) {
  const std::size_t at = to.size();
  to.resize(at + (4 + value.size() + 3) / 4 * 4);
  put_host(to, at, static_cast<std::uint16_t>(4 + value.size()));
  put_host(to, at + 2, type);
  std::copy(value.begin(), value.end(), to.begin() + static_cast<std::ptrdiff_t>(at) + 4);
  put_host(to, 0, static_cast<std::uint32_t>(to.size()));
}

Bytes gid_bytes(std::uint8_t last) {
  return {0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last};
}
Gid gid_of(std::uint8_t last) {
  return Gid::make(0xFE80000000000000, Guid(last));
}

struct Attribute {
  std::uint16_t type;
  Bytes value;
};

const std::vector<Attribute>& all_attributes() {
  static const std::vector<Attribute> attributes{
      {3, host(std::uint64_t{0x1122334455667788})},
      {4, gid_bytes(0xD1)},
      {5, gid_bytes(0x51)},
      {6, {6}},
      {7, host(std::uint16_t{0x8001})},
      {8, host(std::uint16_t{0x123})},
  };
  return attributes;
}

NetlinkResolve expected_resolve() {
  NetlinkResolve expected;
  expected.device = "mlx5_0";
  expected.port = 2;
  expected.use = PathUse::Gmp;
  expected.record.service_id = ServiceId(0x1122334455667788);
  expected.record.dgid = gid_of(0xD1);
  expected.record.sgid = gid_of(0x51);
  expected.record.traffic_class = 6;
  expected.record.pkey = PKey(0x8001);
  expected.record.qos_class = 0x123;
  expected.mask = mad::path_mask::kServiceId | mad::path_mask::kDgid | mad::path_mask::kSgid |
                  mad::path_mask::kTrafficClass | mad::path_mask::kPKey | mad::path_mask::kQosClass;
  return expected;
}

NetlinkRequest decoded(const Bytes& bytes) {
  const auto request = decode_netlink(bytes);
  EXPECT_TRUE(request.has_value()) << request.error().what();
  return request.value_or(NetlinkRequest{});
}

bool is_refused(const Bytes& bytes) {
  return std::holds_alternative<NetlinkRefusal>(decoded(bytes).body);
}

TEST(NetlinkRequest, ResolveByOffset) {
  Bytes bytes = resolve_bytes(2);
  for (const Attribute& attribute : all_attributes()) {
    add(bytes, attribute.type | kMandatory, attribute.value);
  }
  EXPECT_EQ(bytes.size(), 16U + 68 + 12 + 20 + 20 + 8 + 8 + 8);
  const NetlinkRequest request = decoded(bytes);
  EXPECT_EQ(request.type, 0x1000);
  EXPECT_EQ(request.sequence, 0x01020304U);
  ASSERT_TRUE(std::holds_alternative<NetlinkResolve>(request.body));
  EXPECT_EQ(std::get<NetlinkResolve>(request.body), expected_resolve());
}

TEST(NetlinkRequest, AttributesComeInAnyOrderMarkedOrNot) {
  const std::vector<Attribute>& attributes = all_attributes();
  for (std::size_t first = 0; first < attributes.size(); ++first) {
    for (const std::uint16_t mark : {std::uint16_t{0}, kMandatory}) {
      Bytes bytes = resolve_bytes(2);
      for (std::size_t i = attributes.size(); i > 0; --i) {
        const Attribute& attribute = attributes[(first + i) % attributes.size()];
        add(bytes, attribute.type | mark, attribute.value);
      }
      EXPECT_EQ(std::get<NetlinkResolve>(decoded(bytes).body), expected_resolve()) << first;
    }
  }
}

TEST(NetlinkRequest, TheMaskSaysWhatIsGiven) {
  const NetlinkRequest request = decoded(resolve_bytes(0));
  const auto& nothing = std::get<NetlinkResolve>(request.body);
  EXPECT_EQ(nothing.mask, 0U);
  EXPECT_EQ(nothing.use, PathUse::All);
  Bytes bytes = resolve_bytes(1);
  add(bytes, 6 | kMandatory, {0});
  const NetlinkRequest with_class = decoded(bytes);
  EXPECT_EQ(std::get<NetlinkResolve>(with_class.body).mask, mad::path_mask::kTrafficClass);
  EXPECT_EQ(std::get<NetlinkResolve>(with_class.body).use, PathUse::Unidirectional);
}

TEST(NetlinkRequest, UnknownAttributesAreSkippedUnlessMandatory) {
  // 0x4004: a DGID in a byte order that does not exist here; 2: an attribute of other requests.
  for (const int type : {0, 2, 9, 11, 0x1FFF, 0x4004, 0x8004}) {
    Bytes bytes = resolve_bytes(2);
    add(bytes, static_cast<std::uint16_t>(type), {1, 2, 3});
    for (const Attribute& attribute : all_attributes()) {
      add(bytes, attribute.type | kMandatory, attribute.value);
    }
    const NetlinkRequest request = decoded(bytes);
    ASSERT_TRUE(std::holds_alternative<NetlinkResolve>(request.body)) << type;
    EXPECT_EQ(std::get<NetlinkResolve>(request.body), expected_resolve()) << type;

    bytes = resolve_bytes(2);
    add(bytes, static_cast<std::uint16_t>(type | kMandatory), {1, 2, 3});
    EXPECT_TRUE(is_refused(bytes)) << type;
  }
}

TEST(NetlinkRequest, WrongAttributesAreRefused) {
  for (const Attribute& attribute : all_attributes()) {
    for (const bool is_longer : {false, true}) {
      Bytes value = attribute.value;
      value.resize(is_longer ? value.size() + 1 : value.size() - 1);
      Bytes bytes = resolve_bytes(2);
      add(bytes, attribute.type, value);
      EXPECT_TRUE(is_refused(bytes)) << attribute.type;
    }
    Bytes twice = resolve_bytes(2);
    add(twice, attribute.type, attribute.value);
    add(twice, attribute.type, attribute.value);
    EXPECT_TRUE(is_refused(twice)) << attribute.type;
  }
  Bytes qos = resolve_bytes(2);
  add(qos, 8, host(std::uint16_t{0x1000}));
  EXPECT_TRUE(is_refused(qos)) << "the field has 12 bits";
}

TEST(NetlinkRequest, LengthsThatLie) {
  // Attributes: shorter than their head, longer than the message, a piece of a head.
  for (const std::uint16_t length :
       {std::uint16_t{0}, std::uint16_t{3}, std::uint16_t{9}, std::uint16_t{0xFFFF}}) {
    Bytes bytes = resolve_bytes(2);
    add(bytes, 6, {6});
    put_host(bytes, 84, length);
    EXPECT_TRUE(is_refused(bytes)) << length;
  }
  Bytes piece = resolve_bytes(2);
  piece.resize(piece.size() + 2);
  put_host(piece, 0, static_cast<std::uint32_t>(piece.size()));
  EXPECT_TRUE(is_refused(piece));
  // A header of the operation that is not there.
  EXPECT_TRUE(is_refused(message(0x1000, 16)));
  EXPECT_TRUE(is_refused(message(0x1000, 80)));
  EXPECT_TRUE(is_refused(message(0x1002, 16)));
  EXPECT_TRUE(is_refused(message(0x1002, 20))) << "no address";
  EXPECT_TRUE(is_refused(message(0x1001, 16))) << "no timeout";

  const Bytes good = resolve_bytes(2);
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(decode_netlink(std::span(good).first(size)).has_value()) << size;
  }
  Bytes wrong = good;
  for (const std::uint32_t length : {0U, 15U, 80U, 85U, 0xFFFFFFFFU}) {
    put_host(wrong, 0, length);
    EXPECT_FALSE(decode_netlink(wrong).has_value()) << length;
  }
}

TEST(NetlinkRequest, LastAttributeMayComeWithoutPadding) {
  Bytes bytes = resolve_bytes(2);
  add(bytes, 7, host(std::uint16_t{0x8001}));
  put_host(bytes, 0, static_cast<std::uint32_t>(bytes.size() - 2));
  EXPECT_EQ(std::get<NetlinkResolve>(decoded(bytes).body).record.pkey, PKey(0x8001));
  bytes.resize(bytes.size() - 2);
  EXPECT_EQ(std::get<NetlinkResolve>(decoded(bytes).body).record.pkey, PKey(0x8001));
}

TEST(NetlinkRequest, WhatIsNoRequestToTheLocalService) {
  const std::array<std::uint16_t, 5> others{0x0002, 0x0003, 0x0FFF, 0x0C00, 0x1400};
  for (const std::uint16_t type : others) {
    EXPECT_FALSE(decode_netlink(message(type, 84)).has_value()) << type;
  }
  EXPECT_FALSE(decode_netlink(message(0x1000, 84, 0)).has_value()) << "somebody's answer";
  EXPECT_FALSE(decode_netlink(message(0x1000, 16, 0x0100)).has_value()) << "somebody's failure";
  // Of the local service, but not known: the kernel waits, so it gets a failure.
  EXPECT_TRUE(is_refused(message(0x1003, 84)));
  EXPECT_TRUE(is_refused(resolve_bytes(3))) << "unknown use";
}

TEST(NetlinkRequest, DeviceNames) {
  Bytes bytes = resolve_bytes(2);
  std::fill_n(bytes.begin() + 16, 64, std::uint8_t{'d'});
  EXPECT_EQ(std::get<NetlinkResolve>(decoded(bytes).body).device, std::string(64, 'd'));
  bytes[16] = 0x1B;
  EXPECT_EQ(std::get<NetlinkResolve>(decoded(bytes).body).device.front(), '?');
}

TEST(NetlinkRequest, IpResolveByOffset) {
  Bytes bytes = ip_resolve_bytes();
  add(bytes, 9 | kMandatory, {10, 77, 0, 2});
  const NetlinkRequest request = decoded(bytes);
  EXPECT_EQ(request.type, 0x1002);
  ASSERT_TRUE(std::holds_alternative<NetlinkIpResolve>(request.body));
  EXPECT_EQ(std::get<NetlinkIpResolve>(request.body),
            (NetlinkIpResolve{5, mad::AcmAddress::ipv4({10, 77, 0, 2})}));

  bytes = ip_resolve_bytes();
  add(bytes, 10 | kMandatory, gid_bytes(7));
  EXPECT_EQ(std::get<NetlinkIpResolve>(decoded(bytes).body),
            (NetlinkIpResolve{5, mad::AcmAddress::ipv6(gid_of(7).bytes())}));
  add(bytes, 9 | kMandatory, {10, 77, 0, 2});
  EXPECT_TRUE(is_refused(bytes)) << "two addresses";
  bytes = ip_resolve_bytes();
  add(bytes, 9 | kMandatory, {10, 77, 0});
  EXPECT_TRUE(is_refused(bytes));
}

TEST(NetlinkRequest, SetTimeoutByOffset) {
  Bytes bytes = message(0x1001, 16);
  add(bytes, 2, host(std::uint32_t{3000}));
  EXPECT_EQ(encode_netlink_set_timeout(0x01020304, {3000}), bytes);
  EXPECT_EQ(std::get<NetlinkSetTimeout>(decoded(bytes).body), NetlinkSetTimeout{3000});
}

TEST(NetlinkRequest, OnlyTheKernelIsHeard) {
  EXPECT_TRUE(is_from_kernel(0));
  EXPECT_FALSE(is_from_kernel(1));
  EXPECT_FALSE(is_from_kernel(0xFFFFFFFF));
}

PathRecord record_of(std::uint16_t dlid) {
  PathRecord record;
  record.dgid = gid_of(0xD1);
  record.dlid = Lid(dlid);
  return record;
}

NetlinkRequest sample_request() {
  return {0x1000, 0x01020304, expected_resolve()};
}

TEST(NetlinkReply, OnePathByOffset) {
  Bytes expected = message(0x1000, 92, 0);
  put_host(expected, 16, std::uint16_t{76});
  put_host(expected, 18, std::uint16_t{1});
  put_host(expected, 20, std::uint32_t{0x2B});
  const Bytes dgid = gid_bytes(0xD1);
  std::copy(dgid.begin(), dgid.end(), expected.begin() + 28 + 8);
  expected[28 + 40] = 0x0A;
  expected[28 + 41] = 0x0B;
  const auto paths = netlink_paths(PathUse::Gmp, record_of(0x0A0B), std::nullopt, std::nullopt);
  EXPECT_EQ(encode_netlink_paths(sample_request(), paths), expected);
}

TEST(NetlinkReply, FlagsByUse) {
  const auto flags = [](PathUse use, bool is_routed) {
    const std::optional<PathRecord> there = is_routed ? std::optional(record_of(2)) : std::nullopt;
    const std::optional<PathRecord> back = is_routed ? std::optional(record_of(3)) : std::nullopt;
    std::vector<std::pair<std::uint32_t, std::uint16_t>> found;
    for (const ClientPath& path : netlink_paths(use, record_of(1), there, back)) {
      found.emplace_back(path.flags, path.record.dlid.value());
    }
    return found;
  };
  using Found = std::vector<std::pair<std::uint32_t, std::uint16_t>>;
  EXPECT_EQ(flags(PathUse::All, false), (Found{{0x2B, 1}}));
  EXPECT_EQ(flags(PathUse::Gmp, false), (Found{{0x2B, 1}}));
  EXPECT_EQ(flags(PathUse::Unidirectional, false), (Found{{0x0A, 1}}));
  // The kernel takes what has the flag "primary" for All, and goes by "inbound" before "outbound".
  EXPECT_EQ(flags(PathUse::All, true), (Found{{0x2B, 1}, {0x12, 3}, {0x0A, 2}}));
  EXPECT_EQ(flags(PathUse::Gmp, true), (Found{{0x2B, 1}}));
  EXPECT_EQ(flags(PathUse::Unidirectional, true), (Found{{0x0A, 2}}));
}

TEST(NetlinkReply, ThreePathsByOffset) {
  const auto paths = netlink_paths(PathUse::All, record_of(1), record_of(2), record_of(3));
  const Bytes bytes = encode_netlink_paths(sample_request(), paths);
  Bytes expected = message(0x1000, 16 + 3 * 76, 0);
  const std::array<std::uint32_t, 3> flags{0x2B, 0x12, 0x0A};
  const std::array<std::uint8_t, 3> dlids{1, 3, 2};
  const Bytes dgid = gid_bytes(0xD1);
  for (std::size_t i = 0; i < 3; ++i) {
    const std::size_t at = 16 + 76 * i;
    put_host(expected, at, std::uint16_t{76});
    put_host(expected, at + 2, std::uint16_t{1});
    put_host(expected, at + 4, flags[i]);
    std::copy(dgid.begin(), dgid.end(), expected.begin() + static_cast<std::ptrdiff_t>(at) + 20);
    expected[at + 12 + 41] = dlids[i];
  }
  EXPECT_EQ(bytes, expected);
}

TEST(NetlinkReply, GidAndFailureByOffset) {
  NetlinkRequest request = sample_request();
  request.type = 0x1002;
  Bytes expected = message(0x1002, 16, 0);
  add(expected, 4, gid_bytes(0xD1));
  EXPECT_EQ(encode_netlink_gid(request, gid_of(0xD1)), expected);
  EXPECT_EQ(encode_netlink_failure(request), message(0x1002, 16, 0x0100));
  // Also for what nobody knows.
  EXPECT_EQ(encode_netlink_failure(decoded(message(0x1003, 84))), message(0x1003, 16, 0x0100));
}

}  // namespace
}  // namespace wireup::acm
