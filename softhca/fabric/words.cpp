// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/fabric/words.hpp"

#include <charconv>
#include <cmath>

namespace softhca {

std::optional<std::uint64_t> parse_number(std::string_view text, std::uint64_t low,
                                          std::uint64_t high) {
  const bool hex = text.starts_with("0x");
  const std::string_view digits = hex ? text.substr(2) : text;
  std::uint64_t value = 0;
  const auto read =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, hex ? 16 : 10);
  if (read.ec != std::errc() || read.ptr != digits.data() + digits.size() || value < low ||
      value > high) {
    return std::nullopt;
  }
  return value;
}

std::optional<std::uint32_t> parse_probability(std::string_view text) {
  const bool percent = text.ends_with('%');
  if (percent) {
    text.remove_suffix(1);
  }
  double value = 0;
  const auto read =
      std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size() || !(value >= 0) ||
      value > (percent ? 100 : 1)) {
    return std::nullopt;
  }
  return static_cast<std::uint32_t>(std::lround(value * (percent ? 1e4 : 1e6)));
}

std::vector<PortIndex> ports_by_name(std::string_view text, const FabricView& view) {
  const std::size_t first = text.find(':');
  const std::size_t last = text.rfind(':');
  const std::string_view host = text.substr(0, first);
  const std::string_view device =
      first == last ? std::string_view() : text.substr(first + 1, last - first - 1);
  std::uint64_t wanted = 0;  // any
  if (last != std::string_view::npos) {
    wanted = parse_number(text.substr(last + 1), 1, kMaxPortsPerHca).value_or(UINT64_MAX);
  }
  std::vector<PortIndex> ports;
  for (const HcaInfo& hca : view.hcas_of(host)) {
    for (std::uint32_t i = 0; i < hca.ports.size(); ++i) {
      if ((device.empty() || device == hca.name) && (wanted == 0 || wanted == i + 1)) {
        ports.push_back(hca.ports[i]);
      }
    }
  }
  return ports;
}

}  // namespace softhca
