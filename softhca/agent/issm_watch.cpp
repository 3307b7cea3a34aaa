// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/agent/issm_watch.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <utility>

#include "softhca/umad/agent_protocol.hpp"

namespace softhca {
namespace {

bool watch(int epoll, int fd, std::uint32_t events) {
  epoll_event event = {};
  event.events = events;
  event.data.fd = fd;
  return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

bool reader_left(int fd) {
  pollfd state = {fd, 0, 0};
  return poll(&state, 1, 0) == 1 && (state.revents & POLLERR) != 0;
}

}  // namespace

bool IssmWatch::something_was_opened() {
  bool opened = std::exchange(first_look_, false);
  alignas(inotify_event) std::array<char, 4096> events;
  for (ssize_t length = 0; (length = read(inotify_, events.data(), events.size())) > 0;) {
    for (std::size_t at = 0; at + sizeof(inotify_event) <= static_cast<std::size_t>(length);) {
      inotify_event event;
      std::memcpy(&event, events.data() + at, sizeof event);
      // To read the folder is to open it: whoever took that for news would read for ever.
      opened |= (event.mask & IN_ISDIR) == 0;
      at += sizeof event + event.len;
    }
  }
  return opened;
}

std::unique_ptr<IssmWatch> IssmWatch::create(const std::string& dir) {
  const std::string folder = dir + "/" + kIssmDir;
  if (mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST) {
    return nullptr;
  }
  if (geteuid() == 0) {
    static_cast<void>(chmod(folder.c_str(), 0777));
  }
  const int inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  std::unique_ptr<IssmWatch> issm(new IssmWatch(folder, inotify, epoll));
  if (inotify < 0 || epoll < 0 ||
      inotify_add_watch(inotify, folder.c_str(), IN_OPEN | IN_CREATE) < 0 ||
      !watch(epoll, inotify, EPOLLIN)) {
    return nullptr;
  }
  return issm;
}

IssmWatch::~IssmWatch() {
  for (const auto& [port, fd] : held_) {
    close(fd);
  }
  close(inotify_);
  close(epoll_);
}

std::vector<PortIndex> IssmWatch::update() {
  std::vector<PortIndex> changed;
  for (auto entry = held_.begin(); entry != held_.end();) {
    if (reader_left(entry->second)) {
      close(entry->second);
      changed.push_back(entry->first);
      entry = held_.erase(entry);
    } else {
      ++entry;
    }
  }
  if (!something_was_opened()) {
    return changed;
  }
  DIR* folder = opendir(folder_.c_str());
  if (folder == nullptr) {
    return changed;
  }
  while (const dirent* entry = readdir(folder)) {
    const char* name = entry->d_name;
    PortIndex port = 0;
    const auto parsed = std::from_chars(name, name + std::strlen(name), port);
    if (parsed.ec != std::errc() || *parsed.ptr != '\0' || is_open(port)) {
      continue;
    }
    // What is no FIFO is not ours to touch; opening it would be news again, for ever.
    struct stat info = {};
    if (fstatat(dirfd(folder), name, &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISFIFO(info.st_mode)) {
      continue;
    }
    // A FIFO without a reader cannot be opened for writing.
    const int fd = openat(dirfd(folder), name, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
      continue;
    }
    if (fstat(fd, &info) != 0 || !S_ISFIFO(info.st_mode) || !watch(epoll_, fd, 0)) {
      close(fd);
      continue;
    }
    held_[port] = fd;
    changed.push_back(port);
  }
  closedir(folder);
  return changed;
}

}  // namespace softhca
