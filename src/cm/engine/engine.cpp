// SPDX-License-Identifier: BSD-3-Clause
#include "cm/engine/engine.hpp"

#include <algorithm>

#include "cm/engine/request.hpp"

namespace wireup::cm {
namespace {

/// Intervals that the arithmetic of the timers can rely on, whatever a user configured.
Config sane(Config config) noexcept {
  config.min_rto = std::max<Duration>(config.min_rto, std::chrono::microseconds(1));
  config.max_rto = std::max(config.max_rto, config.min_rto);
  config.jitter_percent = std::min(config.jitter_percent, 99U);
  return config;
}

Result<> check_size(const char* what, std::size_t size, std::size_t limit) noexcept {
  if (size > limit) {
    return fail(
        Error::make(Errc::InvalidArgument, "%s of %zu bytes, at most %zu", what, size, limit));
  }
  return {};
}

}  // namespace

Engine::Engine(const Config& config, Rng rng)
    : config_(sane(config)), rng_(rng), table_(config.max_connections, rng_) {}

void Engine::listen(ServiceId service_id) {
  services_.insert(service_id);
}
void Engine::unlisten(ServiceId service_id) {
  services_.erase(service_id);
}

Result<Handle> Engine::connect(const ConnectParams& params, Instant now) {
  if (params.deadline <= now) {
    return fail(Error::make(Errc::InvalidArgument, "connect: the deadline has passed already"));
  }
  auto req = make_req(params, config_);
  if (!req) {
    return fail(req.error());
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
  connection.timers.set(Timer::Deadline, params.deadline);
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
  rep.starting_psn = params.starting_psn;
  rep.responder_resources = params.responder_resources;
  rep.initiator_depth = params.initiator_depth;
  rep.target_ack_delay = config_.ca_ack_delay;
  rep.failover = params.failover;
  rep.end_to_end_flow_control = params.end_to_end_flow_control;
  rep.rnr_retry_count = params.rnr_retry_count;
  rep.srq = params.srq;
  rep.local_ca_guid = params.local_ca_guid;
  rep.private_data = mad::private_data<mad::Rep::kPrivateSize>(params.private_data.span());
  connection.timers.set(Timer::Deadline, params.deadline.value_or(now + config_.rtu_deadline));
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
  const auto index = permit(handle, Input::SendMra);
  if (!index) {
    return fail(index.error());
  }
  if (auto fits = check_size("MRA private data", private_data.size(), mad::Mra::kPrivateSize);
      !fits) {
    return fits;
  }
  Connection& connection = table_.at(*index);
  mad::Mra mra;
  mra.tid = connection.tid;
  mra.local_comm_id = connection.local_comm_id;
  mra.remote_comm_id = connection.remote_comm_id;
  mra.message = connection.is_active ? mad::MraOf::Rep : mad::MraOf::Req;
  mra.service_timeout = service_timeout;
  mra.private_data = mad::private_data<mad::Mra::kPrivateSize>(private_data);
  if (!connection.is_active) {
    const Instant promised = now + service_timeout.duration();
    const Instant offered = connection.timers.deadline(Timer::Deadline).value_or(promised);
    connection.timers.set(Timer::Deadline, std::max(offered, promised));
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
}

std::optional<Transmit> Engine::poll_transmit() {
  if (transmits_.empty()) {
    return std::nullopt;
  }
  std::optional<Transmit> next(transmits_.front());
  transmits_.pop_front();
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
  return table_.next_deadline();
}

std::optional<State> Engine::state(Handle handle) const noexcept {
  const auto index = table_.find(handle);
  if (!index) {
    return std::nullopt;
  }
  return table_.at(*index).state;
}

}  // namespace wireup::cm
