// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>

#include "acm/files/options.hpp"

namespace wireup::acm {
namespace {

/// What ibacm's options say where the file says nothing.
constexpr Duration kIbacmTimeout = std::chrono::seconds(2);

/// What ibacm adds to `timeout`: the time that a port's SubnetTimeout stands for. 18 is what subnet
/// managers set unless they are told otherwise.
constexpr Duration kUsualSubnetTimeout = IbTimeout(18).duration();

constexpr std::int64_t kNoLimit = Duration::max().count();

std::int64_t per_cent_of(Duration wait, unsigned percent) noexcept {
  const std::int64_t count = wait.count();
  return percent != 0 && count > kNoLimit / percent ? kNoLimit : count * percent / 100;
}

/// How many tries of `config` take no less than `patience`, when the jitter makes each wait as
/// short as it can. `config` is valid.
unsigned tries_for(Duration patience, const Config& config) noexcept {
  Duration wait = config.first_retry;
  unsigned tries = 0;
  while (patience > Duration::zero()) {
    const Duration shortest =
        std::max(Duration(per_cent_of(wait, 100 - config.jitter_percent)), Duration(1));
    const Duration longer =
        std::min(Duration(per_cent_of(wait, config.backoff_percent)), config.max_retry);
    if (longer <= wait) {
      // From here on all waits are the same.
      const std::int64_t rest = (patience - Duration(1)) / shortest + 1;
      return static_cast<unsigned>(std::min<std::int64_t>(tries + rest, 1'000'000));
    }
    patience -= shortest;
    wait = longer;
    ++tries;
  }
  return tries;
}

void apply_retries(const AcmOptions& options, Config& config) noexcept {
  if (options.timeout.has_value()) {
    config.max_retry = std::max(*options.timeout, kUsualSubnetTimeout);
    config.first_retry = std::min(config.first_retry, config.max_retry);
  }
  if (options.retries.has_value()) {
    const Duration each = options.timeout.value_or(kIbacmTimeout) + kUsualSubnetTimeout;
    config.max_tries = tries_for(each * (std::int64_t{*options.retries} + 1), config);
  }
}

}  // namespace

void apply(const AcmOptions& options, Config& config) noexcept {
  config.min_mtu = options.min_mtu.value_or(config.min_mtu);
  config.min_rate = options.min_rate.value_or(config.min_rate);
  config.address_life = options.address_timeout.value_or(config.address_life);
  config.route_life = options.route_timeout.value_or(config.route_life);
  config.route_protocol = options.route_protocol.value_or(config.route_protocol);
  config.window = std::max<std::size_t>(config.window, options.resolve_depth.value_or(0));
  config.sa_max_window = std::max<std::size_t>(config.sa_max_window, options.sa_depth.value_or(0));
  apply_retries(options, config);
}

}  // namespace wireup::acm
