// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <infiniband/sa.h>

#include "base/ids.hpp"
#include "base/result.hpp"
#include "cm/engine/types.hpp"
#include "mad/cm.hpp"
#include "mad/path_record.hpp"

namespace wireup::cm::ibcm {

/// A program's path record. Errc::InvalidArgument: a value wider than its field on the wire.
[[nodiscard]] Result<mad::PathRecord> read_path(const ibv_sa_path_rec& path);
[[nodiscard]] ibv_sa_path_rec write_path(const mad::PathRecord& path) noexcept;

/// The path of a peer's REQ or LAP as it looks from here: the peer's end is the destination.
[[nodiscard]] mad::PathRecord path_from_peer(const mad::ReqPath& path, PKey pkey,
                                             std::uint8_t mtu) noexcept;

/// Where the peer's CM is at the end of a path.
[[nodiscard]] Address address_of(const mad::PathRecord& path, std::uint16_t pkey_index,
                                 std::uint8_t path_bits) noexcept;

}  // namespace wireup::cm::ibcm
