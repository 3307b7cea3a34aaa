// SPDX-License-Identifier: BSD-3-Clause
#include "acm/server/client_layout.hpp"

#include <algorithm>
#include <array>

#include "base/bytes.hpp"

namespace wireup::acm::layout {
namespace {

/// Bytes of an address that say something; the clients leave anything behind them.
std::size_t meaningful_size(std::uint16_t type, std::span<const std::uint8_t> bytes) noexcept {
  switch (static_cast<mad::AcmAddressType>(type)) {
    case mad::AcmAddressType::Name:
      return static_cast<std::size_t>(std::find(bytes.begin(), bytes.end(), std::uint8_t{0}) -
                                      bytes.begin());
    case mad::AcmAddressType::Ipv4:
      return 4;
    case mad::AcmAddressType::Ipv6:
    case mad::AcmAddressType::Gid:
      return 16;
    case mad::AcmAddressType::Lid:
      return 2;
  }
  return 0;
}

bool is_address_type(std::uint16_t type) noexcept {
  return type >= static_cast<std::uint16_t>(mad::AcmAddressType::Name) &&
         type <= static_cast<std::uint16_t>(mad::AcmAddressType::Lid);
}

void put_entry_head(std::span<std::uint8_t> entry, std::uint32_t flags,
                    std::uint16_t type) noexcept {
  store_host(entry, kEntryFlags, flags);
  store_host(entry, kEntryType, type);
}

std::span<std::uint8_t> entry_at(std::span<std::uint8_t> message, std::size_t index) noexcept {
  return message.subspan(kClientHeaderSize + index * kClientEntrySize, kClientEntrySize);
}

}  // namespace

std::optional<ClientOp> op_of(std::uint8_t byte) noexcept {
  switch (static_cast<ClientOp>(byte & ~kAck)) {
    case ClientOp::Resolve:
    case ClientOp::PerfQuery:
    case ClientOp::EndpointQuery:
      return static_cast<ClientOp>(byte & ~kAck);
  }
  return std::nullopt;
}

std::size_t length_of(ClientOp op, std::span<const std::uint8_t> header) noexcept {
  return op == ClientOp::Resolve ? load_host<std::uint16_t>(header, kLength)
                                 : static_cast<std::size_t>(load_be(header, kLength, 2));
}

std::vector<std::uint8_t> begin_message(ClientOp op, Tid tid, std::size_t size) {
  WIREUP_CHECK(size >= kClientHeaderSize && size <= UINT16_MAX);
  std::vector<std::uint8_t> bytes(size);
  bytes[kVersionAt] = kVersion;
  bytes[kOp] = static_cast<std::uint8_t>(op);
  if (op == ClientOp::Resolve) {
    store_host(bytes, kLength, static_cast<std::uint16_t>(size));
  } else {
    store_be(bytes, kLength, 2, size);
  }
  store_be(bytes, kTid, 8, tid.value());
  return bytes;
}

Tid tid_of(std::span<const std::uint8_t> message) noexcept {
  return Tid(load_be(message, kTid, 8));
}

tl::expected<Entry, ClientRefusal> parse_entry(EntryBytes bytes) noexcept {
  const auto flags = load_host<std::uint32_t>(bytes, kEntryFlags);
  const auto type = load_host<std::uint16_t>(bytes, kEntryType);
  const auto value = bytes.subspan<kEntryValue, mad::AcmAddress::kSize>();
  if (type == kTypePath) {
    // Every bit pattern is a record.
    return Entry{flags, mad::parse_path_record(value).value_or(mad::PathRecord{})};
  }
  const bool is_source = (flags & kSource) != 0;
  if (!is_address_type(type)) {
    return tl::unexpected(ClientRefusal{
        is_source ? ClientStatus::SourceType : ClientStatus::DestinationType,
        Error::make(Errc::Malformed,
                    "client's entry of type %u: 1 to 5 (addresses) and 16 (path) are known",
                    type)});
  }
  std::array<std::uint8_t, mad::AcmAddress::kSize> clean{};
  std::copy_n(value.begin(), meaningful_size(type, value), clean.begin());
  const auto address = mad::AcmAddress::parse(static_cast<std::uint8_t>(type), clean,
                                              is_source ? "source" : "destination");
  if (!address) {
    return tl::unexpected(
        ClientRefusal{is_source ? ClientStatus::SourceAddress : ClientStatus::DestinationAddress,
                      address.error()});
  }
  return Entry{flags, *address};
}

void put_entry(std::span<std::uint8_t> to, std::size_t index, std::uint32_t flags,
               const mad::AcmAddress& address) noexcept {
  const auto entry = entry_at(to, index);
  put_entry_head(entry, flags, static_cast<std::uint16_t>(address.type()));
  std::copy(address.bytes().begin(), address.bytes().end(),
            entry.begin() + static_cast<std::ptrdiff_t>(kEntryValue));
}

void put_entry(std::span<std::uint8_t> to, std::size_t index, std::uint32_t flags,
               const mad::PathRecord& path) noexcept {
  const auto entry = entry_at(to, index);
  put_entry_head(entry, flags, kTypePath);
  mad::serialize(path, entry.subspan<kEntryValue, mad::PathRecord::kSize>());
}

}  // namespace wireup::acm::layout
