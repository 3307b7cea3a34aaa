// SPDX-License-Identifier: BSD-3-Clause
// What goes wrong on a fabric, and how it behaves: the file `faults` in SOFTHCA_DIR.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "softhca/hca/asynchrony.hpp"
#include "softhca/hca/fault_rules.hpp"

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

  /// The kernel's rule since 2023: only the privileged may give a QP a Q_Key with the top bit set.
  [[nodiscard]] bool qkeys_restricted() const;
  void restrict_qkeys(bool on);

  /// False when there are kMaxRules already.
  bool add(const FaultRule& rule);
  void clear_rules();
  [[nodiscard]] std::vector<RuleReport> rules() const;

  /// The first rule of a kind that hits. One load when there is no rule of the kind.
  std::optional<FaultRule> strike(RuleKind kind, const Traffic& traffic) {
    return has(kind) ? look_up(kind, traffic) : std::nullopt;
  }
  /// Whether there is a rule of a kind at all.
  [[nodiscard]] bool has(RuleKind kind) const;

  /// The lowest value that rules set for a limit at an HCA with the port `at`.
  [[nodiscard]] std::optional<std::uint64_t> limit(Limit what, PortIndex at) const;

 private:
  explicit Faults(FaultsFile* file) : file_(file) {}
  std::optional<FaultRule> look_up(RuleKind kind, const Traffic& traffic);
  FaultsFile* file_;
};

}  // namespace softhca::hca
