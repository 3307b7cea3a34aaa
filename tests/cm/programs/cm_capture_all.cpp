// SPDX-License-Identifier: BSD-3-Clause
// Writes a capture of every CM message, and on standard output what a decoder should say of it:
//
//   cm_capture_all FILE
//
// A line is "FRAME FIELD VALUE": the number of the packet, tshark's name of a field, and a number
// in decimal or, of fields that are bytes, "0x" and the bytes.
#include <cinttypes>
#include <cstdio>
#include <span>
#include <string>

#include "cm/driver/capture.hpp"
#include "mad/cm_vectors.hpp"

namespace {

using namespace wireup;

unsigned frame = 0;

void number(const char* field, std::uint64_t value) {
  std::printf("%u %s %" PRIu64 "\n", frame, field, value);
}
void bytes(const char* field, std::span<const std::uint8_t> value) {
  std::printf("%u %s 0x", frame, field);
  for (const std::uint8_t byte : value) {
    std::printf("%02x", byte);
  }
  std::printf("\n");
}

void path(const std::string& prefix, const mad::ReqPath& path) {
  const auto field = [&prefix](const char* name) {
    return "infiniband.cm.req." + prefix + '_' + name;
  };
  number(field("locallid").c_str(), path.local_lid.value());
  number(field("remotelid").c_str(), path.remote_lid.value());
  bytes(field("localgid").c_str(), path.local_gid.bytes());
  bytes(field("remotegid").c_str(), path.remote_gid.bytes());
  number(field("flowlabel").c_str(), path.flow_label.value());
  number(field("pktrate").c_str(), path.packet_rate.value());
  number(field("tfcclass").c_str(), path.traffic_class);
  number(field("hoplim").c_str(), path.hop_limit);
  number(field("sl").c_str(), path.sl.value());
  number(field("subnetlocal").c_str(), path.subnet_local ? 1 : 0);
  number(field("localacktout").c_str(), path.local_ack_timeout.exponent());
}

void expect(const mad::Req& req) {
  number("infiniband.cm.req", req.local_comm_id.value());
  number("infiniband.cm.req.serviceid", req.service_id.value());
  number("infiniband.cm.req.localcaguid", req.local_ca_guid.value());
  number("infiniband.cm.req.localqkey", req.local_qkey.value());
  number("infiniband.cm.req.localqpn", req.local_qpn.value());
  number("infiniband.cm.req.responderres", req.responder_resources);
  number("infiniband.cm.req.localeecn", req.local_eecn.value());
  number("infiniband.cm.req.initdepth", req.initiator_depth);
  number("infiniband.cm.req.remoteeecn", req.remote_eecn.value());
  number("infiniband.cm.req.remoteresptout", req.remote_cm_response_timeout.exponent());
  number("infiniband.cm.req.transpsvctype", static_cast<unsigned>(req.transport_service));
  number("infiniband.cm.req.e2eflowctrl", req.end_to_end_flow_control ? 1 : 0);
  number("infiniband.cm.req.startpsn", req.starting_psn.value());
  number("infiniband.cm.req.localresptout", req.local_cm_response_timeout.exponent());
  number("infiniband.cm.req.retrcount", req.retry_count.value());
  number("infiniband.cm.req.pkey", req.pkey.value());
  number("infiniband.cm.req.pppmtu", req.path_mtu.value());
  number("infiniband.cm.req.rdcexist", req.rdc_exists ? 1 : 0);
  number("infiniband.cm.req.rnrretrcount", req.rnr_retry_count.value());
  number("infiniband.cm.req.maxcmretr", req.max_cm_retries.value());
  number("infiniband.cm.req.srq", req.srq ? 1 : 0);
  number("infiniband.cm.req.ext_transport", req.extended_transport.value());
  path("prim", req.primary);
  path("alt", *req.alternate);
  bytes("infiniband.cm.req.private", req.private_data);
}

void expect(const mad::Rep& rep) {
  number("infiniband.cm.rep", rep.local_comm_id.value());
  number("infiniband.cm.rep.remotecommid", rep.remote_comm_id.value());
  number("infiniband.cm.rep.localqkey", rep.local_qkey.value());
  number("infiniband.cm.rep.localqpn", rep.local_qpn.value());
  number("infiniband.cm.rep.localeecn", rep.local_eecn.value());
  number("infiniband.cm.rep.startpsn", rep.starting_psn.value());
  number("infiniband.cm.rep.respres", rep.responder_resources);
  number("infiniband.cm.rep.initdepth", rep.initiator_depth);
  number("infiniband.cm.rep.tgtackdelay", rep.target_ack_delay.exponent());
  number("infiniband.cm.rep.failoveracc", static_cast<unsigned>(rep.failover));
  number("infiniband.cm.rep.e2eflowctrl", rep.end_to_end_flow_control ? 1 : 0);
  number("infiniband.cm.rep.rnrretrcount", rep.rnr_retry_count.value());
  number("infiniband.cm.rep.srq", rep.srq ? 1 : 0);
  number("infiniband.cm.rep.localcaguid", rep.local_ca_guid.value());
  bytes("infiniband.cm.rep.private", rep.private_data);
}

void expect(const mad::Rej& rej) {
  number("infiniband.cm.rej.localcommid", rej.local_comm_id.value());
  number("infiniband.cm.rej.remotecommid", rej.remote_comm_id.value());
  number("infiniband.cm.rej.msgrej", static_cast<unsigned>(rej.message));
  number("infiniband.cm.rej.rejinfolen", rej.ari.size());
  number("infiniband.cm.rej.reason", rej.reason);
  std::array<std::uint8_t, mad::Rej::kAriSize> ari{};
  std::copy(rej.ari.span().begin(), rej.ari.span().end(), ari.begin());
  bytes("infiniband.cm.rej.ari", ari);
  bytes("infiniband.cm.rej.private", rej.private_data);
}

void expect(const mad::Rtu& rtu) {
  number("infiniband.cm.rtu.localcommid", rtu.local_comm_id.value());
  number("infiniband.cm.rtu.remotecommid", rtu.remote_comm_id.value());
  bytes("infiniband.cm.rtu.private", rtu.private_data);
}

void expect(const mad::Dreq& dreq) {
  number("infiniband.cm.dreq.localcommid", dreq.local_comm_id.value());
  number("infiniband.cm.dreq.remotecommid", dreq.remote_comm_id.value());
  number("infiniband.cm.req.remoteqpneecn", dreq.remote_qpn.value());  // tshark's name for it
  bytes("infiniband.cm.dreq.private", dreq.private_data);
}

void expect(const mad::Drep& drep) {
  number("infiniband.cm.drsp.localcommid", drep.local_comm_id.value());
  number("infiniband.cm.drsp.remotecommid", drep.remote_comm_id.value());
  bytes("infiniband.cm.drsp.private", drep.private_data);
}

/// Of the others tshark knows the name alone.
template <typename Message>
void expect(const Message&) {}

constexpr std::uint32_t kQpn = 0x48;
constexpr std::uint32_t kPeersQpn = 0x51;

/// The frames are sent and received in turn, and every third has a GRH.
template <typename Message>
void add(cm::Capture& capture, const cm::CaptureEnd& end, const Message& message) {
  ++frame;
  const bool is_sent = frame % 2 == 1;
  const bool has_grh = frame % 3 == 0;
  cm::Transmit transmit;
  transmit.kind = Message::kKind;
  transmit.bytes = mad::serialize(message);
  transmit.is_retransmit = frame == 5;
  cm::Address& peer = transmit.to;
  peer.dlid = Lid(0x0207);
  peer.qpn = Qpn(kPeersQpn);
  peer.sl = Sl(5);
  peer.path_bits = 1;
  peer.has_grh = has_grh;
  peer.dgid = mad::counting_gid(0xC0);
  peer.flow_label = FlowLabel(0x12345);
  peer.traffic_class = 0x6B;
  peer.hop_limit = 0x3D;
  if (is_sent) {
    capture.sent(transmit);
  } else {
    capture.received(peer, transmit.bytes);
  }

  const unsigned mine = end.lid.value() | peer.path_bits;
  number("infiniband.lrh.slid", is_sent ? mine : peer.dlid.value());
  number("infiniband.lrh.dlid", is_sent ? peer.dlid.value() : mine);
  number("infiniband.lrh.sl", peer.sl.value());
  number("infiniband.lrh.lnh", has_grh ? 3 : 2);
  if (has_grh) {
    bytes("infiniband.grh.sgid", is_sent ? end.gid.bytes() : peer.dgid.bytes());
    bytes("infiniband.grh.dgid", is_sent ? peer.dgid.bytes() : end.gid.bytes());
    number("infiniband.grh.tclass", peer.traffic_class);
    number("infiniband.grh.flowlabel", peer.flow_label.value());
    number("infiniband.grh.hoplmt", peer.hop_limit);
    number("infiniband.grh.nxthdr", 0x1B);
  }
  number("infiniband.bth.opcode", 100);
  number("infiniband.bth.p_key", end.pkey.value());
  number("infiniband.bth.destqp", 1);
  number("infiniband.deth.srcqp", 1);
  number("infiniband.deth.q_key", end.qkey.value());
  number("infiniband.mad.mgmtclass", 7);
  number("infiniband.mad.method", 3);
  number("infiniband.mad.transactionid", message.tid.value());
  number("infiniband.mad.attributeid", static_cast<unsigned>(Message::kKind));
  number("frame.packet_flags_direction", is_sent ? 2 : 1);
  std::printf("%u name %s\n", frame, std::string(mad::cm_kind_name(Message::kKind)).c_str());
  std::printf("%u comment QP 0x%06x to QP 0x%06x%s\n", frame, is_sent ? kQpn : kPeersQpn,
              is_sent ? kPeersQpn : kQpn, transmit.is_retransmit && is_sent ? ", sent again" : "");
  expect(message);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: cm_capture_all FILE\n");
    return 2;
  }
  cm::CaptureEnd end;
  end.port = "softhca0:1";
  end.lid = Lid(0x0104);
  end.gid = mad::counting_gid(0x20);
  end.pkey = PKey(0x8123);
  end.qpn = Qpn(kQpn);
  end.qkey = QKey(0x0B1B0B1B);
  auto capture = cm::Capture::open(argv[1], end);
  if (!capture) {
    std::fprintf(stderr, "%s\n", std::string(capture.error().what()).c_str());
    return 1;
  }
  add(*capture, end, mad::req_value());
  add(*capture, end, mad::mra_value());
  add(*capture, end, mad::rej_value());
  add(*capture, end, mad::rep_value());
  add(*capture, end, mad::rtu_value());
  add(*capture, end, mad::dreq_value());
  add(*capture, end, mad::drep_value());
  add(*capture, end, mad::sidr_req_value());
  add(*capture, end, mad::sidr_rep_value());
  add(*capture, end, mad::lap_value());
  add(*capture, end, mad::apr_value());
  return capture->fault().has_value() ? 1 : 0;
}
