// SPDX-License-Identifier: BSD-3-Clause
#include "record_text.hpp"

#include <fmt/format.h>

#include "mad/rate.hpp"

namespace wireup::tool {
namespace {

using nlohmann::ordered_json;

/// Gb/s of a rate code.
std::optional<double> rate_gbps(std::uint8_t code) {
  const auto mbps = mad::rate_mbps(code);
  return mbps.has_value() ? std::optional(*mbps / 1000.0) : std::nullopt;
}

template <typename T>
ordered_json or_null(const std::optional<T>& value) {
  return value.has_value() ? ordered_json(*value) : ordered_json(nullptr);
}

}  // namespace

std::string mtu_text(std::uint8_t code) {
  const auto bytes = mad::mtu_bytes(code);
  return bytes.has_value() ? fmt::format("{}", *bytes) : fmt::format("code {}", code);
}

std::string rate_text(std::uint8_t code) {
  const auto gbps = rate_gbps(code);
  return gbps.has_value() ? fmt::format("{:g}", *gbps) : fmt::format("code {}", code);
}

std::string pkey_text(PKey pkey) {
  return fmt::format("0x{:04x}", pkey.value());
}

std::string guid_text(Guid guid) {
  return fmt::format("0x{:016x}", guid.value());
}

std::string age_text(const std::optional<Duration>& age) {
  if (!age.has_value()) {
    return "-";
  }
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(*age).count();
  if (seconds < 60) {
    return fmt::format(
        "{}.{}s", seconds,
        std::chrono::duration_cast<std::chrono::milliseconds>(*age).count() % 1000 / 100);
  }
  if (seconds < 3600) {
    return fmt::format("{}m{:02}s", seconds / 60, seconds % 60);
  }
  if (seconds < 86400) {
    return fmt::format("{}h{:02}m", seconds / 3600, seconds % 3600 / 60);
  }
  return fmt::format("{}d{:02}h", seconds / 86400, seconds % 86400 / 3600);
}

std::string record_text(const mad::PathRecord& record) {
  return fmt::format("dgid {} dlid {} sl {} mtu {} rate {} pkey {}", to_text(record.dgid).data(),
                     record.dlid.value(), record.sl.value(), mtu_text(record.mtu),
                     rate_text(record.rate), pkey_text(record.pkey));
}

ordered_json record_json(const mad::PathRecord& record) {
  return {{"dgid", to_text(record.dgid).data()},
          {"sgid", to_text(record.sgid).data()},
          {"dlid", record.dlid.value()},
          {"slid", record.slid.value()},
          {"sl", record.sl.value()},
          {"mtu", or_null(mad::mtu_bytes(record.mtu))},
          {"mtu_code", record.mtu},
          {"rate_gbps", or_null(rate_gbps(record.rate))},
          {"rate_code", record.rate},
          {"pkey", pkey_text(record.pkey)},
          {"packet_lifetime", record.packet_lifetime},
          {"flow_label", record.flow_label.value()},
          {"hop_limit", record.hop_limit},
          {"traffic_class", record.traffic_class},
          {"reversible", record.reversible}};
}

ordered_json age_json(const std::optional<Duration>& age) {
  if (!age.has_value()) {
    return nullptr;
  }
  return static_cast<double>(std::chrono::duration_cast<std::chrono::milliseconds>(*age).count()) /
         1000.0;
}

}  // namespace wireup::tool
