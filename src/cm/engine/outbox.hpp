// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <utility>

#include "cm/engine/counters.hpp"
#include "cm/engine/types.hpp"
#include "mad/cm.hpp"

namespace wireup::cm {

/// What an engine has to say, and what it counts of that: the datagrams that wait to be taken. A
/// value.
struct Outbox {
  std::deque<Transmit> transmits;
  Counters counters;

  void send(const Address& to, mad::CmKind kind, const mad::Mad& bytes,
            bool is_retransmit = false) {
    ++counters.sent[mad::index_of(kind)];
    if (is_retransmit) {
      ++counters.retransmitted[mad::index_of(kind)];
    }
    transmits.push_back(Transmit{to, kind, is_retransmit, bytes});
  }
  void drop(DropReason reason) noexcept { ++counters.dropped[static_cast<std::size_t>(reason)]; }
  friend bool operator==(const Outbox&, const Outbox&) noexcept = default;
};

}  // namespace wireup::cm
