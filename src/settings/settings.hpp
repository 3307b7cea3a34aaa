// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/ids.hpp"
#include "base/result.hpp"
#include "settings/table.hpp"

namespace wireup::settings {

/// Who set a value; a later one overrides an earlier one.
enum class Origin : std::uint8_t { Default, File, Environment, Caller };

struct Value {
  /// Empty: not set.
  std::string text;
  Origin origin = Origin::Default;
  /// "default", "/etc/wireup/wireup.conf:3", "WIREUP_DEVICE", "--device".
  std::string place = "default";
  friend bool operator==(const Value&, const Value&) noexcept = default;
};

/// All settings with their origins. A value type.
class Settings {
 public:
  /// The defaults.
  Settings();

  /// Sets a value. Errc::InvalidArgument, beginning with `place`, when the setting cannot have it.
  [[nodiscard]] Result<> set(Id id, std::string_view text, Origin origin, std::string place);
  [[nodiscard]] const Value& value(Id id) const noexcept {
    return values_[static_cast<std::size_t>(id)];
  }

  /// "", "device" or "device:port".
  [[nodiscard]] const std::string& device() const noexcept { return value(Id::Device).text; }
  [[nodiscard]] std::optional<wireup::PKey> pkey() const noexcept;
  /// As acm's origin_name() has them, in order.
  [[nodiscard]] std::vector<std::string> path_sources() const;
  /// "auto", "always" or "never".
  [[nodiscard]] const std::string& sa_bulk() const noexcept { return value(Id::SaBulk).text; }
  [[nodiscard]] bool may_resolve() const noexcept { return value(Id::MayResolve).text == "yes"; }
  /// With the user's number for %u; empty: not set.
  [[nodiscard]] std::string runtime_directory(std::uint32_t uid) const;
  [[nodiscard]] std::string cache_directory() const { return value(Id::CacheDirectory).text; }
  [[nodiscard]] std::uint32_t cache_entries() const noexcept;
  [[nodiscard]] std::string service_socket() const { return value(Id::ServiceSocket).text; }
  /// A level of spdlog by its name, but "warn" and "error" for "warning" and "err".
  [[nodiscard]] const std::string& log_level() const noexcept { return value(Id::LogLevel).text; }
  /// As cm::capture_file() takes it; empty: not set.
  [[nodiscard]] const std::string& cm_capture() const noexcept { return value(Id::CmCapture).text; }

  /// "auto", or the name of a carrier.
  [[nodiscard]] const std::string& cm_carrier() const noexcept { return value(Id::CmCarrier).text; }

  friend bool operator==(const Settings&, const Settings&) noexcept = default;

 private:
  std::array<Value, kCount> values_;
};

inline constexpr std::string_view kUsualFile = "/etc/wireup/wireup.conf";
/// Names another file than the usual one.
inline constexpr const char* kFileVariable = "WIREUP_CONF";

struct Loaded {
  Settings settings;
  /// The file that was read; empty: there is none.
  std::string file;
  /// Values that were left out, each with its FILE:LINE or variable, for people to correct.
  std::vector<Error> problems;
};

/// The value of a variable of the environment; nullptr: not set.
using Environment = std::function<const char*(const char*)>;

/// Lays the file's text over the defaults, and the environment over that. An empty variable counts
/// as not set. Pure.
[[nodiscard]] Loaded layer(std::string_view file_text, std::string_view file,
                           const Environment& environment);

/// The settings of this process: the usual file, if there, or the one that WIREUP_CONF names, then
/// the environment. For drivers: it reads a file and the environment.
[[nodiscard]] Loaded load();

}  // namespace wireup::settings
