// SPDX-License-Identifier: BSD-3-Clause
#include "acm/cache/slot.hpp"

#include <bit>
#include <cstring>
#include <span>

namespace wireup::acm {
namespace {

constexpr std::uint8_t kNoSl = 0xFF;
constexpr int kLooks = 64;
// Byte offsets of the GIDs within the record on the wire; both are whole words of the slot.
constexpr std::size_t kDgidWord = 1;
constexpr std::size_t kSgidWord = 3;

std::uint64_t tail_word(const PathKey& key, PathOrigin origin, std::uint32_t generation) noexcept {
  const std::uint64_t sl = key.sl.has_value() ? key.sl->value() : kNoSl;
  return std::uint64_t{key.pkey.value()} << 48U | sl << 40U |
         std::uint64_t{static_cast<std::uint8_t>(origin)} << 32U | generation;
}

constexpr std::uint64_t kTailKeyMask = 0xFFFFFF00FFFFFFFFULL;

void put_gid(SlotWords& words, std::size_t at, const Gid& gid) noexcept {
  std::memcpy(&words[at], gid.bytes().data(), Gid::kSize);
}

std::uint64_t mix(std::uint64_t value) noexcept {
  value ^= value >> 32U;
  value *= 0xD6E8FEB86659FD93ULL;
  value ^= value >> 32U;
  value *= 0xD6E8FEB86659FD93ULL;
  return value ^ value >> 32U;
}

}  // namespace

SlotWords pack(const SlotEntry& entry) noexcept {
  std::array<std::uint8_t, mad::PathRecord::kSize> wire{};
  mad::serialize(entry.record, wire);
  SlotWords words{};
  std::memcpy(words.data(), wire.data(), wire.size());
  words[8] = entry.key.service_id.value();
  words[9] = static_cast<std::uint64_t>(entry.stored_at.time_since_epoch().count());
  words[10] = tail_word(entry.key, entry.origin, entry.generation);
  return words;
}

SlotEntry unpack(const SlotWords& words) noexcept {
  std::array<std::uint8_t, mad::PathRecord::kSize> wire{};
  std::memcpy(wire.data(), words.data(), wire.size());
  SlotEntry entry;
  // Cannot fail: the size is right.
  entry.record = mad::parse_path_record(wire).value_or(mad::PathRecord{});
  entry.key.sgid = entry.record.sgid;
  entry.key.dgid = entry.record.dgid;
  entry.key.pkey = PKey(static_cast<std::uint16_t>(words[10] >> 48U));
  if (const auto sl = static_cast<std::uint8_t>(words[10] >> 40U); sl <= Sl::kMax) {
    entry.key.sl = Sl(sl);
  }
  entry.key.service_id = ServiceId(words[8]);
  entry.origin = static_cast<PathOrigin>(words[10] >> 32U & 0xFFU);
  entry.generation = slot_generation(words);
  entry.stored_at = Instant(Duration(static_cast<std::int64_t>(words[9])));
  return entry;
}

SlotWords pack_key(const PathKey& key, std::uint32_t generation) noexcept {
  SlotWords words{};
  put_gid(words, kDgidWord, key.dgid);
  put_gid(words, kSgidWord, key.sgid);
  words[8] = key.service_id.value();
  words[10] = tail_word(key, PathOrigin{0}, generation);
  return words;
}

bool holds(const SlotWords& words, const SlotWords& wanted) noexcept {
  return words[kDgidWord] == wanted[kDgidWord] && words[kDgidWord + 1] == wanted[kDgidWord + 1] &&
         words[kSgidWord] == wanted[kSgidWord] && words[kSgidWord + 1] == wanted[kSgidWord + 1] &&
         words[8] == wanted[8] && (words[10] & kTailKeyMask) == wanted[10];
}

std::uint64_t hash(const PathKey& key) noexcept {
  const std::uint64_t tail =
      std::uint64_t{key.pkey.value()} << 8U | (key.sl.has_value() ? key.sl->value() : kNoSl);
  std::uint64_t value = mix(key.dgid.interface_id().value() + 0x9E3779B97F4A7C15ULL);
  value = mix(value ^ key.dgid.prefix());
  value = mix(value ^ key.sgid.interface_id().value() ^ std::rotl(key.sgid.prefix(), 17));
  return mix(value ^ key.service_id.value() ^ tail);
}

// The words are loaded with acquire and stored with release rather than fenced: the same
// instructions on x86, and ThreadSanitizer can follow them. A reader that sees a word of a newer
// write also sees the odd sequence before it.
std::optional<SlotWords> read_slot(const CacheSlot& slot, bool& is_unused) noexcept {
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

void write_slot(CacheSlot& slot, const SlotWords& words) noexcept {
  const std::uint64_t before = slot.sequence.load(std::memory_order_relaxed);
  const std::uint64_t writing = before | 1U;
  slot.sequence.store(writing, std::memory_order_relaxed);
  for (std::size_t i = 0; i < kSlotWords; ++i) {
    slot.words[i].store(words[i], std::memory_order_release);
  }
  slot.sequence.store(writing + 1, std::memory_order_release);
}

}  // namespace wireup::acm
