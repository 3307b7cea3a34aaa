// SPDX-License-Identifier: BSD-3-Clause
// The calls of libibumad that tell which devices and ports there are. Every call looks at the
// fabric anew.
#include <endian.h>
#include <infiniband/umad.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "softhca/fabric/port_text.hpp"
#include "softhca/umad/agent_protocol.hpp"
#include "softhca/umad/export.hpp"
#include "softhca/umad/fabric_access.hpp"

namespace {

using softhca::FabricAccess;
using softhca::HcaInfo;
using softhca::NamedPort;
using softhca::PortAttr;

constexpr unsigned kNodeTypeCa = 1;
constexpr char kFirmwareVersion[] = "0.1.0";
constexpr char kCaType[] = "softhca";

template <std::size_t N>
void put_text(char (&to)[N], const std::string& text) {
  std::snprintf(to, N, "%s", text.c_str());
}

/// False when memory ran out.
bool fill_port(umad_port_t& port, const NamedPort& named) {
  const PortAttr attr = FabricAccess::instance().port(named.index);
  port = {};
  put_text(port.ca_name, named.hca.name);
  put_text(port.link_layer, "InfiniBand");
  port.portnum = static_cast<int>(named.number);
  port.base_lid = attr.lid;
  port.lmc = attr.lmc;
  port.sm_lid = attr.sm_lid;
  port.sm_sl = attr.sm_sl;
  port.state = attr.state;
  port.phys_state = attr.phys_state;
  port.rate = softhca::rate_tenths(attr) / 10;
  port.capmask = htobe32(attr.cap_mask);
  port.gid_prefix = htobe64(attr.subnet_prefix);
  port.port_guid = htobe64(attr.port_guid);
  port.pkeys_size = attr.pkey_count;
  if (attr.pkey_count != 0) {
    port.pkeys = static_cast<std::uint16_t*>(calloc(attr.pkey_count, sizeof(std::uint16_t)));
    if (port.pkeys == nullptr) {
      return false;
    }
    std::copy_n(attr.pkeys.begin(), attr.pkey_count, port.pkeys);
  }
  return true;
}

}  // namespace

SOFTHCA_EXPORT int umad_get_cas_names(char cas[][UMAD_CA_NAME_LEN], int max) {
  int count = 0;
  for (const HcaInfo& hca : FabricAccess::instance().hcas()) {
    if (count < max) {
      std::snprintf(cas[count], UMAD_CA_NAME_LEN, "%s", hca.name.c_str());
      ++count;
    }
  }
  return count;
}

SOFTHCA_EXPORT int umad_release_port(umad_port_t* port) {
  free(port->pkeys);
  port->pkeys = nullptr;
  port->pkeys_size = 0;
  return 0;
}

SOFTHCA_EXPORT int umad_get_port(const char* ca_name, int portnum, umad_port_t* port) {
  const auto named = FabricAccess::instance().find(ca_name, portnum);
  if (!named) {
    softhca::umad_complain("no port %d on device \"%s\"", portnum,
                           ca_name == nullptr ? "" : ca_name);
    errno = ENODEV;
    return -ENODEV;
  }
  return fill_port(*port, *named) ? 0 : -ENOMEM;
}

SOFTHCA_EXPORT int umad_release_ca(umad_ca_t* ca) {
  for (umad_port_t*& port : ca->ports) {
    if (port != nullptr) {
      umad_release_port(port);
      free(port);
      port = nullptr;
    }
  }
  return 0;
}

