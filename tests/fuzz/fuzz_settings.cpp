// SPDX-License-Identifier: BSD-3-Clause
//
// Any bytes as wireup.conf: what is read is a value that its setting can have.
#include <cstddef>
#include <cstdint>

#include "settings/file_model.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  wireup::settings::test::check_settings_file({reinterpret_cast<const char*>(data), size});
  return 0;
}
