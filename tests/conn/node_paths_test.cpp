// SPDX-License-Identifier: BSD-3-Clause
// The node's paths by partition, on a machine without an RDMA device: every resolver runs, and says
// why it cannot resolve.
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "acm/temporary_directory.hpp"
#include "base/clock.hpp"
#include "conn/driver/path_source.hpp"

namespace wireup::conn {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

verbs::PortInfo fake_port() {
  verbs::PortInfo port;
  port.device = "no_such_device";
  port.port = 1;
  port.port_guid = Guid(0x1234);
  port.gid = Gid::make(0xFE80000000000000, Guid(0x1234));
  port.lid = Lid(7);
  port.pkeys = {PKey(0xFFFF), PKey(0x8001)};
  port.active_mtu = 5;
  return port;
}

acm::PathKey key_to(std::uint64_t peer, PKey pkey) {
  acm::PathKey key;
  key.sgid = fake_port().gid;
  key.dgid = Gid::make(0xFE80000000000000, Guid(peer));
  key.pkey = pkey;
  return key;
}

TEST(NodePaths, EveryPartitionHasAResolverOfItsOwn) {
  const acm::test::TemporaryDirectory directory;
  NodePathOptions options;
  options.directory = directory.path() + "/node";
  options.cache_directory = directory.path();
  auto paths = open_node_paths(options, fake_port());
  ASSERT_TRUE(paths) << paths.error().what();

  const Instant deadline = monotonic_now() + seconds(20);
  std::set<acm::RankQuestion> open;
  for (const PKey pkey : {PKey(0xFFFF), PKey(0x8001)}) {
    const acm::PathKey key = key_to(2, pkey);
    EXPECT_FALSE((*paths)->lookup(key).has_value());
    acm::PathKey any = key;
    any.dgid = Gid();
    const acm::RankQuestion by_gid{key, std::nullopt};
    const acm::RankQuestion by_name{any, *mad::AcmAddress::name("node7")};
    for (const acm::RankQuestion& question : {by_gid, by_name}) {
      ASSERT_TRUE((*paths)->request(question, deadline));
      open.insert(question);
    }
  }
  EXPECT_TRUE((*paths)
                  ->request({key_to(2, PKey(0x8055)), std::nullopt}, deadline)
                  .error()
                  .is(Errc::InvalidArgument))
      << "not in the port's table";
  while (!open.empty() && monotonic_now() < deadline) {
    (*paths)->progress(monotonic_now());
    while (const auto answer = (*paths)->poll_answer()) {
      EXPECT_EQ(open.erase(answer->question), 1U);
      ASSERT_FALSE(answer->path);
      EXPECT_TRUE(answer->path.error().is(Errc::NoDevice)) << answer->path.error().what();
    }
    if (open.empty()) {
      break;
    }
    const Instant until = std::min(deadline, (*paths)->poll_timeout().value_or(deadline));
    pollfd entry{(*paths)->fd(), POLLIN, 0};
    ::poll(&entry, 1,
           static_cast<int>(std::max<std::int64_t>(
               0, std::chrono::ceil<milliseconds>(until - monotonic_now()).count())));
  }
  EXPECT_TRUE(open.empty());
}

TEST(NodePaths, TheOwnPortFollowsIt) {
  const acm::test::TemporaryDirectory directory;
  NodePathOptions options;
  options.directory = directory.path() + "/node";
  options.cache_directory = directory.path();
  auto paths = open_node_paths(options, fake_port());
  ASSERT_TRUE(paths) << paths.error().what();
  const acm::PathKey own = key_to(0x1234, PKey(0xFFFF));
  EXPECT_EQ((*paths)->lookup(own)->record.dlid, Lid(7));
  verbs::PortInfo moved = fake_port();
  moved.lid = Lid(70);
  (*paths)->port_changed(moved);
  EXPECT_EQ((*paths)->lookup(own)->record.dlid, Lid(70));
  EXPECT_EQ((*paths)->version(PKey(0xFFFF)).generation, 0U) << "there is no cache";
  EXPECT_EQ((*paths)->version(PKey(0x8001)), acm::CacheVersion{});
}

}  // namespace
}  // namespace wireup::conn
