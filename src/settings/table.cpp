// SPDX-License-Identifier: BSD-3-Clause
#include "settings/table.hpp"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "base/text.hpp"

namespace wireup::settings {
namespace {

constexpr std::array<Spec, kCount> kTable{{
    {Id::Device, "device", "WIREUP_DEVICE", Kind::Port, "",
     "the port to use; not set: the nearest ACTIVE InfiniBand port"},
    {Id::PKey, "pkey", "WIREUP_PKEY", Kind::PKey, "",
     "the partition to use; not set: the first of the port's table with full membership"},
    {Id::PathSources, "path_sources", "WIREUP_PATH_SOURCES", Kind::Words,
     "preloaded,acm_multicast,ibacm,sa_query,kernel,card",
     "where paths come from, the first one that can is taken",
     "preloaded acm_multicast ibacm sa_query kernel card acm=acm_multicast sa=sa_query"},
    {Id::SaBulk, "sa_bulk", "WIREUP_SA_BULK", Kind::Word, "auto",
     "whether the node asks the SA for all paths by one query at its start", "auto always never"},
    {Id::MayResolve, "may_resolve", "WIREUP_MAY_RESOLVE", Kind::YesNo, "yes",
     "whether a rank may become its node's resolver"},
    {Id::RuntimeDirectory, "runtime_directory", "WIREUP_RUNTIME_DIRECTORY", Kind::Path, "",
     "where the node's lock and the ranks' socket are; %u is the user's number; not set: "
     "/run/wireup-%u, or $TMPDIR/wireup-%u where that cannot be made"},
    {Id::CacheDirectory, "cache_directory", "WIREUP_CACHE_DIRECTORY", Kind::Path, "/dev/shm",
     "where the node cache is: memory of the node"},
    {Id::CacheEntries, "cache_entries", "WIREUP_CACHE_ENTRIES", Kind::Number, "16384",
     "paths that a new node cache has room for, rounded up to a power of two", "", 64, 16777216},
    {Id::ServiceSocket, "service_socket", "WIREUP_SERVICE_SOCKET", Kind::Path,
     "/run/ibacm-unix.sock", "where the node's ACM service and its clients meet"},
    {Id::LogLevel, "log_level", "WIREUP_LOG", Kind::Word, "info",
     "how much the service writes to its log", "off error warn info debug trace"},
    {Id::CmCapture, "cm_capture", "WIREUP_CM_CAPTURE", Kind::Path, "",
     "where to write the CM messages sent and received, for tshark; %r is the rank, %p the "
     "process, "
     "%h the host; not set: nowhere"},
    {Id::CmCarrier, "cm_carrier", "WIREUP_CM_CARRIER", Kind::Word, "auto",
     "what carries the CM's messages: a UD queue pair of the rank's own (ud), or QP1 (gsi), which "
     "one process of a port can have; auto: the first that can be had",
     "auto ud gsi"},
}};

constexpr bool is_in_order() noexcept {
  for (std::size_t i = 0; i < kTable.size(); ++i) {
    if (static_cast<std::size_t>(kTable[i].id) != i) {
      return false;
    }
  }
  return true;
}
static_assert(is_in_order());

/// The one spelling of a word; empty when it is none of the setting's.
std::string_view spelling(const Spec& spec, std::string_view word) noexcept {
  Words words(spec.words);
  for (std::string_view each = words.next(); !each.empty(); each = words.next()) {
    const std::size_t equals = each.find('=');
    if (each.substr(0, equals) == word) {
      return equals == std::string_view::npos ? each : each.substr(equals + 1);
    }
  }
  return {};
}

/// "auto, always, never": the words without their other spellings.
std::string possible_words(const Spec& spec) {
  std::string list;
  Words words(spec.words);
  for (std::string_view each = words.next(); !each.empty(); each = words.next()) {
    if (each.find('=') == std::string_view::npos) {
      list += (list.empty() ? "" : ", ") + std::string(each);
    }
  }
  return list;
}

tl::unexpected<Error> refuse(const Spec& spec, std::string_view value, const char* wanted) {
  return fail(Error::make(Errc::InvalidArgument, "'%.*s' of %s: use %s",
                          static_cast<int>(spec.name.size()), spec.name.data(), shown(value).data(),
                          wanted));
}

Result<std::string> normalise_words(const Spec& spec, std::string_view value) {
  std::string list;
  std::vector<std::string_view> taken;
  for (std::string_view rest = value;;) {
    const std::size_t comma = rest.find(',');
    const std::string_view word = spelling(spec, trim(rest.substr(0, comma)));
    if (word.empty() || std::find(taken.begin(), taken.end(), word) != taken.end()) {
      return refuse(spec, value,
                    ("a list, each at most once, out of " + possible_words(spec)).c_str());
    }
    taken.push_back(word);
    list += (list.empty() ? "" : ",") + std::string(word);
    if (comma == std::string_view::npos) {
      return list;
    }
    rest.remove_prefix(comma + 1);
  }
}

Result<std::string> normalise_port(const Spec& spec, std::string_view value) {
  constexpr const char* kWanted = "device or device:port, the port from 1 to 255";
  constexpr std::size_t kMaxDevice = 63;
  const std::size_t colon = value.rfind(':');
  const std::string_view device = value.substr(0, colon);
  const bool is_name = !device.empty() && device.size() <= kMaxDevice &&
                       std::all_of(device.begin(), device.end(),
                                   [](char c) { return c > ' ' && c <= '~' && c != '/'; });
  if (!is_name) {
    return refuse(spec, value, kWanted);
  }
  if (colon != std::string_view::npos) {
    const auto port = parse_decimal(value.substr(colon + 1));
    if (!port.has_value() || *port < 1 || *port > 255) {
      return refuse(spec, value, kWanted);
    }
  }
  return std::string(value);
}

Result<std::string> normalise_path(const Spec& spec, std::string_view value) {
  constexpr std::size_t kMaxPath = 255;
  const bool is_path = value.starts_with('/') && value.size() <= kMaxPath &&
                       std::all_of(value.begin(), value.end(),
                                   [](unsigned char c) { return c >= ' ' && c != 0x7F; });
  if (!is_path) {
    return refuse(spec, value, "an absolute path of at most 255 bytes");
  }
  return std::string(value);
}

Result<std::string> normalise_yes_no(const Spec& spec, std::string_view value) {
  for (const std::string_view yes : {"yes", "true", "on", "1"}) {
    if (equal_ignoring_case(value, yes)) {
      return std::string("yes");
    }
  }
  for (const std::string_view no : {"no", "false", "off", "0"}) {
    if (equal_ignoring_case(value, no)) {
      return std::string("no");
    }
  }
  return refuse(spec, value, "yes or no");
}

}  // namespace

const std::array<Spec, kCount>& table() noexcept {
  return kTable;
}

const Spec& spec_of(Id id) noexcept {
  return kTable[static_cast<std::size_t>(id)];
}

const Spec* find(std::string_view name) noexcept {
  const auto found = std::find_if(kTable.begin(), kTable.end(),
                                  [name](const Spec& spec) { return spec.name == name; });
  return found == kTable.end() ? nullptr : &*found;
}

Result<std::string> normalise(const Spec& spec, std::string_view text) {
  const std::string_view value = trim(text);
  switch (spec.kind) {
    case Kind::Port:
      return normalise_port(spec, value);
    case Kind::PKey: {
      const auto number = parse_number(value);
      if (!number.has_value() || (*number & 0x7FFFU) == 0 || *number > 0xFFFF) {
        return refuse(spec, value, "a P_Key from 0x0001 to 0xffff whose partition is not 0");
      }
      std::array<char, 16> shortened{};
      std::snprintf(shortened.data(), shortened.size(), "0x%04x", static_cast<unsigned>(*number));
      return std::string(shortened.data());
    }
    case Kind::Path:
      return normalise_path(spec, value);
    case Kind::Number: {
      const auto number = parse_decimal(value);
      if (!number.has_value() || *number < spec.min || *number > spec.max) {
        return refuse(
            spec, value,
            ("a number from " + std::to_string(spec.min) + " to " + std::to_string(spec.max))
                .c_str());
      }
      return std::to_string(*number);
    }
    case Kind::YesNo:
      return normalise_yes_no(spec, value);
    case Kind::Word: {
      const std::string_view word = spelling(spec, value);
      if (word.empty()) {
        return refuse(spec, value, ("one of " + possible_words(spec)).c_str());
      }
      return std::string(word);
    }
    case Kind::Words:
      return normalise_words(spec, value);
  }
  return refuse(spec, value, "something else");
}

}  // namespace wireup::settings
