// SPDX-License-Identifier: BSD-3-Clause
// The calls of libibumad that only look at or fill in a buffer.
#include <arpa/inet.h>
#include <infiniband/umad.h>

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "softhca/umad/agent_protocol.hpp"
#include "softhca/umad/export.hpp"

static_assert(sizeof(ib_user_mad) == sizeof(softhca::UmadHeader));

namespace softhca {
namespace {

std::atomic<int> debug_level{0};

ib_user_mad* header_of(void* umad) {
  return static_cast<ib_user_mad*>(umad);
}

}  // namespace

int umad_debug_level() {
  return debug_level.load(std::memory_order_relaxed);
}

void umad_complain(const char* format, ...) {
  if (umad_debug_level() < 1) {
    return;
  }
  std::va_list args;
  va_start(args, format);
  std::fputs("softhca: umad: ", stderr);
  std::vfprintf(stderr, format, args);
  std::fputc('\n', stderr);
  va_end(args);
}

}  // namespace softhca

using softhca::header_of;

SOFTHCA_EXPORT int umad_init() {
  return 0;
}

SOFTHCA_EXPORT int umad_done() {
  return 0;
}

SOFTHCA_EXPORT void* umad_get_mad(void* umad) {
  return header_of(umad)->data;
}

SOFTHCA_EXPORT size_t umad_size() {
  return sizeof(ib_user_mad);
}

SOFTHCA_EXPORT int umad_status(void* umad) {
  return static_cast<int>(header_of(umad)->status);
}

SOFTHCA_EXPORT ib_mad_addr_t* umad_get_mad_addr(void* umad) {
  return &header_of(umad)->addr;
}

SOFTHCA_EXPORT int umad_set_grh_net(void* umad, void* mad_addr) {
  ib_mad_addr_t& to = header_of(umad)->addr;
  if (mad_addr == nullptr) {
    to.grh_present = 0;
    return 0;
  }
  const auto& from = *static_cast<const ib_mad_addr_t*>(mad_addr);
  to.grh_present = 1;
  std::memcpy(to.gid, from.gid, sizeof to.gid);
  to.flow_label = from.flow_label;
  to.hop_limit = from.hop_limit;
  to.traffic_class = from.traffic_class;
  return 0;
}

SOFTHCA_EXPORT int umad_set_grh(void* umad, void* mad_addr) {
  umad_set_grh_net(umad, mad_addr);
  if (mad_addr != nullptr) {
    ib_mad_addr_t& to = header_of(umad)->addr;
    to.flow_label = htonl(to.flow_label);
  }
  return 0;
}

SOFTHCA_EXPORT int umad_set_addr_net(void* umad, __be16 dlid, __be32 dqp, int sl, __be32 qkey) {
  ib_mad_addr_t& to = header_of(umad)->addr;
  to.lid = dlid;
  to.qpn = dqp;
  to.sl = static_cast<std::uint8_t>(sl);
  to.qkey = qkey;
  return 0;
}

SOFTHCA_EXPORT int umad_set_addr(void* umad, int dlid, int dqp, int sl, int qkey) {
  return umad_set_addr_net(umad, htons(static_cast<std::uint16_t>(dlid)),
                           htonl(static_cast<std::uint32_t>(dqp)), sl,
                           htonl(static_cast<std::uint32_t>(qkey)));
}

SOFTHCA_EXPORT int umad_set_pkey(void* umad, int pkey_index) {
  header_of(umad)->addr.pkey_index = static_cast<std::uint16_t>(pkey_index);
  return 0;
}

SOFTHCA_EXPORT int umad_get_pkey(void* umad) {
  return header_of(umad)->addr.pkey_index;
}

SOFTHCA_EXPORT int umad_debug(int level) {
  if (level >= 0) {
    softhca::debug_level.store(level, std::memory_order_relaxed);
  }
  return softhca::umad_debug_level();
}

SOFTHCA_EXPORT void umad_addr_dump(ib_mad_addr_t* addr) {
  std::fprintf(stderr,
               "softhca: address qpn %u qkey 0x%x lid %u sl %u path bits 0x%x pkey index %u",
               ntohl(addr->qpn), ntohl(addr->qkey), ntohs(addr->lid), addr->sl, addr->path_bits,
               addr->pkey_index);
  if (addr->grh_present != 0) {
    std::fprintf(stderr, " gid ");
    for (const std::uint8_t byte : addr->gid) {
      std::fprintf(stderr, "%02x", byte);
    }
    std::fprintf(stderr, " gid index %u hop limit %u traffic class 0x%x flow label 0x%x",
                 addr->gid_index, addr->hop_limit, addr->traffic_class, ntohl(addr->flow_label));
  }
  std::fputc('\n', stderr);
}

SOFTHCA_EXPORT void umad_dump(void* umad) {
  ib_user_mad* header = header_of(umad);
  std::fprintf(stderr, "softhca: mad agent %u status 0x%x timeout %u ms retries %u\n",
               header->agent_id, header->status, header->timeout_ms, header->retries);
  umad_addr_dump(&header->addr);
}
