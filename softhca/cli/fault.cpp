// SPDX-License-Identifier: BSD-3-Clause
// `softhca fault`: what goes wrong on the fabric.
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>

#include "softhca/cli/fault.hpp"
#include "softhca/cli/fault_agent.hpp"
  if (is_agent_fault(command)) {
    return run_agent_fault(call);
  }
  const bool known =
      command == "ud" || command == "async" || command == "show" || command == "clear";
