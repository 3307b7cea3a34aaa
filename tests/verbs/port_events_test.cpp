// SPDX-License-Identifier: BSD-3-Clause
#include "verbs/port_events.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include "base/unique_fd.hpp"
#include "verbs/fake_verbs.hpp"

namespace wireup::verbs {
namespace {

ibv_async_event event_of(ibv_event_type type, int port) {
  ibv_async_event event{};
  event.event_type = type;
  event.element.port_num = port;
  return event;
}

class PortEventsTest : public testing::Test {
 protected:
  PortEventsTest() {
    auto opened = Device::open("", FakeVerbs::ops());
    EXPECT_TRUE(opened.has_value());
    device_.emplace(std::move(*opened));
    device_->raw()->async_fd = descriptor_.value();
    auto events = PortEvents::open(*device_, 1);
    EXPECT_TRUE(events.has_value());
    events_.emplace(*events);
  }
  [[nodiscard]] PortNews news_of(ibv_event_type type, int port = 1) {
    fake_.events.push_back(event_of(type, port));
    const PortNews news = events_->take();
    EXPECT_TRUE(fake_.events.empty());
    EXPECT_EQ(fake_.unacknowledged, 0) << "or nothing could be destroyed";
    return news;
  }

  FakeVerbs fake_;
  UniqueFd descriptor_{eventfd(0, EFD_CLOEXEC)};
  std::optional<Device> device_;
  std::optional<PortEvents> events_;
};

TEST_F(PortEventsTest, TheDescriptorDoesNotBlock) {
  EXPECT_EQ(events_->fd(), descriptor_.value());
  EXPECT_NE(fcntl(descriptor_.value(), F_GETFL) & O_NONBLOCK, 0);
  EXPECT_FALSE(events_->take().has_changed);
}

TEST_F(PortEventsTest, WhatHappenedToThePort) {
  for (const ibv_event_type type : {IBV_EVENT_PORT_ACTIVE, IBV_EVENT_PORT_ERR, IBV_EVENT_LID_CHANGE,
                                    IBV_EVENT_PKEY_CHANGE, IBV_EVENT_GID_CHANGE}) {
    EXPECT_TRUE(news_of(type).has_changed) << type;
    EXPECT_FALSE(news_of(type).is_to_register) << type;
  }
  for (const ibv_event_type type : {IBV_EVENT_SM_CHANGE, IBV_EVENT_CLIENT_REREGISTER}) {
    EXPECT_TRUE(news_of(type).has_changed) << type;
    EXPECT_TRUE(news_of(type).is_to_register) << type;
  }
}

TEST_F(PortEventsTest, OtherPortsAndObjectsAreNoNews) {
  EXPECT_FALSE(news_of(IBV_EVENT_LID_CHANGE, 2).has_changed);
  EXPECT_FALSE(news_of(IBV_EVENT_CLIENT_REREGISTER, 2).is_to_register);
  EXPECT_FALSE(news_of(IBV_EVENT_DEVICE_FATAL).has_changed);
  EXPECT_FALSE(news_of(IBV_EVENT_QP_FATAL).has_changed);
}

TEST_F(PortEventsTest, ManyAtOnceAreOneNews) {
  fake_.events = {event_of(IBV_EVENT_PORT_ERR, 1), event_of(IBV_EVENT_CLIENT_REREGISTER, 1),
                  event_of(IBV_EVENT_PORT_ACTIVE, 1)};
  const PortNews news = events_->take();
  EXPECT_TRUE(news.has_changed);
  EXPECT_TRUE(news.is_to_register);
  EXPECT_FALSE(events_->take().has_changed);
  // A device that has no end of them holds nobody up.
  fake_.events.assign(1000, event_of(IBV_EVENT_LID_CHANGE, 1));
  EXPECT_TRUE(events_->take().has_changed);
  EXPECT_FALSE(fake_.events.empty());
  EXPECT_EQ(fake_.unacknowledged, 0);
}

}  // namespace
}  // namespace wireup::verbs
