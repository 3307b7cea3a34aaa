// SPDX-License-Identifier: BSD-3-Clause
//
// The calls of <infiniband/cm.h>: arguments checked, errors as errno, nothing thrown.
#include <endian.h>
#include <infiniband/cm.h>

#include <memory>
#include <mutex>
#include <utility>

#include "cm/libibcm/bytes.hpp"
#include "cm/libibcm/device.hpp"
#include "cm/libibcm/failure.hpp"
#include "cm/libibcm/port.hpp"

#define WIREUP_IBCM_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using namespace wireup;
using namespace wireup::cm::ibcm;

Error null_argument(const char* call) {
  return Error::make(Errc::InvalidArgument, "%s: an argument is a null pointer", call);
}

Device& device_of(ib_cm_id& id) noexcept {
  return static_cast<Device&>(*id.device);
}

CmId& as_id(ib_cm_id& id) noexcept {
  return static_cast<CmId&>(id);
}

/// Of calls whose only pointer that may not be null is the cm_id.
template <typename Act>
int on_id(const char* name, ib_cm_id* cm_id, Act act) {
  return call([&]() -> Result<> {
    if (cm_id == nullptr) {
      return fail(null_argument(name));
    }
    return act(device_of(*cm_id), as_id(*cm_id));
  });
}

/// Of calls that send nothing but private data: `send(Engine&, Handle, bytes, Instant)`.
template <typename Send>
int send_bytes(const char* name, ib_cm_id* cm_id, void* private_data, std::uint8_t length,
               Send send) {
  return on_id(name, cm_id, [&](Device& device, CmId& id) {
    return device.command(id, [&](cm::Engine& engine, cm::Handle connection, Instant now) {
      return send(engine, connection, span_of(private_data, length), now);
    });
  });
}

void wait_for_acknowledgements(CmId& id) {
  std::unique_lock lock(id.shared->mutex);
  id.shared->acked.wait(lock, [&] { return id.unacked == 0; });
}

}  // namespace

WIREUP_IBCM_EXPORT ib_cm_device* ib_cm_open_device(ibv_context* device_context) {
  std::unique_ptr<Device> opened;
  const int status = call([&]() -> Result<> {
    if (device_context == nullptr) {
      return fail(null_argument("ib_cm_open_device"));
    }
    auto ports = open_ports(device_context);
    if (!ports) {
      return fail(ports.error());
    }
    auto device = Device::open(device_context, std::move(*ports));
    if (!device) {
      return fail(device.error());
    }
    opened = std::move(*device);
    return {};
  });
  return status == 0 ? opened.release() : nullptr;
}

WIREUP_IBCM_EXPORT void ib_cm_close_device(ib_cm_device* device) {
  delete static_cast<Device*>(device);
}

WIREUP_IBCM_EXPORT int ib_cm_get_event(ib_cm_device* device, ib_cm_event** event) {
  return call([&]() -> Result<> {
    if (device == nullptr || event == nullptr) {
      return fail(null_argument("ib_cm_get_event"));
    }
    const auto next = static_cast<Device*>(device)->next_event();
    if (!next) {
      return fail(next.error());
    }
    *event = *next;
    return {};
  });
}

WIREUP_IBCM_EXPORT int ib_cm_ack_event(ib_cm_event* event) {
  return call([&]() -> Result<> {
    if (event == nullptr) {
      return fail(null_argument("ib_cm_ack_event"));
    }
    const std::unique_ptr<EventBox> box(static_cast<EventBox*>(event));
    const std::lock_guard lock(box->shared->mutex);
    --box->owner->unacked;
    box->shared->acked.notify_all();
    return {};
  });
}

WIREUP_IBCM_EXPORT int ib_cm_create_id(ib_cm_device* device, ib_cm_id** cm_id, void* context) {
  return call([&]() -> Result<> {
    if (device == nullptr || cm_id == nullptr) {
      return fail(null_argument("ib_cm_create_id"));
    }
    *cm_id = &static_cast<Device*>(device)->create(context);
    return {};
  });
}

