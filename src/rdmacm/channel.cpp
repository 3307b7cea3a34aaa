// SPDX-License-Identifier: BSD-3-Clause
#include "rdmacm/channel.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace wireup::rdmacm {

Result<Channel> Channel::open(const char* device, const Ops* ops) {
  if (access(device, F_OK) != 0) {
    return fail(Error::make(Errc::Unsupported,
                            "the kernel here has no rdma_cm: there is no %s (module rdma_ucm)",
                            device));
  }
  if (ops == nullptr) {
    auto library = load_library();
    if (!library) {
      return fail(library.error());
    }
    ops = *library;
  }
  Channel channel(ops, ops->create_event_channel());
  if (channel.channel_ == nullptr) {
    const int error = errno;
    const Errc kind = error == EACCES || error == EPERM    ? Errc::NoPermission
                      : error == ENODEV || error == ENOENT ? Errc::Unsupported
                                                           : Errc::NoResources;
    return fail(Error::system(kind, error, "opening the kernel's connection manager (%s)", device));
  }
  const int flags = fcntl(channel.fd(), F_GETFL);
  if (flags < 0 || fcntl(channel.fd(), F_SETFL, flags | O_NONBLOCK) != 0 ||
      fcntl(channel.fd(), F_SETFD, FD_CLOEXEC) != 0) {
    return fail(Error::system(Errc::NoResources, errno,
                              "making the kernel's connection manager non-blocking"));
  }
  return channel;
}

Channel::Channel(Channel&& other) noexcept
    : ops_(other.ops_), channel_(std::exchange(other.channel_, nullptr)) {}

Channel& Channel::operator=(Channel&& other) noexcept {
  std::swap(ops_, other.ops_);
  std::swap(channel_, other.channel_);
  return *this;
}

Channel::~Channel() {
  if (channel_ != nullptr) {
    ops_->destroy_event_channel(channel_);
  }
}

}  // namespace wireup::rdmacm
