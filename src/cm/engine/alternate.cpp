// SPDX-License-Identifier: BSD-3-Clause
//
// Alternate paths: LAP, its MRA, APR. Their timers are the connection's, which has none of its own
// while it is established.
#include <algorithm>

#include "cm/engine/check_size.hpp"
#include "cm/engine/engine.hpp"
#include "cm/engine/intervals.hpp"
#include "cm/engine/message_bytes.hpp"
#include "cm/engine/request.hpp"

namespace wireup::cm {
namespace {

/// Whether an answer is of our exchange. The MAD layer of a kernel puts its own number into the
/// high half of the TID of what is sent over QP1, and the peer repeats that.
bool is_same_exchange(Tid ours, Tid answer) noexcept {
  constexpr std::uint64_t kLowHalf = 0xFFFFFFFF;
  return (ours.value() & kLowHalf) == (answer.value() & kLowHalf);
}

}  // namespace

std::optional<AlternateState> Engine::alternate_state(Handle handle) const noexcept {
  const auto index = table_.find(handle);
  if (!index || table_.at(*index).state != State::Established) {
    return std::nullopt;
  }
  const auto found = alternates_.find(*index);
  return found == alternates_.end() ? AlternateState::Uninit : found->second.state;
}

AlternateTable::Cell Engine::look_up(std::uint32_t index, AlternateInput input) const noexcept {
  const auto found = alternates_.find(index);
  return kAlternateTable.of(
      found == alternates_.end() ? AlternateState::Uninit : found->second.state, input);
}

Result<std::uint32_t> Engine::permit(Handle handle, AlternateInput input) const noexcept {
  const auto index = table_.find(handle);
  if (!index) {
    return fail(Error::make(Errc::NotFound, "%s: connection %u.%u has ended",
                            input_name(input).data(), handle.index, handle.generation));
  }
  const auto state = alternate_state(handle);
  if (!state.has_value()) {
    return fail(Error::make(Errc::InvalidState, "%s: not allowed in %s", input_name(input).data(),
                            state_name(table_.at(*index).state).data()));
  }
  if (look_up(*index, input).action == AlternateAction::Refuse) {
    return fail(Error::make(Errc::InvalidState, "%s: not allowed in %s", input_name(input).data(),
                            state_name(*state).data()));
  }
  return *index;
}

void Engine::enter(std::uint32_t index, AlternateState next) {
  Alternate& alternate = alternates_[index];
  alternate.state = next;
  if (next == AlternateState::Idle) {
    table_.at(index).timers.stop_all();
  }
  table_.schedule(index);
}

void Engine::transmit_alternate(std::uint32_t index, mad::CmKind kind, const mad::Mad& bytes) {
  Alternate& alternate = alternates_[index];
  alternate.last_kind = kind;
  alternate.last_sent = trimmed(bytes);
  alternate.attempts = 1;
  outbox_.send(table_.at(index).peer, kind, bytes);
}

void Engine::resend_alternate(std::uint32_t index, Instant now) {
  Alternate& alternate = alternates_[index];
  Connection& connection = table_.at(index);
  if (alternate.last_sent.empty()) {
    drop(DropReason::UnexpectedState);
    return;
  }
  ++alternate.attempts;
  outbox_.send(connection.peer, alternate.last_kind, whole(alternate.last_sent), true);
  if (alternate.last_kind == mad::CmKind::Lap) {
    const Duration wait = wait_in(alternate.interval, connection.policy.timers, config_, rng_);
    connection.timers.set(Timer::Retransmit, now + wait);
    table_.schedule(index);
  }
}

Result<> Engine::load_alternate(Handle handle, const LapParams& params, Instant now) {
  const auto index = permit(handle, AlternateInput::SendLap);
  if (!index) {
    return fail(index.error());
  }
  if (params.deadline <= now) {
    return fail(Error::make(Errc::InvalidArgument, "send LAP: the deadline has passed already"));
  }
  const auto path = make_path(params.path, config_);
  if (!path) {
    return fail(path.error());
  }
  Connection& connection = table_.at(*index);
  Alternate& alternate = alternates_[*index];
  alternate.tid = next_tid();
  mad::Lap lap;
  lap.tid = alternate.tid;
  lap.local_comm_id = connection.local_comm_id;
  lap.remote_comm_id = connection.remote_comm_id;
  lap.remote_qpn = connection.remote_qpn;
  lap.remote_cm_response_timeout =
      params.remote_cm_response_timeout.value_or(config_.cm_response_timeout);
  lap.alternate = *path;
  lap.private_data = mad::private_data<mad::Lap::kPrivateSize>(params.private_data.span());

  Instant deadline = params.deadline;
  if (connection.policy.timers == Timers::Iba) {
    alternate.interval = iba_interval(params.path, lap.remote_cm_response_timeout);
    deadline = std::min(deadline, now + all_tries(alternate.interval, connection.max_cm_retries));
  } else {
    alternate.interval = release_rtt_.rto(config_.initial_rto, config_.min_rto, config_.max_rto);
  }
  connection.timers.set(Timer::Deadline, deadline);
  connection.timers.set(Timer::Retransmit, now + alternate.interval);
  transmit_alternate(*index, mad::CmKind::Lap, mad::serialize(lap));
  enter(*index, look_up(*index, AlternateInput::SendLap).next);
  return {};
}

void Engine::send_apr(std::uint32_t index, const AprParams& params) {
  const Connection& connection = table_.at(index);
  mad::Apr apr;
  apr.tid = alternates_[index].peer_tid.value_or(Tid{});
  apr.local_comm_id = connection.local_comm_id;
  apr.remote_comm_id = connection.remote_comm_id;
  apr.status = static_cast<std::uint8_t>(params.status);
  apr.info = params.info;
  apr.private_data = mad::private_data<mad::Apr::kPrivateSize>(params.private_data.span());
  transmit_alternate(index, mad::CmKind::Apr, mad::serialize(apr));
}

Result<> Engine::answer_alternate(Handle handle, const AprParams& params, Instant) {
  const auto index = permit(handle, AlternateInput::SendApr);
  if (!index) {
    return fail(index.error());
  }
  send_apr(*index, params);
  enter(*index, look_up(*index, AlternateInput::SendApr).next);
  return {};
}

Result<> Engine::delay_alternate(Handle handle, IbTimeout service_timeout,
                                 std::span<const std::uint8_t> private_data, Instant now) {
  const auto index = permit(handle, AlternateInput::SendMra);
  if (!index) {
    return fail(index.error());
  }
  if (auto fits = check_size("MRA private data", private_data.size(), mad::Mra::kPrivateSize);
      !fits) {
    return fits;
  }
  Connection& connection = table_.at(*index);
  const Tid tid = alternates_[*index].peer_tid.value_or(Tid{});
  const mad::Mra mra = mra_for(connection, tid, mad::MraOf::Lap, service_timeout, private_data);
  keep_promise(connection, service_timeout, now);
  transmit_alternate(*index, mad::CmKind::Mra, mad::serialize(mra));
  enter(*index, look_up(*index, AlternateInput::SendMra).next);
  return {};
}

Result<> Engine::migrated(Handle handle, const Address& to, Instant) {
  const auto index = permit(handle, AlternateInput::Migrated);
  if (!index) {
    return fail(index.error());
  }
  table_.move_peer(*index, to);
  enter(*index, look_up(*index, AlternateInput::Migrated).next);
  return {};
}

void Engine::handle(const Address& from, const mad::Lap& lap, Instant now) {
  const auto index = match(from, lap.remote_comm_id, lap.local_comm_id);
  if (!index) {
    return;
  }
  Connection& connection = table_.at(*index);
  if (connection.state != State::Established) {
    drop(DropReason::UnexpectedState);
    return;
  }
  if (connection.local_qpn != lap.remote_qpn) {
    drop(DropReason::WrongQpn);
    return;
  }
  const auto known = alternates_.find(*index);
  const bool is_again = known != alternates_.end() && known->second.peer_tid == lap.tid;
  const AlternateInput input = is_again ? AlternateInput::RecvLapAgain : AlternateInput::RecvLap;
  const auto cell = look_up(*index, input);
  switch (cell.action) {
    case AlternateAction::Offer:
      alternates_[*index].peer_tid = lap.tid;
      if (!connection.policy.takes_alternate_paths) {
        AprParams refusal;
        refusal.status = mad::AprStatus::Unsupported;
        send_apr(*index, refusal);
        enter(*index, kAlternateTable.of(cell.next, AlternateInput::SendApr).next);
        break;
      }
      connection.timers.set(Timer::Deadline, now + config_.offer_deadline);
      enter(*index, cell.next);
      events_.emplace_back(AlternateOffered{table_.handle(*index), lap});
      break;
    case AlternateAction::Resend:
      resend_alternate(*index, now);
      break;
    case AlternateAction::DropDuplicate:
      drop(DropReason::Duplicate);
      break;
    default:
      drop(DropReason::UnexpectedState);
      break;
  }
}

void Engine::handle(const Address& from, const mad::Apr& apr, Instant) {
  const auto index = match(from, apr.remote_comm_id, apr.local_comm_id);
  if (!index) {
    return;
  }
  const bool is_expected =
      table_.at(*index).state == State::Established &&
      look_up(*index, AlternateInput::RecvApr).action == AlternateAction::ReportAnswer;
  if (!is_expected || !is_same_exchange(alternates_[*index].tid, apr.tid)) {
    drop(DropReason::UnexpectedState);
    return;
  }
  alternates_[*index].last_sent = {};
  enter(*index, look_up(*index, AlternateInput::RecvApr).next);
  events_.emplace_back(AlternateAnswered{table_.handle(*index), apr});
}

void Engine::handle_mra_of_lap(std::uint32_t index, const mad::Mra& mra, Instant now) {
  Connection& connection = table_.at(index);
  const auto cell = look_up(index, AlternateInput::RecvMra);
  if (connection.state != State::Established || cell.action != AlternateAction::ExtendTimer) {
    drop(DropReason::UnexpectedState);
    return;
  }
  be_patient(connection, mra, alternates_[index].interval, now);
  enter(index, cell.next);
  events_.emplace_back(
      MraReceived{table_.handle(index), mra.message, mra.service_timeout, mra.private_data});
}

bool Engine::expire_alternate(std::uint32_t index, Instant now) {
  Connection& connection = table_.at(index);
  const auto found = alternates_.find(index);
  if (connection.state != State::Established || found == alternates_.end()) {
    return false;
  }
  Alternate& alternate = found->second;
  if (connection.timers.take_expired(Timer::Deadline, now)) {
    const auto cell = look_up(index, AlternateInput::DeadlinePassed);
    if (cell.action == AlternateAction::GiveUp) {
      alternate.last_sent = {};
      events_.emplace_back(AlternateFailed{table_.handle(index), alternate.attempts});
    } else if (cell.action == AlternateAction::AnswerForConsumer) {
      AprParams refusal;
      refusal.status = mad::AprStatus::Rejected;
      send_apr(index, refusal);
    }
    enter(index, cell.next);
    return true;
  }
  if (connection.timers.take_expired(Timer::Retransmit, now)) {
    if (look_up(index, AlternateInput::RetransmitDue).action == AlternateAction::Resend) {
      alternate.interval = interval_after(alternate.interval, connection.policy.timers, config_);
      resend_alternate(index, now);
    }
    table_.schedule(index);
    return true;
  }
  return false;
}

}  // namespace wireup::cm
