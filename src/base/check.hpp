// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace wireup::detail {
/// Prints the failed condition with its place and ends the process.
[[noreturn]] void check_failed(const char* condition, const char* file, int line) noexcept;
}  // namespace wireup::detail

/// A defect of ours, alive in every build type. Never for what a peer, a user or the system does.
#define WIREUP_CHECK(condition)                        \
  (static_cast<bool>(condition) ? static_cast<void>(0) \
                                : ::wireup::detail::check_failed(#condition, __FILE__, __LINE__))
