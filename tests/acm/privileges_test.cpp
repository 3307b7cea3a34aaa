// SPDX-License-Identifier: BSD-3-Clause
#include "acm/server/privileges.hpp"

#include <gtest/gtest.h>
#include <linux/capability.h>
#include <pwd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <string>

// What a process gives up it has no more, so each case is a process of its own.
namespace wireup::acm {
namespace {

/// The lines of /proc/self/status by their names.
std::map<std::string, std::string> read_status() {
  std::map<std::string, std::string> status;
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(':');
    const auto value = line.find_first_not_of(" \t", colon + 1);
    status[line.substr(0, colon)] = value == std::string::npos ? "" : line.substr(value);
  }
  return status;
}

Capabilities set_of(const std::map<std::string, std::string>& status, const char* name) {
  return std::stoull(status.at(name), nullptr, 16);
}

template <typename F>
void in_a_process_of_its_own(F body) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    body();
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "its output says what is wrong";
}

TEST(Privileges, NamesOfCapabilities) {
  EXPECT_EQ(capability_names(0), "none");
  EXPECT_EQ(capability_names(capability(CAP_NET_RAW)), "CAP_NET_RAW");
  EXPECT_EQ(capability_names(capability(CAP_NET_RAW) | capability(CAP_NET_ADMIN) | capability(63)),
            "CAP_NET_ADMIN, CAP_NET_RAW, capability 63");
}

TEST(Privileges, WhatIsNotKeptIsGoneForGood) {
  in_a_process_of_its_own([] {
    const auto before = read_status();
    const Capabilities wanted = capability(CAP_NET_RAW);
    const auto kept = keep_capabilities(wanted);
    ASSERT_TRUE(kept.has_value()) << kept.error().what();
    EXPECT_EQ(*kept, set_of(before, "CapPrm") & wanted);
    const auto after = read_status();
    EXPECT_EQ(set_of(after, "CapPrm"), *kept);
    EXPECT_EQ(set_of(after, "CapEff"), *kept);
    EXPECT_EQ(set_of(after, "CapInh"), 0U);
    EXPECT_EQ(set_of(after, "CapAmb"), 0U);
    EXPECT_EQ(after.at("NoNewPrivs"), "1");
    const bool may_bound = (set_of(before, "CapEff") & capability(CAP_SETPCAP)) != 0;
    EXPECT_EQ(set_of(after, "CapBnd"), may_bound ? 0 : set_of(before, "CapBnd"));
    EXPECT_EQ(*effective_capabilities(), *kept);
    // A program that it starts, though root's, has no more.
    EXPECT_EQ(
        system("test $(( 0x$(sed -n 's/^CapEff:\\s*//p' /proc/self/status) & ~0x2000 )) -eq 0"), 0);
  });
}

TEST(Privileges, KeepingNothingWorksForEverybody) {
  in_a_process_of_its_own([] {
    const auto kept = keep_capabilities(0);
    ASSERT_TRUE(kept.has_value()) << kept.error().what();
    EXPECT_EQ(*kept, 0U);
    EXPECT_EQ(set_of(read_status(), "CapEff"), 0U);
    // Twice does no harm.
    EXPECT_TRUE(keep_capabilities(capability(CAP_NET_RAW)).has_value());
    EXPECT_EQ(*effective_capabilities(), 0U);
  });
}

TEST(Privileges, AnotherUserWithWhatIsKept) {
  in_a_process_of_its_own([] {
    // Root becomes nobody; everybody else can only stay who he is.
    const passwd* entry = getpwuid(geteuid() == 0 ? 65534 : geteuid());
    ASSERT_NE(entry, nullptr);
    const auto ids = find_user(entry->pw_name);
    ASSERT_TRUE(ids.has_value()) << ids.error().what();
    const Capabilities lasting = capability(CAP_NET_RAW);
    const auto kept = keep_capabilities(lasting | capability(CAP_SETUID) | capability(CAP_SETGID));
    ASSERT_TRUE(kept.has_value());
    const auto done = become_user(*ids, *kept & lasting);
    ASSERT_TRUE(done.has_value()) << done.error().what();
    EXPECT_EQ(geteuid(), ids->user);
    EXPECT_EQ(getuid(), ids->user);
    EXPECT_EQ(*effective_capabilities(), *kept & lasting);
    EXPECT_EQ(set_of(read_status(), "CapPrm"), *kept & lasting);
    EXPECT_NE(setuid(ids->user + 1), 0) << "there is no way back";
  });
}

TEST(Privileges, UsersThatDoNotExist) {
  EXPECT_TRUE(find_user("no such user").error().is(Errc::NotFound));
}

}  // namespace
}  // namespace wireup::acm
