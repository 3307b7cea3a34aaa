// SPDX-License-Identifier: BSD-3-Clause
#include "acm/cache/node_cache.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "acm/cache/slot.hpp"
#include "base/check.hpp"

namespace wireup::acm {
namespace {

/// So many numbers without a path end a peer's list. A number alone may be missing: it was removed,
/// or made room for a newer entry of its window.
constexpr unsigned kEndOfNumbers = 8;

// The file was checked to be as long as its header says, and only root or this user can change it.
CacheHeader& header_of(const Mapping& mapping) noexcept {
  return *static_cast<CacheHeader*>(mapping.address());
}

CacheSlot* slots_of(const Mapping& mapping) noexcept {
  return static_cast<CacheSlot*>(
      static_cast<void*>(static_cast<std::uint8_t*>(mapping.address()) + sizeof(CacheHeader)));
}

/// The slots that may hold the key, by their place in the key's window.
CacheSlot& slot_at(const Mapping& mapping, std::uint32_t slots, std::uint64_t hash,
                   std::uint32_t place) noexcept {
  return slots_of(mapping)[(hash + place) & (slots - 1)];
}

Result<std::uint32_t> check_header(const CacheHeader& header, std::size_t size,
                                   const std::string& path) {
  if (header.magic.load(std::memory_order_acquire) != kCacheMagic ||
      header.version.load(std::memory_order_relaxed) != kCacheVersion) {
    return fail(Error::make(Errc::Malformed, "%s is not a node cache of version %u", path.c_str(),
                            kCacheVersion));
  }
  const std::uint32_t slots = header.slots.load(std::memory_order_relaxed);
  if (!std::has_single_bit(slots) || slots < kMinCacheSlots || slots > kMaxCacheSlots ||
      size != cache_file_size(slots)) {
    return fail(Error::make(Errc::Malformed, "%s: %u slots do not go with a file of %zu bytes",
                            path.c_str(), slots, size));
  }
  return slots;
}

/// After the slot was written: who sees the new count sees the new slot.
void count_change(const Mapping& mapping) noexcept {
  header_of(mapping).changes.fetch_add(1, std::memory_order_release);
}

bool is_same_record(const SlotWords& a, const SlotWords& b) noexcept {
  return std::equal(a.begin(), a.begin() + kRecordWords, b.begin());
}

struct OpenCache {
  Mapping mapping;
  std::uint32_t slots = 0;
};

Result<OpenCache> open_existing(const std::string& path, bool writable) {
  auto fd = open_trusted(path, writable ? O_RDWR : O_RDONLY);
  if (!fd) {
    return fail(fd.error());
  }
  const auto size = file_size(fd->value(), path);
  if (!size) {
    return fail(size.error());
  }
  if (*size < cache_file_size(kMinCacheSlots)) {
    return fail(Error::make(Errc::Malformed, "%s has %zu bytes, no node cache is that small",
                            path.c_str(), *size));
  }
  auto mapping = Mapping::map(fd->value(), *size, writable, path);
  if (!mapping) {
    return fail(mapping.error());
  }
  const auto slots = check_header(header_of(*mapping), *size, path);
  if (!slots) {
    return fail(slots.error());
  }
  return OpenCache{std::move(*mapping), *slots};
}

/// Makes the file under another name and renames it, so that nobody sees it half made, and so that
/// readers of a former file keep theirs whole.
Result<OpenCache> make_new(const std::string& path, std::uint32_t slots, std::uint64_t basis,
                           bool is_public, std::uint32_t generation) {
  // One name: there is one writer, and what a killed one left is replaced, not gathered.
  const std::string draft = path + ".new";
  unlink(draft.c_str());
  auto fd = open_trusted(draft, O_RDWR | O_CREAT | O_EXCL);
  if (!fd) {
    return fail(fd.error());
  }
  if (auto opened = is_public ? let_everybody_read(fd->value(), draft) : Result<>(); !opened) {
    unlink(draft.c_str());
    return fail(opened.error());
  }
  const std::size_t size = cache_file_size(slots);
  if (ftruncate(fd->value(), static_cast<off_t>(size)) != 0) {
    const int error = errno;
    unlink(draft.c_str());
    return fail(Error::system(Errc::NoResources, error, "making the node cache %s of %zu bytes",
                              draft.c_str(), size));
  }
  auto mapping = Mapping::map(fd->value(), size, true, draft);
  if (!mapping) {
    unlink(draft.c_str());
    return fail(mapping.error());
  }
  CacheHeader& header = header_of(*mapping);
  header.version.store(kCacheVersion, std::memory_order_relaxed);
  header.slots.store(slots, std::memory_order_relaxed);
  header.generation.store(generation, std::memory_order_relaxed);
  header.basis.store(basis, std::memory_order_relaxed);
  header.magic.store(kCacheMagic, std::memory_order_release);
  if (rename(draft.c_str(), path.c_str()) != 0) {
    const int error = errno;
    unlink(draft.c_str());
    return fail(Error::system(Errc::NoPermission, error, "naming the node cache %s", path.c_str()));
  }
  return OpenCache{std::move(*mapping), slots};
}

std::uint32_t generation_of(const Mapping& mapping) noexcept {
  return header_of(mapping).generation.load(std::memory_order_acquire);
}

/// The slot of exactly these words of pack_key(), and what it holds.
struct Found {
  CacheSlot* slot = nullptr;
  SlotWords words;
};

std::optional<Found> find(const Mapping& mapping, std::uint32_t slots,
                          const SlotWords& wanted) noexcept {
  const std::uint64_t start = hash(wanted);
  for (std::uint32_t place = 0; place < kProbeWindow; ++place) {
    CacheSlot& slot = slot_at(mapping, slots, start, place);
    if (slot.sequence.load(std::memory_order_relaxed) == 0) {
      return std::nullopt;
    }
    if (is_other(slot, wanted)) {
      continue;
    }
    bool is_unused = false;
    if (const auto words = read_slot(slot, is_unused); words.has_value() && holds(*words, wanted)) {
      return Found{&slot, *words};
    }
  }
  return std::nullopt;
}

std::optional<ResolvedPath> look_up(const Mapping& mapping, std::uint32_t slots, const PathKey& key,
                                    Instant now) noexcept {
  const std::uint32_t generation = generation_of(mapping);
  if (const auto found = find(mapping, slots, pack_key(key, generation))) {
    return unpack_path(found->words, now);
  }
  if (key.direction == PathDirection::Outbound) {
    return std::nullopt;
  }
  PathKey back = key;
  back.direction = PathDirection::Outbound;
  const auto found = find(mapping, slots, pack_key(back, generation));
  if (!found.has_value()) {
    return std::nullopt;
  }
  ResolvedPath path = unpack_path(found->words, now);
  if (!path.record.reversible) {
    return std::nullopt;
  }
  path.record = mad::reversed(path.record);
  return path;
}

/// Calls `f` with the words of every valid entry.
template <typename F>
void for_each(const Mapping& mapping, std::uint32_t slots, F f) {
  const std::uint32_t current = generation_of(mapping);
  for (std::uint32_t i = 0; i < slots; ++i) {
    bool is_unused = false;
    const auto words = read_slot(slots_of(mapping)[i], is_unused);
    if (words.has_value() && slot_generation(*words) == current) {
      f(*words);
    }
  }
}

CacheSize size_of(const Mapping& mapping, std::uint32_t slots) noexcept {
  CacheSize size{mapping.size(), slots, 0, generation_of(mapping)};
  for_each(mapping, slots, [&](const SlotWords&) { ++size.entries; });
  return size;
}

}  // namespace

std::uint64_t CacheBasis::hash() const noexcept {
  std::uint64_t value = boot_hash();
  for (const std::uint64_t part : {port_gid.prefix(), port_gid.interface_id().value(),
                                   std::uint64_t{port_lid.value()} << 16U | sm_lid.value()}) {
    value = (value ^ part) * 0x100000001B3ULL;
    value ^= value >> 29U;
  }
  return value;
}

Result<CacheReader> CacheReader::open(const std::string& path) {
  auto opened = open_existing(path, false);
  if (!opened) {
    return fail(opened.error());
  }
  CacheReader reader;
  reader.mapping_ = std::move(opened->mapping);
  reader.slots_ = opened->slots;
  return reader;
}

std::optional<ResolvedPath> CacheReader::lookup(const PathKey& key, Instant now) const noexcept {
  return look_up(mapping_, slots_, key, now);
}

std::vector<CachedPath> CacheReader::paths(const PathKey& key, Instant now) const {
  std::vector<CachedPath> found;
  PathKey each = key;
  unsigned missed = 0;
  for (std::uint8_t number = 0; number < kMaxPathsPerPeer && missed < kEndOfNumbers; ++number) {
    each.number = number;
    if (const auto path = lookup(each, now)) {
      found.push_back({each, *path});
      missed = 0;
    } else {
      ++missed;
    }
  }
  return found;
}

std::uint32_t CacheReader::generation() const noexcept {
  return generation_of(mapping_);
}

CacheSize CacheReader::size() const noexcept {
  return size_of(mapping_, slots_);
}

std::vector<CachedPath> CacheReader::entries(Instant now) const {
  std::vector<CachedPath> found;
  for_each(mapping_, slots_, [&](const SlotWords& words) {
    found.push_back({unpack(words).key, unpack_path(words, now)});
  });
  return found;
}

std::uint64_t CacheReader::changes() const noexcept {
  return header_of(mapping_).changes.load(std::memory_order_acquire);
}

Result<CacheWriter> CacheWriter::open(const Options& options) {
  const std::uint64_t basis = options.basis.hash();
  const std::uint32_t slots =
      std::bit_ceil(std::clamp(options.slots, kMinCacheSlots, kMaxCacheSlots));
  CacheWriter writer;
  auto opened = open_existing(options.path, true);
  if (opened) {
    writer.mapping_ = std::move(opened->mapping);
    writer.slots_ = opened->slots;
    writer.repair();
    CacheHeader& header = header_of(writer.mapping_);
    if (!options.keep || header.basis.load(std::memory_order_relaxed) != basis) {
      writer.invalidate(options.basis);
    }
    return writer;
  }
  if (!opened.error().is(Errc::NotFound) && !opened.error().is(Errc::Malformed)) {
    return fail(opened.error());
  }
  auto made = make_new(options.path, slots, basis, options.is_public, options.first_generation);
  if (!made) {
    return fail(made.error());
  }
  writer.mapping_ = std::move(made->mapping);
  writer.slots_ = made->slots;
  return writer;
}

void CacheWriter::repair() noexcept {
  CacheSlot* slots = slots_of(mapping_);
  for (std::uint32_t i = 0; i < slots_; ++i) {
    if ((slots[i].sequence.load(std::memory_order_relaxed) & 1U) != 0) {
      write_slot(slots[i], SlotWords{});
      ++repaired_;
    }
  }
  // A former writer may have been killed between a change and its count.
  count_change(mapping_);
}

void CacheWriter::store(const PathKey& key, const mad::PathRecord& record, PathOrigin origin,
                        Instant now) noexcept {
  const bool is_outbound = key.direction == PathDirection::Outbound;
  WIREUP_CHECK(record.sgid == (is_outbound ? key.sgid : key.dgid));
  WIREUP_CHECK(record.dgid == (is_outbound ? key.dgid : key.sgid));
  const std::uint32_t current = generation();
  const SlotWords wanted = pack_key(key, current);
  const SlotWords words = pack(SlotEntry{key, record, origin, current, now});
  const std::uint64_t start = hash(wanted);
  CacheSlot* free = nullptr;
  CacheSlot* oldest = nullptr;
  std::uint64_t oldest_time = ~std::uint64_t{0};
  for (std::uint32_t place = 0; place < kProbeWindow; ++place) {
    CacheSlot& slot = slot_at(mapping_, slots_, start, place);
    bool is_unused = false;
    const auto held = read_slot(slot, is_unused);
    if (is_unused) {
      free = free == nullptr ? &slot : free;
      break;
    }
    if (!held.has_value()) {
      // Left half written since open(): only a defect or a foreign writer does that.
      free = free == nullptr ? &slot : free;
      continue;
    }
    if (holds(*held, wanted)) {
      write_slot(slot, words);
      if (!is_same_record(*held, words)) {
        count_change(mapping_);
      }
      return;
    }
    if (slot_generation(*held) != current) {
      free = free == nullptr ? &slot : free;
    } else if ((*held)[kTimeWord] < oldest_time) {
      oldest_time = (*held)[kTimeWord];
      oldest = &slot;
    }
  }
  write_slot(free != nullptr ? *free : *oldest, words);
}

void CacheWriter::store_paths(const PathKey& key, std::span<const mad::PathRecord> records,
                              PathOrigin origin, Instant now) {
  std::vector<mad::PathRecord> ordered(records.begin(), records.end());
  std::sort(ordered.begin(), ordered.end(), [](const mad::PathRecord& a, const mad::PathRecord& b) {
    return std::pair(a.dlid, a.slid) < std::pair(b.dlid, b.slid);
  });
  PathKey each = key;
  unsigned missed = 0;
  for (std::uint8_t number = 0; number < kMaxPathsPerPeer && missed < kEndOfNumbers; ++number) {
    each.number = number;
    if (number < ordered.size()) {
      store(each, ordered[number], origin, now);
    } else {
      missed = remove(each) ? 0 : missed + 1;
    }
  }
}

bool CacheWriter::remove(const PathKey& key) noexcept {
  const auto found = find(mapping_, slots_, pack_key(key, generation()));
  if (!found.has_value()) {
    return false;
  }
  write_slot(*found->slot, SlotWords{});
  count_change(mapping_);
  return true;
}

void CacheWriter::remove_paths(const PathKey& key) noexcept {
  PathKey each = key;
  for (const PathDirection direction : {PathDirection::Outbound, PathDirection::Inbound}) {
    each.direction = direction;
    for (std::uint8_t number = 0; number < kMaxPathsPerPeer; ++number) {
      each.number = number;
      remove(each);
    }
  }
}

std::optional<ResolvedPath> CacheWriter::lookup(const PathKey& key, Instant now) const noexcept {
  return look_up(mapping_, slots_, key, now);
}

void CacheWriter::invalidate(const CacheBasis& basis) noexcept {
  CacheHeader& header = header_of(mapping_);
  const std::uint32_t next = header.generation.load(std::memory_order_relaxed) + 1;
  // 0 marks an empty slot. After 2^32 - 1 generations old entries could seem valid again, so they
  // are cleared.
  if (next == 0) {
    for (std::uint32_t i = 0; i < slots_; ++i) {
      CacheSlot& slot = slots_of(mapping_)[i];
      if (slot.sequence.load(std::memory_order_relaxed) != 0) {
        write_slot(slot, SlotWords{});
      }
    }
  }
  header.generation.store(next == 0 ? 1 : next, std::memory_order_release);
  header.basis.store(basis.hash(), std::memory_order_relaxed);
}

std::uint32_t CacheWriter::generation() const noexcept {
  return generation_of(mapping_);
}

std::optional<ResolvedPath> CacheWriter::find_lid(Lid dlid, PathOrigin origin,
                                                  Instant now) const noexcept {
  const std::uint32_t current = generation();
  for (std::uint32_t i = 0; i < slots_; ++i) {
    const CacheSlot& slot = slots_of(mapping_)[i];
    const std::uint64_t word = slot.words[kDlidWord].load(std::memory_order_relaxed);
    std::array<std::uint8_t, sizeof(word)> bytes;
    std::memcpy(bytes.data(), &word, sizeof(word));
    if ((bytes[0] << 8U | bytes[1]) != dlid.value()) {
      continue;
    }
    bool is_unused = false;
    const auto words = read_slot(slot, is_unused);
    if (!words.has_value() || slot_generation(*words) != current) {
      continue;
    }
    const SlotEntry entry = unpack(*words);
    if (entry.record.dlid == dlid && entry.origin == origin &&
        entry.key.direction == PathDirection::Outbound) {
      return unpack_path(*words, now);
    }
  }
  return std::nullopt;
}

CacheSize CacheWriter::size() const noexcept {
  return size_of(mapping_, slots_);
}

}  // namespace wireup::acm