SOFTHCA_EXPORT int umad_get_ca(const char* ca_name, umad_ca_t* ca) {
  const auto named = FabricAccess::instance().find(ca_name, 0);
  if (!named) {
    softhca::umad_complain("no device \"%s\"", ca_name == nullptr ? "" : ca_name);
    errno = ENODEV;
    return -ENODEV;
  }
  const HcaInfo& hca = named->hca;
  *ca = {};
  put_text(ca->ca_name, hca.name);
  put_text(ca->fw_ver, kFirmwareVersion);
  put_text(ca->ca_type, kCaType);
  char revision[16];
  std::snprintf(revision, sizeof revision, "%x", hca.revision);
  put_text(ca->hw_ver, revision);
  ca->node_type = kNodeTypeCa;
  ca->node_guid = htobe64(hca.node_guid);
  ca->system_guid = htobe64(hca.system_image_guid);
  const std::size_t count = std::min<std::size_t>(hca.ports.size(), UMAD_CA_MAX_PORTS - 1);
  ca->numports = static_cast<int>(count);
  for (std::size_t i = 0; i < count; ++i) {
    auto* port = static_cast<umad_port_t*>(calloc(1, sizeof(umad_port_t)));
    ca->ports[i + 1] = port;
    if (port == nullptr ||
        !fill_port(*port, {hca, static_cast<std::uint32_t>(i + 1), hca.ports[i]})) {
      umad_release_ca(ca);
      return -ENOMEM;
    }
  }
  return 0;
}

SOFTHCA_EXPORT int umad_get_ca_portguids(const char* ca_name, __be64* portguids, int max) {
  umad_ca_t ca;
  const int error = umad_get_ca(ca_name, &ca);
  if (error != 0) {
    return error;
  }
  int result = ca.numports + 1;  // by port number, with a 0 for port 0
  if (portguids != nullptr) {
    if (result > max) {
      result = -ENOMEM;
    }
    for (int i = 0; i < result; ++i) {
      portguids[i] = ca.ports[i] == nullptr ? 0 : ca.ports[i]->port_guid;
    }
  } else {
    result = 0;
  }
  umad_release_ca(&ca);
  return result;
}

SOFTHCA_EXPORT int umad_get_issm_path(const char* ca_name, int portnum, char* path, int max) {
  FabricAccess& fabric = FabricAccess::instance();
  const auto named = fabric.find(ca_name, portnum);
  if (!named || max <= 0) {
    errno = ENODEV;
    return -ENODEV;
  }
  // A FIFO of which the agent sees whether somebody has it open, as the kernel does of its device.
  const std::string file =
      std::string(fabric.dir()) + "/" + softhca::kIssmDir + "/" + std::to_string(named->index);
  if (mkfifo(file.c_str(), 0666) != 0 && errno != EEXIST) {
    return -errno;
  }
  std::snprintf(path, static_cast<std::size_t>(max), "%s", file.c_str());
  return 0;
}

SOFTHCA_EXPORT struct umad_device_node* umad_get_ca_device_list() {
  umad_device_node* head = nullptr;
  umad_device_node** last = &head;
  errno = 0;
  for (const HcaInfo& hca : FabricAccess::instance().hcas()) {
    auto* node = static_cast<umad_device_node*>(calloc(1, sizeof(umad_device_node)));
    char* name = strdup(hca.name.c_str());
    if (node == nullptr || name == nullptr) {
      free(node);
      free(name);
      umad_free_ca_device_list(head);
      errno = ENOMEM;
      return nullptr;
    }
    node->ca_name = name;
    *last = node;
    last = &node->next;
  }
  return head;
}

SOFTHCA_EXPORT void umad_free_ca_device_list(struct umad_device_node* head) {
  while (head != nullptr) {
    umad_device_node* next = head->next;
    free(const_cast<char*>(head->ca_name));
    free(head);
    head = next;
  }
}

SOFTHCA_EXPORT int umad_sort_ca_device_list(struct umad_device_node** head, size_t size) {
  std::vector<umad_device_node*> nodes;
  for (umad_device_node* node = *head; node != nullptr; node = node->next) {
    nodes.push_back(node);
  }
  if (size != 0 && size != nodes.size()) {
    return EINVAL;
  }
  std::sort(nodes.begin(), nodes.end(), [](const umad_device_node* a, const umad_device_node* b) {
    return std::strcmp(a->ca_name, b->ca_name) < 0;
  });
  *head = nullptr;
  umad_device_node** last = head;
  for (umad_device_node* node : nodes) {
    node->next = nullptr;
    *last = node;
    last = &node->next;
  }
  return 0;
}
