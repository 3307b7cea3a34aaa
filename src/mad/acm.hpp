// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "base/ids.hpp"
#include "base/result.hpp"
#include "mad/header.hpp"

namespace wireup::mad {

/// Kinds of ACM addresses, as numbered on the wire.
enum class AcmAddressType : std::uint8_t { Name = 1, Ipv4 = 2, Ipv6 = 3, Gid = 4, Lid = 5 };

/// An ACM address: a kind and 64 bytes, zero behind the address itself, compared whole.
class AcmAddress {
 public:
  static constexpr std::size_t kSize = 64;
  using Bytes = std::array<std::uint8_t, kSize>;

  [[nodiscard]] static AcmAddress gid(const Gid& gid) noexcept;
  [[nodiscard]] static AcmAddress lid(Lid lid) noexcept;
  [[nodiscard]] static AcmAddress ipv4(const std::array<std::uint8_t, 4>& address) noexcept;
  [[nodiscard]] static AcmAddress ipv6(const std::array<std::uint8_t, 16>& address) noexcept;
  /// Errc::InvalidArgument when the name is empty, longer than 64 bytes, or holds a NUL.
  [[nodiscard]] static Result<AcmAddress> name(std::string_view name) noexcept;
  /// From the wire: `type` must be one of AcmAddressType and the padding zero (for a name: zero
  /// from the first NUL on, and not empty). Errc::Malformed otherwise; `which` names the address
  /// in the message.
  [[nodiscard]] static Result<AcmAddress> parse(std::uint8_t type,
                                                std::span<const std::uint8_t, kSize> bytes,
                                                const char* which) noexcept;

  [[nodiscard]] AcmAddressType type() const noexcept { return type_; }
  [[nodiscard]] const Bytes& bytes() const noexcept { return bytes_; }
  /// The GID of a Gid address.
  [[nodiscard]] std::optional<Gid> as_gid() const noexcept;
  /// The LID of a Lid address.
  [[nodiscard]] std::optional<Lid> as_lid() const noexcept;
  friend constexpr auto operator<=>(const AcmAddress&, const AcmAddress&) noexcept = default;

 private:
  AcmAddress(AcmAddressType type, std::span<const std::uint8_t> bytes) noexcept;

  AcmAddressType type_;
  Bytes bytes_{};
};

/// The address alone: "node7", "10.0.0.7", "fe80:0000:...", "7". What cannot be printed of a name
/// is a '?'.
[[nodiscard]] std::string value_text(const AcmAddress& address);
/// With its kind: "name node7", "IP address 10.0.0.7", "GID fe80:0000:...", "LID 7".
[[nodiscard]] std::string to_text(const AcmAddress& address);

/// The MGIDs of a message. 6 is what fits in a MAD: the format's own record has 10, so a count of
/// 7 to 10 would be read from behind the message.
struct AcmGroups {
  static constexpr std::size_t kMax = 6;

  std::array<Gid, kMax> gids{};
  std::size_t count = 0;

  [[nodiscard]] std::span<const Gid> span() const noexcept { return {gids.data(), count}; }
  friend constexpr bool operator==(const AcmGroups&, const AcmGroups&) noexcept = default;
};

/// "Who has `destination`?", sent to group 0 and heard by every member. `groups` are the groups
/// that the sender has joined, in ascending preference.
struct AcmRequest {
  Tid tid;
  AcmAddress destination;
  AcmAddress source;
  AcmGroups groups;
  friend bool operator==(const AcmRequest&, const AcmRequest&) noexcept = default;
};

/// The answer, unicast: the one group whose parameters the path takes. Without a group when
/// `status` is not 0.
struct AcmResponse {
  Tid tid;
  std::uint8_t status = 0;
  std::optional<Gid> group;
  friend bool operator==(const AcmResponse&, const AcmResponse&) noexcept = default;
};

using AcmMessage = std::variant<AcmRequest, AcmResponse>;

/// Reads an ACM MAD, strictly: exactly kMadSize bytes, base version 1, class 0x2C version 1,
/// control word 1 (resolve), 1 to 6 groups (exactly one in a good response), every one a multicast
/// GID, known address types, zero padding. Errc::Malformed otherwise.
[[nodiscard]] Result<AcmMessage> parse_acm(std::span<const std::uint8_t> bytes) noexcept;

/// Writes the whole MAD. A request needs 1 to AcmGroups::kMax groups, a defect otherwise.
void serialize(const AcmRequest& request, Mad& to) noexcept;
void serialize(const AcmResponse& response, Mad& to) noexcept;

}  // namespace wireup::mad
