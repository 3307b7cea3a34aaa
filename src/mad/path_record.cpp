// SPDX-License-Identifier: BSD-3-Clause
#include "mad/path_record.hpp"

#include <algorithm>
#include <array>

#include "mad/field.hpp"
#include "mad/gid_field.hpp"

namespace wireup::mad {
namespace {

constexpr Field kServiceId{0, 0, 64};
constexpr std::size_t kDgid = 8;
constexpr std::size_t kSgid = 24;
constexpr Field kDlid{40, 0, 16};
constexpr Field kSlid{42, 0, 16};
constexpr Field kRawTraffic{44, 0, 1};
constexpr Field kReserved1{44, 1, 3};
constexpr Field kFlowLabel{44, 4, 20};
constexpr Field kHopLimit{47, 0, 8};
constexpr Field kTrafficClass{48, 0, 8};
constexpr Field kReversible{49, 0, 1};
constexpr Field kNumbPath{49, 1, 7};
constexpr Field kPKey{50, 0, 16};
constexpr Field kQosClass{52, 0, 12};
constexpr Field kSl{53, 4, 4};
constexpr Field kMtuSelector{54, 0, 2};
constexpr Field kMtu{54, 2, 6};
constexpr Field kRateSelector{55, 0, 2};
constexpr Field kRate{55, 2, 6};
constexpr Field kLifetimeSelector{56, 0, 2};
constexpr Field kLifetime{56, 2, 6};
constexpr Field kPreference{57, 0, 8};
constexpr Field kReserved2{58, 0, 48};

static_assert(fields_are_disjoint(std::array{kServiceId,
                                             gid_half(kDgid, 0),
                                             gid_half(kDgid, 1),
                                             gid_half(kSgid, 0),
                                             gid_half(kSgid, 1),
                                             kDlid,
                                             kSlid,
                                             kRawTraffic,
                                             kReserved1,
                                             kFlowLabel,
                                             kHopLimit,
                                             kTrafficClass,
                                             kReversible,
                                             kNumbPath,
                                             kPKey,
                                             kQosClass,
                                             kSl,
                                             kMtuSelector,
                                             kMtu,
                                             kRateSelector,
                                             kRate,
                                             kLifetimeSelector,
                                             kLifetime,
                                             kPreference,
                                             kReserved2},
                                  PathRecord::kSize));

}  // namespace

Result<PathRecord> parse_path_record(std::span<const std::uint8_t> bytes) noexcept {
  if (bytes.size() != PathRecord::kSize) {
    return fail(Error::make(Errc::Malformed, "path record of %zu bytes, expected %zu", bytes.size(),
                            PathRecord::kSize));
  }
  PathRecord record;
  record.service_id = ServiceId(kServiceId.get(bytes));
  record.dgid = load_gid(bytes, kDgid);
  record.sgid = load_gid(bytes, kSgid);
  record.dlid = Lid(static_cast<std::uint16_t>(kDlid.get(bytes)));
  record.slid = Lid(static_cast<std::uint16_t>(kSlid.get(bytes)));
  record.raw_traffic = kRawTraffic.get(bytes) != 0;
  record.flow_label = FlowLabel(static_cast<std::uint32_t>(kFlowLabel.get(bytes)));
  record.hop_limit = static_cast<std::uint8_t>(kHopLimit.get(bytes));
  record.traffic_class = static_cast<std::uint8_t>(kTrafficClass.get(bytes));
  record.reversible = kReversible.get(bytes) != 0;
  record.numb_path = static_cast<std::uint8_t>(kNumbPath.get(bytes));
  record.pkey = PKey(static_cast<std::uint16_t>(kPKey.get(bytes)));
  record.qos_class = static_cast<std::uint16_t>(kQosClass.get(bytes));
  record.sl = Sl(static_cast<std::uint8_t>(kSl.get(bytes)));
  record.mtu_selector = static_cast<Selector>(kMtuSelector.get(bytes));
  record.mtu = static_cast<std::uint8_t>(kMtu.get(bytes));
  record.rate_selector = static_cast<Selector>(kRateSelector.get(bytes));
  record.rate = static_cast<std::uint8_t>(kRate.get(bytes));
  record.packet_lifetime_selector = static_cast<Selector>(kLifetimeSelector.get(bytes));
  record.packet_lifetime = static_cast<std::uint8_t>(kLifetime.get(bytes));
  record.preference = static_cast<std::uint8_t>(kPreference.get(bytes));
  return record;
}

void serialize(const PathRecord& record, std::span<std::uint8_t, PathRecord::kSize> to) noexcept {
  std::fill(to.begin(), to.end(), std::uint8_t{0});
  kServiceId.put(to, record.service_id.value());
  store_gid(record.dgid, to, kDgid);
  store_gid(record.sgid, to, kSgid);
  kDlid.put(to, record.dlid.value());
  kSlid.put(to, record.slid.value());
  kRawTraffic.put(to, record.raw_traffic ? 1 : 0);
  kFlowLabel.put(to, record.flow_label.value());
  kHopLimit.put(to, record.hop_limit);
  kTrafficClass.put(to, record.traffic_class);
  kReversible.put(to, record.reversible ? 1 : 0);
  kNumbPath.put(to, record.numb_path);
  kPKey.put(to, record.pkey.value());
  kQosClass.put(to, record.qos_class);
  kSl.put(to, record.sl.value());
  kMtuSelector.put(to, static_cast<std::uint64_t>(record.mtu_selector));
  kMtu.put(to, record.mtu);
  kRateSelector.put(to, static_cast<std::uint64_t>(record.rate_selector));
  kRate.put(to, record.rate);
  kLifetimeSelector.put(to, static_cast<std::uint64_t>(record.packet_lifetime_selector));
  kLifetime.put(to, record.packet_lifetime);
  kPreference.put(to, record.preference);
}

}  // namespace wireup::mad
