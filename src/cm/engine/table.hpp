// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "cm/engine/cells.hpp"
#include "cm/engine/state.hpp"

namespace wireup::cm {

/// What is done in a cell of the table, before the next state is entered.
enum class Action : std::uint8_t {
  /// Not filled; none is left (static_assert below).
  Unset,
  /// Commands: Errc::InvalidState.
  Refuse,
  /// Messages: counted and dropped.
  Drop,
  /// Messages: as Drop, counted as a duplicate.
  DropDuplicate,
  /// Timers: the state has no such timer.
  Nothing,
  /// Send the message that the command is named after.
  Transmit,
  /// Send the last message again.
  Resend,
  /// Hand a new REQ to the consumer.
  Offer,
  /// Keep what the REP says and hand it to the consumer.
  LearnReply,
  /// Wait for as long as the MRA says before sending again.
  ExtendTimer,
  /// Tell the consumer that the connection is established.
  ReportEstablished,
  /// Tell the consumer that the peer refused.
  ReportRejected,
  /// Tell the consumer that the established connection is refused.
  ReportBroken,
  /// Tell the consumer that the peer has released, and answer (the DREP is an input of its own).
  Release,
  /// As Release, for a connection whose RTU never came.
  EstablishAndRelease,
  /// As Release, when our own DREQ is under way.
  ReleaseCrossing,
  /// Answer a repeated DREQ.
  AnswerAgain,
  /// The answer to our DREQ.
  FinishRelease,
  /// No answer to our DREQ.
  GiveUpRelease,
  /// Our consumer has not answered a DREQ in time: answer it.
  AnswerForConsumer,
  /// Peer-to-peer: withdraw our REQ and offer the peer's.
  Yield,
  /// Refuse a REQ by REJ(stale).
  RejectStale,
  /// As RejectStale; the peer has lost the established connection, which is released.
  RejectStaleAndRelease,
  /// Tell the peer by REJ(timeout) and the consumer by Failed.
  GiveUp,
  /// Just enter the next state.
  Forget,
  /// Tell the consumer that the QP number is free.
  ReportTimewaitOver,
};

using Table = Cells<State, Input, Action>;
using Cell = Table::Cell;

/// State x Input -> next state and action. The one description of the protocol; handlers only carry
/// out what it says.
[[nodiscard]] constexpr Table make_table() {
  using S = State;
  using I = Input;
  using A = Action;
  Table table;
  const auto set = [&](S state, I input, S next, A action) {
    table.set(state, input, next, action);
  };
  const auto stay = [&](S state, I input, A action) { table.stay(state, input, action); };

  set(S::Idle, I::SendReq, S::ReqSent, A::Transmit);
  set(S::Idle, I::RecvReq, S::ReqRcvd, A::Offer);

  // Active side, waiting for the REP.
  for (const S state : {S::ReqSent, S::MraReqRcvd}) {
    set(state, I::SendRej, S::Idle, A::Transmit);
    set(state, I::Abandon, S::Idle, A::Forget);
    set(state, I::RecvMraOfReq, S::MraReqRcvd, A::ExtendTimer);
    set(state, I::RecvRep, S::RepRcvd, A::LearnReply);
    set(state, I::RecvRej, S::Idle, A::ReportRejected);
    set(state, I::RecvRejStale, S::Timewait, A::ReportRejected);
    set(state, I::RecvPeerReq, S::ReqRcvd, A::Yield);
    stay(state, I::RetransmitDue, A::Resend);
    set(state, I::DeadlinePassed, S::Idle, A::GiveUp);
  }
  // Active side, its consumer moves the QP.
  for (const S state : {S::RepRcvd, S::MraRepSent}) {
    set(state, I::SendRtu, S::Established, A::Transmit);
    set(state, I::SendRej, S::Idle, A::Transmit);
    set(state, I::Abandon, S::Idle, A::Forget);
    set(state, I::RecvRej, S::Timewait, A::ReportRejected);
    set(state, I::RecvRejStale, S::Timewait, A::ReportRejected);
    set(state, I::DeadlinePassed, S::Idle, A::GiveUp);
  }
  set(S::RepRcvd, I::SendMra, S::MraRepSent, A::Transmit);
  stay(S::RepRcvd, I::RecvRep, A::DropDuplicate);
  stay(S::MraRepSent, I::RecvRep, A::Resend);

  // Passive side, its consumer decides.
  for (const S state : {S::ReqRcvd, S::MraReqSent}) {
    set(state, I::SendRep, S::RepSent, A::Transmit);
    set(state, I::SendRej, S::Idle, A::Transmit);
    set(state, I::Abandon, S::Idle, A::Forget);
    set(state, I::RecvRej, S::Idle, A::ReportRejected);
    set(state, I::RecvRejStale, S::Timewait, A::ReportRejected);
    set(state, I::DeadlinePassed, S::Idle, A::GiveUp);
  }
  set(S::ReqRcvd, I::SendMra, S::MraReqSent, A::Transmit);
  stay(S::ReqRcvd, I::RecvReq, A::DropDuplicate);
  stay(S::MraReqSent, I::RecvReq, A::Resend);
  // Passive side, waiting for the RTU.
  for (const S state : {S::RepSent, S::MraRepRcvd}) {
    set(state, I::SendRej, S::Timewait, A::Transmit);
    set(state, I::NotifyEstablished, S::Established, A::ReportEstablished);
    set(state, I::Abandon, S::Idle, A::Forget);
    set(state, I::RecvMraOfRep, S::MraRepRcvd, A::ExtendTimer);
    set(state, I::RecvRtu, S::Established, A::ReportEstablished);
    set(state, I::RecvRej, S::Idle, A::ReportRejected);
    set(state, I::RecvRejStale, S::Timewait, A::ReportRejected);
    set(state, I::RecvDreq, S::DreqRcvd, A::EstablishAndRelease);
    stay(state, I::RetransmitDue, A::Resend);
    set(state, I::DeadlinePassed, S::Idle, A::GiveUp);
  }
  stay(S::RepSent, I::RecvReq, A::Resend);
  // The peer has the REP, and asked for patience.
  stay(S::MraRepRcvd, I::RecvReq, A::DropDuplicate);

  set(S::Established, I::SendDreq, S::DreqSent, A::Transmit);
  set(S::Established, I::Abandon, S::Timewait, A::Forget);
  stay(S::Established, I::RecvReq, A::DropDuplicate);
  stay(S::Established, I::RecvRep, A::Resend);
  stay(S::Established, I::RecvRtu, A::DropDuplicate);
  set(S::Established, I::RecvRej, S::Timewait, A::ReportBroken);
  set(S::Established, I::RecvRejStale, S::Timewait, A::ReportBroken);
  set(S::Established, I::RecvDreq, S::DreqRcvd, A::Release);
  set(S::Established, I::RecvTwin, S::DreqSent, A::RejectStaleAndRelease);

  set(S::DreqSent, I::Abandon, S::Timewait, A::Forget);
  stay(S::DreqSent, I::RecvReq, A::DropDuplicate);
  set(S::DreqSent, I::RecvRej, S::Timewait, A::FinishRelease);
  set(S::DreqSent, I::RecvRejStale, S::Timewait, A::FinishRelease);
  set(S::DreqSent, I::RecvDreq, S::DreqRcvd, A::ReleaseCrossing);
  set(S::DreqSent, I::RecvDrep, S::Timewait, A::FinishRelease);
  stay(S::DreqSent, I::RecvTwin, A::RejectStale);
  stay(S::DreqSent, I::RetransmitDue, A::Resend);
  set(S::DreqSent, I::DeadlinePassed, S::Timewait, A::GiveUpRelease);

  set(S::DreqRcvd, I::SendDrep, S::Timewait, A::Transmit);
  set(S::DreqRcvd, I::Abandon, S::Timewait, A::Forget);
  stay(S::DreqRcvd, I::RecvReq, A::DropDuplicate);
  stay(S::DreqRcvd, I::RecvDreq, A::DropDuplicate);
  stay(S::DreqRcvd, I::RecvTwin, A::RejectStale);
  set(S::DreqRcvd, I::DeadlinePassed, S::Timewait, A::AnswerForConsumer);

  stay(S::Timewait, I::Abandon, A::Forget);
  stay(S::Timewait, I::RecvReq, A::RejectStale);
  stay(S::Timewait, I::RecvDreq, A::AnswerAgain);
  stay(S::Timewait, I::RecvDrep, A::DropDuplicate);
  stay(S::Timewait, I::RecvTwin, A::RejectStale);
  set(S::Timewait, I::TimewaitOver, S::Idle, A::ReportTimewaitOver);

  // What is left is not allowed (commands), not expected (messages), or not running (timers).
#define WIREUP_CM_OTHERWISE(name, kind, text) table.otherwise(I::name, kOtherwise##kind);
  constexpr A kOtherwiseCommand = A::Refuse;
  constexpr A kOtherwiseMessage = A::Drop;
  constexpr A kOtherwiseTimer = A::Nothing;
  WIREUP_CM_INPUTS(WIREUP_CM_OTHERWISE)
#undef WIREUP_CM_OTHERWISE
  return table;
}

inline constexpr Table kTable = make_table();
static_assert(kTable.is_whole(), "a cell of the CM state table is empty or filled twice");

[[nodiscard]] constexpr Cell cell_of(State state, Input input) noexcept {
  return kTable.of(state, input);
}

}  // namespace wireup::cm
