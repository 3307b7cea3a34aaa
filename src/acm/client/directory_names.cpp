// SPDX-License-Identifier: BSD-3-Clause
#include "acm/client/directory_names.hpp"

#include <dirent.h>

#include <algorithm>
#include <memory>

namespace wireup::acm {
namespace {

struct CloseDirectory {
  void operator()(DIR* directory) const noexcept { closedir(directory); }
};

}  // namespace

std::vector<std::string> names_in(const std::string& directory) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, CloseDirectory> opened(opendir(directory.c_str()));
  if (opened != nullptr) {
    // Only this thread reads this stream.
    while (const dirent* entry = readdir(opened.get())) {  // NOLINT(concurrency-mt-unsafe)
      names.emplace_back(entry->d_name);
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string path_in(const std::string& directory, const std::string& name) {
  std::string path = directory;
  path += '/';
  path += name;
  return path;
}

}  // namespace wireup::acm
