// SPDX-License-Identifier: BSD-3-Clause
//
// Any bytes as each of the files that ACMs are configured with: what is read is read again as the
// same, and every problem names its line.
#include <cstddef>
#include <cstdint>
#include <string>

#include "acm/files_model.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  wireup::acm::test::check_any_text(std::string(data, data + size));
  return 0;
}
