// SPDX-License-Identifier: BSD-3-Clause
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "softhca/cli/command.hpp"
#include "softhca/umad/agent_client.hpp"

namespace softhca::cli {

int run_kick(const Invocation& call) {
  if (!call.args.empty()) {
    std::fputs("softhca: kick takes no arguments\n", stderr);
    return 2;
  }
  const int fd = connect_agent(call.dir.c_str());
  AgentRequest request;
  request.op = static_cast<std::uint32_t>(AgentOp::Kick);
  const int error = fd < 0 ? errno : call_agent(fd, request, -1, nullptr);
  if (fd >= 0) {
    close(fd);
  }
  if (error != 0) {
    std::fprintf(stderr, "softhca: the agent of %s does not answer: %s\n", call.dir.c_str(),
                 std::strerror(error));
    return 1;
  }
  return 0;
}

}  // namespace softhca::cli
