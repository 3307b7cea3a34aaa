// SPDX-License-Identifier: BSD-3-Clause
//
// What no file should hold: huge files and lines, noise, problems without end.
#include <gtest/gtest.h>

#include <string>

#include "acm/files/hosts.hpp"
#include "acm/files/options.hpp"
#include "acm/files/path_dump.hpp"
#include "acm/files/port_addresses.hpp"
#include "acm/files_model.hpp"
#include "base/rng.hpp"
#include "support/seed.hpp"

namespace wireup::acm {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::size_t kMany = 50'000;  // a sanitizer takes ten times as long
#else
constexpr std::size_t kMany = 1'000'000;
#endif

DumpedPort some_port() {
  return {
      .gid = Gid::make(0xFE80000000000000, Guid(0x21)), .base_lid = Lid(2), .pkey = PKey(0xFFFF)};
}

std::string repeated(std::size_t times, std::string_view line) {
  std::string text;
  text.reserve(times * line.size());
  for (std::size_t i = 0; i < times; ++i) {
    text += line;
  }
  return text;
}

// So many lines in a time that grows faster than their number would not end before the test's
// time limit.

TEST(AcmFilesHostile, ManyLinesOfOptions) {
  const auto right = parse_options(repeated(kMany, "log_level 1\n"), "f");
  EXPECT_TRUE(right.problems.empty());
  EXPECT_EQ(right.value.ignored.size(), 1U);
  EXPECT_EQ(parse_options(repeated(kMany / 10, "provider a default\n"), "f").value.providers.size(),
            kMany / 10);
  const auto wrong = parse_options(repeated(kMany, "nothing at all\n"), "f");
  EXPECT_EQ(wrong.problems.count, kMany);
  EXPECT_EQ(wrong.problems.first.size(), Problems::kMaxKept);
}

TEST(AcmFilesHostile, ManyLinesOfHostsAndAddresses) {
  EXPECT_EQ(parse_hosts(repeated(kMany, "n fe80::1\n"), "f").value.size(), kMany);
  EXPECT_EQ(parse_hosts(repeated(kMany, "n\n"), "f").problems.count, kMany);
  EXPECT_EQ(parse_port_addresses(repeated(kMany / 10, "n d 1 default\n"), "f", IpAddresses::Refused)
                .value.size(),
            kMany / 10);
}

TEST(AcmFilesHostile, ManyLinesOfADump) {
  const std::string header = "Channel Adapter 0x21, base LID 2, \"n\", port 1\n";
  const auto rows =
      parse_path_dump(header + repeated(kMany, "0x0002 : 0 : 4 : 7\n"), "f", some_port());
  EXPECT_EQ(rows.value.paths.size(), 1U);
  EXPECT_EQ(rows.problems.count, kMany - 1);
  const auto headers = parse_path_dump(repeated(kMany, header), "f", some_port());
  EXPECT_EQ(headers.value.ports, 1U);
  EXPECT_EQ(headers.problems.count, kMany - 1);
}

TEST(AcmFilesHostile, LinesOfMegabytes) {
  const std::string huge(kMany, 'x');
  const std::string blanks(kMany, ' ');
  const std::string colons(kMany, ':');
  for (const std::string& text :
       {huge, blanks, colons, "#" + huge, huge + " fe80::1", "n " + colons,
        blanks + "n" + blanks + "::2", "0x" + std::string(kMany, '1') + " : 0"}) {
    const auto hosts = parse_hosts(text, "f");
    test::check_problems(hosts.problems, "f");
    test::check_problems(parse_options(text, "f").problems, "f");
    test::check_problems(parse_path_dump(text, "f", some_port()).problems, "f");
    test::check_problems(parse_port_addresses(text, "f", IpAddresses::Allowed).problems, "f");
  }
  EXPECT_EQ(parse_hosts(blanks + "n" + blanks + "::2" + blanks, "f").value.size(), 1U);
}

/// Noise of the words and bytes that the formats are made of, so that much of it is nearly right.
TEST(AcmFilesHostile, NoiseOfTheRightWords) {
  constexpr std::string_view kPieces[] = {"\n",
                                          "\r\n",
                                          " ",
                                          " : ",
                                          "\t",
                                          "#",
                                          std::string_view("\0", 1),
                                          "node1",
                                          "10.0.0.1",
                                          "fe80::1",
                                          "default",
                                          "0x8001",
                                          "mlx5_0",
                                          "1",
                                          "4",
                                          "7",
                                          "0x0002",
                                          "UNREACHABLE",
                                          "Switch ",
                                          "Channel Adapter ",
                                          "0x21,",
                                          " base LID 2,",
                                          " \"x\", port 1\n",
                                          "\xFF",
                                          "min_rate ",
                                          "2.5",
                                          "provider ",
                                          "log_level ",
                                          "0x0002 : 0 : 4 : 7\n",
                                          "Channel Adapter 0x21, base LID 2, \"n\", port 1\n",
                                          "node1 fe80::1\n"};
  Rng rng(wireup::test::seed(12));
  std::size_t good = 0;
  for (std::uint64_t round = 0; round < wireup::test::rounds(300); ++round) {
    std::string text;
    const std::uint64_t pieces = rng.below(200);
    for (std::uint64_t i = 0; i < pieces; ++i) {
      text += kPieces[rng.below(std::size(kPieces))];
    }
    good += test::check_any_text(text);
  }
  EXPECT_GT(good, wireup::test::rounds(300)) << "the noise is often right";
}

}  // namespace
}  // namespace wireup::acm
