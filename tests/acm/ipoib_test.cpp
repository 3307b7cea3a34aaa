// SPDX-License-Identifier: BSD-3-Clause
//
// The kernel's rtnetlink messages byte by byte (host byte order, as on this machine: little-endian
// where it is written so), and the watch over a kernel that the test plays. No IPoIB interface is
// at hand; the last test asks the real kernel, which has none.
#include <gtest/gtest.h>
#include <linux/rtnetlink.h>
#include <poll.h>
#include <sys/socket.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <deque>

#include "acm/server/ipoib_addresses.hpp"
#include "acm/server/ipoib_watch.hpp"
#include "base/clock.hpp"
#include "base/rng.hpp"
#include "support/seed.hpp"

namespace wireup::acm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Bytes = std::vector<std::uint8_t>;

const Gid kGid = Gid::make(0xFE80000000000000, Guid(0x5B00000000000101));
const Gid kOtherGid = Gid::make(0xFE80000000000000, Guid(0x5B00000000000201));
const PKey kFull{0xFFFF};

// clang-format off
/// RTM_NEWLINK of an interface ib0, number 7, up, of 0xFFFF, on the port with kGid.
const Bytes kLink = {
    92, 0, 0, 0,  16, 0, 0, 0,  1, 0, 0, 0,  0, 0, 0, 0,   // length, type, flags, sequence, port
    0, 0, 32, 0,  7, 0, 0, 0,  1, 0, 0, 0,  0, 0, 0, 0,    // family, ARPHRD_INFINIBAND, index, UP
    8, 0, 3, 0,  'i', 'b', '0', 0,                         // IFLA_IFNAME
    24, 0, 1, 0,  0x80, 0, 0, 0x48,                        // IFLA_ADDRESS: flags, QPN
    0xFE, 0x80, 0, 0, 0, 0, 0, 0,  0x5B, 0, 0, 0, 0, 0, 0x01, 0x01,  // the GID
    24, 0, 2, 0,  0, 0xFF, 0xFF, 0xFF,                     // IFLA_BROADCAST: QPN
    0xFF, 0x12, 0x40, 0x1B, 0xFF, 0xFF, 0, 0,  0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF,  // the group
    4, 0, 18, 0,                                           // an empty attribute
};
/// RTM_NEWADDR of 10.9.0.1/24 on interface 7.
const Bytes kIpv4 = {
    40, 0, 0, 0,  20, 0, 0, 0,  1, 0, 0, 0,  0, 0, 0, 0,
    2, 24, 0x80, 0,  7, 0, 0, 0,                           // family, prefix, permanent, scope, index
    8, 0, 1, 0,  10, 9, 0, 1,                              // IFA_ADDRESS
    8, 0, 2, 0,  10, 9, 0, 1,                              // IFA_LOCAL
};
/// RTM_NEWADDR of fd00::9 on interface 7.
const Bytes kIpv6 = {
    44, 0, 0, 0,  20, 0, 0, 0,  1, 0, 0, 0,  0, 0, 0, 0,
    10, 64, 0x80, 0,  7, 0, 0, 0,
    20, 0, 1, 0,  0xFD, 0, 0, 0, 0, 0, 0, 0,  0, 0, 0, 0, 0, 0, 0, 9,
};
// clang-format on

