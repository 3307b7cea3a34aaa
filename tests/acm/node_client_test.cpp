// SPDX-License-Identifier: BSD-3-Clause
#include "acm/driver/node_client.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "acm/cache/node_cache.hpp"
#include "acm/driver/node_directory.hpp"
#include "acm/temporary_directory.hpp"
#include "base/clock.hpp"

// The client, the election and the resolver's thread on a machine without an RDMA device: the
// resolver runs and tells everyone why it cannot resolve. tests/acm/test_fabric.py has the rest.
namespace wireup::acm {
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
  port.sm_lid = Lid(1);
  port.pkeys = {PKey(0x7FFF), PKey(0x8001)};
  port.active_mtu = 5;
  port.active_rate = 16;
  port.active = true;
  port.state = "ACTIVE";
  port.link_layer = verbs::LinkLayer::InfiniBand;
  return port;
}

PathKey key_to(std::uint64_t peer) {
  PathKey key;
  key.sgid = fake_port().gid;
  key.dgid = Gid::make(0xFE80000000000000, Guid(peer));
  key.pkey = PKey(0xFFFF);
  return key;
}

class NodeClientTest : public testing::Test {
 protected:
  [[nodiscard]] NodeClientOptions options() const {
    NodeClientOptions result;
    result.directory = directory_.path() + "/node";
    result.cache_directory = directory_.path();
    return result;
  }
  [[nodiscard]] NodeClient open(const NodeClientOptions& options) {
    auto opened = NodeClient::open(options, fake_port());
    EXPECT_TRUE(opened.has_value()) << opened.error().what();
    return std::move(*opened);
  }
  /// Waits as a program would: on the descriptor, until the deadline it was given.
  [[nodiscard]] static std::optional<Resolution> wait(NodeClient& client, Duration limit) {
    const Instant end = monotonic_now() + limit;
    while (monotonic_now() < end) {
      client.progress(monotonic_now());
      if (auto resolution = client.poll_resolution()) {
        return resolution;
      }
      Instant until = end;
      if (const auto due = client.poll_timeout()) {
        until = std::min(until, *due);
      }
      pollfd descriptor{client.fd(), POLLIN, 0};
      poll(&descriptor, 1,
           static_cast<int>(std::max<std::int64_t>(
               0, std::chrono::ceil<milliseconds>(until - monotonic_now()).count())));
    }
    return std::nullopt;
  }

  test::TemporaryDirectory directory_;
};

TEST_F(NodeClientTest, TheOwnPortIsLocal) {
  NodeClient client = open(options());
  PathKey key = key_to(0x1234);
  key.service_id = ServiceId(5);
  const auto path = client.lookup(key);
  ASSERT_TRUE(path.has_value());
  EXPECT_EQ(path->origin, PathOrigin::Local);
  EXPECT_EQ(path->record.dlid, Lid(7));
  EXPECT_EQ(path->record.slid, Lid(7));
  EXPECT_EQ(path->record.mtu, 5);
  EXPECT_EQ(path->record.rate, 16);
  EXPECT_EQ(path->record.pkey, PKey(0x7FFF)) << "as the port's table has it";
  ASSERT_TRUE(client.request(key, monotonic_now() + seconds(1)));
  const auto resolution = client.poll_resolution();
  ASSERT_TRUE(resolution.has_value() && resolution->path.has_value());
  EXPECT_EQ(resolution->key, key);

  verbs::PortInfo moved = fake_port();
  moved.lid = Lid(70);
  client.port_changed(moved);
  EXPECT_EQ(client.lookup(key)->record.dlid, Lid(70));
  client.path_failed(key);
  EXPECT_TRUE(client.lookup(key).has_value()) << "nobody but the port says how it reaches itself";
}

