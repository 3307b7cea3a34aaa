// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.hpp"
#include "mad/header.hpp"
#include "mad/mc_member_record.hpp"
#include "mad/node_record.hpp"
#include "mad/notice.hpp"
#include "mad/path_record.hpp"
#include "mad/service_record.hpp"

namespace wireup::mad {

inline constexpr std::uint8_t kSaClassVersion = 2;

/// SA attributes we speak.
inline constexpr std::uint16_t kAttributeNotice = 0x0002;
inline constexpr std::uint16_t kAttributeInformInfo = 0x0003;
inline constexpr std::uint16_t kAttributeNodeRecord = 0x0011;
inline constexpr std::uint16_t kAttributeServiceRecord = 0x0031;
inline constexpr std::uint16_t kAttributePathRecord = 0x0035;
inline constexpr std::uint16_t kAttributeMcMemberRecord = 0x0038;

/// Status codes of the SA class (high byte of the MAD status, IBTA vol 1, 15.2.1).
#define WIREUP_SA_STATUS(X)                                              \
  X(NoResources, 1, "the SA is out of resources")                        \
  X(ReqInvalid, 2, "the SA finds the request invalid")                   \
  X(NoRecords, 3, "the SA has no such record")                           \
  X(TooManyRecords, 4, "more than one record matches a request for one") \
  X(InvalidGid, 5, "a GID of the request is invalid")                    \
  X(InsufficientComponents, 6, "the request names too few components")   \
  X(Denied, 7, "the SA denies the request")

enum class SaStatus : std::uint8_t {
#define WIREUP_SA_STATUS_ENUMERATOR(name, number, sentence) name = (number),
  WIREUP_SA_STATUS(WIREUP_SA_STATUS_ENUMERATOR)
#undef WIREUP_SA_STATUS_ENUMERATOR
};

/// Bits of the common MAD status, low byte (IBTA vol 1, 13.4.7).
inline constexpr std::uint16_t kStatusBusy = 0x0001;
inline constexpr std::uint16_t kStatusRedirect = 0x0002;

/// A sentence for a MAD status word of the SA; never null. `status` is in host byte order.
[[nodiscard]] const char* sa_status_text(std::uint16_t status) noexcept;

/// One SA MAD (IBTA vol 1, 15.2.1.1): MAD header 24, RMPP header 12, SM_Key 8, attribute offset 2,
/// reserved 2, component mask 8, data 200. Values in host byte order.
struct SaMad {
  static constexpr std::size_t kDataOffset = 56;
  static constexpr std::size_t kDataSize = kMadSize - kDataOffset;

  Header header;
  std::uint8_t rmpp_version = 0;
  std::uint8_t rmpp_type = 0;
  /// Response time, 5 bits, and flags, 3 bits.
  std::uint8_t rmpp_response_time = 0;
  std::uint8_t rmpp_flags = 0;
  std::uint8_t rmpp_status = 0;
  std::uint32_t segment = 0;
  std::uint32_t payload_length = 0;
  std::uint64_t sm_key = 0;
  /// In units of 8 bytes.
  std::uint16_t attribute_offset = 0;
  std::uint64_t component_mask = 0;
  std::array<std::uint8_t, kDataSize> data{};

  friend constexpr bool operator==(const SaMad&, const SaMad&) noexcept = default;
};

/// Reads an SA MAD. Fails with Errc::Malformed unless there are exactly kMadSize bytes, base
/// version 1, class SubnAdm, class version 2. Status and RMPP are left to the caller.
[[nodiscard]] Result<SaMad> parse_sa_mad(std::span<const std::uint8_t> bytes) noexcept;

/// Writes the whole MAD; class and class version are set here, reserved bits are zero.
void serialize(const SaMad& sa, Mad& to) noexcept;

/// A request whose attribute is `record`: Get or GetTable (path, node, service), Set (join,
/// subscription).
[[nodiscard]] SaMad make_sa_request(Method method, Tid tid, const PathRecord& record,
                                    std::uint64_t component_mask) noexcept;
[[nodiscard]] SaMad make_sa_request(Method method, Tid tid, const McMemberRecord& record,
                                    std::uint64_t component_mask) noexcept;
[[nodiscard]] SaMad make_sa_request(Method method, Tid tid, const NodeRecord& record,
                                    std::uint64_t component_mask) noexcept;
[[nodiscard]] SaMad make_sa_request(Method method, Tid tid, const ServiceRecord& record,
                                    std::uint64_t component_mask) noexcept;
/// A subscription has no component mask.
[[nodiscard]] SaMad make_sa_request(Method method, Tid tid, const InformInfo& info) noexcept;

/// The record in the data of a response.
[[nodiscard]] Result<PathRecord> sa_path_record(const SaMad& sa) noexcept;
[[nodiscard]] Result<McMemberRecord> sa_mc_member_record(const SaMad& sa) noexcept;
/// The notice in the data of a report.
[[nodiscard]] Result<Notice> sa_notice(const SaMad& sa) noexcept;

}  // namespace wireup::mad
