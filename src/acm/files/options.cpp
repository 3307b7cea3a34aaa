// SPDX-License-Identifier: BSD-3-Clause
#include "acm/files/options.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <span>

#include "base/text.hpp"
#include "mad/rate.hpp"

namespace wireup::acm {
namespace {

constexpr std::uint64_t kMaxInt = std::numeric_limits<std::int32_t>::max();
constexpr std::uint64_t kMaxDepth = 65535;
constexpr std::uint64_t kMaxRetries = 1000;
constexpr std::size_t kMaxPath = 4095;
constexpr std::size_t kMaxProviderName = 64;

/// What a line gives to an option, and where to complain. `value` is not empty; `second` is, but
/// for options of two values.
struct Given {
  const Line& line;
  std::string_view name;
  std::string_view value;
  std::string_view second;
  ProblemLog& log;
};

/// Reads the value of one option; false when it was reported and nothing was set.
using Reader = bool (*)(const Given& given, AcmOptions& to);

enum class Use : std::uint8_t { Applied, Ignored };

struct Option {
  std::string_view name;
  Use use;
  Reader read;
  unsigned values = 1;
};

template <typename T>
struct Choice {
  std::string_view word;
  T value;
};

template <typename T>
bool read_choice(const Given& given, std::span<const Choice<T>> choices, const char* possible,
                 std::optional<T>& to) {
  for (const Choice<T>& choice : choices) {
    if (equal_ignoring_case(choice.word, given.value)) {
      to = choice.value;
      return true;
    }
  }
  given.log.add(given.line.number, Errc::InvalidArgument, "%s has no value %s: use %s",
                shown(given.name).data(), shown(given.value).data(), possible);
  return false;
}

template <typename T>
bool read_number(const Given& given, std::uint64_t least, std::uint64_t most,
                 std::optional<T>& to) {
  const auto number = parse_decimal(given.value);
  if (!number.has_value() || *number < least || *number > most) {
    given.log.add(given.line.number, Errc::InvalidArgument,
                  "%s of %s: use a number from %llu to %llu", shown(given.name).data(),
                  shown(given.value).data(), static_cast<unsigned long long>(least),
                  static_cast<unsigned long long>(most));
    return false;
  }
  to = static_cast<T>(*number);
  return true;
}

bool read_minutes(const Given& given, std::optional<Duration>& to) {
  if (given.value == "-1") {
    to = kForever;
    return true;
  }
  const auto number = parse_decimal(given.value);
  if (!number.has_value() || *number == 0 || *number > kMaxInt) {
    given.log.add(given.line.number, Errc::InvalidArgument,
                  "%s of %s minutes: use 1 to %llu, or -1 for no end", shown(given.name).data(),
                  shown(given.value).data(), static_cast<unsigned long long>(kMaxInt));
    return false;
  }
  const auto most = std::chrono::floor<std::chrono::minutes>(kForever);
  const auto minutes = std::chrono::minutes(static_cast<std::int64_t>(*number));
  to = minutes > most ? kForever : Duration(minutes);
  return true;
}

bool read_flag(const Given& given, std::optional<bool>& to) {
  if (const auto number = parse_decimal(given.value); number.has_value()) {
    to = *number != 0;
    return true;
  }
  static constexpr std::array<Choice<bool>, 4> kChoices{
      {{"yes", true}, {"true", true}, {"no", false}, {"false", false}}};
  return read_choice<bool>(given, kChoices, "yes, true, no, false or a number", to);
}

bool read_path(const Given& given, std::optional<std::string>& to) {
  if (given.value.size() > kMaxPath) {
    given.log.add(given.line.number, Errc::InvalidArgument,
                  "%s has %zu bytes, a path has at most %zu: shorten it", shown(given.name).data(),
                  given.value.size(), kMaxPath);
    return false;
  }
  to = std::string(given.value);
  return true;
}

bool read_address_protocol(const Given& given, AcmOptions&) {
  static constexpr std::array<Choice<bool>, 1> kChoices{{{"acm", true}}};
  std::optional<bool> unused;
  return read_choice<bool>(given, kChoices, "acm, its only value", unused);
}

bool read_mtu(const Given& given, AcmOptions& to) {
  for (std::uint8_t code = mad::kMtu256; code <= mad::kMtu4096; ++code) {
    if (parse_decimal(given.value) == mad::mtu_bytes(code)) {
      to.min_mtu = code;
      return true;
    }
  }
  given.log.add(given.line.number, Errc::InvalidArgument,
                "min_mtu of %s bytes: use 256, 512, 1024, 2048 or 4096", shown(given.value).data());
  return false;
}

// What a rate is called in Gb/s. ibacm reads 2.5 as 2, so that is written too; it knows nothing of
// 28, 50 and what is above 300, and takes 10 for them.
constexpr auto kRateNames = std::to_array<Choice<std::uint8_t>>({
    {"2.5", 2},  {"2", 2},    {"10", 3},    {"30", 4},    {"5", 5},   {"20", 6},   {"40", 7},
    {"60", 8},   {"80", 9},   {"120", 10},  {"14", 11},   {"56", 12}, {"112", 13}, {"168", 14},
    {"25", 15},  {"100", 16}, {"200", 17},  {"300", 18},  {"28", 19}, {"50", 20},  {"400", 21},
    {"600", 22}, {"800", 23}, {"1200", 24}, {"1600", 25},
});

bool read_rate(const Given& given, AcmOptions& to) {
  for (const Choice<std::uint8_t>& rate : kRateNames) {
    if (rate.word == given.value) {
      to.min_rate = rate.value;
      return true;
    }
  }
  given.log.add(
      given.line.number, Errc::InvalidArgument,
      "min_rate of %s Gb/s: use 2.5 5 10 14 20 25 28 30 40 50 56 60 80 100 112 120 168 200 "
      "300 400 600 800 1200 or 1600",
      shown(given.value).data());
  return false;
}

bool read_route_protocol(const Given& given, AcmOptions& to) {
  static constexpr std::array<Choice<RouteProtocol>, 2> kChoices{
      {{"sa", RouteProtocol::Sa}, {"acm", RouteProtocol::Acm}}};
  return read_choice<RouteProtocol>(given, kChoices, "sa or acm", to.route_protocol);
}

bool read_loopback_protocol(const Given& given, AcmOptions& to) {
  static constexpr std::array<Choice<LoopbackProtocol>, 2> kChoices{
      {{"local", LoopbackProtocol::Local}, {"none", LoopbackProtocol::None}}};
  return read_choice<LoopbackProtocol>(given, kChoices, "local or none", to.loopback_protocol);
}

bool read_server_mode(const Given& given, AcmOptions& to) {
  static constexpr std::array<Choice<ServerMode>, 3> kChoices{
      {{"unix", ServerMode::Unix}, {"loop", ServerMode::Loop}, {"open", ServerMode::Open}}};
  return read_choice<ServerMode>(given, kChoices, "unix, loop or open", to.server_mode);
}

// ibacm's manual writes full_opensm_v1 and its code wants opensm_full_v1.
bool read_route_preload(const Given& given, AcmOptions& to) {
  static constexpr std::array<Choice<RoutePreload>, 4> kChoices{
      {{"none", RoutePreload::None},
       {"no", RoutePreload::None},
       {"opensm_full_v1", RoutePreload::OpensmFullV1},
       {"full_opensm_v1", RoutePreload::OpensmFullV1}}};
  return read_choice<RoutePreload>(given, kChoices, "none or opensm_full_v1", to.route_preload);
}

bool read_address_preload(const Given& given, AcmOptions& to) {
  static constexpr std::array<Choice<AddressPreload>, 3> kChoices{
      {{"none", AddressPreload::None},
       {"no", AddressPreload::None},
       {"acm_hosts", AddressPreload::AcmHosts}}};
  return read_choice<AddressPreload>(given, kChoices, "none or acm_hosts", to.address_preload);
}

bool read_timeout(const Given& given, AcmOptions& to) {
  std::optional<std::uint32_t> milliseconds;
  if (!read_number(given, 0, kMaxInt, milliseconds)) {
    return false;
  }
  to.timeout = std::chrono::milliseconds(*milliseconds);
  return true;
}

bool read_provider(const Given& given, AcmOptions& to) {
  if (given.second.empty()) {
    given.log.add(given.line.number, Errc::InvalidArgument,
                  "provider %s without a subnet: add its prefix, or the word default",
                  shown(given.value).data());
    return false;
  }
  if (given.value.size() > kMaxProviderName) {
    given.log.add(given.line.number, Errc::InvalidArgument,
                  "provider %s has %zu bytes, %zu are possible: shorten it",
                  shown(given.value).data(), given.value.size(), kMaxProviderName);
    return false;
  }
  ProviderLine provider{.name = std::string(given.value), .prefix = parse_number(given.second)};
  if (!provider.prefix.has_value() && !equal_ignoring_case(given.second, "default")) {
    given.log.add(given.line.number, Errc::InvalidArgument,
                  "subnet prefix %s: use a number of 64 bits like 0xFE80000000000000, or default",
                  shown(given.second).data());
    return false;
  }
  to.providers.push_back(std::move(provider));
  return true;
}

template <auto Member>
bool path(const Given& given, AcmOptions& to) {
  return read_path(given, to.*Member);
}
template <auto Member>
bool minutes(const Given& given, AcmOptions& to) {
  return read_minutes(given, to.*Member);
}
template <auto Member>
bool flag(const Given& given, AcmOptions& to) {
  return read_flag(given, to.*Member);
}
template <auto Member, std::uint64_t Least, std::uint64_t Most>
bool number(const Given& given, AcmOptions& to) {
  return read_number(given, Least, Most, to.*Member);
}

using O = AcmOptions;
// Of what a server or a log of ibacm's is told wireup makes no use: both have their own settings.
constexpr auto kOptions = std::to_array<Option>({
    {"log_file", Use::Ignored, path<&O::log_file>},
    {"log_level", Use::Ignored, number<&O::log_level, 0, 2>},
    {"umad_debug_level", Use::Ignored, number<&O::umad_debug_level, 0, 2>},
    {"lock_file", Use::Ignored, path<&O::lock_file>},
    {"addr_prot", Use::Applied, read_address_protocol},
    {"addr_timeout", Use::Applied, minutes<&O::address_timeout>},
    {"route_prot", Use::Applied, read_route_protocol},
    {"route_timeout", Use::Applied, minutes<&O::route_timeout>},
    {"loopback_prot", Use::Ignored, read_loopback_protocol},
    {"server_port", Use::Ignored, number<&O::server_port, 1, 65535>},
    {"server_mode", Use::Ignored, read_server_mode},
    {"acme_plus_kernel_only", Use::Ignored, flag<&O::acme_plus_kernel_only>},
    {"timeout", Use::Applied, read_timeout},
    {"retries", Use::Applied, number<&O::retries, 0, kMaxRetries>},
    {"resolve_depth", Use::Applied, number<&O::resolve_depth, 1, kMaxDepth>},
    {"sa_depth", Use::Applied, number<&O::sa_depth, 1, kMaxDepth>},
    {"send_depth", Use::Ignored, number<&O::send_depth, 1, kMaxDepth>},
    {"recv_depth", Use::Ignored, number<&O::recv_depth, 1, kMaxDepth>},
    {"min_mtu", Use::Applied, read_mtu},
    {"min_rate", Use::Applied, read_rate},
    {"route_preload", Use::Applied, read_route_preload},
    {"route_data_file", Use::Applied, path<&O::route_data_file>},
    {"addr_preload", Use::Applied, read_address_preload},
    {"addr_data_file", Use::Applied, path<&O::address_data_file>},
    {"support_ips_in_addr_cfg", Use::Applied, flag<&O::support_ips_in_addr_cfg>},
    {"provider_lib_path", Use::Ignored, path<&O::provider_lib_path>},
    {"provider", Use::Ignored, read_provider, 2},
});

const Option* find_option(std::string_view name) noexcept {
  const auto* const found =
      std::find_if(kOptions.begin(), kOptions.end(),
                   [&](const Option& option) { return equal_ignoring_case(option.name, name); });
  return found != kOptions.end() ? found : nullptr;
}

void read_line(const Line& line, AcmOptions& to, ProblemLog& log) {
  Words words(line.text);
  const std::string_view name = words.next();
  const Option* const option = find_option(name);
  if (option == nullptr) {
    log.add(line.number, Errc::InvalidArgument, "%s is no option of ibacm: %s", shown(name).data(),
            name.starts_with('#') ? "the # of a comment must be the first character of its line"
                                  : "correct it, or put a # in front");
    return;
  }
  const std::string_view value = words.next();
  if (value.empty() || value.starts_with('#')) {
    log.add(line.number, Errc::InvalidArgument,
            "%s without a value: write it behind the name, or put a # in front",
            shown(option->name).data());
    return;
  }
  const std::string_view second = option->values == 2 ? words.next() : std::string_view{};
  const Given given{
      .line = line, .name = option->name, .value = value, .second = second, .log = log};
  if (!words.at_end(line, log) || !option->read(given, to)) {
    return;
  }
  const bool is_listed =
      std::find(to.ignored.begin(), to.ignored.end(), option->name) != to.ignored.end();
  if (option->use == Use::Ignored && !is_listed) {
    to.ignored.push_back(option->name);
  }
}

}  // namespace

Parsed<AcmOptions> parse_options(std::string_view text, std::string_view file) {
  Parsed<AcmOptions> parsed;
  ProblemLog log(file, parsed.problems);
  LineReader lines(text);
  while (const auto line = lines.next(log)) {
    read_line(*line, parsed.value, log);
  }
  return parsed;
}

}  // namespace wireup::acm
