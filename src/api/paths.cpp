// SPDX-License-Identifier: BSD-3-Clause
// The entries of the C API for paths without a connection.
#include <infiniband/verbs.h>

#include <cstddef>
#include <cstring>

#include "api/address.hpp"
#include "api/convert.hpp"
#include "api/entry.hpp"
#include "api/guard.hpp"

namespace {

using wireup::Errc;
using wireup::Error;
using wireup::Result;
using wireup::api::guarded;
using wireup::api::null_argument;
using wireup::api::report;
using wireup::api::report_text;
using wireup::api::small_struct;
using wireup::conn::PathId;
using wireup::conn::PathTarget;

Result<wireup::conn::PathOptions> to_path_options(const wireup_resolve_options_t* options,
                                                  const char* call) {
  wireup::conn::PathOptions result;
  if (options == nullptr) {
    return result;
  }
  if (options->struct_size < sizeof *options) {
    return wireup::fail(Error::make(Errc::InvalidArgument,
                                    "%s: the options' struct_size is not set to their size", call));
  }
  if (options->has_sl > 1 || (options->has_sl == 1 && options->sl > wireup::Sl::kMax)) {
    return wireup::fail(Error::make(
        Errc::InvalidArgument, "%s: has_sl %u, sl %u; has_sl is 0 or 1 and an SL 0 to 15", call,
        static_cast<unsigned>(options->has_sl), static_cast<unsigned>(options->sl)));
  }
  if (options->pkey != 0) {
    result.pkey = wireup::PKey(options->pkey);
  }
  if (options->has_sl == 1) {
    result.sl = wireup::Sl(options->sl);
  }
  result.service_id = wireup::ServiceId(options->service_id);
  return result;
}

wireup_status_t store_view(wireup_path_t* path, const Result<wireup::conn::PathView>& view) {
  if (!view) {
    return report(view.error());
  }
  // Its size was looked at before.
  static_cast<void>(wireup::api::store(path, wireup::api::to_path(*view)));
  return WIREUP_OK;
}

/// `target` is a Result<PathTarget>-returning function, called once the structs are known to be
/// good.
template <typename F>
wireup_status_t resolve(wireup_context_t* context, const char* call,
                        const wireup_resolve_options_t* options, uint64_t timeout_ns,
                        wireup_path_t* path, F&& target) {
  return guarded([&]() -> wireup_status_t {
    if (path->struct_size < sizeof *path) {
      return small_struct(call);
    }
    const auto wanted = to_path_options(options, call);
    if (!wanted) {
      return report(wanted.error());
    }
    const Result<PathTarget> to = target();
    if (!to) {
      return report(to.error());
    }
    return store_view(path,
                      context->driver->resolve(*to, *wanted, wireup::api::to_duration(timeout_ns)));
  });
}

}  // namespace

extern "C" {

wireup_status_t wireup_resolve(wireup_context_t* context, const wireup_peer_t* peer,
                               const wireup_resolve_options_t* options, uint64_t timeout_ns,
                               wireup_path_t* path) {
  if (context == nullptr || peer == nullptr || path == nullptr) {
    return null_argument("wireup_resolve");
  }
  return resolve(context, "wireup_resolve", options, timeout_ns, path, [&]() -> Result<PathTarget> {
    const auto id = wireup::api::peer_id(*context, *peer);
    return id ? Result<PathTarget>(*id) : wireup::fail(id.error());
  });
}

wireup_status_t wireup_resolve_address(wireup_context_t* context, const char* address,
                                       const wireup_resolve_options_t* options, uint64_t timeout_ns,
                                       wireup_path_t* path) {
  if (context == nullptr || address == nullptr || path == nullptr) {
    return null_argument("wireup_resolve_address");
  }
  return resolve(context, "wireup_resolve_address", options, timeout_ns, path,
                 [&]() -> Result<PathTarget> {
                   const auto parsed = wireup::api::parse_target(address);
                   return parsed ? Result<PathTarget>(*parsed) : wireup::fail(parsed.error());
                 });
}

wireup_status_t wireup_path_info(wireup_context_t* context, wireup_path_id_t id,
                                 wireup_path_t* path) {
  if (context == nullptr || path == nullptr) {
    return null_argument("wireup_path_info");
  }
  if (path->struct_size < sizeof *path) {
    return small_struct("wireup_path_info");
  }
  return guarded([&] { return store_view(path, context->driver->path(PathId(id))); });
}

wireup_status_t wireup_path_failed(wireup_context_t* context, wireup_path_id_t id) {
  if (context == nullptr) {
    return null_argument("wireup_path_failed");
  }
  return guarded([&] { return wireup::api::to_status(context->driver->fail_path(PathId(id))); });
}

wireup_status_t wireup_unresolve(wireup_context_t* context, wireup_path_id_t id) {
  if (context == nullptr) {
    return null_argument("wireup_unresolve");
  }
  return guarded([&] { return wireup::api::to_status(context->driver->forget_path(PathId(id))); });
}

wireup_status_t wireup_path_ah_attr(const wireup_path_t* path, struct ibv_ah_attr* attributes) {
  if (path == nullptr || attributes == nullptr) {
    return null_argument("wireup_path_ah_attr");
  }
  if (path->struct_size < sizeof *path) {
    return small_struct("wireup_path_ah_attr");
  }
  if (path->state != WIREUP_PATH_STATE_RESOLVED) {
    return report_text(WIREUP_ERR_INVALID_STATE,
                       "wireup_path_ah_attr: the path is not resolved, or void");
  }
  *attributes = {};
  attributes->dlid = path->dlid;
  attributes->sl = path->sl;
  attributes->src_path_bits = path->src_path_bits;
  attributes->static_rate = path->static_rate;
  attributes->port_num = path->port;
  attributes->is_global = path->is_global;
  std::memcpy(attributes->grh.dgid.raw, path->dgid, sizeof path->dgid);
  attributes->grh.flow_label = path->flow_label;
  attributes->grh.sgid_index = path->sgid_index;
  attributes->grh.hop_limit = path->hop_limit;
  attributes->grh.traffic_class = path->traffic_class;
  return WIREUP_OK;
}

}  // extern "C"
