// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "acm/engine/config.hpp"
#include "base/problems.hpp"
#include "base/time.hpp"

namespace wireup::acm {

/// Where ibacm looks for its files, and where its options do when they name none.
inline constexpr std::string_view kOptionsFile = "/etc/rdma/ibacm_opts.cfg";
inline constexpr std::string_view kAddressFile = "/etc/rdma/ibacm_addr.cfg";
inline constexpr std::string_view kRouteDataFile = "/etc/rdma/ibacm_route.data";
inline constexpr std::string_view kAddressDataFile = "/etc/rdma/ibacm_hosts.data";

enum class LoopbackProtocol : std::uint8_t { None, Local };
enum class ServerMode : std::uint8_t { Unix, Loop, Open };
enum class RoutePreload : std::uint8_t { None, OpensmFullV1 };
enum class AddressPreload : std::uint8_t { None, AcmHosts };

/// A line "provider NAME PREFIX" or "provider NAME default".
struct ProviderLine {
  std::string name;
  /// Subnet prefix in host byte order; none for "default".
  std::optional<std::uint64_t> prefix;
  friend bool operator==(const ProviderLine&, const ProviderLine&) noexcept = default;
};

/// What ibacm_opts.cfg says. An option that the file does not have is not set: ibacm's default is
/// not assumed.
struct AcmOptions {
  std::optional<std::string> log_file;
  std::optional<unsigned> log_level;
  std::optional<unsigned> umad_debug_level;
  std::optional<std::string> lock_file;
  /// addr_prot has one value, "acm", and so needs no member.
  /// Whole minutes in the file; kForever for -1 and for more than a Duration can hold.
  std::optional<Duration> address_timeout;
  std::optional<Duration> route_timeout;
  std::optional<RouteProtocol> route_protocol;
  std::optional<LoopbackProtocol> loopback_protocol;
  std::optional<std::uint16_t> server_port;
  std::optional<ServerMode> server_mode;
  std::optional<bool> acme_plus_kernel_only;
  /// Milliseconds in the file.
  std::optional<Duration> timeout;
  std::optional<unsigned> retries;
  std::optional<unsigned> resolve_depth;
  std::optional<unsigned> sa_depth;
  std::optional<unsigned> send_depth;
  std::optional<unsigned> recv_depth;
  /// Codes of mad/rate.hpp; bytes and Gb/s in the file.
  std::optional<std::uint8_t> min_mtu;
  std::optional<std::uint8_t> min_rate;
  std::optional<RoutePreload> route_preload;
  std::optional<std::string> route_data_file;
  std::optional<AddressPreload> address_preload;
  std::optional<std::string> address_data_file;
  std::optional<bool> support_ips_in_addr_cfg;
  std::optional<std::string> provider_lib_path;
  std::vector<ProviderLine> providers;

  /// Names of the options in the file that change nothing in wireup (docs/acm-files.md), each once,
  /// in the order of their lines.
  std::vector<std::string_view> ignored;

  friend bool operator==(const AcmOptions&, const AcmOptions&) noexcept = default;
};

/// Reads ibacm_opts.cfg: lines "name value", names and values without regard to case, the last line
/// of an option counts. `file` is its name in messages. Errc::InvalidArgument for each line that is
/// no option with a value of its range.
[[nodiscard]] Parsed<AcmOptions> parse_options(std::string_view text, std::string_view file);

/// Puts into `config` what the options say of the engine, and leaves the rest as it is:
///
/// - min_mtu, min_rate: those of group 0, on which all nodes of a fabric must agree;
/// - addr_timeout, route_timeout, route_prot: address_life, route_life, route_protocol;
/// - timeout: max_retry. ibacm waits `timeout` and the subnet's own timeout before each further
///   try. Ours start with first_retry, grow up to max_retry and end there at ibacm's pace;
///   max_retry is never below the usual subnet timeout, since a `timeout` of 0 means just that.
/// - retries: max_tries, as many as take no less time, with the shortest waits that the jitter
///   allows, than ibacm's retries + 1 tries: the early tries are quick here, so the same number
///   would give up on a slow peer after a tenth of a second.
/// - resolve_depth, sa_depth: window and sa_max_window where that makes them larger. They are never
///   made smaller: the default of 1 lets one dead peer stop everybody. Many requests do not hurt
///   the SA: its window adapts, and BUSY backs off.
///
/// The waits of SA queries stay: they keep a busy subnet administrator from being asked again and
/// again. A `config` that validate() accepts stays one.
void apply(const AcmOptions& options, Config& config) noexcept;

}  // namespace wireup::acm
