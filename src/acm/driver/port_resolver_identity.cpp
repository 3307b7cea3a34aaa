// SPDX-License-Identifier: BSD-3-Clause
// Addresses of ports that do not answer ACM: which port it is, by who else may know, and its path
// from the SA.
#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "acm/driver/port_resolver.hpp"
#include "acm/driver/sa_question.hpp"
#include "acm/identity/subnet_tables.hpp"

namespace wireup::acm {
namespace {

/// How long a port that ran no ACM is believed to run none. Its path is asked for each time.
constexpr Duration kSilentLife = std::chrono::minutes(5);
constexpr std::size_t kMaxSilent = 65536;
/// News that nobody takes.
constexpr std::size_t kMaxNews = 64;

}  // namespace

/// ACM is silent, or is not to be asked yet.
void PortResolver::identify(const Ask& asked, Instant now) {
  if (asked.is_looked_for) {
    finish(asked, fail(asked.silence), now);
    return;
  }
  Ask ask = asked;
  ask.is_looked_for = true;
  if (ask.address.as_gid().has_value() || ask.address.as_lid().has_value()) {
    ask_route(ask, ask.address, now);
    return;
  }
  if (const auto gid = preloads_.gid(ask.address)) {
    ask.identified_by = IdentitySource::HostsFile;
    ask_route(ask, mad::AcmAddress::gid(*gid), now);
    return;
  }
  unidentified_[ask.address].push_back(ask);
  identity_.ask(ask.address, now);
}

/// The tables of the subnet that identities are looked for in.
void PortResolver::handle_tables(Instant now) {
  while (const auto table = identity_.poll_table()) {
    if (port_ == nullptr) {
      take_table(*table, fail(fault_), now);
    } else {
      const bool is_nodes = *table == EndpointIdentity::Table::Nodes;
      tables_.emplace(is_nodes ? port_->ask_nodes(now) : port_->ask_services(now), *table);
    }
  }
  while (auto answer = port_ == nullptr ? std::nullopt : port_->poll_table_answer()) {
    if (const auto table = tables_.extract(answer->id)) {
      take_table(table.mapped(), answer->record, now);
    }
  }
}

void PortResolver::take_table(EndpointIdentity::Table table, const Result<umad::SaRecord>& answer,
                              Instant now) {
  const Error other =
      Error::make(Errc::Malformed, "%s: the SA's table is of another kind", info().name().data());
  if (table == EndpointIdentity::Table::Nodes) {
    const auto* nodes = answer ? std::get_if<std::vector<mad::NodeRecord>>(&*answer) : nullptr;
    if (nodes != nullptr) {
      identity_.handle_nodes(described_ports(*nodes, info().gid.prefix()), now);
    } else {
      identity_.handle_nodes(fail(answer ? other : answer.error()), now);
    }
    return;
  }
  const auto* services = answer ? std::get_if<std::vector<mad::ServiceRecord>>(&*answer) : nullptr;
  if (services != nullptr) {
    identity_.handle_services(registered_services(*services), now);
  } else {
    identity_.handle_services(fail(answer ? other : answer.error()), now);
  }
}

void PortResolver::handle_identity(Instant now) {
  handle_tables(now);
  while (const auto answer = identity_.poll_answer()) {
    const auto at = unidentified_.find(answer->address);
    if (at == unidentified_.end()) {
      continue;
    }
    const std::vector<Ask> asks = std::move(at->second);
    unidentified_.erase(at);
    if (!answer->identity) {
      // Of several ports one has to be named; else why ACM did not do tells more.
      const bool is_ambiguous = answer->identity.error().is(Errc::InvalidArgument);
      for (const Ask& ask : asks) {
        if (options_.identify_first && !is_ambiguous) {
          ask_acm(ask, ask.deadline, now);
        } else {
          finish(ask, fail(is_ambiguous ? answer->identity.error() : ask.silence), now);
        }
      }
      continue;
    }
    for (Ask ask : asks) {
      ask.identified_by = answer->identity->source;
      ask_route(ask, mad::AcmAddress::gid(answer->identity->gid), now);
    }
  }
}

std::optional<PortResolver::Identified> PortResolver::poll_identified() {
  if (news_.empty()) {
    return std::nullopt;
  }
  const Identified identified = news_.front();
  news_.pop_front();
  return identified;
}

/// One query however many ask.
void PortResolver::ask_route(const Ask& ask, const mad::AcmAddress& target, Instant now) {
  if (port_ == nullptr) {
    const auto* waiter = std::get_if<Waiter>(&ask.who);
    if (const auto gid = target.as_gid(); waiter != nullptr && gid.has_value()) {
      PathKey key = waiter->question.key;
      key.dgid = *gid;
      ask_borrowed(ask, key, ask.deadline, now);
    } else {
      ask_borrowed(ask, target, ask.deadline, now);
    }
    return;
  }
  std::vector<Ask>& waiting = routed_[target];
  waiting.push_back(ask);
  if (waiting.size() > 1) {
    return;
  }
  mad::PathRecord wanted;
  wanted.dgid = target.as_gid().value_or(Gid());
  wanted.dlid = target.as_lid().value_or(Lid());
  const SaQuestion question = question_for_sa(wanted, info().gid, pkey(), false);
  route_queries_.emplace(port_->ask_sa(question.record, question.mask, now), target);
}

void PortResolver::take_route(const mad::AcmAddress& target, const Result<ResolvedPath>& path,
                              Instant now) {
  const auto at = routed_.find(target);
  if (at == routed_.end()) {
    return;
  }
  const std::vector<Ask> asks = std::move(at->second);
  routed_.erase(at);
  if (path && path->record.sgid == info().gid) {
    cache_->store(plain_key(path->record.dgid), path->record, path->origin, now);
  }
  for (const Ask& ask : asks) {
    if (path) {
      // Nothing was heard of the port, which is another thing than that nobody could ask it.
      if (ask.silence.is(Errc::PathUnresolved)) {
        remember_silent(ask, target, path->record.dgid, now);
      }
      finish(ask, path, now);
    } else {
      // Where nobody had to say which port it is, the SA's refusal of a GID that does not exist
      // tells less than the silence.
      const bool is_named = ask.identified_by != IdentitySource::Itself;
      finish(ask, fail(is_named ? path.error() : ask.silence), now);
    }
  }
}

bool PortResolver::ask_silent(const Ask& ask, Instant now) {
  const auto at = silent_.find(ask.address);
  if (at == silent_.end()) {
    return false;
  }
  // A port that was silent while its node, or its subnet manager, was starting speaks later.
  const bool is_heard = port_ != nullptr && (port_->engine().path(ask.address).has_value() ||
                                             port_->engine().path(at->second.target).has_value());
  if (is_heard || at->second.until <= now) {
    silent_.erase(at);
    return false;
  }
  Ask identified = ask;
  identified.identified_by = at->second.identified_by;
  ask_route(identified, at->second.target, now);
  return true;
}

void PortResolver::remember_silent(const Ask& ask, const mad::AcmAddress& target, const Gid& gid,
                                   Instant now) {
  if (silent_.size() >= kMaxSilent) {
    silent_.clear();
  }
  const Silent silent{target, ask.identified_by, now + kSilentLife};
  const bool is_new = silent_.insert_or_assign(ask.address, silent).second;
  if (is_new && ask.identified_by != IdentitySource::Itself && news_.size() < kMaxNews) {
    news_.push_back({ask.address, {gid, ask.identified_by}});
  }
}

void PortResolver::forget_silent(const Gid& gid) {
  std::erase_if(
      silent_, [&](const auto& entry) { return entry.second.target == mad::AcmAddress::gid(gid); });
}

/// What takes the SA too long.
void PortResolver::expire_asks(Instant now) {
  std::vector<Ask> expired;
  for (auto* waiting : {&unidentified_, &routed_}) {
    for (auto at = waiting->begin(); at != waiting->end();) {
      std::erase_if(at->second, [&](const Ask& ask) {
        if (ask.deadline > now) {
          return false;
        }
        expired.push_back(ask);
        return true;
      });
      at = at->second.empty() ? waiting->erase(at) : std::next(at);
    }
  }
  for (const Ask& ask : expired) {
    finish(ask, fail(ask.silence), now);
  }
}

}  // namespace wireup::acm
