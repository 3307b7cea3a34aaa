// SPDX-License-Identifier: BSD-3-Clause
// Lines on stderr, each with the program's name in front.
#pragma once

namespace softhca {

[[gnu::format(printf, 1, 2)]] void log_line(const char* format, ...);

/// At most one such line a second; what is left out is counted and said with the next one.
[[gnu::format(printf, 1, 2)]] void log_limited(const char* format, ...);

}  // namespace softhca
