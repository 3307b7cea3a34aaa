// SPDX-License-Identifier: BSD-3-Clause
// Fault rules: which datagrams, requests and calls of a fabric go wrong, and how. They lie in the
// file `faults` in SOFTHCA_DIR, hold for every process at once, and count what they did there.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstdint>

#include "softhca/fabric/fabric_image.hpp"

namespace softhca::hca {

enum class RuleKind : std::uint32_t {
  None = 0,
  UdDrop,
  UdDuplicate,
  UdDelay,    // arrives `delay_us` later
  UdReorder,  // held back until the sender's next datagram, or for 2 ms
  UdCorrupt,  // one bit of the payload is turned over
  Stall,      // requests wait, and no timer runs
  Break,      // what goes from src to dst is lost, acknowledgements included
  Error,      // a request completes with `code` (ibv_wc_status) instead of being executed
  Call,       // a verbs call fails with `code` (errno)
  Limit,      // a limit of the device is lowered to `value`
};

/// Calls that can be made to fail.
enum class Call : std::uint32_t {
  OpenDevice = 1,
  AllocPd,
  RegMr,
  CreateChannel,
  CreateCq,
  ResizeCq,
  CreateSrq,
  CreateQp,
  ModifyQp,
  CreateAh,
  AttachMcast,
  PostSend,
  PostRecv,
};

/// Limits that can be lowered.
enum class Limit : std::uint32_t {
  Qps = 1,  // of an HCA
  Cqes,     // of one CQ
  Memory,   // bytes pinned by one process
};

inline constexpr std::uint32_t kAnyState = 0xFFFFFFFF;

/// A port list of a rule; empty means any port.
struct RulePorts {
  std::uint32_t count = 0;
  std::array<PortIndex, kMaxPortsPerHca> ports{};

  [[nodiscard]] bool contain(PortIndex port) const {
    bool found = count == 0;
    for (std::uint32_t i = 0; i < count && i < ports.size(); ++i) {
      found = found || ports[i] == port;
    }
    return found;
  }
  bool operator==(const RulePorts&) const = default;
};

/// To what a rule applies: every condition that is set must hold. Of what matches it hits all, the
/// n-th, each n-th, or some by chance, and at most `count` of them.
struct FaultRule {
  RuleKind kind = RuleKind::None;
  std::uint32_t code = 0;
  RulePorts src;
  RulePorts dst;
  std::uint32_t src_qpn = 0;           // 0: any
  std::uint32_t dst_qpn = 0;           // 0: any
  std::uint32_t what = 0;              // a Call or a Limit
  std::uint32_t to_state = kAnyState;  // of ModifyQp: ibv_qp_state it would have led to
  std::uint32_t chance_ppm = 1'000'000;
  std::uint32_t delay_us = 1000;
  std::uint64_t value = 0;  // of a Limit; of a rule that hit: how many it had matched
  std::uint64_t nth = 0;    // 0: not used
  std::uint64_t every = 0;  // 0: not used
  std::uint64_t count = 0;  // 0: no end
  std::uint64_t seed = 1;

  bool operator==(const FaultRule&) const = default;
};

/// What a rule is held against.
struct Traffic {
  PortIndex from = kNoPort;
  PortIndex to = kNoPort;
  std::uint32_t src_qpn = 0;
  std::uint32_t dst_qpn = 0;
  std::uint32_t what = 0;
  std::uint32_t to_state = kAnyState;
  bool arriving = false;  // of a multicast: at one of many ports; only for rules with a `dst`
};

/// Whether the conditions of `rule` hold for `traffic`, numbers and chances aside; pure.
bool rule_matches(const FaultRule& rule, const Traffic& traffic);

/// Whether the rule hits the n-th (from 1) of what matches; pure but for `count`.
bool rule_draws(const FaultRule& rule, std::uint64_t n);

inline constexpr std::size_t kMaxRules = 64;

/// A rule with its numbers, for display.
struct RuleReport {
  FaultRule rule;
  std::uint64_t matched = 0;
  std::uint64_t hit = 0;
};

}  // namespace softhca::hca
