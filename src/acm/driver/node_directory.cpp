// SPDX-License-Identifier: BSD-3-Clause
#include "acm/driver/node_directory.hpp"

#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>

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

}  // namespace

Result<NodeDirectory> NodeDirectory::open(const std::string& directory,
                                          const std::string& cache_directory, Guid port_guid,
                                          PKey pkey) {
  const auto chosen = choose_directory(directory);
  if (!chosen) {
    return fail(chosen.error());
  }
  std::array<char, 32> name{};
  std::snprintf(name.data(), name.size(), "acm1-%016" PRIx64 "-%04x", port_guid.value(),
                static_cast<unsigned>(pkey.partition()));
  NodeDirectory result;
  result.base_ = *chosen + "/" + name.data();
  result.cache_base_ = cache_directory + "/wireup-" + std::to_string(geteuid()) + "-" + name.data();
  if (result.base_.size() + kMaxSuffix > sizeof(sockaddr_un::sun_path)) {
    return fail(Error::make(Errc::InvalidArgument,
                            "node directory %s: its name has %zu bytes too many for a socket in it",
                            chosen->c_str(),
                            result.base_.size() + kMaxSuffix - sizeof(sockaddr_un::sun_path)));
  }
  return result;
}

std::string NodeDirectory::socket_path(std::uint64_t epoch) const {
  return base_ + "." + std::to_string(epoch) + ".sock";
}

std::string NodeDirectory::cache_path(std::uint64_t epoch) const {
  return cache_base_ + "." + std::to_string(epoch);
}

}  // namespace wireup::acm
