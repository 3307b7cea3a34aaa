// SPDX-License-Identifier: BSD-3-Clause
// What goes wrong on a fabric, and how it behaves: the file `faults` in SOFTHCA_DIR.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "softhca/hca/asynchrony.hpp"

namespace softhca::hca {

inline constexpr char kFaultsFile[] = "faults";

/// Probabilities in parts per million, and the seed of the draws.
struct UdFaultSettings {
  std::uint32_t drop_ppm = 0;
  std::uint32_t duplicate_ppm = 0;
  std::uint32_t reorder_ppm = 0;
  std::uint64_t seed = 0;

  bool operator==(const UdFaultSettings&) const = default;
};

/// What happens to one datagram.
struct UdFate {
  bool drop = false;
  bool duplicate = false;
  bool hold_back = false;

  bool operator==(const UdFate&) const = default;
};

/// The fate of the n-th datagram under these settings; pure. A dropped one has no other fate.
UdFate draw_fate(const UdFaultSettings& settings, std::uint64_t n);

struct FaultsFile;

/// The mapped file. Any process, any thread.
class Faults {
 public:
  /// Maps the file, creating it if need be. nullptr with errno.
  static std::unique_ptr<Faults> attach(const char* dir);

  Faults(const Faults&) = delete;
  Faults& operator=(const Faults&) = delete;
  ~Faults();

  /// The fate of the next datagram of the fabric. One load when no faults are set.
  UdFate next_fate();

  /// Takes effect at once, for every process; counting of datagrams starts at 0.
  void set(const UdFaultSettings& settings);
  [[nodiscard]] UdFaultSettings settings() const;

  /// The asynchronous mode. One load when it is off.
  [[nodiscard]] Asynchrony asynchrony() const;
  void set_asynchrony(const Asynchrony& mode);

 private:
  explicit Faults(FaultsFile* file) : file_(file) {}
  FaultsFile* file_;
};

}  // namespace softhca::hca
