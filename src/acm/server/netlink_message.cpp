// SPDX-License-Identifier: BSD-3-Clause
#include "acm/server/netlink_message.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "base/netlink.hpp"
#include "mad/gid_field.hpp"

namespace wireup::acm {
namespace {

using namespace netlink;

constexpr std::uint16_t kRequestFlag = 0x0001;
constexpr std::uint16_t kFailureFlag = 0x0100;
constexpr unsigned kClientShift = 10;
constexpr unsigned kLocalService = 4;

// Behind it, a header of the operation, then attributes.
constexpr std::size_t kDevice = kHeaderSize;
constexpr std::size_t kPort = kDevice + NetlinkResolve::kDeviceSize;
constexpr std::size_t kUse = kPort + 1;
constexpr std::size_t kResolveHeaderEnd = kHeaderSize + 68;
constexpr std::size_t kInterface = kHeaderSize;
constexpr std::size_t kIpResolveHeaderEnd = kHeaderSize + 4;

// Marks of an attribute's type.
constexpr std::uint16_t kMandatory = 0x2000;

enum class Attribute : std::uint16_t {
  PathRecord = 1,
  Timeout = 2,
  ServiceId = 3,
  Dgid = 4,
  Sgid = 5,
  TrafficClass = 6,
  PKey = 7,
  QosClass = 8,
  Ipv4 = 9,
  Ipv6 = 10,
};
/// Flags, 4 reserved bytes, the record.
constexpr std::size_t kPathSize = 8 + mad::PathRecord::kSize;
/// As many as the kernel's interface speaks of.
constexpr std::size_t kMaxPaths = 6;
constexpr std::uint16_t kMaxQosClass = 0x0FFF;

NetlinkRefusal attribute_refusal(unsigned type, const char* why) noexcept {
  return {Error::make(Errc::Malformed, "netlink request with attribute %u: %s", type, why)};
}

enum class Taken : std::uint8_t { Yes, NotKnown, Wrong };

/// Goes through the attributes and gives each to `take(type, value)`.
template <typename Take>
std::optional<NetlinkRefusal> for_each_attribute(std::span<const std::uint8_t> bytes, Take take) {
  std::uint32_t seen = 0;
  while (!bytes.empty()) {
    const std::size_t length = bytes.size() >= kAttributeHead ? load<std::uint16_t>(bytes) : 0;
    if (length < kAttributeHead || length > bytes.size()) {
      return NetlinkRefusal{Error::make(
          Errc::Malformed, "netlink request with an attribute of %zu bytes in the last %zu", length,
          bytes.size())};
    }
    const auto marked = load<std::uint16_t>(bytes, 2);
    // A type with a mark besides kMandatory (nested, in network byte order) is one we do not know.
    const unsigned type = marked & ~unsigned{kMandatory};
    switch (take(static_cast<Attribute>(type),
                 bytes.subspan(kAttributeHead, length - kAttributeHead))) {
      case Taken::Yes:
        if ((seen & 1U << type) != 0) {
          return attribute_refusal(type, "it comes twice");
        }
        seen |= 1U << type;
        break;
      case Taken::NotKnown:
        if ((marked & kMandatory) != 0) {
          return attribute_refusal(type, "it is not known here, and marked as mandatory");
        }
        break;
      case Taken::Wrong:
        return attribute_refusal(type, "its length or value is not one that it can have");
    }
    bytes = bytes.subspan(std::min(align(length), bytes.size()));
  }
  return std::nullopt;
}

Taken take_path_attribute(NetlinkResolve& to, Attribute type,
                          std::span<const std::uint8_t> value) noexcept {
  mad::PathRecord& record = to.record;
  const auto taken = [&](std::uint64_t mask) {
    to.mask |= mask;
    return Taken::Yes;
  };
  switch (type) {
    case Attribute::ServiceId:
      if (value.size() != 8) {
        return Taken::Wrong;
      }
      record.service_id = ServiceId(load<std::uint64_t>(value));
      return taken(mad::path_mask::kServiceId);
    case Attribute::Dgid:
    case Attribute::Sgid:
      if (value.size() != Gid::kSize) {
        return Taken::Wrong;
      }
      (type == Attribute::Dgid ? record.dgid : record.sgid) = mad::load_gid(value, 0);
      return taken(type == Attribute::Dgid ? mad::path_mask::kDgid : mad::path_mask::kSgid);
    case Attribute::TrafficClass:
      if (value.size() != 1) {
        return Taken::Wrong;
      }
      record.traffic_class = value[0];
      return taken(mad::path_mask::kTrafficClass);
    case Attribute::PKey:
      if (value.size() != 2) {
        return Taken::Wrong;
      }
      record.pkey = PKey(load<std::uint16_t>(value));
      return taken(mad::path_mask::kPKey);
    case Attribute::QosClass:
      if (value.size() != 2 || load<std::uint16_t>(value) > kMaxQosClass) {
        return Taken::Wrong;
      }
      record.qos_class = load<std::uint16_t>(value);
      return taken(mad::path_mask::kQosClass);
    default:
      return Taken::NotKnown;
  }
}

NetlinkRequest::Body parse_resolve(std::span<const std::uint8_t> bytes) {
  if (bytes.size() < kResolveHeaderEnd) {
    return NetlinkRefusal{Error::make(Errc::Malformed,
                                      "netlink resolve request of %zu bytes, %zu at least",
                                      bytes.size(), kResolveHeaderEnd)};
  }
  NetlinkResolve request;
  const auto name = bytes.subspan(kDevice, NetlinkResolve::kDeviceSize);
  request.device.assign(name.begin(), std::find(name.begin(), name.end(), std::uint8_t{0}));
  std::replace_if(
      request.device.begin(), request.device.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  request.port = bytes[kPort];
  if (bytes[kUse] > static_cast<std::uint8_t>(PathUse::Gmp)) {
    return NetlinkRefusal{Error::make(
        Errc::Malformed, "netlink request for a path of use %u, 0 to 2 are known", bytes[kUse])};
  }
  request.use = static_cast<PathUse>(bytes[kUse]);
  auto refusal = for_each_attribute(
      bytes.subspan(kResolveHeaderEnd),
      [&](Attribute type, auto value) { return take_path_attribute(request, type, value); });
  if (refusal.has_value()) {
    return *refusal;
  }
  return request;
}

NetlinkRequest::Body parse_ip_resolve(std::span<const std::uint8_t> bytes) {
  if (bytes.size() < kIpResolveHeaderEnd) {
    return NetlinkRefusal{Error::make(Errc::Malformed,
                                      "netlink address request of %zu bytes, %zu at least",
                                      bytes.size(), kIpResolveHeaderEnd)};
  }
  std::optional<mad::AcmAddress> address;
  const auto take = [&](Attribute type, std::span<const std::uint8_t> value) {
    if (type != Attribute::Ipv4 && type != Attribute::Ipv6) {
      return Taken::NotKnown;
    }
    std::array<std::uint8_t, 4> four{};
    std::array<std::uint8_t, 16> six{};
    const std::size_t size = type == Attribute::Ipv4 ? four.size() : six.size();
    if (value.size() != size || address.has_value()) {
      return Taken::Wrong;
    }
    if (type == Attribute::Ipv4) {
      std::copy(value.begin(), value.end(), four.begin());
      address = mad::AcmAddress::ipv4(four);
    } else {
      std::copy(value.begin(), value.end(), six.begin());
      address = mad::AcmAddress::ipv6(six);
    }
    return Taken::Yes;
  };
  auto refusal = for_each_attribute(bytes.subspan(kIpResolveHeaderEnd), take);
  if (refusal.has_value()) {
    return *refusal;
  }
  if (!address.has_value()) {
    return NetlinkRefusal{Error::make(Errc::Malformed, "netlink address request without address")};
  }
  return NetlinkIpResolve{load<std::uint32_t>(bytes, kInterface), *address};
}

NetlinkRequest::Body parse_set_timeout(std::span<const std::uint8_t> bytes) {
  std::optional<std::uint32_t> milliseconds;
  auto refusal = for_each_attribute(bytes.subspan(kHeaderSize),
                                    [&](Attribute type, std::span<const std::uint8_t> value) {
                                      if (type != Attribute::Timeout) {
                                        return Taken::NotKnown;
                                      }
                                      if (value.size() != 4) {
                                        return Taken::Wrong;
                                      }
                                      milliseconds = load<std::uint32_t>(value);
                                      return Taken::Yes;
                                    });
  if (refusal.has_value()) {
    return *refusal;
  }
  if (!milliseconds.has_value()) {
    return NetlinkRefusal{Error::make(Errc::Malformed, "netlink request for no timeout")};
  }
  return NetlinkSetTimeout{*milliseconds};
}

/// A message with its header; the attributes are to be filled in.
std::vector<std::uint8_t> begin_message(std::uint16_t type, std::uint16_t flags,
                                        std::uint32_t sequence, std::size_t size) {
  std::vector<std::uint8_t> bytes(size);
  store(bytes, kLength, static_cast<std::uint32_t>(size));
  store(bytes, kType, type);
  store(bytes, kFlags, flags);
  store(bytes, kSequence, sequence);
  return bytes;
}

/// Writes the head of an attribute of `size` bytes and gives the place of its value. The kernel
/// compares the whole type: no marks.
std::span<std::uint8_t> begin_attribute(std::vector<std::uint8_t>& message, std::size_t at,
                                        Attribute type, std::size_t size) {
  store(message, at, static_cast<std::uint16_t>(kAttributeHead + size));
  store(message, at + 2, static_cast<std::uint16_t>(type));
  return std::span(message).subspan(at + kAttributeHead, size);
}

}  // namespace

Result<NetlinkRequest> decode_netlink(std::span<const std::uint8_t> bytes) {
  const std::size_t length = bytes.size() >= kHeaderSize ? load<std::uint32_t>(bytes) : 0;
  if (length < kHeaderSize || length > bytes.size() || bytes.size() > align(length)) {
    return fail(Error::make(Errc::Malformed, "netlink message of %zu bytes claims %zu",
                            bytes.size(), length));
  }
  NetlinkRequest request;
  request.type = load<std::uint16_t>(bytes, kType);
  request.sequence = load<std::uint32_t>(bytes, kSequence);
  const auto flags = load<std::uint16_t>(bytes, kFlags);
  if (request.type >> kClientShift != kLocalService || (flags & kRequestFlag) == 0) {
    return fail(Error::make(Errc::Malformed,
                            "netlink message of type 0x%04x with flags 0x%04x is no request to "
                            "the local service",
                            request.type, flags));
  }
  const auto message = bytes.first(length);
  switch (static_cast<NetlinkOp>(request.type)) {
    case NetlinkOp::Resolve:
      request.body = parse_resolve(message);
      return request;
    case NetlinkOp::IpResolve:
      request.body = parse_ip_resolve(message);
      return request;
    case NetlinkOp::SetTimeout:
      request.body = parse_set_timeout(message);
      return request;
  }
  request.body = NetlinkRefusal{Error::make(
      Errc::Unsupported, "netlink request of type 0x%04x is not known here", request.type)};
  return request;
}

std::vector<ClientPath> netlink_paths(PathUse use, const mad::PathRecord& path,
                                      const std::optional<mad::PathRecord>& outbound,
                                      const std::optional<mad::PathRecord>& inbound) {
  if (use == PathUse::Unidirectional) {
    return {{path_flag::kUnidirectional, outbound.value_or(path)}};
  }
  std::vector<ClientPath> paths{{path_flag::kUniversal, path}};
  if (use == PathUse::All && inbound.has_value()) {
    paths.push_back({path_flag::kPrimary | path_flag::kInbound, *inbound});
  }
  if (use == PathUse::All && outbound.has_value()) {
    paths.push_back({path_flag::kUnidirectional, *outbound});
  }
  return paths;
}

std::vector<std::uint8_t> encode_netlink_paths(const NetlinkRequest& request,
                                               std::span<const ClientPath> paths) {
  WIREUP_CHECK(!paths.empty() && paths.size() <= kMaxPaths);
  constexpr std::size_t kStep = kAttributeHead + kPathSize;
  auto bytes = begin_message(request.type, 0, request.sequence, kHeaderSize + paths.size() * kStep);
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const auto value =
        begin_attribute(bytes, kHeaderSize + i * kStep, Attribute::PathRecord, kPathSize);
    store(value, 0, paths[i].flags);
    mad::serialize(paths[i].record, value.subspan<8, mad::PathRecord::kSize>());
  }
  return bytes;
}

std::vector<std::uint8_t> encode_netlink_gid(const NetlinkRequest& request, const Gid& gid) {
  auto bytes =
      begin_message(request.type, 0, request.sequence, kHeaderSize + kAttributeHead + Gid::kSize);
  mad::store_gid(gid, begin_attribute(bytes, kHeaderSize, Attribute::Dgid, Gid::kSize), 0);
  return bytes;
}

std::vector<std::uint8_t> encode_netlink_failure(const NetlinkRequest& request) {
  return begin_message(request.type, kFailureFlag, request.sequence, kHeaderSize);
}

std::vector<std::uint8_t> encode_netlink_set_timeout(std::uint32_t sequence,
                                                     NetlinkSetTimeout timeout) {
  auto bytes = begin_message(static_cast<std::uint16_t>(NetlinkOp::SetTimeout), kRequestFlag,
                             sequence, kHeaderSize + kAttributeHead + 4);
  store(begin_attribute(bytes, kHeaderSize, Attribute::Timeout, 4), 0, timeout.milliseconds);
  return bytes;
}

}  // namespace wireup::acm
