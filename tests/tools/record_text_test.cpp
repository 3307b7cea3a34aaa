// SPDX-License-Identifier: BSD-3-Clause
#include "record_text.hpp"

#include <gtest/gtest.h>

#include "tools/sample_record.hpp"

namespace wireup::tool {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

TEST(RecordText, CodesInTheirUnits) {
  EXPECT_EQ(mtu_text(4), "2048");
  EXPECT_EQ(mtu_text(9), "code 9");
  EXPECT_EQ(rate_text(2), "2.5");
  EXPECT_EQ(rate_text(7), "40");
  EXPECT_EQ(rate_text(1), "code 1");
  EXPECT_EQ(pkey_text(PKey(0x8001)), "0x8001");
  EXPECT_EQ(guid_text(Guid(0x5b00)), "0x0000000000005b00");
}

TEST(RecordText, Ages) {
  EXPECT_EQ(age_text(std::nullopt), "-");
  EXPECT_EQ(age_text(milliseconds(250)), "0.2s");
  EXPECT_EQ(age_text(milliseconds(59999)), "59.9s");
  EXPECT_EQ(age_text(seconds(60)), "1m00s");
  EXPECT_EQ(age_text(minutes(59) + seconds(59)), "59m59s");
  EXPECT_EQ(age_text(hours(5) + minutes(7)), "5h07m");
  EXPECT_EQ(age_text(hours(52)), "2d04h");
  EXPECT_EQ(age_json(milliseconds(1500)), 1.5);
  EXPECT_TRUE(age_json(std::nullopt).is_null());
}

TEST(RecordText, ARecord) {
  EXPECT_EQ(record_text(sample_record()),
            "dgid fe80:0000:0000:0000:5b00:0000:0000:0201 dlid 4 sl 3 mtu 2048 rate 40 pkey "
            "0xffff");
  const auto json = record_json(sample_record());
  EXPECT_EQ(json["sgid"], "fe80:0000:0000:0000:5b00:0000:0000:0101");
  EXPECT_EQ(json["slid"], 2);
  EXPECT_EQ(json["mtu"], 2048);
  EXPECT_EQ(json["rate_gbps"], 40.0);
  EXPECT_EQ(json["rate_code"], 7);
  EXPECT_EQ(json["reversible"], true);
  mad::PathRecord odd = sample_record();
  odd.mtu = 9;
  EXPECT_TRUE(record_json(odd)["mtu"].is_null());
}

}  // namespace
}  // namespace wireup::tool
