// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/fabric/fabric_view.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <thread>

#include "softhca/fabric/static_fabric.hpp"
#include "softhca/temp_dir.hpp"

namespace softhca {
namespace {

using softhca_test::TempDir;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

//   H1 H2        H3 H4       H1..H4 are ports 0..3 with LIDs 1..4
//   1| |2        1| |2
//   [S0]7 --- 1[S2]2 --- 7[S1]
class TreeFabric : public ::testing::Test {
 protected:
  void SetUp() override {
    fabric_ = StaticFabric::create(dir_.path());
    ASSERT_NE(fabric_, nullptr);
    for (int i = 0; i < 3; ++i) {
      fabric_->add_switch(8);
    }
    for (std::uint32_t i = 0; i < 4; ++i) {
      const PortIndex port = fabric_->add_hca("H" + std::to_string(i + 1));
      ASSERT_EQ(port, i);
      fabric_->link(port, i / 2, i % 2 + 1);
    }
    fabric_->link_switches(0, 7, 2, 1);
    fabric_->link_switches(1, 7, 2, 2);
    fabric_->bring_up();
    ASSERT_TRUE(fabric_->publish());
    view_ = FabricView::attach(dir_.path());
    ASSERT_NE(view_, nullptr) << errno;
  }

  std::vector<PortIndex> reached(PortIndex from, std::uint16_t mlid) {
    std::vector<PortIndex> out = {77};  // must be cleared
    view_->multicast(from, mlid, out);
    return out;
  }

