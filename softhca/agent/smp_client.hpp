// SPDX-License-Identifier: BSD-3-Clause
// Directed-route SMPs in bulk: several under way at a time, retried, each answer given back in the
// place of its request.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "softhca/agent/ibsim_slot.hpp"
#include "softhca/mad/smp.hpp"

namespace softhca {

struct SmpRequest {
  DirectedPath path;
  std::uint16_t attr_id = 0;
  std::uint32_t attr_mod = 0;
  std::optional<SmpData> content = std::nullopt;  // to be set; without it, the attribute is read
};

struct SmpReply {
  bool ok = false;  // answered, with status 0
  SmpData data{};
};

/// Not thread-safe.
class SmpClient {
 public:
  explicit SmpClient(IbsimSlot& slot) : slot_(slot) {}

  /// One reply for each request, in order. Takes at most a second without any answer; after that
  /// alive() is false and everything not yet answered is not ok.
  std::vector<SmpReply> exchange(const std::vector<SmpRequest>& requests);

  SmpReply get(const DirectedPath& path, std::uint16_t attr_id, std::uint32_t attr_mod = 0);

  /// False when ibsim stopped answering.
  [[nodiscard]] bool alive() const { return alive_; }

  /// SMPs sent so far.
  [[nodiscard]] std::uint64_t sent() const { return sent_; }

 private:
  IbsimSlot& slot_;
  std::uint32_t next_tid_ = 1;
  std::uint64_t sent_ = 0;
  bool alive_ = true;
};

}  // namespace softhca
