// SPDX-License-Identifier: BSD-3-Clause
// Faults of general services MADs (QP 1) on their way: which of them are lost, doubled, late,
// overtaken, damaged or refused. Pure but for the rules' own counters; random draws are seeded.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "softhca/fabric/fabric_view.hpp"
#include "softhca/mad/mad.hpp"
#include "softhca/mad/rmpp.hpp"

namespace softhca {

enum class FaultAction : std::uint8_t {
  Drop,
  Duplicate,
  Delay,    // arrives `delay` later
  Reorder,  // arrives after the next one that the rule looks at, at the latest after `delay`
  Corrupt,  // one bit behind the MAD header is turned over
  Busy,     // a request comes back with status Busy instead of arriving
  Rate,     // arrives no faster than `per_second`, in order, in a queue of bounded length
};

/// One rule: to which MADs it applies, and what happens to them. An empty list of ports is any.
struct GsiRule {
  FaultAction action = FaultAction::Drop;
  std::vector<PortIndex> from;
  std::vector<PortIndex> to;
  std::optional<std::uint8_t> mgmt_class;
  std::optional<std::uint16_t> attribute;
  std::optional<std::uint8_t> method;
  std::optional<bool> response;
  std::uint32_t chance_ppm = 1'000'000;
  std::uint64_t nth = 0;    // not 0: of those that match, the n-th alone
  std::uint64_t every = 0;  // not 0: of those that match, each n-th, by chance
  std::uint64_t count = 0;  // not 0: at most so many are hit
  std::uint64_t seed = 0;
  std::chrono::milliseconds delay{20};
  std::uint32_t per_second = 1;
  std::string text;  // as the user wrote it

  bool operator==(const GsiRule&) const = default;
};

/// What becomes of one MAD.
struct GsiFate {
  bool drop = false;
  bool busy = false;
  std::uint32_t copies = 1;
  std::chrono::nanoseconds delay{0};
  std::optional<std::size_t> hold;             // the place of the rule that holds it back
  std::optional<std::uint32_t> corrupted_bit;  // counted from the first byte behind the header
  std::vector<std::size_t> passed;             // rules that looked at it; release what they hold

  bool operator==(const GsiFate&) const = default;
};

/// Not thread-safe.
class GsiFaults {
 public:
  struct Entry {
    GsiRule rule;
    std::uint64_t matched = 0;
    std::uint64_t hit = 0;
    Instant free_at{};  // Rate: when the next one may arrive
  };

  void add(const GsiRule& rule) { entries_.push_back({rule, 0, 0, {}}); }
  void clear() { entries_.clear(); }
  [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }

  /// `to` is kNoPort for a MAD that goes nowhere.
  GsiFate judge(PortIndex from, PortIndex to, const MadHeader& header, Instant now);

 private:
  static bool matches(const GsiRule& rule, PortIndex from, PortIndex to, const MadHeader& header);

  std::vector<Entry> entries_;
};

}  // namespace softhca
