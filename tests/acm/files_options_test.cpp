// SPDX-License-Identifier: BSD-3-Clause
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "acm/files/options.hpp"
#include "acm/temporary_directory.hpp"

namespace wireup::acm {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Of a file "f" that has to be right.
AcmOptions options_of(std::string_view text) {
  const auto parsed = parse_options(text, "f");
  EXPECT_TRUE(parsed.problems.empty()) << parsed.problems.first.front().what();
  return parsed.value;
}

/// The texts of the problems of a file "f" of which nothing else may remain.
std::vector<std::string> problems_of(std::string_view text) {
  const auto parsed = parse_options(text, "f");
  EXPECT_EQ(parsed.value, AcmOptions{}) << text;
  std::vector<std::string> texts;
  for (const Error& error : parsed.problems.first) {
    EXPECT_TRUE(error.is(Errc::InvalidArgument));
    texts.emplace_back(error.what());
  }
  EXPECT_EQ(texts.size(), parsed.problems.count);
  return texts;
}

TEST(AcmFilesOptions, EveryOptionIsRead) {
  const AcmOptions options = options_of(
      "# a comment\n"
      "log_file /var/log/acm.log\n"
      "log_level 2\n"
      "umad_debug_level 1\n"
      "lock_file /run/acm.pid\n"
      "addr_prot acm\n"
      "addr_timeout 1440\n"
      "route_prot sa\n"
      "route_timeout -1\n"
      "loopback_prot local\n"
      "server_port 6125\n"
      "server_mode loop\n"
      "acme_plus_kernel_only no\n"
      "timeout 2000\n"
      "retries 15\n"
      "resolve_depth 128\n"
      "sa_depth 127\n"
      "send_depth 126\n"
      "recv_depth 1024\n"
      "min_mtu 4096\n"
      "min_rate 40\n"
      "route_preload opensm_full_v1\n"
      "route_data_file /etc/rdma/a\n"
      "addr_preload acm_hosts\n"
      "addr_data_file /etc/rdma/b\n"
      "support_ips_in_addr_cfg 1\n"
      "provider_lib_path /usr/lib/ibacm\n"
      "provider ibacmp 0xFE80000000000000\n"
      "provider other default\n");
  AcmOptions expected;
  expected.log_file = "/var/log/acm.log";
  expected.log_level = 2;
  expected.umad_debug_level = 1;
  expected.lock_file = "/run/acm.pid";
  expected.address_timeout = 1440min;
  expected.route_protocol = RouteProtocol::Sa;
  expected.route_timeout = kForever;
  expected.loopback_protocol = LoopbackProtocol::Local;
  expected.server_port = 6125;
  expected.server_mode = ServerMode::Loop;
  expected.acme_plus_kernel_only = false;
  expected.timeout = 2s;
  expected.retries = 15;
  expected.resolve_depth = 128;
  expected.sa_depth = 127;
  expected.send_depth = 126;
  expected.recv_depth = 1024;
  expected.min_mtu = std::uint8_t{5};
  expected.min_rate = std::uint8_t{7};
  expected.route_preload = RoutePreload::OpensmFullV1;
  expected.route_data_file = "/etc/rdma/a";
  expected.address_preload = AddressPreload::AcmHosts;
  expected.address_data_file = "/etc/rdma/b";
  expected.support_ips_in_addr_cfg = true;
  expected.provider_lib_path = "/usr/lib/ibacm";
  expected.providers = {{.name = "ibacmp", .prefix = 0xFE80000000000000},
                        {.name = "other", .prefix = std::nullopt}};
  expected.ignored = {"log_file",      "log_level",   "umad_debug_level",  "lock_file",
                      "loopback_prot", "server_port", "server_mode",       "acme_plus_kernel_only",
                      "send_depth",    "recv_depth",  "provider_lib_path", "provider"};
  EXPECT_EQ(options, expected);
}

TEST(AcmFilesOptions, NamesAndValuesHaveNoCase) {
  const AcmOptions options = options_of("Route_Timeout 5\nROUTE_PROT ACM\nserver_mode Unix\r\n");
  EXPECT_EQ(options.route_timeout, 5min);
  EXPECT_EQ(options.route_protocol, RouteProtocol::Acm);
  EXPECT_EQ(options.server_mode, ServerMode::Unix);
  EXPECT_THAT(options.ignored, ElementsAre("server_mode"));
}

TEST(AcmFilesOptions, EveryDocumentedValueIsRead) {
  for (const char* line : {"log_file stdout",
                           "log_file stderr",
                           "log_level 0",
                           "log_level 1",
                           "umad_debug_level 0",
                           "umad_debug_level 2",
                           "addr_timeout -1",
                           "addr_timeout 1",
                           "addr_timeout 2147483647",
                           "route_preload none",
                           "route_preload no",
                           "route_preload full_opensm_v1",
                           "addr_preload none",
                           "addr_preload no",
                           "loopback_prot none",
                           "server_mode open",
                           "acme_plus_kernel_only yes",
                           "acme_plus_kernel_only true",
                           "acme_plus_kernel_only 3",
                           "acme_plus_kernel_only false",
                           "acme_plus_kernel_only 0",
                           "support_ips_in_addr_cfg 0",
                           "timeout 0",
                           "retries 0",
                           "min_mtu 256",
                           "min_mtu 512",
                           "min_mtu 1024",
                           "min_mtu 2048",
                           "provider x 0",
                           "provider x DEFAULT",
                           "server_port 65535"}) {
    EXPECT_NE(options_of(line), AcmOptions{}) << line;
  }
  EXPECT_EQ(options_of("route_preload full_opensm_v1").route_preload, RoutePreload::OpensmFullV1);
  EXPECT_EQ(options_of("acme_plus_kernel_only 3").acme_plus_kernel_only, true);
  EXPECT_EQ(options_of("acme_plus_kernel_only 0").acme_plus_kernel_only, false);
  EXPECT_EQ(options_of("provider x 4096").providers.front().prefix, 4096U);
  EXPECT_THAT(options_of("addr_prot acm").ignored, IsEmpty());
}

TEST(AcmFilesOptions, EveryRateHasItsNameInGigabits) {
  std::set<std::uint8_t> codes;
  for (const char* name :
       {"2.5", "5",   "10",  "14",  "20",  "25",  "28",  "30",  "40",  "50",  "56",   "60",
        "80",  "100", "112", "120", "168", "200", "300", "400", "600", "800", "1200", "1600"}) {
    const auto code = options_of(std::string("min_rate ") + name).min_rate;
    ASSERT_TRUE(code.has_value());
    // A rate is called by its speed or a little less: 53.125 Gb/s is "50".
    const double mbps = mad::rate_mbps(*code).value_or(0);
    const double named = std::strtod(name, nullptr) * 1000;
    EXPECT_LE(named, mbps) << name;
    EXPECT_GE(named * 1.07, mbps) << name;
    codes.insert(*code);
  }
  for (unsigned code = 0; code < 64; ++code) {
    const auto rate = static_cast<std::uint8_t>(code);
    EXPECT_EQ(codes.contains(rate), mad::rate_mbps(rate).has_value()) << code;
  }
  EXPECT_EQ(options_of("min_rate 2").min_rate, 2) << "as ibacm reads 2.5";
}

TEST(AcmFilesOptions, AMinuteMoreThanATimeCanHoldIsForEver) {
  EXPECT_EQ(options_of("addr_timeout 153722867").address_timeout, 153722867min);
  EXPECT_EQ(options_of("addr_timeout 153722868").address_timeout, kForever);
}

TEST(AcmFilesOptions, TheLastLineOfAnOptionCounts) {
  const AcmOptions options = options_of("log_level 0\ntimeout 5\nlog_level 1\ntimeout 6\n");
  EXPECT_EQ(options.log_level, 1U);
  EXPECT_EQ(options.timeout, 6ms);
  EXPECT_THAT(options.ignored, ElementsAre("log_level"));
}

TEST(AcmFilesOptions, ARemarkMayFollowAValue) {
  EXPECT_EQ(options_of("retries 3 # less than usual").retries, 3U);
  EXPECT_EQ(options_of("provider a default #").providers.size(), 1U);
}

TEST(AcmFilesOptions, AWrongLineNamesFileLineValueAndWhatToDo) {
  EXPECT_THAT(
      problems_of("\nretry 3\nlog_level 3\ntimeout 2s\nretries\n"),
      ElementsAre("f:2: 'retry' is no option of ibacm: correct it, or put a # in front",
                  "f:3: 'log_level' of '3': use a number from 0 to 2",
                  "f:4: 'timeout' of '2s': use a number from 0 to 2147483647",
                  "f:5: 'retries' without a value: write it behind the name, or put a # in front"));
  EXPECT_THAT(problems_of("addr_prot sa\nroute_prot both\nserver_mode tcp\n"),
              ElementsAre("f:1: 'addr_prot' has no value 'sa': use acm, its only value",
                          "f:2: 'route_prot' has no value 'both': use sa or acm",
                          "f:3: 'server_mode' has no value 'tcp': use unix, loop or open"));
  EXPECT_THAT(
      problems_of("addr_timeout 0\nroute_timeout -2\naddr_timeout 2147483648"),
      ElementsAre("f:1: 'addr_timeout' of '0' minutes: use 1 to 2147483647, or -1 for no end",
                  "f:2: 'route_timeout' of '-2' minutes: use 1 to 2147483647, or -1 for no end",
                  "f:3: 'addr_timeout' of '2147483648' minutes: use 1 to 2147483647, or -1 for "
                  "no end"));
  EXPECT_THAT(
      problems_of("min_mtu 1500\nmin_rate 11"),
      ElementsAre("f:1: min_mtu of '1500' bytes: use 256, 512, 1024, 2048 or 4096",
                  "f:2: min_rate of '11' Gb/s: use 2.5 5 10 14 20 25 28 30 40 50 56 60 80 100 "
                  "112 120 168 200 300 400 600 800 1200 or 1600"));
  EXPECT_THAT(
      problems_of("provider ibacmp\nprovider ibacmp fe80::\nprovider a default b\n # x y\n"),
      ElementsAre("f:1: provider 'ibacmp' without a subnet: add its prefix, or the word default",
                  "f:2: subnet prefix 'fe80::': use a number of 64 bits like "
                  "0xFE80000000000000, or default",
                  "f:3: 'b' is one word too many: take it away, or put a # before it",
                  "f:4: '#' is no option of ibacm: the # of a comment must be the first "
                  "character of its line"));
  EXPECT_THAT(problems_of("log_file " + std::string(4096, 'x')),
              ElementsAre("f:1: 'log_file' has 4096 bytes, a path has at most 4095: shorten it"));
  EXPECT_THAT(problems_of("provider " + std::string(65, 'p') + " default"),
              ElementsAre("f:1: provider '" + std::string(32, 'p') +
                          "...' has 65 bytes, 64 are possible: shorten it"));
}

TEST(AcmFilesOptions, WhatIsRightIsReadBesideWhatIsWrong) {
  const auto parsed = parse_options("min_mtu 4096\nmin_rate many\nretries 1", "f");
  EXPECT_EQ(parsed.problems.count, 1U);
  EXPECT_EQ(parsed.value.min_mtu, 5);
  EXPECT_EQ(parsed.value.min_rate, std::nullopt);
  EXPECT_EQ(parsed.value.retries, 1U);
}

/// ib_acme writes the file with every option, explained, most of them set and some commented out.
TEST(AcmFilesOptions, TheFileThatIbAcmeWritesIsRead) {
  const test::TemporaryDirectory directory;
  const std::string command =
      "timeout -k 5 60 ib_acme -O -D '" + directory.path() + "' >/dev/null 2>&1 </dev/null";
  ASSERT_EQ(std::system(command.c_str()), 0);  // NOLINT(cert-env33-c)
  std::ifstream file(directory.path() + "/ibacm_opts.cfg");
  std::string text;
  std::string with_examples;
  for (std::string line; std::getline(file, line);) {
    text += line + "\n";
    // The comments have examples of the form "# name value"; the words of a sentence are more.
    const std::string example = line.substr(line.starts_with("# ") ? 2 : 0);
    std::istringstream words(example);
    std::string name;
    std::string word;
    words >> name;
    std::size_t values = 0;
    for (; words >> word; ++values) {
    }
    const bool is_option = name.find('_') != std::string::npos || name == "provider";
    if (is_option && !name.ends_with(':') && values == (name == "provider" ? 2U : 1U)) {
      with_examples += example + "\n";
    }
  }
  const AcmOptions options = options_of(text);
  EXPECT_EQ(options.route_protocol, RouteProtocol::Sa);
  EXPECT_EQ(options.address_timeout, 24h);
  EXPECT_EQ(options.route_timeout, kForever);
  EXPECT_EQ(options.min_mtu, mad::kMtu2048);
  EXPECT_EQ(options.min_rate, mad::kRate10);
  EXPECT_EQ(options.route_preload, RoutePreload::None);

  const AcmOptions all = options_of(with_examples);
  EXPECT_EQ(all.route_data_file, kRouteDataFile);
  EXPECT_EQ(all.address_data_file, kAddressDataFile);
  EXPECT_EQ(all.support_ips_in_addr_cfg, false);
  EXPECT_EQ(all.providers.size(), 2U);
}

TEST(AcmFilesApply, NothingIsSetByNoOptions) {
  Config config;
  config.window = 7;
  const Config before = config;
  apply(AcmOptions{}, config);
  EXPECT_EQ(config, before);
}

TEST(AcmFilesApply, GroupsLivesAndRoutes) {
  Config config;
  apply(options_of("min_mtu 4096\nmin_rate 100\naddr_timeout 60\nroute_timeout 10\nroute_prot sa"),
        config);
  Config expected;
  expected.min_mtu = 5;
  expected.min_rate = 16;
  expected.address_life = 60min;
  expected.route_life = 10min;
  expected.route_protocol = RouteProtocol::Sa;
  EXPECT_EQ(config, expected);
}

TEST(AcmFilesApply, DepthsMakeWindowsLargerOnly) {
  Config config;
  apply(options_of("resolve_depth 1\nsa_depth 1"), config);
  EXPECT_EQ(config, Config{});
  apply(options_of("resolve_depth 128\nsa_depth 256"), config);
  EXPECT_EQ(config.window, 128U);
  EXPECT_EQ(config.sa_max_window, 256U);
  EXPECT_EQ(config.sa_window, Config{}.sa_window);
}

/// The time that a configuration gives a peer, when the jitter makes all waits as short as it can.
Duration patience_of(const Config& config) {
  Duration wait = config.first_retry;
  Duration all{};
  for (unsigned i = 0; i < config.max_tries; ++i) {
    all += wait * (100 - config.jitter_percent) / 100;
    wait = std::min<Duration>(wait * config.backoff_percent / 100, config.max_retry);
  }
  return all;
}

TEST(AcmFilesApply, APeerHasAsMuchTimeAsIbacmGivesIt) {
  for (const unsigned retries : {0U, 1U, 2U, 15U, 1000U}) {
    for (const unsigned timeout : {0U, 1U, 100U, 2000U, 60'000U}) {
      Config config;
      apply(
          options_of("timeout " + std::to_string(timeout) + "\nretries " + std::to_string(retries)),
          config);
      ASSERT_TRUE(validate(config).has_value());
      const Duration of_ibacm = (std::chrono::milliseconds(timeout) + 1024ms) * (retries + 1);
      EXPECT_GE(patience_of(config), of_ibacm);
      // Not more than it takes: one try less is too short for what ibacm waits at most.
      Config one_less = config;
      --one_less.max_tries;
      EXPECT_LT(patience_of(one_less), of_ibacm * 11 / 10) << retries << ' ' << timeout;
      EXPECT_LE(config.first_retry, config.max_retry);
    }
  }
  Config config;
  apply(options_of("timeout 2000\nretries 2"), config);
  EXPECT_EQ(config.max_retry, 2s);
  EXPECT_EQ(config.max_tries, 14U);
  EXPECT_EQ(config.sa_max_retry, Config{}.sa_max_retry);
}

TEST(AcmFilesApply, AValidConfigurationStaysOne) {
  Config unchanging;
  unchanging.backoff_percent = 100;
  unchanging.jitter_percent = 99;
  Config shortest;
  shortest.first_retry = shortest.max_retry = 1ns;
  shortest.backoff_percent = 101;
  Config longest;
  longest.first_retry = longest.max_retry = kForever;
  longest.backoff_percent = 4'000'000'000U;
  longest.jitter_percent = 0;
  for (const char* text : {"timeout 0", "timeout 2147483647\nretries 1000", "retries 0",
                           "addr_timeout 2147483647", "resolve_depth 65535\nsa_depth 65535"}) {
    for (Config config : {Config{}, unchanging, shortest, longest}) {
      ASSERT_TRUE(validate(config).has_value());
      apply(options_of(text), config);
      EXPECT_TRUE(validate(config).has_value()) << text;
    }
  }
}

}  // namespace
}  // namespace wireup::acm
