// SPDX-License-Identifier: BSD-3-Clause
// What programs look up in sysfs by way of libibverbs.
#include <dlfcn.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "softhca/verbs/objects.hpp"

using namespace softhca;
using namespace softhca::verbs;

namespace {

/// The function of the same name in the library that was preloaded over; nullptr if there is none.
template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

const char* content_of(std::string_view file) {
  if (file == "board_id") {
    return "SOFTHCA0000001";
  }
  if (file == "hca_type") {
    return "MT4099";
  }
  if (file == "fw_ver") {
    return "2.42.5000";
  }
  if (file == "hw_rev") {
    return "1";
  }
  if (file == "node_type") {
    return "1: CA";
  }
  return nullptr;
}

}  // namespace

namespace softhca::verbs {

std::string sysfs_root(const hca::Runtime& runtime) {
  return runtime.dir() + "/sysfs/" + runtime.host();
}

std::string make_sysfs_entry(const hca::Runtime& runtime, const std::string& name) {
  std::string path = runtime.dir();
  struct stat info {};
  const mode_t mode = ::stat(path.c_str(), &info) == 0 ? info.st_mode & 0777 : 0700;
  for (const std::string& part : {std::string("sysfs"), runtime.host(), std::string("class"),
                                  std::string("infiniband"), name}) {
    if (part.empty()) {
      break;
    }
    path += "/" + part;
    if (::mkdir(path.c_str(), mode) == 0) {
      ::chmod(path.c_str(), mode);  // whatever the umask of this process is
    }
  }
  return path;
}

}  // namespace softhca::verbs

SOFTHCA_EXPORT const char* ibv_get_sysfs_path() {
  if (hca::Runtime* runtime = hca::Runtime::instance()) {
    // Open MPI looks for class/infiniband before it asks for devices.
    static const auto* path = [runtime] {
      make_sysfs_entry(*runtime, "");
      return new std::string(sysfs_root(*runtime));
    }();
    return path->c_str();
  }
  auto* real = next<const char*()>("ibv_get_sysfs_path");
  return real != nullptr ? real() : "/sys";
}

SOFTHCA_EXPORT int ibv_read_sysfs_file(const char* dir, const char* file, char* buffer,
                                       std::size_t size) {
  hca::Runtime* runtime = hca::Runtime::instance();
  const bool ours =
      runtime != nullptr && std::string_view(dir).substr(0, sysfs_root(*runtime).size()) ==
                                std::string_view(sysfs_root(*runtime));
  if (!ours) {
    auto* real = next<int(const char*, const char*, char*, std::size_t)>("ibv_read_sysfs_file");
    return real != nullptr ? real(dir, file, buffer, size) : -1;
  }
  const char* content = content_of(file);
  if (content == nullptr || size == 0) {
    errno = ENOENT;
    return -1;
  }
  return std::min(std::snprintf(buffer, size, "%s", content), static_cast<int>(size) - 1);
}
