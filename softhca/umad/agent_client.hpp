// SPDX-License-Identifier: BSD-3-Clause
// The client's end of the control connection to the agent.
#pragma once

#include <cstdint>
#include <string>

#include "softhca/umad/agent_protocol.hpp"

namespace softhca {

/// A connection to SOFTHCA_DIR/agent.sock, or -1 with errno.
int connect_agent(const char* dir);

/// Sends a request (with a file descriptor to hand over, or -1) and waits for the reply, at most
/// 10 s. 0 or an errno value: the agent's own, or EIO when it did not answer properly.
int call_agent(int fd, const AgentRequest& request, int pass_fd, AgentReply* reply);

/// Sends a command as words in a text; `reply` is what the agent says to it. Else as call_agent().
int command_agent(int fd, const std::string& words, std::string& reply);

}  // namespace softhca
