// SPDX-License-Identifier: BSD-3-Clause
// What the subcommands of `softhca fault` share.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "softhca/cli/command.hpp"
#include "softhca/hca/faults.hpp"

namespace softhca::cli {

/// The words behind the subcommand.
using Words = std::span<char* const>;

/// What `softhca fault help` says of the faults of verbs.
extern const char kVerbsFaultHelp[];

/// Says what is wrong, and the help, on stderr. Returns the exit status for wrong usage.
int wrong_usage(const char* what, const char* detail);

/// The fabric's fault settings; nullptr after saying why not.
std::unique_ptr<hca::Faults> open_faults(const Invocation& call);

int fault_async(const Invocation& call, Words words);

/// `command` is ud, rc, error, call or limit.
int fault_rule(const Invocation& call, const char* command, Words words);
int fault_qkeys(const Invocation& call, Words words);

void show_async(const hca::Asynchrony& mode);
void show_qkeys(const hca::Faults& faults);
void show_rules(const Invocation& call, const hca::Faults& faults);

}  // namespace softhca::cli
