// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "acm/cache/layout.hpp"
#include "acm/engine/path.hpp"
#include "base/time.hpp"

namespace wireup::acm {

/// The contents of a slot as plain words.
using SlotWords = std::array<std::uint64_t, kSlotWords>;

/// A slot's contents as values. An entry is void when its generation is 0.
struct SlotEntry {
  PathKey key;
  mad::PathRecord record;
  PathOrigin origin = PathOrigin::Local;
  std::uint32_t generation = 0;
  Instant stored_at;
};

[[nodiscard]] SlotWords pack(const SlotEntry& entry) noexcept;
/// The record's GIDs are the key's.
[[nodiscard]] SlotEntry unpack(const SlotWords& words) noexcept;
/// Are these words an entry of this key and generation? Much cheaper than unpack().
[[nodiscard]] bool holds(const SlotWords& words, const SlotWords& wanted) noexcept;
/// Words to compare with by holds().
[[nodiscard]] SlotWords pack_key(const PathKey& key, std::uint32_t generation) noexcept;

[[nodiscard]] inline std::uint32_t slot_generation(const SlotWords& words) noexcept {
  return static_cast<std::uint32_t>(words[10]);
}

/// Spreads a key over the slots.
[[nodiscard]] std::uint64_t hash(const PathKey& key) noexcept;

/// Reads a slot without a lock: nothing when it was never used (`is_unused` is set), is being
/// written, or changes under every one of a bounded number of looks.
[[nodiscard]] std::optional<SlotWords> read_slot(const CacheSlot& slot, bool& is_unused) noexcept;
/// Writes a slot; only the one writer may. A writer killed within leaves an odd sequence.
void write_slot(CacheSlot& slot, const SlotWords& words) noexcept;

}  // namespace wireup::acm
