// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace wireup::acm {

// Layout of the node cache's file: one header, then a power of two of slots. Native byte order: it
// never leaves the node. Every word is an atomic, since a writer and any number of readers share
// it, and since either may be killed between two of its stores.

inline constexpr std::uint64_t kCacheMagic = 0x7769726575704E43ULL;  // "wireupNC"
inline constexpr std::uint32_t kCacheVersion = 2;
/// A key lies within this many slots from the one that its hash names.
inline constexpr std::uint32_t kProbeWindow = 16;
inline constexpr std::uint32_t kMinCacheSlots = 64;
inline constexpr std::uint32_t kMaxCacheSlots = 1U << 24U;

/// Words of a slot's contents. 0 to kRecordWords - 1: the path record as on the wire. 8: service id
/// of the key. 9: when it was stored, nanoseconds of CLOCK_MONOTONIC. 10, from the most significant
/// bit: P_Key of the key (16 bits), SL of the key (5 bits, 0x1F = none asked for), origin (4 bits),
/// number of the path (6 bits), direction (1 bit), generation (32 bits).
inline constexpr std::size_t kSlotWords = 11;
inline constexpr std::size_t kRecordWords = 8;

/// One entry, guarded by `sequence`: 0 never used, odd while it is written, else even. A slot that
/// was used once never becomes 0 again, so a search may stop at the first 0.
struct CacheSlot {
  std::atomic<std::uint64_t> sequence;
  std::array<std::atomic<std::uint64_t>, kSlotWords> words;
};
static_assert(sizeof(CacheSlot) == 96);
/// A slot begins in a cache line's first or second half. So a search that passes it, by its
/// sequence and first words, touches one line.
static_assert(sizeof(CacheSlot) % 32 == 0);

struct CacheHeader {
  /// Written last when the file is made.
  std::atomic<std::uint64_t> magic;
  std::atomic<std::uint32_t> version;
  std::atomic<std::uint32_t> slots;
  /// Entries of another generation are not valid. Never 0 once the file is made.
  std::atomic<std::uint32_t> generation;
  std::atomic<std::uint32_t> reserved;
  /// Hash of what the entries depend on: boot, port GID and LID, SM LID.
  std::atomic<std::uint64_t> basis;
  /// Grows when a path was removed or became another within a generation, so that who has read one
  /// need not read it again while nothing has changed.
  std::atomic<std::uint64_t> changes;
  std::array<std::atomic<std::uint64_t>, 3> spare;
};
static_assert(sizeof(CacheHeader) == 64);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

[[nodiscard]] constexpr std::size_t cache_file_size(std::uint32_t slots) noexcept {
  return sizeof(CacheHeader) + std::size_t{slots} * sizeof(CacheSlot);
}

}  // namespace wireup::acm
