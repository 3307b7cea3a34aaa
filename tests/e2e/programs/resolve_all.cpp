// SPDX-License-Identifier: BSD-3-Clause
//
// resolve_all DIR [lid | fail]: a PMIx-only program. Every rank resolves all ranks without a
// connection, compares each path record with what the ports say of themselves, and sends a datagram
// along each path from a UD queue pair of its own. DIR is shared by all hosts.
//
// lid: then waits until somebody has given a port another LID, and does it all again; a path that
// leads to where a port was before is reported as failed. fail: then rank 0 says that its path to
// the last rank failed, and the other ranks of its host are told.
//
// Each rank prints a line of JSON for each round of datagrams, and writes DIR/stage.RANK when the
// first is over.
#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <set>
#include <sstream>

#include "e2e/programs/datagrams.hpp"
#include "e2e/programs/notes.hpp"
#include "e2e/programs/report.hpp"

namespace {

using e2e::kMillisecond;
using e2e::kSecond;

constexpr double kLimitMs = 90'000;
constexpr double kResendMs = 500;

std::string name_of(const char* what, std::uint32_t rank) {
  return std::string(what) + "." + std::to_string(rank);
}

/// Where a rank can be reached, as its own port says.
struct Place {
  std::string gid;
  unsigned lid = 0;
  std::uint32_t qpn = 0;
  std::string host;
};

std::string hex(const std::uint8_t* bytes, std::size_t size) {
  std::string text;
  std::array<char, 3> digits{};
  for (std::size_t i = 0; i < size; ++i) {
    std::snprintf(digits.data(), digits.size(), "%02x", bytes[i]);
    text += digits.data();
  }
  return text;
}

class Rank {
 public:
  Rank(wireup_context_t* context, std::string directory)
      : context_(context),
        notes_(std::move(directory)),
        rank_(wireup_rank(context)),
        size_(wireup_size(context)) {}

  void open_queue_pair() {
    resolve(rank_);
    await([this] { return path(rank_).state == WIREUP_PATH_STATE_RESOLVED; }, "the own path");
    datagrams_.emplace(context_, path(rank_), 4 * size_);
  }

  /// Tells the others where this rank is.
  void publish() {
    const wireup_path_t own = path(rank_);
    ibv_port_attr port{};
    ibv_gid gid{};
    if (ibv_query_port(wireup_context_verbs(context_), own.port, &port) != 0 ||
        ibv_query_gid(wireup_context_verbs(context_), own.port, own.sgid_index, &gid) != 0) {
      fail("the port cannot be queried");
    }
    std::array<char, 256> host{};
    gethostname(host.data(), host.size() - 1);
    std::ostringstream text;
    text << hex(gid.raw, 16) << ' ' << port.lid << ' ' << datagrams_->qpn() << ' ' << host.data();
    notes_.write(name_of("place", rank_), text.str());
  }

  /// Resolves every rank and sends it `round` and this rank, until every rank has heard from all.
  void exchange(std::uint32_t round) {
    const std::string all_heard = "heard" + std::to_string(round);
    immediate_ = 0;
    for (std::uint32_t peer = 0; peer < size_; ++peer) {
      resolve(peer);
    }
    std::set<std::uint32_t> sent;
    std::set<std::uint32_t> heard;
    e2e::Stopwatch since_sent;
    await(
        [&] {
          if (since_sent.milliseconds() > kResendMs) {
            // Datagrams may be lost, as while a subnet manager changes the fabric.
            sent.clear();
            since_sent = {};
          }
          for (std::uint32_t peer = 0; peer < size_; ++peer) {
            if (!sent.contains(peer) && is_true(peer)) {
              datagrams_->send(path(peer), place(peer)->qpn, round << 16U | rank_);
              sent.insert(peer);
            }
          }
          const bool knew = heard.size() == size_;
          for (const std::uint32_t value : datagrams_->take()) {
            if (value >> 16U == round) {
              heard.insert(value & 0xFFFFU);
            }
          }
          if (heard.size() == size_ && !knew) {
            finish(all_heard.c_str());
          }
          return heard.size() == size_ && have_all(all_heard.c_str());
        },
        "datagrams of all ranks");
    report(round);
    reasons_.clear();
    lids_.clear();
    for (std::uint32_t peer = 0; peer < size_; ++peer) {
      lids_.push_back(place(peer)->lid);
    }
  }