Bytes with(Bytes bytes, std::size_t at, std::uint8_t value) {
  bytes[at] = value;
  return bytes;
}
Bytes done(std::uint32_t sequence) {
  Bytes bytes = {20, 0, 0, 0, 3, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  std::memcpy(bytes.data() + 8, &sequence, 4);
  return bytes;
}
Bytes joined(const Bytes& one, const Bytes& other) {
  Bytes both = one;
  both.insert(both.end(), other.begin(), other.end());
  return both;
}
const mad::AcmAddress kFirst = mad::AcmAddress::ipv4({10, 9, 0, 1});

class IpoibTest : public testing::Test {
 protected:
  void SetUp() override {
    if constexpr (std::endian::native != std::endian::little) {
      FAIL() << "these vectors are of little-endian hosts";
    }
  }
  RouteNews handle(const Bytes& bytes) { return table_.handle(bytes, 5); }
  [[nodiscard]] std::vector<mad::AcmAddress> of(const Gid& gid, PKey pkey = kFull) const {
    return table_.of(gid, pkey);
  }

  IpoibAddresses table_;
};

TEST_F(IpoibTest, AnInterfaceAndItsAddresses) {
  EXPECT_EQ(handle(kLink), RouteNews::None);
  EXPECT_EQ(handle(joined(kIpv4, kIpv6)), RouteNews::None) << "several messages in one datagram";
  const std::vector<mad::AcmAddress> expected = {
      kFirst, mad::AcmAddress::ipv6({0xFD, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9})};
  EXPECT_EQ(of(kGid), expected);
  EXPECT_TRUE(of(kOtherGid).empty());
}

TEST_F(IpoibTest, PartitionsAreComparedAndNotMemberships) {
  handle(with(with(kLink, 76, 0x81), 77, 0x23));
  handle(kIpv4);
  EXPECT_TRUE(of(kGid).empty());
  EXPECT_EQ(of(kGid, PKey(0x8123)).size(), 1U);
  EXPECT_EQ(of(kGid, PKey(0x0123)).size(), 1U);
}

TEST_F(IpoibTest, AddressesThatComeBeforeTheirInterface) {
  handle(kIpv4);
  EXPECT_TRUE(of(kGid).empty());
  handle(kLink);
  EXPECT_EQ(of(kGid).size(), 1U);
}

TEST_F(IpoibTest, WhatGoesIsGone) {
  handle(joined(kLink, kIpv4));
  handle(with(kIpv4, 4, RTM_DELADDR));
  EXPECT_TRUE(of(kGid).empty());
  handle(kIpv4);
  handle(with(kLink, 4, RTM_DELLINK));
  EXPECT_TRUE(of(kGid).empty());
  EXPECT_EQ(table_.links(), 0U);
}

TEST_F(IpoibTest, AnInterfaceThatIsDown) {
  handle(joined(kLink, kIpv4));
  handle(with(kLink, 24, 0));
  EXPECT_TRUE(of(kGid).empty());
  handle(kLink);
  EXPECT_EQ(of(kGid).size(), 1U);
}

TEST_F(IpoibTest, ItsPortGetsAnotherGid) {
  handle(joined(kLink, kIpv4));
  handle(with(kLink, 62, 0x02));
  EXPECT_TRUE(of(kGid).empty());
  EXPECT_EQ(of(kOtherGid).size(), 1U);
}

TEST_F(IpoibTest, OtherInterfacesAreNotOurs) {
  handle(with(kLink, 18, 1));  // Ethernet
  handle(kIpv4);
  EXPECT_EQ(table_.links(), 0U);
  handle(with(kLink, 16, 7));  // a bridge's view of a port
  EXPECT_EQ(table_.links(), 0U);
}

TEST_F(IpoibTest, AddressesThatMayBeAnothersAreNotTaken) {
  handle(kLink);
  for (const int flags : {IFA_F_TENTATIVE, IFA_F_DADFAILED}) {
    handle(with(kIpv6, 18, static_cast<std::uint8_t>(flags)));
    EXPECT_TRUE(of(kGid).empty());
  }
  handle(kIpv6);
  EXPECT_EQ(of(kGid).size(), 1U);
}

TEST_F(IpoibTest, TheLocalEndOfAPointToPointLink) {
  handle(kLink);
  handle(with(kIpv4, 31, 2));  // IFA_ADDRESS is the other end's
  ASSERT_EQ(of(kGid).size(), 1U);
  EXPECT_EQ(of(kGid).front(), kFirst);
}

TEST_F(IpoibTest, EndsOfDumps) {
  EXPECT_EQ(handle(done(5)), RouteNews::Done);
  EXPECT_EQ(handle(done(4)), RouteNews::None) << "of another dump";
  EXPECT_EQ(handle(joined(kLink, done(5))), RouteNews::Done);
  EXPECT_EQ(table_.links(), 1U);
  EXPECT_EQ(handle(with(done(5), 4, NLMSG_ERROR)), RouteNews::Lost);
  EXPECT_EQ(handle(with(done(4), 4, NLMSG_ERROR)), RouteNews::None);
  EXPECT_EQ(handle(with(done(4), 4, NLMSG_OVERRUN)), RouteNews::Lost);
  EXPECT_EQ(handle(with(with(kLink, 8, 5), 6, NLM_F_DUMP_INTR)), RouteNews::Lost);
}

TEST_F(IpoibTest, LinkAddressesOfOtherLengths) {
  // 19 bytes of the 20: the attribute says so.
  handle(with(kLink, 40, 23));
  EXPECT_EQ(table_.links(), 0U);
  handle(with(kLink, 64, 23));
  EXPECT_EQ(table_.links(), 0U);
  handle(with(kIpv4, 32, 7));  // IFA_LOCAL of 3 bytes
  handle(kLink);
  EXPECT_TRUE(of(kGid).empty());
}

TEST_F(IpoibTest, LengthsThatLie) {
  for (const Bytes& whole : {kLink, kIpv4, kIpv6, done(5)}) {
    for (std::size_t size = 1; size < whole.size(); ++size) {
      const Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
      EXPECT_EQ(handle(cut), RouteNews::Lost) << size << " bytes of " << whole.size();
    }
    for (const std::uint8_t length : Bytes{0, 1, 15}) {
      EXPECT_EQ(handle(with(whole, 0, length)), RouteNews::Lost);
    }
  }
  EXPECT_EQ(table_.links(), 0U);
  // Attributes that reach beyond their message, or have no length, end the list.
  for (const std::uint8_t length : Bytes{0, 3, 255}) {
    handle(with(kLink, 32, length));
    EXPECT_EQ(table_.links(), 0U);
  }
}

TEST_F(IpoibTest, AnyBytes) {
  Rng rng(wireup::test::seed(6));
  const std::uint64_t rounds = wireup::test::rounds(20000);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    if (round % 1000 == 0) {
      table_ = {};  // Else it holds all interfaces that there can be.
    }
    Bytes bytes = rng.below(2) == 0 ? kLink : joined(kIpv4, kIpv6);
    for (std::uint64_t changes = 1 + rng.below(6); changes > 0; --changes) {
      bytes[rng.below(bytes.size())] = static_cast<std::uint8_t>(rng.next());
    }
    bytes.resize(1 + rng.below(bytes.size()));
    // Memory beyond the datagram is what the sanitizers watch; nothing it says harms.
    static_cast<void>(handle(bytes));
    static_cast<void>(of(kGid));
  }
}

