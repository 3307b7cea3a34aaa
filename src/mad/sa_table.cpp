// SPDX-License-Identifier: BSD-3-Clause
#include "mad/sa_table.hpp"

#include "mad/field.hpp"
#include "mad/sa.hpp"

namespace wireup::mad {
namespace {

constexpr Field kAttributeOffset{44, 0, 16};
constexpr std::size_t kOffsetUnit = 8;

template <typename Record, typename Parse>
Result<std::vector<Record>> records_of(const SaTable& table, Parse parse) {
  std::vector<Record> records;
  if (table.payload.size() < Record::kSize) {
    // Shorter than one record: there is none, whatever the stride says.
    return records;
  }
  // One record alone needs no offset, and some administrators give none.
  const std::size_t stride =
      table.stride == 0 && table.payload.size() < 2 * Record::kSize ? Record::kSize : table.stride;
  if (stride < Record::kSize) {
    return fail(Error::make(Errc::Malformed,
                            "an SA table of records of attribute 0x%04x, %zu bytes each, says that "
                            "they follow each other after %zu bytes",
                            table.header.attribute_id, Record::kSize, stride));
  }
  records.reserve((table.payload.size() - Record::kSize) / stride + 1);
  for (std::size_t at = 0; at + Record::kSize <= table.payload.size(); at += stride) {
    auto record = parse(table.payload.subspan(at, Record::kSize));
    if (!record) {
      return fail(record.error());
    }
    records.push_back(*record);
  }
  return records;
}

}  // namespace

Result<SaTable> parse_sa_table(std::span<const std::uint8_t> bytes) noexcept {
  if (bytes.size() < SaMad::kDataOffset) {
    return fail(Error::make(Errc::Malformed, "SA table of %zu bytes, its header has %zu",
                            bytes.size(), SaMad::kDataOffset));
  }
  const Result<Header> header = parse_header(bytes);
  if (!header) {
    return fail(header.error());
  }
  if (header->mgmt_class != static_cast<std::uint8_t>(MgmtClass::SubnAdm) ||
      header->class_version != kSaClassVersion) {
    return fail(Error::make(Errc::Malformed, "SA table of class 0x%02x version %u",
                            header->mgmt_class, header->class_version));
  }
  SaTable table;
  table.header = *header;
  table.stride = static_cast<std::size_t>(kAttributeOffset.get(bytes)) * kOffsetUnit;
  table.payload = bytes.subspan(SaMad::kDataOffset);
  return table;
}

Result<std::vector<PathRecord>> sa_path_records(const SaTable& table) {
  return records_of<PathRecord>(table, parse_path_record);
}

Result<std::vector<NodeRecord>> sa_node_records(const SaTable& table) {
  return records_of<NodeRecord>(table, parse_node_record);
}

Result<std::vector<ServiceRecord>> sa_service_records(const SaTable& table) {
  return records_of<ServiceRecord>(table, parse_service_record);
}

}  // namespace wireup::mad
