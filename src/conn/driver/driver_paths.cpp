// SPDX-License-Identifier: BSD-3-Clause
// Paths, for connections and for themselves: from the node's cache, its resolver, and as the last
// resort the peer's card.
#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "conn/driver/card_path.hpp"
#include "conn/driver/driver.hpp"

namespace wireup::conn {
namespace {

/// A peer that asked waits for our answer: what its patience is, it does not say.
constexpr Duration kPassivePatience = std::chrono::seconds(10);

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

void Driver::run(const RequestPath& command, Instant now) {
  find_path({key_of(command.dgid, {pkey_, std::nullopt, ServiceId{}}), std::nullopt}, command.id,
            command.deadline, now);
}

/// One that asks again has only moved its deadline.
void Driver::find_path(const acm::RankQuestion& question, PathAsker asker, Instant deadline,
                       Instant now) {
  const PathRequest request{asker, parts_.paths->version(question.key.pkey)};
  const auto known =
      question.address.has_value() ? std::nullopt : parts_.paths->lookup(question.key);
  if (known.has_value()) {
    ++counters_.paths_cached;
    hand_path(request, question.key.dgid, *known, now);
    return;
  }
  ++counters_.paths_requested;
  if (auto asked = parts_.paths->request(question, resolver_deadline(asker, deadline, now));
      !asked) {
    hand_path(request, question.key.dgid, fail(asked.error()), now);
    return;
  }
  const auto [first, last] = path_requests_.equal_range(question);
  if (std::none_of(first, last, [&](const auto& entry) { return entry.second.asker == asker; })) {
    path_requests_.emplace(question, request);
  }
}

/// The resolver gets half of the time where a card can help after it: the rest is for the
/// handshake.
Instant Driver::resolver_deadline(const PathAsker& asker, Instant deadline, Instant now) const {
  const auto question = card_question(asker);
  if (!question.has_value() || deadline <= now) {
    return deadline;
  }
  const Duration half = (deadline - now) / 2;
  return now + (question->is_passive ? std::min(half, kPassivePatience) : half);
}

/// What a card would be asked for; nothing where it cannot help.
std::optional<Driver::CardQuestion> Driver::card_question(const PathAsker& asker) const {
  if (!options_.card_paths) {
    return std::nullopt;
  }
  if (const auto* id = std::get_if<ConnectionId>(&asker)) {
    const Connection* connection = engine_->find(*id);
    return connection != nullptr
               ? std::optional(CardQuestion{connection->peer, connection->incarnation,
                                            connection->deadline, pkey_,
                                            connection->role == Role::Passive})
               : std::nullopt;
  }
  const Resolution* resolution = resolutions_->find(std::get<PathId>(asker));
  if (resolution == nullptr) {
    return std::nullopt;
  }
  const auto* peer = std::get_if<PeerId>(&resolution->target);
  // A card's path has SL 0.
  return peer != nullptr && resolution->wish.sl.value_or(Sl()) == Sl()
             ? std::optional(
                   CardQuestion{*peer, 0, resolution->deadline, resolution->wish.pkey, false})
             : std::nullopt;
}

bool Driver::take_paths(Instant now) {
  bool any = false;
  while (auto answer = parts_.paths->poll_answer()) {
    const auto [first, last] = path_requests_.equal_range(answer->question);
    std::vector<PathRequest> waiting;
    for (auto entry = first; entry != last; ++entry) {
      waiting.push_back(entry->second);
    }
    path_requests_.erase(first, last);
    for (const PathRequest& request : waiting) {
      hand_path(request, answer->question.key.dgid, answer->path, now);
    }
    any = true;
  }
  return any;
}

/// To whoever asked; a failure only once the peer's card has not helped either.
void Driver::hand_path(const PathRequest& request, const Gid& dgid,
                       const Result<acm::ResolvedPath>& path, Instant now) {
  const auto question = card_question(request.asker);
  if (path && question.has_value() && std::holds_alternative<ConnectionId>(request.asker)) {
    card_path_reasons_.erase(question->peer);
  }
  // A card that is here already comes at once.
  const bool may_help = !path && question.has_value() && may_be_helped_by_card(path.error());
  if (!may_help || !parts_.exchange->request({.nspace = {}, .rank = question->peer.rank},
                                             question->deadline, now)) {
    give_path(request, path, now);
    return;
  }
  card_path_requests_.emplace(question->peer, CardPathRequest{request, dgid, path.error()});
  take_cards(now);
}

void Driver::give_path(const PathRequest& request, const Result<acm::ResolvedPath>& path,
                       Instant now) {
  const auto origin = static_cast<std::uint8_t>(path ? path->origin : acm::PathOrigin{});
  if (const auto* connection = std::get_if<ConnectionId>(&request.asker)) {
    engine_->handle_path(*connection,
                         path ? Result<Path>(Path{path->record, origin}) : fail(path.error()), now);
    return;
  }
  const PathId id = std::get<PathId>(request.asker);
  if (!path) {
    resolutions_->handle_path(id, fail(path.error()));
    return;
  }
  // The path's own generation, where it has one, is that of the moment when it was given.
  const acm::CacheVersion& asked = request.version;
  const std::uint32_t generation = path->generation != 0 ? path->generation : asked.generation;
  resolutions_->handle_path(id, KnownPath{path->record, origin, generation,
                                          to_path_version(asked, generation), now - path->age});
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
    const auto question = card_question(request.request.asker);
    if (!question.has_value()) {
      continue;  // it has ended meanwhile
    }
    const auto port = bytes ? find_port(peer, question->incarnation, request.dgid, *bytes)
                            : Result<pmix::CardPort>(fail(bytes.error()));
    const auto record = port ? path_from_card(parts_.port.info, question->pkey, *port)
                             : Result<mad::PathRecord>(fail(port.error()));
    if (!record) {
      // Why the card does not help either matters less than why it was needed.
      give_path(request.request, fail(request.why), now);
      continue;
    }
    ++counters_.paths_from_cards;
    if (std::holds_alternative<ConnectionId>(request.request.asker)) {
      card_path_reasons_.insert_or_assign(peer, request.why);
    }
    give_path(request.request,
              acm::ResolvedPath{*record, acm::PathOrigin::Card, 0, Duration::zero()}, now);
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