/// The kernel's side of the socket.
struct FakeKernel {
  std::deque<std::pair<Bytes, std::uint32_t>> to_us;
  int error = 0;
  std::vector<std::pair<std::uint16_t, std::uint32_t>> asked;
  bool refuses = false;
};
FakeKernel* kernel = nullptr;

ssize_t fake_receive(int, void* to, std::size_t size, std::uint32_t* sender) {
  if (kernel->error != 0) {
    errno = std::exchange(kernel->error, 0);
    return -1;
  }
  if (kernel->to_us.empty()) {
    errno = EAGAIN;
    return -1;
  }
  const auto [bytes, from] = kernel->to_us.front();
  kernel->to_us.pop_front();
  std::memcpy(to, bytes.data(), std::min(size, bytes.size()));
  *sender = from;
  return static_cast<ssize_t>(bytes.size());
}
ssize_t fake_send(int, const void* bytes, std::size_t size, std::uint32_t groups) {
  EXPECT_EQ(groups, 0U) << "to the kernel alone";
  nlmsghdr head{};
  EXPECT_EQ(size, sizeof(head) + 1);
  std::memcpy(&head, bytes, sizeof(head));
  EXPECT_EQ(head.nlmsg_flags, NLM_F_REQUEST | NLM_F_DUMP);
  kernel->asked.emplace_back(head.nlmsg_type, head.nlmsg_seq);
  if (kernel->refuses) {
    errno = EPERM;
    return -1;
  }
  return static_cast<ssize_t>(size);
}
constexpr NetlinkOps kFakeOps{fake_receive, fake_send};

class IpoibWatchTest : public testing::Test {
 protected:
  IpoibWatchTest() { kernel = &kernel_; }
  ~IpoibWatchTest() override { kernel = nullptr; }
  IpoibWatchTest(const IpoibWatchTest&) = delete;
  IpoibWatchTest& operator=(const IpoibWatchTest&) = delete;

