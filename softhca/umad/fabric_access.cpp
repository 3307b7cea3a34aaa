// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/umad/fabric_access.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace softhca {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

}  // namespace

FabricAccess::FabricAccess()
    : dir_(environment("SOFTHCA_DIR")),
      host_(environment("SOFTHCA_HOST")),
      debug_(!environment("SOFTHCA_DEBUG").empty()) {}

FabricAccess& FabricAccess::instance() {
  // Never destroyed: programs use umad in their exit handlers.
  static auto* access = new FabricAccess();
  return *access;
}

std::shared_ptr<FabricView> FabricAccess::view() {
  if (dir_.empty() || host_.empty()) {
    return nullptr;
  }
  std::shared_ptr<FabricView> current = std::atomic_load(&view_);
  if (current != nullptr && current->writer_alive()) {
    return current;
  }
  // Two threads may get here at once; each then has a view, and the last one stays.
  std::shared_ptr<FabricView> fresh = FabricView::attach(dir_.c_str());
  if (fresh == nullptr && debug_) {
    std::fprintf(stderr, "softhca: no fabric in %s: %s\n", dir_.c_str(), std::strerror(errno));
  }
  std::atomic_store(&view_, fresh);
  return fresh;
}

std::vector<HcaInfo> FabricAccess::hcas() {
  const std::shared_ptr<FabricView> fabric = view();
  return fabric == nullptr ? std::vector<HcaInfo>() : fabric->hcas_of(host_);
}

std::optional<NamedPort> FabricAccess::find(const char* name, int number) {
  std::optional<NamedPort> best;
  int best_rank = 0;
  for (const HcaInfo& hca : hcas()) {
    if (name != nullptr && *name != '\0' && hca.name != name) {
      continue;
    }
    for (std::uint32_t i = 0; i < hca.ports.size(); ++i) {
      if (number != 0 && i + 1 != static_cast<std::uint32_t>(number)) {
        continue;
      }
      const PortAttr attr = port(hca.ports[i]);
      const int rank = attr.active() ? 3 : attr.phys_state == kPhysLinkUp ? 2 : 1;
      if (rank > best_rank) {
        best = NamedPort{hca, i + 1, hca.ports[i]};
        best_rank = rank;
      }
    }
  }
  return best;
}

PortAttr FabricAccess::port(PortIndex index) {
  const std::shared_ptr<FabricView> fabric = view();
  return fabric == nullptr ? PortAttr{} : fabric->port(index);
}

}  // namespace softhca
