// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/ids.hpp"
#include "base/result.hpp"
#include "cm/driver/gsi_carrier.hpp"
#include "cm/driver/ud_carrier.hpp"
#include "cm/engine/types.hpp"
#include "umad/ops.hpp"
#include "verbs/device.hpp"

namespace wireup::cm {

/// What carries CM messages. X-macro columns: name, word, what it is.
#define WIREUP_CM_CARRIERS(X)               \
  X(Ud, "ud", "a UD queue pair of our own") \
  X(Gsi, "gsi", "QP1, through the MAD device")

enum class CarrierKind : std::uint8_t {
#define WIREUP_CM_CARRIER_ENUMERATOR(name, word, sentence) name,
  WIREUP_CM_CARRIERS(WIREUP_CM_CARRIER_ENUMERATOR)
#undef WIREUP_CM_CARRIER_ENUMERATOR
};

/// "ud", "gsi".
[[nodiscard]] std::string_view carrier_name(CarrierKind kind) noexcept;
/// Nothing for a word that is none.
[[nodiscard]] std::optional<CarrierKind> carrier_of(std::string_view word) noexcept;

/// One of the carriers, chosen when it is opened: the first that can be had, in the order of the
/// table. Not thread-safe.
class Carrier {
 public:
  struct Options {
    /// Take this one or none.
    std::optional<CarrierKind> forced = {};
    /// Who forced it, for people: "WIREUP_CM_CARRIER".
    std::string forced_by = {};
    UdCarrier::Options ud = {};
    GsiCarrier::Options gsi = {};
  };
  /// The error is that of the forced carrier, or of the first one tried. No other one is tried
  /// after Errc::MemlockLimit. `device` must outlive the carrier.
  [[nodiscard]] static Result<Carrier> open(const verbs::Device& device, const Options& options,
                                            const umad::Ops& mad_ops = umad::system_ops());

  [[nodiscard]] CarrierKind kind() const noexcept {
    return std::holds_alternative<UdCarrier>(carrier_) ? CarrierKind::Ud : CarrierKind::Gsi;
  }
  /// Which one and why, for people: "ud: a UD queue pair of our own (0x000123), ...".
  [[nodiscard]] const std::string& reason() const noexcept { return reason_; }

  // As each carrier documents them.
  [[nodiscard]] Result<> send(const Transmit& transmit) {
    return std::visit([&](auto& carrier) { return carrier.send(transmit); }, carrier_);
  }
  template <typename F>
  [[nodiscard]] Result<std::size_t> poll(F&& on_message, std::size_t max) {
    return std::visit([&](auto& carrier) { return carrier.poll(on_message, max); }, carrier_);
  }
  [[nodiscard]] Result<> arm() {
    return std::visit([](auto& carrier) { return carrier.arm(); }, carrier_);
  }
  [[nodiscard]] int fd() const {
    return std::visit([](const auto& carrier) { return carrier.fd(); }, carrier_);
  }
  [[nodiscard]] Qpn qpn() const {
    return std::visit([](const auto& carrier) { return carrier.qpn(); }, carrier_);
  }
  [[nodiscard]] std::uint64_t overflows() const {
    return std::visit([](const auto& carrier) { return carrier.overflows(); }, carrier_);
  }

 private:
  Carrier(std::variant<UdCarrier, GsiCarrier> carrier, std::string reason) noexcept
      : carrier_(std::move(carrier)), reason_(std::move(reason)) {}

  std::variant<UdCarrier, GsiCarrier> carrier_;
  std::string reason_;
};

}  // namespace wireup::cm