  void say(const Bytes& bytes, std::uint32_t from = 0) {
    kernel_.to_us.emplace_back(bytes, from);
    watch_.progress(now_);
  }
  void dump() {
    watch_.progress(now_);
    ASSERT_FALSE(kernel_.asked.empty());
    ASSERT_EQ(kernel_.asked.back().first, RTM_GETLINK);
    say(kLink);
    say(done(kernel_.asked.back().second));
    ASSERT_EQ(kernel_.asked.back().first, RTM_GETADDR);
    say(kIpv4);
    say(done(kernel_.asked.back().second));
  }
  [[nodiscard]] std::size_t count() const { return watch_.addresses().of(kGid, kFull).size(); }

  FakeKernel kernel_;
  Instant now_{seconds(1000)};
  IpoibWatch watch_{UniqueFd(), kFakeOps};
};

TEST_F(IpoibWatchTest, ADumpAndThenTheChanges) {
  EXPECT_EQ(watch_.version(), 0U);
  dump();
  EXPECT_EQ(watch_.version(), 1U);
  EXPECT_EQ(count(), 1U);
  EXPECT_FALSE(watch_.poll_timeout().has_value());
  say(kIpv6);
  EXPECT_EQ(watch_.version(), 2U);
  EXPECT_EQ(count(), 2U);
  say(kIpv6);
  EXPECT_EQ(watch_.version(), 2U) << "nothing new";
  say(with(kIpv4, 4, RTM_DELADDR));
  EXPECT_EQ(count(), 1U);
  EXPECT_EQ(kernel_.asked.size(), 2U);
}

TEST_F(IpoibWatchTest, NothingCountsBeforeTheDumpIsWhole) {
  watch_.progress(now_);
  say(kLink);
  say(kIpv4);
  EXPECT_EQ(count(), 0U);
  EXPECT_EQ(watch_.version(), 0U);
}

TEST_F(IpoibWatchTest, OthersThanTheKernelAreNotBelieved) {
  dump();
  say(with(kIpv4, 4, RTM_DELADDR), 4711);
  EXPECT_EQ(count(), 1U);
}

TEST_F(IpoibWatchTest, EverythingAgainWhenNewsWereLost) {
  dump();
  kernel_.error = ENOBUFS;
  watch_.progress(now_);
  EXPECT_EQ(count(), 1U) << "the old ones until there are new ones";
  ASSERT_TRUE(watch_.poll_timeout().has_value());
  now_ = *watch_.poll_timeout();
  watch_.progress(now_);
  ASSERT_EQ(kernel_.asked.back().first, RTM_GETLINK);
  say(kLink);
  say(done(kernel_.asked.back().second));
  say(done(kernel_.asked.back().second));
  EXPECT_EQ(count(), 0U) << "its address went meanwhile";
}

TEST_F(IpoibWatchTest, ADumpThatDoesNotEndIsAskedForAgain) {
  watch_.progress(now_);
  say(kLink);
  now_ = *watch_.poll_timeout() - milliseconds(1);
  watch_.progress(now_);
  EXPECT_EQ(kernel_.asked.size(), 1U);
  now_ += milliseconds(1);
  dump();
  EXPECT_EQ(count(), 1U);
  EXPECT_EQ(kernel_.asked.size(), 3U);
}

TEST_F(IpoibWatchTest, AKernelThatRefusesIsAskedAgainLater) {
  kernel_.refuses = true;
  watch_.progress(now_);
  watch_.progress(now_);
  EXPECT_EQ(kernel_.asked.size(), 1U);
  kernel_.refuses = false;
  now_ = *watch_.poll_timeout();
  dump();
  EXPECT_EQ(count(), 1U);
}

TEST(IpoibWatch, TheRealKernelsDumpEnds) {
  auto socket = open_route_netlink();
  ASSERT_TRUE(socket.has_value()) << socket.error().what();
  IpoibWatch watch(std::move(*socket));
  const Instant end = monotonic_now() + seconds(30);
  while (watch.version() == 0 && monotonic_now() < end) {
    watch.progress(monotonic_now());
    pollfd waiting{watch.fd(), POLLIN, 0};
    poll(&waiting, 1, 20);
  }
  EXPECT_GT(watch.version(), 0U) << "no whole dump of links and addresses";
}

}  // namespace
}  // namespace wireup::acm
