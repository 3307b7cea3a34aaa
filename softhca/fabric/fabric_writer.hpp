// SPDX-License-Identifier: BSD-3-Clause
// The write side of the fabric image.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "softhca/fabric/fabric_model.hpp"

namespace softhca {

/// Owns the fabric file of a directory: holds its lock, which is how readers tell that somebody
/// looks after the fabric. One writer per directory. Not thread-safe.
class FabricWriter {
 public:
  /// Opens or creates SOFTHCA_DIR/fabric. A file left by an earlier writer keeps its content, and
  /// readers that mapped it go on. nullptr with errno: EBUSY another writer is alive.
  static std::unique_ptr<FabricWriter> open(const char* dir);

  FabricWriter(const FabricWriter&) = delete;
  FabricWriter& operator=(const FabricWriter&) = delete;
  ~FabricWriter();

  /// Publishes `model` as the next generation unless it equals the last one. Returns false
  /// with errno EINVAL (an index out of range) or ENOSPC (more than the image can hold) and then
  /// publishes nothing.
  bool publish(const FabricModel& model);

  /// What is published now; empty after a first open. A restarted agent goes on from it, so that
  /// port indexes stay.
  [[nodiscard]] FabricModel published() const;

  [[nodiscard]] std::uint64_t generation() const;

 private:
  FabricWriter(int fd, FabricFile* file) : fd_(fd), file_(file) {}

  int fd_;
  FabricFile* file_;
  std::optional<FabricModel> last_;  // as published by this writer
};

}  // namespace softhca
