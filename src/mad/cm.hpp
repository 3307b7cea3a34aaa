// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <variant>

#include "base/bounded_bytes.hpp"
#include "base/ids.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "mad/cm_reject.hpp"
#include "mad/cm_status.hpp"
#include "mad/header.hpp"

/// Messages of the communication management class (IBTA vol 1, chapter 12) as values in host byte
/// order. Every field has exactly the width of the wire by its type, so that every value can be
/// serialised; private data are the bytes of the wire, whose real length the format does not
/// carry: what a sender left out arrives as zeros.
namespace wireup::mad {

inline constexpr std::uint8_t kCmClassVersion = 2;

/// The messages by their attribute id (IBTA vol 1, 12.6).
enum class CmKind : std::uint16_t {
  Req = 0x0010,
  Mra = 0x0011,
  Rej = 0x0012,
  Rep = 0x0013,
  Rtu = 0x0014,
  Dreq = 0x0015,
  Drep = 0x0016,
  SidrReq = 0x0017,
  SidrRep = 0x0018,
  Lap = 0x0019,
  Apr = 0x001A,
};
inline constexpr std::size_t kCmKinds = 11;

/// The message of an attribute id; nothing when the class has none with it.
[[nodiscard]] constexpr std::optional<CmKind> cm_kind(std::uint16_t attribute_id) noexcept {
  if (attribute_id < 0x0010 || attribute_id > 0x001A) {
    return std::nullopt;
  }
  return static_cast<CmKind>(attribute_id);
}
/// 0 to kCmKinds - 1, for tables and counters.
[[nodiscard]] constexpr std::size_t index_of(CmKind kind) noexcept {
  return static_cast<std::size_t>(kind) - 0x0010;
}
/// "REQ", "MRA", ... as the specification writes them.
[[nodiscard]] std::string_view cm_kind_name(CmKind kind) noexcept;

using RetryCount = Id<struct RetryCountTag, std::uint8_t, 3>;
using RnrRetryCount = Id<struct RnrRetryCountTag, std::uint8_t, 3>;
using CmRetryCount = Id<struct CmRetryCountTag, std::uint8_t, 4>;
/// MTU code: 1 = 256 bytes to 5 = 4096 bytes.
using CmMtu = Id<struct CmMtuTag, std::uint8_t, 4>;
/// Rate code: 2 = 2.5 Gb/s, 3 = 10 Gb/s, ...
using CmRate = Id<struct CmRateTag, std::uint8_t, 6>;
using Eecn = Id<struct EecnTag, std::uint32_t, 24>;
using EceVendor = Id<struct EceVendorTag, std::uint32_t, 24>;
using ExtendedTransport = Id<struct ExtendedTransportTag, std::uint8_t, 3>;

/// All values of the two-bit field.
enum class TransportService : std::uint8_t { Rc = 0, Uc = 1, Rd = 2, Extended = 3 };
/// REP's failover acceptance; all values of the two-bit field.
enum class Failover : std::uint8_t { Accepted = 0, NotSupported = 1, Rejected = 2, Reserved = 3 };
/// Which message an MRA delays; all values of the two-bit field.
enum class MraOf : std::uint8_t { Req = 0, Rep = 1, Lap = 2, Reserved = 3 };
/// Which message a REJ refuses; all values of the two-bit field.
enum class RejOf : std::uint8_t { Req = 0, Rep = 1, Other = 2, Reserved = 3 };

/// One path of a REQ, as the sender of the REQ sees it: "local" is the sender's end.
struct ReqPath {
  Lid local_lid;
  Lid remote_lid;
  Gid local_gid;
  Gid remote_gid;
  FlowLabel flow_label;
  CmRate packet_rate;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;
  Sl sl;
  bool subnet_local = false;
  IbTimeout local_ack_timeout;
  friend constexpr bool operator==(const ReqPath&, const ReqPath&) noexcept = default;
};

/// Request for communication. starting_psn is what the RECEIVER shall send first; the receiver's
/// initiator depth comes from responder_resources and the other way round.
struct Req {
  static constexpr CmKind kKind = CmKind::Req;
  static constexpr std::size_t kPrivateSize = 92;