  /// The port of the last rank by its addresses, and by rank with an SL that is a demand.
  void resolve_by_address() {
    const std::uint32_t last = size_ - 1;
    const Place to = *place(last);
    std::string gid = "gid:";
    for (std::size_t i = 0; i < to.gid.size(); i += 4) {
      gid += (i == 0 ? "" : ":") + to.gid.substr(i, 4);
    }
    for (const std::string& address : {gid, "lid:" + std::to_string(to.lid)}) {
      wireup_path_t path{};
      path.struct_size = sizeof path;
      e2e::require(wireup_resolve_address(context_, address.c_str(), nullptr, 20 * kSecond, &path),
                   address.c_str());
      expect(path, WIREUP_NO_RANK, to, address.c_str());
    }
    wireup_resolve_options_t options{};
    options.struct_size = sizeof options;
    options.has_sl = 1;
    options.sl = 3;
    const wireup_peer_t peer{nullptr, last};
    wireup_path_t path{};
    path.struct_size = sizeof path;
    e2e::require(wireup_resolve(context_, &peer, &options, 20 * kSecond, &path), "SL 3");
    if (path.id == ids_.at(last)) {
      fail("a demand has the id of what demands nothing");
    }
    path = expect(path, last, to, "SL 3");
    if (path.sl != (place(rank_)->gid == to.gid ? path.sl : 3)) {
      fail("SL 3 was asked for");
    }
  }

  /// Waits until a port has another LID than in the round before. The ranks behind that port are
  /// told that all of their paths are void.
  void await_move() {
    await(
        [this] {
          for (std::uint32_t peer = 0; peer < size_; ++peer) {
            if (place(peer)->lid != lids_.at(peer)) {
              return true;
            }
          }
          return false;
        },
        "another LID");
    if (place(rank_)->lid == lids_.at(rank_)) {
      return;
    }
    await(
        [this] {
          for (std::uint32_t peer = 0; peer < size_; ++peer) {
            if (peer != rank_ && !reasons_.contains(peer)) {
              return false;
            }
          }
          return true;
        },
        "the change of all paths");
    for (const auto& [peer, reason] : reasons_) {
      if (reason != WIREUP_REASON_FABRIC_CHANGED) {
        fail(wireup_reason_str(reason));
      }
    }
  }

  void fail_one() {
    const std::uint32_t victim = size_ - 1;
    const std::string host = place(0)->host;
    if (rank_ == 0) {
      e2e::require(wireup_path_failed(context_, ids_.at(victim)), "path_failed");
    }
    if (place(rank_)->host == host) {
      await([&] { return reasons_.contains(victim); }, "news of the failed path");
      const auto wanted = rank_ == 0 ? WIREUP_REASON_PATH_FAILED : WIREUP_REASON_PATH_REPLACED;
      if (reasons_.at(victim) != wanted || path(victim).state != WIREUP_PATH_STATE_VOID) {
        fail(wireup_reason_str(reasons_.at(victim)));
      }
      finish("told");
    }
    if (rank_ == 0) {
      // Nobody asks for it again before all have been told that it failed.
      for (std::uint32_t peer = 0; peer < size_; ++peer) {
        if (place(peer)->host == host) {
          await([&] { return notes_.read(name_of("told", peer)).has_value(); }, "the neighbours");
        }
      }
      const wireup_path_id_t before = ids_.at(victim);
      resolve(victim);
      await([&] { return is_true(victim); }, "the path again");
      if (ids_.at(victim) != before) {
        fail("the path has another id than before");
      }
      e2e::require(wireup_unresolve(context_, before), "unresolve");
      if (wireup_unresolve(context_, before) != WIREUP_ERR_NOT_FOUND) {
        fail("a path that was given up is still there");
      }
      finish("again");
    }
    await([this] { return notes_.read(name_of("again", 0)).has_value(); }, "rank 0");
  }

  void finish(const char* stage) { notes_.write(name_of(stage, rank_), ""); }
  void await_all(const char* stage) {
    await([&] { return have_all(stage); }, stage);
  }
  /// From now on a path that has changed stays so.
  void leave_what_changes() { resolves_again_ = false; }
  void close_queue_pair() { datagrams_.reset(); }

