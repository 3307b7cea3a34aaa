// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "mad/sa.hpp"
#include "mad/sa_table.hpp"

namespace wireup::mad {
namespace {

/// Bytes at an offset, as the tables of IBTA vol 1 (13.4.8, 15.2.5) place them.
template <typename Bytes>
void put(Bytes& to, std::size_t at, std::initializer_list<std::uint8_t> bytes) {
  std::copy(bytes.begin(), bytes.end(), to.begin() + static_cast<std::ptrdiff_t>(at));
}

Gid gid_of(std::uint8_t last) {
  Gid::Bytes bytes{0xFE, 0x80};
  bytes[15] = last;
  return Gid(bytes);
}

template <std::size_t N>
std::array<char, N> text(const char* from) {
  std::array<char, N> result{};
  std::memcpy(result.data(), from, std::strlen(from));
  return result;
}

NodeRecord sample_node() {
  NodeRecord record;
  record.lid = Lid(0x1234);
  record.base_version = 1;
  record.class_version = 2;
  record.node_type = kNodeChannelAdapter;
  record.port_count = 3;
  record.system_image_guid = Guid(0x1111222233334444);
  record.node_guid = Guid(0x5555666677778888);
  record.port_guid = Guid(0x9999AAAABBBBCCCC);
  record.partition_capacity = 0x0080;
  record.device_id = 0xABCD;
  record.revision = 0x01020304;
  record.local_port = 7;
  record.vendor_id = 0x5B5C5D;
  record.description = text<64>("H1 HCA-1");
  return record;
}

std::array<std::uint8_t, 108> sample_node_bytes() {
  std::array<std::uint8_t, 108> bytes{};
  put(bytes, 0, {0x12, 0x34, 0, 0, 1, 2, 1, 3});
  put(bytes, 8, {0x11, 0x11, 0x22, 0x22, 0x33, 0x33, 0x44, 0x44});
  put(bytes, 16, {0x55, 0x55, 0x66, 0x66, 0x77, 0x77, 0x88, 0x88});
  put(bytes, 24, {0x99, 0x99, 0xAA, 0xAA, 0xBB, 0xBB, 0xCC, 0xCC});
  put(bytes, 32, {0x00, 0x80, 0xAB, 0xCD, 1, 2, 3, 4, 7, 0x5B, 0x5C, 0x5D});
  put(bytes, 44, {'H', '1', ' ', 'H', 'C', 'A', '-', '1'});
  return bytes;
}

TEST(NodeRecord, BytesByOffset) {
  std::array<std::uint8_t, 108> bytes{};
  bytes.fill(0xEE);
  serialize(sample_node(), bytes);
  EXPECT_EQ(bytes, sample_node_bytes());
  auto with_reserved = sample_node_bytes();
  put(with_reserved, 2, {0xFF, 0xFF});
  const auto parsed = parse_node_record(with_reserved);
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(*parsed, sample_node());
  EXPECT_EQ(parsed->description_text(), "H1 HCA-1");
}

TEST(NodeRecord, ADescriptionMayFillItsField) {
  NodeRecord record;
  record.description.fill('x');
  EXPECT_EQ(record.description_text(), std::string(64, 'x'));
  EXPECT_EQ(NodeRecord{}.description_text(), "");
}

ServiceRecord sample_service() {
  ServiceRecord record;
  record.service_id = ServiceId(0x0102030405060708);
  record.service_gid = gid_of(0x77);
  record.pkey = PKey(0x8001);
  record.lease = 0xFFFFFFFF;
  record.key = {1, 2, 3};
  record.name = text<64>("DAPL Address Translation Service");
  record.data = {0xD0, 0xD1};
  record.data[63] = 0xDF;
  return record;
}

std::array<std::uint8_t, 176> sample_service_bytes() {
  std::array<std::uint8_t, 176> bytes{};
  put(bytes, 0, {1, 2, 3, 4, 5, 6, 7, 8});
  put(bytes, 8, {0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x77});
  put(bytes, 24, {0x80, 0x01, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF});
  put(bytes, 32, {1, 2, 3});
  std::memcpy(bytes.data() + 48, "DAPL Address Translation Service", 32);
  put(bytes, 112, {0xD0, 0xD1});
  bytes[175] = 0xDF;
  return bytes;
}

TEST(ServiceRecord, BytesByOffset) {
  std::array<std::uint8_t, 176> bytes{};
  bytes.fill(0xEE);
  serialize(sample_service(), bytes);
  EXPECT_EQ(bytes, sample_service_bytes());
  auto with_reserved = sample_service_bytes();
  put(with_reserved, 26, {0xFF, 0xFF});
  const auto parsed = parse_service_record(with_reserved);
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(*parsed, sample_service());
  EXPECT_EQ(parsed->name_text(), "DAPL Address Translation Service");
}

std::array<std::uint8_t, 80> notice_bytes(std::uint16_t trap_number) {
  std::array<std::uint8_t, 80> bytes{};
  put(bytes, 0, {0x83, 0x00, 0x00, 0x04});  // generic, type 3, producer class manager
  put(bytes, 4,
      {static_cast<std::uint8_t>(trap_number >> 8U),
       static_cast<std::uint8_t>(trap_number & 0xFFU)});
  put(bytes, 6, {0x00, 0x07});  // issuer's LID
  put(bytes, 8, {0xC0, 0x05});  // toggle, count 0x4005
  put(bytes, 10, {0x11, 0x12, 0x21, 0x22, 0x31, 0x32});
  put(bytes, 16, {0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xAA});
  put(bytes, 63, {0x99});
  put(bytes, 64, {0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xBB});
  return bytes;
}

TEST(Notice, BytesByOffset) {
  const auto bytes = notice_bytes(64);
  const auto parsed = parse_notice(bytes);
  ASSERT_TRUE(parsed.has_value());
  EXPECT_TRUE(parsed->is_generic);
  EXPECT_EQ(parsed->type, 3);
  EXPECT_EQ(parsed->producer, 4U);
  EXPECT_EQ(parsed->trap_number, trap::kInService);
  EXPECT_EQ(parsed->issuer_lid, Lid(7));
  EXPECT_TRUE(parsed->toggle);
  EXPECT_EQ(parsed->count, 0x4005);
  EXPECT_EQ(parsed->details[0], 0x11);
  EXPECT_EQ(parsed->details[53], 0x99);
  EXPECT_EQ(parsed->issuer_gid, gid_of(0xBB));
  std::array<std::uint8_t, 80> again{};
  again.fill(0xEE);
  serialize(*parsed, again);
  EXPECT_EQ(again, bytes);
}

TEST(Notice, WhatItIsAbout) {
  for (const std::uint16_t number : std::initializer_list<std::uint16_t>{64, 65, 66, 67}) {
    const auto parsed = parse_notice(notice_bytes(number));
    EXPECT_EQ(parsed->subject_gid(), gid_of(0xAA)) << number;
    EXPECT_FALSE(parsed->subject_lid().has_value()) << number;
  }
  const auto link = parse_notice(notice_bytes(128));
  EXPECT_EQ(link->subject_lid(), Lid(0x1112));
  EXPECT_FALSE(link->subject_gid().has_value());
  const auto capability = parse_notice(notice_bytes(144));
  EXPECT_EQ(capability->subject_lid(), Lid(0x2122));
  for (const std::uint16_t number :
       std::initializer_list<std::uint16_t>{0, 63, 68, 129, 256, 65535}) {
    const auto parsed = parse_notice(notice_bytes(number));
    EXPECT_FALSE(parsed->subject_gid().has_value() || parsed->subject_lid().has_value()) << number;
  }
  // A vendor's own number 64 is no trap 64.
  auto vendor = notice_bytes(64);
  vendor[0] &= 0x7F;
  EXPECT_FALSE(parse_notice(vendor)->subject_gid().has_value());
}

std::array<std::uint8_t, 36> sample_inform_bytes() {
  std::array<std::uint8_t, 36> bytes{};
  put(bytes, 0, {0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x66});
  put(bytes, 16, {0x12, 0x34, 0x56, 0x78});
  put(bytes, 22, {1, 1, 0xFF, 0xFE, 0x00, 0x40});
  put(bytes, 28, {0xAB, 0xCD, 0xEF, 0x1F});
  put(bytes, 33, {0x01, 0x02, 0x03});
  return bytes;
}

TEST(InformInfo, BytesByOffset) {
  auto bytes = sample_inform_bytes();
  put(bytes, 20, {0xFF, 0xFF});
  bytes[31] |= 0xE0;
  bytes[32] = 0xFF;
  const auto parsed = parse_inform_info(bytes);
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(parsed->gid, gid_of(0x66));
  EXPECT_EQ(parsed->lid_begin, Lid(0x1234));
  EXPECT_EQ(parsed->lid_end, Lid(0x5678));
  EXPECT_TRUE(parsed->is_generic);
  EXPECT_TRUE(parsed->subscribe);
  EXPECT_EQ(parsed->type, 0xFFFE);
  EXPECT_EQ(parsed->trap_number, 64);
  EXPECT_EQ(parsed->qpn, Qpn(0xABCDEF));
  EXPECT_EQ(parsed->response_time, 31);
  EXPECT_EQ(parsed->producer, 0x010203U);
  std::array<std::uint8_t, 36> again{};
  again.fill(0xEE);
  serialize(*parsed, again);
  EXPECT_EQ(again, sample_inform_bytes());
}

TEST(InformInfo, ASubscriptionByOffset) {
  Mad expected{};
  put(expected, 0, {1, 3, 2, 2});
  put(expected, 8, {0, 0, 0, 0, 0x11, 0x22, 0x33, 0x44});
  put(expected, 16, {0x00, 0x03});
  put(expected, 56 + 16, {0xFF, 0xFF});               // all LIDs
  put(expected, 56 + 22, {1, 1, 0xFF, 0xFF, 0, 65});  // generic, subscribe, any type, trap 65
  put(expected, 56 + 28, {0, 0, 1, 18});              // QP 1, answered within 1 s
  put(expected, 56 + 33, {0xFF, 0xFF, 0xFF});         // any producer
  Mad bytes;
  serialize(make_sa_request(Method::Set, Tid(0x11223344), subscription_to(trap::kOutOfService)),
            bytes);
  EXPECT_EQ(bytes, expected);
}

TEST(SaMad, AReportCarriesItsNoticeAtOffset56) {
  Mad bytes{};
  put(bytes, 0, {1, 3, 2, 6});
  put(bytes, 16, {0x00, 0x02});
  const auto notice = notice_bytes(65);
  std::copy(notice.begin(), notice.end(), bytes.begin() + 56);
  const auto sa = parse_sa_mad(bytes);
  ASSERT_TRUE(sa.has_value());
  EXPECT_EQ(sa->header.method, static_cast<std::uint8_t>(Method::Report));
  EXPECT_EQ(sa->header.attribute_id, kAttributeNotice);
  const auto parsed = sa_notice(*sa);
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(parsed->subject_gid(), gid_of(0xAA));
}

TEST(SaMad, TableRequestsByOffset) {
  Mad bytes;
  NodeRecord node = sample_node();
  serialize(make_sa_request(Method::GetTable, Tid(1), node, node_mask::kDescription), bytes);
  EXPECT_EQ(bytes[3], 0x12);
  EXPECT_EQ(bytes[17], 0x11);
  EXPECT_EQ(bytes[54], 0x40);
  const auto expected = sample_node_bytes();
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), bytes.begin() + 56));
  serialize(make_sa_request(Method::GetTable, Tid(1), sample_service(), service_mask::kName),
            bytes);
  EXPECT_EQ(bytes[17], 0x31);
  EXPECT_EQ(bytes[55], 0x40);
  const auto service = sample_service_bytes();
  EXPECT_TRUE(std::equal(service.begin(), service.end(), bytes.begin() + 56));
}