  Tid tid;
  CommId local_comm_id;
  /// Enhanced connection establishment: vendor and its options, 0 when not used.
  EceVendor ece_vendor;
  std::uint32_t ece_options = 0;
  ServiceId service_id;
  Guid local_ca_guid;
  QKey local_qkey;
  Qpn local_qpn;
  std::uint8_t responder_resources = 0;
  Eecn local_eecn;
  std::uint8_t initiator_depth = 0;
  Eecn remote_eecn;
  /// How long the sender waits for the receiver's CM.
  IbTimeout remote_cm_response_timeout;
  TransportService transport_service = TransportService::Rc;
  bool end_to_end_flow_control = false;
  Psn starting_psn;
  /// How long the receiver shall wait for the sender's CM.
  IbTimeout local_cm_response_timeout;
  RetryCount retry_count;
  PKey pkey;
  CmMtu path_mtu;
  bool rdc_exists = false;
  RnrRetryCount rnr_retry_count;
  CmRetryCount max_cm_retries;
  bool srq = false;
  /// 1 = XRC, when transport_service is Extended.
  ExtendedTransport extended_transport;
  ReqPath primary;
  /// Present when its local LID is not 0.
  std::optional<ReqPath> alternate;
  bool sap_supported = false;
  std::array<std::uint8_t, kPrivateSize> private_data{};
  friend constexpr bool operator==(const Req&, const Req&) noexcept = default;
};

/// Message receipt acknowledged: the answer will take longer, up to service_timeout.
struct Mra {
  static constexpr CmKind kKind = CmKind::Mra;
  static constexpr std::size_t kPrivateSize = 222;

  Tid tid;
  CommId local_comm_id;
  CommId remote_comm_id;
  MraOf message = MraOf::Req;
  IbTimeout service_timeout;
  std::array<std::uint8_t, kPrivateSize> private_data{};
  friend constexpr bool operator==(const Mra&, const Mra&) noexcept = default;
};

/// Reject. local_comm_id is 0 when the sender has none, remote_comm_id when it knows none.
struct Rej {
  static constexpr CmKind kKind = CmKind::Rej;
  static constexpr std::size_t kPrivateSize = 148;
  static constexpr std::size_t kAriSize = 72;

  Tid tid;
  CommId local_comm_id;
  CommId remote_comm_id;
  RejOf message = RejOf::Req;
  /// A RejReason, or a number that we do not know.
  std::uint16_t reason = 0;
  /// Additional rejection information; what it holds depends on the reason.
  BoundedBytes<kAriSize> ari;
  std::array<std::uint8_t, kPrivateSize> private_data{};
  friend constexpr bool operator==(const Rej&, const Rej&) noexcept = default;
};

/// Reply to a REQ. starting_psn is what the receiver of the REP shall send first.
struct Rep {
  static constexpr CmKind kKind = CmKind::Rep;
  static constexpr std::size_t kPrivateSize = 196;

  Tid tid;
  CommId local_comm_id;
  CommId remote_comm_id;
  QKey local_qkey;
  Qpn local_qpn;
  EceVendor ece_vendor;
  std::uint32_t ece_options = 0;
  Eecn local_eecn;
  Psn starting_psn;
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
  IbTimeout target_ack_delay;
  Failover failover = Failover::Accepted;
  bool end_to_end_flow_control = false;
  RnrRetryCount rnr_retry_count;
  bool srq = false;
  Guid local_ca_guid;
  std::array<std::uint8_t, kPrivateSize> private_data{};
  friend constexpr bool operator==(const Rep&, const Rep&) noexcept = default;
};

/// Ready to use.
struct Rtu {
  static constexpr CmKind kKind = CmKind::Rtu;
  static constexpr std::size_t kPrivateSize = 224;

  Tid tid;
  CommId local_comm_id;
  CommId remote_comm_id;
  std::array<std::uint8_t, kPrivateSize> private_data{};
  friend constexpr bool operator==(const Rtu&, const Rtu&) noexcept = default;
};

/// Request for communication release. remote_qpn is the queue pair of the receiver.
struct Dreq {
  static constexpr CmKind kKind = CmKind::Dreq;
  static constexpr std::size_t kPrivateSize = 220;

  Tid tid;
  CommId local_comm_id;
  CommId remote_comm_id;
  Qpn remote_qpn;
  std::array<std::uint8_t, kPrivateSize> private_data{};
  friend constexpr bool operator==(const Dreq&, const Dreq&) noexcept = default;
};

/// Reply to a DREQ.
struct Drep {
  static constexpr CmKind kKind = CmKind::Drep;
  static constexpr std::size_t kPrivateSize = 224;

  Tid tid;
  CommId local_comm_id;
  CommId remote_comm_id;
  std::array<std::uint8_t, kPrivateSize> private_data{};
  friend constexpr bool operator==(const Drep&, const Drep&) noexcept = default;
};

/// Load alternate path: the path to migrate to, as the sender of the LAP sees it.
struct Lap {
  static constexpr CmKind kKind = CmKind::Lap;
  static constexpr std::size_t kPrivateSize = 168;

