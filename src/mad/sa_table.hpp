// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "mad/header.hpp"
#include "mad/node_record.hpp"
#include "mad/path_record.hpp"
#include "mad/service_record.hpp"

namespace wireup::mad {

/// The answer to a SubnAdmGetTable (IBTA vol 1, 15.3), put together from its segments: the SA
/// header of the first one, then the records one after the other, each at a multiple of
/// AttributeOffset * 8 bytes. A view: the bytes must outlive it. Values in host byte order.
struct SaTable {
  Header header;
  /// Bytes from one record to the next; 0 where no record came.
  std::size_t stride = 0;
  std::span<const std::uint8_t> payload;
};

/// Reads the header and checks the shape. Fails with Errc::Malformed unless there are at least the
/// SA header's bytes, of the SA's class and version.
[[nodiscard]] Result<SaTable> parse_sa_table(std::span<const std::uint8_t> bytes) noexcept;

/// The records of the table's payload. What is left after the last whole record is padding. Fails
/// with Errc::Malformed when the stride is shorter than a record of the kind.
[[nodiscard]] Result<std::vector<PathRecord>> sa_path_records(const SaTable& table);
[[nodiscard]] Result<std::vector<NodeRecord>> sa_node_records(const SaTable& table);
[[nodiscard]] Result<std::vector<ServiceRecord>> sa_service_records(const SaTable& table);

}  // namespace wireup::mad
