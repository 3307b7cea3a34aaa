// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <rdma/rdma_cma.h>

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
};

/// The library itself, loaded when it is first wanted: a process that never asks the kernel for a
/// path does not carry it. Errc::Unsupported: it is not installed. Thread-safe.
[[nodiscard]] Result<const Ops*> load_library();

}  // namespace wireup::rdmacm
