// SPDX-License-Identifier: BSD-3-Clause
// Which carrier is taken, and what is said about it: the verbs on an emulated HCA, the MAD device
// played by a table of calls.
#include "cm/driver/carrier.hpp"

#include <gtest/gtest.h>

#include "softhca/verbs/two_hosts.hpp"
#include "umad/fake_umad.hpp"

namespace wireup::cm {
namespace {

using umad::test::FakeUmad;

TEST(CarrierNames, AreThoseOfTheSetting) {
  EXPECT_EQ(carrier_name(CarrierKind::Ud), "ud");
  EXPECT_EQ(carrier_name(CarrierKind::Gsi), "gsi");
  EXPECT_EQ(carrier_of("ud"), CarrierKind::Ud);
  EXPECT_EQ(carrier_of("gsi"), CarrierKind::Gsi);
  EXPECT_EQ(carrier_of("auto"), std::nullopt);
  EXPECT_EQ(carrier_of(""), std::nullopt);
}

class CarrierChoice : public softhca::test::TwoHosts {
 protected:
  static Carrier::Options options() {
    Carrier::Options options;
    options.ud.qkey = QKey(0x1234);
    options.gsi.device = "softhca0";
    options.gsi.kernel_cm = "/nonexistent/ib_cm";
    return options;
  }
  /// A port that the device does not have: nothing can be opened there.
  static constexpr std::uint8_t kNoPort = 9;

  static bool says(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
  }
};

TEST_F(CarrierChoice, AQueuePairOfOurOwnComesFirst) {
  run(
      [](int) {
        FakeUmad fake;
        const auto device = verbs::Device::open("");
        CHILD_CHECK(device.has_value());
        const auto carrier = Carrier::open(*device, options(), FakeUmad::ops());
        CHILD_CHECK(carrier.has_value());
        CHILD_CHECK(carrier->kind() == CarrierKind::Ud);
        CHILD_CHECK(carrier->qpn() != Qpn(1));
        CHILD_CHECK(says(carrier->reason(), "ud: "));
        CHILD_CHECK(says(carrier->reason(), "no privilege"));
        CHILD_CHECK(fake.ports_open == 0);
      },
      [](int) {});
}

TEST_F(CarrierChoice, TheNextOneIsTakenWithTheReason) {
  run(
      [](int) {
        FakeUmad fake;
        const auto device = verbs::Device::open("");
        CHILD_CHECK(device.has_value());
        Carrier::Options wanted = options();
        wanted.ud.port = kNoPort;
        const auto carrier = Carrier::open(*device, wanted, FakeUmad::ops());
        CHILD_CHECK(carrier.has_value());
        CHILD_CHECK(carrier->kind() == CarrierKind::Gsi);
        CHILD_CHECK(carrier->qpn() == Qpn(1));
        CHILD_CHECK(says(carrier->reason(), "gsi: "));
        CHILD_CHECK(says(carrier->reason(), "since others cannot be had: ud: "));
        CHILD_CHECK(fake.ports_open == 1);
      },
      [](int) {});
}

TEST_F(CarrierChoice, AForcedOneIsTakenOrNone) {
  run(
      [](int) {
        FakeUmad fake;
        const auto device = verbs::Device::open("");
        CHILD_CHECK(device.has_value());
        Carrier::Options wanted = options();
        wanted.forced = CarrierKind::Gsi;
        wanted.forced_by = "WIREUP_CM_CARRIER";
        const auto carrier = Carrier::open(*device, wanted, FakeUmad::ops());
        CHILD_CHECK(carrier.has_value());
        CHILD_CHECK(carrier->kind() == CarrierKind::Gsi);
        CHILD_CHECK(says(carrier->reason(), "as WIREUP_CM_CARRIER says"));

        wanted.forced = CarrierKind::Ud;
        wanted.ud.port = kNoPort;
        const auto refused = Carrier::open(*device, wanted, FakeUmad::ops());
        CHILD_CHECK(!refused.has_value());
        CHILD_CHECK(fake.ports_open == 1);
      },
      [](int) {});
}

}  // namespace
}  // namespace wireup::cm