  TempDir dir_;
  std::unique_ptr<StaticFabric> fabric_;
  std::unique_ptr<FabricView> view_;
};

TEST_F(TreeFabric, NamesDevicesPerHost) {
  const auto hcas = view_->hcas_of("H2");
  ASSERT_EQ(hcas.size(), 1U);
  EXPECT_EQ(hcas[0].name, "softhca0");
  EXPECT_EQ(hcas[0].description, "H2 HCA-1");
  EXPECT_THAT(hcas[0].ports, ElementsAre(1U));
  EXPECT_TRUE(view_->hcas_of("H").empty()) << "a host is a whole word";
  EXPECT_TRUE(view_->hcas_of("").empty());
}

TEST_F(TreeFabric, NumbersSeveralHcasOfAHostByGuid) {
  fabric_->add_hca("H2", 2);
  ASSERT_TRUE(fabric_->publish());
  const auto hcas = view_->hcas_of("H2");
  ASSERT_EQ(hcas.size(), 2U);
  EXPECT_EQ(hcas[0].name, "softhca0");
  EXPECT_EQ(hcas[1].name, "softhca1");
  EXPECT_LT(hcas[0].node_guid, hcas[1].node_guid);
  EXPECT_EQ(hcas[1].ports.size(), 2U);
  EXPECT_EQ(view_->port(hcas[1].ports[1]).port_num, 2);
}

TEST_F(TreeFabric, UnicastFollowsTheForwardingTables) {
  for (PortIndex from = 0; from < 4; ++from) {
    for (PortIndex to = 0; to < 4; ++to) {
      EXPECT_EQ(view_->unicast(from, view_->brief(to).lid), to) << from << " to " << to;
    }
  }
  // One wrong entry on the way, and the packet ends at a port that does not own the LID.
  fabric_->model().switches[1].lft[4] = 1;
  ASSERT_TRUE(fabric_->publish());
  EXPECT_EQ(view_->unicast(0, 4), std::nullopt);
  EXPECT_EQ(view_->unicast(0, 3), 2U);
}

TEST_F(TreeFabric, UnicastGivesUpWithoutARoute) {
  EXPECT_EQ(view_->unicast(0, 0), std::nullopt);
  EXPECT_EQ(view_->unicast(0, 99), std::nullopt) << "above the table";
  EXPECT_EQ(view_->unicast(0, 0xC000), std::nullopt) << "a multicast LID";
  EXPECT_EQ(view_->unicast(0, 0xFFFF), std::nullopt);
  EXPECT_EQ(view_->unicast(4, 1), std::nullopt) << "no such port";
  EXPECT_EQ(view_->unicast(kNoPort, 1), std::nullopt);
  const std::uint16_t switch_lid = fabric_->model().switches[2].record.lid;
  EXPECT_EQ(view_->unicast(0, switch_lid), std::nullopt) << "a switch takes no datagrams";
}

TEST_F(TreeFabric, UnicastEndsInALoopOfTables) {
  fabric_->model().switches[2].lft[4] = 1;
  fabric_->model().switches[0].lft[4] = 7;
  ASSERT_TRUE(fabric_->publish());
  EXPECT_EQ(view_->unicast(0, 4), std::nullopt);
}

TEST_F(TreeFabric, UnicastNeedsActiveLinksAtBothEnds) {
  fabric_->model().switches[2].ports[2].state = kPortArmed;
  ASSERT_TRUE(fabric_->publish());
  EXPECT_EQ(view_->unicast(0, 4), std::nullopt);
  EXPECT_EQ(view_->unicast(0, 2), 1U) << "the rest of the fabric is not affected";

  fabric_->model().switches[2].ports[2].state = kPortActive;
  fabric_->model().switches[1].ports[7].phys_state = kPhysPolling;
  ASSERT_TRUE(fabric_->publish());
  EXPECT_EQ(view_->unicast(0, 4), std::nullopt);

  fabric_->model().switches[1].ports[7].phys_state = kPhysLinkUp;
  fabric_->model().ports[3].state = kPortInit;
  ASSERT_TRUE(fabric_->publish());
  EXPECT_EQ(view_->unicast(0, 4), std::nullopt);
  EXPECT_EQ(view_->unicast(3, 4), std::nullopt) << "not even to itself";
}

TEST_F(TreeFabric, UnicastReachesEveryLidOfALidMask) {
  TempDir dir;
  const auto fabric = StaticFabric::create(dir.path());
  ASSERT_NE(fabric, nullptr);
  fabric->add_switch(2);
  fabric->link(fabric->add_hca("A"), 0, 1);
  fabric->link(fabric->add_hca("B"), 0, 2);
  fabric->bring_up(2);
  ASSERT_TRUE(fabric->publish());
  const auto view = FabricView::attach(dir.path());
  ASSERT_NE(view, nullptr);
  EXPECT_EQ(view->brief(0).lid, 4);
  EXPECT_EQ(view->brief(1).lid, 8);
  for (std::uint16_t lid = 8; lid < 12; ++lid) {
    EXPECT_EQ(view->unicast(0, lid), 1U) << lid;
    EXPECT_TRUE(view->port(1).owns_lid(lid));
  }
  EXPECT_EQ(view->unicast(0, 7), 0U) << "the sender's own last LID";
  EXPECT_EQ(view->unicast(0, 12), std::nullopt);
}

TEST_F(TreeFabric, MulticastReachesMembersOnly) {
  EXPECT_THAT(reached(0, 0xC001), IsEmpty()) << "nobody has joined";
  fabric_->set_group(0xC001, {1, 2});
  ASSERT_TRUE(fabric_->publish());
  EXPECT_THAT(reached(1, 0xC001), ElementsAre(1U, 2U)) << "the sender's own port loops back";
  EXPECT_THAT(reached(2, 0xC001), ElementsAre(1U, 2U));
  EXPECT_THAT(reached(0, 0xC001), ElementsAre(1U, 2U)) << "sending needs no membership";
  EXPECT_THAT(reached(0, 0xC000), IsEmpty());
  EXPECT_THAT(reached(0, 0xC3FF), IsEmpty());
  EXPECT_THAT(reached(0, 0xFFFE), IsEmpty()) << "beyond every table";
  EXPECT_THAT(reached(0, 0x1234), IsEmpty()) << "not a multicast LID";
}

TEST_F(TreeFabric, MulticastIsPrunedAtDownLinks) {
  fabric_->set_group(0xC001, {0, 1, 2, 3});
  fabric_->model().switches[1].ports[7].state = kPortInit;
  fabric_->model().ports[1].state = kPortDown;
  ASSERT_TRUE(fabric_->publish());
  EXPECT_THAT(reached(0, 0xC001), ElementsAre(0U));
  EXPECT_THAT(reached(2, 0xC001), ElementsAre(2U, 3U));
  EXPECT_THAT(reached(1, 0xC001), IsEmpty()) << "the sender's port is down";
}

TEST_F(TreeFabric, MulticastEndsInALoopOfTables) {
  fabric_->link_switches(0, 8, 1, 8);
  fabric_->bring_up();
  fabric_->set_group(0xC001, {0, 3});
  // A cycle S0 - S2 - S1 - S0.
  fabric_->model().switches[0].mft[1][0] |= 1U << 8;
  fabric_->model().switches[1].mft[1][0] |= 1U << 8;
  ASSERT_TRUE(fabric_->publish());
  EXPECT_THAT(reached(0, 0xC001), ElementsAre(0U, 3U));
}

TEST_F(TreeFabric, GenerationChangesOnlyWithTheFabric) {
  const std::uint64_t before = view_->generation();
  ASSERT_TRUE(fabric_->publish());
  EXPECT_EQ(view_->generation(), before);
  fabric_->model().ports[0].lid = 40;
  ASSERT_TRUE(fabric_->publish());
  EXPECT_EQ(view_->generation(), before + 1);
  EXPECT_EQ(view_->port(0).lid, 40);
}

TEST_F(TreeFabric, AttributesAreWhatWasPublished) {
  PortRecord& port = fabric_->model().ports[2];
  port.pkeys = {0xFFFF, 0x8001};
  port.gids[1] = {0xFE, 0x80, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14};
  port.gid_count = 2;
  port.sm_sl = 3;
  ASSERT_TRUE(fabric_->publish());
  EXPECT_EQ(static_cast<const PortRecord&>(view_->port(2)), port);
  EXPECT_EQ(view_->port(99).present, 0) << "no such port";
  EXPECT_FALSE(view_->brief(99).present);
}

TEST_F(TreeFabric, RefusesAModelWithIndexesOutOfRange) {
  const std::uint64_t before = view_->generation();
  fabric_->model().ports[0].link = {LinkKind::SwitchPort, 3, 1, 0};
  EXPECT_FALSE(fabric_->publish());
  EXPECT_EQ(errno, EINVAL);
  fabric_->model().ports[0].link = {LinkKind::SwitchPort, 0, 9, 0};
  EXPECT_FALSE(fabric_->publish());
  fabric_->model().ports[0].link = {LinkKind::HcaPort, 4, 1, 0};
  EXPECT_FALSE(fabric_->publish());
  EXPECT_EQ(view_->generation(), before);
}

TEST_F(TreeFabric, ReadersGoOnWithTheSameFileWhenTheWriterComesBack) {
  EXPECT_TRUE(view_->writer_alive());
  EXPECT_EQ(StaticFabric::create(dir_.path()), nullptr) << "one writer at a time";
  EXPECT_EQ(errno, EBUSY);
  FabricModel model = fabric_->model();
  fabric_.reset();
  EXPECT_FALSE(view_->writer_alive());
  EXPECT_EQ(view_->unicast(0, 4), 3U) << "the last image stays readable";
  EXPECT_EQ(FabricView::attach(dir_.path()), nullptr);
  EXPECT_EQ(errno, ENODEV) << "no new reader without a writer";

  const auto writer = FabricWriter::open(dir_.path());
  ASSERT_NE(writer, nullptr);
  EXPECT_TRUE(view_->writer_alive());
  EXPECT_EQ(writer->published().ports, model.ports);
  EXPECT_EQ(writer->published().hcas, model.hcas);
  model.ports[3].lid = 50;
  ASSERT_TRUE(writer->publish(model));
  EXPECT_EQ(view_->port(3).lid, 50) << "the reader that stayed sees the new writer's image";
}

TEST(FabricView, TellsWhyItCannotAttach) {
  TempDir dir;
  EXPECT_EQ(FabricView::attach(nullptr), nullptr);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(FabricView::attach(dir.path()), nullptr);
  EXPECT_EQ(errno, ENOENT);
  std::ofstream(dir.file("fabric")) << "something else";
  EXPECT_EQ(FabricView::attach(dir.path()), nullptr);
  EXPECT_EQ(errno, ENODEV);
  const auto writer = FabricWriter::open(dir.path());
  ASSERT_NE(writer, nullptr);
  EXPECT_EQ(FabricView::attach(dir.path()), nullptr);
  EXPECT_EQ(errno, EAGAIN) << "nothing is published yet";
}

// The invariant of the next two tests: all ports of one image have the same LID and state.
FabricModel uniform_model(std::uint16_t lid) {
  FabricModel model;
  HcaRecord hca;
  hca.present = 1;
  hca.port_count = 1;
  hca.node_guid = 1;
  model.hcas.push_back(hca);
  for (int i = 0; i < 24; ++i) {
    PortRecord port;
    port.present = 1;
    port.lid = lid;
    port.sm_lid = lid;
    port.pkeys.fill(lid);
    port.subnet_prefix = lid;
    model.ports.push_back(port);
  }
  return model;
}

bool consistent(const PortAttr& port) {
  const auto same = [&port](std::uint16_t pkey) { return pkey == port.lid; };
  return port.lid != 0 && port.sm_lid == port.lid && port.subnet_prefix == port.lid &&
         std::all_of(port.pkeys.begin(), port.pkeys.end(), same);
}

TEST(FabricViewConcurrency, ReadersNeverSeeHalfAnImage) {
  TempDir dir;
  const auto writer = FabricWriter::open(dir.path());
  ASSERT_NE(writer, nullptr);
  ASSERT_TRUE(writer->publish(uniform_model(1)));
  constexpr std::uint16_t kRounds = 1000;
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> reads{0};
  std::atomic<std::uint64_t> torn{0};
  std::vector<std::thread> readers;
  readers.reserve(3);
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&, i] {
      const auto view = FabricView::attach(dir.path());
      std::uint16_t last = 0;
      while (!stop.load()) {
        const PortAttr port = view->port(static_cast<PortIndex>(23 * i / 2));
        torn += consistent(port) && port.lid >= last ? 0 : 1;
        last = port.lid;
        ++reads;
      }
    });
  }
  while (reads.load() < 100) {
    std::this_thread::yield();  // the readers are under way before anything changes
  }
  for (std::uint16_t lid = 2; lid < kRounds; ++lid) {
    ASSERT_TRUE(writer->publish(uniform_model(lid)));
  }
  stop = true;
  for (std::thread& reader : readers) {
    reader.join();
  }
  EXPECT_EQ(torn.load(), 0U);
}

