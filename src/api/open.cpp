// SPDX-License-Identifier: BSD-3-Clause
// The composition root: the one place that knows all parts.
#include <unistd.h>

#include <utility>

#include "api/context.hpp"
#include "api/convert.hpp"
#include "pmix/driver/pmix_exchange.hpp"
#include "settings/settings.hpp"

namespace wireup::api {
namespace {

/// What the file and the environment say, and over it what the caller says.
Result<settings::Settings> settings_of(const wireup_config_t& config) {
  auto loaded = settings::load();
  // A value that is left out in silence would be looked for at the wrong place.
  if (!loaded.problems.empty()) {
    return fail(loaded.problems.front());
  }
  if (config.device != nullptr && *config.device != '\0') {
    if (auto set = loaded.settings.set(settings::Id::Device, config.device,
                                       settings::Origin::Caller, "wireup_config_t.device");
        !set) {
      return fail(set.error());
    }
  }
  return std::move(loaded.settings);
}

Result<> check(const wireup_config_t& config) {
  constexpr std::uint32_t kKnownFlags = WIREUP_FLAG_HELPER_THREAD | WIREUP_FLAG_NO_RESOLVER;
  if ((config.flags & ~kKnownFlags) != 0) {
    return fail(Error::make(Errc::InvalidArgument, "config: flags 0x%x, known are 0x%x",
                            config.flags, kKnownFlags));
  }
  if (config.retry_count > 7 || config.rnr_retry_count > 7) {
    return fail(Error::make(
        Errc::InvalidArgument, "config: retry_count %u, rnr_retry_count %u; both are 0 to 7",
        static_cast<unsigned>(config.retry_count), static_cast<unsigned>(config.rnr_retry_count)));
  }
  if (config.send_depth == 0 || config.receive_depth == 0 || config.max_sge == 0 ||
      config.open_timeout_ns == 0 || config.accept_timeout_ns == 0) {
    return fail(Error::make(Errc::InvalidArgument,
                            "config: depths, max_sge and timeouts must not be 0; begin with "
                            "wireup_config_init()"));
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<conn::Driver>> open_driver(const wireup_config_t& config) {
  if (auto done = check(config); !done) {
    return fail(done.error());
  }
  const auto settings = settings_of(config);
  if (!settings) {
    return fail(settings.error());
  }
  const auto selector = verbs::PortSelector::parse(settings->device());
  if (!selector) {
    return fail(selector.error());
  }
  auto port = verbs::open_port(*selector);
  if (!port) {
    return fail(port.error());
  }

  conn::Options options;
  options.pkey = config.pkey != 0 ? PKey(config.pkey) : settings->pkey();
  options.send_depth = config.send_depth;
  options.receive_depth = config.receive_depth;
  options.max_sge = config.max_sge;
  options.inline_size = config.inline_size;
  options.cq_entries = config.cq_entries;
  options.spare_qps = config.spare_qps;
  options.retry_count = config.retry_count;
  options.rnr_retry_count = config.rnr_retry_count;
  options.accept_timeout = to_duration(config.accept_timeout_ns);
  options.cm_capture = settings->cm_capture();
  options.carrier = cm::carrier_of(settings->cm_carrier());
  options.carrier_set_by = settings->value(settings::Id::CmCarrier).place;
  const auto sources = acm::policy_of(settings->path_sources(), settings->sa_bulk());
  options.card_paths = sources.uses(acm::PathOrigin::Card);
  options.helper_thread = (config.flags & WIREUP_FLAG_HELPER_THREAD) != 0;
  const auto pkey = conn::choose_pkey(port->info, options.pkey);
  if (!pkey) {
    return fail(pkey.error());
  }
  options.pkey = *pkey;

  pmix::PmixOptions pmix_options;
  pmix_options.open_limit = to_duration(config.open_timeout_ns);
  auto exchange = pmix::open_pmix_exchange(pmix_options);
  if (!exchange) {
    return fail(exchange.error());
  }

  conn::NodePathOptions path_options;
  path_options.pkey = *pkey;
  path_options.may_resolve =
      settings->may_resolve() && (config.flags & WIREUP_FLAG_NO_RESOLVER) == 0;
  path_options.directory = settings->runtime_directory(geteuid());
  path_options.cache_directory = settings->cache_directory();
  path_options.cache_entries = settings->cache_entries();
  if (settings->value(settings::Id::ServiceSocket).origin != settings::Origin::Default) {
    path_options.ibacm_socket = settings->service_socket();
  }
  path_options.sources = sources;
  auto paths = conn::open_node_paths(path_options, port->info);
  if (!paths) {
    return fail(paths.error());
  }
  return conn::Driver::open({std::move(*port), std::move(*exchange), std::move(*paths)}, options);
}

}  // namespace wireup::api
