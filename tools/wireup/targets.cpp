// SPDX-License-Identifier: BSD-3-Clause
#include "targets.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "acm/client/address.hpp"
#include "base/problems.hpp"
#include "base/text.hpp"

namespace wireup::tool {
namespace {

/// Digits of the longest number in a range.
constexpr std::size_t kMaxDigits = 9;

struct Range {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  /// Of a number with leading zeros; 1: as many digits as it takes.
  std::size_t width = 1;
};

tl::unexpected<Error> refuse(std::string_view text, const char* why) {
  return fail(Error::make(Errc::InvalidArgument, "target %s: %s", shown(text).data(), why));
}

std::optional<Range> parse_range(std::string_view text) noexcept {
  const std::size_t dash = text.find('-');
  const std::string_view low = text.substr(0, dash);
  const std::string_view high = dash == std::string_view::npos ? low : text.substr(dash + 1);
  const auto first = parse_decimal(low);
  const auto last = parse_decimal(high);
  if (!first.has_value() || !last.has_value() || low.size() > kMaxDigits ||
      high.size() > kMaxDigits || *first > *last) {
    return std::nullopt;
  }
  return Range{*first, *last, low.starts_with('0') ? low.size() : 1};
}

std::string padded(std::uint64_t number, std::size_t width) {
  std::string digits = std::to_string(number);
  return digits.size() < width ? std::string(width - digits.size(), '0') + digits : digits;
}

/// What stands between '[' and ']'.
Result<std::vector<std::string>> expand_list(std::string_view list, std::string_view whole,
                                             std::size_t limit) {
  std::vector<std::string> values;
  for (std::string_view rest = list;;) {
    const std::size_t comma = rest.find(',');
    const auto range = parse_range(trim(rest.substr(0, comma)));
    if (!range.has_value()) {
      return refuse(whole, "write ranges as [1-16,20], each of at most 9 digits and upwards");
    }
    if (range->last - range->first >= limit - std::min(limit, values.size())) {
      return fail(Error::make(Errc::InvalidArgument,
                              "target %s: more than %zu of them; ask in parts", shown(whole).data(),
                              limit));
    }
    for (std::uint64_t number = range->first; number <= range->last; ++number) {
      values.push_back(padded(number, range->width));
    }
    if (comma == std::string_view::npos) {
      return values;
    }
    rest.remove_prefix(comma + 1);
  }
}

}  // namespace

Result<std::vector<std::string>> expand_ranges(std::string_view text, std::size_t limit) {
  std::vector<std::string> made{""};
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t open = rest.find('[');
    const std::string_view literal = rest.substr(0, open);
    if (literal.find(']') != std::string_view::npos) {
      return refuse(text, "a ']' without its '['");
    }
    for (std::string& each : made) {
      each += literal;
    }
    if (open == std::string_view::npos) {
      break;
    }
    rest.remove_prefix(open + 1);
    const std::size_t close = rest.find(']');
    if (close == std::string_view::npos) {
      return refuse(text, "a '[' without its ']'");
    }
    const auto values = expand_list(rest.substr(0, close), text, limit / made.size());
    if (!values) {
      return fail(values.error());
    }
    std::vector<std::string> next;
    next.reserve(made.size() * values->size());
    for (const std::string& start : made) {
      for (const std::string& value : *values) {
        next.push_back(start + value);
      }
    }
    made = std::move(next);
    rest.remove_prefix(close + 1);
  }
  if (made.size() > limit) {
    return refuse(text, "one target too many; ask in parts");
  }
  return made;
}

Result<Target> parse_target(std::string_view text, TargetKind kind) {
  std::string_view value = text;
  acm::AddressForm form =
      kind == TargetKind::Lid ? acm::AddressForm::Lid : acm::AddressForm::Guessed;
  constexpr std::pair<std::string_view, acm::AddressForm> kPrefixes[] = {
      {"lid:", acm::AddressForm::Lid},
      {"gid:", acm::AddressForm::Gid},
      {"ip:", acm::AddressForm::Ip},
      {"name:", acm::AddressForm::Name}};
  for (const auto& [prefix, named] : kPrefixes) {
    if (value.starts_with(prefix)) {
      value.remove_prefix(prefix.size());
      form = named;
      break;
    }
  }
  auto address = acm::read_address(value, form);
  if (!address) {
    return fail(address.error());
  }
  return Target{std::string(text), *address};
}

Result<std::vector<Target>> parse_targets(const std::vector<std::string>& words, TargetKind kind) {
  std::vector<Target> targets;
  for (const std::string& word : words) {
    const auto texts = expand_ranges(word, kMaxTargets - targets.size());
    if (!texts) {
      return fail(texts.error());
    }
    for (const std::string& text : *texts) {
      auto target = parse_target(text, kind);
      if (!target) {
        return fail(target.error());
      }
      targets.push_back(std::move(*target));
    }
  }
  return targets;
}

}  // namespace wireup::tool
