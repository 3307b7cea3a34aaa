// SPDX-License-Identifier: BSD-3-Clause
//
// The port's dealings with the SA: requests of the engine and of users, answers, notices.
#include <array>
#include <utility>
#include <variant>
#include <vector>

#include "acm/driver/acm_port.hpp"
#include "acm/identity/subnet_tables.hpp"

namespace wireup::acm {
namespace {

/// The engine repeats joins itself, with the port's state looked at between: few tries here.
constexpr Duration kSaTimeout = std::chrono::milliseconds(300);
constexpr unsigned kSaTries = 2;
constexpr PKey kDefaultPKey{0xFFFF};
constexpr std::array kTraps{mad::trap::kInService, mad::trap::kOutOfService,
                            mad::trap::kGroupCreated, mad::trap::kGroupDeleted,
                            mad::trap::kCapabilityChange};

QueryFailure failure_of(const Error& error) noexcept {
  if (error.is(Errc::Busy)) {
    return QueryFailure::Busy;
  }
  const bool is_answer =
      error.is(Errc::Rejected) || error.is(Errc::Malformed) || error.is(Errc::NoResources);
  return is_answer ? QueryFailure::Refused : QueryFailure::NoAnswer;
}

}  // namespace

Error AcmPort::no_source() const {
  return Error::make(Errc::PathUnresolved, "%s: path_sources does not name sa_query",
                     info_.name().data());
}

umad::MadAddress AcmPort::sm_address() const noexcept {
  return {info_.sm_lid, info_.sm_sl, info_.pkey_index(kDefaultPKey).value_or(0)};
}

/// Also for what the SA says unasked.
Result<> AcmPort::open_sa(Instant now) {
  umad::SaClient::Options options;
  options.device = options_.device;
  options.port = options_.port;
  options.sm = sm_address();
  options.timeout = kSaTimeout;
  options.tries = kSaTries;
  auto sa = umad::SaClient::open(options);
  if (!sa) {
    return wireup::fail(sa.error());
  }
  sa_.emplace(std::move(*sa));
  if (auto watched = watch(sa_->fd()); !watched) {
    return watched;
  }
  umad::SaNotices::Options notices;
  notices.device = options_.device;
  notices.port = options_.port;
  notices.sm = sm_address();
  notices.traps.assign(kTraps.begin(), kTraps.end());
  notices.seed = options_.seed;
  notices_.emplace(notices, now);
  return {};
}

std::uint32_t AcmPort::ask_sa(const mad::PathRecord& record, std::uint64_t component_mask,
                              Instant now) {
  if (!options_.asks_sa_for_paths) {
    sa_answers_.push_back({next_refused_, fail(no_source())});
    return next_refused_++;
  }
  const umad::SaRequestId id = sa_->query_path(record, component_mask, now);
  user_queries_.insert(id);
  return id;
}

std::optional<AcmPort::SaAnswer> AcmPort::poll_sa_answer() {
  if (sa_answers_.empty()) {
    return std::nullopt;
  }
  const SaAnswer answer = sa_answers_.front();
  sa_answers_.pop_front();
  return answer;
}

umad::SaRequestId AcmPort::ask_for(std::uint8_t node_type, Instant now) {
  mad::NodeRecord nodes;
  nodes.node_type = node_type;
  return sa_->query_nodes(nodes, mad::node_mask::kNodeType, now);
}

std::uint32_t AcmPort::ask_nodes(Instant now) {
  const umad::SaRequestId id = ask_for(mad::kNodeChannelAdapter, now);
  user_tables_.insert(id);
  return id;
}

std::uint32_t AcmPort::ask_services(Instant now) {
  const umad::SaRequestId id = sa_->query_services(mad::ServiceRecord{}, 0, now);
  user_tables_.insert(id);
  return id;
}

std::optional<umad::SaReply> AcmPort::poll_table_answer() {
  if (table_answers_.empty()) {
    return std::nullopt;
  }
  umad::SaReply answer = std::move(table_answers_.front());
  table_answers_.pop_front();
  return answer;
}

void AcmPort::send_sa_requests(Instant now) {
  while (const auto command = engine_->poll_join(now)) {
    joins_.emplace(sa_->join(command->record, command->component_mask, now), command->record.mgid);
  }
  while (const auto query = engine_->poll_path_query(now)) {
    if (!options_.asks_sa_for_paths) {
      query_error_ = no_source();
      engine_->handle_path_failure(query->id, QueryFailure::Refused, now);
      continue;
    }
    // Once: the engine repeats it itself.
    queries_.emplace(sa_->query_path(query->record, query->component_mask, now, 1), query->id);
  }
  if (const auto query = engine_->poll_table_query(now)) {
    const bool is_paths = query->kind == TableQuery::Kind::Paths;
    table_ = Table{is_paths ? sa_->query_paths(query->record, query->component_mask, now)
                            : ask_for(mad::kNodeSwitch, now),
                   query->id};
  }
}

void AcmPort::handle_sa_replies(Instant now) {
  while (auto reply = sa_->poll_reply()) {
    if (const auto query = queries_.find(reply->id); query != queries_.end()) {
      const std::uint32_t id = query->second;
      queries_.erase(query);
      handle_path_reply(*reply, id, now);
      continue;
    }
    if (table_.has_value() && table_->request == reply->id) {
      handle_table_reply(*reply, now);
      continue;
    }
    if (user_queries_.erase(reply->id) != 0) {
      sa_answers_.push_back({reply->id, path_of(*reply)});
      continue;
    }
    if (user_tables_.erase(reply->id) != 0) {
      table_answers_.push_back(std::move(*reply));
      continue;
    }
    const auto join = joins_.find(reply->id);
    if (join == joins_.end()) {
      continue;
    }
    const Gid mgid = join->second;
    joins_.erase(join);
    if (!reply->record) {
      join_error_ = reply->record.error();
      engine_->handle_join_failure(
          mgid, join_error_->is(Errc::Rejected) ? JoinFailure::Refused : JoinFailure::NoAnswer,
          now);
      continue;
    }
    const auto* record = std::get_if<mad::McMemberRecord>(&*reply->record);
    if (record == nullptr || record->mgid != mgid) {
      join_error_ =
          Error::make(Errc::Malformed, "%s: the SA's answer to a join is of another group",
                      info_.name().data());
      engine_->handle_join_failure(mgid, JoinFailure::Refused, now);
      continue;
    }
    engine_->handle_join_reply(*record, now);
  }
}

Result<mad::PathRecord> AcmPort::path_of(const umad::SaReply& reply) const {
  if (!reply.record) {
    return fail(reply.record.error());
  }
  if (const auto* record = std::get_if<mad::PathRecord>(&*reply.record)) {
    return *record;
  }
  return fail(Error::make(Errc::Malformed, "%s: the SA's answer to a path query is no path",
                          info_.name().data()));
}

void AcmPort::handle_path_reply(const umad::SaReply& reply, std::uint32_t query, Instant now) {
  const auto record = path_of(reply);
  if (record) {
    engine_->handle_path_reply(query, *record, now);
    return;
  }
  query_error_ = record.error();
  engine_->handle_path_failure(query, failure_of(*query_error_), now);
}

void AcmPort::handle_table_reply(const umad::SaReply& reply, Instant now) {
  const std::uint32_t query = table_->query;
  table_.reset();
  if (!reply.record) {
    engine_->handle_table_failure(query, failure_of(reply.record.error()), now);
  } else if (const auto* paths = std::get_if<std::vector<mad::PathRecord>>(&*reply.record)) {
    engine_->handle_path_table(query, *paths, now);
  } else if (const auto* nodes = std::get_if<std::vector<mad::NodeRecord>>(&*reply.record)) {
    engine_->handle_switches(query, port_guids(*nodes), now);
  } else {
    engine_->handle_table_failure(query, QueryFailure::Refused, now);
  }
}

void AcmPort::handle_notices(Instant now) {
  notices_->progress(now);
  if (!hears_notices_ && notices_->fd() >= 0) {
    // Without it they are read whenever something else is.
    hears_notices_ = watch(notices_->fd()).has_value();
  }
  while (const auto notice = notices_->poll_notice()) {
    const auto gid = notice->subject_gid();
    if (!gid.has_value()) {
      continue;
    }
    switch (notice->trap_number) {
      case mad::trap::kInService:
        engine_->port_came(*gid, now);
        break;
      case mad::trap::kOutOfService:
        engine_->port_left(*gid);
        break;
      case mad::trap::kGroupDeleted:
        if (engine_->is_group(*gid)) {
          engine_->rejoin(now);
        }
        break;
      default:
        break;
    }
  }
}

}  // namespace wireup::acm
