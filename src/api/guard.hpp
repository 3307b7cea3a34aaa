// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <exception>
#include <new>
#include <string_view>

#include "base/error.hpp"
#include "wireup/wireup.h"

namespace wireup::api {

/// Remembers the text of this thread's last failed call, and returns its status.
wireup_status_t report(const Error& error) noexcept;
wireup_status_t report_text(wireup_status_t status, std::string_view text) noexcept;

/// Runs the body of an entry of the C API: no exception crosses it.
template <typename F>
wireup_status_t guarded(F&& body) noexcept {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return report_text(WIREUP_ERR_NO_RESOURCES, "out of memory");
  } catch (const std::exception& error) {
    return report_text(WIREUP_ERR_INTERNAL, error.what());
  } catch (...) {
    return report_text(WIREUP_ERR_INTERNAL, "unknown exception");
  }
}

}  // namespace wireup::api