template <typename Parse>
void only_of_length(std::size_t right, Parse parse) {
  const std::vector<std::uint8_t> bytes(right + 20, 0);
  for (std::size_t size = 0; size <= bytes.size(); ++size) {
    const auto parsed = parse(std::span(bytes).first(size));
    EXPECT_EQ(parsed.has_value(), size == right) << size;
    if (!parsed) {
      EXPECT_TRUE(parsed.error().is(Errc::Malformed));
    }
  }
}

TEST(SaRecords, OtherLengthsAreMalformed) {
  only_of_length(108, parse_node_record);
  only_of_length(176, parse_service_record);
  only_of_length(80, parse_notice);
  only_of_length(36, parse_inform_info);
}

/// The answer to a GetTable as the kernel puts it together: header, then records `stride` apart.
std::vector<std::uint8_t> table_bytes(std::uint16_t attribute, std::size_t offset_units,
                                      const std::vector<std::vector<std::uint8_t>>& records,
                                      std::size_t stride, std::size_t padding = 0) {
  std::vector<std::uint8_t> bytes(56, 0);
  put(bytes, 0, {1, 3, 2, 0x92});
  put(bytes, 8, {0, 0, 0, 0, 0, 0, 0, 9});
  put(bytes, 16,
      {static_cast<std::uint8_t>(attribute >> 8U), static_cast<std::uint8_t>(attribute & 0xFFU)});
  put(bytes, 24, {1, 1, 0xFF, 0});
  put(bytes, 44,
      {static_cast<std::uint8_t>(offset_units >> 8U),
       static_cast<std::uint8_t>(offset_units & 0xFFU)});
  for (const auto& record : records) {
    bytes.insert(bytes.end(), record.begin(), record.end());
    bytes.resize(bytes.size() + stride - record.size(), 0xEE);
  }
  bytes.resize(bytes.size() + padding, 0xEE);
  return bytes;
}

