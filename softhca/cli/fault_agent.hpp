// SPDX-License-Identifier: BSD-3-Clause
// The faults that the agent carries out: of MADs, of subnet administrators and of ports.
#pragma once

#include <string_view>

#include "softhca/cli/command.hpp"

namespace softhca::cli {

/// Whether the word behind `fault` is one of the agent's.
bool is_agent_fault(std::string_view command);

/// Carries out the arguments of `call`. The exit status.
int run_agent_fault(const Invocation& call);

/// What `softhca fault help` says of them.
extern const char kAgentFaultHelp[];

}  // namespace softhca::cli
