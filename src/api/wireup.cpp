// SPDX-License-Identifier: BSD-3-Clause
// The entries of the C API: checks, conversion, and nothing else.
#include <cstddef>
#include <cstring>
#include <utility>

#include "api/context.hpp"
#include "api/convert.hpp"
#include "api/entry.hpp"
#include "api/guard.hpp"

namespace {

using wireup::api::guarded;
using wireup::api::null_argument;
using wireup::api::peer_id;
using wireup::api::report;
using wireup::api::report_text;
using wireup::api::small_struct;
using wireup::api::to_status;

wireup_config_t default_config() noexcept {
  wireup_config_t config{};
  config.struct_size = sizeof config;
  config.retry_count = 7;
  config.rnr_retry_count = 7;
  config.send_depth = 64;
  config.receive_depth = 64;
  config.max_sge = 1;
  config.inline_size = 64;
  config.spare_qps = 4;
  config.open_timeout_ns = 10'000'000'000;
  config.accept_timeout_ns = 30'000'000'000;
  return config;
}

wireup_status_t not_connected(const wireup_peer_t& peer) noexcept {
  char text[96];
  std::snprintf(text, sizeof text, "rank %u is not connected", peer.rank);
  return report_text(WIREUP_ERR_INVALID_STATE, text);
}

}  // namespace

