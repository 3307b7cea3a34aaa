// SPDX-License-Identifier: BSD-3-Clause
// UD sends: the request becomes a datagram, the rest is the wire's.
#include "softhca/hca/datagram.hpp"
#include "softhca/hca/local_memory.hpp"
#include "softhca/hca/runtime.hpp"
#include "softhca/hca/transport.hpp"

namespace softhca::hca {
namespace {

/// By IBTA vol 1, 10.2.5 a request whose Q_Key has the top bit set is sent with the QP's own one.
constexpr std::uint32_t kUseOwnQkey = 0x80000000;

Gid to_gid(const ibv_gid& gid) {
  Gid bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = gid.raw[i];
  }
  return bytes;
}

}  // namespace

Outcome execute_datagram(const Sender& sender, const SendRequest& request) {
  Runtime& rt = sender.runtime;
  const AddressVector& av = *request.av;
  if (av.pd != sender.record.pd || av.attr.port_num != sender.record.path.port_num) {
    return Outcome::done(IBV_WC_LOC_QP_OP_ERR);
  }
  const auto local = local_list(sender, request, 0);
  if (!local) {
    return Outcome::done(IBV_WC_LOC_PROT_ERR);
  }
  const PortAttr& port = rt.ports().port(sender.record.path.port_index);
  const std::uint64_t mtu = 128U << (port.active_mtu & 7U);
  if (local->total() > mtu || local->total() > kMaxDatagram) {
    return Outcome::done(IBV_WC_LOC_LEN_ERR);
  }
  const auto length = static_cast<std::uint32_t>(local->total());
  if (!port.active() || sender.attr.pkey_index >= port.pkey_count) {
    rt.count(sender.record.path.port_index, Counter::UdSent);
    rt.count(sender.record.path.port_index, Counter::UdDroppedNoRoute);
    return Outcome::done(IBV_WC_SUCCESS, length);
  }
  Datagram datagram;
  datagram.from = sender.record.path.port_index;
  datagram.src_qpn = sender.record.qpn;
  datagram.src_slot = sender.slot;
  datagram.src_generation = sender.record.generation.load(std::memory_order_relaxed);
  datagram.dest_qpn = request.remote_qpn;
  datagram.qkey = (request.remote_qkey & kUseOwnQkey) != 0 ? sender.attr.qkey : request.remote_qkey;
  datagram.imm_data = request.imm_data;
  datagram.has_imm = request.opcode == IBV_WR_SEND_WITH_IMM;
  datagram.length = length;
  datagram.slid =
      static_cast<std::uint16_t>(port.lid + (av.attr.src_path_bits & ((1U << port.lmc) - 1)));
  datagram.dlid = av.attr.dlid;
  datagram.pkey = port.pkeys[sender.attr.pkey_index % kMaxPkeys];
  datagram.sl = av.attr.sl;
  datagram.solicited = (request.flags & IBV_SEND_SOLICITED) != 0;
  datagram.has_grh = av.attr.is_global != 0;
  if (datagram.has_grh) {
    const Gid sgid = av.attr.grh.sgid_index < port.gid_count
                         ? port.gids[av.attr.grh.sgid_index % kMaxGids]
                         : Gid{};
    write_grh(datagram.grh, sgid, to_gid(av.attr.grh.dgid), av.attr.grh.traffic_class,
              av.attr.grh.flow_label, av.attr.grh.hop_limit, length + (datagram.has_imm ? 4 : 0));
  }
  std::size_t at = 0;
  for (const Segment& segment : local->segments()) {
    copy_bytes(datagram.payload.data() + at, reinterpret_cast<const void*>(segment.address),
               segment.length);
    at += segment.length;
  }
  rt.ud_wire().send(datagram, av.route);
  return Outcome::done(IBV_WC_SUCCESS, length);
}

}  // namespace softhca::hca
