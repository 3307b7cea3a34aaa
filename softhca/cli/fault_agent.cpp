// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/cli/fault_agent.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "softhca/umad/agent_client.hpp"

namespace softhca::cli {

const char kAgentFaultHelp[] =
    "\n"
    "       softhca fault gsi drop|duplicate|delay|reorder|corrupt [OPTIONS]\n"
    "       softhca fault sa silent|slow MS|busy|rate N [OPTIONS]\n"
    "       softhca fault gsi|sa list|clear\n"
    "       softhca fault link PORT down|up\n"
    "       softhca fault pkey PORT INDEX VALUE\n"
    "       softhca fault gid PORT INDEX GUID\n"
    "       softhca fault reregister PORT\n"
    "       softhca fault umad restricted|open\n"
    "`gsi` adds a rule for general services MADs (all but subnet and performance management) on\n"
    "their way, `sa` one for requests to a subnet administrator, which is then silent, MS\n"
    "milliseconds slow, busy, or takes N requests per second. OPTIONS say which MADs and when:\n"
    "  --src, --dst PORT        sent from, addressed to\n"
    "  --class C                sa, cm, perf or a number\n"
    "  --attr N, --method N     attribute, method\n"
    "  --requests, --responses  only those\n"
    "  --chance P --seed N      each with probability P (0.2 or 20%); the draws are repeatable\n"
    "  --nth N, --every N       the N-th that matches, every N-th\n"
    "  --count N                at most N\n"
    "  --delay MS               how late; for reorder: how long one waits for the next (20)\n"
    "Rules add up. `list` shows them with how many MADs matched and were hit, `clear` ends them.\n"
    "`link` pulls a port's cable and puts it back. `pkey` writes an entry of its P_Key table, "
    "which\n"
    "stays until the subnet manager's next heavy sweep. `gid` gives it a GID of that GUID, 0 "
    "takes\n"
    "it away. `reregister` tells it what a new subnet manager tells: clients must register again.\n"
    "`umad` says who may open ports for management: root and the user of the fabric alone, with\n"
    "EACCES for others, as a host's devices (this is the default), or everybody.\n"
    "PORT is HOST, HOST:PORT or HOST:DEVICE:PORT. LIDs that last and subnet managers that hand\n"
    "over are `ib-fabric sm`'s.\n";

bool is_agent_fault(std::string_view command) {
  constexpr std::array<std::string_view, 7> kWords = {"gsi", "sa",         "link", "pkey",
                                                      "gid", "reregister", "umad"};
  return std::find(kWords.begin(), kWords.end(), command) != kWords.end();
}

int run_agent_fault(const Invocation& call) {
  std::string words;
  for (const char* word : call.args) {
    words += std::string(words.empty() ? "" : " ") + word;
  }
  const int fd = connect_agent(call.dir.c_str());
  std::string reply;
  const int error = fd < 0 ? errno : command_agent(fd, words, reply);
  if (fd >= 0) {
    close(fd);
  }
  if (error == 0) {
    std::fputs(reply.c_str(), stdout);
    return 0;
  }
  if (reply.empty()) {
    std::fprintf(stderr, "softhca: the agent of %s does not answer: %s\n", call.dir.c_str(),
                 std::strerror(error));
    return 1;
  }
  std::fprintf(stderr, "softhca: fault: %s", reply.c_str());
  return error == EINVAL ? 2 : 1;
}

}  // namespace softhca::cli
