// SPDX-License-Identifier: BSD-3-Clause
// The composition root: the one place that knows all parts.
#include <cstdlib>
#include <string_view>
#include <utility>

#include "api/context.hpp"
#include "api/convert.hpp"
#include "pmix/driver/pmix_exchange.hpp"

namespace wireup::api {
namespace {

std::string_view device_of(const wireup_config_t& config) {
  if (config.device != nullptr && *config.device != '\0') {
    return config.device;
  }
  const char* from_environment = std::getenv("WIREUP_DEVICE");
  return from_environment != nullptr ? from_environment : "";
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
  const auto selector = verbs::PortSelector::parse(device_of(config));
  if (!selector) {
    return fail(selector.error());
  }
  auto port = verbs::open_port(*selector);
  if (!port) {
    return fail(port.error());
  }

  conn::Options options;
  if (config.pkey != 0) {
    options.pkey = PKey(config.pkey);
  }
  options.send_depth = config.send_depth;
  options.receive_depth = config.receive_depth;
  options.max_sge = config.max_sge;
  options.inline_size = config.inline_size;
  options.cq_entries = config.cq_entries;
  options.spare_qps = config.spare_qps;
  options.retry_count = config.retry_count;
  options.rnr_retry_count = config.rnr_retry_count;
  options.accept_timeout = to_duration(config.accept_timeout_ns);
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
  path_options.may_resolve = (config.flags & WIREUP_FLAG_NO_RESOLVER) == 0;
  auto paths = conn::open_node_paths(path_options, port->info);
  if (!paths) {
    return fail(paths.error());
  }
  return conn::Driver::open({std::move(*port), std::move(*exchange), std::move(*paths)}, options);
}

}  // namespace wireup::api