  Tid tid;
  CommId local_comm_id;
  CommId remote_comm_id;
  /// The queue pair of the receiver.
  Qpn remote_qpn;
  /// How long the sender waits for the APR.
  IbTimeout remote_cm_response_timeout;
  ReqPath alternate;
  std::array<std::uint8_t, kPrivateSize> private_data{};
  friend constexpr bool operator==(const Lap&, const Lap&) noexcept = default;
};

/// Alternate path response.
struct Apr {
  static constexpr CmKind kKind = CmKind::Apr;
  static constexpr std::size_t kPrivateSize = 148;
  static constexpr std::size_t kInfoSize = 72;

  Tid tid;
  CommId local_comm_id;
  CommId remote_comm_id;
  /// An AprStatus, or a number that we do not know.
  std::uint8_t status = 0;
  /// What would be acceptable; what it holds depends on the status.
  BoundedBytes<kInfoSize> info;
  std::array<std::uint8_t, kPrivateSize> private_data{};
  friend constexpr bool operator==(const Apr&, const Apr&) noexcept = default;
};

/// Service id resolution request: which queue pair serves the service id?
struct SidrReq {
  static constexpr CmKind kKind = CmKind::SidrReq;
  static constexpr std::size_t kPrivateSize = 216;

  Tid tid;
  /// Chosen by the sender; the answer repeats it.
  CommId request_id;
  PKey pkey;
  ServiceId service_id;
  std::array<std::uint8_t, kPrivateSize> private_data{};
  friend constexpr bool operator==(const SidrReq&, const SidrReq&) noexcept = default;
};

/// Service id resolution response.
struct SidrRep {
  static constexpr CmKind kKind = CmKind::SidrRep;
  static constexpr std::size_t kPrivateSize = 136;
  static constexpr std::size_t kInfoSize = 72;

  Tid tid;
  CommId request_id;
  /// A SidrStatus, or a number that we do not know.
  std::uint8_t status = 0;
  /// With SidrStatus::Redirect: the ClassPortInfo of the CM to ask.
  BoundedBytes<kInfoSize> info;
  EceVendor ece_vendor;
  std::uint32_t ece_options = 0;
  Qpn qpn;
  ServiceId service_id;
  QKey qkey;
  std::array<std::uint8_t, kPrivateSize> private_data{};
  friend constexpr bool operator==(const SidrRep&, const SidrRep&) noexcept = default;
};

using CmMessage = std::variant<Req, Mra, Rej, Rep, Rtu, Dreq, Drep, SidrReq, SidrRep, Lap, Apr>;

[[nodiscard]] CmKind kind_of(const CmMessage& message);

/// Reads a received CM MAD; reserved bits are ignored. Fails with Errc::Malformed unless the bytes
/// are one MAD of the class, class version 2, method Send, of a known attribute, with counts that
/// fit.
[[nodiscard]] Result<CmMessage> parse_cm(std::span<const std::uint8_t> bytes) noexcept;

/// The whole MAD of a message, reserved bits as zero. Cannot fail: the types hold only what fits.
[[nodiscard]] Mad serialize(const Req& message) noexcept;
[[nodiscard]] Mad serialize(const Mra& message) noexcept;
[[nodiscard]] Mad serialize(const Rej& message) noexcept;
[[nodiscard]] Mad serialize(const Rep& message) noexcept;
[[nodiscard]] Mad serialize(const Rtu& message) noexcept;
[[nodiscard]] Mad serialize(const Dreq& message) noexcept;
[[nodiscard]] Mad serialize(const Drep& message) noexcept;
[[nodiscard]] Mad serialize(const Lap& message) noexcept;
[[nodiscard]] Mad serialize(const Apr& message) noexcept;
[[nodiscard]] Mad serialize(const SidrReq& message) noexcept;
[[nodiscard]] Mad serialize(const SidrRep& message) noexcept;
[[nodiscard]] Mad serialize(const CmMessage& message);

/// Private data of a message from up to `N` bytes, the rest zero; longer input is a defect of the
/// caller, who has checked it where it came in.
template <std::size_t N>
[[nodiscard]] constexpr std::array<std::uint8_t, N> private_data(
    std::span<const std::uint8_t> bytes) noexcept {
  WIREUP_CHECK(bytes.size() <= N);
  std::array<std::uint8_t, N> padded{};
  std::copy(bytes.begin(), bytes.end(), padded.begin());
  return padded;
}

}  // namespace wireup::mad
