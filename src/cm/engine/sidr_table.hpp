// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "cm/engine/cells.hpp"

namespace wireup::cm {

/// States of a service id resolution (IBTA vol 1, 12.11). X-macro columns: name, text.
#define WIREUP_CM_SIDR_STATES(X) \
  X(Idle, "IDLE")                \
  X(ReqSent, "SIDR_REQ_SENT")    \
  X(ReqRcvd, "SIDR_REQ_RCVD")

/// X-macro columns: name, class, text, as WIREUP_CM_INPUTS.
#define WIREUP_CM_SIDR_INPUTS(X)                \
  X(SendReq, Command, "send SIDR_REQ")          \
  X(SendRep, Command, "send SIDR_REP")          \
  X(Abandon, Command, "abandon")                \
  X(RecvReq, Message, "SIDR_REQ")               \
  X(RecvRep, Message, "SIDR_REP")               \
  X(RetransmitDue, Timer, "retransmission due") \
  X(DeadlinePassed, Timer, "deadline passed")

enum class SidrState : std::uint8_t {
#define WIREUP_CM_STATE_ENUMERATOR(name, text) name,
  WIREUP_CM_SIDR_STATES(WIREUP_CM_STATE_ENUMERATOR)
#undef WIREUP_CM_STATE_ENUMERATOR
      kCount
};

enum class SidrInput : std::uint8_t {
#define WIREUP_CM_INPUT_ENUMERATOR(name, kind, text) name,
  WIREUP_CM_SIDR_INPUTS(WIREUP_CM_INPUT_ENUMERATOR)
#undef WIREUP_CM_INPUT_ENUMERATOR
      kCount
};

/// What is done in a cell, before the next state is entered. Unset, Refuse, Drop and Nothing as in
/// the connection's table.
enum class SidrAction : std::uint8_t {
  Unset,
  Refuse,
  Drop,
  Nothing,
  DropDuplicate,
  Transmit,
  Resend,
  Offer,
  ReportAnswer,
  Forget,
  GiveUp,
  /// Our consumer has not answered in time: refuse.
  AnswerForConsumer,
};

using SidrTable = Cells<SidrState, SidrInput, SidrAction>;

/// SidrState x SidrInput -> next state and action. IDLE is a resolution that does not exist: an
/// answer that was lost is given anew, for a repeated question is a new one.
[[nodiscard]] constexpr SidrTable make_sidr_table() {
  using S = SidrState;
  using I = SidrInput;
  using A = SidrAction;
  SidrTable table;
  table.set(S::Idle, I::SendReq, S::ReqSent, A::Transmit);
  table.set(S::Idle, I::RecvReq, S::ReqRcvd, A::Offer);

  table.set(S::ReqSent, I::Abandon, S::Idle, A::Forget);
  table.set(S::ReqSent, I::RecvRep, S::Idle, A::ReportAnswer);
  table.stay(S::ReqSent, I::RetransmitDue, A::Resend);
  table.set(S::ReqSent, I::DeadlinePassed, S::Idle, A::GiveUp);

  table.set(S::ReqRcvd, I::SendRep, S::Idle, A::Transmit);
  table.set(S::ReqRcvd, I::Abandon, S::Idle, A::Forget);
  table.stay(S::ReqRcvd, I::RecvReq, A::DropDuplicate);
  table.set(S::ReqRcvd, I::DeadlinePassed, S::Idle, A::AnswerForConsumer);

#define WIREUP_CM_OTHERWISE(name, kind, text) table.otherwise(I::name, kOtherwise##kind);
  constexpr A kOtherwiseCommand = A::Refuse;
  constexpr A kOtherwiseMessage = A::Drop;
  constexpr A kOtherwiseTimer = A::Nothing;
  WIREUP_CM_SIDR_INPUTS(WIREUP_CM_OTHERWISE)
#undef WIREUP_CM_OTHERWISE
  return table;
}

inline constexpr SidrTable kSidrTable = make_sidr_table();
static_assert(kSidrTable.is_whole(), "a cell of the SIDR table is empty or filled twice");

/// "SIDR_REQ_SENT", ...
[[nodiscard]] std::string_view state_name(SidrState state) noexcept;
/// "SIDR_REQ", "deadline passed", ...
[[nodiscard]] std::string_view input_name(SidrInput input) noexcept;

}  // namespace wireup::cm
