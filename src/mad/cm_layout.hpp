// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "mad/cm.hpp"
#include "mad/cm_io.hpp"

/// Layouts of the CM messages (IBTA vol 1, 12.6), offsets from the start of the 232 bytes behind
/// the MAD header. `io` is one of cm_io.hpp's. For the codecs of src/mad only.
namespace wireup::mad {

template <std::size_t kByte, typename Io, typename G>
constexpr void gid_layout(Io& io, G& gid) noexcept {
  Gid::Bytes bytes = gid.bytes();
  io.template bytes<kByte>(bytes);
  if constexpr (Io::kReads) {
    gid = Gid(bytes);
  }
}

/// 12.6.5, the 44 bytes of a path but for the last three bits.
template <std::size_t kAt, typename Io, typename P>
constexpr void path_layout(Io& io, P& path) noexcept {
  io.template field<Field{kAt, 0, 16}>(path.local_lid);
  io.template field<Field{kAt + 2, 0, 16}>(path.remote_lid);
  gid_layout<kAt + 4>(io, path.local_gid);
  gid_layout<kAt + 20>(io, path.remote_gid);
  io.template field<Field{kAt + 36, 0, 20}>(path.flow_label);
  io.template reserved<Field{kAt + 38, 4, 6}>();
  io.template field<Field{kAt + 39, 2, 6}>(path.packet_rate);
  io.template field<Field{kAt + 40, 0, 8}>(path.traffic_class);
  io.template field<Field{kAt + 41, 0, 8}>(path.hop_limit);
  io.template field<Field{kAt + 42, 0, 4}>(path.sl);
  io.template field<Field{kAt + 42, 4, 1}>(path.subnet_local);
  io.template reserved<Field{kAt + 42, 5, 3}>();
  io.template field<Field{kAt + 43, 0, 5}>(path.local_ack_timeout);
}

template <typename Io, typename M>
requires std::is_same_v<std::remove_const_t<M>, Req>
constexpr void layout(Io& io, M& m) noexcept {
  io.template field<Field{0, 0, 32}>(m.local_comm_id);
  io.template reserved<Field{4, 0, 8}>();
  io.template field<Field{5, 0, 24}>(m.ece_vendor);
  io.template field<Field{8, 0, 64}>(m.service_id);
  io.template field<Field{16, 0, 64}>(m.local_ca_guid);
  io.template reserved<Field{24, 0, 32}>();
  io.template field<Field{28, 0, 32}>(m.local_qkey);
  io.template field<Field{32, 0, 24}>(m.local_qpn);
  io.template field<Field{35, 0, 8}>(m.responder_resources);
  io.template field<Field{36, 0, 24}>(m.local_eecn);
  io.template field<Field{39, 0, 8}>(m.initiator_depth);
  io.template field<Field{40, 0, 24}>(m.remote_eecn);
  io.template field<Field{43, 0, 5}>(m.remote_cm_response_timeout);
  io.template field<Field{43, 5, 2}>(m.transport_service);
  io.template field<Field{43, 7, 1}>(m.end_to_end_flow_control);
  io.template field<Field{44, 0, 24}>(m.starting_psn);
  io.template field<Field{47, 0, 5}>(m.local_cm_response_timeout);
  io.template field<Field{47, 5, 3}>(m.retry_count);
  io.template field<Field{48, 0, 16}>(m.pkey);
  io.template field<Field{50, 0, 4}>(m.path_mtu);
  io.template field<Field{50, 4, 1}>(m.rdc_exists);
  io.template field<Field{50, 5, 3}>(m.rnr_retry_count);
  io.template field<Field{51, 0, 4}>(m.max_cm_retries);
  io.template field<Field{51, 4, 1}>(m.srq);
  io.template field<Field{51, 5, 3}>(m.extended_transport);
  path_layout<52>(io, m.primary);
  io.template reserved<Field{95, 5, 3}>();
  ReqPath alternate = m.alternate.value_or(ReqPath{});
  path_layout<96>(io, alternate);
  if constexpr (Io::kReads) {
    m.alternate.reset();
    if (!alternate.local_lid.is_zero()) {
      m.alternate = alternate;
    }
  }
  io.template field<Field{139, 5, 1}>(m.sap_supported);
  io.template reserved<Field{139, 6, 2}>();
  io.template bytes<140>(m.private_data);
}

template <typename Io, typename M>
constexpr void comm_ids_layout(Io& io, M& m) noexcept {
  io.template field<Field{0, 0, 32}>(m.local_comm_id);
  io.template field<Field{4, 0, 32}>(m.remote_comm_id);
}

template <typename Io, typename M>
requires std::is_same_v<std::remove_const_t<M>, Mra>
constexpr void layout(Io& io, M& m) noexcept {
  comm_ids_layout(io, m);
  io.template field<Field{8, 0, 2}>(m.message);
  io.template reserved<Field{8, 2, 6}>();
  io.template field<Field{9, 0, 5}>(m.service_timeout);
  io.template reserved<Field{9, 5, 3}>();
  io.template bytes<10>(m.private_data);
}

/// REJ with its ARI as the wire has it: a length that may exceed the space.
struct WireRej {
  CommId local_comm_id;
  CommId remote_comm_id;
  RejOf message = RejOf::Req;
  Id<struct AriLengthTag, std::uint8_t, 7> ari_length;
  std::uint16_t reason = 0;
  std::array<std::uint8_t, Rej::kAriSize> ari{};
  std::array<std::uint8_t, Rej::kPrivateSize> private_data{};
};

template <typename Io, typename M>
requires std::is_same_v<std::remove_const_t<M>, WireRej>
constexpr void layout(Io& io, M& m) noexcept {
  comm_ids_layout(io, m);
  io.template field<Field{8, 0, 2}>(m.message);
  io.template reserved<Field{8, 2, 6}>();
  io.template field<Field{9, 0, 7}>(m.ari_length);
  io.template reserved<Field{9, 7, 1}>();
  io.template field<Field{10, 0, 16}>(m.reason);
  io.template bytes<12>(m.ari);
  io.template bytes<84>(m.private_data);
}

/// REP's ECE vendor is scattered over three bytes, most significant first.
template <typename Io, typename V>
constexpr void rep_vendor_layout(Io& io, V& vendor) noexcept {
  auto high = static_cast<std::uint8_t>(vendor.value() >> 16U);
  auto middle = static_cast<std::uint8_t>(vendor.value() >> 8U & 0xFFU);
  auto low = static_cast<std::uint8_t>(vendor.value() & 0xFFU);
  io.template field<Field{15, 0, 8}>(high);
  io.template field<Field{19, 0, 8}>(middle);
  io.template field<Field{23, 0, 8}>(low);
  if constexpr (Io::kReads) {
    vendor = EceVendor(std::uint32_t{high} << 16U | std::uint32_t{middle} << 8U | low);
  }
}

template <typename Io, typename M>
requires std::is_same_v<std::remove_const_t<M>, Rep>
constexpr void layout(Io& io, M& m) noexcept {
  comm_ids_layout(io, m);
  io.template field<Field{8, 0, 32}>(m.local_qkey);
  io.template field<Field{12, 0, 24}>(m.local_qpn);
  io.template field<Field{16, 0, 24}>(m.local_eecn);
  io.template field<Field{20, 0, 24}>(m.starting_psn);
  rep_vendor_layout(io, m.ece_vendor);
  io.template field<Field{24, 0, 8}>(m.responder_resources);
  io.template field<Field{25, 0, 8}>(m.initiator_depth);
  io.template field<Field{26, 0, 5}>(m.target_ack_delay);
  io.template field<Field{26, 5, 2}>(m.failover);
  io.template field<Field{26, 7, 1}>(m.end_to_end_flow_control);
  io.template field<Field{27, 0, 3}>(m.rnr_retry_count);
  io.template field<Field{27, 3, 1}>(m.srq);
  io.template reserved<Field{27, 4, 4}>();
  io.template field<Field{28, 0, 64}>(m.local_ca_guid);
  io.template bytes<36>(m.private_data);
}

/// RTU and DREP hold the same.
template <typename Io, typename M>
requires std::is_same_v<std::remove_const_t<M>, Rtu> || std::is_same_v<std::remove_const_t<M>, Drep>
constexpr void layout(Io& io, M& m) noexcept {
  comm_ids_layout(io, m);
  io.template bytes<8>(m.private_data);
}

template <typename Io, typename M>
requires std::is_same_v<std::remove_const_t<M>, Dreq>
constexpr void layout(Io& io, M& m) noexcept {
  comm_ids_layout(io, m);
  io.template field<Field{8, 0, 24}>(m.remote_qpn);
  io.template reserved<Field{11, 0, 8}>();
  io.template bytes<12>(m.private_data);
}

template <typename Io, typename M>
requires std::is_same_v<std::remove_const_t<M>, Lap>
constexpr void layout(Io& io, M& m) noexcept {
  comm_ids_layout(io, m);
  io.template reserved<Field{8, 0, 32}>();
  io.template field<Field{12, 0, 24}>(m.remote_qpn);
  io.template field<Field{15, 0, 5}>(m.remote_cm_response_timeout);
  io.template reserved<Field{15, 5, 3}>();
  io.template reserved<Field{16, 0, 32}>();
  // The fields of a REQ's path in another order.
  auto& path = m.alternate;
  io.template field<Field{20, 0, 16}>(path.local_lid);
  io.template field<Field{22, 0, 16}>(path.remote_lid);
  gid_layout<24>(io, path.local_gid);
  gid_layout<40>(io, path.remote_gid);
  io.template field<Field{56, 0, 20}>(path.flow_label);
  io.template reserved<Field{58, 4, 4}>();
  io.template field<Field{59, 0, 8}>(path.traffic_class);
  io.template field<Field{60, 0, 8}>(path.hop_limit);
  io.template reserved<Field{61, 0, 2}>();
  io.template field<Field{61, 2, 6}>(path.packet_rate);
  io.template field<Field{62, 0, 4}>(path.sl);
  io.template field<Field{62, 4, 1}>(path.subnet_local);
  io.template reserved<Field{62, 5, 3}>();
  io.template field<Field{63, 0, 5}>(path.local_ack_timeout);
  io.template reserved<Field{63, 5, 3}>();
  io.template bytes<64>(m.private_data);
}

/// APR and SIDR_REP with their information as the wire has it: a length that may exceed the space.
struct WireApr {
  CommId local_comm_id;
  CommId remote_comm_id;
  std::uint8_t info_length = 0;
  std::uint8_t status = 0;
  std::array<std::uint8_t, Apr::kInfoSize> info{};
  std::array<std::uint8_t, Apr::kPrivateSize> private_data{};
};

template <typename Io, typename M>
requires std::is_same_v<std::remove_const_t<M>, WireApr>
constexpr void layout(Io& io, M& m) noexcept {
  comm_ids_layout(io, m);
  io.template field<Field{8, 0, 8}>(m.info_length);
  io.template field<Field{9, 0, 8}>(m.status);
  io.template reserved<Field{10, 0, 16}>();
  io.template bytes<12>(m.info);
  io.template bytes<84>(m.private_data);
}

template <typename Io, typename M>
requires std::is_same_v<std::remove_const_t<M>, SidrReq>
constexpr void layout(Io& io, M& m) noexcept {
  io.template field<Field{0, 0, 32}>(m.request_id);
  io.template field<Field{4, 0, 16}>(m.pkey);
  io.template reserved<Field{6, 0, 16}>();
  io.template field<Field{8, 0, 64}>(m.service_id);
  io.template bytes<16>(m.private_data);
}

struct WireSidrRep {
  CommId request_id;
  std::uint8_t status = 0;
  std::uint8_t info_length = 0;
  EceVendor ece_vendor;
  Qpn qpn;
  ServiceId service_id;
  QKey qkey;
  std::array<std::uint8_t, SidrRep::kInfoSize> info{};
  std::array<std::uint8_t, SidrRep::kPrivateSize> private_data{};
};

template <typename Io, typename M>
requires std::is_same_v<std::remove_const_t<M>, WireSidrRep>
constexpr void layout(Io& io, M& m) noexcept {
  io.template field<Field{0, 0, 32}>(m.request_id);
  io.template field<Field{4, 0, 8}>(m.status);
  io.template field<Field{5, 0, 8}>(m.info_length);
  // The ECE vendor is split: 16 bits before the QPN, 8 behind it.
  auto vendor_high = static_cast<std::uint16_t>(m.ece_vendor.value() >> 8U);
  auto vendor_low = static_cast<std::uint8_t>(m.ece_vendor.value() & 0xFFU);
  io.template field<Field{6, 0, 16}>(vendor_high);
  io.template field<Field{8, 0, 24}>(m.qpn);
  io.template field<Field{11, 0, 8}>(vendor_low);
  if constexpr (Io::kReads) {
    m.ece_vendor = EceVendor(std::uint32_t{vendor_high} << 8U | vendor_low);
  }
  io.template field<Field{12, 0, 64}>(m.service_id);
  io.template field<Field{20, 0, 32}>(m.qkey);
  io.template bytes<24>(m.info);
  io.template bytes<96>(m.private_data);
}

/// For static_assert: the layout of `M` names every bit of the CM data exactly once.
template <typename M>
[[nodiscard]] consteval bool layout_is_exact() {
  FieldCoverage coverage;
  const M message{};
  layout(coverage, message);
  return coverage.is_exact();
}

}  // namespace wireup::mad
