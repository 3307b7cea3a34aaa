// SPDX-License-Identifier: BSD-3-Clause
#include "umad/ops.hpp"

#include <infiniband/umad.h>

namespace wireup::umad {

const Ops& system_ops() noexcept {
  static const Ops table{
      .open_port = umad_open_port,
      .close_port = umad_close_port,
      .register_agent = umad_register,
      .unregister_agent = umad_unregister,
      .get_fd = umad_get_fd,
      .send = umad_send,
      .receive = umad_recv,
  };
  return table;
}

}  // namespace wireup::umad