WIREUP_IBCM_EXPORT int ib_cm_destroy_id(ib_cm_id* cm_id) {
  return call([&]() -> Result<> {
    if (cm_id == nullptr) {
      return fail(null_argument("ib_cm_destroy_id"));
    }
    CmId& id = as_id(*cm_id);
    if (id.shared->is_closed) {
      // Its device is gone, which ended all that it was busy with.
      wait_for_acknowledgements(id);
      delete &id;
    } else {
      device_of(id).destroy(id);
    }
    return {};
  });
}

WIREUP_IBCM_EXPORT int ib_cm_attr_id(ib_cm_id* cm_id, ib_cm_attr_param* param) {
  return on_id("ib_cm_attr_id", cm_id, [&](Device& device, CmId& id) -> Result<> {
    if (param == nullptr) {
      return fail(null_argument("ib_cm_attr_id"));
    }
    *param = device.attributes(id);
    return {};
  });
}

WIREUP_IBCM_EXPORT int ib_cm_listen(ib_cm_id* cm_id, std::uint64_t service_id,
                                    std::uint64_t service_mask) {
  return on_id("ib_cm_listen", cm_id, [&](Device& device, CmId& id) {
    return device.listen(id, ServiceId(be64toh(service_id)), be64toh(service_mask));
  });
}

WIREUP_IBCM_EXPORT int ib_cm_send_req(ib_cm_id* cm_id, ib_cm_req_param* param) {
  return on_id("ib_cm_send_req", cm_id, [&](Device& device, CmId& id) -> Result<> {
    if (param == nullptr || param->primary_path == nullptr) {
      return fail(null_argument("ib_cm_send_req"));
    }
    return device.send_req(id, *param);
  });
}

WIREUP_IBCM_EXPORT int ib_cm_send_rep(ib_cm_id* cm_id, ib_cm_rep_param* param) {
  return on_id("ib_cm_send_rep", cm_id, [&](Device& device, CmId& id) -> Result<> {
    if (param == nullptr) {
      return fail(null_argument("ib_cm_send_rep"));
    }
    return device.send_rep(id, *param);
  });
}

WIREUP_IBCM_EXPORT int ib_cm_send_rtu(ib_cm_id* cm_id, void* private_data,
                                      std::uint8_t private_data_len) {
  return send_bytes("ib_cm_send_rtu", cm_id, private_data, private_data_len,
                    [](cm::Engine& engine, cm::Handle connection, auto bytes, Instant now) {
                      return engine.establish(connection, bytes, now);
                    });
}

WIREUP_IBCM_EXPORT int ib_cm_send_dreq(ib_cm_id* cm_id, void* private_data,
                                       std::uint8_t private_data_len) {
  return send_bytes("ib_cm_send_dreq", cm_id, private_data, private_data_len,
                    [](cm::Engine& engine, cm::Handle connection, auto bytes, Instant now) {
                      return engine.disconnect(connection, bytes, now);
                    });
}

WIREUP_IBCM_EXPORT int ib_cm_send_drep(ib_cm_id* cm_id, void* private_data,
                                       std::uint8_t private_data_len) {
  return send_bytes("ib_cm_send_drep", cm_id, private_data, private_data_len,
                    [](cm::Engine& engine, cm::Handle connection, auto bytes, Instant now) {
                      return engine.release(connection, bytes, now);
                    });
}

WIREUP_IBCM_EXPORT int ib_cm_notify(ib_cm_id* cm_id, ibv_event_type event) {
  return on_id("ib_cm_notify", cm_id,
               [&](Device& device, CmId& id) { return device.notify(id, event); });
}

WIREUP_IBCM_EXPORT int ib_cm_send_rej(ib_cm_id* cm_id, ib_cm_rej_reason reason, void* ari,
                                      std::uint8_t ari_length, void* private_data,
                                      std::uint8_t private_data_len) {
  return on_id("ib_cm_send_rej", cm_id, [&](Device& device, CmId& id) {
    return device.send_rej(id, static_cast<mad::RejReason>(reason), span_of(ari, ari_length),
                           span_of(private_data, private_data_len));
  });
}

