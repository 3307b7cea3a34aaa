// SPDX-License-Identifier: BSD-3-Clause
#include "settings/table.hpp"

#include <gtest/gtest.h>

#include <set>

namespace wireup::settings {
namespace {

std::string kept(Id id, std::string_view text) {
  const auto value = normalise(spec_of(id), text);
  return value ? *value : "refused";
}

TEST(SettingsTable, NamesAndVariablesAreUnique) {
  std::set<std::string_view> names;
  std::set<std::string_view> variables;
  for (const Spec& spec : table()) {
    EXPECT_TRUE(names.insert(spec.name).second) << spec.name;
    EXPECT_TRUE(variables.insert(spec.variable).second) << spec.variable;
    EXPECT_TRUE(spec.variable.starts_with("WIREUP_")) << spec.variable;
    EXPECT_FALSE(spec.help.empty()) << spec.name;
    EXPECT_EQ(find(spec.name), &spec);
  }
  EXPECT_EQ(find("devices"), nullptr);
  EXPECT_EQ(find(""), nullptr);
}

TEST(SettingsTable, DefaultsAreValuesInTheirOneSpelling) {
  for (const Spec& spec : table()) {
    if (!spec.usual.empty()) {
      EXPECT_EQ(kept(spec.id, spec.usual), spec.usual) << spec.name;
    }
  }
}

TEST(SettingsTable, Ports) {
  EXPECT_EQ(kept(Id::Device, " mlx5_0 "), "mlx5_0");
  EXPECT_EQ(kept(Id::Device, "mlx5_0:255"), "mlx5_0:255");
  for (const char* wrong : {"", ":1", "mlx5_0:", "mlx5_0:0", "mlx5_0:256", "mlx5_0:+1", "a b",
                            "../umad0", "mlx5_0:1x"}) {
    EXPECT_EQ(kept(Id::Device, wrong), "refused") << wrong;
  }
}

TEST(SettingsTable, PartitionKeys) {
  EXPECT_EQ(kept(Id::PKey, "0x8001"), "0x8001");
  EXPECT_EQ(kept(Id::PKey, "0XFFFF"), "0xffff");
  EXPECT_EQ(kept(Id::PKey, "1"), "0x0001");
  for (const char* wrong : {"", "0", "0x8000", "0x10000", "-1", "default", "0x"}) {
    EXPECT_EQ(kept(Id::PKey, wrong), "refused") << wrong;
  }
}

TEST(SettingsTable, ListsOfSourcesKeepTheirOrderAndGetOneSpelling) {
  EXPECT_EQ(kept(Id::PathSources, "sa, acm ,card"), "sa_query,acm_multicast,card");
  for (const char* wrong : {"", "sa,", ",sa", "sa,sa_query", "sa sa", "dns", "SA"}) {
    EXPECT_EQ(kept(Id::PathSources, wrong), "refused") << wrong;
  }
}

TEST(SettingsTable, WordsNumbersAndYesNo) {
  EXPECT_EQ(kept(Id::SaBulk, "never"), "never");
  EXPECT_EQ(kept(Id::SaBulk, "sometimes"), "refused");
  EXPECT_EQ(kept(Id::CacheEntries, "64"), "64");
  EXPECT_EQ(kept(Id::CacheEntries, "0064"), "64");
  EXPECT_EQ(kept(Id::CacheEntries, "16777216"), "16777216");
  for (const char* wrong : {"63", "16777217", "99999999999999999999999", "1e3", "-64", ""}) {
    EXPECT_EQ(kept(Id::CacheEntries, wrong), "refused") << wrong;
  }
  EXPECT_EQ(kept(Id::MayResolve, "True"), "yes");
  EXPECT_EQ(kept(Id::MayResolve, "0"), "no");
  EXPECT_EQ(kept(Id::MayResolve, "2"), "refused");
}

TEST(SettingsTable, PathsAreAbsoluteAndPrintable) {
  EXPECT_EQ(kept(Id::ServiceSocket, "/run/a socket"), "/run/a socket");
  EXPECT_EQ(kept(Id::ServiceSocket, "/run/x\t"), "/run/x");
  EXPECT_EQ(kept(Id::ServiceSocket, "/run/x\n"), "refused");
  EXPECT_EQ(kept(Id::ServiceSocket, "run/x"), "refused");
  EXPECT_EQ(kept(Id::ServiceSocket, "/" + std::string(255, 'a')), "refused");
  EXPECT_EQ(kept(Id::ServiceSocket, std::string_view("/run/\x01x")), "refused");
}

TEST(SettingsTable, ARefusalNamesSettingValueAndWhatIsPossible) {
  const auto refused = normalise(spec_of(Id::SaBulk), "sometimes");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().what(), "'sa_bulk' of 'sometimes': use one of auto, always, never");
}

}  // namespace
}  // namespace wireup::settings
