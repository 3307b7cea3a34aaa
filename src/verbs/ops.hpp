// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

namespace wireup::verbs {

/// Every call of libibverbs that we make, as a table, so that a test can make each of them fail.
/// The conventions are unified: functions that return int return 0 or an errno value; functions
/// that return a pointer set errno.
struct Ops {
  ibv_device** (*get_device_list)(int* count);
  void (*free_device_list)(ibv_device** list);
  const char* (*get_device_name)(ibv_device* device);
  ibv_context* (*open_device)(ibv_device* device);
  int (*close_device)(ibv_context* context);
  int (*query_device)(ibv_context* context, ibv_device_attr* attr);
  int (*query_port)(ibv_context* context, std::uint8_t port, ibv_port_attr* attr);
  int (*query_gid)(ibv_context* context, std::uint8_t port, int index, ibv_gid* gid);
  /// The key is returned in network byte order, as libibverbs does.
  int (*query_pkey)(ibv_context* context, std::uint8_t port, int index, std::uint16_t* pkey);

  ibv_pd* (*alloc_pd)(ibv_context* context);
  int (*dealloc_pd)(ibv_pd* pd);
  ibv_mr* (*reg_mr)(ibv_pd* pd, void* address, std::size_t size, int access);
  int (*dereg_mr)(ibv_mr* mr);
  ibv_comp_channel* (*create_comp_channel)(ibv_context* context);
  int (*destroy_comp_channel)(ibv_comp_channel* channel);
  ibv_cq* (*create_cq)(ibv_context* context, int entries, void* user, ibv_comp_channel* channel);
  int (*destroy_cq)(ibv_cq* cq);
  int (*get_cq_event)(ibv_comp_channel* channel, ibv_cq** cq, void** user);
  void (*ack_cq_events)(ibv_cq* cq, unsigned count);
  int (*req_notify_cq)(ibv_cq* cq);
  /// The number of completions taken, or a negative number.
  int (*poll_cq)(ibv_cq* cq, int capacity, ibv_wc* completions);

  ibv_qp* (*create_qp)(ibv_pd* pd, ibv_qp_init_attr* attr);
  int (*modify_qp)(ibv_qp* qp, ibv_qp_attr* attr, int mask);
  int (*query_qp)(ibv_qp* qp, ibv_qp_attr* attr, int mask, ibv_qp_init_attr* init);
  int (*destroy_qp)(ibv_qp* qp);
  int (*post_send)(ibv_qp* qp, ibv_send_wr* work, ibv_send_wr** bad);
  int (*post_recv)(ibv_qp* qp, ibv_recv_wr* work, ibv_recv_wr** bad);
  ibv_ah* (*create_ah)(ibv_pd* pd, ibv_ah_attr* attr);
  int (*destroy_ah)(ibv_ah* ah);
  int (*attach_mcast)(ibv_qp* qp, const ibv_gid* gid, std::uint16_t lid);
  int (*detach_mcast)(ibv_qp* qp, const ibv_gid* gid, std::uint16_t lid);
  int (*get_async_event)(ibv_context* context, ibv_async_event* event);
  void (*ack_async_event)(ibv_async_event* event);
};

/// The table that calls libibverbs.
[[nodiscard]] const Ops& system_ops() noexcept;

}  // namespace wireup::verbs
