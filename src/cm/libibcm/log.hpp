// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "base/error.hpp"

namespace wireup::cm::ibcm {

/// A line on stderr for who set WIREUP_LOG to anything but "off": a library of programs that know
/// nothing of us says nothing unasked.
inline void log_line(const char* step, const Error& error) noexcept {
  const char* level = std::getenv("WIREUP_LOG");
  if (level != nullptr && *level != '\0' && std::string_view(level) != "off") {
    std::fprintf(stderr, "libibcm: %s: %.*s\n", step, static_cast<int>(error.what().size()),
                 error.what().data());
  }
}

}  // namespace wireup::cm::ibcm