std::vector<std::uint8_t> path_bytes(std::uint8_t last, std::uint8_t sl) {
  std::vector<std::uint8_t> bytes(64, 0);
  put(bytes, 8, {0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last});
  put(bytes, 40, {0, last});
  bytes[53] = sl;
  return bytes;
}

TEST(SaTable, RecordsAtTheirStride) {
  for (const std::size_t units : {8U, 9U, 20U}) {
    const auto bytes = table_bytes(0x35, units, {path_bytes(1, 0), path_bytes(2, 3)}, units * 8);
    const auto table = parse_sa_table(bytes);
    ASSERT_TRUE(table.has_value());
    EXPECT_EQ(table->header.method, 0x92);
    EXPECT_EQ(table->header.tid, Tid(9));
    EXPECT_EQ(table->stride, units * 8);
    const auto records = sa_path_records(*table);
    ASSERT_TRUE(records.has_value()) << records.error().what();
    ASSERT_EQ(records->size(), 2U);
    EXPECT_EQ((*records)[0].dgid, gid_of(1));
    EXPECT_EQ((*records)[1].dlid, Lid(2));
    EXPECT_EQ((*records)[1].sl, Sl(3));
  }
}

TEST(SaTable, NodesAndServices) {
  const auto node = sample_node_bytes();
  const auto nodes =
      table_bytes(0x11, 14, {{node.begin(), node.end()}, {node.begin(), node.end()}}, 112);
  const auto node_records = sa_node_records(*parse_sa_table(nodes));
  ASSERT_TRUE(node_records.has_value());
  EXPECT_EQ(*node_records, std::vector<NodeRecord>(2, sample_node()));
  const auto service = sample_service_bytes();
  const auto services = table_bytes(0x31, 22, {{service.begin(), service.end()}}, 176);
  const auto service_records = sa_service_records(*parse_sa_table(services));
  ASSERT_TRUE(service_records.has_value());
  EXPECT_EQ(*service_records, std::vector<ServiceRecord>(1, sample_service()));
}

