// SPDX-License-Identifier: BSD-3-Clause
#include "umad/port.hpp"

#include <infiniband/umad.h>

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "mad/sa.hpp"

namespace wireup::umad {
namespace {

/// The errno value of a failed call of libibumad: the library returns it negated, but for an open
/// that the kernel refused it returns EIO and leaves the reason in errno.
int error_of(int returned) noexcept {
  if ((errno == EACCES || errno == EPERM) && returned == -EIO) {
    return errno;
  }
  return returned < 0 ? -returned : errno;
}

Errc kind_of(int error) noexcept {
  switch (error) {
    case EACCES:
    case EPERM:
      return Errc::NoPermission;
    case ENOMEM:
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
      return Errc::NoResources;
    default:
      return Errc::NoDevice;
  }
}

}  // namespace

Result<Port> Port::open(const Options& options, const Ops& ops) {
  Port port;
  port.ops_ = &ops;
  port.options_ = options;
  errno = 0;
  port.port_id_ = ops.open_port(options.device.c_str(), options.port);
  if (port.port_id_ < 0) {
    const int error = error_of(port.port_id_);
    const Errc kind = kind_of(error);
    return fail(Error::system(
        kind, error, "opening the MAD device of %s port %u%s", options.device.c_str(), options.port,
        kind == Errc::NoPermission
            ? " (/dev/infiniband/umad*: run the node's resolver as root or grant access to it)"
            : ""));
  }
  errno = 0;
  port.agent_id_ = ops.register_agent(port.port_id_, static_cast<int>(options.mgmt_class),
                                      options.class_version, options.rmpp_version, nullptr);
  if (port.agent_id_ < 0) {
    return fail(Error::system(Errc::NoResources, error_of(port.agent_id_),
                              "registering for management class 0x%02x on %s port %u",
                              static_cast<unsigned>(options.mgmt_class), options.device.c_str(),
                              options.port));
  }
  port.fd_ = ops.get_fd(port.port_id_);
  // umad_recv() with a timeout of 0 does not poll first: on a descriptor that blocks it waits.
  if (const int flags = fcntl(port.fd_, F_GETFL);
      flags < 0 || fcntl(port.fd_, F_SETFL, flags | O_NONBLOCK) != 0) {
    return fail(Error::system(Errc::NoResources, errno,
                              "making the MAD descriptor of %s port %u "
                              "non-blocking",
                              options.device.c_str(), options.port));
  }
  const std::size_t bytes = static_cast<std::size_t>(umad_size()) + mad::kMadSize;
  port.buffer_.assign((bytes + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t), 0);
  return port;
}

Port::Port(Port&& other) noexcept
    : ops_(other.ops_),
      options_(std::move(other.options_)),
      port_id_(std::exchange(other.port_id_, -1)),
      agent_id_(std::exchange(other.agent_id_, -1)),
      fd_(std::exchange(other.fd_, -1)),
      buffer_(std::move(other.buffer_)) {}

Port& Port::operator=(Port&& other) noexcept {
  if (this != &other) {
    close();
    ops_ = other.ops_;
    options_ = std::move(other.options_);
    port_id_ = std::exchange(other.port_id_, -1);
    agent_id_ = std::exchange(other.agent_id_, -1);
    fd_ = std::exchange(other.fd_, -1);
    buffer_ = std::move(other.buffer_);
  }
  return *this;
}

Port::~Port() {
  close();
}

void Port::close() noexcept {
  if (agent_id_ >= 0) {
    ops_->unregister_agent(port_id_, agent_id_);
    agent_id_ = -1;
  }
  if (port_id_ >= 0) {
    ops_->close_port(port_id_);
    port_id_ = -1;
  }
}

Result<> Port::send(const MadAddress& to, const mad::Mad& bytes, Duration timeout) {
  std::fill(buffer_.begin(), buffer_.end(), std::uint64_t{0});
  void* umad = buffer_.data();
  umad_set_addr(umad, to.lid.value(), static_cast<int>(mad::kSaQpn), to.sl.value(),
                static_cast<int>(mad::kGsiQKey));
  umad_set_pkey(umad, to.pkey_index);
  std::memcpy(umad_get_mad(umad), bytes.data(), bytes.size());
  const auto timeout_ms =
      std::max<std::int64_t>(1, std::chrono::ceil<std::chrono::milliseconds>(timeout).count());
  errno = 0;
  const int result = ops_->send(port_id_, agent_id_, umad, static_cast<int>(bytes.size()),
                                static_cast<int>(timeout_ms), 0);
  if (result < 0) {
    return fail(Error::system(Errc::NoDevice, error_of(result),
                              "sending a MAD of class 0x%02x from %s port %u to LID %u",
                              static_cast<unsigned>(options_.mgmt_class), options_.device.c_str(),
                              options_.port, to.lid.value()));
  }
  return {};
}

Result<std::optional<ReceivedMad>> Port::receive() {
  void* umad = buffer_.data();
  int length = static_cast<int>(mad::kMadSize);
  errno = 0;
  const int result = ops_->receive(port_id_, umad, &length, 0);
  if (result < 0) {
    const int error = error_of(result);
    if (error == EAGAIN || error == EWOULDBLOCK || error == ETIMEDOUT || error == EINTR) {
      return std::optional<ReceivedMad>();
    }
    if (error == ENOSPC) {
      // A segmented answer longer than the buffer: nothing we ask for has one.
      return std::optional<ReceivedMad>(ReceivedMad{EMSGSIZE, {}, 0});
    }
    return fail(Error::system(Errc::NoDevice, error, "receiving a MAD on %s port %u",
                              options_.device.c_str(), options_.port));
  }
  ReceivedMad received;
  received.status = umad_status(umad);
  received.size = static_cast<std::size_t>(std::clamp(length, 0, static_cast<int>(mad::kMadSize)));
  std::memcpy(received.bytes.data(), umad_get_mad(umad), received.size);
  return std::optional<ReceivedMad>(received);
}

}  // namespace wireup::umad
