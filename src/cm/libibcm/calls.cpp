// SPDX-License-Identifier: BSD-3-Clause
#include <endian.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "base/clock.hpp"
#include "cm/engine/ack_timeout.hpp"
#include "cm/libibcm/bytes.hpp"
#include "cm/libibcm/device.hpp"
#include "cm/libibcm/paths.hpp"

namespace wireup::cm::ibcm {
namespace {

/// The messages' own timers and retries end a call long before.
constexpr Duration kNoDeadline = std::chrono::hours(24 * 365);

Error busy(const char* what, const CmId& id) {
  return Error::make(Errc::InvalidState, "%s: cm_id %u is in use", what, id.handle);
}

Error wide(const char* what, unsigned value) {
  return Error::make(Errc::InvalidArgument, "%s: 0x%x is wider than its field", what, value);
}

IbTimeout timeout_of(std::uint8_t exponent) noexcept {
  return IbTimeout(static_cast<std::uint8_t>(exponent & IbTimeout::kMaxExponent));
}

/// What a REQ says of transports; nothing for those that have no connections.
bool set_transport(ConnectParams& params, ibv_qp_type type) noexcept {
  switch (type) {
    case IBV_QPT_RC:
      params.transport_service = mad::TransportService::Rc;
      return true;
    case IBV_QPT_UC:
      params.transport_service = mad::TransportService::Uc;
      return true;
    case IBV_QPT_XRC_SEND:
      params.transport_service = mad::TransportService::Extended;
      params.extended_transport = mad::ExtendedTransport(1);
      return true;
    default:
      return false;
  }
}

/// The REQ's numbers; paths and addresses are not among them.
Result<> set_numbers(ConnectParams& to, const ib_cm_req_param& from) {
  const auto qpn = Qpn::make(from.qp_num);
  const auto psn = Psn::make(from.starting_psn);
  if (!qpn || !psn) {
    return fail(wide("sending a REQ: QPN or PSN", qpn ? from.starting_psn : from.qp_num));
  }
  if (!set_transport(to, from.qp_type)) {
    return fail(Error::make(Errc::InvalidArgument,
                            "sending a REQ: queue pair type %d is neither RC nor UC nor XRC's "
                            "initiator",
                            static_cast<int>(from.qp_type)));
  }
  auto private_data = bounded<mad::Req::kPrivateSize>(
      "sending a REQ: private data", span_of(from.private_data, from.private_data_len));
  if (!private_data) {
    return fail(private_data.error());
  }
  to.private_data = *private_data;
  to.service_id = ServiceId(be64toh(from.service_id));
  to.qpn = *qpn;
  to.starting_psn = *psn;
  to.responder_resources = from.responder_resources;
  to.initiator_depth = from.initiator_depth;
  // Fields narrower than a byte: what does not fit is cut off, as it always was.
  to.retry_count = mad::RetryCount(from.retry_count & mad::RetryCount::kMax);
  to.rnr_retry_count = mad::RnrRetryCount(from.rnr_retry_count & mad::RnrRetryCount::kMax);
  to.max_cm_retries = mad::CmRetryCount(from.max_cm_retries & mad::CmRetryCount::kMax);
  to.remote_cm_response_timeout = timeout_of(from.remote_cm_response_timeout);
  to.local_cm_response_timeout = timeout_of(from.local_cm_response_timeout);
  to.srq = from.srq != 0;
  to.end_to_end_flow_control = from.flow_control != 0;
  to.peer_to_peer = from.peer_to_peer != 0;
  return {};
}

}  // namespace

Result<> Device::send_req(CmId& id, const ib_cm_req_param& param) {
  const auto primary = read_path(*param.primary_path);
  if (!primary) {
    return fail(primary.error());
  }
  ConnectParams params;
  if (auto set = set_numbers(params, param); !set) {
    return set;
  }
  const std::lock_guard lock(shared_->mutex);
  if (!id.is_idle()) {
    return fail(busy("sending a REQ", id));
  }
  const auto side = side_of(*primary);
  if (!side) {
    return fail(side.error());
  }
  Side& at = **side;
  const auto local = local_path(at, *primary);
  if (!local) {
    return fail(local.error());
  }
  QpFacts facts;
  facts.qp_type = param.qp_type;
  facts.primary = *local;
  facts.primary.ack_timeout = ack_timeout(at.port->ack_delay(), primary->lifetime());
  if (param.alternate_path != nullptr) {
    const auto alternate = read_path(*param.alternate_path);
    if (!alternate) {
      return fail(alternate.error());
    }
    const auto other = side_of(*alternate);
    if (!other) {
      return fail(other.error());
    }
    auto way = local_path(**other, *alternate);
    if (!way) {
      return fail(way.error());
    }
    way->ack_timeout = ack_timeout(at.port->ack_delay(), alternate->lifetime());
    facts.alternate = *way;
    params.alternate_path = *alternate;
  }
  facts.path_mtu = primary->mtu;
  facts.rq_psn = params.starting_psn;
  facts.responder_resources = param.responder_resources;
  facts.initiator_depth = param.initiator_depth;
  facts.retry_count = params.retry_count.value();
  facts.rnr_retry_count = params.rnr_retry_count.value();

  const Instant now = monotonic_now();
  params.to = address_of(*primary, local->pkey_index, local->path_bits);
  params.local_ca_guid = at.port->node_guid();
  params.path = *primary;
  params.deadline = now + kNoDeadline;
  params.policy = usual_policy();
  const auto connection = at.engine.connect(params, now);
  if (!connection) {
    return fail(connection.error());
  }
  id.facts = facts;
  id.service_id = params.service_id;
  id.service_mask = Listeners::kWholeId;
  id.remote_id = CommId();
  bind(id, at, *connection);
  pump(at);
  return {};
}

Result<> Device::send_rep(CmId& id, const ib_cm_rep_param& param) {
  AcceptParams params;
  const auto qpn = Qpn::make(param.qp_num);
  const auto psn = Psn::make(param.starting_psn);
  if (!qpn || !psn) {
    return fail(wide("sending a REP: QPN or PSN", qpn ? param.starting_psn : param.qp_num));
  }
  auto private_data = bounded<mad::Rep::kPrivateSize>(
      "sending a REP: private data", span_of(param.private_data, param.private_data_len));
  if (!private_data) {
    return fail(private_data.error());
  }
  params.private_data = *private_data;
  params.qpn = *qpn;
  params.starting_psn = *psn;
  params.responder_resources = param.responder_resources;
  params.initiator_depth = param.initiator_depth;
  params.target_ack_delay = timeout_of(param.target_ack_delay);
  params.failover = static_cast<mad::Failover>(param.failover_accepted & 3U);
  params.end_to_end_flow_control = param.flow_control != 0;
  params.rnr_retry_count = mad::RnrRetryCount(param.rnr_retry_count & mad::RnrRetryCount::kMax);
  params.srq = param.srq != 0;
  return command(id, [&](Engine& engine, Handle connection, Instant now) {
    params.local_ca_guid = id.side->port->node_guid();
    auto sent = engine.accept(connection, params, now);
    if (sent) {
      id.facts.rq_psn = *psn;
      id.facts.responder_resources = param.responder_resources;
      id.facts.initiator_depth = param.initiator_depth;
    }
    return sent;
  });
}

Result<> Device::notify(CmId& id, ibv_event_type event) {
  if (event == IBV_EVENT_COMM_EST) {
    return command(id, [&](Engine& engine, Handle connection, Instant now) -> Result<> {
      if (engine.state(connection) == State::Established) {
        return fail(Error::system(Errc::InvalidState, EISCONN, "telling that it is established"));
      }
      auto told = engine.notify_established(connection, now);
      if (told) {
        // The event follows when the engine is asked for it, right after this.
        id.is_notified = true;
      }
      return told;
    });
  }
  if (event != IBV_EVENT_PATH_MIG) {
    return fail(Error::make(Errc::InvalidArgument,
                            "notifying: event %d is neither COMM_EST nor PATH_MIG",
                            static_cast<int>(event)));
  }
  return command(id, [&](Engine& engine, Handle connection, Instant now) -> Result<> {
    QpFacts& facts = id.facts;
    if (!facts.alternate.has_value()) {
      return fail(Error::make(Errc::InvalidState, "notifying: no alternate path has been loaded"));
    }
    const LocalPath& way = *facts.alternate;
    auto told =
        engine.migrated(connection, address_of(way.record, way.pkey_index, way.path_bits), now);
    if (told) {
      std::swap(facts.primary, *facts.alternate);
      id.rearms = true;
    }
    return told;
  });
}

Result<> Device::send_rej(CmId& id, mad::RejReason reason, std::span<const std::uint8_t> ari,
                          std::span<const std::uint8_t> private_data) {
  return command(id, [&](Engine& engine, Handle connection, Instant now) {
    return engine.reject(connection, reason, ari, private_data, now);
  });
}

Result<> Device::send_lap(CmId& id, const ibv_sa_path_rec& path,
                          std::span<const std::uint8_t> private_data) {
  const auto record = read_path(path);
  if (!record) {
    return fail(record.error());
  }
  const auto bounded_data =
      bounded<mad::Lap::kPrivateSize>("sending a LAP: private data", private_data);
  if (!bounded_data) {
    return fail(bounded_data.error());
  }
  return command(id, [&](Engine& engine, Handle connection, Instant now) -> Result<> {
    const auto side = side_of(*record);
    if (!side) {
      return fail(side.error());
    }
    auto way = local_path(**side, *record);
    if (!way) {
      return fail(way.error());
    }
    way->ack_timeout = ack_timeout(id.side->port->ack_delay(), record->lifetime());
    LapParams params;
    params.path = *record;
    params.deadline = now + kNoDeadline;
    params.private_data = *bounded_data;
    auto sent = engine.load_alternate(connection, params, now);
    if (sent) {
      id.proposed = *way;
      id.rearms = true;
    }
    return sent;
  });
}

Result<> Device::send_apr(CmId& id, std::uint8_t status, std::span<const std::uint8_t> info,
                          std::span<const std::uint8_t> private_data) {
  AprParams params;
  params.status = static_cast<mad::AprStatus>(status);
  const auto bounded_info = bounded<mad::Apr::kInfoSize>("sending an APR: information", info);
  if (!bounded_info) {
    return fail(bounded_info.error());
  }
  const auto bounded_data =
      bounded<mad::Apr::kPrivateSize>("sending an APR: private data", private_data);
  if (!bounded_data) {
    return fail(bounded_data.error());
  }
  params.info = *bounded_info;
  params.private_data = *bounded_data;
  return command(id, [&](Engine& engine, Handle connection, Instant now) {
    auto sent = engine.answer_alternate(connection, params, now);
    if (sent && params.status != mad::AprStatus::Loaded) {
      id.facts.alternate = id.replaced;
    }
    return sent;
  });
}

Result<> Device::send_sidr_req(CmId& id, const ib_cm_sidr_req_param& param) {
  const auto path = read_path(*param.path);
  if (!path) {
    return fail(path.error());
  }
  SidrParams params;
  const auto private_data = bounded<mad::SidrReq::kPrivateSize>(
      "sending a SIDR_REQ: private data", span_of(param.private_data, param.private_data_len));
  if (!private_data) {
    return fail(private_data.error());
  }
  const std::lock_guard lock(shared_->mutex);
  if (!id.is_idle()) {
    return fail(busy("sending a SIDR_REQ", id));
  }
  const auto side = side_of(*path);
  if (!side) {
    return fail(side.error());
  }
  Side& at = **side;
  const auto local = local_path(at, *path);
  if (!local) {
    return fail(local.error());
  }
  const Instant now = monotonic_now();
  params.to = address_of(*path, local->pkey_index, local->path_bits);
  params.service_id = ServiceId(be64toh(param.service_id));
  params.pkey = path->pkey;
  params.deadline = now + kNoDeadline;
  params.timers = Timers::Iba;
  params.iba_interval = std::chrono::milliseconds(std::max(param.timeout_ms, 1));
  params.max_cm_retries = param.max_cm_retries & mad::CmRetryCount::kMax;
  params.private_data = *private_data;
  const auto resolution = at.engine.resolve_service(params, now);
  if (!resolution) {
    return fail(resolution.error());
  }
  id.service_id = params.service_id;
  id.service_mask = Listeners::kWholeId;
  id.side = &at;
  id.resolution = *resolution;
  at.resolutions.insert_or_assign(*resolution, &id);
  pump(at);
  return {};
}

Result<> Device::send_sidr_rep(CmId& id, const ib_cm_sidr_rep_param& param) {
  SidrAnswer answer;
  const auto qpn = Qpn::make(param.qp_num);
  if (!qpn) {
    return fail(wide("sending a SIDR_REP: QPN", param.qp_num));
  }
  if (param.status > IB_SIDR_UNSUPPORTED_VERSION) {
    return fail(wide("sending a SIDR_REP: status", param.status));
  }
  const auto info = bounded<mad::SidrRep::kInfoSize>("sending a SIDR_REP: information",
                                                     span_of(param.info, param.info_length));
  if (!info) {
    return fail(info.error());
  }
  const auto private_data = bounded<mad::SidrRep::kPrivateSize>(
      "sending a SIDR_REP: private data", span_of(param.private_data, param.private_data_len));
  if (!private_data) {
    return fail(private_data.error());
  }
  answer.status = static_cast<mad::SidrStatus>(param.status);
  answer.qpn = *qpn;
  answer.qkey = QKey(param.qkey);
  answer.info = *info;
  answer.private_data = *private_data;
  const std::lock_guard lock(shared_->mutex);
  if (!id.resolution.has_value()) {
    return fail(Error::make(Errc::InvalidState,
                            "sending a SIDR_REP: cm_id %u has no resolution to answer", id.handle));
  }
  Side& side = *id.side;
  auto answered = side.engine.answer_service(*id.resolution, answer, monotonic_now());
  if (answered) {
    unbind(id);
  }
  pump(side);
  return answered;
}

ib_cm_attr_param Device::attributes(CmId& id) {
  const std::lock_guard lock(shared_->mutex);
  remember_ids(id);
  ib_cm_attr_param param{};
  param.service_id = htobe64(id.service_id.value());
  param.service_mask = htobe64(id.service_mask);
  param.local_id = htobe32(id.local_id.value());
  param.remote_id = htobe32(id.remote_id.value());
  return param;
}

Result<QpAttributes> Device::qp_attributes(CmId& id, ibv_qp_state target) {
  const std::lock_guard lock(shared_->mutex);
  const auto state =
      id.connection.has_value() ? id.side->engine.state(*id.connection) : std::nullopt;
  if (!state.has_value()) {
    return fail(not_connected(id));
  }
  return ibcm::qp_attributes(id.facts, *state, id.rearms, target);
}

}  // namespace wireup::cm::ibcm
