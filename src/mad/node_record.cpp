// SPDX-License-Identifier: BSD-3-Clause
#include "mad/node_record.hpp"

#include <algorithm>

#include "mad/field.hpp"

namespace wireup::mad {
namespace {

constexpr Field kLid{0, 0, 16};
constexpr Field kReserved{2, 0, 16};
constexpr Field kBaseVersion{4, 0, 8};
constexpr Field kClassVersion{5, 0, 8};
constexpr Field kNodeType{6, 0, 8};
constexpr Field kPortCount{7, 0, 8};
constexpr Field kSystemImageGuid{8, 0, 64};
constexpr Field kNodeGuid{16, 0, 64};
constexpr Field kPortGuid{24, 0, 64};
constexpr Field kPartitionCapacity{32, 0, 16};
constexpr Field kDeviceId{34, 0, 16};
constexpr Field kRevision{36, 0, 32};
constexpr Field kLocalPort{40, 0, 8};
constexpr Field kVendorId{41, 0, 24};
constexpr std::size_t kDescription = 44;

static_assert(fields_are_disjoint(std::array{kLid, kReserved, kBaseVersion, kClassVersion,
                                             kNodeType, kPortCount, kSystemImageGuid, kNodeGuid,
                                             kPortGuid, kPartitionCapacity, kDeviceId, kRevision,
                                             kLocalPort, kVendorId},
                                  kDescription));
static_assert(kDescription + NodeRecord::kDescriptionSize == NodeRecord::kSize);

}  // namespace

std::string_view NodeRecord::description_text() const noexcept {
  const auto* const end = std::find(description.begin(), description.end(), '\0');
  return {description.data(), static_cast<std::size_t>(end - description.begin())};
}

Result<NodeRecord> parse_node_record(std::span<const std::uint8_t> bytes) noexcept {
  if (bytes.size() != NodeRecord::kSize) {
    return fail(Error::make(Errc::Malformed, "node record of %zu bytes, expected %zu", bytes.size(),
                            NodeRecord::kSize));
  }
  NodeRecord record;
  record.lid = Lid(static_cast<std::uint16_t>(kLid.get(bytes)));
  record.base_version = static_cast<std::uint8_t>(kBaseVersion.get(bytes));
  record.class_version = static_cast<std::uint8_t>(kClassVersion.get(bytes));
  record.node_type = static_cast<std::uint8_t>(kNodeType.get(bytes));
  record.port_count = static_cast<std::uint8_t>(kPortCount.get(bytes));
  record.system_image_guid = Guid(kSystemImageGuid.get(bytes));
  record.node_guid = Guid(kNodeGuid.get(bytes));
  record.port_guid = Guid(kPortGuid.get(bytes));
  record.partition_capacity = static_cast<std::uint16_t>(kPartitionCapacity.get(bytes));
  record.device_id = static_cast<std::uint16_t>(kDeviceId.get(bytes));
  record.revision = static_cast<std::uint32_t>(kRevision.get(bytes));
  record.local_port = static_cast<std::uint8_t>(kLocalPort.get(bytes));
  record.vendor_id = static_cast<std::uint32_t>(kVendorId.get(bytes));
  std::transform(bytes.begin() + kDescription, bytes.end(), record.description.begin(),
                 [](std::uint8_t byte) { return static_cast<char>(byte); });
  return record;
}

void serialize(const NodeRecord& record, std::span<std::uint8_t, NodeRecord::kSize> to) noexcept {
  std::fill(to.begin(), to.end(), std::uint8_t{0});
  kLid.put(to, record.lid.value());
  kBaseVersion.put(to, record.base_version);
  kClassVersion.put(to, record.class_version);
  kNodeType.put(to, record.node_type);
  kPortCount.put(to, record.port_count);
  kSystemImageGuid.put(to, record.system_image_guid.value());
  kNodeGuid.put(to, record.node_guid.value());
  kPortGuid.put(to, record.port_guid.value());
  kPartitionCapacity.put(to, record.partition_capacity);
  kDeviceId.put(to, record.device_id);
  kRevision.put(to, record.revision);
  kLocalPort.put(to, record.local_port);
  kVendorId.put(to, record.vendor_id);
  std::transform(record.description.begin(), record.description.end(), to.begin() + kDescription,
                 [](char each) { return static_cast<std::uint8_t>(each); });
}

}  // namespace wireup::mad
