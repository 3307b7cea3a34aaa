// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <variant>
#include <vector>

#include "acm/server/client_message.hpp"
#include "base/check.hpp"
#include "base/result.hpp"

// What the two directions of the client protocol share: offsets, byte orders, entries. For
// client_message.cpp and client_reply.cpp only.
namespace wireup::acm::layout {

inline constexpr std::uint8_t kVersion = 1;
/// In the operation of a reply.
inline constexpr std::uint8_t kAck = 0x80;

// The header. The three bytes of kData mean something else in each operation.
inline constexpr std::size_t kVersionAt = 0;
inline constexpr std::size_t kOp = 1;
inline constexpr std::size_t kStatus = 2;
inline constexpr std::size_t kData = 3;
inline constexpr std::size_t kLength = 6;
inline constexpr std::size_t kTid = 8;
static_assert(kTid + 8 == kClientHeaderSize);

// An entry of a resolve message.
inline constexpr std::size_t kEntryFlags = 0;
inline constexpr std::size_t kEntryType = 4;
inline constexpr std::size_t kEntryValue = 8;
static_assert(kEntryValue + mad::AcmAddress::kSize == kClientEntrySize);
static_assert(mad::PathRecord::kSize == mad::AcmAddress::kSize);
inline constexpr std::uint16_t kTypePath = 0x0010;

// Flags of an entry in a request, and of the source in a reply.
inline constexpr std::uint32_t kSource = 1U << 0U;
inline constexpr std::uint32_t kDestination = 1U << 1U;
inline constexpr std::uint32_t kNoDelay = 1U << 30U;
inline constexpr std::uint32_t kQuerySa = 1U << 31U;

/// Integers of resolve messages, which never leave the host.
template <typename T>
[[nodiscard]] T load_host(std::span<const std::uint8_t> from, std::size_t at) noexcept {
  WIREUP_CHECK(at <= from.size() && sizeof(T) <= from.size() - at);
  T value{};
  std::memcpy(&value, from.data() + at, sizeof(T));
  return value;
}
template <typename T>
void store_host(std::span<std::uint8_t> to, std::size_t at, T value) noexcept {
  WIREUP_CHECK(at <= to.size() && sizeof(T) <= to.size() - at);
  std::memcpy(to.data() + at, &value, sizeof(T));
}

/// The operation of a header, which in a reply may carry kAck; nothing when there is none of that
/// number.
[[nodiscard]] std::optional<ClientOp> op_of(std::uint8_t byte) noexcept;
/// The length as the operation's byte order has it.
[[nodiscard]] std::size_t length_of(ClientOp op, std::span<const std::uint8_t> header) noexcept;
/// A message of `size` bytes with its header, zero behind it.
[[nodiscard]] std::vector<std::uint8_t> begin_message(ClientOp op, Tid tid, std::size_t size);
[[nodiscard]] Tid tid_of(std::span<const std::uint8_t> message) noexcept;

struct Entry {
  std::uint32_t flags = 0;
  std::variant<mad::AcmAddress, mad::PathRecord> value;
};
using EntryBytes = std::span<const std::uint8_t, kClientEntrySize>;
/// Fails with the status that says what is wrong.
[[nodiscard]] tl::expected<Entry, ClientRefusal> parse_entry(EntryBytes bytes) noexcept;
void put_entry(std::span<std::uint8_t> to, std::size_t index, std::uint32_t flags,
               const mad::AcmAddress& address) noexcept;
void put_entry(std::span<std::uint8_t> to, std::size_t index, std::uint32_t flags,
               const mad::PathRecord& path) noexcept;
[[nodiscard]] inline EntryBytes entry_bytes(std::span<const std::uint8_t> message,
                                            std::size_t index) noexcept {
  return message.subspan(kClientHeaderSize + index * kClientEntrySize).first<kClientEntrySize>();
}

}  // namespace wireup::acm::layout