 private:
  [[noreturn]] void fail(const char* what) const {
    std::fprintf(stderr, "rank %u: %s\n", rank_, what);
    std::exit(1);
  }

  void resolve(std::uint32_t peer) {
    const wireup_peer_t target{nullptr, peer};
    wireup_path_t path{};
    path.struct_size = sizeof path;
    e2e::require(wireup_resolve(context_, &target, nullptr, 20 * kSecond, &path), "resolve");
    ids_[peer] = path.id;
    immediate_ += path.state == WIREUP_PATH_STATE_RESOLVED ? 1 : 0;
  }

  wireup_path_t path(std::uint32_t peer) const { return path_by_id(ids_.at(peer)); }
  wireup_path_t path_by_id(wireup_path_id_t id) const {
    wireup_path_t path{};
    path.struct_size = sizeof path;
    e2e::require(wireup_path_info(context_, id, &path), "path_info");
    return path;
  }

  /// Waits for a path that is asked for, which must lead there, and gives it up again.
  wireup_path_t expect(wireup_path_t path, std::uint32_t rank, const Place& to, const char* what) {
    others_.insert(path.id);
    await(
        [&] {
          path = path_by_id(path.id);
          return path.state == WIREUP_PATH_STATE_RESOLVED;
        },
        what);
    if (path.rank != rank || path.dlid != to.lid || hex(path.dgid, 16) != to.gid) {
      fail(what);
    }
    e2e::require(wireup_unresolve(context_, path.id), "unresolve");
    others_.erase(path.id);
    return path;
  }

  std::optional<Place> place(std::uint32_t peer) const {
    const auto text = notes_.read(name_of("place", peer));
    Place place;
    if (!text.has_value() ||
        !(std::istringstream(*text) >> place.gid >> place.lid >> place.qpn >> place.host)) {
      return std::nullopt;
    }
    return place;
  }

  /// Is the path there, and does it lead from where this rank's port is to where the peer's is? One
  /// that leads to where a port was before has failed.
  bool is_true(std::uint32_t peer) {
    const wireup_path_t known = path(peer);
    const auto to = place(peer);
    const auto from = place(rank_);
    if (known.state != WIREUP_PATH_STATE_RESOLVED || !to.has_value() || !from.has_value()) {
      return false;
    }
    const std::uint8_t* record = known.record;
    std::uint16_t dlid = 0;
    std::uint16_t slid = 0;
    std::uint16_t pkey = 0;
    std::memcpy(&dlid, record + 40, 2);
    std::memcpy(&slid, record + 42, 2);
    std::memcpy(&pkey, record + 50, 2);
    if (hex(record + 8, 16) != to->gid || hex(record + 24, 16) != from->gid ||
        hex(known.dgid, 16) != to->gid || ntohs(pkey) != known.pkey || known.rank != peer ||
        known.mtu_bytes == 0 || known.origin == WIREUP_PATH_NONE) {
      fail("a path record that is not of these ports");
    }
    __be16 in_table = 0;
    if (ibv_query_pkey(wireup_context_verbs(context_), known.port, known.pkey_index, &in_table) !=
            0 ||
        ntohs(in_table) != known.pkey) {
      fail("the P_Key index is another's");
    }
    if (ntohs(dlid) == to->lid && ntohs(slid) == from->lid && known.dlid == to->lid) {
      return true;
    }
    ++mistaken_;
    e2e::require(wireup_path_failed(context_, known.id), "path_failed");
    return false;
  }

  [[nodiscard]] bool have_all(const char* stage) const {
    for (std::uint32_t peer = 0; peer < size_; ++peer) {
      if (!notes_.read(name_of(stage, peer)).has_value()) {
        return false;
      }
    }
    return true;
  }

