// SPDX-License-Identifier: BSD-3-Clause
// Attributes of devices and ports, read from the fabric at every call.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "softhca/hca/clock.hpp"
#include "softhca/verbs/objects.hpp"

namespace softhca::verbs {
namespace {

// What a ConnectX-3 says: parameter files of MPI libraries know it.
constexpr std::uint32_t kVendorId = 0x02c9;
constexpr std::uint32_t kVendorPart = 4099;

// Completion timestamps count nanoseconds.
constexpr std::uint64_t kCoreClockKhz = 1'000'000;

PortAttr port_of(ibv_context* context, unsigned number) {
  const Context& ctx = *of(context);
  const PortIndex index = ctx.port(number);
  return index == kNoPort ? PortAttr{} : ctx.runtime->view().port(index);
}

std::uint8_t verbs_speed(const PortAttr& port) {
  // Verbs number FDR 16, EDR 32, HDR 64, NDR 128; LinkSpeedExtActive numbers them 1, 2, 4, 8.
  return port.active_speed_ext != 0 ? static_cast<std::uint8_t>(port.active_speed_ext << 4)
                                    : port.active_speed;
}

void fill_port(const PortAttr& port, ibv_port_attr& attr) {
  attr.state = static_cast<ibv_port_state>(port.state);
  attr.max_mtu = static_cast<ibv_mtu>(port.max_mtu);
  attr.active_mtu = static_cast<ibv_mtu>(port.active_mtu);
  attr.gid_tbl_len = port.gid_count;
  attr.port_cap_flags = port.cap_mask;
  attr.max_msg_sz = hca::kMaxMessage;
  attr.bad_pkey_cntr = port.pkey_violations;
  attr.qkey_viol_cntr = port.qkey_violations;
  attr.pkey_tbl_len = port.pkey_count;
  attr.lid = port.lid;
  attr.sm_lid = port.sm_lid;
  attr.lmc = port.lmc;
  attr.max_vl_num = port.vl_cap;
  attr.sm_sl = port.sm_sl;
  attr.subnet_timeout = port.subnet_timeout;
  attr.init_type_reply = port.init_type_reply;
  attr.active_width = port.active_width;
  attr.active_speed = verbs_speed(port);
  attr.phys_state = port.phys_state;
  attr.link_layer = IBV_LINK_LAYER_INFINIBAND;
  attr.port_cap_flags2 = port.cap_mask2;
}

void fill_device(ibv_context* context, ibv_device_attr& attr) {
  const HcaInfo& info = of(context)->info();
  std::snprintf(attr.fw_ver, sizeof attr.fw_ver, "2.42.5000");
  attr.node_guid = __builtin_bswap64(info.node_guid);
  attr.sys_image_guid =
      __builtin_bswap64(info.system_image_guid != 0 ? info.system_image_guid : info.node_guid);
  attr.max_mr_size = ~std::uint64_t{0};
  attr.page_size_cap = 4096;
  attr.vendor_id = kVendorId;
  attr.vendor_part_id = kVendorPart;
  attr.hw_ver = 1;
  attr.max_qp = of(context)->lowered(hca::Limit::Qps, hca::kMaxQps);
  attr.max_qp_wr = static_cast<int>(hca::kMaxWr);
  attr.device_cap_flags = IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_PORT_ACTIVE_EVENT |
                          IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN |
                          IBV_DEVICE_AUTO_PATH_MIG;
  attr.max_sge = static_cast<int>(hca::kMaxSge);
  attr.max_sge_rd = static_cast<int>(hca::kMaxSge);
  attr.max_cq = static_cast<int>(hca::kMaxCqs);
  attr.max_cqe = of(context)->lowered(hca::Limit::Cqes, hca::kMaxCqe);
  attr.max_mr = static_cast<int>(hca::kMaxMrs);
  attr.max_pd = 32764;
  attr.max_qp_rd_atom = static_cast<int>(hca::kMaxRdAtomic);
  attr.max_res_rd_atom = static_cast<int>(hca::kMaxRdAtomic * hca::kMaxQps);
  attr.max_qp_init_rd_atom = static_cast<int>(hca::kMaxRdAtomic);
  attr.atomic_cap = IBV_ATOMIC_HCA;
  attr.max_mcast_grp = 8192;
  attr.max_mcast_qp_attach = 1024;
  attr.max_total_mcast_qp_attach = static_cast<int>(hca::kMaxAttachments);
  attr.max_ah = 1 << 20;
  attr.max_srq = static_cast<int>(hca::kMaxSrqs);
  attr.max_srq_wr = static_cast<int>(hca::kMaxSrqWr);
  attr.max_srq_sge = static_cast<int>(hca::kMaxSge);
  attr.max_pkeys = static_cast<std::uint16_t>(
      std::max<std::uint32_t>(info.pkey_table_size, port_of(context, 1).pkey_count));
  attr.local_ca_ack_delay = 15;
  attr.phys_port_cnt = static_cast<std::uint8_t>(info.ports.size());
}

bool is_set(const Gid& gid) {
  return std::any_of(gid.begin() + 8, gid.end(), [](std::uint8_t byte) { return byte != 0; });
}

void fill_gid(ibv_gid_entry& entry, const Gid& gid, std::uint32_t index, std::uint32_t port) {
  std::copy(gid.begin(), gid.end(), entry.gid.raw);
  entry.gid_index = index;
  entry.port_num = port;
  entry.gid_type = IBV_GID_TYPE_IB;
  entry.ndev_ifindex = 0;
}

/// Writes the head of `entry` that a caller of an older or newer library has room for.
void store_entry(void* to, const ibv_gid_entry& entry, std::size_t entry_size) {
  std::memset(to, 0, entry_size);
  std::memcpy(to, &entry, std::min(entry_size, sizeof entry));
}

}  // namespace

int query_port(ibv_context* context, std::uint8_t number, ibv_port_attr* attr, std::size_t size) {
  if (of(context)->port(number) == kNoPort) {
    return EINVAL;
  }
  ibv_port_attr full{};
  fill_port(port_of(context, number), full);
  std::memset(attr, 0, size);
  std::memcpy(attr, &full, std::min(size, sizeof full));
  return 0;
}

int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input,
                    ibv_device_attr_ex* attr, std::size_t size) {
  if ((input != nullptr && input->comp_mask != 0) || size < sizeof(ibv_device_attr)) {
    return EINVAL;
  }
  ibv_device_attr_ex full{};
  fill_device(context, full.orig_attr);
  full.phys_port_cnt_ex = full.orig_attr.phys_port_cnt;
  full.completion_timestamp_mask = ~std::uint64_t{0};
  full.hca_core_clock = kCoreClockKhz;
  full.device_cap_flags_ex = full.orig_attr.device_cap_flags;
  std::memset(attr, 0, size);
  std::memcpy(attr, &full, std::min(size, sizeof full));
  return 0;
}