TEST_F(NodeClientTest, OneResolverAndItSaysWhyItCannot) {
  NodeClient first = open(options());
  NodeClient second = open(options());
  EXPECT_TRUE(first.is_resolver());
  EXPECT_FALSE(second.is_resolver());
  for (NodeClient* client : {&first, &second}) {
    EXPECT_FALSE(client->lookup(key_to(2)).has_value());
    ASSERT_TRUE(client->request(key_to(2), monotonic_now() + seconds(20)));
    ASSERT_TRUE(client->request(key_to(2), monotonic_now() + seconds(10))) << "merges";
    const auto resolution = wait(*client, seconds(15));
    ASSERT_TRUE(resolution.has_value()) << "no answer";
    EXPECT_EQ(resolution->key, key_to(2));
    ASSERT_FALSE(resolution->path.has_value());
    EXPECT_TRUE(resolution->path.error().is(Errc::NoDevice)) << resolution->path.error().what();
    EXPECT_FALSE(client->poll_resolution().has_value()) << "one answer a key";
  }
}

TEST_F(NodeClientTest, TheNextTakesOverWhenTheResolverLeaves) {
  auto first = std::make_unique<NodeClient>(open(options()));
  NodeClient second = open(options());
  NodeClient third = open(options());
  ASSERT_TRUE(first->is_resolver());
  first.reset();
  for (NodeClient* client : {&second, &third}) {
    ASSERT_TRUE(client->request(key_to(2), monotonic_now() + seconds(20)));
    const auto resolution = wait(*client, seconds(15));
    ASSERT_TRUE(resolution.has_value());
    EXPECT_TRUE(resolution->path.error().is(Errc::NoDevice)) << resolution->path.error().what();
  }
  EXPECT_NE(second.is_resolver(), third.is_resolver());
}

TEST_F(NodeClientTest, WithoutAResolverTheDeadlineHolds) {
  NodeClientOptions shy = options();
  shy.may_resolve = false;
  NodeClient client = open(shy);
  EXPECT_FALSE(client.is_resolver());
  const Instant start = monotonic_now();
  ASSERT_TRUE(client.request(key_to(2), start + milliseconds(300)));
  const auto resolution = wait(client, seconds(10));
  ASSERT_TRUE(resolution.has_value());
  EXPECT_GE(monotonic_now() - start, milliseconds(300));
  EXPECT_TRUE(resolution->path.error().is(Errc::PathUnresolved));
  EXPECT_NE(resolution->path.error().what().find("may_resolve"), std::string_view::npos);
  // One who may comes: the shy one is served.
  NodeClient other = open(options());
  ASSERT_TRUE(client.request(key_to(2), monotonic_now() + seconds(10)));
  const auto served = wait(client, seconds(10));
  ASSERT_TRUE(served.has_value());
  EXPECT_TRUE(served->path.error().is(Errc::NoDevice)) << served->path.error().what();
}

