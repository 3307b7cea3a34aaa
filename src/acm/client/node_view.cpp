// SPDX-License-Identifier: BSD-3-Clause
#include "acm/client/node_view.hpp"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "acm/client/directory_names.hpp"
#include "acm/driver/node_directory.hpp"
#include "acm/driver/node_lock.hpp"
#include "base/text.hpp"
#include "base/text_file.hpp"
#include "base/unique_fd.hpp"

namespace wireup::acm {
namespace {

/// Bits of <linux/capability.h>.
constexpr unsigned kNetRaw = 13;
constexpr unsigned kIpcLock = 14;

std::uint64_t effective_capabilities() {
  const auto text = read_text_file("/proc/self/status");
  constexpr std::string_view kName = "CapEff:";
  const std::size_t at = text ? text->find(kName) : std::string::npos;
  if (at == std::string::npos) {
    return 0;
  }
  const std::string_view rest = std::string_view(*text).substr(at + kName.size());
  return parse_hexadecimal(trim(rest.substr(0, rest.find('\n')))).value_or(0);
}

bool is_listening(std::uint16_t port) {
  const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return fd.is_open() &&
         connect(fd.value(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
}

}  // namespace

std::vector<LockView> find_locks(const std::string& directory, Instant now) {
  std::vector<LockView> found;
  for (const std::string& name : names_in(directory)) {
    const auto parsed = parse_lock_name(name);
    const std::string path = path_in(directory, name);
    struct stat status {};
    if (!parsed.has_value() || stat(path.c_str(), &status) != 0) {
      continue;
    }
    const auto lock = NodeLock::status(path, now);
    if (lock) {
      found.push_back({path, status.st_uid, parsed->port_guid, parsed->partition, lock->is_held,
                       lock->is_service, lock->silence});
    }
  }
  return found;
}

std::vector<std::string> runtime_directories(const std::string& named) {
  std::vector<std::string> found;
  const char* temporary = std::getenv("TMPDIR");
  for (const std::string& parent :
       {std::string("/run"),
        std::string(temporary != nullptr && *temporary == '/' ? temporary : "/tmp")}) {
    for (const std::string& name : names_in(parent)) {
      if (name == "wireup" || name.starts_with("wireup-")) {
        found.push_back(path_in(parent, name));
      }
    }
  }
  if (!named.empty() && std::find(found.begin(), found.end(), named) == found.end()) {
    found.push_back(named);
  }
  return found;
}

Privileges privileges_of_this_process() {
  Privileges privileges;
  privileges.uid = geteuid();
  const std::uint64_t capabilities = effective_capabilities();
  privileges.has_net_raw = (capabilities >> kNetRaw & 1U) != 0;
  privileges.has_ipc_lock = (capabilities >> kIpcLock & 1U) != 0;
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    privileges.memlock_limit = limit.rlim_cur;
  }
  return privileges;
}

std::optional<PortFile> find_port_file(const std::string& path) {
  const auto text = read_text_file(path);
  const std::string_view line =
      text ? std::string_view(*text).substr(0, text->find('\n')) : std::string_view();
  const auto port = parse_decimal(trim(line));
  if (!port.has_value() || *port == 0 || *port > 65535) {
    return std::nullopt;
  }
  const auto number = static_cast<std::uint16_t>(*port);
  return PortFile{path, number, is_listening(number)};
}

bool has_library(const char* name) {
  void* library = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) {
    return false;
  }
  dlclose(library);
  return true;
}

}  // namespace wireup::acm