int query_rt_values(ibv_context* context, ibv_values_ex* values) {
  static_cast<void>(context);
  if ((values->comp_mask & ~static_cast<std::uint32_t>(IBV_VALUES_MASK_RAW_CLOCK)) != 0) {
    return EOPNOTSUPP;
  }
  // By ibv_query_rt_values_ex(3) the clock is in tv_nsec alone, in ticks of the core clock.
  values->raw_clock.tv_sec = 0;
  values->raw_clock.tv_nsec = static_cast<long>(hca::monotonic_ns());
  return 0;
}

}  // namespace softhca::verbs

using namespace softhca;
using namespace softhca::verbs;

#undef ibv_query_port

SOFTHCA_EXPORT int ibv_query_device(ibv_context* context, ibv_device_attr* attr) {
  std::memset(attr, 0, sizeof *attr);
  fill_device(context, *attr);
  return 0;
}

SOFTHCA_EXPORT int ibv_query_port(ibv_context* context, std::uint8_t number,
                                  _compat_ibv_port_attr* attr) {
  // Old callers have the structure without its last member.
  return query_port(context, number, reinterpret_cast<ibv_port_attr*>(attr),
                    offsetof(ibv_port_attr, port_cap_flags2));
}

SOFTHCA_EXPORT int ibv_query_gid(ibv_context* context, std::uint8_t number, int index,
                                 ibv_gid* gid) {
  const PortAttr port = port_of(context, number);
  if (index < 0 || index >= port.gid_count) {
    errno = EINVAL;
    return -1;
  }
  const Gid& entry = port.gids[static_cast<std::size_t>(index)];
  std::copy(entry.begin(), entry.end(), gid->raw);
  return 0;
}

SOFTHCA_EXPORT int _ibv_query_gid_ex(ibv_context* context, std::uint32_t number,
                                     std::uint32_t index, ibv_gid_entry* entry, std::uint32_t flags,
                                     std::size_t entry_size) {
  const PortAttr port = port_of(context, number);
  if (flags != 0 || index >= port.gid_count) {
    return EINVAL;
  }
  if (!is_set(port.gids[index])) {
    return ENODATA;
  }
  ibv_gid_entry full{};
  fill_gid(full, port.gids[index], index, number);
  store_entry(entry, full, entry_size);
  return 0;
}

SOFTHCA_EXPORT ssize_t _ibv_query_gid_table(ibv_context* context, ibv_gid_entry* entries,
                                            std::size_t max_entries, std::uint32_t flags,
                                            std::size_t entry_size) {
  if (flags != 0) {
    return -EOPNOTSUPP;
  }
  std::size_t count = 0;
  const auto ports = static_cast<std::uint32_t>(of(context)->info().ports.size());
  for (std::uint32_t number = 1; number <= ports; ++number) {
    const PortAttr port = port_of(context, number);
    for (std::uint32_t index = 0; index < port.gid_count; ++index) {
      if (!is_set(port.gids[index])) {
        continue;
      }
      if (count == max_entries) {
        return -EINVAL;
      }
      ibv_gid_entry full{};
      fill_gid(full, port.gids[index], index, number);
      store_entry(reinterpret_cast<std::uint8_t*>(entries) + count * entry_size, full, entry_size);
      ++count;
    }
  }
  return static_cast<ssize_t>(count);
}

SOFTHCA_EXPORT int ibv_query_gid_type(ibv_context* context, std::uint8_t number, unsigned int index,
                                      int* type) {
  if (index >= port_of(context, number).gid_count) {
    errno = EINVAL;
    return -1;
  }
  *type = 0;  // InfiniBand and RoCE v1 share the number here
  return 0;
}

SOFTHCA_EXPORT int ibv_query_pkey(ibv_context* context, std::uint8_t number, int index,
                                  __be16* pkey) {
  const PortAttr port = port_of(context, number);
  if (index < 0 || index >= port.pkey_count) {
    errno = EINVAL;
    return -1;
  }
  *pkey = __builtin_bswap16(port.pkeys[static_cast<std::size_t>(index)]);
  return 0;
}

SOFTHCA_EXPORT int ibv_get_pkey_index(ibv_context* context, std::uint8_t number, __be16 pkey) {
  const PortAttr port = port_of(context, number);
  const std::uint16_t wanted = __builtin_bswap16(pkey);
  for (int i = 0; i < port.pkey_count; ++i) {
    if (port.pkeys[static_cast<std::size_t>(i)] == wanted) {
      return i;
    }
  }
  errno = EINVAL;
  return -1;
}
