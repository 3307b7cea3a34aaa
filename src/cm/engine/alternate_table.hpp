// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "cm/engine/alternate.hpp"
#include "cm/engine/cells.hpp"

namespace wireup::cm {

/// What is done in a cell, before the next state is entered. Unset, Refuse, Drop and Nothing as in
/// the connection's table.
enum class AlternateAction : std::uint8_t {
  Unset,
  Refuse,
  Drop,
  Nothing,
  /// As Drop, counted as a duplicate.
  DropDuplicate,
  /// Send the message that the command is named after.
  Transmit,
  /// Send the last message again.
  Resend,
  /// Hand the peer's path to the consumer.
  Offer,
  /// Hand the peer's answer to the consumer.
  ReportAnswer,
  /// Wait for as long as the MRA says before sending again.
  ExtendTimer,
  /// Tell the consumer that no answer came.
  GiveUp,
  /// Our consumer has not answered in time: refuse the path.
  AnswerForConsumer,
  /// Later messages of the connection go along the other path.
  SwapPaths,
  /// The connection itself is refused: on to the connection's table.
  Believe,
};

using AlternateTable = Cells<AlternateState, AlternateInput, AlternateAction>;

/// AlternateState x AlternateInput -> next state and action.
[[nodiscard]] constexpr AlternateTable make_alternate_table() {
  using S = AlternateState;
  using I = AlternateInput;
  using A = AlternateAction;
  AlternateTable table;

  for (const S state : {S::Uninit, S::Idle}) {
    table.set(state, I::SendLap, S::Sent, A::Transmit);
    table.set(state, I::RecvLap, S::Rcvd, A::Offer);
    table.set(state, I::Migrated, S::Idle, A::SwapPaths);
  }
  // The answer was lost.
  table.stay(S::Idle, I::RecvLapAgain, A::Resend);

  for (const S state : {S::Sent, S::MraRcvd}) {
    table.set(state, I::RecvMra, S::MraRcvd, A::ExtendTimer);
    table.set(state, I::RecvApr, S::Idle, A::ReportAnswer);
    table.stay(state, I::RetransmitDue, A::Resend);
    table.set(state, I::DeadlinePassed, S::Idle, A::GiveUp);
  }

  for (const S state : {S::Rcvd, S::MraSent}) {
    table.set(state, I::SendApr, S::Idle, A::Transmit);
    table.set(state, I::DeadlinePassed, S::Idle, A::AnswerForConsumer);
  }
  table.set(S::Rcvd, I::SendMra, S::MraSent, A::Transmit);
  table.stay(S::Rcvd, I::RecvLapAgain, A::DropDuplicate);
  table.stay(S::MraSent, I::RecvLapAgain, A::Resend);

  // A peer that has answered a LAP was established: what refuses the connection then is older.
  for (const S state : {S::Uninit, S::Sent, S::MraRcvd}) {
    table.stay(state, I::RecvRej, A::Believe);
  }

#define WIREUP_CM_OTHERWISE(name, kind, text) table.otherwise(I::name, kOtherwise##kind);
  constexpr A kOtherwiseCommand = A::Refuse;
  constexpr A kOtherwiseMessage = A::Drop;
  constexpr A kOtherwiseTimer = A::Nothing;
  WIREUP_CM_ALTERNATE_INPUTS(WIREUP_CM_OTHERWISE)
#undef WIREUP_CM_OTHERWISE
  return table;
}

inline constexpr AlternateTable kAlternateTable = make_alternate_table();
static_assert(kAlternateTable.is_whole(),
              "a cell of the table of alternate paths is empty or filled twice");

}  // namespace wireup::cm
