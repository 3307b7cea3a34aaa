// SPDX-License-Identifier: BSD-3-Clause
#include "mad/notice.hpp"

#include <algorithm>

#include "mad/field.hpp"
#include "mad/gid_field.hpp"

namespace wireup::mad {
namespace {

namespace notice {
constexpr Field kIsGeneric{0, 0, 1};
constexpr Field kType{0, 1, 7};
constexpr Field kProducer{1, 0, 24};
constexpr Field kTrapNumber{4, 0, 16};
constexpr Field kIssuerLid{6, 0, 16};
constexpr Field kToggle{8, 0, 1};
constexpr Field kCount{8, 1, 15};
constexpr std::size_t kDetails = 10;
constexpr std::size_t kIssuerGid = 64;
static_assert(fields_are_disjoint(std::array{kIsGeneric, kType, kProducer, kTrapNumber, kIssuerLid,
                                             kToggle, kCount},
                                  kDetails));
static_assert(kDetails + Notice::kDetailsSize == kIssuerGid);
static_assert(kIssuerGid + Gid::kSize == Notice::kSize);

// Within the details, from their first byte.
constexpr std::size_t kSubjectGid = 6;
constexpr Field kSwitchLid{0, 0, 16};
constexpr Field kChangedLid{2, 0, 16};
}  // namespace notice

namespace inform {
constexpr std::size_t kGid = 0;
constexpr Field kLidBegin{16, 0, 16};
constexpr Field kLidEnd{18, 0, 16};
constexpr Field kReserved1{20, 0, 16};
constexpr Field kIsGeneric{22, 0, 8};
constexpr Field kSubscribe{23, 0, 8};
constexpr Field kType{24, 0, 16};
constexpr Field kTrapNumber{26, 0, 16};
constexpr Field kQpn{28, 0, 24};
constexpr Field kReserved2{31, 0, 3};
constexpr Field kResponseTime{31, 3, 5};
constexpr Field kReserved3{32, 0, 8};
constexpr Field kProducer{33, 0, 24};
static_assert(fields_are_disjoint(std::array{gid_half(kGid, 0), gid_half(kGid, 1), kLidBegin,
                                             kLidEnd, kReserved1, kIsGeneric, kSubscribe, kType,
                                             kTrapNumber, kQpn, kReserved2, kResponseTime,
                                             kReserved3, kProducer},
                                  InformInfo::kSize));
}  // namespace inform

}  // namespace

std::optional<Gid> Notice::subject_gid() const noexcept {
  if (!is_generic || trap_number < trap::kInService || trap_number > trap::kGroupDeleted) {
    return std::nullopt;
  }
  return load_gid(details, notice::kSubjectGid);
}

std::optional<Lid> Notice::subject_lid() const noexcept {
  if (is_generic && trap_number == trap::kLinkStateChange) {
    return Lid(static_cast<std::uint16_t>(notice::kSwitchLid.get(details)));
  }
  if (is_generic && trap_number == trap::kCapabilityChange) {
    return Lid(static_cast<std::uint16_t>(notice::kChangedLid.get(details)));
  }
  return std::nullopt;
}

Result<Notice> parse_notice(std::span<const std::uint8_t> bytes) noexcept {
  if (bytes.size() != Notice::kSize) {
    return fail(Error::make(Errc::Malformed, "notice of %zu bytes, expected %zu", bytes.size(),
                            Notice::kSize));
  }
  Notice result;
  result.is_generic = notice::kIsGeneric.get(bytes) != 0;
  result.type = static_cast<std::uint8_t>(notice::kType.get(bytes));
  result.producer = static_cast<std::uint32_t>(notice::kProducer.get(bytes));
  result.trap_number = static_cast<std::uint16_t>(notice::kTrapNumber.get(bytes));
  result.issuer_lid = Lid(static_cast<std::uint16_t>(notice::kIssuerLid.get(bytes)));
  result.toggle = notice::kToggle.get(bytes) != 0;
  result.count = static_cast<std::uint16_t>(notice::kCount.get(bytes));
  std::copy_n(bytes.begin() + notice::kDetails, Notice::kDetailsSize, result.details.begin());
  result.issuer_gid = load_gid(bytes, notice::kIssuerGid);
  return result;
}

void serialize(const Notice& from, std::span<std::uint8_t, Notice::kSize> to) noexcept {
  notice::kIsGeneric.put(to, from.is_generic ? 1 : 0);
  notice::kType.put(to, from.type);
  notice::kProducer.put(to, from.producer);
  notice::kTrapNumber.put(to, from.trap_number);
  notice::kIssuerLid.put(to, from.issuer_lid.value());
  notice::kToggle.put(to, from.toggle ? 1 : 0);
  notice::kCount.put(to, from.count);
  std::copy(from.details.begin(), from.details.end(), to.begin() + notice::kDetails);
  store_gid(from.issuer_gid, to, notice::kIssuerGid);
}

InformInfo subscription_to(std::uint16_t trap_number) noexcept {
  // About a second: a report waits for a process that may be busy.
  constexpr std::uint8_t kSecond = 18;
  InformInfo info;
  info.lid_begin = Lid(InformInfo::kAny);
  info.is_generic = true;
  info.subscribe = true;
  info.type = InformInfo::kAny;
  info.trap_number = trap_number;
  info.qpn = Qpn(1);
  info.response_time = kSecond;
  info.producer = InformInfo::kAnyProducer;
  return info;
}

Result<InformInfo> parse_inform_info(std::span<const std::uint8_t> bytes) noexcept {
  if (bytes.size() != InformInfo::kSize) {
    return fail(Error::make(Errc::Malformed, "InformInfo of %zu bytes, expected %zu", bytes.size(),
                            InformInfo::kSize));
  }
  InformInfo info;
  info.gid = load_gid(bytes, inform::kGid);
  info.lid_begin = Lid(static_cast<std::uint16_t>(inform::kLidBegin.get(bytes)));
  info.lid_end = Lid(static_cast<std::uint16_t>(inform::kLidEnd.get(bytes)));
  info.is_generic = inform::kIsGeneric.get(bytes) != 0;
  info.subscribe = inform::kSubscribe.get(bytes) != 0;
  info.type = static_cast<std::uint16_t>(inform::kType.get(bytes));
  info.trap_number = static_cast<std::uint16_t>(inform::kTrapNumber.get(bytes));
  info.qpn = Qpn(static_cast<std::uint32_t>(inform::kQpn.get(bytes)));
  info.response_time = static_cast<std::uint8_t>(inform::kResponseTime.get(bytes));
  info.producer = static_cast<std::uint32_t>(inform::kProducer.get(bytes));
  return info;
}

void serialize(const InformInfo& info, std::span<std::uint8_t, InformInfo::kSize> to) noexcept {
  std::fill(to.begin(), to.end(), std::uint8_t{0});
  store_gid(info.gid, to, inform::kGid);
  inform::kLidBegin.put(to, info.lid_begin.value());
  inform::kLidEnd.put(to, info.lid_end.value());
  inform::kIsGeneric.put(to, info.is_generic ? 1 : 0);
  inform::kSubscribe.put(to, info.subscribe ? 1 : 0);
  inform::kType.put(to, info.type);
  inform::kTrapNumber.put(to, info.trap_number);
  inform::kQpn.put(to, info.qpn.value());
  inform::kResponseTime.put(to, info.response_time);
  inform::kProducer.put(to, info.producer);
}

}  // namespace wireup::mad
