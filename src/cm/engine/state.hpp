// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace wireup::cm {

/// States of a connection (IBTA vol 1, 12.9.5 to 12.9.7). LISTEN belongs to a service id, not to a
/// connection: the engine keeps a set of them. X-macro columns: name, the specification's name.
#define WIREUP_CM_STATES(X)     \
  X(Idle, "IDLE")               \
  X(ReqSent, "REQ_SENT")        \
  X(ReqRcvd, "REQ_RCVD")        \
  X(MraReqSent, "MRA_REQ_SENT") \
  X(MraReqRcvd, "MRA_REQ_RCVD") \
  X(RepSent, "REP_SENT")        \
  X(RepRcvd, "REP_RCVD")        \
  X(MraRepSent, "MRA_REP_SENT") \
  X(MraRepRcvd, "MRA_REP_RCVD") \
  X(Established, "ESTABLISHED") \
  X(DreqSent, "DREQ_SENT")      \
  X(DreqRcvd, "DREQ_RCVD")      \
  X(Timewait, "TIMEWAIT")

/// What may happen to a connection. X-macro columns: name, class (a command of the consumer, a
/// message of the peer, a timer), text.
#define WIREUP_CM_INPUTS(X)                                                         \
  X(SendReq, Command, "send REQ")                                                   \
  X(SendRep, Command, "send REP")                                                   \
  X(SendRtu, Command, "send RTU")                                                   \
  X(SendRej, Command, "send REJ")                                                   \
  X(SendMra, Command, "send MRA")                                                   \
  X(SendDreq, Command, "send DREQ")                                                 \
  X(SendDrep, Command, "send DREP")                                                 \
  X(NotifyEstablished, Command, "data arrived")                                     \
  X(Abandon, Command, "abandon")                                                    \
  X(RecvReq, Message, "REQ")                                                        \
  X(RecvMraOfReq, Message, "MRA(REQ)")                                              \
  X(RecvMraOfRep, Message, "MRA(REP)")                                              \
  X(RecvRep, Message, "REP")                                                        \
  X(RecvRtu, Message, "RTU")                                                        \
  X(RecvRej, Message, "REJ")                                                        \
  X(RecvRejStale, Message, "REJ(stale)")                                            \
  X(RecvDreq, Message, "DREQ")                                                      \
  X(RecvDrep, Message, "DREP")                                                      \
  X(RecvTwin, Message, "REQ or REP of another connection with the same remote QPN") \
  X(RecvPeerReq, Message, "REQ of the peer-to-peer peer that stays active")         \
  X(RetransmitDue, Timer, "retransmission due")                                     \
  X(DeadlinePassed, Timer, "deadline passed")                                       \
  X(TimewaitOver, Timer, "TIMEWAIT over")

enum class State : std::uint8_t {
#define WIREUP_CM_STATE_ENUMERATOR(name, text) name,
  WIREUP_CM_STATES(WIREUP_CM_STATE_ENUMERATOR)
#undef WIREUP_CM_STATE_ENUMERATOR
      kCount
};

enum class Input : std::uint8_t {
#define WIREUP_CM_INPUT_ENUMERATOR(name, kind, text) name,
  WIREUP_CM_INPUTS(WIREUP_CM_INPUT_ENUMERATOR)
#undef WIREUP_CM_INPUT_ENUMERATOR
      kCount
};

inline constexpr std::size_t kStates = static_cast<std::size_t>(State::kCount);
inline constexpr std::size_t kInputs = static_cast<std::size_t>(Input::kCount);

/// The specification's name: "REQ_SENT".
[[nodiscard]] std::string_view state_name(State state) noexcept;
/// "send REQ", "REP", "deadline passed", ...
[[nodiscard]] std::string_view input_name(Input input) noexcept;

}  // namespace wireup::cm
