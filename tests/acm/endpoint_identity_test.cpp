// SPDX-License-Identifier: BSD-3-Clause
//
// Who a port is, by the kernel's neighbours and the subnet's tables; the kernel is a test's here.
#include "acm/driver/endpoint_identity.hpp"

#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "acm/identity/neighbours.hpp"
#include "acm/neighbour_bytes.hpp"

namespace wireup::acm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::Bytes;
using test::end_of_table;
using test::ipoib_address;
using test::joined;
using test::neighbour;
using test::netlink_message;

Gid gid(std::uint64_t guid) {
  return Gid::make(0xFE80000000000000, Guid(guid));
}
mad::AcmAddress ipv4(std::uint8_t last) {
  return mad::AcmAddress::ipv4({10, 77, 0, last});
}
mad::AcmAddress name(const char* text) {
  return mad::AcmAddress::name(text).value();
}

/// What the kernel's socket gives, datagram by datagram.
struct FakeKernel {
  struct Datagram {
    Bytes bytes;
    std::uint32_t sender = 0;
  };
  std::deque<Datagram> to_read;
  /// Each request is answered by these, with its sequence.
  std::vector<std::pair<Bytes, std::uint8_t>> entries;
  std::uint32_t requests = 0;
  bool refuses = false;
};
FakeKernel* kernel = nullptr;

ssize_t fake_send(int /*fd*/, const void* bytes, std::size_t size, std::uint32_t groups) {
  EXPECT_EQ(size, kNeighbourRequestSize);
  EXPECT_EQ(groups, 0U);
  std::uint32_t sequence = 0;
  std::memcpy(&sequence, static_cast<const std::uint8_t*>(bytes) + 8, sizeof(sequence));
  EXPECT_EQ(sequence, ++kernel->requests);
  if (kernel->refuses) {
    errno = EPERM;
    return -1;
  }
  for (const auto& [address, last] : kernel->entries) {
    kernel->to_read.push_back({neighbour(sequence, 2, address, ipoib_address(last)), 0});
  }
  kernel->to_read.push_back({end_of_table(sequence), 0});
  return static_cast<ssize_t>(size);
}

ssize_t fake_receive(int /*fd*/, void* to, std::size_t size, std::uint32_t* sender) {
  if (kernel->to_read.empty()) {
    errno = EAGAIN;
    return -1;
  }
  const FakeKernel::Datagram datagram = kernel->to_read.front();
  kernel->to_read.pop_front();
  *sender = datagram.sender;
  std::copy_n(datagram.bytes.begin(), std::min(size, datagram.bytes.size()),
              static_cast<std::uint8_t*>(to));
  return static_cast<ssize_t>(datagram.bytes.size());
}

constexpr NetlinkOps kFakeOps{fake_receive, fake_send};

class EndpointIdentityTest : public testing::Test {
 protected:
  EndpointIdentityTest() { kernel = &kernel_; }
  ~EndpointIdentityTest() override { kernel = nullptr; }

  [[nodiscard]] static NeighbourTable table() {
    return NeighbourTable(UniqueFd(eventfd(0, EFD_CLOEXEC)), kFakeOps);
  }
  [[nodiscard]] static EndpointIdentity identity(bool has_tables) {
    EndpointIdentity::Options options;
    options.neighbours.emplace(table());
    options.has_tables = has_tables;
    return EndpointIdentity(std::move(options));
  }
  static void expect(EndpointIdentity& identity, const mad::AcmAddress& address, const Gid& gid,
                     IdentitySource source) {
    const auto answer = identity.poll_answer();
    ASSERT_TRUE(answer.has_value());
    EXPECT_EQ(answer->address, address);
    ASSERT_TRUE(answer->identity.has_value()) << answer->identity.error().what();
    EXPECT_EQ(*answer->identity, (EndpointIdentity::Identity{gid, source}));
  }
  [[nodiscard]] static Errc error_of_answer(EndpointIdentity& identity) {
    const auto answer = identity.poll_answer();
    EXPECT_TRUE(answer.has_value() && !answer->identity.has_value());
    return answer.has_value() && !answer->identity
               ? static_cast<Errc>(answer->identity.error().code().value())
               : Errc{};
  }

