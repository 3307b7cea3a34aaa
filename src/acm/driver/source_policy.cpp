// SPDX-License-Identifier: BSD-3-Clause
#include "acm/driver/source_policy.hpp"

#include <algorithm>
#include <array>

namespace wireup::acm {
namespace {

constexpr std::array kSources{PathOrigin::Preloaded, PathOrigin::AcmMulticast, PathOrigin::Ibacm,
                              PathOrigin::SaQuery,   PathOrigin::Kernel,       PathOrigin::Card};

/// As long as a table may take (umad::SaClient): an SA that many ask at once is not a silent one.
constexpr Duration kTableTime = std::chrono::seconds(4);

}  // namespace

bool SourcePolicy::uses(PathOrigin source) const noexcept {
  return order.empty() || std::find(order.begin(), order.end(), source) != order.end();
}

bool SourcePolicy::prefers(PathOrigin source, PathOrigin other) const noexcept {
  const auto at = std::find(order.begin(), order.end(), source);
  return at != order.end() && std::find(order.begin(), at, other) == at;
}

bool SourcePolicy::uses_fabric() const noexcept {
  return uses(PathOrigin::AcmMulticast) || uses(PathOrigin::SaQuery);
}

SourcePolicy policy_of(std::span<const std::string> sources, std::string_view bulk) {
  SourcePolicy policy;
  for (const std::string& name : sources) {
    const auto source = std::find_if(kSources.begin(), kSources.end(), [&](PathOrigin origin) {
      return origin_name(origin) == name;
    });
    if (source != kSources.end()) {
      policy.order.push_back(*source);
    }
  }
  policy.bulk = bulk == "always"  ? BulkPaths::Always
                : bulk == "never" ? BulkPaths::Never
                                  : BulkPaths::Auto;
  return policy;
}

Config with_policy(Config engine, const SourcePolicy& policy, bool has_dump) noexcept {
  if (policy.prefers(PathOrigin::SaQuery, PathOrigin::AcmMulticast)) {
    engine.route_protocol = RouteProtocol::Sa;
  } else if (policy.prefers(PathOrigin::AcmMulticast, PathOrigin::SaQuery)) {
    engine.route_protocol = RouteProtocol::Acm;
  }
  const bool is_wanted =
      policy.uses(PathOrigin::SaQuery) && (!has_dump || policy.bulk == BulkPaths::Always);
  engine.bulk_paths = is_wanted ? policy.bulk : BulkPaths::Never;
  engine.bulk_patience = kTableTime;
  return engine;
}

}  // namespace wireup::acm
