// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>

#include "cm/engine/engine.hpp"
#include "cm/engine/intervals.hpp"
#include "cm/engine/message_bytes.hpp"

namespace wireup::cm {
namespace {

/// Which message a REJ refuses, by the state of the one who refuses (IBTA vol 1, 12.6.7.1).
mad::RejOf refused_in(State state) noexcept {
  switch (state) {
    case State::ReqRcvd:
    case State::MraReqSent:
      return mad::RejOf::Req;
    case State::RepRcvd:
    case State::MraRepSent:
      return mad::RejOf::Rep;
    case State::Idle:
    case State::ReqSent:
    case State::MraReqRcvd:
    case State::RepSent:
    case State::MraRepRcvd:
    case State::Established:
    case State::DreqSent:
    case State::DreqRcvd:
    case State::Timewait:
    case State::kCount:
      break;
  }
  return mad::RejOf::Other;
}

}  // namespace

Tid Engine::next_tid() noexcept {
  return Tid(rng_.next());
}

void Engine::transmit(std::uint32_t index, mad::CmKind kind, const mad::Mad& bytes,
                      const RttEstimator* estimator, Instant now) {
  Connection& connection = table_.at(index);
  connection.last_kind = kind;
  connection.last_sent = trimmed(bytes);
  connection.attempts = 1;
  connection.since = now;
  connection.timers.stop(Timer::Retransmit);
  if (estimator != nullptr) {
    if (connection.policy.timers == Timers::Adaptive) {
      connection.interval = estimator->rto(config_.initial_rto, config_.min_rto, config_.max_rto);
    }
    start_retransmission(index, now);
  }
  outbox_.send(connection.peer, kind, bytes);
}

void Engine::start_retransmission(std::uint32_t index, Instant now) {
  Connection& connection = table_.at(index);
  const Duration wait = wait_in(connection.interval, connection.policy.timers, config_, rng_);
  connection.timers.set(Timer::Retransmit, now + wait);
  table_.schedule(index);
}

mad::Mra Engine::mra_for(const Connection& connection, Tid tid, mad::MraOf message,
                         IbTimeout service_timeout, std::span<const std::uint8_t> private_data) {
  mad::Mra mra;
  mra.tid = tid;
  mra.local_comm_id = connection.local_comm_id;
  mra.remote_comm_id = connection.remote_comm_id;
  mra.message = message;
  mra.service_timeout = service_timeout;
  mra.private_data = mad::private_data<mad::Mra::kPrivateSize>(private_data);
  return mra;
}

void Engine::keep_promise(Connection& connection, IbTimeout service_timeout, Instant now) {
  const Instant promised = now + service_timeout.duration();
  const Instant offered = connection.timers.deadline(Timer::Deadline).value_or(promised);
  connection.timers.set(Timer::Deadline, std::max(offered, promised));
}

void Engine::be_patient(Connection& connection, const mad::Mra& mra, Duration interval,
                        Instant now) {
  const Instant again =
      now + mra.service_timeout.duration() + connection.local_ack_timeout.duration();
  connection.timers.set(Timer::Retransmit, again);
  if (connection.policy.timers == Timers::Iba) {
    // IBA's patience has no bound but the peer's. With adaptive timers the call's deadline stays.
    const Instant deadline = connection.timers.deadline(Timer::Deadline).value_or(again);
    connection.timers.set(Timer::Deadline, std::max(deadline, again + interval));
  }
}

void Engine::resend(std::uint32_t index, Instant now) {
  Connection& connection = table_.at(index);
  if (connection.last_sent.empty()) {
    drop(DropReason::UnexpectedState);
    return;
  }
  ++connection.attempts;
  outbox_.send(connection.peer, connection.last_kind, whole(connection.last_sent), true);
  // While a LAP is under way, the timers are the LAP's.
  if (connection.state != State::Established && connection.timers.is_set(Timer::Retransmit)) {
    start_retransmission(index, now);
  }
}

void Engine::send_rej(const Address& to, const mad::Rej& rej) {
  outbox_.send(to, mad::CmKind::Rej, mad::serialize(rej));
}

mad::Rej Engine::rej_for(std::uint32_t index, mad::RejReason reason) const noexcept {
  const Connection& connection = table_.at(index);
  mad::Rej rej;
  rej.tid = connection.tid;
  rej.local_comm_id = connection.local_comm_id;
  rej.remote_comm_id = connection.remote_comm_id;
  rej.message = refused_in(connection.state);
  rej.reason = static_cast<std::uint16_t>(reason);
  rej.private_data = mad::private_data<mad::Rej::kPrivateSize>(config_.identity.span());
  return rej;
}

void Engine::send_dreq(std::uint32_t index, std::span<const std::uint8_t> private_data,
                       Instant now) {
  Connection& connection = table_.at(index);
  connection.tid = next_tid();
  mad::Dreq dreq;
  dreq.tid = connection.tid;
  dreq.local_comm_id = connection.local_comm_id;
  dreq.remote_comm_id = connection.remote_comm_id;
  dreq.remote_qpn = connection.remote_qpn;
  dreq.private_data = mad::private_data<mad::Dreq::kPrivateSize>(private_data);
  const Duration patience = connection.policy.timers == Timers::Iba
                                ? all_tries(connection.interval, connection.max_cm_retries)
                                : config_.disconnect_deadline;
  connection.timers.set(Timer::Deadline, now + patience);
  transmit(index, mad::CmKind::Dreq, mad::serialize(dreq), &release_rtt_, now);
}

void Engine::send_drep(std::uint32_t index, std::span<const std::uint8_t> private_data,
                       bool is_retransmit) {
  const Connection& connection = table_.at(index);
  mad::Drep drep;
  drep.tid = connection.tid;
  drep.local_comm_id = connection.local_comm_id;
  drep.remote_comm_id = connection.remote_comm_id;
  drep.private_data = mad::private_data<mad::Drep::kPrivateSize>(private_data);
  outbox_.send(connection.peer, mad::CmKind::Drep, mad::serialize(drep), is_retransmit);
}

}  // namespace wireup::cm
