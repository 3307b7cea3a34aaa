// SPDX-License-Identifier: BSD-3-Clause
// The C++ interface without a device: ownership and errors.
#include <gtest/gtest.h>

#include <string>
#include <type_traits>

#include "wireup/wireup.hpp"

namespace {

static_assert(!std::is_copy_constructible_v<wireup::Context>);
static_assert(std::is_nothrow_move_constructible_v<wireup::Context>);

static_assert(!std::is_copy_constructible_v<wireup::Path>);
static_assert(std::is_nothrow_move_constructible_v<wireup::Path>);

TEST(CppInterface, AnEmptyPathIsNone) {
  wireup::Path path;
  EXPECT_FALSE(path);
  EXPECT_FALSE(path.info().has_value());
  EXPECT_FALSE(path.is_resolved());
  EXPECT_EQ(path.failed().code(), WIREUP_ERR_INVALID_ARGUMENT);
  const wireup::Path moved = std::move(path);
  EXPECT_EQ(moved.id(), 0U);
}

TEST(CppInterface, OptionsDemandNothingUnlessTold) {
  wireup::ResolveOptions options;
  EXPECT_EQ(options.struct_size, sizeof(wireup_resolve_options_t));
  EXPECT_EQ(options.has_sl, 0);
  EXPECT_EQ(options.demand_sl(0).has_sl, 1);
}

TEST(CppInterface, AConfigHoldsTheDefaults) {
  const wireup::Config config;
  EXPECT_EQ(config.struct_size, sizeof(wireup_config_t));
  EXPECT_EQ(config.rnr_retry_count, 7);
}

TEST(CppInterface, AFailedOpenGivesTheReason) {
  wireup::Config config;
  config.device = "no-such-device";
  wireup::Status status;
  EXPECT_FALSE(wireup::Context::open(config, status).has_value());
  EXPECT_FALSE(status);
  EXPECT_EQ(status.code(), WIREUP_ERR_NO_DEVICE);
  EXPECT_NE(status.text().find("no RDMA device"), std::string::npos) << status.text();
}

TEST(CppInterface, ASuccessHasNoText) {
  const wireup::Status status(WIREUP_OK);
  EXPECT_TRUE(status);
  EXPECT_EQ(status.text(), "");
}

}  // namespace
