// SPDX-License-Identifier: BSD-3-Clause
#include "verbs/port_events.hpp"

#include <fcntl.h>

#include <cerrno>

namespace wireup::verbs {
namespace {

/// More in one go are left for the next: a device that says so much is to be asked anyway.
constexpr int kEventsPerTurn = 64;

bool is_of_port(ibv_event_type type) noexcept {
  switch (type) {
    case IBV_EVENT_PORT_ACTIVE:
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_LID_CHANGE:
    case IBV_EVENT_PKEY_CHANGE:
    case IBV_EVENT_GID_CHANGE:
    case IBV_EVENT_SM_CHANGE:
    case IBV_EVENT_CLIENT_REREGISTER:
      return true;
    default:
      return false;
  }
}

}  // namespace

Result<PortEvents> PortEvents::open(const Device& device, std::uint8_t port) {
  const int fd = device.raw()->async_fd;
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) {
    return fail(
        Error::system(Errc::NoResources, errno, "reading the events of %s", device.name().c_str()));
  }
  return PortEvents(device.ops(), device.raw(), port);
}

int PortEvents::fd() const noexcept {
  return context_->async_fd;
}

PortNews PortEvents::take() noexcept {
  PortNews news;
  ibv_async_event event{};
  for (int i = 0; i < kEventsPerTurn && ops_->get_async_event(context_, &event) == 0; ++i) {
    if (is_of_port(event.event_type) && event.element.port_num == port_) {
      news.has_changed = true;
      news.is_to_register = news.is_to_register || event.event_type == IBV_EVENT_SM_CHANGE ||
                            event.event_type == IBV_EVENT_CLIENT_REREGISTER;
    }
    ops_->ack_async_event(&event);
  }
  return news;
}

}  // namespace wireup::verbs
