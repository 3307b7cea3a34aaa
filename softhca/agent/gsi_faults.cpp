// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/agent/gsi_faults.hpp"

#include <algorithm>

#include "softhca/fabric/random.hpp"

namespace softhca {
namespace {

// What a receive queue of QP 1 holds; more is lost.
constexpr std::int64_t kQueueLength = 512;

bool among(const std::vector<PortIndex>& ports, PortIndex port) {
  return ports.empty() || std::find(ports.begin(), ports.end(), port) != ports.end();
}

template <typename T>
bool agrees(const std::optional<T>& wanted, T value) {
  return !wanted || *wanted == value;
}

bool chosen(const GsiFaults::Entry& entry, std::uint64_t random) {
  const GsiRule& rule = entry.rule;
  if (rule.count != 0 && entry.hit >= rule.count) {
    return false;
  }
  if (rule.nth != 0) {
    return entry.matched == rule.nth;
  }
  if (rule.every != 0 && entry.matched % rule.every != 0) {
    return false;
  }
  return happens(rule.chance_ppm, random);
}

}  // namespace

bool GsiFaults::matches(const GsiRule& rule, PortIndex from, PortIndex to,
                        const MadHeader& header) {
  return among(rule.from, from) && among(rule.to, to) &&
         agrees(rule.mgmt_class, header.mgmt_class) && agrees(rule.attribute, header.attr_id) &&
         agrees(rule.method, header.method) && agrees(rule.response, header.is_response());
}

GsiFate GsiFaults::judge(PortIndex from, PortIndex to, const MadHeader& header, Instant now) {
  GsiFate fate;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    Entry& entry = entries_[i];
    if (!matches(entry.rule, from, to, header)) {
      continue;
    }
    ++entry.matched;
    const std::uint64_t random = mix(mix(entry.rule.seed) ^ entry.matched);
    if (!chosen(entry, random)) {
      fate.passed.push_back(i);
      continue;
    }
    ++entry.hit;
    switch (entry.rule.action) {
      case FaultAction::Drop:
        fate.drop = true;
        break;
      case FaultAction::Duplicate:
        ++fate.copies;
        break;
      case FaultAction::Delay:
        fate.delay += entry.rule.delay;
        break;
      case FaultAction::Reorder:
        fate.hold = i;
        break;
      case FaultAction::Corrupt:
        fate.corrupted_bit =
            static_cast<std::uint32_t>(mix(random) % ((kMadSize - kMadHeaderSize) * 8));
        break;
      case FaultAction::Busy:
        fate.busy = !header.is_response();
        break;
      case FaultAction::Rate: {
        const std::chrono::nanoseconds gap(std::chrono::seconds(1));
        entry.free_at = std::max(entry.free_at, now);
        const auto wait = entry.free_at - now;
        const auto each = gap / std::max(1U, entry.rule.per_second);
        if (wait > each * kQueueLength) {
          fate.drop = true;
        } else {
          fate.delay += wait;
          entry.free_at += each;
        }
        break;
      }
    }
  }
  return fate;
}

}  // namespace softhca
