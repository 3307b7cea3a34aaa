// SPDX-License-Identifier: BSD-3-Clause
#include "acm/cache/node_cache.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>

#include "acm/cache/slot.hpp"
#include "base/check.hpp"

namespace wireup::acm {
namespace {

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
                           bool is_public) {
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
  header.generation.store(1, std::memory_order_relaxed);
  header.basis.store(basis, std::memory_order_relaxed);
  header.magic.store(kCacheMagic, std::memory_order_release);
  if (rename(draft.c_str(), path.c_str()) != 0) {
    const int error = errno;
    unlink(draft.c_str());
    return fail(Error::system(Errc::NoPermission, error, "naming the node cache %s", path.c_str()));
  }
  return OpenCache{std::move(*mapping), slots};
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
  const std::uint32_t generation = header_of(mapping_).generation.load(std::memory_order_acquire);
  const SlotWords wanted = pack_key(key, generation);
  const std::uint64_t start = hash(key);
  for (std::uint32_t place = 0; place < kProbeWindow; ++place) {
    bool is_unused = false;
    const auto words = read_slot(slot_at(mapping_, slots_, start, place), is_unused);
    if (is_unused) {
      return std::nullopt;
    }
    if (words.has_value() && holds(*words, wanted)) {
      const SlotEntry entry = unpack(*words);
      return ResolvedPath{entry.record, entry.origin, generation,
                          std::max(Duration::zero(), now - entry.stored_at)};
    }
  }
  return std::nullopt;
}

std::uint32_t CacheReader::generation() const noexcept {
  return header_of(mapping_).generation.load(std::memory_order_acquire);
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
  auto made = make_new(options.path, slots, basis, options.is_public);
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
}

void CacheWriter::store(const PathKey& key, const mad::PathRecord& record, PathOrigin origin,
                        Instant now) noexcept {
  WIREUP_CHECK(record.sgid == key.sgid && record.dgid == key.dgid);
  const std::uint32_t current = generation();
  const SlotWords wanted = pack_key(key, current);
  const SlotWords words = pack(SlotEntry{key, record, origin, current, now});
  const std::uint64_t start = hash(key);
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
      return;
    }
    if (slot_generation(*held) != current) {
      free = free == nullptr ? &slot : free;
    } else if ((*held)[9] < oldest_time) {
      oldest_time = (*held)[9];
      oldest = &slot;
    }
  }
  write_slot(free != nullptr ? *free : *oldest, words);
}

bool CacheWriter::remove(const PathKey& key) noexcept {
  const SlotWords wanted = pack_key(key, generation());
  const std::uint64_t start = hash(key);
  for (std::uint32_t place = 0; place < kProbeWindow; ++place) {
    CacheSlot& slot = slot_at(mapping_, slots_, start, place);
    bool is_unused = false;
    const auto held = read_slot(slot, is_unused);
    if (is_unused) {
      return false;
    }
    if (held.has_value() && holds(*held, wanted)) {
      write_slot(slot, SlotWords{});
      return true;
    }
  }
  return false;
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
  return header_of(mapping_).generation.load(std::memory_order_acquire);
}

std::uint32_t CacheWriter::size() const noexcept {
  const std::uint32_t current = generation();
  std::uint32_t count = 0;
  for (std::uint32_t i = 0; i < slots_; ++i) {
    bool is_unused = false;
    const auto words = read_slot(slots_of(mapping_)[i], is_unused);
    count += words.has_value() && slot_generation(*words) == current ? 1 : 0;
  }
  return count;
}

}  // namespace wireup::acm