WIREUP_IBCM_EXPORT int ib_cm_send_mra(ib_cm_id* cm_id, std::uint8_t service_timeout,
                                      void* private_data, std::uint8_t private_data_len) {
  return send_bytes("ib_cm_send_mra", cm_id, private_data, private_data_len,
                    [&](cm::Engine& engine, cm::Handle connection, auto bytes, Instant now) {
                      return engine.delay(connection, IbTimeout(service_timeout), bytes, now);
                    });
}

WIREUP_IBCM_EXPORT int ib_cm_send_lap(ib_cm_id* cm_id, ibv_sa_path_rec* alternate_path,
                                      void* private_data, std::uint8_t private_data_len) {
  return on_id("ib_cm_send_lap", cm_id, [&](Device& device, CmId& id) -> Result<> {
    if (alternate_path == nullptr) {
      return fail(null_argument("ib_cm_send_lap"));
    }
    return device.send_lap(id, *alternate_path, span_of(private_data, private_data_len));
  });
}

WIREUP_IBCM_EXPORT int ib_cm_send_apr(ib_cm_id* cm_id, ib_cm_apr_status status, void* info,
                                      std::uint8_t info_length, void* private_data,
                                      std::uint8_t private_data_len) {
  return on_id("ib_cm_send_apr", cm_id, [&](Device& device, CmId& id) -> Result<> {
    if (status > IB_CM_APR_INVALID_SL) {
      return fail(
          Error::make(Errc::InvalidArgument, "sending an APR: there is no status %d", status));
    }
    return device.send_apr(id, static_cast<std::uint8_t>(status), span_of(info, info_length),
                           span_of(private_data, private_data_len));
  });
}

WIREUP_IBCM_EXPORT int ib_cm_send_sidr_req(ib_cm_id* cm_id, ib_cm_sidr_req_param* param) {
  return on_id("ib_cm_send_sidr_req", cm_id, [&](Device& device, CmId& id) -> Result<> {
    if (param == nullptr || param->path == nullptr) {
      return fail(null_argument("ib_cm_send_sidr_req"));
    }
    return device.send_sidr_req(id, *param);
  });
}

WIREUP_IBCM_EXPORT int ib_cm_send_sidr_rep(ib_cm_id* cm_id, ib_cm_sidr_rep_param* param) {
  return on_id("ib_cm_send_sidr_rep", cm_id, [&](Device& device, CmId& id) -> Result<> {
    if (param == nullptr) {
      return fail(null_argument("ib_cm_send_sidr_rep"));
    }
    return device.send_sidr_rep(id, *param);
  });
}

WIREUP_IBCM_EXPORT int ib_cm_init_qp_attr(ib_cm_id* cm_id, ibv_qp_attr* qp_attr,
                                          int* qp_attr_mask) {
  return on_id("ib_cm_init_qp_attr", cm_id, [&](Device& device, CmId& id) -> Result<> {
    if (qp_attr == nullptr || qp_attr_mask == nullptr) {
      return fail(null_argument("ib_cm_init_qp_attr"));
    }
    const auto found = device.qp_attributes(id, qp_attr->qp_state);
    if (!found) {
      return fail(found.error());
    }
    *qp_attr = found->attr;
    *qp_attr_mask = found->mask;
    return {};
  });
}

WIREUP_IBCM_EXPORT std::size_t ib_cm_event_private_data_len(const ib_cm_event* event,
                                                            std::size_t* used) {
  if (event == nullptr || event->private_data == nullptr) {
    if (used != nullptr) {
      *used = 0;
    }
    return 0;
  }
  const auto& box = static_cast<const EventBox&>(*event);
  if (used != nullptr) {
    std::size_t length = box.private_size;
    while (length > 0 && box.private_bytes[length - 1] == 0) {
      --length;
    }
    *used = length;
  }
  return box.private_size;
}

WIREUP_IBCM_EXPORT const char* ib_cm_last_error() {
  return last_error().c_str();
}