  FakeKernel kernel_;
  Instant now_{seconds(1000)};
};

TEST_F(EndpointIdentityTest, TheTableIsReadOnceASecond) {
  kernel_.entries = {{{10, 77, 0, 2}, 2}, {{10, 77, 0, 3}, 3}};
  NeighbourTable neighbours = table();
  EXPECT_EQ(neighbours.find(ipv4(2), now_).value(), gid(2));
  EXPECT_EQ(neighbours.find(ipv4(3), now_).value(), gid(3));
  EXPECT_EQ(neighbours.find(ipv4(4), now_).value(), std::nullopt);
  EXPECT_EQ(neighbours.find(name("node2"), now_).value(), std::nullopt);
  EXPECT_EQ(kernel_.requests, 1U);
  kernel_.entries = {{{10, 77, 0, 4}, 4}};
  EXPECT_EQ(neighbours.find(ipv4(4), now_ + milliseconds(999)).value(), std::nullopt);
  EXPECT_EQ(neighbours.find(ipv4(4), now_ + seconds(1)).value(), gid(4));
  EXPECT_EQ(neighbours.find(ipv4(2), now_ + seconds(1)).value(), std::nullopt) << "gone";
}

TEST_F(EndpointIdentityTest, OnlyTheKernelIsBelieved) {
  NeighbourTable neighbours = table();
  kernel_.to_read = {{neighbour(1, 2, {10, 77, 0, 2}, ipoib_address(9)), 4711}};
  EXPECT_EQ(neighbours.find(ipv4(2), now_).value(), std::nullopt);
}

TEST_F(EndpointIdentityTest, AKernelThatDoesNotFinish) {
  NeighbourTable neighbours = table();
  kernel_.refuses = true;
  EXPECT_TRUE(neighbours.find(ipv4(2), now_).error().is(Errc::NoResources));
  kernel_.refuses = false;
  kernel_.to_read = {{Bytes(7), 0}};
  EXPECT_TRUE(neighbours.find(ipv4(2), now_ + seconds(2)).error().is(Errc::Malformed));
  // What is left of that reading belongs to another sequence.
  EXPECT_EQ(neighbours.find(ipv4(2), now_ + seconds(4)).value(), std::nullopt);
}

TEST_F(EndpointIdentityTest, ARealKernelsTable) {
  auto real = NeighbourTable::open();
  ASSERT_TRUE(real.has_value()) << real.error().what();
  // Without IPoIB here there is nothing to find, but all of the table is read.
  const auto found = real->find(ipv4(2), now_);
  ASSERT_TRUE(found.has_value()) << found.error().what();
}

TEST_F(EndpointIdentityTest, NeighboursComeFirst) {
  kernel_.entries = {{{10, 77, 0, 2}, 2}};
  EndpointIdentity who = identity(true);
  who.ask(ipv4(2), now_);
  expect(who, ipv4(2), gid(2), IdentitySource::NeighbourTable);
  EXPECT_FALSE(who.poll_table().has_value());
}

TEST_F(EndpointIdentityTest, WithoutTablesTheRestIsUnknown) {
  EndpointIdentity who = identity(false);
  who.ask(name("node2"), now_);
  EXPECT_EQ(error_of_answer(who), Errc::NotFound);
  // A neighbour table that cannot be read is one that does not know.
  kernel_.refuses = true;
  who.ask(ipv4(2), now_);
  EXPECT_EQ(error_of_answer(who), Errc::NotFound);
}

