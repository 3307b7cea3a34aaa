// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/hca/event_channel.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <vector>

namespace softhca::hca {
namespace {

/// channel_path() without the heap, for the data path.
struct PathBuffer {
  std::array<char, 4200> text;

  PathBuffer(const Registry& registry, ChannelName name) {
    std::snprintf(text.data(), text.size(), "%s/%s/%u-%u", registry.dir().c_str(), kEventsDir,
                  name.slot, name.generation);
  }
};

}  // namespace

bool send_event(const Registry& registry, ChannelName channel, const EventRecord& event) {
  if (channel.slot >= kMaxChannels) {
    return false;
  }
  // Opened anew for each event: a descriptor kept open could be closed by the program (daemons
  // close all) and its number then belong to something else. ENXIO: the reader is gone.
  const PathBuffer path(registry, channel);
  const long fd =
      ::syscall(SYS_openat, AT_FDCWD, path.text.data(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) {
    return false;
  }
  long written = 0;
  do {
    written = ::syscall(SYS_write, fd, &event, sizeof event);
  } while (written < 0 && errno == EINTR);
  ::syscall(SYS_close, fd);
  return written == static_cast<long>(sizeof event);
}

std::uint32_t send_port_event(const Registry& registry, std::uint32_t hca, std::uint8_t port_num,
                              ibv_event_type type) {
  const std::uint32_t top = std::min(registry.header().channels_top.load(), kMaxChannels);
  std::uint32_t told = 0;
  for (std::uint32_t slot = 0; slot < top; ++slot) {
    const ChannelRecord& record = registry.channel(slot);
    if (record.owner.load(std::memory_order_acquire) == 0 || record.kind != ChannelKind::Async ||
        record.hca != hca) {
      continue;
    }
    const EventRecord event{static_cast<std::uint32_t>(type), EventTarget::Port, port_num, 0};
    told += send_event(registry, {slot, record.generation.load()}, event) ? 1U : 0U;
  }
  return told;
}

std::unique_ptr<EventChannel> EventChannel::create(Registry& registry, SlotPool& slots,
                                                   std::uint32_t token, ChannelKind kind,
                                                   std::uint32_t hca) {
  const auto slot = slots.take();
  if (!slot) {
    errno = ENOSPC;
    return nullptr;
  }
  ChannelRecord& record = registry.channel(*slot);
  const ChannelName name{*slot, record.generation.fetch_add(1) + 1};
  const std::string path = registry.channel_path(name);
  struct stat info {};
  mode_t mode = 0600;
  if (::stat(registry.dir().c_str(), &info) == 0) {
    mode = info.st_mode & 0666;
  }
  ::unlink(path.c_str());
  if (::mkfifo(path.c_str(), mode) != 0) {
    const int error = errno;
    slots.give_back(*slot);
    errno = error;
    return nullptr;
  }
  ::chmod(path.c_str(), mode);
  // Open for both directions: then a writer that leaves does not make the reader see an end.
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) {
    const int error = errno;
    ::unlink(path.c_str());
    slots.give_back(*slot);
    errno = error;
    return nullptr;
  }
  record.kind = kind;
  record.hca = hca;
  std::uint32_t top = registry.header().channels_top.load();
  while (top <= *slot && !registry.header().channels_top.compare_exchange_weak(top, *slot + 1)) {
  }
  record.owner.store(token, std::memory_order_release);
  return std::unique_ptr<EventChannel>(new EventChannel(registry, slots, name, fd));
}

EventChannel::~EventChannel() {
  registry_->channel(name_.slot).owner.store(0, std::memory_order_release);
  ::unlink(registry_->channel_path(name_).c_str());
  ::close(fd_);
  slots_->give_back(name_.slot);
}

std::optional<EventRecord> EventChannel::read() const {
  EventRecord event{};
  const ssize_t length = ::read(fd_, &event, sizeof event);
  if (length == static_cast<ssize_t>(sizeof event)) {
    return event;
  }
  if (length >= 0) {
    errno = EIO;
  }
  return std::nullopt;
}

void EventChannel::drop_events_of(EventTarget target, std::uint32_t slot,
                                  std::uint32_t generation) const {
  const PathBuffer path(*registry_, name_);
  // A descriptor of our own, so that the program's keeps its blocking mode.
  const long fd =
      ::syscall(SYS_openat, AT_FDCWD, path.text.data(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) {
    return;
  }
  std::vector<EventRecord> kept;
  EventRecord event{};
  while (::syscall(SYS_read, fd, &event, sizeof event) == static_cast<long>(sizeof event)) {
    if (event.target != target || event.slot != slot || event.generation != generation) {
      kept.push_back(event);
    }
  }
  for (const EventRecord& other : kept) {
    static_cast<void>(::syscall(SYS_write, fd, &other, sizeof other));
  }
  ::syscall(SYS_close, fd);
}

}  // namespace softhca::hca
