// SPDX-License-Identifier: BSD-3-Clause
#include <array>
#include <cinttypes>
#include <cstdio>

#include "softhca/cli/command.hpp"
#include "softhca/fabric/fabric_view.hpp"
#include "softhca/fabric/port_text.hpp"

namespace softhca::cli {

int run_ports(const Invocation& call) {
  if (!call.args.empty()) {
    std::fputs("softhca: ports takes no arguments\n", stderr);
    return 2;
  }
  const auto view = FabricView::attach(call.dir.c_str());
  if (view == nullptr) {
    report_no_fabric(call.dir);
    return 1;
  }
  std::printf("%-12s %-10s %4s %-8s %5s %3s %5s %5s %-9s %s\n", "HOST", "DEVICE", "PORT", "STATE",
              "LID", "LMC", "SMLID", "MTU", "RATE", "GID");
  for (const HcaInfo& hca : view->all_hcas()) {
    for (const PortIndex index : hca.ports) {
      const PortAttr port = view->port(index);
      std::printf("%-12s %-10s %4u %-8s %5u %3u %5u %5u %-9s %s\n", hca.host.c_str(),
                  hca.name.c_str(), port.port_num, port_state_name(port.state), port.lid, port.lmc,
                  port.sm_lid, mtu_bytes(port.active_mtu), rate_text(port).c_str(),
                  gid_text(port.gids[0]).c_str());
    }
  }
  std::printf("\n%-12s %-18s %5s %5s %7s %5s\n", "SWITCH", "GUID", "LID", "PORTS", "LFTTOP",
              "MLIDS");
  for (const FabricView::SwitchInfo& node : view->switches()) {
    std::printf("%-12s 0x%016" PRIx64 " %5u %5u %7u %5u\n", node.description.c_str(),
                node.node_guid, node.lid, node.port_count, node.lft_top, node.mlids_in_use);
  }
  return 0;
}

}  // namespace softhca::cli
