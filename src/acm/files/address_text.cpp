// SPDX-License-Identifier: BSD-3-Clause
#include "acm/files/address_text.hpp"

#include <algorithm>

namespace wireup::acm {
namespace {

constexpr std::string_view kHexadecimalDigits = "0123456789abcdefABCDEF";

bool consists_of(std::string_view text, std::string_view characters) noexcept {
  return text.find_first_not_of(characters) == std::string_view::npos;
}

/// The bytes of an IPv6 address while it is read.
struct Ipv6Bytes {
  std::array<std::uint8_t, 16> bytes{};
  std::size_t count = 0;
  /// Where "::" was.
  std::optional<std::size_t> gap;

  [[nodiscard]] bool append_group(std::string_view digits) noexcept {
    const auto value = parse_hexadecimal(digits);
    if (digits.empty() || digits.size() > 4 || !consists_of(digits, kHexadecimalDigits) ||
        !value.has_value() || count + 2 > bytes.size()) {
      return false;
    }
    bytes[count++] = static_cast<std::uint8_t>(*value >> 8U);
    bytes[count++] = static_cast<std::uint8_t>(*value);
    return true;
  }

  [[nodiscard]] bool append_ipv4(std::string_view text) noexcept {
    const auto address = parse_ipv4(text);
    if (!address.has_value() || count + address->size() > bytes.size()) {
      return false;
    }
    std::copy(address->begin(), address->end(), bytes.begin() + static_cast<std::ptrdiff_t>(count));
    count += address->size();
    return true;
  }

  /// Moves what is behind the gap to the end. A gap stands for one group at least.
  [[nodiscard]] bool close() noexcept {
    if (!gap.has_value()) {
      return count == bytes.size();
    }
    if (count == bytes.size()) {
      return false;
    }
    const auto from = bytes.begin() + static_cast<std::ptrdiff_t>(*gap);
    const auto to = bytes.begin() + static_cast<std::ptrdiff_t>(count);
    std::fill(from, std::copy_backward(from, to, bytes.end()), std::uint8_t{});
    return true;
  }
};

}  // namespace

std::optional<std::array<std::uint8_t, 4>> parse_ipv4(std::string_view text) noexcept {
  std::array<std::uint8_t, 4> address{};
  for (std::size_t i = 0; i < address.size(); ++i) {
    const bool is_last = i + 1 == address.size();
    const std::size_t length = is_last ? text.size() : text.find('.');
    const std::string_view digits = text.substr(0, length);
    const auto value = parse_decimal(digits);
    if (length == std::string_view::npos || !value.has_value() || *value > 255 ||
        (digits.size() > 1 && digits.starts_with('0'))) {
      return std::nullopt;
    }
    address[i] = static_cast<std::uint8_t>(*value);
    text.remove_prefix(is_last ? length : length + 1);
  }
  return address;
}

std::optional<std::array<std::uint8_t, 16>> parse_ipv6(std::string_view text) noexcept {
  Ipv6Bytes address;
  if (text.starts_with("::")) {
    address.gap = 0;
    text.remove_prefix(2);
  }
  while (!text.empty()) {
    const std::size_t length = text.find(':');
    const std::string_view piece = text.substr(0, length);
    if (length == std::string_view::npos) {
      const bool is_ipv4 = piece.find('.') != std::string_view::npos;
      if (!(is_ipv4 ? address.append_ipv4(piece) : address.append_group(piece))) {
        return std::nullopt;
      }
      break;
    }
    if (!address.append_group(piece)) {
      return std::nullopt;
    }
    text.remove_prefix(length + 1);
    if (text.starts_with(':')) {
      if (address.gap.has_value()) {
        return std::nullopt;
      }
      address.gap = address.count;
      text.remove_prefix(1);
    } else if (text.empty()) {
      return std::nullopt;
    }
  }
  if (!address.close()) {
    return std::nullopt;
  }
  return address.bytes;
}

std::optional<mad::AcmAddress> parse_address(std::string_view word, const Line& line,
                                             ProblemLog& log) {
  if (const auto ipv4 = parse_ipv4(word)) {
    return mad::AcmAddress::ipv4(*ipv4);
  }
  if (const auto ipv6 = parse_ipv6(word)) {
    return mad::AcmAddress::ipv6(*ipv6);
  }
  if (word.starts_with('#')) {
    log.add(line.number, Errc::InvalidArgument,
            "%s is no address: the # of a comment must be the first character of its line",
            shown(word).data());
    return std::nullopt;
  }
  const bool is_dotted =
      word.find('.') != std::string_view::npos && consists_of(word, "0123456789.");
  const bool has_colons =
      word.find(':') != std::string_view::npos && consists_of(word, "0123456789abcdefABCDEF:.");
  if (is_dotted || has_colons) {
    log.add(line.number, Errc::InvalidArgument,
            "%s is neither an %s address nor a name: correct the address", shown(word).data(),
            is_dotted ? "IPv4" : "IPv6");
    return std::nullopt;
  }
  const bool has_control = std::any_of(word.begin(), word.end(), [](char c) {
    return static_cast<unsigned char>(c) < ' ' || c == '\x7F';
  });
  if (has_control) {
    log.add(line.number, Errc::InvalidArgument, "the name %s has a control character: take it out",
            shown(word).data());
    return std::nullopt;
  }
  if (word.size() > mad::AcmAddress::kSize) {
    log.add(line.number, Errc::InvalidArgument,
            "the name %s has %zu bytes, %zu are possible: shorten it on every node",
            shown(word).data(), word.size(), mad::AcmAddress::kSize);
    return std::nullopt;
  }
  const auto name = mad::AcmAddress::name(word);
  return name.has_value() ? std::optional(*name) : std::nullopt;
}

}  // namespace wireup::acm
