// SPDX-License-Identifier: BSD-3-Clause
#include "acm/driver/node_lock.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace wireup::acm {
namespace {

constexpr std::size_t kFileSize = 4096;
/// Epochs beyond this do not fit a lock's offset; 2^40 take-overs will not happen, but the number
/// comes from a file.
constexpr std::uint64_t kEpochMask = (std::uint64_t{1} << 40U) - 1;

Duration silence_of(const NodeLockState& state, Instant now) noexcept {
  const std::int64_t last = state.last_beat.load(std::memory_order_acquire);
  const Instant at{Duration(last)};
  // A beat in the future is one of another boot.
  if (last <= 0 || at > now + std::chrono::seconds(1)) {
    return Duration::max();
  }
  return now > at ? now - at : Duration::zero();
}

/// Whether anybody else holds this byte.
bool is_taken(int fd, std::uint64_t place) noexcept {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(place);
  lock.l_len = 1;
  return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

/// The file of the lock itself, where that of the state is everybody's to read.
Result<UniqueFd> open_owner_file(const std::string& path) {
  auto fd = open_trusted(path, O_RDWR | O_CREAT);
  if (fd && fchmod(fd->value(), 0600) != 0) {
    return fail(Error::system(Errc::NoPermission, errno, "closing %s to others", path.c_str()));
  }
  return fd;
}

}  // namespace

Result<NodeLock> NodeLock::open(const std::string& path, Audience audience) {
  auto fd = open_trusted(path, O_RDWR | O_CREAT);
  if (!fd) {
    return fail(fd.error());
  }
  // A new file is all zero: epoch 0, no beat. Growing it twice does no harm.
  const auto size = file_size(fd->value(), path);
  if (!size) {
    return fail(size.error());
  }
  if (*size < kFileSize && ftruncate(fd->value(), static_cast<off_t>(kFileSize)) != 0) {
    return fail(Error::system(Errc::NoResources, errno, "making the node lock %s", path.c_str()));
  }
  auto mapping = Mapping::map(fd->value(), kFileSize, true, path);
  if (!mapping) {
    return fail(mapping.error());
  }
  NodeLock lock;
  lock.path_ = path;
  lock.fd_ = std::move(*fd);
  lock.mapping_ = std::move(*mapping);
  if (audience == Audience::Everybody) {
    if (auto readable = let_everybody_read(lock.fd_.value(), path); !readable) {
      return fail(readable.error());
    }
    lock.path_ = path + ".owner";
    auto owner = open_owner_file(lock.path_);
    if (!owner) {
      return fail(owner.error());
    }
    lock.fd_ = std::move(*owner);
  }
  return lock;
}

Result<NodeLock::Status> NodeLock::status(const std::string& path, Instant now) {
  const auto state = NodeLockView::open(path);
  if (!state) {
    return fail(state.error());
  }
  Status status;
  status.epoch = state->epoch();
  status.silence = state->silence(now);
  const std::string owner = path + ".owner";
  const bool is_public = access(owner.c_str(), F_OK) == 0;
  const auto fd = open_trusted(is_public ? owner : path, O_RDONLY);
  if (fd) {
    status.is_held = is_taken(fd->value(), status.epoch);
    status.is_service = is_public ? status.is_held : is_taken(fd->value(), kServicePlace);
  } else {
    status.is_held = status.silence <= kLately;
    status.is_service = is_public && status.is_held;
  }
  return status;
}

std::uint64_t NodeLock::epoch() const noexcept {
  return state().epoch.load(std::memory_order_acquire) & kEpochMask;
}

void NodeLock::end_epoch(std::uint64_t epoch) noexcept {
  std::uint64_t current = state().epoch.load(std::memory_order_acquire);
  if ((current & kEpochMask) == epoch) {
    state().epoch.compare_exchange_strong(current, epoch + 1, std::memory_order_acq_rel);
  }
}

Result<bool> NodeLock::set_lock(short type, std::uint64_t epoch) noexcept {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(epoch);
  lock.l_len = 1;
  if (fcntl(fd_.value(), F_OFD_SETLK, &lock) == 0) {
    return true;
  }
  if (errno == EAGAIN || errno == EACCES) {
    return false;
  }
  return fail(Error::system(Errc::NoResources, errno,
                            "locking %s (is it on a network file system "
                            "without locks?)",
                            path_.c_str()));
}

Result<bool> NodeLock::try_lock(std::uint64_t epoch) {
  return set_lock(F_WRLCK, epoch);
}

void NodeLock::unlock(std::uint64_t epoch) noexcept {
  // Cannot fail for a lock that is held; if it did, the end of the process frees it.
  static_cast<void>(set_lock(F_UNLCK, epoch));
}

void NodeLock::beat(Instant now) noexcept {
  state().last_beat.store(now.time_since_epoch().count(), std::memory_order_release);
}

Duration NodeLock::silence(Instant now) const noexcept {
  return silence_of(state(), now);
}

Result<NodeLockView> NodeLockView::open(const std::string& path) {
  const auto fd = open_trusted(path, O_RDONLY);
  if (!fd) {
    return fail(fd.error());
  }
  const auto size = file_size(fd->value(), path);
  if (!size) {
    return fail(size.error());
  }
  if (*size < kFileSize) {
    return fail(Error::make(Errc::NotFound, "%s is not made yet", path.c_str()));
  }
  auto mapping = Mapping::map(fd->value(), kFileSize, false, path);
  if (!mapping) {
    return fail(mapping.error());
  }
  NodeLockView view;
  view.mapping_ = std::move(*mapping);
  return view;
}

std::uint64_t NodeLockView::epoch() const noexcept {
  return state().epoch.load(std::memory_order_acquire) & kEpochMask;
}

Instant NodeLockView::last_beat() const noexcept {
  return Instant(
      Duration(std::max<std::int64_t>(0, state().last_beat.load(std::memory_order_acquire))));
}

Duration NodeLockView::silence(Instant now) const noexcept {
  return silence_of(state(), now);
}

}  // namespace wireup::acm
