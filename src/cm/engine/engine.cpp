// SPDX-License-Identifier: BSD-3-Clause
#include "cm/engine/engine.hpp"

#include <algorithm>

#include "cm/engine/check_size.hpp"
#include "cm/engine/intervals.hpp"
#include "cm/engine/request.hpp"

namespace wireup::cm {
namespace {

/// Longer than anything waits, and short enough to be added to any time and doubled.
constexpr Duration kLongest = std::chrono::hours(24 * 365);

/// Intervals that the arithmetic of the timers can rely on, whatever a user configured.
Config sane(Config config) noexcept {
  constexpr Duration kShortest = std::chrono::microseconds(1);
  config.min_rto = std::clamp(config.min_rto, kShortest, kLongest);
  config.max_rto = std::clamp(config.max_rto, config.min_rto, kLongest);
  config.jitter_percent = std::min(config.jitter_percent, 99U);
  for (Duration* wait : {&config.offer_deadline, &config.rtu_deadline, &config.disconnect_deadline,
                         &config.max_timewait, &config.stale_guard}) {
    *wait = std::clamp(*wait, Duration::zero(), kLongest);
  }
  if (config.timewait.has_value()) {
    config.timewait = std::clamp(*config.timewait, Duration::zero(), kLongest);
  }
  return config;
}

}  // namespace

Engine::Engine(const Config& config, Rng rng)
    : config_(sane(config)), rng_(rng), table_(config.max_connections, rng_) {}

void Engine::listen(ServiceId service_id, const Policy& policy, std::uint64_t mask) {
  services_.add(service_id, mask, policy);
}
void Engine::unlisten(ServiceId service_id, std::uint64_t mask) {
  services_.remove(service_id, mask);
}
void Engine::serve(ServiceId service_id, std::uint64_t mask) {
  sidr_.serve(service_id, mask);
}
void Engine::unserve(ServiceId service_id, std::uint64_t mask) {
  sidr_.unserve(service_id, mask);
}
Result<ResolutionId> Engine::resolve_service(const SidrParams& params, Instant now) {
  return sidr_.resolve(params, context(now));
}
Result<> Engine::answer_service(ResolutionId id, const SidrAnswer& answer, Instant now) {
  return sidr_.answer(id, answer, context(now));
}

Result<> Engine::check_rested(const char* command, Qpn qpn, const Address& peer) const {
  if (const auto resting = table_.find_resting(qpn, peer)) {
    return fail(Error::make(
        Errc::Busy, "%s: queue pair 0x%06x rests towards LID %u until TIMEWAIT is over", command,
        static_cast<unsigned>(qpn.value()), static_cast<unsigned>(peer.dlid.value())));
  }
  return {};
}

Result<Handle> Engine::connect(const ConnectParams& params, Instant now) {
  if (params.deadline <= now) {
    return fail(Error::make(Errc::InvalidArgument, "connect: the deadline has passed already"));
  }
  auto req = make_req(params, config_);
  if (!req) {
    return fail(req.error());
  }
  if (auto rested = check_rested("connect", params.qpn, params.to); !rested) {
    return fail(rested.error());
  }
  const auto index = table_.add();
  if (!index) {
    return fail(Error::make(Errc::Busy, "connect: all %zu connections are in use",
                            config_.max_connections));
  }
  Connection& connection = table_.at(*index);
  connection.is_active = true;
  connection.tid = next_tid();
  connection.peer = params.to;
  connection.local_ca_guid = params.local_ca_guid;
  connection.local_qpn = params.qpn;
  connection.local_ack_timeout = req->primary.local_ack_timeout;
  connection.is_xrc = is_xrc(params.transport_service, params.extended_transport);
  connection.policy = params.policy;
  connection.max_cm_retries = req->max_cm_retries.value();
  Instant deadline = params.deadline;
  if (params.policy.timers == Timers::Iba) {
    connection.interval = iba_interval(params.path, req->remote_cm_response_timeout);
    deadline = std::min(deadline, now + all_tries(connection.interval, connection.max_cm_retries));
  }
  connection.timers.set(Timer::Deadline, deadline);
  if (params.peer_to_peer) {
    connection.is_caller = true;
    callers_.emplace(params.service_id, *index);
  }
  req->tid = connection.tid;
  req->local_comm_id = connection.local_comm_id;
  transmit(*index, mad::CmKind::Req, mad::serialize(*req), &request_rtt_, now);
  enter(*index, look_up(*index, Input::SendReq).next, now);
  return table_.handle(*index);
}

Result<> Engine::accept(Handle handle, const AcceptParams& params, Instant now) {
  const auto index = permit(handle, Input::SendRep);
  if (!index) {
    return fail(index.error());
  }
  if (params.deadline.has_value() && *params.deadline <= now) {
    return fail(Error::make(Errc::InvalidArgument, "accept: the deadline has passed already"));
  }
  Connection& connection = table_.at(*index);
  if (auto rested = check_rested("accept", params.qpn, connection.peer); !rested) {
    return rested;
  }
  if (!table_.claim_remote_qp(*index)) {
    return fail(Error::make(Errc::Stale,
                            "accept: queue pair 0x%06x of the peer is in another connection",
                            static_cast<unsigned>(connection.remote_qpn.value())));
  }
  connection.local_ca_guid = params.local_ca_guid;
  connection.local_qpn = params.qpn;
  mad::Rep rep;
  rep.tid = connection.tid;
  rep.local_comm_id = connection.local_comm_id;
  rep.remote_comm_id = connection.remote_comm_id;
  rep.local_qpn = params.qpn;
  if (connection.is_xrc) {
    // An XRC initiator looks for its target here (XRC annex of the specification; Linux alike).
    rep.local_eecn = mad::Eecn(params.qpn.value());
  }
  rep.ece_vendor = params.ece_vendor;
  rep.ece_options = params.ece_options;
  rep.starting_psn = params.starting_psn;
  rep.responder_resources = params.responder_resources;
  rep.initiator_depth = params.initiator_depth;
  rep.target_ack_delay = params.target_ack_delay.value_or(config_.ca_ack_delay);
  rep.failover = params.failover;
  rep.end_to_end_flow_control = params.end_to_end_flow_control;
  rep.rnr_retry_count = params.rnr_retry_count;
  rep.srq = params.srq;
  rep.local_ca_guid = params.local_ca_guid;
  rep.private_data = mad::private_data<mad::Rep::kPrivateSize>(params.private_data.span());
  const Duration patience = connection.policy.timers == Timers::Iba
                                ? all_tries(connection.interval, connection.max_cm_retries)
                                : config_.rtu_deadline;
  connection.timers.set(Timer::Deadline, params.deadline.value_or(now + patience));
  transmit(*index, mad::CmKind::Rep, mad::serialize(rep), &reply_rtt_, now);
  enter(*index, look_up(*index, Input::SendRep).next, now);
  return {};
}

Result<> Engine::establish(Handle handle, std::span<const std::uint8_t> private_data, Instant now) {
  const auto index = permit(handle, Input::SendRtu);
  if (!index) {
    return fail(index.error());
  }
  if (auto fits = check_size("RTU private data", private_data.size(), mad::Rtu::kPrivateSize);
      !fits) {
    return fits;
  }
  const Connection& connection = table_.at(*index);
  mad::Rtu rtu;
  rtu.tid = connection.tid;
  rtu.local_comm_id = connection.local_comm_id;
  rtu.remote_comm_id = connection.remote_comm_id;
  rtu.private_data = mad::private_data<mad::Rtu::kPrivateSize>(private_data);
  transmit(*index, mad::CmKind::Rtu, mad::serialize(rtu), nullptr, now);
  enter(*index, look_up(*index, Input::SendRtu).next, now);
  return {};
}

Result<> Engine::reject(Handle handle, mad::RejReason reason, std::span<const std::uint8_t> ari,
                        std::span<const std::uint8_t> private_data, Instant now) {
  const auto index = permit(handle, Input::SendRej);
  if (!index) {
    return fail(index.error());
  }
  if (auto fits = check_size("REJ private data", private_data.size(), mad::Rej::kPrivateSize);
      !fits) {
    return fits;
  }
  if (auto fits = check_size("REJ additional information", ari.size(), mad::Rej::kAriSize); !fits) {
    return fits;
  }
  mad::Rej rej = rej_for(*index, reason);
  rej.ari = *decltype(rej.ari)::make(ari);
  rej.private_data = mad::private_data<mad::Rej::kPrivateSize>(private_data);
  send_rej(table_.at(*index).peer, rej);
  enter(*index, look_up(*index, Input::SendRej).next, now);
  return {};
}

Result<> Engine::delay(Handle handle, IbTimeout service_timeout,
                       std::span<const std::uint8_t> private_data, Instant now) {
  if (alternate_state(handle).has_value()) {
    return delay_alternate(handle, service_timeout, private_data, now);
  }
  const auto index = permit(handle, Input::SendMra);
  if (!index) {
    return fail(index.error());
  }
  if (auto fits = check_size("MRA private data", private_data.size(), mad::Mra::kPrivateSize);
      !fits) {
    return fits;
  }
  Connection& connection = table_.at(*index);
  const mad::MraOf message = connection.is_active ? mad::MraOf::Rep : mad::MraOf::Req;
  const mad::Mra mra = mra_for(connection, connection.tid, message, service_timeout, private_data);
  if (!connection.is_active) {
    keep_promise(connection, service_timeout, now);
  }
  transmit(*index, mad::CmKind::Mra, mad::serialize(mra), nullptr, now);
  enter(*index, look_up(*index, Input::SendMra).next, now);
  return {};
}

Result<> Engine::notify_established(Handle handle, Instant now) {
  const auto index = permit(handle, Input::NotifyEstablished);
  if (!index) {
    return fail(index.error());
  }
  become_established(*index, Input::NotifyEstablished, {}, now);
  return {};
}

Result<> Engine::disconnect(Handle handle, std::span<const std::uint8_t> private_data,
                            Instant now) {
  const auto index = permit(handle, Input::SendDreq);
  if (!index) {
    return fail(index.error());
  }
  if (auto fits = check_size("DREQ private data", private_data.size(), mad::Dreq::kPrivateSize);
      !fits) {
    return fits;
  }
  table_.at(*index).unreported = DisconnectCause::ByUs;
  send_dreq(*index, private_data, now);
  enter(*index, look_up(*index, Input::SendDreq).next, now);
  return {};
}

Result<> Engine::release(Handle handle, std::span<const std::uint8_t> private_data, Instant now) {
  const auto index = permit(handle, Input::SendDrep);
  if (!index) {
    return fail(index.error());
  }
  if (auto fits = check_size("DREP private data", private_data.size(), mad::Drep::kPrivateSize);
      !fits) {
    return fits;
  }
  send_drep(*index, private_data, false);
  enter(*index, look_up(*index, Input::SendDrep).next, now);
  return {};
}

void Engine::abandon(Handle handle, Instant now) {
  const auto index = permit(handle, Input::Abandon);
  if (index) {
    enter(*index, look_up(*index, Input::Abandon).next, now);
  }
}

void Engine::handle_timeout(Instant now) {
  while (const auto index = table_.due(now)) {
    expire(*index, now);
  }
  sidr_.handle_timeout(context(now));
}

std::optional<Transmit> Engine::poll_transmit() {
  if (outbox_.transmits.empty()) {
    return std::nullopt;
  }
  std::optional<Transmit> next(outbox_.transmits.front());
  outbox_.transmits.pop_front();
  return next;
}

std::optional<Event> Engine::poll_event() {
  if (events_.empty()) {
    return std::nullopt;
  }
  std::optional<Event> next(events_.front());
  events_.pop_front();
  return next;
}

std::optional<Instant> Engine::poll_timeout() const noexcept {
  const auto connections = table_.next_deadline();
  const auto resolutions = sidr_.poll_timeout();
  if (!connections.has_value() || !resolutions.has_value()) {
    return connections.has_value() ? connections : resolutions;
  }
  return std::min(*connections, *resolutions);
}

std::optional<State> Engine::state(Handle handle) const noexcept {
  const auto index = table_.find(handle);
  if (!index) {
    return std::nullopt;
  }
  return table_.at(*index).state;
}

std::optional<CommIds> Engine::comm_ids(Handle handle) const noexcept {
  const auto index = table_.find(handle);
  if (!index) {
    return std::nullopt;
  }
  return CommIds{table_.at(*index).local_comm_id, table_.at(*index).remote_comm_id};
}

}  // namespace wireup::cm
