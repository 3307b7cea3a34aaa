// SPDX-License-Identifier: BSD-3-Clause
#include "umad/port.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <infiniband/umad.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "mad/header.hpp"

namespace wireup::umad {
namespace {

constexpr std::size_t kMethods = 128;
/// More than any table that an SA could have.
constexpr int kLongest = 256 * 1024 * 1024;

std::size_t words_for(std::size_t mad_bytes) noexcept {
  const std::size_t bytes = static_cast<std::size_t>(umad_size()) + mad_bytes;
  return (bytes + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t);
}

/// The errno value of a failed call of libibumad: the library returns it negated, but for an open
/// that the kernel refused it returns EIO and leaves the reason in errno.
int error_of(int returned) noexcept {
  if ((errno == EACCES || errno == EPERM) && returned == -EIO) {
    return errno;
  }
  return returned < 0 ? -returned : errno;
}

/// The errno value of a registration or a send that failed: whatever the reason, the library
/// returns EPERM or EIO and leaves what the kernel said in errno (zero before the call).
int kernels_error(int returned) noexcept {
  return errno != 0 ? errno : -returned;
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

/// Where the MAD in the library's buffer came from.
MadAddress address_of(void* umad) noexcept {
  const ib_mad_addr_t& address = *umad_get_mad_addr(umad);
  MadAddress from;
  from.lid = Lid(ntohs(address.lid));
  from.sl = Sl(static_cast<std::uint8_t>(address.sl & Sl::kMax));
  from.pkey_index = static_cast<std::uint16_t>(umad_get_pkey(umad));
  from.qpn = Qpn(ntohl(address.qpn) & Qpn::kMax);
  from.path_bits = address.path_bits;
  from.has_grh = address.grh_present != 0;
  if (from.has_grh) {
    from.gid_index = address.gid_index;
    Gid::Bytes gid{};
    std::memcpy(gid.data(), address.gid, gid.size());
    from.gid = Gid(gid);
    from.flow_label = FlowLabel(ntohl(address.flow_label) & FlowLabel::kMax);
    from.hop_limit = address.hop_limit;
    from.traffic_class = address.traffic_class;
  }
  return from;
}

/// Of a refused registration. Class, version and method that we ask for exist, so that "invalid"
/// (newer kernels: "busy") is what remains for a method that somebody has.
Errc kind_of_refusal(int error, bool has_method) noexcept {
  switch (error) {
    case EINVAL:
    case EBUSY:
    case EEXIST:
      return has_method ? Errc::Busy : Errc::NoResources;
    case EACCES:
    case EPERM:
      return Errc::NoPermission;
    case ENODEV:
      return Errc::NoDevice;
    case EPROTONOSUPPORT:
      return Errc::Unsupported;
    default:
      return Errc::NoResources;
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
  std::array<long, kMethods / (8 * sizeof(long))> methods{};
  for (const mad::Method each : options.unsolicited) {
    const auto method = static_cast<unsigned>(each);
    methods.at(method / (8 * sizeof(long))) |= 1L << method % (8 * sizeof(long));
  }
  errno = 0;
  port.agent_id_ = ops.register_agent(port.port_id_, static_cast<int>(options.mgmt_class),
                                      options.class_version, options.rmpp_version,
                                      options.unsolicited.empty() ? nullptr : methods.data());
  if (port.agent_id_ < 0) {
    const int error = kernels_error(port.agent_id_);
    return fail(Error::system(kind_of_refusal(error, !options.unsolicited.empty()), error,
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
  port.buffer_.assign(words_for(mad::kMadSize), 0);
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
  const auto timeout_ms =
      std::max<std::int64_t>(1, std::chrono::ceil<std::chrono::milliseconds>(timeout).count());
  return hand_over(to, bytes, static_cast<int>(timeout_ms));
}

Result<> Port::send_once(const MadAddress& to, const mad::Mad& bytes) {
  return hand_over(to, bytes, 0);
}

Result<> Port::hand_over(const MadAddress& to, const mad::Mad& bytes, int timeout_ms) {
  std::fill(buffer_.begin(), buffer_.end(), std::uint64_t{0});
  void* umad = buffer_.data();
  umad_set_addr(umad, to.lid.value(), static_cast<int>(to.qpn.value()), to.sl.value(),
                static_cast<int>(mad::kGsiQKey));
  umad_set_pkey(umad, to.pkey_index);
  ib_mad_addr_t& address = *umad_get_mad_addr(umad);
  address.path_bits = to.path_bits;
  if (to.has_grh) {
    address.grh_present = 1;
    address.gid_index = to.gid_index;
    std::memcpy(address.gid, to.gid.bytes().data(), Gid::kSize);
    address.flow_label = htonl(to.flow_label.value());
    address.hop_limit = to.hop_limit;
    address.traffic_class = to.traffic_class;
  }
  std::memcpy(umad_get_mad(umad), bytes.data(), bytes.size());
  errno = 0;
  const int result =
      ops_->send(port_id_, agent_id_, umad, static_cast<int>(bytes.size()), timeout_ms, 0);
  if (result < 0) {
    return fail(Error::system(Errc::NoDevice, kernels_error(result),
                              "sending a MAD of class 0x%02x from %s port %u to LID %u",
                              static_cast<unsigned>(options_.mgmt_class), options_.device.c_str(),
                              options_.port, to.lid.value()));
  }
  return {};
}

/// Receives into a buffer for `capacity` bytes of MAD. `length` is set as the library does: to the
/// MAD's, also when the buffer was too short for it.
int Port::read_into(std::size_t capacity, int& length) {
  if (buffer_.size() != words_for(capacity)) {
    // (The memory of a long answer is given back.)
    buffer_ = std::vector<std::uint64_t>(words_for(capacity), 0);
  }
  length = static_cast<int>(capacity);
  errno = 0;
  return ops_->receive(port_id_, buffer_.data(), &length, 0);
}

Result<std::optional<ReceivedMad>> Port::receive() {
  int length = 0;
  int result = read_into(mad::kMadSize, length);
  if (result < 0 && error_of(result) == ENOSPC && length > static_cast<int>(mad::kMadSize) &&
      length <= kLongest) {
    // It stays with the kernel until somebody takes all of it, wanted or not.
    result = read_into(static_cast<std::size_t>(length), length);
  }
  if (result < 0) {
    const int error = error_of(result);
    if (error == EAGAIN || error == EWOULDBLOCK || error == ETIMEDOUT || error == EINTR) {
      return std::optional<ReceivedMad>();
    }
    return fail(Error::system(Errc::NoDevice, error, "receiving a MAD on %s port %u",
                              options_.device.c_str(), options_.port));
  }
  void* umad = buffer_.data();
  const std::size_t room =
      buffer_.size() * sizeof(std::uint64_t) - static_cast<std::size_t>(umad_size());
  const auto size = std::min(static_cast<std::size_t>(std::max(length, 0)), room);
  ReceivedMad received;
  received.status = size > options_.largest ? EMSGSIZE : umad_status(umad);
  received.bytes = {static_cast<const std::uint8_t*>(umad_get_mad(umad)),
                    std::min(size, options_.largest)};
  received.from = address_of(umad);
  return std::optional<ReceivedMad>(received);
}

}  // namespace wireup::umad
