// SPDX-License-Identifier: BSD-3-Clause
#include "acm/driver/source_policy.hpp"

#include <gtest/gtest.h>

namespace wireup::acm {
namespace {

using Names = std::vector<std::string>;

TEST(SourcePolicy, WithoutAnOrderEverySourceIsUsedAndNoneIsPreferred) {
  const SourcePolicy policy;
  EXPECT_TRUE(policy.uses(PathOrigin::Kernel));
  EXPECT_TRUE(policy.uses_fabric());
  EXPECT_FALSE(policy.prefers(PathOrigin::SaQuery, PathOrigin::AcmMulticast));
  EXPECT_FALSE(policy.prefers(PathOrigin::AcmMulticast, PathOrigin::SaQuery));
}

TEST(SourcePolicy, NamesAreThoseOfTheOrigins) {
  const SourcePolicy policy =
      policy_of(Names{"sa_query", "no_such_source", "acm_multicast", "local"}, "never");
  EXPECT_EQ(policy.order, (std::vector{PathOrigin::SaQuery, PathOrigin::AcmMulticast}));
  EXPECT_EQ(policy.bulk, BulkPaths::Never);
  EXPECT_EQ(policy_of(Names{}, "always").bulk, BulkPaths::Always);
  EXPECT_EQ(policy_of(Names{}, "x").bulk, BulkPaths::Auto);
}

TEST(SourcePolicy, TheFirstOfTwoIsPreferredAndWhatIsNotNamedIsNotUsed) {
  const SourcePolicy policy = policy_of(Names{"ibacm", "sa_query"}, "auto");
  EXPECT_TRUE(policy.prefers(PathOrigin::Ibacm, PathOrigin::SaQuery));
  EXPECT_FALSE(policy.prefers(PathOrigin::SaQuery, PathOrigin::Ibacm));
  EXPECT_TRUE(policy.prefers(PathOrigin::SaQuery, PathOrigin::AcmMulticast));
  EXPECT_FALSE(policy.uses(PathOrigin::AcmMulticast));
  EXPECT_TRUE(policy.uses_fabric());
  EXPECT_FALSE(policy_of(Names{"ibacm", "kernel"}, "auto").uses_fabric());
}

TEST(SourcePolicy, TheEngineAsksWhoeverComesFirst) {
  Config config;
  config.route_protocol = RouteProtocol::Sa;
  EXPECT_EQ(with_policy(config, {}, false).route_protocol, RouteProtocol::Sa);
  const auto acm_first = policy_of(Names{"acm_multicast", "sa_query"}, "auto");
  EXPECT_EQ(with_policy(config, acm_first, false).route_protocol, RouteProtocol::Acm);
  const auto sa_first = policy_of(Names{"sa_query", "acm_multicast"}, "auto");
  EXPECT_EQ(with_policy(Config(), sa_first, false).route_protocol, RouteProtocol::Sa);
}

TEST(SourcePolicy, ATableIsAskedForWhereItTellsSomething) {
  const auto bulk = [](const Names& names, const char* wish, bool has_dump) {
    return with_policy(Config(), policy_of(names, wish), has_dump).bulk_paths;
  };
  EXPECT_EQ(bulk({}, "auto", false), BulkPaths::Auto);
  EXPECT_EQ(bulk({}, "auto", true), BulkPaths::Never) << "the dump is one";
  EXPECT_EQ(bulk({}, "always", true), BulkPaths::Always);
  EXPECT_EQ(bulk({}, "never", false), BulkPaths::Never);
  EXPECT_EQ(bulk({"acm_multicast"}, "always", false), BulkPaths::Never) << "the SA is not a source";
}

}  // namespace
}  // namespace wireup::acm