TEST(SaTable, PaddingIsNoRecord) {
  for (std::size_t padding = 0; padding < 64; ++padding) {
    const auto bytes = table_bytes(0x35, 8, {path_bytes(1, 0), path_bytes(2, 3)}, 64, padding);
    EXPECT_EQ(sa_path_records(*parse_sa_table(bytes))->size(), 2U) << padding;
  }
  EXPECT_TRUE(sa_path_records(*parse_sa_table(table_bytes(0x35, 0, {}, 0)))->empty());
  EXPECT_TRUE(sa_path_records(*parse_sa_table(table_bytes(0x35, 8, {}, 0, 63)))->empty());
}

TEST(SaTable, OneRecordNeedsNoStride) {
  const auto bytes = table_bytes(0x35, 0, {path_bytes(1, 0)}, 64, 63);
  EXPECT_EQ(sa_path_records(*parse_sa_table(bytes))->size(), 1U);
}

TEST(SaTable, AStrideShorterThanARecordIsMalformed) {
  for (const std::size_t units : {0U, 1U, 7U}) {
    const auto bytes = table_bytes(0x35, units, {path_bytes(1, 0), path_bytes(2, 3)}, 64);
    const auto records = sa_path_records(*parse_sa_table(bytes));
    ASSERT_FALSE(records.has_value()) << units;
    EXPECT_TRUE(records.error().is(Errc::Malformed));
  }
}

