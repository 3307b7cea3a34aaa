// SPDX-License-Identifier: BSD-3-Clause
#include "acm/server/client_names.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <optional>

namespace wireup::acm {
namespace {

/// The port that librdmacm would take from the file: a number at its beginning, and not 0.
std::optional<unsigned long> port_in(const std::string& path) {
  std::ifstream file(path);
  std::array<char, 32> text{};
  file.read(text.data(), text.size() - 1);
  const unsigned long port = std::strtoul(text.data(), nullptr, 10) & 0xFFFFU;
  return port == 0 ? std::nullopt : std::optional(port);
}

bool is_same_file(const std::string& one, const std::string& other) noexcept {
  struct stat first {};
  struct stat second {};
  return stat(one.c_str(), &first) == 0 && stat(other.c_str(), &second) == 0 &&
         first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

std::string target_of_link(const std::string& path) {
  std::array<char, 256> target{};
  const ssize_t size = readlink(path.c_str(), target.data(), target.size() - 1);
  return size > 0 ? std::string(target.data(), static_cast<std::size_t>(size)) : path;
}

}  // namespace

std::vector<Error> names_that_mislead(const std::string& socket, const ClientNames& names) {
  std::vector<Error> found;
  if (const auto port = port_in(names.port_file)) {
    found.push_back(Error::make(
        Errc::Busy,
        "%s has the TCP port %lu: librdmacm asks there, and not this service. Remove the file, and "
        "end the ibacm that made it (server_mode loop or open), if it still runs",
        names.port_file.c_str(), *port));
  }
  struct stat link {};
  if (lstat(names.link.c_str(), &link) == 0 && !is_same_file(names.link, socket)) {
    found.push_back(Error::make(
        Errc::Busy,
        "%s leads to %s: librdmacm asks there, and not this service at %s. Let it lead here, or "
        "remove it",
        names.link.c_str(), target_of_link(names.link).c_str(), socket.c_str()));
  }
  return found;
}

}  // namespace wireup::acm
