// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "base/check.hpp"

namespace wireup {

/// An identifier of the wire as a type of its own: no two kinds mix by accident. Values are in
/// host byte order; the codecs of src/mad convert. `Bits` is the width on the wire: make() checks
/// a value from outside, the constructor is for values known to fit (a defect otherwise).
template <typename Tag, typename Rep, unsigned Bits>
class Id {
 public:
  using ValueType = Rep;
  static constexpr unsigned kBits = Bits;
  static constexpr Rep kMax = Bits == sizeof(Rep) * 8
                                  ? static_cast<Rep>(~Rep{0})
                                  : static_cast<Rep>((Rep{1} << (Bits % (sizeof(Rep) * 8))) - 1);

  constexpr Id() noexcept = default;
  explicit constexpr Id(Rep value) noexcept : value_(value) { WIREUP_CHECK(value <= kMax); }

  [[nodiscard]] static constexpr std::optional<Id> make(std::uint64_t value) noexcept {
    if (value > kMax) {
      return std::nullopt;
    }
    return Id(static_cast<Rep>(value));
  }

  [[nodiscard]] constexpr Rep value() const noexcept { return value_; }
  [[nodiscard]] constexpr bool is_zero() const noexcept { return value_ == 0; }
  friend constexpr auto operator<=>(const Id&, const Id&) noexcept = default;

 private:
  Rep value_ = 0;
};

using Lid = Id<struct LidTag, std::uint16_t, 16>;

/// IBTA vol 1, 4.1.3: 0x0001 to 0xBFFF name ports, 0xC000 to 0xFFFE multicast groups; 0 names
/// nobody and 0xFFFF, the permissive LID, everybody.
[[nodiscard]] constexpr bool is_unicast(Lid lid) noexcept {
  return lid.value() != 0 && lid.value() < 0xC000;
}
[[nodiscard]] constexpr bool is_multicast(Lid lid) noexcept {
  return lid.value() >= 0xC000 && lid.value() != 0xFFFF;
}
using Guid = Id<struct GuidTag, std::uint64_t, 64>;
using Qpn = Id<struct QpnTag, std::uint32_t, 24>;
using Psn = Id<struct PsnTag, std::uint32_t, 24>;
using QKey = Id<struct QKeyTag, std::uint32_t, 32>;
using CommId = Id<struct CommIdTag, std::uint32_t, 32>;
using ServiceId = Id<struct ServiceIdTag, std::uint64_t, 64>;
using Tid = Id<struct TidTag, std::uint64_t, 64>;
using Sl = Id<struct SlTag, std::uint8_t, 4>;
using FlowLabel = Id<struct FlowLabelTag, std::uint32_t, 20>;

/// A partition key: 15 bits of partition number and the membership bit.
class PKey {
 public:
  static constexpr std::uint16_t kFullMember = 0x8000;

  constexpr PKey() noexcept = default;
  explicit constexpr PKey(std::uint16_t value) noexcept : value_(value) {}

  [[nodiscard]] constexpr std::uint16_t value() const noexcept { return value_; }
  [[nodiscard]] constexpr bool is_full_member() const noexcept {
    return (value_ & kFullMember) != 0;
  }
  [[nodiscard]] constexpr std::uint16_t partition() const noexcept {
    return static_cast<std::uint16_t>(value_ & 0x7FFFU);
  }
  /// Two keys may talk when the partitions are equal and at least one is a full member
  /// (IBTA vol 1, 10.9.3).
  [[nodiscard]] constexpr bool matches(PKey other) const noexcept {
    return partition() == other.partition() && partition() != 0 &&
           (is_full_member() || other.is_full_member());
  }
  friend constexpr auto operator<=>(const PKey&, const PKey&) noexcept = default;

 private:
  std::uint16_t value_ = 0;
};

/// A 128-bit port identifier, kept as the 16 bytes of the wire.
class Gid {
 public:
  static constexpr std::size_t kSize = 16;
  using Bytes = std::array<std::uint8_t, kSize>;

  constexpr Gid() noexcept = default;
  explicit constexpr Gid(const Bytes& bytes) noexcept : bytes_(bytes) {}
  /// From subnet prefix and interface id, both in host byte order.
  [[nodiscard]] static constexpr Gid make(std::uint64_t prefix, Guid interface_id) noexcept {
    Gid gid;
    for (std::size_t i = 0; i < 8; ++i) {
      const unsigned shift = static_cast<unsigned>(56 - 8 * i);
      gid.bytes_[i] = static_cast<std::uint8_t>(prefix >> shift);
      gid.bytes_[8 + i] = static_cast<std::uint8_t>(interface_id.value() >> shift);
    }
    return gid;
  }

  [[nodiscard]] constexpr const Bytes& bytes() const noexcept { return bytes_; }
  [[nodiscard]] constexpr std::uint64_t prefix() const noexcept { return half(0); }
  [[nodiscard]] constexpr Guid interface_id() const noexcept { return Guid(half(8)); }
  [[nodiscard]] constexpr bool is_zero() const noexcept { return *this == Gid{}; }
  [[nodiscard]] constexpr bool is_multicast() const noexcept { return bytes_[0] == 0xFF; }
  friend constexpr auto operator<=>(const Gid&, const Gid&) noexcept = default;

 private:
  [[nodiscard]] constexpr std::uint64_t half(std::size_t from) const noexcept {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < 8; ++i) {
      value = value << 8U | bytes_[from + i];
    }
    return value;
  }

  Bytes bytes_{};
};

/// Text of a GID as 8 groups of 4 hexadecimal digits, NUL-terminated: "fe80:0000:…:0001".
using GidText = std::array<char, 40>;
[[nodiscard]] GidText to_text(const Gid& gid) noexcept;

/// A peer: a rank of a PMIx namespace. Spawned and connected jobs are peers too, so the namespace
/// is part of the name. The namespace text is bounded by PMIX_MAX_NSLEN (255).
struct PeerId {
  static constexpr std::size_t kMaxNamespace = 255;
  /// Hash of the namespace text (hash_namespace), as it travels in messages.
  std::uint64_t job = 0;
  std::uint32_t rank = 0;
  friend constexpr auto operator<=>(const PeerId&, const PeerId&) noexcept = default;
};

/// 64-bit FNV-1a of a PMIx namespace; equal on every node and in every version.
[[nodiscard]] constexpr std::uint64_t hash_namespace(std::string_view text) noexcept {
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  for (const char c : text) {
    hash ^= static_cast<std::uint8_t>(c);
    hash *= 0x100000001B3ULL;
  }
  return hash;
}

}  // namespace wireup

template <>
struct std::hash<wireup::PeerId> {
  std::size_t operator()(const wireup::PeerId& peer) const noexcept {
    return std::hash<std::uint64_t>{}(peer.job ^ peer.rank * 0x9E3779B97F4A7C15ULL);
  }
};

template <>
struct std::hash<wireup::Gid> {
  std::size_t operator()(const wireup::Gid& gid) const noexcept {
    return std::hash<std::uint64_t>{}(gid.prefix() * 0x9E3779B97F4A7C15ULL ^
                                      gid.interface_id().value());
  }
};

template <typename Tag, typename Rep, unsigned Bits>
struct std::hash<wireup::Id<Tag, Rep, Bits>> {
  std::size_t operator()(const wireup::Id<Tag, Rep, Bits>& id) const noexcept {
    return std::hash<Rep>{}(id.value());
  }
};