TEST(SaTable, StrangersAreMalformed) {
  const auto whole = table_bytes(0x35, 8, {path_bytes(1, 0)}, 64);
  for (std::size_t size = 0; size < 56; ++size) {
    EXPECT_FALSE(parse_sa_table(std::span(whole).first(size)).has_value()) << size;
  }
  for (const std::size_t at : {0U, 1U, 2U}) {
    auto bytes = whole;
    bytes[at] = 9;
    EXPECT_FALSE(parse_sa_table(bytes).has_value()) << at;
  }
}

RC_GTEST_PROP(SaTableProperty, AnyBytesGiveNoMoreRecordsThanFit,
              (const std::vector<std::uint8_t>& payload, std::uint8_t units)) {
  auto bytes = table_bytes(0x35, units, {}, 0);
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  const auto table = parse_sa_table(bytes);
  RC_ASSERT(table.has_value());
  if (const auto records = sa_path_records(*table)) {
    RC_ASSERT(records->size() * PathRecord::kSize <= payload.size());
  }
  if (const auto records = sa_node_records(*table)) {
    RC_ASSERT(records->size() * NodeRecord::kSize <= payload.size());
  }
}

template <std::size_t N, typename Parse>
void comes_back(Parse parse, const std::vector<std::size_t>& reserved) {
  auto bytes =
      *rc::gen::container<std::vector<std::uint8_t>>(N, rc::gen::arbitrary<std::uint8_t>());
  const auto parsed = parse(bytes);
  RC_ASSERT(parsed.has_value());
  std::array<std::uint8_t, N> again{};
  serialize(*parsed, again);
  for (const std::size_t at : reserved) {
    bytes[at] = 0;
  }
  RC_ASSERT(std::equal(again.begin(), again.end(), bytes.begin()));
}

RC_GTEST_PROP(SaRecordsProperty, AnyBytesParseAndComeBack, ()) {
  comes_back<108>(parse_node_record, {2, 3});
  comes_back<176>(parse_service_record, {26, 27});
  comes_back<80>(parse_notice, {});
}

}  // namespace
}  // namespace wireup::mad
