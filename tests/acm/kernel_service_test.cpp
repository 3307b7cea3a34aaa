// SPDX-License-Identifier: BSD-3-Clause
// The kernel's questions over netlink, with the test in the kernel's place: no kernel here asks
// any.
#include "acm/server/kernel_service.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

namespace wireup::acm {
namespace {

using Bytes = std::vector<std::uint8_t>;

/// What the other side of the socket has sent, by sender, and what it got.
struct Peer {
  std::deque<std::pair<std::uint32_t, Bytes>> sent;
  std::vector<Bytes> got;
  std::uint32_t groups = 0;
};
Peer peer;

ssize_t receive(int, void* to, std::size_t size, std::uint32_t* sender) {
  if (peer.sent.empty()) {
    errno = EAGAIN;
    return -1;
  }
  const auto [from, bytes] = peer.sent.front();
  peer.sent.pop_front();
  *sender = from;
  std::memcpy(to, bytes.data(), std::min(size, bytes.size()));
  return static_cast<ssize_t>(bytes.size());
}

ssize_t send(int, const void* bytes, std::size_t size, std::uint32_t groups) {
  const auto* first = static_cast<const std::uint8_t*>(bytes);
  peer.got.emplace_back(first, first + size);
  peer.groups = groups;
  return static_cast<ssize_t>(size);
}

constexpr NetlinkOps kOps{receive, send};
constexpr std::uint32_t kKernel = 0;
constexpr std::uint16_t kMandatory = 0x2000;

template <typename T>
void append(Bytes& bytes, T value) {
  std::array<std::uint8_t, sizeof(T)> raw{};
  std::memcpy(raw.data(), &value, sizeof(T));
  bytes.insert(bytes.end(), raw.begin(), raw.end());
}

void append_attribute(Bytes& bytes, std::uint16_t type, const Bytes& value) {
  append(bytes, static_cast<std::uint16_t>(4 + value.size()));
  append(bytes, static_cast<std::uint16_t>(type | kMandatory));
  bytes.insert(bytes.end(), value.begin(), value.end());
  bytes.resize((bytes.size() + 3) / 4 * 4);
}

Gid gid(std::uint8_t last) {
  return Gid(Gid::Bytes{0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last});
}
Bytes bytes_of(const Gid& gid) {
  return {gid.bytes().begin(), gid.bytes().end()};
}

/// As the kernel writes it: header, device and port, then the attributes.
Bytes resolve_request(std::uint32_t sequence, PathUse use) {
  Bytes body(64);
  const std::string device = "mlx5_0";
  std::copy(device.begin(), device.end(), body.begin());
  body.push_back(1);
  body.push_back(static_cast<std::uint8_t>(use));
  body.resize(68);
  append_attribute(body, 4, bytes_of(gid(2)));
  append_attribute(body, 5, bytes_of(gid(1)));
  append_attribute(body, 7, {0xFF, 0xFF});
  Bytes message;
  append(message, static_cast<std::uint32_t>(16 + body.size()));
  append(message, std::uint16_t{0x1000});
  append(message, std::uint16_t{1});  // NLM_F_REQUEST
  append(message, sequence);
  append(message, std::uint32_t{0});
  message.insert(message.end(), body.begin(), body.end());
  return message;
}

template <typename T>
T at(const Bytes& bytes, std::size_t offset) {
  T value{};
  EXPECT_LE(offset + sizeof(T), bytes.size());
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

mad::PathRecord found_path() {
  mad::PathRecord record;
  record.dgid = gid(2);
  record.sgid = gid(1);
  record.dlid = Lid(7);
  record.slid = Lid(3);
  record.pkey = PKey(0xFFFF);
  record.reversible = true;
  return record;
}

class KernelServiceTest : public testing::Test {
 protected:
  void SetUp() override { peer = {}; }
  KernelService service_{UniqueFd(), kOps};
};

TEST_F(KernelServiceTest, AQuestionBecomesOneForAPathAndIsAnswered) {
  peer.sent.emplace_back(kKernel, resolve_request(77, PathUse::Gmp));
  service_.progress();
  const auto ask = service_.poll_ask();
  ASSERT_TRUE(ask.has_value());
  const auto& question = std::get<PathQuestion>(ask->request.body);
  EXPECT_EQ(question.path.dgid, gid(2));
  EXPECT_EQ(question.path.sgid, gid(1));
  EXPECT_EQ(question.path.pkey, PKey(0xFFFF));
  EXPECT_TRUE(question.path.reversible);
  EXPECT_FALSE(question.query_sa);

  service_.reply(ask->id, {ClientOp::Resolve, Tid(), ClientStatus::Success,
                           ResolveReply{{{path_flag::kUniversal, found_path()}}, std::nullopt}});
  ASSERT_EQ(peer.got.size(), 1U);
  const Bytes& answer = peer.got.front();
  EXPECT_EQ(peer.groups, 4U);
  ASSERT_EQ(answer.size(), 92U);
  EXPECT_EQ(at<std::uint32_t>(answer, 0), 92U);
  EXPECT_EQ(at<std::uint16_t>(answer, 4), 0x1000);
  EXPECT_EQ(at<std::uint16_t>(answer, 6) & 1U, 0U) << "no NLM_F_REQUEST";
  EXPECT_EQ(at<std::uint32_t>(answer, 8), 77U);
  EXPECT_EQ(at<std::uint16_t>(answer, 16), 76U);
  EXPECT_EQ(at<std::uint16_t>(answer, 18) & 0x1FFFU, 1U);
  EXPECT_EQ(at<std::uint32_t>(answer, 20) & path_flag::kUniversal, path_flag::kUniversal);
  EXPECT_EQ(answer[28 + 40 + 1], 7) << "DLID of the record, big-endian";
  EXPECT_EQ(service_.counters().answered, 1U);
}

TEST_F(KernelServiceTest, AOneWayQuestionDoesNotAskForAReversiblePath) {
  peer.sent.emplace_back(kKernel, resolve_request(1, PathUse::Unidirectional));
  service_.progress();
  const auto ask = service_.poll_ask();
  ASSERT_TRUE(ask.has_value());
  EXPECT_FALSE(std::get<PathQuestion>(ask->request.body).path.reversible);
}

TEST_F(KernelServiceTest, WhatIsNotFoundIsAnsweredWithAFailure) {
  peer.sent.emplace_back(kKernel, resolve_request(5, PathUse::Gmp));
  service_.progress();
  const auto ask = service_.poll_ask();
  ASSERT_TRUE(ask.has_value());
  service_.reply(ask->id, {ClientOp::Resolve, Tid(), ClientStatus::NoData, std::monostate{}});
  ASSERT_EQ(peer.got.size(), 1U);
  EXPECT_EQ(at<std::uint32_t>(peer.got[0], 0), 16U);
  EXPECT_EQ(at<std::uint16_t>(peer.got[0], 6), 0x0100) << "RDMA_NL_LS_F_ERR";
  EXPECT_EQ(at<std::uint32_t>(peer.got[0], 8), 5U);
  // A second reply goes nowhere.
  service_.reply(ask->id, {ClientOp::Resolve, Tid(), ClientStatus::NoData, std::monostate{}});
  EXPECT_EQ(peer.got.size(), 1U);
}

TEST_F(KernelServiceTest, OnlyTheKernelIsHeard) {
  peer.sent.emplace_back(4711U, resolve_request(1, PathUse::Gmp));
  peer.sent.emplace_back(kKernel, Bytes{1, 2, 3});
  peer.sent.emplace_back(kKernel, Bytes(5000, 0xFF));
  service_.progress();
  EXPECT_FALSE(service_.poll_ask().has_value());
  EXPECT_TRUE(peer.got.empty());
  EXPECT_EQ(service_.counters().dropped, 3U);
}

}  // namespace
}  // namespace wireup::acm