TEST_F(EndpointIdentityTest, ANameByTheNodesDescriptions) {
  EndpointIdentity who = identity(true);
  who.ask(name("node2"), now_);
  who.ask(name("node2"), now_);
  who.ask(name("node3"), now_);
  EXPECT_EQ(who.poll_table(), EndpointIdentity::Table::Nodes);
  EXPECT_FALSE(who.poll_table().has_value()) << "one table for all";
  EXPECT_FALSE(who.poll_answer().has_value());
  who.handle_nodes(std::vector<DescribedPort>{{gid(2), 1, "node2 mlx5_0"}}, now_);
  expect(who, name("node2"), gid(2), IdentitySource::NodeDescription);
  EXPECT_FALSE(who.poll_answer().has_value());
  // The other one may be a service's.
  EXPECT_EQ(who.poll_table(), EndpointIdentity::Table::Services);
  who.handle_services(std::vector<RegisteredService>{{"node3", gid(3), PKey(0xFFFF), {}}}, now_);
  expect(who, name("node3"), gid(3), IdentitySource::ServiceRecord);
  // The tables are here.
  who.ask(name("node2"), now_ + seconds(4));
  expect(who, name("node2"), gid(2), IdentitySource::NodeDescription);
  who.ask(name("node4"), now_ + seconds(4));
  EXPECT_EQ(error_of_answer(who), Errc::NotFound);
  EXPECT_FALSE(who.poll_table().has_value());
  who.ask(name("node4"), now_ + seconds(5));
  EXPECT_EQ(who.poll_table(), EndpointIdentity::Table::Nodes);
}

TEST_F(EndpointIdentityTest, AnAddressByTheServices) {
  EndpointIdentity who = identity(true);
  who.ask(ipv4(2), now_);
  EXPECT_EQ(who.poll_table(), EndpointIdentity::Table::Services) << "descriptions hold no address";
  RegisteredService service{std::string(kAddressTranslationService), gid(2), PKey(0xFFFF), {}};
  service.data[12] = 10;
  service.data[13] = 77;
  service.data[15] = 2;
  who.handle_services(std::vector<RegisteredService>{service}, now_);
  expect(who, ipv4(2), gid(2), IdentitySource::ServiceRecord);
}

TEST_F(EndpointIdentityTest, ATableThatCannotBeHad) {
  EndpointIdentity who = identity(true);
  who.ask(name("node2"), now_);
  EXPECT_EQ(who.poll_table(), EndpointIdentity::Table::Nodes);
  who.handle_nodes(fail(Error::make(Errc::Timeout, "no answer")), now_);
  EXPECT_EQ(who.poll_table(), EndpointIdentity::Table::Services);
  who.handle_services(fail(Error::make(Errc::Rejected, "no records")), now_);
  EXPECT_EQ(error_of_answer(who), Errc::Timeout) << "the table that could have told";
  // The SA is not pestered, and it is tried again.
  who.ask(name("node2"), now_ + seconds(1));
  EXPECT_FALSE(who.poll_table().has_value());
  EXPECT_EQ(error_of_answer(who), Errc::Timeout);
  who.ask(name("node2"), now_ + seconds(5));
  EXPECT_EQ(who.poll_table(), EndpointIdentity::Table::Nodes);
  who.handle_nodes(std::vector<DescribedPort>{{gid(2), 1, "node2"}}, now_ + seconds(5));
  expect(who, name("node2"), gid(2), IdentitySource::NodeDescription);
}

TEST_F(EndpointIdentityTest, SeveralPortsAreAnError) {
  EndpointIdentity who = identity(true);
  who.ask(name("node2"), now_);
  who.handle_nodes(std::vector<DescribedPort>{{gid(2), 1, "node2 a"}, {gid(3), 1, "node2 b"}},
                   now_);
  EXPECT_EQ(error_of_answer(who), Errc::InvalidArgument);
}

TEST_F(EndpointIdentityTest, AChangedSubnetIsAskedAgain) {
  EndpointIdentity who = identity(true);
  who.ask(name("node2"), now_);
  EXPECT_TRUE(who.poll_table().has_value());
  who.handle_nodes(std::vector<DescribedPort>{{gid(2), 1, "node2"}}, now_);
  expect(who, name("node2"), gid(2), IdentitySource::NodeDescription);
  who.forget();
  who.ask(name("node2"), now_);
  EXPECT_EQ(who.poll_table(), EndpointIdentity::Table::Nodes);
}

TEST(IdentitySource, HasNames) {
  EXPECT_EQ(identity_source_name(IdentitySource::NodeDescription), "node description");
  EXPECT_EQ(identity_source_name(static_cast<IdentitySource>(99)), "unknown");
}

}  // namespace
}  // namespace wireup::acm
