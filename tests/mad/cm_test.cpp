// SPDX-License-Identifier: BSD-3-Clause
#include "mad/cm.hpp"

#include <gtest/gtest.h>

#include "mad/cm_vectors.hpp"

namespace wireup::mad {
namespace {

template <typename M>
void expect_bytes(const M& value, const Mad& bytes) {
  const Mad written = serialize(value);
  for (std::size_t i = 0; i < kMadSize; ++i) {
    ASSERT_EQ(written[i], bytes[i]) << "byte " << i;
  }
  const auto parsed = parse_cm(bytes);
  ASSERT_TRUE(parsed) << parsed.error().what();
  ASSERT_EQ(kind_of(*parsed), M::kKind);
  EXPECT_EQ(std::get<M>(*parsed), value);
  EXPECT_EQ(serialize(*parsed), bytes);
}

TEST(CmCodec, ReqHasEveryFieldInItsPlace) {
  expect_bytes(req_value(), req_bytes());
}
TEST(CmCodec, MraHasEveryFieldInItsPlace) {
  expect_bytes(mra_value(), mra_bytes());
}
TEST(CmCodec, RejHasEveryFieldInItsPlace) {
  expect_bytes(rej_value(), rej_bytes());
}
TEST(CmCodec, RepHasEveryFieldInItsPlace) {
  expect_bytes(rep_value(), rep_bytes());
}
TEST(CmCodec, RtuHasEveryFieldInItsPlace) {
  expect_bytes(rtu_value(), rtu_bytes());
}
TEST(CmCodec, DreqHasEveryFieldInItsPlace) {
  expect_bytes(dreq_value(), dreq_bytes());
}
TEST(CmCodec, DrepHasEveryFieldInItsPlace) {
  expect_bytes(drep_value(), drep_bytes());
}

TEST(CmCodec, SidrReqHasEveryFieldInItsPlace) {
  expect_bytes(sidr_req_value(), sidr_req_bytes());
}
TEST(CmCodec, SidrRepHasEveryFieldInItsPlace) {
  expect_bytes(sidr_rep_value(), sidr_rep_bytes());
}
TEST(CmCodec, LapHasEveryFieldInItsPlace) {
  expect_bytes(lap_value(), lap_bytes());
}
TEST(CmCodec, AprHasEveryFieldInItsPlace) {
  expect_bytes(apr_value(), apr_bytes());
}

TEST(CmCodec, AnAlternatePathWithoutALocalLidIsNone) {
  Mad bytes = req_bytes();
  bytes[120] = 0;
  bytes[121] = 0;
  const auto parsed = parse_cm(bytes);
  ASSERT_TRUE(parsed);
  EXPECT_FALSE(std::get<Req>(*parsed).alternate.has_value());

  Req req = req_value();
  req.alternate.reset();
  const Mad written = serialize(req);
  for (std::size_t i = 120; i < 163; ++i) {
    EXPECT_EQ(written[i], 0) << "byte " << i;
  }
  EXPECT_EQ(written[163], 0x04) << "SAP stays";
}

TEST(CmCodec, ReservedBitsAreIgnoredAndWrittenAsZero) {
  Mad bytes = req_bytes();
  bytes[28] = 0xFF;                                      // 4
  bytes[48] = bytes[49] = bytes[50] = bytes[51] = 0xFF;  // 24
  bytes[114] |= 0x0F;                                    // 90, low bits
  bytes[115] |= 0xC0;                                    // 91, high bits
  bytes[118] |= 0x07;                                    // 94, low bits
  bytes[119] |= 0x07;                                    // 95, low bits
  bytes[163] |= 0x03;                                    // 139, low bits
  const auto parsed = parse_cm(bytes);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(std::get<Req>(*parsed), req_value());
  EXPECT_EQ(serialize(*parsed), req_bytes());
}

TEST(CmCodec, WhatIsNoCmMessageIsMalformed) {
  const auto expect_malformed = [](std::span<const std::uint8_t> bytes) {
    const auto parsed = parse_cm(bytes);
    ASSERT_FALSE(parsed);
    EXPECT_TRUE(parsed.error().is(Errc::Malformed)) << parsed.error().what();
  };
  const Mad good = req_bytes();
  expect_malformed({});
  expect_malformed(std::span(good).first(255));
  std::array<std::uint8_t, 257> longer{};
  std::copy(good.begin(), good.end(), longer.begin());
  expect_malformed(longer);
  const auto broken = [&](std::size_t at, std::uint8_t value) {
    Mad bytes = good;
    bytes[at] = value;
    expect_malformed(bytes);
  };
  broken(0, 2);      // base version
  broken(1, 0x2C);   // class
  broken(2, 1);      // class version
  broken(3, 0x81);   // method
  broken(16, 0x01);  // attribute 0x0110
  broken(17, 0x0F);
  broken(17, 0x1B);
}

TEST(CmCodec, AnAriLongerThanItsSpaceIsMalformed) {
  Mad bytes = rej_bytes();
  bytes[33] = 72 << 1;
  EXPECT_TRUE(parse_cm(bytes));
  bytes[33] = 73 << 1;
  const auto parsed = parse_cm(bytes);
  ASSERT_FALSE(parsed);
  EXPECT_TRUE(parsed.error().is(Errc::Malformed));
  EXPECT_NE(parsed.error().what().find("73"), std::string_view::npos);
}

TEST(CmCodec, InformationLongerThanItsSpaceIsMalformed) {
  const auto expect_limit = [](Mad bytes, std::size_t at) {
    bytes[at] = 72;
    EXPECT_TRUE(parse_cm(bytes));
    bytes[at] = 73;
    const auto parsed = parse_cm(bytes);
    ASSERT_FALSE(parsed);
    EXPECT_TRUE(parsed.error().is(Errc::Malformed));
    EXPECT_NE(parsed.error().what().find("73"), std::string_view::npos);
  };
  expect_limit(apr_bytes(), 32);
  expect_limit(sidr_rep_bytes(), 29);
}

TEST(CmCodec, StatusesHaveNames) {
  EXPECT_EQ(apr_status_name(5), "IsPrimary");
  EXPECT_EQ(apr_status_sentence(13), "the service level of the alternate path is refused");
  EXPECT_EQ(apr_status_name(14), "Unknown");
  EXPECT_EQ(sidr_status_name(3), "NoQp");
  EXPECT_EQ(sidr_status_sentence(6), "unknown status");
}

TEST(CmCodec, UnknownRejectReasonsAreKeptAsNumbers) {
  Mad bytes = rej_bytes();
  bytes[34] = 0xBE;
  bytes[35] = 0xEF;
  const auto parsed = parse_cm(bytes);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(std::get<Rej>(*parsed).reason, 0xBEEF);
  EXPECT_EQ(rej_reason_name(0xBEEF), "Unknown");
  EXPECT_EQ(rej_reason_name(10), "StaleConnection");
  EXPECT_EQ(rej_reason_name(28), "ConsumerReject");
}

}  // namespace
}  // namespace wireup::mad
