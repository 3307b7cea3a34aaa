// SPDX-License-Identifier: BSD-3-Clause
// Subcommands of the `softhca` command line tool.
#pragma once

#include <span>
#include <string>

namespace softhca::cli {

/// What every subcommand is given: the fabric's run directory and its own arguments.
struct Invocation {
  std::string dir;
  std::span<char* const> args;  // without the subcommand's name
};

/// Each returns the exit status: 0 done, 1 failed (said on stderr), 2 wrong usage (said too).
int run_ports(const Invocation& call);
int run_stats(const Invocation& call);
int run_kick(const Invocation& call);
#ifdef SOFTHCA_CLI_FAULT
int run_fault(const Invocation& call);
#endif

struct Command {
  const char* name;
  const char* arguments;
  const char* summary;
  int (*run)(const Invocation&);
};

/// All subcommands, in the order in which help lists them.
std::span<const Command> commands();

/// Says on stderr that the fabric of `dir` cannot be read, with errno's reason and what to do.
void report_no_fabric(const std::string& dir);

/// Writes `text` as a JSON string, quotes included, to stdout.
void print_json_string(const std::string& text);

}  // namespace softhca::cli
