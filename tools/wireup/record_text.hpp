// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/time.hpp"
#include "mad/path_record.hpp"

namespace wireup::tool {

// Records and their parts for people and for programs. Pure.

/// "2048", or "code 9" for a code without a meaning.
[[nodiscard]] std::string mtu_text(std::uint8_t code);
/// In Gb/s: "100", "2.5", or "code 1".
[[nodiscard]] std::string rate_text(std::uint8_t code);
/// "0x8001".
[[nodiscard]] std::string pkey_text(PKey pkey);
[[nodiscard]] std::string guid_text(Guid guid);
/// "0.2s", "59.9s", "3m12s", "5h07m", "2d04h"; "-" for nothing.
[[nodiscard]] std::string age_text(const std::optional<Duration>& age);

/// "dgid ... dlid 4 sl 0 mtu 2048 rate 100 pkey 0xffff".
[[nodiscard]] std::string record_text(const mad::PathRecord& record);
/// All fields; GIDs, GUIDs and P_Keys as texts, MTU in bytes and rate in Gb/s beside their codes.
[[nodiscard]] nlohmann::ordered_json record_json(const mad::PathRecord& record);
/// Seconds with milliseconds; null for nothing.
[[nodiscard]] nlohmann::ordered_json age_json(const std::optional<Duration>& age);

}  // namespace wireup::tool
