// SPDX-License-Identifier: BSD-3-Clause
// The mapped file `hca`: typed access to its tables, enrolment of processes, QP numbers, and what
// becomes of the objects of a process that died.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "softhca/hca/layout.hpp"
#include "softhca/hca/memory.hpp"
#include "softhca/hca/process_table.hpp"

namespace softhca::hca {

/// Any thread may use it. Slots passed in must lie within the tables.
class Registry {
 public:
  /// Maps SOFTHCA_DIR/hca, creating it, and the directory of event FIFOs, if need be. Who may use
  /// them follows the mode of the directory: a directory open to all gives files open to all.
  /// nullptr with errno: EPROTO not a registry of this version, EBUSY the file's lock was not to be
  /// had within seconds, or what open, ftruncate and mmap say.
  static std::unique_ptr<Registry> attach(const char* dir);

  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;
  ~Registry();

  [[nodiscard]] RegistryHeader& header() const { return *at<RegistryHeader>(0); }
  [[nodiscard]] const ProcessTable& processes() const { return processes_; }
  [[nodiscard]] const std::string& dir() const { return dir_; }

  [[nodiscard]] QpRecord& qp(std::uint32_t slot) const { return record<QpRecord>(kQpTable, slot); }
  [[nodiscard]] CqRecord& cq(std::uint32_t slot) const { return record<CqRecord>(kCqTable, slot); }
  [[nodiscard]] SrqRecord& srq(std::uint32_t slot) const {
    return record<SrqRecord>(kSrqTable, slot);
  }
  [[nodiscard]] MrRecord& mr(std::uint32_t slot) const { return record<MrRecord>(kMrTable, slot); }
  [[nodiscard]] ChannelRecord& channel(std::uint32_t slot) const {
    return record<ChannelRecord>(kChannelTable, slot);
  }
  [[nodiscard]] AttachRecord& attachment(std::uint32_t slot) const {
    return record<AttachRecord>(kAttachTable, slot);
  }

  /// `bytes` bytes of a ring, `offset` behind the place that a record names. A place that is not in
  /// the arena gives the arena's start: harmless memory.
  [[nodiscard]] std::uint8_t* ring(std::uint64_t place, std::uint64_t offset,
                                   std::uint64_t bytes) const {
    const std::uint64_t from = place + offset;
    const bool inside = place >= kArena && place < kRegistrySize && offset <= kArenaSize &&
                        from <= kRegistrySize && bytes <= kRegistrySize - from;
    return touched(inside ? from : kArena);
  }
  [[nodiscard]] CqeSlot& cqe(const CqRecord& cq, std::uint32_t index) const {
    return *reinterpret_cast<CqeSlot*>(
        ring(cq.ring, (index & (kCqRingSlots - 1)) * std::uint64_t{kCqeStride}, kCqeStride));
  }

  /// Copies the bytes of memory of this process to the file at `place`, or the other way round,
  /// without a fault where there is no memory: false then, and some of it may have been copied.
  [[nodiscard]] bool copy_into(std::uint64_t place, const SegmentList& from) const;
  [[nodiscard]] bool copy_out_of(std::uint64_t place, const SegmentList& to) const;

  /// Gives the memory of whole pages back; they read as zero afterwards.
  void empty_pages(std::uint64_t place, std::uint64_t bytes) const;

  /// Enters this process, after clearing away those that died. `nonce` is a random number that
  /// stays where it is as long as the process image does. Returns the token, 0 with errno when the
  /// table is full (ENOSPC) or the file's lock was not to be had (EBUSY).
  std::uint32_t enrol(const std::uint64_t* nonce);

  /// Ends an enrolment: every object of the token goes.
  void leave(std::uint32_t token);

  /// Clears away the objects of every process that is dead. Returns how many processes that were.
  std::uint32_t reap();

  /// Gives a QP slot the next free QPN of an HCA and enters it in its record; 0 when all are taken.
  std::uint32_t assign_qpn(std::uint32_t hca, std::uint32_t qp_slot);
  void release_qpn(std::uint32_t hca, std::uint32_t qpn, std::uint32_t qp_slot);

  /// How many QPs an HCA has, of all processes. Looks through the whole table.
  [[nodiscard]] std::uint32_t count_qps(std::uint32_t hca) const;

  /// The QP slot of a number, kNone when there is none. What the record says must still be checked
  /// under its lock.
  [[nodiscard]] std::uint32_t find_qp(std::uint32_t hca, std::uint32_t qpn) const;

  /// Path of a channel's FIFO.
  [[nodiscard]] std::string channel_path(ChannelName name) const;

 private:
  Registry(int fd, void* base, std::string dir);

  template <typename T>
  [[nodiscard]] T* at(std::uint64_t offset) const {
    return reinterpret_cast<T*>(base_ + offset);
  }
  template <typename T>
  [[nodiscard]] T& record(std::uint64_t table, std::uint32_t slot) const {
    return *reinterpret_cast<T*>(touched(table + slot * sizeof(T)));
  }

  // A page fault can cost more than sending a message (15 us in some virtual machines). So the
  // first access to a window of 64 KiB maps all its pages by one system call.
  static constexpr unsigned kWindowBits = 16;
  static constexpr std::uint64_t kWindows = (kRegistrySize >> kWindowBits) + 1;

  [[nodiscard]] std::uint8_t* touched(std::uint64_t offset) const {
    const std::uint64_t window = offset >> kWindowBits;
    const std::uint8_t bit = static_cast<std::uint8_t>(1U << (window & 7));
    if ((windows_[window >> 3].load(std::memory_order_relaxed) & bit) == 0) {
      map_window(window);
    }
    return base_ + offset;
  }
  void map_window(std::uint64_t window) const;
  [[nodiscard]] std::atomic<std::uint32_t>& qpn_entry(std::uint32_t hca, std::uint32_t qpn) const;
  bool lock_file() const;
  void unlock_file() const;
  std::uint32_t claim_record(std::uint32_t pid, std::uint64_t start_time,
                             const std::uint64_t* nonce);
  std::uint32_t reap_locked();
  void clear_objects(std::uint32_t token);

  int fd_;
  std::uint8_t* base_;
  std::string dir_;
  ProcessTable processes_;
  std::atomic<std::uint8_t>* windows_;  // a bit per window, in zeroed memory
};

}  // namespace softhca::hca
