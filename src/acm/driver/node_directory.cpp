// SPDX-License-Identifier: BSD-3-Clause
#include "acm/driver/node_directory.hpp"

#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>

#include "base/text.hpp"

namespace wireup::acm {
namespace {

/// Room for the epoch's digits and the suffix behind the base name.
constexpr std::size_t kMaxSuffix = 1 + 20 + sizeof(".sock");

Result<> make_private(const std::string& path) {
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    const int error = errno;
    return fail(
        Error::system(Errc::NoPermission, error, "making the node directory %s", path.c_str()));
  }
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0) {
    return fail(
        Error::system(Errc::NoPermission, errno, "asking for the owner of %s", path.c_str()));
  }
  if (!S_ISDIR(status.st_mode) || status.st_uid != geteuid() ||
      (status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return fail(Error::make(Errc::NoPermission,
                            "node directory %s is not to be trusted (owner uid %u, mode %o): it "
                            "must be a directory of uid %u with mode 0700; remove it",
                            path.c_str(), status.st_uid, status.st_mode & 07777U, geteuid()));
  }
  return {};
}

Result<std::string> choose_directory(const std::string& wanted) {
  if (!wanted.empty()) {
    if (auto made = make_private(wanted); !made) {
      return fail(made.error());
    }
    return wanted;
  }
  const std::string name = "wireup-" + std::to_string(geteuid());
  const std::string in_run = "/run/" + name;
  if (make_private(in_run)) {
    return in_run;
  }
  const char* temporary = std::getenv("TMPDIR");
  const std::string parent = temporary != nullptr && *temporary == '/' ? temporary : "/tmp";
  std::string path = parent + "/" + name;
  if (auto made = make_private(path); !made) {
    return fail(made.error());
  }
  return path;
}

Result<> make_public(const std::string& path) {
  if (mkdir(path.c_str(), 0755) == 0) {
    // Whatever the umask: who cannot read it takes the service for none.
    if (chmod(path.c_str(), 0755) != 0) {
      return fail(Error::system(Errc::NoPermission, errno, "opening %s to readers", path.c_str()));
    }
  } else if (errno != EEXIST) {
    return fail(Error::system(Errc::NoPermission, errno, "making the node's public directory %s",
                              path.c_str()));
  }
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0) {
    return fail(
        Error::system(Errc::NoPermission, errno, "asking for the owner of %s", path.c_str()));
  }
  const bool is_ours = status.st_uid == 0 || status.st_uid == geteuid();
  if (!S_ISDIR(status.st_mode) || !is_ours || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return fail(Error::make(Errc::NoPermission,
                            "the node's public directory %s is not to be trusted (owner uid %u, "
                            "mode %o): it must be a directory of root that no one else may write; "
                            "remove it",
                            path.c_str(), status.st_uid, status.st_mode & 07777U));
  }
  return {};
}

std::string base_name(Guid port_guid, PKey pkey) {
  std::array<char, 32> name{};
  std::snprintf(name.data(), name.size(), "acm1-%016" PRIx64 "-%04x", port_guid.value(),
                static_cast<unsigned>(pkey.partition()));
  return name.data();
}

Result<> check_length(const std::string& base, const std::string& directory) {
  if (base.size() + kMaxSuffix > sizeof(sockaddr_un::sun_path)) {
    return fail(Error::make(Errc::InvalidArgument,
                            "node directory %s: its name has %zu bytes too many for a socket in it",
                            directory.c_str(),
                            base.size() + kMaxSuffix - sizeof(sockaddr_un::sun_path)));
  }
  return {};
}

}  // namespace

Result<NodeDirectory> NodeDirectory::open(const std::string& directory,
                                          const std::string& cache_directory, Guid port_guid,
                                          PKey pkey) {
  const auto chosen = choose_directory(directory);
  if (!chosen) {
    return fail(chosen.error());
  }
  const std::string name = base_name(port_guid, pkey);
  NodeDirectory result;
  result.base_ = *chosen + "/" + name;
  result.cache_base_ = cache_directory + "/wireup-" + std::to_string(geteuid()) + "-" + name;
  if (auto checked = check_length(result.base_, *chosen); !checked) {
    return fail(checked.error());
  }
  return result;
}

Result<NodeDirectory> NodeDirectory::open_public(const std::string& directory, Guid port_guid,
                                                 PKey pkey) {
  if (auto made = make_public(directory); !made) {
    return fail(made.error());
  }
  return public_names(directory, port_guid, pkey);
}

Result<NodeDirectory> NodeDirectory::public_names(const std::string& directory, Guid port_guid,
                                                  PKey pkey) {
  NodeDirectory result;
  result.audience_ = Audience::Everybody;
  result.base_ = directory + "/" + base_name(port_guid, pkey);
  result.cache_base_ = result.base_ + ".cache";
  if (auto checked = check_length(result.base_, directory); !checked) {
    return fail(checked.error());
  }
  return result;
}

namespace {

/// Takes `prefix` away from the front of `text`, if it is there.
bool take(std::string_view& text, std::string_view prefix) noexcept {
  if (!text.starts_with(prefix)) {
    return false;
  }
  text.remove_prefix(prefix.size());
  return true;
}

/// Takes a number away from the front of `text`: exactly `digits` hexadecimal ones, or all decimal
/// ones where that is 0.
std::optional<std::uint64_t> take_number(std::string_view& text, std::size_t digits) noexcept {
  const std::size_t size =
      digits != 0 ? digits : std::min(text.find_first_not_of("0123456789"), text.size());
  if (size == 0 || text.size() < size) {
    return std::nullopt;
  }
  const auto number =
      digits != 0 ? parse_hexadecimal(text.substr(0, size)) : parse_decimal(text.substr(0, size));
  text.remove_prefix(size);
  return number;
}

/// "acm1-<GUID>-<partition>", as NodeDirectory::open() writes it.
std::optional<LockName> take_base(std::string_view& text) noexcept {
  if (!take(text, "acm1-")) {
    return std::nullopt;
  }
  const auto guid = take_number(text, 16);
  if (!guid.has_value() || !take(text, "-")) {
    return std::nullopt;
  }
  const auto partition = take_number(text, 4);
  if (!partition.has_value()) {
    return std::nullopt;
  }
  return LockName{Guid(*guid), static_cast<std::uint16_t>(*partition)};
}

}  // namespace

std::optional<CacheName> parse_cache_name(std::string_view name) noexcept {
  std::optional<std::uint32_t> uid;
  if (take(name, "wireup-")) {
    const auto number = take_number(name, 0);
    if (!number.has_value() || *number > UINT32_MAX || !take(name, "-")) {
      return std::nullopt;
    }
    uid = static_cast<std::uint32_t>(*number);
  }
  const auto base = take_base(name);
  if (!base.has_value() || !take(name, uid.has_value() ? "." : ".cache.")) {
    return std::nullopt;
  }
  const auto epoch = take_number(name, 0);
  if (!epoch.has_value() || !name.empty()) {
    return std::nullopt;
  }
  return CacheName{uid, base->port_guid, base->partition, *epoch};
}

std::optional<LockName> parse_lock_name(std::string_view name) noexcept {
  const auto base = take_base(name);
  return base.has_value() && name == ".lock" ? base : std::nullopt;
}

std::string NodeDirectory::socket_path(std::uint64_t epoch) const {
  return base_ + "." + std::to_string(epoch) + ".sock";
}

std::string NodeDirectory::cache_path(std::uint64_t epoch) const {
  return cache_base_ + "." + std::to_string(epoch);
}

}  // namespace wireup::acm
