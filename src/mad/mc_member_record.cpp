// SPDX-License-Identifier: BSD-3-Clause
#include "mad/mc_member_record.hpp"

#include <algorithm>
#include <array>

#include "mad/field.hpp"
#include "mad/gid_field.hpp"

namespace wireup::mad {
namespace {

constexpr std::size_t kMgid = 0;
constexpr std::size_t kPortGid = 16;
constexpr Field kQKey{32, 0, 32};
constexpr Field kMlid{36, 0, 16};
constexpr Field kMtuSelector{38, 0, 2};
constexpr Field kMtu{38, 2, 6};
constexpr Field kTrafficClass{39, 0, 8};
constexpr Field kPKey{40, 0, 16};
constexpr Field kRateSelector{42, 0, 2};
constexpr Field kRate{42, 2, 6};
constexpr Field kLifetimeSelector{43, 0, 2};
constexpr Field kLifetime{43, 2, 6};
constexpr Field kSl{44, 0, 4};
constexpr Field kFlowLabel{44, 4, 20};
constexpr Field kHopLimit{47, 0, 8};
constexpr Field kScope{48, 0, 4};
constexpr Field kJoinState{48, 4, 4};
constexpr Field kProxyJoin{49, 0, 1};
constexpr Field kReserved{49, 1, 23};

static_assert(fields_are_disjoint(std::array{gid_half(kMgid, 0),
                                             gid_half(kMgid, 1),
                                             gid_half(kPortGid, 0),
                                             gid_half(kPortGid, 1),
                                             kQKey,
                                             kMlid,
                                             kMtuSelector,
                                             kMtu,
                                             kTrafficClass,
                                             kPKey,
                                             kRateSelector,
                                             kRate,
                                             kLifetimeSelector,
                                             kLifetime,
                                             kSl,
                                             kFlowLabel,
                                             kHopLimit,
                                             kScope,
                                             kJoinState,
                                             kProxyJoin,
                                             kReserved},
                                  McMemberRecord::kSize));

}  // namespace

Result<McMemberRecord> parse_mc_member_record(std::span<const std::uint8_t> bytes) noexcept {
  if (bytes.size() != McMemberRecord::kSize) {
    return fail(Error::make(Errc::Malformed, "multicast member record of %zu bytes, expected %zu",
                            bytes.size(), McMemberRecord::kSize));
  }
  McMemberRecord record;
  record.mgid = load_gid(bytes, kMgid);
  record.port_gid = load_gid(bytes, kPortGid);
  record.qkey = QKey(static_cast<std::uint32_t>(kQKey.get(bytes)));
  record.mlid = Lid(static_cast<std::uint16_t>(kMlid.get(bytes)));
  record.mtu_selector = static_cast<Selector>(kMtuSelector.get(bytes));
  record.mtu = static_cast<std::uint8_t>(kMtu.get(bytes));
  record.traffic_class = static_cast<std::uint8_t>(kTrafficClass.get(bytes));
  record.pkey = PKey(static_cast<std::uint16_t>(kPKey.get(bytes)));
  record.rate_selector = static_cast<Selector>(kRateSelector.get(bytes));
  record.rate = static_cast<std::uint8_t>(kRate.get(bytes));
  record.packet_lifetime_selector = static_cast<Selector>(kLifetimeSelector.get(bytes));
  record.packet_lifetime = static_cast<std::uint8_t>(kLifetime.get(bytes));
  record.sl = Sl(static_cast<std::uint8_t>(kSl.get(bytes)));
  record.flow_label = FlowLabel(static_cast<std::uint32_t>(kFlowLabel.get(bytes)));
  record.hop_limit = static_cast<std::uint8_t>(kHopLimit.get(bytes));
  record.scope = static_cast<std::uint8_t>(kScope.get(bytes));
  record.join_state = static_cast<std::uint8_t>(kJoinState.get(bytes));
  record.proxy_join = kProxyJoin.get(bytes) != 0;
  return record;
}

void serialize(const McMemberRecord& record,
               std::span<std::uint8_t, McMemberRecord::kSize> to) noexcept {
  std::fill(to.begin(), to.end(), std::uint8_t{0});
  store_gid(record.mgid, to, kMgid);
  store_gid(record.port_gid, to, kPortGid);
  kQKey.put(to, record.qkey.value());
  kMlid.put(to, record.mlid.value());
  kMtuSelector.put(to, static_cast<std::uint64_t>(record.mtu_selector));
  kMtu.put(to, record.mtu);
  kTrafficClass.put(to, record.traffic_class);
  kPKey.put(to, record.pkey.value());
  kRateSelector.put(to, static_cast<std::uint64_t>(record.rate_selector));
  kRate.put(to, record.rate);
  kLifetimeSelector.put(to, static_cast<std::uint64_t>(record.packet_lifetime_selector));
  kLifetime.put(to, record.packet_lifetime);
  kSl.put(to, record.sl.value());
  kFlowLabel.put(to, record.flow_label.value());
  kHopLimit.put(to, record.hop_limit);
  kScope.put(to, record.scope);
  kJoinState.put(to, record.join_state);
  kProxyJoin.put(to, record.proxy_join ? 1 : 0);
}

}  // namespace wireup::mad
