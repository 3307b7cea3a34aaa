// SPDX-License-Identifier: BSD-3-Clause
#include "acm/engine/config.hpp"

#include "mad/rate.hpp"

namespace wireup::acm {
namespace {

Result<> check_group(const Config& config, std::size_t index) noexcept {
  const GroupSpec& group = config.further_groups[index];
  const bool is_rate = group.rate == 0 || mad::rate_mbps(group.rate).has_value();
  if (!is_rate || (group.mtu != 0 && !mad::mtu_bytes(group.mtu).has_value())) {
    return fail(Error::make(Errc::InvalidArgument,
                            "ACM group %zu: rate code %u and MTU code %u: one of them is unknown; "
                            "0 stands for the port's own",
                            index, group.rate, group.mtu));
  }
  for (std::size_t other = 0; other < index; ++other) {
    const GroupSpec& before = config.further_groups[other];
    if (before.rate == group.rate && before.mtu == group.mtu &&
        before.traffic_class == group.traffic_class) {
      return fail(Error::make(Errc::InvalidArgument,
                              "ACM groups %zu and %zu have the same rate, MTU and traffic class "
                              "%u: give one of them another traffic class",
                              other, index, group.traffic_class));
    }
  }
  return {};
}

}  // namespace

Result<> validate(const Config& config) noexcept {
  if (!mad::rate_mbps(config.min_rate).has_value() || !mad::mtu_bytes(config.min_mtu).has_value()) {
    return fail(Error::make(Errc::InvalidArgument,
                            "ACM group 0: rate code %u or MTU code %u is unknown", config.min_rate,
                            config.min_mtu));
  }
  if (config.further_groups.size() > kMaxFurtherGroups) {
    return fail(Error::make(Errc::InvalidArgument,
                            "%zu further ACM groups: a message has room for %zu",
                            config.further_groups.size(), kMaxFurtherGroups));
  }
  for (std::size_t i = 0; i < config.further_groups.size(); ++i) {
    if (auto checked = check_group(config, i); !checked) {
      return checked;
    }
  }
  if (config.first_retry <= Duration::zero() || config.max_retry <= Duration::zero() ||
      config.sa_first_retry <= Duration::zero() || config.sa_max_retry <= Duration::zero() ||
      config.bulk_first_retry <= Duration::zero() || config.bulk_max_retry <= Duration::zero() ||
      config.bulk_first_spacing <= Duration::zero()) {
    return fail(Error::make(Errc::InvalidArgument, "an ACM retry wait of 0: it must be longer"));
  }
  if (config.route_protocol == RouteProtocol::Undecided) {
    return fail(
        Error::make(Errc::InvalidArgument,
                    "ACM route protocol \"undecided\" is a state, not a choice: acm or sa"));
  }
  if (config.jitter_percent >= 100 || config.backoff_percent < 100) {
    return fail(Error::make(Errc::InvalidArgument,
                            "ACM jitter of %u %% and growth of %u %%: less than 100, and 100 or "
                            "more, are possible",
                            config.jitter_percent, config.backoff_percent));
  }
  if (config.window == 0 || config.first_burst == 0 || config.max_entries == 0 ||
      config.sa_window == 0 || config.sa_max_window < config.sa_window) {
    return fail(Error::make(Errc::InvalidArgument,
                            "ACM windows and table size must be 1 at least, and the largest SA "
                            "window, %zu, not below the first one, %zu",
                            config.sa_max_window, config.sa_window));
  }
  return {};
}

}  // namespace wireup::acm
