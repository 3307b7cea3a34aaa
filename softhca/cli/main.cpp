// SPDX-License-Identifier: BSD-3-Clause
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "softhca/cli/command.hpp"
#include "softhca/fabric/fabric_view.hpp"

namespace softhca::cli {
namespace {

constexpr Command kCommands[] = {
    {"ports", "", "list hosts, HCA ports, LIDs and states, and the switches", run_ports},
    {"stats", "[--json] [--reset]", "counters, totals and per port; --reset zeroes them",
     run_stats},
#ifdef SOFTHCA_CLI_FAULT
    {"fault", "...", "inject faults; `softhca fault help` tells which", run_fault},
#endif
    {"kick", "", "have the agent look at the fabric now", run_kick},
};

void print_help(std::FILE* out) {
  std::fputs(
      "usage: softhca [--dir DIR] COMMAND [ARGUMENTS]\n"
      "DIR is the run directory of the fabric (default: $SOFTHCA_DIR). Commands:\n",
      out);
  for (const Command& command : kCommands) {
    std::fprintf(out, "  %-7s %-20s %s\n", command.name, command.arguments, command.summary);
  }
  std::fputs("  help                         this text\n", out);
}

}  // namespace

std::span<const Command> commands() {
  return kCommands;
}

void report_no_fabric(const std::string& dir) {
  const char* why = std::strerror(errno);
  switch (errno) {
    case ENOENT:
      why = "it has no file `fabric`; was softhca-agent started with this --dir?";
      break;
    case ENODEV:
      why = "softhca-agent is not running there";
      break;
    case EAGAIN:
      why = "softhca-agent has not finished its first look at the fabric; try again";
      break;
    case EPROTO:
      why = "its file `fabric` was written by another version of softhca";
      break;
    default:
      break;
  }
  std::fprintf(stderr, "softhca: no fabric in %s: %s\n", dir.c_str(), why);
}

void print_json_string(const std::string& text) {
  std::fputc('"', stdout);
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      std::printf("\\%c", c);
    } else if (static_cast<unsigned char>(c) < 0x20) {
      std::printf("\\u%04x", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      std::fputc(c, stdout);
    }
  }
  std::fputc('"', stdout);
}

}  // namespace softhca::cli

int main(int argc, char** argv) {
  using softhca::cli::Command;
  const char* environment = std::getenv("SOFTHCA_DIR");
  std::string dir = environment == nullptr ? "" : environment;
  int next = 1;
  while (next + 1 < argc && std::string_view(argv[next]) == "--dir") {
    dir = argv[next + 1];
    next += 2;
  }
  const std::string_view name = next < argc ? argv[next] : "";
  if (name == "help" || name == "--help" || name == "-h") {
    softhca::cli::print_help(stdout);
    return 0;
  }
  for (const Command& command : softhca::cli::commands()) {
    if (name == command.name) {
      if (dir.empty()) {
        std::fputs("softhca: no run directory: give --dir or set SOFTHCA_DIR\n", stderr);
        return 2;
      }
      const auto rest = static_cast<std::size_t>(argc - next - 1);
      return command.run({dir, std::span<char* const>(argv + next + 1, rest)});
    }
  }
  if (!name.empty()) {
    std::fprintf(stderr, "softhca: no command \"%s\"\n", argv[next]);
  }
  softhca::cli::print_help(stderr);
  return 2;
}
