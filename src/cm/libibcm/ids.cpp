// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <array>

#include "base/bytes.hpp"
#include "base/clock.hpp"
#include "cm/libibcm/device.hpp"

namespace wireup::cm::ibcm {
namespace {

/// Service ids of IB_CM_ASSIGN_SERVICE_ID: this in the first byte.
constexpr std::uint64_t kAssigned = 0x0200000000000000ULL;
constexpr std::uint64_t kAssignedMask = 0xFF00000000000000ULL;

}  // namespace

Policy usual_policy() noexcept {
  Policy policy;
  policy.timers = Timers::Iba;
  policy.answers_release = false;
  policy.takes_alternate_paths = true;
  return policy;
}

Error not_connected(const CmId& id) noexcept {
  return Error::make(Errc::InvalidState, "cm_id %u has no connection", id.handle);
}

CmId& Device::create(void* context) {
  const std::lock_guard lock(shared_->mutex);
  return add_id(context);
}

CmId& Device::add_id(void* context) {
  auto id = std::make_unique<CmId>();
  id->context = context;
  id->device = this;
  id->handle = next_handle_++;
  id->shared = shared_;
  ids_.insert(id.get());
  return *id.release();
}

void Device::free_id(CmId& id) {
  ids_.erase(&id);
  delete &id;
}

void Device::destroy(CmId& id) {
  std::unique_lock lock(shared_->mutex);
  if (id.is_listening) {
    for (const auto& side : sides_) {
      side->engine.unlisten(id.service_id, id.service_mask);
      side->engine.unserve(id.service_id, id.service_mask);
    }
    id.is_listening = false;
  }
  drop_events_of(id);
  withdraw(id);
  pump_all();
  shared_->acked.wait(lock, [&] { return id.unacked == 0; });
  free_id(id);
}

void Device::bind(CmId& id, Side& side, Handle connection) {
  id.side = &side;
  id.connection = connection;
  id.rearms = false;
  id.proposed.reset();
  side.connections.insert_or_assign(connection, &id);
  remember_ids(id);
}

void Device::unbind(CmId& id) noexcept {
  if (id.connection.has_value()) {
    id.side->connections.erase(*id.connection);
    id.connection.reset();
  }
  if (id.resolution.has_value()) {
    id.side->resolutions.erase(*id.resolution);
    id.resolution.reset();
  }
}

void Device::remember_ids(CmId& id) noexcept {
  if (!id.connection.has_value()) {
    return;
  }
  if (const auto ids = id.side->engine.comm_ids(*id.connection)) {
    id.local_id = ids->local;
    id.remote_id = ids->remote;
  }
}

void Device::withdraw(CmId& id) {
  const Instant now = monotonic_now();
  if (id.resolution.has_value()) {
    Side& side = *id.side;
    SidrAnswer refusal;
    refusal.status = mad::SidrStatus::Rejected;
    if (!side.engine.answer_service(*id.resolution, refusal, now)) {
      side.engine.abandon(*id.resolution);
    }
  }
  const auto state =
      id.connection.has_value() ? id.side->engine.state(*id.connection) : std::nullopt;
  if (state.has_value()) {
    Engine& engine = id.side->engine;
    const Handle connection = *id.connection;
    Result<> told;
    switch (*state) {
      case State::ReqSent:
      case State::MraReqRcvd: {
        std::array<std::uint8_t, 8> guid{};
        store_be(guid, 0, guid.size(), id.side->port->node_guid().value());
        told = engine.reject(connection, mad::RejReason::Timeout, guid, {}, now);
        break;
      }
      case State::Established:
        told = engine.disconnect(connection, {}, now);
        break;
      case State::DreqRcvd:
        told = engine.release(connection, {}, now);
        break;
      case State::DreqSent:
      case State::Timewait:
        break;
      default:
        told = engine.reject(connection, mad::RejReason::ConsumerReject, {}, {}, now);
        break;
    }
    if (!told) {
      engine.abandon(connection, now);
    }
  }
  // What is left of the connection, a DREQ that is repeated or TIMEWAIT, is the engine's alone.
  unbind(id);
}

void Device::drop_events_of(const CmId& id) {
  std::deque<std::unique_ptr<EventBox>> kept;
  std::deque<std::unique_ptr<EventBox>> dropped;
  for (auto& box : queue_) {
    (box->owner == &id ? dropped : kept).push_back(std::move(box));
  }
  queue_ = std::move(kept);
  clear_if_empty();
  for (const auto& box : dropped) {
    // Nobody has seen an id that such an event would have brought.
    CmId& brought = static_cast<CmId&>(*box->cm_id);
    if (&brought != &id) {
      withdraw(brought);
      free_id(brought);
    }
  }
}

CmId* Device::listener_of(ServiceId service_id) const {
  CmId* found = nullptr;
  for (CmId* id : ids_) {
    // As the engine chooses: the most exact one.
    if (id->is_listening &&
        (service_id.value() & id->service_mask) == (id->service_id.value() & id->service_mask) &&
        (found == nullptr || id->service_mask > found->service_mask)) {
      found = id;
    }
  }
  return found;
}

Result<> Device::listen(CmId& id, ServiceId service_id, std::uint64_t mask) {
  const std::lock_guard lock(shared_->mutex);
  if (!id.is_idle()) {
    return fail(Error::make(Errc::InvalidState, "listening: cm_id %u is in use", id.handle));
  }
  const std::uint64_t wanted_mask = mask == 0 ? Listeners::kWholeId : mask;
  std::uint64_t wanted = service_id.value() & wanted_mask;
  if (wanted == kAssigned) {
    do {
      wanted = kAssigned | (next_service_++ & ~kAssignedMask);
    } while (wanted == kAssigned || listener_of(ServiceId(wanted)) != nullptr);
  } else if ((wanted & kAssignedMask) == kAssigned) {
    return fail(Error::make(Errc::InvalidArgument,
                            "listening on 0x%016llx: ids of this kind are assigned, see "
                            "IB_CM_ASSIGN_SERVICE_ID",
                            static_cast<unsigned long long>(wanted)));
  }
  const std::uint64_t used_mask =
      (service_id.value() & wanted_mask) == kAssigned ? Listeners::kWholeId : wanted_mask;
  for (const CmId* other : ids_) {
    if (other->is_listening && other->service_mask == used_mask &&
        other->service_id.value() == wanted) {
      return fail(Error::make(Errc::Busy, "listening on 0x%016llx: cm_id %u does already",
                              static_cast<unsigned long long>(wanted), other->handle));
    }
  }
  id.is_listening = true;
  id.service_id = ServiceId(wanted);
  id.service_mask = used_mask;
  for (const auto& side : sides_) {
    side->engine.listen(id.service_id, usual_policy(), used_mask);
    side->engine.serve(id.service_id, used_mask);
  }
  return {};
}

Result<Side*> Device::side_of(const mad::PathRecord& path) {
  for (const auto& side : sides_) {
    if (side->port->gid_index(path.sgid).has_value()) {
      return side.get();
    }
  }
  for (const auto& side : sides_) {
    if (side->port->path_bits(path.slid).has_value()) {
      return side.get();
    }
  }
  return fail(Error::make(Errc::InvalidArgument,
                          "the path begins at GID %s, LID %u, which no port that this device has "
                          "over QP1 owns",
                          to_text(path.sgid).data(), path.slid.value()));
}

Result<LocalPath> Device::local_path(const Side& side, const mad::PathRecord& path) {
  const auto pkey_index = side.port->pkey_index(path.pkey);
  if (!pkey_index.has_value()) {
    return fail(Error::make(Errc::InvalidArgument, "port %u has no P_Key 0x%04x in its table",
                            side.port->number(), path.pkey.value()));
  }
  LocalPath local;
  local.record = path;
  local.port = side.port->number();
  local.pkey_index = *pkey_index;
  local.sgid_index = side.port->gid_index(path.sgid).value_or(0);
  local.path_bits = side.port->path_bits(path.slid).value_or(0);
  return local;
}

}  // namespace wireup::cm::ibcm
