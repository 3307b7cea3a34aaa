// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>

#include "conn/driver/driver.hpp"
#include "wireup/wireup.h"

/// What the C API's handle points to.
struct wireup_context {
  std::unique_ptr<wireup::conn::Driver> driver;
};

namespace wireup::api {

/// Puts the parts of a context together: port, exchange, paths and driver.
[[nodiscard]] Result<std::unique_ptr<conn::Driver>> open_driver(const wireup_config_t& config);

}  // namespace wireup::api