TEST_F(NodeClientTest, ReadsTheNodesCache) {
  NodeClient client = open(options());
  const auto names = NodeDirectory::open(directory_.path() + "/node", directory_.path(),
                                         Guid(0x1234), PKey(0x7FFF));
  ASSERT_TRUE(names.has_value());
  PathKey stored = key_to(2);
  stored.pkey = PKey(0x7FFF);
  mad::PathRecord record;
  record.sgid = stored.sgid;
  record.dgid = stored.dgid;
  record.dlid = Lid(99);
  {
    auto cache =
        CacheWriter::open({names->cache_path(0), 64, {fake_port().gid, Lid(7), Lid(1)}, false});
    ASSERT_TRUE(cache.has_value());
    cache->store(stored, record, PathOrigin::AcmMulticast, monotonic_now());
    PathKey old = stored;
    old.dgid = key_to(3).dgid;
    mad::PathRecord old_record = record;
    old_record.dgid = old.dgid;
    cache->store(old, old_record, PathOrigin::AcmMulticast,
                 monotonic_now() - std::chrono::hours(25));
  }
  // A client finds the cache when it connects, or with its first answer.
  NodeClient reader = open(options());
  EXPECT_EQ(reader.lookup(key_to(2))->record.dlid, Lid(99));
  PathKey for_a_service = key_to(2);
  for_a_service.service_id = ServiceId(0x42);
  ASSERT_TRUE(reader.lookup(for_a_service).has_value()) << "heard paths serve every service";
  PathKey with_sl = key_to(2);
  with_sl.sl = Sl(4);
  EXPECT_FALSE(reader.lookup(with_sl).has_value()) << "an SL is a demand";
  EXPECT_FALSE(reader.lookup(key_to(3)).has_value()) << "too old";

  const CacheVersion version = reader.version();
  EXPECT_EQ(version.epoch, 0U);
  EXPECT_NE(version.generation, 0U);
  {
    auto cache =
        CacheWriter::open({names->cache_path(0), 64, {fake_port().gid, Lid(7), Lid(1)}, true});
    ASSERT_TRUE(cache.has_value());
    cache->remove(key_to(3));
    cache->invalidate({fake_port().gid, Lid(7), Lid(2)});
    EXPECT_EQ(reader.version().generation, cache->generation());
    cache->store(stored, record, PathOrigin::AcmMulticast, monotonic_now());
  }
  EXPECT_NE(reader.version().generation, version.generation);
  EXPECT_NE(reader.version().changes, version.changes);

  // Whether or not its resolver has removed it already.
  EXPECT_TRUE(reader.lookup(key_to(2)).has_value());
  reader.path_failed(key_to(2));
  EXPECT_FALSE(reader.lookup(key_to(2)).has_value()) << "it has just failed";
}

TEST_F(NodeClientTest, ForeignKeysAreRefused) {
  NodeClient client = open(options());
  PathKey key = key_to(2);
  key.sgid = Gid::make(0xFE80000000000000, Guid(0x9999));
  const auto refused = client.request(key, monotonic_now() + seconds(1));
  ASSERT_FALSE(refused.has_value());
  EXPECT_TRUE(refused.error().is(Errc::InvalidArgument));
  key = key_to(2);
  key.pkey = PKey(0x8055);
  EXPECT_FALSE(client.request(key, monotonic_now() + seconds(1)).has_value());
  NodeClientOptions other = options();
  other.pkey = PKey(0x8055);
  EXPECT_TRUE(NodeClient::open(other, fake_port()).error().is(Errc::InvalidArgument));
}

TEST_F(NodeClientTest, PartitionsHaveResolversOfTheirOwn) {
  NodeClient client = open(options());
  NodeClientOptions other = options();
  other.pkey = PKey(0x8001);
  NodeClient second = open(other);
  EXPECT_TRUE(client.is_resolver());
  EXPECT_TRUE(second.is_resolver());
}

TEST_F(NodeClientTest, TheThreadTakesNoSignals) {
  const NodeClient client = open(options());
  ASSERT_TRUE(client.is_resolver());
  bool found = false;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream name_file(task.path() / "comm");
    std::string name;
    std::getline(name_file, name);
    if (name != "wireup-acm") {
      continue;
    }
    found = true;
    std::ifstream status(task.path() / "status");
    for (std::string line; std::getline(status, line);) {
      if (line.rfind("SigBlk:", 0) == 0) {
        const std::uint64_t blocked = std::stoull(line.substr(8), nullptr, 16);
        for (const int number : {SIGINT, SIGTERM, SIGUSR1, SIGCHLD, SIGALRM}) {
          EXPECT_NE(blocked & std::uint64_t{1} << (number - 1), 0U) << number;
        }
      }
    }
  }
  EXPECT_TRUE(found);
}

TEST_F(NodeClientTest, ClosingIsQuick) {
  const Instant start = monotonic_now();
  for (int i = 0; i < 20; ++i) {
    const NodeClient client = open(options());
    EXPECT_TRUE(client.is_resolver());
  }
  EXPECT_LT(monotonic_now() - start, seconds(5));
}

}  // namespace
}  // namespace wireup::acm
