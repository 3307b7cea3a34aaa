// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "acm/cache/layout.hpp"
#include "acm/engine/path.hpp"
#include "base/check.hpp"
#include "base/time.hpp"

namespace wireup::acm {

/// The contents of a slot as plain words.
using SlotWords = std::array<std::uint64_t, kSlotWords>;

/// Words of the record that the key is compared with: its GIDs, as on the wire.
inline constexpr std::size_t kDgidWord = 1;
inline constexpr std::size_t kSgidWord = 3;
/// The word of the record that begins with the DLID.
inline constexpr std::size_t kDlidWord = 5;
inline constexpr std::size_t kServiceWord = 8;
inline constexpr std::size_t kTimeWord = 9;
inline constexpr std::size_t kTailWord = 10;

/// A slot's contents as values. An entry is void when its generation is 0.
struct SlotEntry {
  PathKey key;
  mad::PathRecord record;
  PathOrigin origin = PathOrigin::Local;
  std::uint32_t generation = 0;
  Instant stored_at;
};

[[nodiscard]] SlotWords pack(const SlotEntry& entry) noexcept;
/// The record's GIDs are the key's, crosswise for an inbound path.
[[nodiscard]] SlotEntry unpack(const SlotWords& words) noexcept;
/// What unpack() says of the path; cheaper, for who knows the key.
[[nodiscard]] ResolvedPath unpack_path(const SlotWords& words, Instant now) noexcept;

/// Places within the last word, by their lowest bits.
namespace slot_tail {
inline constexpr unsigned kPKeyAt = 48;
inline constexpr unsigned kSlAt = 43;
inline constexpr unsigned kOriginAt = 39;
inline constexpr unsigned kNumberAt = 33;
inline constexpr unsigned kDirectionAt = 32;
inline constexpr std::uint64_t kNoSl = 0x1F;
inline constexpr std::uint64_t kOriginMask = 0xF;
inline constexpr std::uint64_t kNumberMask = kMaxPathsPerPeer - 1;
static_assert(kMaxPathsPerPeer == 64, "6 bits");

[[nodiscard]] inline std::uint64_t make(const PathKey& key, std::uint64_t origin,
                                        std::uint32_t generation) noexcept {
  WIREUP_CHECK(key.number < kMaxPathsPerPeer);
  WIREUP_CHECK(origin <= kOriginMask);
  const std::uint64_t sl = key.sl.has_value() ? key.sl->value() : kNoSl;
  return std::uint64_t{key.pkey.value()} << kPKeyAt | sl << kSlAt | origin << kOriginAt |
         std::uint64_t{key.number} << kNumberAt |
         std::uint64_t{static_cast<std::uint8_t>(key.direction)} << kDirectionAt | generation;
}
}  // namespace slot_tail

// What a lookup is made of is inline: there it costs as much as the memory that it waits for.

/// Words to compare with by holds(): those of a key's entry, the rest 0.
[[nodiscard]] inline SlotWords pack_key(const PathKey& key, std::uint32_t generation) noexcept {
  const bool is_outbound = key.direction == PathDirection::Outbound;
  SlotWords words{};
  std::memcpy(&words[kDgidWord], (is_outbound ? key.dgid : key.sgid).bytes().data(), Gid::kSize);
  std::memcpy(&words[kSgidWord], (is_outbound ? key.sgid : key.dgid).bytes().data(), Gid::kSize);
  words[kServiceWord] = key.service_id.value();
  words[kTailWord] = slot_tail::make(key, 0, generation);
  return words;
}

/// Are these words an entry of this key and generation?
[[nodiscard]] inline bool holds(const SlotWords& words, const SlotWords& wanted) noexcept {
  constexpr std::uint64_t kKeyMask = ~(slot_tail::kOriginMask << slot_tail::kOriginAt);
  return words[kDgidWord] == wanted[kDgidWord] && words[kDgidWord + 1] == wanted[kDgidWord + 1] &&
         words[kSgidWord] == wanted[kSgidWord] && words[kSgidWord + 1] == wanted[kSgidWord + 1] &&
         words[kServiceWord] == wanted[kServiceWord] &&
         (words[kTailWord] & kKeyMask) == wanted[kTailWord];
}

[[nodiscard]] inline std::uint32_t slot_generation(const SlotWords& words) noexcept {
  return static_cast<std::uint32_t>(words[kTailWord]);
}

/// Spreads keys over the slots, whatever their generation. Of the words of pack_key().
///
/// The multiplications do not wait for each other, and the end mixes their high halves, where what
/// differs between the GIDs of a fabric is, into the low ones.
[[nodiscard]] inline std::uint64_t hash(const SlotWords& key) noexcept {
  constexpr std::uint64_t kGenerationMask = 0xFFFFFFFF;
  std::uint64_t value =
      key[kDgidWord + 1] * 0x9E3779B97F4A7C15ULL + key[kDgidWord] * 0xC2B2AE3D27D4EB4FULL +
      key[kSgidWord + 1] * 0xD6E8FEB86659FD93ULL + key[kSgidWord] * 0x165667B19E3779F9ULL +
      key[kServiceWord] * 0xA0761D6478BD642FULL +
      (key[kTailWord] & ~kGenerationMask) * 0xE7037ED1A0B428DBULL;
  value ^= value >> 32U;
  value *= 0xD6E8FEB86659FD93ULL;
  value ^= value >> 29U;
  value *= 0x9E3779B97F4A7C15ULL;
  return value ^ value >> 32U;
}

/// Is the slot surely not of this key? By one cache line of it; a write at the same time cannot
/// hide an entry of the key that was there before and after it, since its GIDs stay what they are.
[[nodiscard]] inline bool is_other(const CacheSlot& slot, const SlotWords& key) noexcept {
  return slot.words[kDgidWord + 1].load(std::memory_order_relaxed) != key[kDgidWord + 1];
}

/// Looks at a slot that is being written before it is given up: its writer may have been killed.
inline constexpr int kLooks = 64;

/// Reads a slot without a lock: nothing when it was never used (`is_unused` is set), is being
/// written, or changes under every one of a bounded number of looks.
///
/// The words are loaded with acquire and stored with release rather than fenced: the same
/// instructions on x86, and ThreadSanitizer can follow them. A reader that sees a word of a newer
/// write also sees the odd sequence before it.
[[nodiscard]] inline std::optional<SlotWords> read_slot(const CacheSlot& slot,
                                                        bool& is_unused) noexcept {
  is_unused = false;
  for (int look = 0; look < kLooks; ++look) {
    const std::uint64_t before = slot.sequence.load(std::memory_order_acquire);
    if (before == 0) {
      is_unused = true;
      return std::nullopt;
    }
    if ((before & 1U) != 0) {
      continue;
    }
    SlotWords words;
    for (std::size_t i = 0; i < kSlotWords; ++i) {
      words[i] = slot.words[i].load(std::memory_order_acquire);
    }
    if (slot.sequence.load(std::memory_order_relaxed) == before) {
      return words;
    }
  }
  return std::nullopt;
}

/// Writes a slot; only the one writer may. A writer killed within leaves an odd sequence.
void write_slot(CacheSlot& slot, const SlotWords& words) noexcept;

}  // namespace wireup::acm
