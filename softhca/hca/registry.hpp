// SPDX-License-Identifier: BSD-3-Clause
// The mapped file `hca`: typed access to its tables, enrolment of processes, QP numbers, and what
// becomes of the objects of a process that died.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "softhca/hca/layout.hpp"
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

  [[nodiscard]] QpRecord& qp(std::uint32_t slot) const { return at<QpRecord>(kQpTable)[slot]; }
  [[nodiscard]] CqRecord& cq(std::uint32_t slot) const { return at<CqRecord>(kCqTable)[slot]; }
  [[nodiscard]] SrqRecord& srq(std::uint32_t slot) const { return at<SrqRecord>(kSrqTable)[slot]; }
  [[nodiscard]] MrRecord& mr(std::uint32_t slot) const { return at<MrRecord>(kMrTable)[slot]; }
  [[nodiscard]] ChannelRecord& channel(std::uint32_t slot) const {
    return at<ChannelRecord>(kChannelTable)[slot];
  }
  [[nodiscard]] AttachRecord& attachment(std::uint32_t slot) const {
    return at<AttachRecord>(kAttachTable)[slot];
  }
  [[nodiscard]] std::uint8_t* rq_ring(std::uint32_t qp_slot) const {
    return at<std::uint8_t>(kRqRings + qp_slot * kRqStride);
  }
  [[nodiscard]] std::uint8_t* srq_ring(std::uint32_t slot) const {
    return at<std::uint8_t>(kSrqRings + slot * kSrqStride);
  }
  [[nodiscard]] Cqe& cqe(std::uint32_t cq_slot, std::uint32_t index) const {
    return *at<Cqe>(kCqRings + cq_slot * kCqStride +
                    (index & (kCqRingSlots - 1)) * std::uint64_t{kCqeStride});
  }

  /// Enters this process, after clearing away those that died. `nonce` is a random number that
  /// stays where it is as long as the process image does. Returns the token, 0 with errno when the
  /// table is full (ENOSPC) or the file's lock was not to be had (EBUSY).
  std::uint32_t enrol(const std::uint64_t* nonce);

  /// Ends an enrolment: every object of the token goes.
  void leave(std::uint32_t token);

  /// Clears away the objects of every process that is dead. Returns how many processes that were.
  std::uint32_t reap();

  /// Gives a QP slot the next free QPN of an HCA; 0 when all are taken.
  std::uint32_t assign_qpn(std::uint32_t hca, std::uint32_t qp_slot);
  void release_qpn(std::uint32_t hca, std::uint32_t qpn, std::uint32_t qp_slot);

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
  [[nodiscard]] std::atomic<std::uint32_t>& qpn_entry(std::uint32_t hca, std::uint32_t qpn) const;
  bool lock_file() const;
  void unlock_file() const;
  std::uint32_t reap_locked();
  void clear_objects(std::uint32_t token);

  int fd_;
  std::uint8_t* base_;
  std::string dir_;
  ProcessTable processes_;
};

}  // namespace softhca::hca
