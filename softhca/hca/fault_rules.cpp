// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/hca/fault_rules.hpp"

#include "softhca/fabric/random.hpp"

namespace softhca::hca {

bool rule_matches(const FaultRule& rule, const Traffic& traffic) {
  const auto holds = [](std::uint32_t wanted, std::uint32_t any, std::uint32_t is) {
    return wanted == any || wanted == is;
  };
  return (!traffic.arriving || rule.dst.count != 0) && rule.src.contain(traffic.from) &&
         rule.dst.contain(traffic.to) && holds(rule.src_qpn, 0, traffic.src_qpn) &&
         holds(rule.dst_qpn, 0, traffic.dst_qpn) && holds(rule.what, 0, traffic.what) &&
         holds(rule.to_state, kAnyState, traffic.to_state);
}

bool rule_draws(const FaultRule& rule, std::uint64_t n) {
  if (rule.nth != 0) {
    return n == rule.nth;
  }
  if (rule.every != 0 && n % rule.every != 0) {
    return false;
  }
  return happens(rule.chance_ppm, mix(mix(rule.seed) ^ n));
}

}  // namespace softhca::hca
