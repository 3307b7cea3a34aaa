// SPDX-License-Identifier: BSD-3-Clause
#include "acm/identity/neighbours.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <optional>

#include "acm/identity/route_address.hpp"
#include "base/netlink.hpp"
#include "mad/gid_field.hpp"

namespace wireup::acm {
namespace {

using namespace netlink;

constexpr std::uint16_t kRequestOfTable = 0x0301;  // NLM_F_REQUEST, NLM_F_ROOT, NLM_F_MATCH
constexpr std::uint16_t kError = 2;
constexpr std::uint16_t kDone = 3;
constexpr std::uint16_t kNewNeighbour = 28;
constexpr std::uint16_t kGetNeighbour = 30;

// ndmsg behind it.
constexpr std::size_t kFamily = kHeaderSize;
constexpr std::size_t kState = kHeaderSize + 8;
constexpr std::size_t kAttributes = kHeaderSize + 12;
static_assert(kAttributes == kNeighbourRequestSize);
/// NUD_INCOMPLETE and NUD_FAILED: without an address, or no longer with that one.
constexpr std::uint16_t kUseless = 0x01 | 0x20;

// rtattr.
constexpr std::uint16_t kDestination = 1;
constexpr std::uint16_t kLinkAddress = 2;

Error malformed(std::size_t length, std::size_t left) noexcept {
  return Error::make(Errc::Malformed,
                     "the kernel's neighbour table: %zu bytes claimed in the last %zu", length,
                     left);
}

/// An entry of the table, all of its message; nothing when it is of no use.
Result<std::optional<Neighbour>> parse_entry(std::span<const std::uint8_t> message) {
  if (message.size() < kAttributes) {
    return fail(malformed(message.size(), message.size()));
  }
  std::optional<mad::AcmAddress> address;
  std::optional<Gid> gid;
  auto rest = message.subspan(kAttributes);
  while (!rest.empty()) {
    const std::size_t length =
        rest.size() >= kAttributeHead ? load<std::uint16_t>(rest, 0) : std::size_t{0};
    if (length < kAttributeHead || length > rest.size()) {
      return fail(malformed(length, rest.size()));
    }
    const auto value = rest.subspan(kAttributeHead, length - kAttributeHead);
    const auto type = load<std::uint16_t>(rest, 2);
    if (type == kDestination) {
      address = route_address(message[kFamily], value);
    } else if (type == kLinkAddress && value.size() == kIpoibAddressSize) {
      gid = mad::load_gid(value, kGidInIpoibAddress);
    }
    rest = rest.subspan(std::min(align(length), rest.size()));
  }
  const bool is_useful = (load<std::uint16_t>(message, kState) & kUseless) == 0 &&
                         address.has_value() && gid.has_value() && !gid->is_zero() &&
                         !gid->is_multicast();
  return is_useful ? std::optional(Neighbour{*address, *gid}) : std::nullopt;
}

Result<> parse_error(std::span<const std::uint8_t> message) {
  if (message.size() < kHeaderSize + 4) {
    return fail(malformed(message.size(), message.size()));
  }
  const auto number = load<std::int32_t>(message, kHeaderSize);
  const int error = number == INT32_MIN ? EINVAL : std::abs(number);
  return fail(
      Error::system(error == EPERM || error == EACCES ? Errc::NoPermission : Errc::NoResources,
                    error, "reading the kernel's neighbour table"));
}

}  // namespace

std::array<std::uint8_t, kNeighbourRequestSize> neighbour_request(std::uint32_t sequence) noexcept {
  std::array<std::uint8_t, kNeighbourRequestSize> bytes{};
  store(bytes, kLength, std::uint32_t{kNeighbourRequestSize});
  store(bytes, kType, kGetNeighbour);
  store(bytes, kFlags, kRequestOfTable);
  store(bytes, kSequence, sequence);
  return bytes;
}

Result<bool> parse_neighbours(std::span<const std::uint8_t> datagram, std::uint32_t sequence,
                              std::vector<Neighbour>& found) {
  while (!datagram.empty()) {
    const std::size_t length =
        datagram.size() >= kHeaderSize ? load<std::uint32_t>(datagram, kLength) : std::size_t{0};
    if (length < kHeaderSize || length > datagram.size()) {
      return fail(malformed(length, datagram.size()));
    }
    const auto message = datagram.first(length);
    const auto type = load<std::uint16_t>(message, kType);
    datagram = datagram.subspan(std::min(align(length), datagram.size()));
    if (load<std::uint32_t>(message, kSequence) != sequence) {
      continue;
    }
    if (type == kDone) {
      return true;
    }
    if (type == kError) {
      return fail(parse_error(message).error());
    }
    if (type == kNewNeighbour) {
      const auto entry = parse_entry(message);
      if (!entry) {
        return fail(entry.error());
      }
      if (entry->has_value()) {
        found.push_back(**entry);
      }
    }
  }
  return false;
}

}  // namespace wireup::acm
