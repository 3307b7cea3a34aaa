// SPDX-License-Identifier: BSD-3-Clause
// The path of a connection: the node's cache, its resolver, and as the last resort the peer's card.
#include <algorithm>
#include <utility>
#include <vector>

#include "conn/driver/card_path.hpp"
#include "conn/driver/driver.hpp"

namespace wireup::conn {
namespace {

/// A peer that asked waits for our answer: what its patience is, it does not say.
constexpr Duration kPassivePatience = std::chrono::seconds(10);

Path to_path(const acm::ResolvedPath& path) noexcept {
  return {path.record, static_cast<std::uint8_t>(path.origin)};
}

/// The port of this GID on the card of `peer`, when it is the card of that process.
Result<pmix::CardPort> find_port(const PeerId& peer, std::uint64_t incarnation, const Gid& gid,
                                 const std::vector<std::uint8_t>& bytes) {
  const auto card = pmix::parse_card(bytes);
  if (!card) {
    return fail(card.error());
  }
  const auto port =
      std::find_if(card->ports.begin(), card->ports.end(),
                   [&gid](const pmix::CardPort& candidate) { return candidate.gid == gid; });
  if (card->owner != peer || (incarnation != 0 && card->incarnation != incarnation) ||
      port == card->ports.end()) {
    return fail(
        Error::make(Errc::Stale, "the card of rank %u is of another process or port", peer.rank));
  }
  return *port;
}

}  // namespace

/// The resolver gets half of the time where a card can help after it: the rest is for the
/// handshake.
Instant Driver::path_deadline(const RequestPath& command, Instant now) const {
  if (!options_.card_paths || command.deadline <= now) {
    return command.deadline;
  }
  Duration patience = (command.deadline - now) / 2;
  const Connection* connection = engine_->find(command.id);
  if (connection != nullptr && connection->role == Role::Passive) {
    patience = std::min(patience, kPassivePatience);
  }
  return now + patience;
}

void Driver::run(const RequestPath& command, Instant now) {
  const acm::PathKey key{parts_.port.info.gid, command.dgid, pkey_, std::nullopt, ServiceId{}};
  if (const auto known = parts_.paths->lookup(key)) {
    ++counters_.paths_cached;
    take_path(command.id, key, *known, now);
    return;
  }
  ++counters_.paths_requested;
  if (auto asked = parts_.paths->request(key, path_deadline(command, now)); !asked) {
    take_path(command.id, key, fail(asked.error()), now);
    return;
  }
  path_requests_.emplace(key, command.id);
}

bool Driver::take_paths(Instant now) {
  bool any = false;
  while (auto answer = parts_.paths->poll_answer()) {
    const auto [first, last] = path_requests_.equal_range(answer->key);
    std::vector<ConnectionId> waiting;
    for (auto entry = first; entry != last; ++entry) {
      waiting.push_back(entry->second);
    }
    path_requests_.erase(first, last);
    for (const ConnectionId id : waiting) {
      take_path(id, answer->key, answer->path, now);
    }
    any = true;
  }
  return any;
}

void Driver::take_path(ConnectionId id, const acm::PathKey& key,
                       const Result<acm::ResolvedPath>& path, Instant now) {
  const Connection* connection = engine_->find(id);
  if (connection == nullptr) {
    return;
  }
  const PeerId peer = connection->peer;
  if (path) {
    card_path_reasons_.erase(peer);
    engine_->handle_path(id, to_path(*path), now);
    return;
  }
  // One that is here already comes at once.
  const bool may_help = options_.card_paths && may_be_helped_by_card(path.error());
  if (!may_help ||
      !parts_.exchange->request({.nspace = {}, .rank = peer.rank}, connection->deadline, now)) {
    engine_->handle_path(id, fail(path.error()), now);
    return;
  }
  card_path_requests_.emplace(peer, CardPathRequest{id, key.dgid, path.error()});
  take_cards(now);
}

void Driver::take_card_for_path(const PeerId& peer, const Result<std::vector<std::uint8_t>>& bytes,
                                Instant now) {
  const auto [first, last] = card_path_requests_.equal_range(peer);
  std::vector<CardPathRequest> waiting;
  for (auto entry = first; entry != last; ++entry) {
    waiting.push_back(entry->second);
  }
  card_path_requests_.erase(first, last);
  for (const CardPathRequest& request : waiting) {
    const Connection* connection = engine_->find(request.id);
    if (connection == nullptr) {
      continue;
    }
    const auto port = bytes ? find_port(peer, connection->incarnation, request.dgid, *bytes)
                            : Result<pmix::CardPort>(fail(bytes.error()));
    const auto record = port ? path_from_card(parts_.port.info, pkey_, *port)
                             : Result<mad::PathRecord>(fail(port.error()));
    if (!record) {
      // Why the card does not help either matters less than why it was needed.
      engine_->handle_path(request.id, fail(request.why), now);
      continue;
    }
    ++counters_.paths_from_cards;
    card_path_reasons_.insert_or_assign(peer, request.why);
    engine_->handle_path(request.id,
                         Path{*record, static_cast<std::uint8_t>(acm::PathOrigin::Card)}, now);
  }
}

std::optional<Error> Driver::take_card_path_reason(const PeerId& peer) {
  const auto at = card_path_reasons_.find(peer);
  if (at == card_path_reasons_.end()) {
    return std::nullopt;
  }
  const Error reason = at->second;
  card_path_reasons_.erase(at);
  return reason;
}

}  // namespace wireup::conn
