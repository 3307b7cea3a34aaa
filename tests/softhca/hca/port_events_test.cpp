// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/hca/port_events.hpp"

#include <gtest/gtest.h>

namespace softhca::hca {
namespace {

FabricModel one_port() {
  FabricModel model;
  PortRecord port;
  port.present = 1;
  port.state = kPortActive;
  port.hca_index = 5;
  port.port_num = 2;
  port.lid = 7;
  port.sm_lid = 1;
  port.gid_count = 1;
  port.pkey_count = 2;
  port.pkeys[0] = 0xFFFF;
  model.ports.push_back(port);
  return model;
}

template <typename Change>
std::vector<PortEvent> events_of(Change&& change) {
  const FabricModel before = one_port();
  FabricModel after = before;
  change(after.ports[0]);
  return port_events(before, after);
}

std::vector<PortEvent> just(ibv_event_type type) {
  return {{5, 2, type}};
}

TEST(PortEvents, EachChangeHasItsEvent) {
  EXPECT_TRUE(events_of([](PortRecord&) {}).empty());
  EXPECT_EQ(events_of([](PortRecord& port) { port.state = kPortInit; }), just(IBV_EVENT_PORT_ERR));
  EXPECT_EQ(events_of([](PortRecord& port) { port.present = 0; }), just(IBV_EVENT_PORT_ERR));
  EXPECT_EQ(events_of([](PortRecord& port) { port.lid = 8; }), just(IBV_EVENT_LID_CHANGE));
  EXPECT_EQ(events_of([](PortRecord& port) { port.lmc = 1; }), just(IBV_EVENT_LID_CHANGE));
  EXPECT_EQ(events_of([](PortRecord& port) { port.gids[0][15] = 9; }), just(IBV_EVENT_GID_CHANGE));
  EXPECT_EQ(events_of([](PortRecord& port) { port.pkeys[1] = 0x8001; }),
            just(IBV_EVENT_PKEY_CHANGE));
  EXPECT_EQ(events_of([](PortRecord& port) { port.sm_lid = 3; }), just(IBV_EVENT_SM_CHANGE));
  EXPECT_EQ(events_of([](PortRecord& port) { port.client_reregister = 1; }),
            just(IBV_EVENT_CLIENT_REREGISTER));
}

TEST(PortEvents, ComingUpIsSeenAndNewPortsAreSilent) {
  FabricModel before = one_port();
  before.ports[0].state = kPortInit;
  FabricModel after = one_port();
  after.ports.push_back(after.ports[0]);
  EXPECT_EQ(port_events(before, after), just(IBV_EVENT_PORT_ACTIVE));
}

}  // namespace
}  // namespace softhca::hca