TEST(FabricViewConcurrency, AWriterKilledWhileWritingHarmsNobody) {
  TempDir dir;
  {
    const auto writer = FabricWriter::open(dir.path());
    ASSERT_NE(writer, nullptr);
    ASSERT_TRUE(writer->publish(uniform_model(1)));
  }
  std::uint16_t first = 2;
  std::unique_ptr<FabricView> view;
  for (int round = 0; round < 25; ++round) {
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0) {
      const auto writer = FabricWriter::open(dir.path());
      const bool begun = writer != nullptr && writer->publish(uniform_model(first));
      if (!begun || write(ready[1], "x", 1) != 1) {
        _exit(1);
      }
      for (std::uint32_t n = first;; ++n) {
        writer->publish(uniform_model(static_cast<std::uint16_t>(n % 60000 + 1)));
      }
    }
    close(ready[1]);
    char byte = 0;
    ASSERT_EQ(read(ready[0], &byte, 1), 1) << "the child could not write";
    close(ready[0]);
    if (view == nullptr) {
      view = FabricView::attach(dir.path());
      ASSERT_NE(view, nullptr);
    }
    // Publishing goes on without pause, so the moment of the kill is arbitrary.
    for (int i = 0; i < 20 + 7 * round; ++i) {
      EXPECT_TRUE(consistent(view->port(0)));
    }
    kill(child, SIGKILL);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    const PortAttr port = view->port(20);
    EXPECT_TRUE(consistent(port)) << "round " << round;
    EXPECT_FALSE(view->writer_alive());
    first = static_cast<std::uint16_t>(port.lid % 60000 + 1);
  }
}

}  // namespace
}  // namespace softhca
