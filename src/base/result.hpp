// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <tl/expected.hpp>

#include "base/error.hpp"

namespace wireup {

/// A value or the reason why there is none. Functions that return one are [[nodiscard]].
template <typename T = void>
using Result = tl::expected<T, Error>;

[[nodiscard]] inline tl::unexpected<Error> fail(const Error& error) noexcept {
  return tl::unexpected<Error>(error);
}
[[nodiscard]] inline tl::unexpected<Error> fail(Errc code) noexcept {
  return tl::unexpected<Error>(Error(code));
}

}  // namespace wireup
