// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/ids.hpp"
#include "base/result.hpp"
#include "mad/acm.hpp"

namespace wireup::acm {

// Which port is meant by a name or an IP address, from what the subnet's administration knows of
// ports that run nothing of ours.

/// A port of a channel adapter and its node's description, as in "node1 HCA-1" or "node1 mlx5_0".
struct DescribedPort {
  Gid gid;
  std::uint8_t port = 1;
  std::string description;
  friend bool operator==(const DescribedPort&, const DescribedPort&) = default;
};

/// A service that a port has registered.
struct RegisteredService {
  static constexpr std::size_t kDataSize = 16;
  std::string name;
  Gid gid;
  PKey pkey;
  /// The first bytes of its data.
  std::array<std::uint8_t, kDataSize> data{};
  friend bool operator==(const RegisteredService&, const RegisteredService&) = default;
};

/// DAPL's Address Translation Service: who registers a service of this name says that the port has
/// the IP address in its data: an IPv4 address in bytes 12 to 15 behind zeros, or an IPv6 address.
inline constexpr std::string_view kAddressTranslationService = "DAPL Address Translation Service";

/// The port whose node is described by exactly `name`, or else begins with that word; letters of
/// either case. Nothing when there is none. Errc::InvalidArgument when there are several: the text
/// names them.
[[nodiscard]] Result<std::optional<Gid>> match_description(std::string_view name,
                                                           std::span<const DescribedPort> ports);

/// The port that has registered a service of this name (for a name), or this IP address with the
/// Address Translation Service, in a partition that `pkey` can talk to. Nothing when there is none
/// or for another kind of address. Errc::InvalidArgument: as above.
[[nodiscard]] Result<std::optional<Gid>> match_service(const mad::AcmAddress& address, PKey pkey,
                                                       std::span<const RegisteredService> services);

}  // namespace wireup::acm
