// SPDX-License-Identifier: BSD-3-Clause
#include "mad/service_record.hpp"

#include <algorithm>

#include "mad/field.hpp"
#include "mad/gid_field.hpp"

namespace wireup::mad {
namespace {

constexpr Field kServiceId{0, 0, 64};
constexpr std::size_t kServiceGid = 8;
constexpr Field kPKey{24, 0, 16};
constexpr Field kReserved{26, 0, 16};
constexpr Field kLease{28, 0, 32};
constexpr std::size_t kKey = 32;
constexpr std::size_t kName = 48;
constexpr std::size_t kData = 112;

static_assert(fields_are_disjoint(std::array{kServiceId, gid_half(kServiceGid, 0),
                                             gid_half(kServiceGid, 1), kPKey, kReserved, kLease},
                                  kKey));
static_assert(kName + ServiceRecord::kNameSize == kData);
static_assert(kData + ServiceRecord::kDataSize == ServiceRecord::kSize);

}  // namespace

std::string_view ServiceRecord::name_text() const noexcept {
  const auto* const end = std::find(name.begin(), name.end(), '\0');
  return {name.data(), static_cast<std::size_t>(end - name.begin())};
}

Result<ServiceRecord> parse_service_record(std::span<const std::uint8_t> bytes) noexcept {
  if (bytes.size() != ServiceRecord::kSize) {
    return fail(Error::make(Errc::Malformed, "service record of %zu bytes, expected %zu",
                            bytes.size(), ServiceRecord::kSize));
  }
  ServiceRecord record;
  record.service_id = ServiceId(kServiceId.get(bytes));
  record.service_gid = load_gid(bytes, kServiceGid);
  record.pkey = PKey(static_cast<std::uint16_t>(kPKey.get(bytes)));
  record.lease = static_cast<std::uint32_t>(kLease.get(bytes));
  std::copy_n(bytes.begin() + kKey, record.key.size(), record.key.begin());
  std::transform(bytes.begin() + kName, bytes.begin() + kData, record.name.begin(),
                 [](std::uint8_t byte) { return static_cast<char>(byte); });
  std::copy(bytes.begin() + kData, bytes.end(), record.data.begin());
  return record;
}

void serialize(const ServiceRecord& record,
               std::span<std::uint8_t, ServiceRecord::kSize> to) noexcept {
  std::fill(to.begin(), to.end(), std::uint8_t{0});
  kServiceId.put(to, record.service_id.value());
  store_gid(record.service_gid, to, kServiceGid);
  kPKey.put(to, record.pkey.value());
  kLease.put(to, record.lease);
  std::copy(record.key.begin(), record.key.end(), to.begin() + kKey);
  std::transform(record.name.begin(), record.name.end(), to.begin() + kName,
                 [](char each) { return static_cast<std::uint8_t>(each); });
  std::copy(record.data.begin(), record.data.end(), to.begin() + kData);
}

}  // namespace wireup::mad
