// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "base/error.hpp"
#include "base/time.hpp"
#include "conn/driver/driver.hpp"
#include "wireup/wireup.h"

namespace wireup::api {

/// Half of the clock's range stands for everything longer: sums of it and now do not overflow.
[[nodiscard]] inline Duration to_duration(std::uint64_t nanoseconds) noexcept {
  constexpr auto kLongest =
      static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max() / 2);
  return Duration(static_cast<std::int64_t>(std::min(nanoseconds, kLongest)));
}

[[nodiscard]] wireup_status_t to_status(const Error& error) noexcept;

/// Copies `text` into a zero-terminated array, cutting what does not fit.
template <std::size_t N>
void copy_text(char (&to)[N], std::string_view text) noexcept {
  // Not memcpy: an empty text may have no address.
  to[text.copy(to, N - 1)] = '\0';
}

/// Size of a struct in the first version of the interface that had it.
template <typename T>
inline constexpr std::size_t kFirstSize = sizeof(T);
template <>
inline constexpr std::size_t kFirstSize<wireup_event_t> = offsetof(wireup_event_t, path);

/// Fills the caller's struct as far as the caller knows it. False when it is smaller than the
/// first version of it.
template <typename T>
[[nodiscard]] bool store(T* to, T value) noexcept {
  const std::size_t size = to->struct_size;
  if (size < kFirstSize<T>) {
    return false;
  }
  value.struct_size = size;
  std::memcpy(to, &value, std::min(size, sizeof(T)));
  return true;
}

[[nodiscard]] wireup_event_t to_event(const conn::UserEvent& event, std::string_view nspace);
[[nodiscard]] wireup_peer_info_t to_info(const conn::Connection& connection);
[[nodiscard]] wireup_path_t to_path(const conn::PathView& view);
[[nodiscard]] wireup_stats_t to_stats(const conn::Stats& stats);

}  // namespace wireup::api
