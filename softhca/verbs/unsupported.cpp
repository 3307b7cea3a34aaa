// SPDX-License-Identifier: BSD-3-Clause
// Functions of libibverbs that would look into our objects as if they were its own, and that the
// emulated HCA does not offer.
#include <cerrno>

#include "softhca/verbs/objects.hpp"

using namespace softhca::verbs;

SOFTHCA_EXPORT ibv_context* ibv_import_device(int cmd_fd) {
  static_cast<void>(cmd_fd);
  return fail(EOPNOTSUPP);
}

SOFTHCA_EXPORT ibv_pd* ibv_import_pd(ibv_context* context, std::uint32_t handle) {
  static_cast<void>(context);
  static_cast<void>(handle);
  return fail(EOPNOTSUPP);
}

SOFTHCA_EXPORT void ibv_unimport_pd(ibv_pd* pd) {
  static_cast<void>(pd);
}

SOFTHCA_EXPORT ibv_mr* ibv_import_mr(ibv_pd* pd, std::uint32_t handle) {
  static_cast<void>(pd);
  static_cast<void>(handle);
  return fail(EOPNOTSUPP);
}

SOFTHCA_EXPORT void ibv_unimport_mr(ibv_mr* mr) {
  static_cast<void>(mr);
}

SOFTHCA_EXPORT ibv_dm* ibv_import_dm(ibv_context* context, std::uint32_t handle) {
  static_cast<void>(context);
  static_cast<void>(handle);
  return fail(EOPNOTSUPP);
}

SOFTHCA_EXPORT void ibv_unimport_dm(ibv_dm* dm) {
  static_cast<void>(dm);
}

SOFTHCA_EXPORT ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* pd, std::uint64_t offset, std::size_t length,
                                         std::uint64_t iova, int fd, int access) {
  static_cast<void>(pd);
  static_cast<void>(offset);
  static_cast<void>(length);
  static_cast<void>(iova);
  static_cast<void>(fd);
  static_cast<void>(access);
  return fail(EOPNOTSUPP);
}

SOFTHCA_EXPORT int ibv_set_ece(ibv_qp* qp, ibv_ece* ece) {
  static_cast<void>(qp);
  static_cast<void>(ece);
  errno = EOPNOTSUPP;
  return EOPNOTSUPP;
}

SOFTHCA_EXPORT int ibv_query_ece(ibv_qp* qp, ibv_ece* ece) {
  static_cast<void>(qp);
  *ece = {};
  return 0;
}

SOFTHCA_EXPORT int ibv_resolve_eth_l2_from_gid(ibv_context* context, ibv_ah_attr* attr,
                                               std::uint8_t* eth_mac, std::uint16_t* vid) {
  static_cast<void>(context);
  static_cast<void>(attr);
  static_cast<void>(eth_mac);
  static_cast<void>(vid);
  errno = EOPNOTSUPP;
  return -1;
}
