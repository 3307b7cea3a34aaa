// SPDX-License-Identifier: BSD-3-Clause
#include "cm/engine/sidr.hpp"

#include <algorithm>

#include "cm/engine/intervals.hpp"
#include "cm/engine/message_bytes.hpp"

namespace wireup::cm {
namespace {

SidrTable::Cell cell_of(SidrState state, SidrInput input) noexcept {
  return kSidrTable.of(state, input);
}

}  // namespace

Sidr::PeerKey Sidr::key_of(const Address& from, CommId request_id) noexcept {
  return {from.has_grh ? Lid{} : from.dlid, from.has_grh ? from.dgid : Gid{}, from.qpn, request_id};
}

void Sidr::schedule(Map::iterator at) {
  Resolution& resolution = at->second;
  const auto next = resolution.timers.next();
  if (next == resolution.scheduled) {
    return;
  }
  if (resolution.scheduled.has_value()) {
    deadlines_.erase({*resolution.scheduled, at->first});
  }
  if (next.has_value()) {
    deadlines_.emplace(*next, at->first);
  }
  resolution.scheduled = next;
}

void Sidr::remove(Map::iterator at) {
  Resolution& resolution = at->second;
  resolution.timers.stop_all();
  schedule(at);
  if (resolution.state == SidrState::ReqSent) {
    by_request_id_.erase(resolution.request_id);
  } else {
    by_peer_.erase(key_of(resolution.peer, resolution.request_id));
  }
  resolutions_.erase(at);
}

void Sidr::start_retransmission(Map::iterator at, Context context) {
  Resolution& resolution = at->second;
  const Duration wait =
      wait_in(resolution.interval, resolution.timing, context.config, context.rng);
  resolution.timers.set(Timer::Retransmit, context.now + wait);
  schedule(at);
}

Result<ResolutionId> Sidr::resolve(const SidrParams& params, Context context) {
  if (params.deadline <= context.now) {
    return fail(Error::make(Errc::InvalidArgument,
                            "resolving service 0x%016llx: the deadline has passed already",
                            static_cast<unsigned long long>(params.service_id.value())));
  }
  if (resolutions_.size() >= context.config.max_resolutions) {
    return fail(Error::make(Errc::Busy,
                            "resolving service 0x%016llx: all %zu resolutions are in use",
                            static_cast<unsigned long long>(params.service_id.value()),
                            context.config.max_resolutions));
  }
  CommId request_id(static_cast<std::uint32_t>(context.rng.next()));
  while (request_id.is_zero() || by_request_id_.contains(request_id)) {
    request_id = CommId(static_cast<std::uint32_t>(context.rng.next()));
  }
  const ResolutionId id{next_id_++};
  const auto at = resolutions_.emplace(id, Resolution{}).first;
  by_request_id_.emplace(request_id, id);

  mad::SidrReq req;
  req.tid = Tid(context.rng.next());
  req.request_id = request_id;
  req.pkey = params.pkey;
  req.service_id = params.service_id;
  req.private_data = mad::private_data<mad::SidrReq::kPrivateSize>(params.private_data.span());
  const mad::Mad bytes = mad::serialize(req);

  Resolution& resolution = at->second;
  resolution.state = cell_of(SidrState::Idle, SidrInput::SendReq).next;
  resolution.peer = params.to;
  resolution.request_id = request_id;
  resolution.tid = req.tid;
  resolution.service_id = params.service_id;
  resolution.attempts = 1;
  resolution.timing = params.timers;
  resolution.since = context.now;
  resolution.last_sent = trimmed(bytes);
  Instant deadline = params.deadline;
  if (resolution.timing == Timers::Iba) {
    // Both numbers are the consumer's and have no bound: what exceeds the deadline does not matter.
    const Duration left = deadline - context.now;
    resolution.interval =
        std::clamp<Duration>(params.iba_interval, std::min(context.config.min_rto, left), left);
    if (left / resolution.interval > params.max_cm_retries) {
      deadline = context.now + all_tries(resolution.interval, params.max_cm_retries);
    }
  } else {
    resolution.interval =
        rtt_.rto(context.config.initial_rto, context.config.min_rto, context.config.max_rto);
  }
  resolution.timers.set(Timer::Deadline, deadline);
  start_retransmission(at, context);
  context.outbox.send(params.to, mad::CmKind::SidrReq, bytes);
  return id;
}

void Sidr::send_answer(const Resolution& resolution, const SidrAnswer& answer, Context context) {
  mad::SidrRep rep;
  rep.tid = resolution.tid;
  rep.request_id = resolution.request_id;
  rep.status = static_cast<std::uint8_t>(answer.status);
  rep.info = answer.info;
  rep.ece_vendor = answer.ece_vendor;
  rep.ece_options = answer.ece_options;
  rep.qpn = answer.qpn;
  rep.service_id = resolution.service_id;
  rep.qkey = answer.qkey;
  rep.private_data = mad::private_data<mad::SidrRep::kPrivateSize>(answer.private_data.span());
  context.outbox.send(resolution.peer, mad::CmKind::SidrRep, mad::serialize(rep));
}

Result<> Sidr::answer(ResolutionId id, const SidrAnswer& answer, Context context) {
  const auto at = resolutions_.find(id);
  if (at == resolutions_.end()) {
    return fail(Error::make(Errc::NotFound, "send SIDR_REP: resolution %llu has ended",
                            static_cast<unsigned long long>(id)));
  }
  if (cell_of(at->second.state, SidrInput::SendRep).action == SidrAction::Refuse) {
    return fail(Error::make(Errc::InvalidState, "send SIDR_REP: not allowed in %s",
                            state_name(at->second.state).data()));
  }
  send_answer(at->second, answer, context);
  remove(at);
  return {};
}

void Sidr::abandon(ResolutionId id) {
  const auto at = resolutions_.find(id);
  if (at != resolutions_.end()) {
    remove(at);
  }
}

void Sidr::handle(const Address& from, const mad::SidrReq& req, Context context) {
  const PeerKey key = key_of(from, req.request_id);
  const auto known = by_peer_.find(key);
  const SidrState state = known == by_peer_.end() ? SidrState::Idle : SidrState::ReqRcvd;
  if (cell_of(state, SidrInput::RecvReq).action == SidrAction::DropDuplicate) {
    context.outbox.drop(DropReason::Duplicate);
    return;
  }
  Resolution resolution;
  resolution.peer = from;
  resolution.request_id = req.request_id;
  resolution.tid = req.tid;
  resolution.service_id = req.service_id;
  if (!services_.find(req.service_id).has_value()) {
    SidrAnswer refusal;
    refusal.status = mad::SidrStatus::UnsupportedService;
    send_answer(resolution, refusal, context);
    return;
  }
  if (resolutions_.size() >= context.config.max_resolutions) {
    context.outbox.drop(DropReason::NoRoom);
    return;
  }
  resolution.state = cell_of(state, SidrInput::RecvReq).next;
  resolution.timers.set(Timer::Deadline, context.now + context.config.offer_deadline);
  const ResolutionId id{next_id_++};
  const auto at = resolutions_.emplace(id, resolution).first;
  by_peer_.emplace(key, id);
  schedule(at);
  events_.emplace_back(SidrReqReceived{id, req, from});
}

void Sidr::handle(const Address& from, const mad::SidrRep& rep, Context context) {
  const auto known = by_request_id_.find(rep.request_id);
  if (known == by_request_id_.end()) {
    context.outbox.drop(DropReason::UnknownConnection);
    return;
  }
  const auto at = resolutions_.find(known->second);
  const Resolution& resolution = at->second;
  if (!is_same_source(resolution.peer, from)) {
    context.outbox.drop(DropReason::WrongSource);
    return;
  }
  if (cell_of(resolution.state, SidrInput::RecvRep).action != SidrAction::ReportAnswer) {
    context.outbox.drop(DropReason::UnexpectedState);
    return;
  }
  if (resolution.attempts == 1) {
    rtt_.add(context.now - resolution.since);
  }
  events_.emplace_back(SidrRepReceived{at->first, rep});
  remove(at);
}

void Sidr::handle_timeout(Context context) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= context.now) {
    expire(resolutions_.find(deadlines_.begin()->second), context);
  }
}

