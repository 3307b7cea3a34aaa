// SPDX-License-Identifier: BSD-3-Clause
#include "verbs/rc_qp.hpp"

#include "verbs/gid.hpp"

namespace wireup::verbs {

Result<Qp> open_rc_qp(const Pd& pd, const RcQpOptions& options, ibv_cq* send_cq,
                      ibv_cq* receive_cq) {
  ibv_qp_init_attr attr{};
  attr.qp_type = IBV_QPT_RC;
  attr.sq_sig_all = options.signal_all ? 1 : 0;
  attr.send_cq = send_cq;
  attr.recv_cq = receive_cq;
  attr.cap.max_send_wr = options.send_depth;
  attr.cap.max_recv_wr = options.receive_depth;
  attr.cap.max_send_sge = options.send_parts;
  attr.cap.max_recv_sge = options.receive_parts;
  attr.cap.max_inline_data = options.inline_size;
  return Qp::open(pd, attr);
}

Result<> to_init(const Qp& qp, std::uint8_t port, std::uint16_t pkey_index) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.pkey_index = pkey_index;
  attr.port_num = port;
  attr.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                         IBV_ACCESS_REMOTE_ATOMIC;
  return qp.modify(attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
                   "RESET to INIT (RC)");
}

Result<> to_rtr(const Qp& qp, const RcAttributes& attributes) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.ah_attr = ah_attributes(attributes.to, attributes.port);
  attr.path_mtu = static_cast<ibv_mtu>(attributes.path_mtu);
  attr.dest_qp_num = attributes.to.qpn.value();
  attr.rq_psn = attributes.receive_psn.value();
  attr.max_dest_rd_atomic = attributes.responder_resources;
  attr.min_rnr_timer = attributes.min_rnr_timer;
  return qp.modify(attr,
                   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
                   "INIT to RTR (RC)");
}

Result<> to_rts(const Qp& qp, const RcAttributes& attributes) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTS;
  attr.sq_psn = attributes.send_psn.value();
  attr.timeout = attributes.ack_timeout.exponent();
  attr.retry_cnt = attributes.retry_count;
  attr.rnr_retry = attributes.rnr_retry_count;
  attr.max_rd_atomic = attributes.initiator_depth;
  return qp.modify(attr,
                   IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                       IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC,
                   "RTR to RTS (RC)");
}

Result<> to_error(const Qp& qp) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  return qp.modify(attr, IBV_QP_STATE, "any state to ERROR");
}

Result<> to_reset(const Qp& qp) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RESET;
  return qp.modify(attr, IBV_QP_STATE, "any state to RESET");
}

ibv_ah_attr ah_attributes(const UdDestination& to, std::uint8_t port) noexcept {
  ibv_ah_attr attr{};
  attr.dlid = to.dlid.value();
  attr.sl = to.sl.value();
  attr.src_path_bits = to.path_bits;
  attr.static_rate = to.static_rate;
  attr.port_num = port;
  attr.is_global = to.global ? 1 : 0;
  if (to.global) {
    attr.grh.dgid = raw_gid(to.dgid);
    attr.grh.sgid_index = to.sgid_index;
    attr.grh.flow_label = to.flow_label.value();
    attr.grh.hop_limit = to.hop_limit;
    attr.grh.traffic_class = to.traffic_class;
  }
  return attr;
}

}  // namespace wireup::verbs
