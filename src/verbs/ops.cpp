// SPDX-License-Identifier: BSD-3-Clause
#include "verbs/ops.hpp"

#include <cerrno>

namespace wireup::verbs {
namespace {

// Some calls of libibverbs return -1 with errno, others the errno value; some are macros or inline
// functions. These give all of them the table's convention.

int errno_of(int result) noexcept {
  return result == 0 ? 0 : (errno != 0 ? errno : EIO);
}

int value_of(int result) noexcept {
  return result < 0 ? errno_of(result) : result;
}

int close_device(ibv_context* context) {
  return errno_of(ibv_close_device(context));
}

int query_device(ibv_context* context, ibv_device_attr* attr) {
  return value_of(ibv_query_device(context, attr));
}

int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attr) {
  return value_of(ibv_query_port(context, port, attr));
}

int query_gid(ibv_context* context, std::uint8_t port, int index, ibv_gid* gid) {
  return errno_of(ibv_query_gid(context, port, index, gid));
}

int query_pkey(ibv_context* context, std::uint8_t port, int index, std::uint16_t* pkey) {
  return errno_of(ibv_query_pkey(context, port, index, pkey));
}

ibv_mr* reg_mr(ibv_pd* pd, void* address, std::size_t size, int access) {
  return ibv_reg_mr(pd, address, size, static_cast<unsigned>(access));
}

ibv_cq* create_cq(ibv_context* context, int entries, void* user, ibv_comp_channel* channel) {
  return ibv_create_cq(context, entries, user, channel, 0);
}

int get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** user) {
  return errno_of(ibv_get_cq_event(channel, cq, user));
}

int req_notify_cq(ibv_cq* cq) {
  return value_of(ibv_req_notify_cq(cq, 0));
}

int poll_cq(ibv_cq* cq, int capacity, ibv_wc* completions) {
  return ibv_poll_cq(cq, capacity, completions);
}

int modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) {
  return value_of(ibv_modify_qp(qp, attr, mask));
}

int query_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask, ibv_qp_init_attr* init) {
  return value_of(ibv_query_qp(qp, attr, mask, init));
}

int post_send(ibv_qp* qp, ibv_send_wr* work, ibv_send_wr** bad) {
  return value_of(ibv_post_send(qp, work, bad));
}

int post_recv(ibv_qp* qp, ibv_recv_wr* work, ibv_recv_wr** bad) {
  return value_of(ibv_post_recv(qp, work, bad));
}

int get_async_event(ibv_context* context, ibv_async_event* event) {
  return errno_of(ibv_get_async_event(context, event));
}

constexpr Ops kSystemOps{
    .get_device_list = ibv_get_device_list,
    .free_device_list = ibv_free_device_list,
    .get_device_name = ibv_get_device_name,
    .open_device = ibv_open_device,
    .close_device = close_device,
    .query_device = query_device,
    .query_port = query_port,
    .query_gid = query_gid,
    .query_pkey = query_pkey,
    .alloc_pd = ibv_alloc_pd,
    .dealloc_pd = ibv_dealloc_pd,
    .reg_mr = reg_mr,
    .dereg_mr = ibv_dereg_mr,
    .create_comp_channel = ibv_create_comp_channel,
    .destroy_comp_channel = ibv_destroy_comp_channel,
    .create_cq = create_cq,
    .destroy_cq = ibv_destroy_cq,
    .get_cq_event = get_cq_event,
    .ack_cq_events = ibv_ack_cq_events,
    .req_notify_cq = req_notify_cq,
    .poll_cq = poll_cq,
    .create_qp = ibv_create_qp,
    .modify_qp = modify_qp,
    .query_qp = query_qp,
    .destroy_qp = ibv_destroy_qp,
    .post_send = post_send,
    .post_recv = post_recv,
    .create_ah = ibv_create_ah,
    .destroy_ah = ibv_destroy_ah,
    .attach_mcast = ibv_attach_mcast,
    .detach_mcast = ibv_detach_mcast,
    .get_async_event = get_async_event,
    .ack_async_event = ibv_ack_async_event,
};

}  // namespace

const Ops& system_ops() noexcept {
  return kSystemOps;
}

}  // namespace wireup::verbs
