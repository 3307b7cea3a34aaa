// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace wireup::settings {

/// What can be set, in the order of the table.
enum class Id : std::uint8_t {
  Device,
  PKey,
  PathSources,
  SaBulk,
  MayResolve,
  RuntimeDirectory,
  CacheDirectory,
  CacheEntries,
  ServiceSocket,
  LogLevel,
  CmCapture,
  CmCarrier,
};
inline constexpr std::size_t kCount = 12;

/// What a value looks like.
enum class Kind : std::uint8_t {
  /// "device" or "device:port".
  Port,
  /// 0x0001 to 0xFFFF.
  PKey,
  /// An absolute path.
  Path,
  /// A decimal number from `min` to `max`.
  Number,
  YesNo,
  /// One of `words`.
  Word,
  /// Some of `words`, each once, parted by commas; their order counts.
  Words,
};

/// One setting. All texts are constant and live as long as the program.
struct Spec {
  Id id;
  /// As in the file.
  std::string_view name;
  /// The environment's variable.
  std::string_view variable;
  Kind kind;
  /// Empty: not set.
  std::string_view usual;
  /// One sentence, for people.
  std::string_view help;
  /// Parted by blanks; "a=b" makes the word a the same as b.
  std::string_view words{};
  std::uint64_t min = 0;
  std::uint64_t max = 0;
};

/// Indexed by Id.
[[nodiscard]] const std::array<Spec, kCount>& table() noexcept;
[[nodiscard]] const Spec& spec_of(Id id) noexcept;
/// nullptr: there is no setting of this name.
[[nodiscard]] const Spec* find(std::string_view name) noexcept;

/// The value as it is kept: trimmed, words in their one spelling. Errc::InvalidArgument with the
/// setting, the value, what is possible, and what to do.
[[nodiscard]] Result<std::string> normalise(const Spec& spec, std::string_view text);

}  // namespace wireup::settings
