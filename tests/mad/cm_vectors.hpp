// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "mad/cm.hpp"

/// Each message twice: as a value, and as bytes written out by their offset in the 256-byte MAD
/// from the tables of IBTA vol 1, 12.6 (table offset + 24). No code of the codecs is used.
namespace wireup::mad {

class VectorBuilder {
 public:
  VectorBuilder(std::uint8_t attribute_low, std::uint8_t tid_fill) {
    put(0, {0x01, 0x07, 0x02, 0x03});  // base version, class, class version, method Send
    for (std::size_t i = 8; i < 16; ++i) {
      mad_[i] = tid_fill;
    }
    put(16, {0x00, attribute_low});
  }
  VectorBuilder& put(std::size_t at, std::initializer_list<std::uint8_t> bytes) {
    std::copy(bytes.begin(), bytes.end(), mad_.begin() + static_cast<std::ptrdiff_t>(at));
    return *this;
  }
  /// `count` bytes: first, first + 1, ...
  VectorBuilder& count_up(std::size_t at, std::size_t count, std::uint8_t first) {
    for (std::size_t i = 0; i < count; ++i) {
      mad_[at + i] = static_cast<std::uint8_t>(first + i);
    }
    return *this;
  }
  [[nodiscard]] const Mad& mad() const { return mad_; }

