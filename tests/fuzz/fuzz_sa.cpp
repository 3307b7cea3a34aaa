// SPDX-License-Identifier: BSD-3-Clause
//
// Any bytes as an SA MAD: what parses is written back and reads as the same.
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.hpp"
#include "mad/sa.hpp"
#include "mad/sa_table.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::uint8_t> bytes(data, size);
  const auto sa = wireup::mad::parse_sa_mad(bytes);
  if (sa.has_value()) {
    wireup::mad::Mad again{};
    wireup::mad::serialize(*sa, again);
    WIREUP_CHECK(wireup::mad::parse_sa_mad(again) == sa);
    static_cast<void>(wireup::mad::sa_path_record(*sa));
    static_cast<void>(wireup::mad::sa_mc_member_record(*sa));
    static_cast<void>(wireup::mad::sa_notice(*sa));
    static_cast<void>(wireup::mad::sa_status_text(sa->header.status));
  }
  if (const auto table = wireup::mad::parse_sa_table(bytes)) {
    const auto paths = wireup::mad::sa_path_records(*table);
    WIREUP_CHECK(!paths.has_value() || paths->size() * wireup::mad::PathRecord::kSize <= size);
    static_cast<void>(wireup::mad::sa_node_records(*table));
    static_cast<void>(wireup::mad::sa_service_records(*table));
  }
  return 0;
}
