// SPDX-License-Identifier: BSD-3-Clause
#include "mad/class_port_info.hpp"

#include <algorithm>

#include "mad/cm.hpp"
#include "mad/field.hpp"

namespace wireup::mad {
namespace {

constexpr Field kInfoBaseVersion{0, 0, 8};
constexpr Field kInfoClassVersion{1, 0, 8};
constexpr Field kCapabilityMask{2, 0, 16};
constexpr Field kCapabilityMask2{4, 0, 27};
constexpr Field kResponseTime{7, 3, 5};
constexpr std::size_t kRedirectGid = 8;
constexpr Field kRedirectTrafficClass{24, 0, 8};
constexpr Field kRedirectSl{25, 0, 4};
constexpr Field kRedirectFlowLabel{25, 4, 20};
constexpr Field kRedirectLid{28, 0, 16};
constexpr Field kRedirectPkey{30, 0, 16};
constexpr Field kRedirectQpn{33, 0, 24};
constexpr Field kRedirectQkey{36, 0, 32};

template <typename T>
T read(Field field, std::span<const std::uint8_t> bytes) noexcept {
  return static_cast<T>(field.get(bytes));
}

}  // namespace

Result<ClassPortInfo> parse_class_port_info(std::span<const std::uint8_t> bytes) noexcept {
  if (bytes.size() < kClassPortInfoSize) {
    return fail(Error::make(Errc::Malformed, "ClassPortInfo of %zu bytes, it has %zu", bytes.size(),
                            kClassPortInfoSize));
  }
  ClassPortInfo info;
  info.base_version = read<std::uint8_t>(kInfoBaseVersion, bytes);
  info.class_version = read<std::uint8_t>(kInfoClassVersion, bytes);
  info.capability_mask = read<std::uint16_t>(kCapabilityMask, bytes);
  info.capability_mask2 = read<std::uint32_t>(kCapabilityMask2, bytes);
  info.response_time = IbTimeout(read<std::uint8_t>(kResponseTime, bytes));
  Gid::Bytes gid{};
  std::copy_n(bytes.begin() + kRedirectGid, gid.size(), gid.begin());
  info.redirect_gid = Gid(gid);
  info.redirect_traffic_class = read<std::uint8_t>(kRedirectTrafficClass, bytes);
  info.redirect_sl = Sl(read<std::uint8_t>(kRedirectSl, bytes));
  info.redirect_flow_label = FlowLabel(read<std::uint32_t>(kRedirectFlowLabel, bytes));
  info.redirect_lid = Lid(read<std::uint16_t>(kRedirectLid, bytes));
  info.redirect_pkey = PKey(read<std::uint16_t>(kRedirectPkey, bytes));
  info.redirect_qpn = Qpn(read<std::uint32_t>(kRedirectQpn, bytes));
  info.redirect_qkey = QKey(read<std::uint32_t>(kRedirectQkey, bytes));
  return info;
}

void serialize(const ClassPortInfo& info, std::span<std::uint8_t, kClassPortInfoSize> to) noexcept {
  std::fill(to.begin(), to.end(), std::uint8_t{0});
  kInfoBaseVersion.put(to, info.base_version);
  kInfoClassVersion.put(to, info.class_version);
  kCapabilityMask.put(to, info.capability_mask);
  kCapabilityMask2.put(to, info.capability_mask2);
  kResponseTime.put(to, info.response_time.exponent());
  const Gid::Bytes& gid = info.redirect_gid.bytes();
  std::copy(gid.begin(), gid.end(), to.begin() + kRedirectGid);
  kRedirectTrafficClass.put(to, info.redirect_traffic_class);
  kRedirectSl.put(to, info.redirect_sl.value());
  kRedirectFlowLabel.put(to, info.redirect_flow_label.value());
  kRedirectLid.put(to, info.redirect_lid.value());
  kRedirectPkey.put(to, info.redirect_pkey.value());
  kRedirectQpn.put(to, info.redirect_qpn.value());
  kRedirectQkey.put(to, info.redirect_qkey.value());
}

std::optional<Mad> answer_class_port_info(std::span<const std::uint8_t> bytes,
                                          IbTimeout response_time) noexcept {
  if (bytes.size() != kMadSize) {
    return std::nullopt;
  }
  const auto asked = parse_header(bytes);
  if (!asked || asked->mgmt_class != static_cast<std::uint8_t>(MgmtClass::CommMgt) ||
      asked->class_version != kCmClassVersion ||
      asked->method != static_cast<std::uint8_t>(Method::Get) ||
      asked->attribute_id != kClassPortInfoAttribute) {
    return std::nullopt;
  }
  Header header = *asked;
  header.method = static_cast<std::uint8_t>(Method::GetResp);
  header.status = 0;
  ClassPortInfo info;
  info.class_version = kCmClassVersion;
  info.capability_mask = static_cast<std::uint16_t>(CmCapability::ReliableConnection) |
                         static_cast<std::uint16_t>(CmCapability::UnreliableConnection) |
                         static_cast<std::uint16_t>(CmCapability::Sidr);
  info.response_time = response_time;
  Mad answer{};
  serialize(header, std::span(answer));
  serialize(info, std::span(answer).subspan<kHeaderSize, kClassPortInfoSize>());
  return answer;
}

}  // namespace wireup::mad