  void take_events() {
    wireup_event_t event{};
    while (e2e::next_event(context_, 0, event)) {
      const auto at = std::find_if(ids_.begin(), ids_.end(),
                                   [&](const auto& entry) { return entry.second == event.path; });
      if (event.type == WIREUP_EVENT_RESOLVED && others_.contains(event.path)) {
        continue;
      }
      if (event.type == WIREUP_EVENT_PATH_CHANGED && at != ids_.end() && at->first == event.rank) {
        reasons_.try_emplace(event.rank, event.reason);
        if (resolves_again_) {
          resolve(event.rank);
        }
      } else if (event.type == WIREUP_EVENT_UNRESOLVED && resolves_again_) {
        ++unresolved_;
        resolve(event.rank);
      } else if (event.type != WIREUP_EVENT_RESOLVED || at == ids_.end() ||
                 at->first != event.rank) {
        std::fprintf(stderr, "rank %u: event %d of rank %u: %s\n", rank_, event.type, event.rank,
                     event.text);
        std::exit(1);
      }
    }
  }

  void await(const std::function<bool()>& done, const char* what) {
    const e2e::Stopwatch watch;
    while (!done()) {
      if (watch.milliseconds() > kLimitMs) {
        fail(what);
      }
      static_cast<void>(wireup_wait(context_, 20 * kMillisecond));
      take_events();
      if (datagrams_.has_value()) {
        publish_if_moved();
      }
    }
  }

  /// The own port's LID may change at any time.
  void publish_if_moved() {
    ibv_port_attr port{};
    const auto known = place(rank_);
    if (known.has_value() &&
        ibv_query_port(wireup_context_verbs(context_), path(rank_).port, &port) == 0 &&
        port.lid != 0 && port.lid != known->lid) {
      publish();
    }
  }

  void report(std::uint32_t round) const {
    wireup_stats_t stats{};
    stats.struct_size = sizeof stats;
    e2e::require(wireup_stats(context_, &stats), "stats");
    std::string dlids;
    for (std::uint32_t peer = 0; peer < size_; ++peer) {
      dlids += (peer == 0 ? "" : ", ") + std::to_string(path(peer).dlid);
    }
    std::printf(
        "{\"rank\": %u, \"round\": %u, \"dlids\": [%s], \"origin\": %s, \"immediate\": %u, "
        "\"mistaken\": %u, \"unresolved\": %u, \"connected\": %u, \"cm_sent\": %u}\n",
        rank_, round, dlids.c_str(),
        e2e::quoted(wireup_path_origin_str(path((rank_ + size_ - 1) % size_).origin)).c_str(),
        immediate_, mistaken_, unresolved_, static_cast<unsigned>(stats.connected),
        static_cast<unsigned>(stats.cm_sent));
    std::fflush(stdout);
  }

  wireup_context_t* context_;
  e2e::Notes notes_;
  std::uint32_t rank_;
  std::uint32_t size_;
  std::optional<e2e::Datagrams> datagrams_;
  std::map<std::uint32_t, wireup_path_id_t> ids_;
  /// Of paths that are asked for in other ways than by rank alone.
  std::set<wireup_path_id_t> others_;
  /// Why a rank's path changed first.
  std::map<std::uint32_t, wireup_reason_t> reasons_;
  /// Of all ranks, in the round before.
  std::vector<unsigned> lids_;
  bool resolves_again_ = true;
  unsigned immediate_ = 0;
  unsigned mistaken_ = 0;
  unsigned unresolved_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc == 3 ? argv[2] : "";
  if (argc < 2 || argc > 3 || (argc == 3 && mode != "lid" && mode != "fail")) {
    std::fprintf(stderr, "usage: resolve_all DIR [lid | fail]\n");
    return 2;
  }
  wireup_context_t* context = nullptr;
  e2e::require(wireup_context_open(nullptr, &context), "open");
  {
    Rank rank(context, argv[1]);
    rank.open_queue_pair();
    rank.publish();
    rank.await_all("place");
    rank.exchange(1);
    if (mode == "fail") {
      rank.leave_what_changes();
    }
    rank.finish("stage");
    rank.await_all("stage");
    if (mode == "lid") {
      rank.await_move();
      rank.exchange(2);
    } else if (mode == "fail") {
      rank.fail_one();
    } else {
      rank.resolve_by_address();
      rank.finish("addresses");
      rank.await_all("addresses");
    }
    rank.close_queue_pair();
  }
  e2e::require(wireup_context_close(context, 10 * kSecond), "close");
  return 0;
}
