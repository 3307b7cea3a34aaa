// SPDX-License-Identifier: BSD-3-Clause
// Counters per HCA port, shared by all processes of the fabric: what crossed the port, counted by
// the emulator and not by the program under test.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "softhca/fabric/fabric_image.hpp"

namespace softhca {

inline constexpr char kCountersFile[] = "counters";

/// Where each is counted: at the port of the process that sends for *Sent, Multicasts, Cm* and
/// Sa*; at the receiving port for *Received and *Dropped.
enum class Counter : std::uint32_t {
  SaPathQueries,       // umad sends of class 3 for PathRecord, Get or GetTable, retries included
  SaOther,             // umad sends of class 3 for anything else
  SmpSent,             // umad sends of classes 1 and 0x81
  GmpOther,            // umad sends of all other classes but 7
  UmadTimeouts,        // umad requests given back with ETIMEDOUT
  UdSent,              // UD datagrams posted, multicasts included
  UdReceived,          // UD datagrams that completed a receive
  UdDroppedNoRoute,    // no LFT or MFT route, link down, or no such QP
  UdDroppedNoReceive,  // the QP had no receive posted, or one too short
  UdDroppedKey,        // Q_Key or P_Key did not match
  UdDroppedFault,      // dropped by fault injection
  UdDuplicatedFault,   // duplicated by fault injection
  UdReorderedFault,    // held back by fault injection
  MulticastsSent,      // UD datagrams sent to a multicast LID, once each
  MulticastsReceived,  // UD datagrams received by multicast
  CmReq,               // CM messages by kind, counted once for each send, retransmits included
  CmMra,
  CmRej,
  CmRep,
  CmRtu,
  CmDreq,
  CmDrep,
  CmOther,
  RcSent,      // RC requests executed (sends, writes, reads, atomics)
  RcReceived,  // RC messages that completed a receive
  RcRetryExceeded,
  RcRnrExceeded,
  RcRemoteAccess,  // requests refused for key, bounds or access flags
  QpsCreated,
  QpsDestroyed,
  Count
};

inline constexpr std::size_t kCounterCount = static_cast<std::size_t>(Counter::Count);

/// snake_case name for the command line and JSON.
std::string_view counter_name(Counter counter);

class Counters {
 public:
  /// Maps SOFTHCA_DIR/counters, creating it if need be. nullptr with errno.
  static std::unique_ptr<Counters> attach(const char* dir);

  Counters(const Counters&) = delete;
  Counters& operator=(const Counters&) = delete;
  ~Counters();

  /// Adds to a counter. Any thread, any process; an index out of range is ignored.
  void add(std::uint32_t port_index, Counter counter, std::uint64_t n = 1);

  [[nodiscard]] std::uint64_t value(std::uint32_t port_index, Counter counter) const;
  [[nodiscard]] std::uint64_t total(Counter counter) const;

  /// Sets every counter of every port to 0. Adds that happen meanwhile may survive or not.
  void reset();

 private:
  explicit Counters(struct CountersFile* file) : file_(file) {}
  struct CountersFile* file_;
};

/// Counts one CM datagram by its attribute id. `mad` is the whole MAD; nothing is counted unless
/// it is base version 1, class 7, class version 2, method Send. Returns true when it was one.
bool count_cm_mad(Counters& counters, std::uint32_t port_index, std::span<const std::uint8_t> mad);

}  // namespace softhca
