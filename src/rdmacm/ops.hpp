// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <rdma/rdma_cma.h>

#include <cstddef>
#include <cstdint>

#include "base/result.hpp"

namespace wireup::rdmacm {

/// Every call of librdmacm that we make, as a table, so that a test can make each of them fail.
/// Those that return int return 0, or -1 and errno; a pointer is null with errno.
struct Ops {
  rdma_event_channel* (*create_event_channel)();
  void (*destroy_event_channel)(rdma_event_channel* channel);
  int (*create_id)(rdma_event_channel* channel, rdma_cm_id** id, void* context,
                   rdma_port_space space);
  int (*destroy_id)(rdma_cm_id* id);
  int (*resolve_addr)(rdma_cm_id* id, sockaddr* source, sockaddr* destination, int timeout_ms);
  int (*resolve_route)(rdma_cm_id* id, int timeout_ms);
  int (*get_cm_event)(rdma_event_channel* channel, rdma_cm_event** event);
  int (*ack_cm_event)(rdma_cm_event* event);
  int (*bind_addr)(rdma_cm_id* id, sockaddr* address) = nullptr;
  int (*listen)(rdma_cm_id* id, int backlog) = nullptr;
  int (*set_option)(rdma_cm_id* id, int level, int name, void* value, std::size_t size) = nullptr;
  int (*connect)(rdma_cm_id* id, rdma_conn_param* values) = nullptr;
  int (*accept)(rdma_cm_id* id, rdma_conn_param* values) = nullptr;
  int (*establish)(rdma_cm_id* id) = nullptr;
  int (*reject)(rdma_cm_id* id, const void* private_data, std::uint8_t size) = nullptr;
  int (*reject_ece)(rdma_cm_id* id, const void* private_data, std::uint8_t size) = nullptr;
  int (*notify)(rdma_cm_id* id, ibv_event_type event) = nullptr;
  int (*disconnect)(rdma_cm_id* id) = nullptr;
};

/// The library itself, loaded when it is first wanted: a process that never asks the kernel for a
/// path or a connection does not carry it. Errc::Unsupported: it is not installed. Thread-safe.
[[nodiscard]] Result<const Ops*> load_library();

}  // namespace wireup::rdmacm
