// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>

namespace e2e {

/// What the ranks of a program tell each other: small files in a directory that all hosts share.
class Notes {
 public:
  explicit Notes(std::string directory) : directory_(std::move(directory)) {}

  /// Seen whole by the others, or not at all; replaces the note of that name.
  void write(const std::string& name, const std::string& text) const {
    const std::string path = directory_ + "/" + name;
    {
      std::ofstream file(path + ".new");
      file << text;
    }
    std::error_code error;
    std::filesystem::rename(path + ".new", path, error);
    if (error) {
      std::fprintf(stderr, "%s: %s\n", path.c_str(), error.message().c_str());
      std::exit(1);
    }
  }
  [[nodiscard]] std::optional<std::string> read(const std::string& name) const {
    std::ifstream file(directory_ + "/" + name);
    if (!file) {
      return std::nullopt;
    }
    return std::string(std::istreambuf_iterator<char>(file), {});
  }

 private:
  std::string directory_;
};

}  // namespace e2e
