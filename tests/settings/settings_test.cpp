// SPDX-License-Identifier: BSD-3-Clause
#include "settings/settings.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <map>

namespace wireup::settings {
namespace {

Environment environment(const std::map<std::string, std::string>& variables) {
  return [variables](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

TEST(Settings, DefaultsAreWhatTheTableSays) {
  const Settings settings;
  EXPECT_EQ(settings.device(), "");
  EXPECT_FALSE(settings.pkey().has_value());
  EXPECT_EQ(settings.sa_bulk(), "auto");
  EXPECT_TRUE(settings.may_resolve());
  EXPECT_EQ(settings.runtime_directory(7), "");
  EXPECT_EQ(settings.cache_directory(), "/dev/shm");
  EXPECT_EQ(settings.cache_entries(), 16384U);
  EXPECT_EQ(settings.service_socket(), "/run/ibacm-unix.sock");
  const std::vector<std::string> sources{"preloaded", "acm_multicast", "ibacm",
                                         "sa_query",  "kernel",        "card"};
  EXPECT_EQ(settings.path_sources(), sources);
  EXPECT_EQ(settings.value(Id::Device).origin, Origin::Default);
  EXPECT_EQ(settings.value(Id::Device).place, "default");
}

TEST(Settings, TheEnvironmentOverridesTheFileAndACallerBoth) {
  auto loaded = layer("device = a\nsa_bulk = never\npkey = 0x8001\n", "/etc/w.conf",
                      environment({{"WIREUP_DEVICE", "b:2"}, {"WIREUP_PKEY", ""}}));
  EXPECT_TRUE(loaded.problems.empty());
  Settings& settings = loaded.settings;
  EXPECT_EQ(settings.value(Id::Device), (Value{"b:2", Origin::Environment, "WIREUP_DEVICE"}));
  EXPECT_EQ(settings.value(Id::SaBulk), (Value{"never", Origin::File, "/etc/w.conf:2"}));
  // An empty variable is none.
  EXPECT_EQ(settings.value(Id::PKey), (Value{"0x8001", Origin::File, "/etc/w.conf:3"}));
  EXPECT_EQ(settings.pkey(), wireup::PKey(0x8001));
  ASSERT_TRUE(settings.set(Id::Device, "c", Origin::Caller, "--device"));
  EXPECT_EQ(settings.value(Id::Device), (Value{"c", Origin::Caller, "--device"}));
}

TEST(Settings, AWrongValueLeavesTheOneBeforeItAndIsReportedWithItsPlace) {
  const auto loaded = layer("sa_bulk = never\ncache_entries = many\n", "f",
                            environment({{"WIREUP_SA_BULK", "perhaps"}}));
  EXPECT_EQ(loaded.settings.sa_bulk(), "never");
  EXPECT_EQ(loaded.settings.cache_entries(), 16384U);
  ASSERT_EQ(loaded.problems.size(), 2U);
  EXPECT_TRUE(loaded.problems[0].what().starts_with("f:2: 'cache_entries' of 'many'"));
  EXPECT_EQ(loaded.problems[1].what(),
            "WIREUP_SA_BULK: 'sa_bulk' of 'perhaps': use one of auto, always, never");
}

TEST(Settings, TheUsersNumberInTheRuntimeDirectory) {
  Settings settings;
  ASSERT_TRUE(settings.set(Id::RuntimeDirectory, "/run/u%u/w%u", Origin::Caller, "x"));
  EXPECT_EQ(settings.runtime_directory(1000), "/run/u1000/w1000");
}

class LoadedSettings : public testing::Test {
 protected:
  void SetUp() override {
    for (const Spec& spec : table()) {
      unsetenv(std::string(spec.variable).c_str());
    }
    file_ = testing::TempDir() + "wireup-settings-" + std::to_string(getpid()) + ".conf";
    setenv(kFileVariable, file_.c_str(), 1);
  }
  void TearDown() override {
    unsetenv(kFileVariable);
    unlink(file_.c_str());
  }
  std::string file_;
};

TEST_F(LoadedSettings, FromAFileThatIsNamed) {
  std::ofstream(file_) << "device = x:3\n";
  const auto loaded = load();
  EXPECT_TRUE(loaded.problems.empty());
  EXPECT_EQ(loaded.file, file_);
  EXPECT_EQ(loaded.settings.value(Id::Device).place, file_ + ":1");
}

TEST_F(LoadedSettings, AFileThatIsNamedMustBeThere) {
  const auto loaded = load();
  ASSERT_EQ(loaded.problems.size(), 1U);
  EXPECT_TRUE(loaded.problems[0].is(Errc::NotFound));
  EXPECT_EQ(loaded.settings, Settings());
}

}  // namespace
}  // namespace wireup::settings
