// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace wireup::umad {

/// Every call of libibumad that we make, as a table, so that a test can stand in for the kernel.
/// The meaning is the library's: a negative return is -errno, except that open_port() also leaves
/// the reason of a refused open in errno.
struct Ops {
  int (*open_port)(const char* device, int port);
  int (*close_port)(int port_id);
  int (*register_agent)(int port_id, int mgmt_class, int class_version, std::uint8_t rmpp_version,
                        long* method_mask);
  int (*unregister_agent)(int port_id, int agent_id);
  int (*get_fd)(int port_id);
  int (*send)(int port_id, int agent_id, void* umad, int length, int timeout_ms, int retries);
  int (*receive)(int port_id, void* umad, int* length, int timeout_ms);
};

/// The table that calls libibumad.
[[nodiscard]] const Ops& system_ops() noexcept;

}  // namespace wireup::umad
