// SPDX-License-Identifier: BSD-3-Clause
#include "acm/cache/slot.hpp"

#include <algorithm>
#include <span>

namespace wireup::acm {
namespace {

using RecordBytes = std::array<std::uint8_t, mad::PathRecord::kSize>;

mad::PathRecord record_of(const SlotWords& words) noexcept {
  RecordBytes wire;
  std::memcpy(wire.data(), words.data(), wire.size());
  return mad::read_path_record(wire);
}

PathOrigin origin_of(const SlotWords& words) noexcept {
  return static_cast<PathOrigin>(words[kTailWord] >> slot_tail::kOriginAt & slot_tail::kOriginMask);
}

Instant time_of(const SlotWords& words) noexcept {
  return Instant(Duration(static_cast<std::int64_t>(words[kTimeWord])));
}

}  // namespace

SlotWords pack(const SlotEntry& entry) noexcept {
  RecordBytes wire{};
  mad::serialize(entry.record, wire);
  SlotWords words{};
  std::memcpy(words.data(), wire.data(), wire.size());
  words[kServiceWord] = entry.key.service_id.value();
  words[kTimeWord] = static_cast<std::uint64_t>(entry.stored_at.time_since_epoch().count());
  words[kTailWord] =
      slot_tail::make(entry.key, static_cast<std::uint8_t>(entry.origin), entry.generation);
  return words;
}

SlotEntry unpack(const SlotWords& words) noexcept {
  SlotEntry entry;
  entry.record = record_of(words);
  const std::uint64_t tail = words[kTailWord];
  entry.key.direction = static_cast<PathDirection>(tail >> slot_tail::kDirectionAt & 1U);
  const bool is_outbound = entry.key.direction == PathDirection::Outbound;
  entry.key.sgid = is_outbound ? entry.record.sgid : entry.record.dgid;
  entry.key.dgid = is_outbound ? entry.record.dgid : entry.record.sgid;
  entry.key.pkey = PKey(static_cast<std::uint16_t>(tail >> slot_tail::kPKeyAt));
  if (const std::uint64_t sl = tail >> slot_tail::kSlAt & slot_tail::kNoSl; sl <= Sl::kMax) {
    entry.key.sl = Sl(static_cast<std::uint8_t>(sl));
  }
  entry.key.service_id = ServiceId(words[kServiceWord]);
  entry.key.number =
      static_cast<std::uint8_t>(tail >> slot_tail::kNumberAt & slot_tail::kNumberMask);
  entry.origin = origin_of(words);
  entry.generation = slot_generation(words);
  entry.stored_at = time_of(words);
  return entry;
}

ResolvedPath unpack_path(const SlotWords& words, Instant now) noexcept {
  return {record_of(words), origin_of(words), slot_generation(words),
          std::max(Duration::zero(), now - time_of(words))};
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
