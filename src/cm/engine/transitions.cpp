// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <array>
#include <optional>

#include "base/bytes.hpp"
#include "base/check.hpp"
#include "cm/engine/engine.hpp"
#include "cm/engine/intervals.hpp"

namespace wireup::cm {
namespace {

/// What a state waits for before the connection is established.
std::optional<Step> step_of(State state) noexcept {
  switch (state) {
    case State::ReqSent:
    case State::MraReqRcvd:
      return Step::Reply;
    case State::ReqRcvd:
    case State::MraReqSent:
      return Step::Accept;
    case State::RepSent:
    case State::MraRepRcvd:
      return Step::ReadyToUse;
    case State::RepRcvd:
    case State::MraRepSent:
      return Step::Establish;
    case State::Idle:
    case State::Established:
    case State::DreqSent:
    case State::DreqRcvd:
    case State::Timewait:
    case State::kCount:
      break;
  }
  return std::nullopt;
}

bool waits_for_peer(Step step) noexcept {
  return step == Step::Reply || step == Step::ReadyToUse;
}

}  // namespace

Cell Engine::look_up(std::uint32_t index, Input input) const noexcept {
  return cell_of(table_.at(index).state, input);
}

Result<std::uint32_t> Engine::permit(Handle handle, Input input) const noexcept {
  const auto index = table_.find(handle);
  if (!index) {
    return fail(Error::make(Errc::NotFound, "%s: connection %u.%u has ended",
                            input_name(input).data(), handle.index, handle.generation));
  }
  if (look_up(*index, input).action == Action::Refuse) {
    return fail(Error::make(Errc::InvalidState, "%s: not allowed in %s", input_name(input).data(),
                            state_name(table_.at(*index).state).data()));
  }
  return *index;
}

void Engine::enter(std::uint32_t index, State next, Instant now) {
  Connection& connection = table_.at(index);
  const bool is_new = connection.state != next;
  connection.state = next;
  if (connection.is_caller && next != State::ReqSent && next != State::MraReqRcvd) {
    connection.is_caller = false;
    std::erase_if(callers_, [index](const auto& caller) { return caller.second == index; });
  }
  if (is_new && next != State::Established) {
    alternates_.erase(index);
  }
  if (next == State::Idle) {
    table_.remove(index);
    return;
  }
  if (is_new && next == State::Established) {
    connection.timers.stop_all();
    ++outbox_.counters.established;
  }
  if (is_new && next == State::Timewait) {
    connection.timers.stop_all();
    connection.last_sent = {};
    connection.unreported.reset();
    const Duration by_path =
        std::min(connection.local_ack_timeout.duration(), config_.max_timewait);
    connection.timers.set(Timer::Timewait, now + config_.timewait.value_or(by_path));
    table_.rest(index);
  }
  table_.schedule(index);
}

void Engine::sample(RttEstimator& estimator, const Connection& connection, Instant now) noexcept {
  if (connection.attempts == 1) {
    estimator.add(now - connection.since);
  }
}

void Engine::finish_release(std::uint32_t index, std::optional<DisconnectCause> cause,
                            std::span<const std::uint8_t> private_data, std::uint16_t reason,
                            Instant now) {
  if (cause.has_value()) {
    Disconnected event{table_.handle(index), *cause, false, reason, {}};
    // A DREP's private data are a little longer than the DREQ's.
    const auto kept = private_data.first(std::min(private_data.size(), event.private_data.size()));
    std::copy(kept.begin(), kept.end(), event.private_data.begin());
    events_.emplace_back(event);
  }
  enter(index, State::Timewait, now);
}

void Engine::give_up(std::uint32_t index, Instant now) {
  const Connection& connection = table_.at(index);
  // The peer may not know our id pair yet: the GUID lets it find the connection (IBTA vol 1,
  // 12.6.7.2, reason 4).
  std::array<std::uint8_t, 8> guid{};
  store_be(guid, 0, guid.size(), connection.local_ca_guid.value());
  mad::Rej rej = rej_for(index, mad::RejReason::Timeout);
  rej.ari = *decltype(rej.ari)::make(guid);
  send_rej(connection.peer, rej);

  const auto step = step_of(connection.state);
  WIREUP_CHECK(step.has_value());
  events_.emplace_back(
      Failed{table_.handle(index), *step, waits_for_peer(*step) ? connection.attempts : 0});
  ++outbox_.counters.failed;
  enter(index, look_up(index, Input::DeadlinePassed).next, now);
}

void Engine::expire(std::uint32_t index, Instant now) {
  if (expire_alternate(index, now)) {
    return;
  }
  Connection& connection = table_.at(index);
  if (connection.timers.take_expired(Timer::Deadline, now)) {
    const Cell cell = look_up(index, Input::DeadlinePassed);
    if (cell.action == Action::GiveUp) {
      give_up(index, now);
    } else if (cell.action == Action::GiveUpRelease) {
      // A stale connection has been reported when it was found.
      finish_release(index,
                     connection.unreported.has_value() ? std::optional(DisconnectCause::Timeout)
                                                       : std::nullopt,
                     {}, 0, now);
    } else if (cell.action == Action::AnswerForConsumer) {
      send_drep(index, config_.identity.span(), false);
      enter(index, cell.next, now);
    } else {
      table_.schedule(index);
    }
    return;
  }
  if (connection.timers.take_expired(Timer::Retransmit, now)) {
    if (look_up(index, Input::RetransmitDue).action == Action::Resend) {
      connection.interval = interval_after(connection.interval, connection.policy.timers, config_);
      resend(index, now);
      start_retransmission(index, now);
    } else {
      table_.schedule(index);
    }
    return;
  }
  if (connection.timers.take_expired(Timer::Timewait, now)) {
    const Cell cell = look_up(index, Input::TimewaitOver);
    WIREUP_CHECK(cell.action == Action::ReportTimewaitOver);
    events_.emplace_back(TimewaitExit{table_.handle(index), connection.local_qpn});
    enter(index, cell.next, now);
  }
}

}  // namespace wireup::cm