 private:
  Mad mad_{};
};

inline Tid filled_tid(std::uint8_t byte) {
  return Tid(std::uint64_t{byte} * 0x0101010101010101ULL);
}

template <std::size_t N>
std::array<std::uint8_t, N> counting(std::uint8_t first) {
  std::array<std::uint8_t, N> bytes{};
  for (std::size_t i = 0; i < N; ++i) {
    bytes[i] = static_cast<std::uint8_t>(first + i);
  }
  return bytes;
}

inline Gid counting_gid(std::uint8_t first) {
  return Gid(counting<16>(first));
}

inline Mad req_bytes() {
  VectorBuilder v(0x10, 0xA1);
  v.put(20, {0xEC, 0xE0, 0x00, 0x01});                          // attribute modifier: ECE options
  v.put(24, {0x11, 0x22, 0x33, 0x44});                          // local comm id
  v.put(28, {0x00, 0x02, 0xC9, 0x55});                          // reserved, ECE vendor
  v.put(32, {0x10, 0x00, 0x0C, 0xE1, 0x00, 0x10, 0x60, 0x07});  // service id
  v.put(40, {0x00, 0x02, 0xC9, 0x03, 0x00, 0x0A, 0x0B, 0x0C});  // local CA GUID
  v.put(52, {0x80, 0x01, 0x02, 0x03});                          // local Q_Key
  v.put(56, {0xAB, 0xCD, 0xEF, 0x10});                          // local QPN, responder resources
  v.put(60, {0x01, 0x02, 0x03, 0x08});                          // local EECN, initiator depth
  v.put(64, {0x04, 0x05, 0x06, 0xA7});  // remote EECN, timeout 20, extended transport, flow control
  v.put(68, {0x7F, 0xFF, 0xFE, 0x97});  // starting PSN, timeout 18, retry count 7
  v.put(72, {0x80, 0x01});              // P_Key
  v.put(74, {0x4E});                    // MTU 4, RDC exists, RNR retry count 6
  v.put(75, {0xF9});                    // max CM retries 15, SRQ, extended transport 1
  // Primary path.
  v.put(76, {0x00, 0x05, 0xC0, 0x01});  // LIDs
  v.count_up(80, 16, 0x20).count_up(96, 16, 0x40);
  v.put(112, {0x12, 0x34, 0x50, 0x10});  // flow label 0x12345, reserved, rate 16
  v.put(116, {0x5A, 0x40});              // traffic class, hop limit
  v.put(118, {0x98, 0x98});              // SL 9, subnet local; ACK timeout 19
  // Alternate path.
  v.put(120, {0x00, 0x06, 0x00, 0x07});
  v.count_up(124, 16, 0x60).count_up(140, 16, 0x80);
  v.put(156, {0xFF, 0xFF, 0xF0, 0x3F});  // flow label 0xFFFFF, rate 63
  v.put(160, {0x01, 0x02});
  v.put(162, {0xF0, 0xFC});  // SL 15, not subnet local; ACK timeout 31, SAP
  v.count_up(164, 92, 0x03);
  return v.mad();
}

inline Req req_value() {
  Req req;
  req.tid = filled_tid(0xA1);
  req.ece_options = 0xECE00001;
  req.local_comm_id = CommId(0x11223344);
  req.ece_vendor = EceVendor(0x02C955);
  req.service_id = ServiceId(0x10000CE100106007ULL);
  req.local_ca_guid = Guid(0x0002C903000A0B0CULL);
  req.local_qkey = QKey(0x80010203);
  req.local_qpn = Qpn(0xABCDEF);
  req.responder_resources = 16;
  req.local_eecn = Eecn(0x010203);
  req.initiator_depth = 8;
  req.remote_eecn = Eecn(0x040506);
  req.remote_cm_response_timeout = IbTimeout(20);
  req.transport_service = TransportService::Extended;
  req.end_to_end_flow_control = true;
  req.starting_psn = Psn(0x7FFFFE);
  req.local_cm_response_timeout = IbTimeout(18);
  req.retry_count = RetryCount(7);
  req.pkey = PKey(0x8001);
  req.path_mtu = CmMtu(4);
  req.rdc_exists = true;
  req.rnr_retry_count = RnrRetryCount(6);
  req.max_cm_retries = CmRetryCount(15);
  req.srq = true;
  req.extended_transport = ExtendedTransport(1);
  req.primary = {Lid(5),
                 Lid(0xC001),
                 counting_gid(0x20),
                 counting_gid(0x40),
                 FlowLabel(0x12345),
                 CmRate(16),
                 0x5A,
                 0x40,
                 Sl(9),
                 true,
                 IbTimeout(19)};
  req.alternate = ReqPath{
      Lid(6), Lid(7), counting_gid(0x60), counting_gid(0x80), FlowLabel(0xFFFFF), CmRate(63), 1, 2,
      Sl(15), false,  IbTimeout(31)};
  req.sap_supported = true;
  req.private_data = counting<92>(0x03);
  return req;
}

inline Mad mra_bytes() {
  VectorBuilder v(0x11, 0xA2);
  v.put(24, {0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08});
  v.put(32, {0x40, 0xC0});  // MRA of REP; service timeout 24
  v.count_up(34, 222, 0x11);
  return v.mad();
}

inline Mra mra_value() {
  return {filled_tid(0xA2), CommId(0x01020304), CommId(0x05060708),
          MraOf::Rep,       IbTimeout(24),      counting<222>(0x11)};
}

inline Mad rej_bytes() {
  VectorBuilder v(0x12, 0xA3);
  v.put(24, {0xFF, 0xFF, 0xFF, 0xFF, 0x80, 0x00, 0x00, 0x01});
  v.put(32, {0x80, 0x10, 0x00, 0x04});  // other message; ARI of 8 bytes; reason 4
  v.put(36, {0x00, 0x02, 0xC9, 0x03, 0x00, 0x0A, 0x0B, 0x0C});
  v.count_up(108, 148, 0x21);
  return v.mad();
}

inline Rej rej_value() {
  const std::array<std::uint8_t, 8> guid = {0x00, 0x02, 0xC9, 0x03, 0x00, 0x0A, 0x0B, 0x0C};
  Rej rej;
  rej.tid = filled_tid(0xA3);
  rej.local_comm_id = CommId(0xFFFFFFFF);
  rej.remote_comm_id = CommId(0x80000001);
  rej.message = RejOf::Other;
  rej.reason = 4;
  rej.ari = *BoundedBytes<72>::make(guid);
  rej.private_data = counting<148>(0x21);
  return rej;
}

inline Mad rep_bytes() {
  VectorBuilder v(0x13, 0xA4);
  v.put(20, {0x00, 0x00, 0x00, 0x02});
  v.put(24, {0x0A, 0x0B, 0x0C, 0x0D, 0x11, 0x22, 0x33, 0x44});
  v.put(32, {0x00, 0x00, 0x0B, 0x1B});  // Q_Key
  v.put(36, {0x00, 0x01, 0x02, 0x02});  // QPN, ECE vendor high
  v.put(40, {0x00, 0x00, 0x09, 0xC9});  // EECN, ECE vendor middle
  v.put(44, {0x65, 0x43, 0x21, 0x55});  // starting PSN, ECE vendor low
  v.put(48, {0x04, 0x10});              // responder resources, initiator depth
  v.put(50, {0x83});                    // ACK delay 16, failover not supported, flow control
  v.put(51, {0x50});                    // RNR retry count 2, SRQ
  v.put(52, {0x00, 0x02, 0xC9, 0x03, 0x00, 0x00, 0x00, 0x99});
  v.count_up(60, 196, 0x31);
  return v.mad();
}

inline Rep rep_value() {
  Rep rep;
  rep.tid = filled_tid(0xA4);
  rep.ece_options = 2;
  rep.local_comm_id = CommId(0x0A0B0C0D);
  rep.remote_comm_id = CommId(0x11223344);
  rep.local_qkey = QKey(0x0B1B);
  rep.local_qpn = Qpn(0x000102);
  rep.ece_vendor = EceVendor(0x02C955);
  rep.local_eecn = Eecn(9);
  rep.starting_psn = Psn(0x654321);
  rep.responder_resources = 4;
  rep.initiator_depth = 16;
  rep.target_ack_delay = IbTimeout(16);
  rep.failover = Failover::NotSupported;
  rep.end_to_end_flow_control = true;
  rep.rnr_retry_count = RnrRetryCount(2);
  rep.srq = true;
  rep.local_ca_guid = Guid(0x0002C90300000099ULL);
  rep.private_data = counting<196>(0x31);
  return rep;
}

inline Mad rtu_bytes() {
  VectorBuilder v(0x14, 0xA5);
  v.put(24, {0x11, 0x22, 0x33, 0x44, 0x0A, 0x0B, 0x0C, 0x0D});
  v.count_up(32, 224, 0x41);
  return v.mad();
}

inline Rtu rtu_value() {
  return {filled_tid(0xA5), CommId(0x11223344), CommId(0x0A0B0C0D), counting<224>(0x41)};
}

inline Mad dreq_bytes() {
  VectorBuilder v(0x15, 0xA6);
  v.put(24, {0x11, 0x22, 0x33, 0x44, 0x0A, 0x0B, 0x0C, 0x0D});
  v.put(32, {0xFE, 0xDC, 0xBA, 0x00});  // remote QPN
  v.count_up(36, 220, 0x51);
  return v.mad();
}

inline Dreq dreq_value() {
  return {filled_tid(0xA6), CommId(0x11223344), CommId(0x0A0B0C0D), Qpn(0xFEDCBA),
          counting<220>(0x51)};
}

inline Mad drep_bytes() {
  VectorBuilder v(0x16, 0xA7);
  v.put(24, {0x0A, 0x0B, 0x0C, 0x0D, 0x11, 0x22, 0x33, 0x44});
  v.count_up(32, 224, 0x61);
  return v.mad();
}

inline Drep drep_value() {
  return {filled_tid(0xA7), CommId(0x0A0B0C0D), CommId(0x11223344), counting<224>(0x61)};
}

inline Mad sidr_req_bytes() {
  VectorBuilder v(0x17, 0xA8);
  v.put(24, {0xCA, 0xFE, 0x00, 0x01});                          // request id
  v.put(28, {0x80, 0x01, 0x00, 0x00});                          // P_Key, reserved
  v.put(32, {0x00, 0x00, 0x00, 0x00, 0x01, 0x06, 0x1F, 0x40});  // service id
  v.count_up(40, 216, 0x71);
  return v.mad();
}

inline SidrReq sidr_req_value() {
  return {filled_tid(0xA8), CommId(0xCAFE0001), PKey(0x8001), ServiceId(0x0000000001061F40ULL),
          counting<216>(0x71)};
}

inline Mad sidr_rep_bytes() {
  VectorBuilder v(0x18, 0xA9);
  v.put(20, {0x00, 0x00, 0x00, 0x07});                          // ECE options
  v.put(24, {0xCA, 0xFE, 0x00, 0x01});                          // request id
  v.put(28, {0x04, 0x03, 0x00, 0x02});                          // status 4, 3 bytes, ECE vendor
  v.put(32, {0x00, 0x12, 0x34, 0xC9});                          // QPN, ECE vendor low
  v.put(36, {0x00, 0x00, 0x00, 0x00, 0x01, 0x06, 0x1F, 0x40});  // service id
  v.put(44, {0x80, 0x01, 0x00, 0x00});                          // Q_Key
  v.put(48, {0x01, 0x02, 0x03});                                // information
  v.count_up(120, 136, 0x81);
  return v.mad();
}

inline SidrRep sidr_rep_value() {
  const std::array<std::uint8_t, 3> info = {1, 2, 3};
  SidrRep rep;
  rep.tid = filled_tid(0xA9);
  rep.request_id = CommId(0xCAFE0001);
  rep.status = 4;
  rep.info = *BoundedBytes<72>::make(info);
  rep.ece_vendor = EceVendor(0x0002C9);
  rep.ece_options = 7;
  rep.qpn = Qpn(0x001234);
  rep.service_id = ServiceId(0x0000000001061F40ULL);
  rep.qkey = QKey(0x80010000);
  rep.private_data = counting<136>(0x81);
  return rep;
}

inline Mad lap_bytes() {
  VectorBuilder v(0x19, 0xAA);
  v.put(24, {0x11, 0x22, 0x33, 0x44, 0x0A, 0x0B, 0x0C, 0x0D});
  v.put(36, {0x12, 0x34, 0x56, 0x88});  // remote QPN, timeout 17
  v.put(44, {0x00, 0x08, 0x00, 0x09});  // LIDs
  v.count_up(48, 16, 0x11).count_up(64, 16, 0x31);
  v.put(80, {0xAB, 0xCD, 0xE0});  // flow label 0xABCDE
  v.put(83, {0x44, 0x3F, 0x07});  // traffic class, hop limit, rate 7
  v.put(86, {0x58, 0x70});        // SL 5, subnet local; ACK timeout 14
  v.count_up(88, 168, 0x91);
  return v.mad();
}

inline Lap lap_value() {
  Lap lap;
  lap.tid = filled_tid(0xAA);
  lap.local_comm_id = CommId(0x11223344);
  lap.remote_comm_id = CommId(0x0A0B0C0D);
  lap.remote_qpn = Qpn(0x123456);
  lap.remote_cm_response_timeout = IbTimeout(17);
  lap.alternate = {Lid(8),
                   Lid(9),
                   counting_gid(0x11),
                   counting_gid(0x31),
                   FlowLabel(0xABCDE),
                   CmRate(7),
                   0x44,
                   0x3F,
                   Sl(5),
                   true,
                   IbTimeout(14)};
  lap.private_data = counting<168>(0x91);
  return lap;
}

inline Mad apr_bytes() {
  VectorBuilder v(0x1A, 0xAB);
  v.put(24, {0x0A, 0x0B, 0x0C, 0x0D, 0x11, 0x22, 0x33, 0x44});
  v.put(32, {0x02, 0x07});  // 2 bytes, status 7
  v.put(36, {0x00, 0x2A});  // an acceptable LID
  v.count_up(108, 148, 0xA1);
  return v.mad();
}

inline Apr apr_value() {
  const std::array<std::uint8_t, 2> lid = {0x00, 0x2A};
  Apr apr;
  apr.tid = filled_tid(0xAB);
  apr.local_comm_id = CommId(0x0A0B0C0D);
  apr.remote_comm_id = CommId(0x11223344);
  apr.status = 7;
  apr.info = *BoundedBytes<72>::make(lid);
  apr.private_data = counting<148>(0xA1);
  return apr;
}

}  // namespace wireup::mad
