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

/// The record as big-endian words of eight bytes. No field crosses from one into the next, so each
/// is one shift of a word: lookups in the node cache read records all the time.
class RecordWords {
 public:
  explicit RecordWords(std::span<const std::uint8_t, PathRecord::kSize> bytes) noexcept {
    for (std::size_t i = 0; i < words_.size(); ++i) {
      const std::uint8_t* from = bytes.data() + kWordSize * i;
      // Written out, a compiler makes one load of it.
      words_[i] = std::uint64_t{from[0]} << 56U | std::uint64_t{from[1]} << 48U |
                  std::uint64_t{from[2]} << 40U | std::uint64_t{from[3]} << 32U |
                  std::uint64_t{from[4]} << 24U | std::uint64_t{from[5]} << 16U |
                  std::uint64_t{from[6]} << 8U | std::uint64_t{from[7]};
    }
  }

  /// Bits that T has not are not in the field.
  template <typename T>
  [[nodiscard]] T get(const Field& field) const noexcept {
    const std::size_t behind = kWordBits - field.first_bit() % kWordBits - field.width;
    return static_cast<T>(words_[field.first_bit() / kWordBits] >> behind & field.max());
  }

  [[nodiscard]] static constexpr bool has(const Field& field) noexcept {
    return field.first_bit() / kWordBits == (field.end_bit() - 1) / kWordBits;
  }

 private:
  static constexpr std::size_t kWordSize = 8;
  static constexpr std::size_t kWordBits = 64;
  std::array<std::uint64_t, PathRecord::kSize / kWordSize> words_;
};

static_assert(RecordWords::has(kServiceId) && RecordWords::has(kDlid) && RecordWords::has(kSlid) &&
              RecordWords::has(kRawTraffic) && RecordWords::has(kFlowLabel) &&
              RecordWords::has(kHopLimit) && RecordWords::has(kTrafficClass) &&
              RecordWords::has(kReversible) && RecordWords::has(kNumbPath) &&
              RecordWords::has(kPKey) && RecordWords::has(kQosClass) && RecordWords::has(kSl) &&
              RecordWords::has(kMtuSelector) && RecordWords::has(kMtu) &&
              RecordWords::has(kRateSelector) && RecordWords::has(kRate) &&
              RecordWords::has(kLifetimeSelector) && RecordWords::has(kLifetime) &&
              RecordWords::has(kPreference));

}  // namespace

Result<PathRecord> parse_path_record(std::span<const std::uint8_t> bytes) noexcept {
  if (bytes.size() != PathRecord::kSize) {
    return fail(Error::make(Errc::Malformed, "path record of %zu bytes, expected %zu", bytes.size(),
                            PathRecord::kSize));
  }
  return read_path_record(bytes.first<PathRecord::kSize>());
}

PathRecord read_path_record(std::span<const std::uint8_t, PathRecord::kSize> bytes) noexcept {
  const RecordWords words(bytes);
  PathRecord record;
  record.service_id = ServiceId(words.get<std::uint64_t>(kServiceId));
  record.dgid = load_gid(bytes, kDgid);
  record.sgid = load_gid(bytes, kSgid);
  record.dlid = Lid(words.get<std::uint16_t>(kDlid));
  record.slid = Lid(words.get<std::uint16_t>(kSlid));
  record.raw_traffic = words.get<std::uint8_t>(kRawTraffic) != 0;
  record.flow_label = FlowLabel(words.get<std::uint32_t>(kFlowLabel));
  record.hop_limit = words.get<std::uint8_t>(kHopLimit);
  record.traffic_class = words.get<std::uint8_t>(kTrafficClass);
  record.reversible = words.get<std::uint8_t>(kReversible) != 0;
  record.numb_path = words.get<std::uint8_t>(kNumbPath);
  record.pkey = PKey(words.get<std::uint16_t>(kPKey));
  record.qos_class = words.get<std::uint16_t>(kQosClass);
  record.sl = Sl(words.get<std::uint8_t>(kSl));
  record.mtu_selector = words.get<Selector>(kMtuSelector);
  record.mtu = words.get<std::uint8_t>(kMtu);
  record.rate_selector = words.get<Selector>(kRateSelector);
  record.rate = words.get<std::uint8_t>(kRate);
  record.packet_lifetime_selector = words.get<Selector>(kLifetimeSelector);
  record.packet_lifetime = words.get<std::uint8_t>(kLifetime);
  record.preference = words.get<std::uint8_t>(kPreference);
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