extern "C" {

wireup_status_t wireup_config_init(wireup_config_t* config, size_t struct_size) {
  if (config == nullptr) {
    return null_argument("wireup_config_init");
  }
  config->struct_size = struct_size;
  if (struct_size < sizeof(wireup_config_t)) {
    return small_struct("wireup_config_init");
  }
  // Fields that this version does not know are zero, which means "default" for all later ones.
  std::memset(config, 0, struct_size);
  config->struct_size = struct_size;
  return wireup::api::store(config, default_config()) ? WIREUP_OK
                                                      : small_struct("wireup_config_init");
}

wireup_status_t wireup_context_open(const wireup_config_t* config, wireup_context_t** context) {
  return guarded([&]() -> wireup_status_t {
    if (context == nullptr) {
      return null_argument("wireup_context_open");
    }
    *context = nullptr;
    wireup_config_t wanted = default_config();
    if (config != nullptr) {
      if (config->struct_size < sizeof wanted) {
        return small_struct("wireup_context_open");
      }
      std::memcpy(&wanted, config, sizeof wanted);
    }
    auto driver = wireup::api::open_driver(wanted);
    if (!driver) {
      return report(driver.error());
    }
    *context = new wireup_context{std::move(*driver)};
    return WIREUP_OK;
  });
}

wireup_status_t wireup_context_close(wireup_context_t* context, uint64_t timeout_ns) {
  if (context == nullptr) {
    return null_argument("wireup_context_close");
  }
  const wireup_status_t status = guarded(
      [&] { return to_status(context->driver->shutdown(wireup::api::to_duration(timeout_ns))); });
  delete context;
  return status;
}

uint32_t wireup_rank(const wireup_context_t* context) {
  return context != nullptr ? context->driver->job().rank : 0;
}

uint32_t wireup_size(const wireup_context_t* context) {
  return context != nullptr ? context->driver->job().size : 0;
}

const char* wireup_nspace(const wireup_context_t* context) {
  return context != nullptr ? context->driver->job().nspace.c_str() : "";
}

wireup_status_t wireup_connect(wireup_context_t* context, const wireup_peer_t* peer,
                               uint64_t timeout_ns) {
  if (context == nullptr || peer == nullptr) {
    return null_argument("wireup_connect");
  }
  return guarded([&]() -> wireup_status_t {
    const auto id = peer_id(*context, *peer);
    if (!id) {
      return report(id.error());
    }
    return to_status(context->driver->connect(*id, wireup::api::to_duration(timeout_ns)));
  });
}

wireup_status_t wireup_close(wireup_context_t* context, const wireup_peer_t* peer) {
  if (context == nullptr || peer == nullptr) {
    return null_argument("wireup_close");
  }
  return guarded([&]() -> wireup_status_t {
    const auto id = peer_id(*context, *peer);
    return id ? to_status(context->driver->close(*id)) : report(id.error());
  });
}

wireup_status_t wireup_progress(wireup_context_t* context) {
  if (context == nullptr) {
    return null_argument("wireup_progress");
  }
  return guarded([&] { return to_status(context->driver->progress()); });
}

wireup_status_t wireup_wait(wireup_context_t* context, uint64_t timeout_ns) {
  if (context == nullptr) {
    return null_argument("wireup_wait");
  }
  return guarded([&]() -> wireup_status_t {
    const auto came = context->driver->wait(wireup::api::to_duration(timeout_ns));
    if (!came) {
      return report(came.error());
    }
    return *came ? WIREUP_OK : report_text(WIREUP_ERR_TIMEOUT, "no event came in the time");
  });
}

int wireup_fd(const wireup_context_t* context) {
  return context != nullptr ? context->driver->fd() : -1;
}

uint64_t wireup_next_timeout_ns(wireup_context_t* context) {
  uint64_t result = UINT64_MAX;
  if (context != nullptr) {
    static_cast<void>(guarded([&] {
      if (const auto next = context->driver->next_timeout()) {
        result = static_cast<uint64_t>(next->count());
      }
      return WIREUP_OK;
    }));
  }
  return result;
}

int wireup_poll_event(wireup_context_t* context, wireup_event_t* event) {
  if (context == nullptr || event == nullptr) {
    static_cast<void>(null_argument("wireup_poll_event"));
    return 0;
  }
  if (event->struct_size < wireup::api::kFirstSize<wireup_event_t>) {
    static_cast<void>(small_struct("wireup_poll_event"));
    return 0;
  }
  int result = 0;
  event->type = WIREUP_EVENT_NONE;
  static_cast<void>(guarded([&] {
    if (const auto next = context->driver->poll_event()) {
      static_cast<void>(
          wireup::api::store(event, wireup::api::to_event(*next, context->driver->job().nspace)));
      result = 1;
    }
    return WIREUP_OK;
  }));
  return result;
}

wireup_status_t wireup_peer_qp(wireup_context_t* context, const wireup_peer_t* peer,
                               struct ibv_qp** qp) {
  if (context == nullptr || peer == nullptr || qp == nullptr) {
    return null_argument("wireup_peer_qp");
  }
  return guarded([&]() -> wireup_status_t {
    *qp = nullptr;
    const auto id = peer_id(*context, *peer);
    if (!id) {
      return report(id.error());
    }
    *qp = context->driver->qp(*id);
    return *qp != nullptr ? WIREUP_OK : not_connected(*peer);
  });
}

wireup_status_t wireup_peer_info(wireup_context_t* context, const wireup_peer_t* peer,
                                 wireup_peer_info_t* info) {
  if (context == nullptr || peer == nullptr || info == nullptr) {
    return null_argument("wireup_peer_info");
  }
  return guarded([&]() -> wireup_status_t {
    const auto id = peer_id(*context, *peer);
    if (!id) {
      return report(id.error());
    }
    const auto connection = context->driver->connection(*id);
    if (!connection.has_value()) {
      return not_connected(*peer);
    }
    return wireup::api::store(info, wireup::api::to_info(*connection))
               ? WIREUP_OK
               : small_struct("wireup_peer_info");
  });
}

const char* wireup_context_carrier(const wireup_context_t* context) {
  return context != nullptr ? context->driver->carrier().c_str() : "";
}

struct ibv_context* wireup_context_verbs(const wireup_context_t* context) {
  return context != nullptr ? context->driver->verbs_context() : nullptr;
}

struct ibv_pd* wireup_context_pd(const wireup_context_t* context) {
  return context != nullptr ? context->driver->pd() : nullptr;
}

struct ibv_cq* wireup_context_send_cq(const wireup_context_t* context) {
  return context != nullptr ? context->driver->send_cq() : nullptr;
}

struct ibv_cq* wireup_context_recv_cq(const wireup_context_t* context) {
  return context != nullptr ? context->driver->receive_cq() : nullptr;
}

wireup_status_t wireup_stats(wireup_context_t* context, wireup_stats_t* stats) {
  if (context == nullptr || stats == nullptr) {
    return null_argument("wireup_stats");
  }
  return guarded([&] {
    return wireup::api::store(stats, wireup::api::to_stats(context->driver->stats()))
               ? WIREUP_OK
               : small_struct("wireup_stats");
  });
}

}  // extern "C"
