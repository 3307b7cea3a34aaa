// SPDX-License-Identifier: BSD-3-Clause
// One turn of progress: inputs to the engine, its commands to the world.
#include <poll.h>

#include <chrono>
#include <iterator>
#include <span>
#include <utility>
#include <variant>

#include "base/clock.hpp"
#include "conn/driver/driver.hpp"
#include "pmix/engine/card.hpp"

namespace wireup::conn {
namespace {

/// How often a caller that spins pays for a look at the descriptors.
constexpr Duration kLookInterval = std::chrono::microseconds(200);
/// A caller that spins is not made to ask for the next completion event while datagrams keep
/// coming: each event costs both ends system calls. Meanwhile the descriptor stays readable.
constexpr Duration kLinger = std::chrono::milliseconds(1);
/// Bounds of one turn, so that a flood cannot hold it.
constexpr int kRounds = 16;
constexpr std::size_t kDatagramsPerRound = 64;

Result<PeerCard> to_peer_card(const PeerId& peer, const Result<std::vector<std::uint8_t>>& bytes) {
  if (!bytes) {
    return fail(bytes.error());
  }
  const auto card = pmix::parse_card(*bytes);
  if (!card) {
    return fail(card.error());
  }
  if (card->owner != peer) {
    return fail(Error::make(Errc::Malformed, "the card of rank %u says that it is rank %u's",
                            peer.rank, card->owner.rank));
  }
  const pmix::CardPort& port = card->ports.front();
  return PeerCard{card->incarnation, port.gid, port.lid, port.pkey, port.cm_qpn};
}

}  // namespace

Result<> Driver::turn(Sleep sleep) {
  if (broken_.has_value()) {
    return fail(*broken_);
  }
  const Instant now = monotonic_now();
  bool idle = true;
  for (int round = 0; round < kRounds; ++round) {
    auto busy = take_datagrams(now);
    if (!busy) {
      broken_ = busy.error();
      waker_.signal();
      return fail(*broken_);
    }
    *busy |= is_waiting_for_cards() && take_cards(now);
    *busy |= !path_requests_.empty() && take_paths(now);
    if (const auto due = engine_->poll_timeout(); due.has_value() && *due <= now) {
      engine_->handle_timeout(now);
    }
    pump(now);
    if (!*busy) {
      break;
    }
    idle = false;
  }
  if (sleep == Sleep::Next || now - last_look_ >= kLookInterval) {
    auto busy = look_around(sleep, now);
    if (!busy) {
      broken_ = busy.error();
      waker_.signal();
      return fail(*broken_);
    }
    idle = idle && !*busy;
  }
  if (idle && engine_->pending_count() == 0) {
    qps_->make_spare();
  }
  const bool others_wait =
      !path_requests_.empty() || is_waiting_for_cards() || !resolutions_->is_empty();
  waker_.wake_at(others_wait || sleep == Sleep::Next ? next_deadline() : engine_->poll_timeout(),
                 now);
  return {};
}

/// Consumes the readiness of the descriptors, so that the caller may sleep on them afterwards.
/// Costs one system call when there is none.
Result<bool> Driver::look_around(Sleep sleep, Instant now) {
  last_look_ = now;
  enum Source : std::size_t { kCarrier, kPaths, kExchange };
  pollfd sources[] = {{carrier_->fd(), POLLIN, 0},
                      {parts_.paths->fd(), POLLIN, 0},
                      {parts_.exchange->fd(), POLLIN, 0}};
  ::poll(sources, std::size(sources), 0);
  const auto is_due = [now](std::optional<Instant> at) { return at.has_value() && *at <= now; };
  bool busy = false;
  if (sources[kCarrier].revents != 0 && (sleep == Sleep::Next || now - last_datagram_ >= kLinger)) {
    if (auto done = carrier_->arm(); !done) {
      return fail(done.error());
    }
    // What came before arm() is not announced again.
    auto taken = take_datagrams(now);
    if (!taken) {
      return taken;
    }
    busy = *taken;
  }
  const bool paths_due = sources[kPaths].revents != 0 || is_due(parts_.paths->poll_timeout());
  if (paths_due) {
    parts_.paths->progress(now);
  }
  follow_paths(now);
  if (paths_due) {
    busy |= take_paths(now);
  }
  if (sources[kExchange].revents != 0 || is_due(parts_.exchange->poll_timeout())) {
    busy |= take_cards(now);
  }
  pump(now);
  return busy;
}

Result<bool> Driver::take_datagrams(Instant now) {
  const auto taken = carrier_->poll(
      [this, now](const cm::Address& from, std::span<const std::uint8_t> bytes) {
        if (capture_.has_value()) {
          capture_->received(from, bytes);
        }
        engine_->handle_mad(from, bytes, now);
      },
      kDatagramsPerRound);
  if (!taken) {
    return fail(taken.error());
  }
  if (*taken > 0) {
    last_datagram_ = now;
  }
  return *taken > 0;
}

bool Driver::take_cards(Instant now) {
  bool any = false;
  while (auto result = parts_.exchange->poll(now)) {
    const PeerId peer = job_.id_of(result->peer);
    if (card_requests_.erase(peer) != 0) {
      hand_card(peer, of_our_carrier(peer, to_peer_card(peer, result->card)), now);
    }
    take_card_for_path(peer, result->card, now);
    any = true;
  }
  return any;
}

Result<PeerCard> Driver::of_our_carrier(const PeerId& peer, const Result<PeerCard>& card) const {
  if (!card) {
    return card;
  }
  const auto carrier_at = [](Qpn qpn) {
    return cm::carrier_name(qpn == Qpn(1) ? cm::CarrierKind::Gsi : cm::CarrierKind::Ud);
  };
  const auto theirs = carrier_at(card->cm_qpn);
  const auto ours = carrier_at(carrier_->qpn());
  if (theirs != ours) {
    return fail(Error::make(Errc::Unsupported,
                            "rank %u takes CM messages over %s, this process sends them over %s: "
                            "give WIREUP_CM_CARRIER one value on all hosts of the job",
                            peer.rank, theirs.data(), ours.data()));
  }
  return card;
}

void Driver::hand_card(const PeerId& peer, const Result<PeerCard>& card, Instant now) {
  engine_->handle_card(peer, card, now);
  resolutions_->handle_card(peer, card ? Result<Gid>(card->gid) : fail(card.error()));
}

void Driver::pump(Instant now) {
  for (;;) {
    bool any = false;
    while (auto command = engine_->poll_command()) {
      std::visit([this, now](const auto& c) { run(c, now); }, *command);
      any = true;
    }
    while (auto command = resolutions_->poll_command()) {
      std::visit([this, now](const auto& c) { run(c, now); }, *command);
      any = true;
    }
    while (auto transmit = engine_->poll_transmit()) {
      if (capture_.has_value()) {
        capture_->sent(*transmit);
      }
      // What cannot be sent now is repeated by the engine's timers like what was lost.
      static_cast<void>(carrier_->send(*transmit));
      any = true;
    }
    while (auto event = engine_->poll_event()) {
      deliver(*event);
      any = true;
    }
    while (auto event = resolutions_->poll_event()) {
      std::visit([this](const auto& e) { deliver(UserEvent{e, nullptr}); }, *event);
      any = true;
    }
    if (!any) {
      return;
    }
  }
}

void Driver::run(const RequestCard& command, Instant now) {
  ++counters_.cards_requested;
  const auto asked =
      parts_.exchange->request({.nspace = {}, .rank = command.peer.rank}, command.deadline, now);
  if (!asked) {
    hand_card(command.peer, fail(asked.error()), now);
    return;
  }
  card_requests_.insert(command.peer);
  take_cards(now);
}

void Driver::run(const CreateQp& command, Instant now) {
  engine_->handle_qp_created(command.id, qps_->create(command.id), now);
}

void Driver::run(const ConnectQp& command, Instant now) {
  engine_->handle_qp_connected(command.id, qps_->connect(command.id, command.attributes), now);
}

void Driver::run(const BreakQp& command, Instant /*now*/) {
  qps_->break_off(command.id);
}

void Driver::run(const ReleaseQp& command, Instant /*now*/) {
  qps_->release(command.id);
}

void Driver::deliver(const Event& event) {
  UserEvent result;
  std::visit([&result](const auto& e) { result.event = e; }, event);
  if (const auto* connected = std::get_if<Connected>(&event); connected != nullptr) {
    qps_->lend(connected->id);
    result.qp = qps_->find(connected->id);
    result.card_path_reason = take_card_path_reason(connected->peer);
  } else if (const auto* end = std::get_if<Disconnected>(&event); end != nullptr) {
    result.qp = qps_->find(end->id);
  } else if (const auto* failed = std::get_if<Failed>(&event); failed != nullptr) {
    result.card_path_reason = take_card_path_reason(failed->peer);
  }
  deliver(result);
}

void Driver::deliver(const UserEvent& event) {
  // Who drives the context itself takes the events before it sleeps, and is told by next_timeout();
  // the signal, two system calls, is for those who sleep while another makes progress.
  if (events_.empty() && (options_.helper_thread || sleepers_ > 0)) {
    waker_.signal();
    is_signalled_ = true;
  }
  events_.push_back(event);
}

std::optional<Instant> Driver::next_deadline() const {
  std::optional<Instant> next = engine_->poll_timeout();
  for (const auto& other : {parts_.paths->poll_timeout(), parts_.exchange->poll_timeout()}) {
    if (other.has_value() && (!next.has_value() || *other < *next)) {
      next = other;
    }
  }
  return next;
}

}  // namespace wireup::conn