void Sidr::expire(Map::iterator at, Context context) {
  Resolution& resolution = at->second;
  if (resolution.timers.take_expired(Timer::Deadline, context.now)) {
    const auto cell = cell_of(resolution.state, SidrInput::DeadlinePassed);
    if (cell.action == SidrAction::GiveUp) {
      events_.emplace_back(SidrFailed{at->first, resolution.attempts});
    } else if (cell.action == SidrAction::AnswerForConsumer) {
      SidrAnswer refusal;
      refusal.status = mad::SidrStatus::Rejected;
      send_answer(resolution, refusal, context);
    }
    remove(at);
    return;
  }
  if (resolution.timers.take_expired(Timer::Retransmit, context.now)) {
    ++resolution.attempts;
    resolution.interval = interval_after(resolution.interval, resolution.timing, context.config);
    context.outbox.send(resolution.peer, mad::CmKind::SidrReq, whole(resolution.last_sent), true);
    start_retransmission(at, context);
  }
}

std::optional<Instant> Sidr::poll_timeout() const noexcept {
  if (deadlines_.empty()) {
    return std::nullopt;
  }
  return deadlines_.begin()->first;
}

std::optional<SidrEvent> Sidr::poll_event() {
  if (events_.empty()) {
    return std::nullopt;
  }
  std::optional<SidrEvent> next(events_.front());
  events_.pop_front();
  return next;
}

}  // namespace wireup::cm
