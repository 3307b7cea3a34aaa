// SPDX-License-Identifier: BSD-3-Clause
#include "resolve_report.hpp"

#include <gtest/gtest.h>

#include "tools/sample_record.hpp"

namespace wireup::tool {
namespace {

Target target() {
  return *parse_target("node2", TargetKind::Any);
}

acm::NodePath path() {
  return {sample_record(),
          "sa_query",
          "wireup serve",
          "softhca0 port 1",
          std::chrono::milliseconds(1500),
          3U};
}

acm::NodeRefusal refusal() {
  return {"service", "softhca0 port 1",
          Error::make(Errc::Timeout, "nobody answered for name node2")};
}

TEST(ResolveReport, OneLineAPath) {
  EXPECT_EQ(resolve_line(target(), path()),
            "node2 dgid fe80:0000:0000:0000:5b00:0000:0000:0201 dlid 4 sl 3 mtu 2048 rate 40 pkey "
            "0xffff source sa_query age 1.5s generation 3 by wireup serve on softhca0 port 1");
  acm::NodePath unknown = path();
  unknown.age.reset();
  unknown.generation.reset();
  unknown.place.clear();
  EXPECT_TRUE(resolve_line(target(), unknown)
                  .ends_with(" source sa_query age - generation - by wireup serve"));
}

TEST(ResolveReport, AFailureNamesStepPlaceAndReason) {
  EXPECT_EQ(failure_line(target(), refusal()),
            "node2: service on softhca0 port 1: nobody answered for name node2");
}

TEST(ResolveReport, Json) {
  const auto good = resolve_json(target(), path());
  EXPECT_EQ(good["target"], "node2");
  EXPECT_EQ(good["ok"], true);
  EXPECT_EQ(good["age_seconds"], 1.5);
  EXPECT_EQ(good["generation"], 3);
  EXPECT_EQ(good["path"]["dlid"], 4);
  const auto bad = resolve_json(target(), tl::unexpected(refusal()));
  EXPECT_EQ(bad["ok"], false);
  EXPECT_EQ(bad["step"], "service");
  EXPECT_EQ(bad["kind"], "Timeout");
  EXPECT_EQ(bad["error"], "nobody answered for name node2");
  EXPECT_FALSE(bad.contains("path"));
}

}  // namespace
}  // namespace wireup::tool
