// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/ids.hpp"
#include "base/time.hpp"
#include "mad/cm.hpp"

/// Alternate paths of an established connection: LAP and APR (IBTA vol 1, 12.8), a state machine
/// inside ESTABLISHED.
namespace wireup::cm {

/// X-macro columns: name, text. UNINIT and IDLE differ in what the peer has proved: an answered LAP
/// proves that it is established.
#define WIREUP_CM_ALTERNATE_STATES(X) \
  X(Uninit, "LAP_UNINIT")             \
  X(Idle, "LAP_IDLE")                 \
  X(Sent, "LAP_SENT")                 \
  X(Rcvd, "LAP_RCVD")                 \
  X(MraSent, "MRA_LAP_SENT")          \
  X(MraRcvd, "MRA_LAP_RCVD")

/// X-macro columns: name, class, text, as WIREUP_CM_INPUTS.
#define WIREUP_CM_ALTERNATE_INPUTS(X)                      \
  X(SendLap, Command, "send LAP")                          \
  X(SendApr, Command, "send APR")                          \
  X(SendMra, Command, "send MRA(LAP)")                     \
  X(Migrated, Command, "path migrated")                    \
  X(RecvLap, Message, "LAP")                               \
  X(RecvLapAgain, Message, "LAP with the TID of the last") \
  X(RecvMra, Message, "MRA(LAP)")                          \
  X(RecvApr, Message, "APR")                               \
  X(RecvRej, Message, "REJ")                               \
  X(RetransmitDue, Timer, "retransmission due")            \
  X(DeadlinePassed, Timer, "deadline passed")

enum class AlternateState : std::uint8_t {
#define WIREUP_CM_STATE_ENUMERATOR(name, text) name,
  WIREUP_CM_ALTERNATE_STATES(WIREUP_CM_STATE_ENUMERATOR)
#undef WIREUP_CM_STATE_ENUMERATOR
      kCount
};

enum class AlternateInput : std::uint8_t {
#define WIREUP_CM_INPUT_ENUMERATOR(name, kind, text) name,
  WIREUP_CM_ALTERNATE_INPUTS(WIREUP_CM_INPUT_ENUMERATOR)
#undef WIREUP_CM_INPUT_ENUMERATOR
      kCount
};

/// "LAP_SENT", ...
[[nodiscard]] std::string_view state_name(AlternateState state) noexcept;
/// "send LAP", "APR", ...
[[nodiscard]] std::string_view input_name(AlternateInput input) noexcept;

/// What is kept while alternate paths are in use; most connections have none.
struct Alternate {
  AlternateState state = AlternateState::Uninit;
  /// The kind of last_sent.
  mad::CmKind last_kind = mad::CmKind::Lap;
  /// How often last_sent was sent.
  unsigned attempts = 0;
  /// Of our LAP.
  Tid tid;
  /// Of the peer's last LAP.
  std::optional<Tid> peer_tid;
  Duration interval{};
  /// The message to send again, without the zeros at its end.
  std::vector<std::uint8_t> last_sent;
  friend bool operator==(const Alternate&, const Alternate&) = default;
};

}  // namespace wireup::cm
