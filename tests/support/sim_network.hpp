// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/rng.hpp"
#include "base/time.hpp"

/// A network of engines in virtual time: a queue of events, seeded faults, no threads, no sleeping.
///
///   node 0 ──send()──► faults: drop? duplicate? delay ──► queue ──► node 1 .deliver()
///      ▲ wake() at its next_deadline()        at(): scripted events
namespace wireup::test {

/// What happens to packets. Percentages are of packets, each drawn for itself.
struct Faults {
  unsigned loss_percent = 0;
  unsigned duplicate_percent = 0;
  /// Packets that are held back by up to `reorder_delay` more, so that later ones overtake them.
  unsigned reorder_percent = 0;
  Duration reorder_delay = std::chrono::milliseconds(5);
  Duration min_delay = std::chrono::microseconds(2);
  Duration max_delay = std::chrono::microseconds(2);
};

template <typename Packet>
class SimNetwork {
 public:
  using NodeId = std::size_t;

  /// One end: gets packets and the time. All calls come from the network's run functions.
  class Node {
   public:
    virtual ~Node() = default;
    virtual void deliver(const Packet& packet, Instant now) = 0;
    /// The time of next_deadline() has come.
    virtual void wake(Instant now) = 0;
    [[nodiscard]] virtual std::optional<Instant> next_deadline() const = 0;
  };

  struct Stats {
    std::uint64_t sent = 0;
    std::uint64_t delivered = 0;
    std::uint64_t lost = 0;
    std::uint64_t duplicated = 0;
    std::uint64_t filtered = 0;
  };

  explicit SimNetwork(std::uint64_t seed) : rng_(seed) {}

  /// The node must outlive the network.
  NodeId add(Node& node) {
    nodes_.push_back(&node);
    return nodes_.size() - 1;
  }
  /// A node that is gone: packets to it vanish, it is not woken. `nullptr` also takes it out of
  /// the run; another node may be put in its place (a restart).
  void replace(NodeId id, Node* node) { nodes_[id] = node; }

  void set_faults(const Faults& faults) { faults_ = faults; }
  /// Sees every packet before the faults do; true = drop it.
  void set_filter(std::function<bool(NodeId from, NodeId to, const Packet&)> filter) {
    filter_ = std::move(filter);
  }

  /// For networks of many nodes: next_deadline() is asked only after the node was delivered to or
  /// woken, and of all nodes at the start of a run and after scripted events. Not for nodes whose
  /// deadlines change in other ways.
  void index_deadlines() { is_indexed_ = true; }

  void send(NodeId from, NodeId to, const Packet& packet) {
    send(from, to, std::make_shared<const Packet>(packet));
  }
  /// The packet may be shared by many receivers.
  void send(NodeId from, NodeId to, const std::shared_ptr<const Packet>& packet) {
    ++stats_.sent;
    if (filter_ && filter_(from, to, *packet)) {
      ++stats_.filtered;
      return;
    }
    if (hits(faults_.loss_percent)) {
      ++stats_.lost;
      return;
    }
    post(to, packet);
    if (hits(faults_.duplicate_percent)) {
      ++stats_.duplicated;
      post(to, packet);
    }
  }

  /// Runs `action` at a time, not before now.
  void at(Instant when, std::function<void()> action) {
    queue_.emplace(Key{std::max(when, now_), next_order_++}, Happening{std::move(action), {}});
  }

  /// Goes to the next event and handles it; false when nothing is left to happen.
  bool step() {
    const auto [deadline, sleeper] = first_deadline();
    if (!queue_.empty() && (!deadline || queue_.begin()->first.first <= *deadline)) {
      const auto first = queue_.begin();
      now_ = first->first.first;
      const Happening happening = std::move(first->second);
      queue_.erase(first);
      happening.action();
      touch(happening.to);
      return true;
    }
    if (deadline) {
      now_ = std::max(now_, *deadline);
      nodes_[sleeper]->wake(now_);
      touch(sleeper);
      return true;
    }
    return false;
  }

  /// Runs until nothing is left to happen. False when that is not so after `max_steps`: a livelock.
  [[nodiscard]] bool run(std::size_t max_steps = 1000000) {
    touch({});
    for (std::size_t i = 0; i < max_steps; ++i) {
      if (!step()) {
        return true;
      }
    }
    return false;
  }
  /// Runs until `done`; false when nothing is left to happen or after `max_steps` before that.
  template <typename Done>
  [[nodiscard]] bool run_until(Done done, std::size_t max_steps = 1000000) {
    touch({});
    for (std::size_t i = 0; i < max_steps; ++i) {
      if (done()) {
        return true;
      }
      if (!step()) {
        return done();
      }
    }
    return false;
  }
  /// Runs everything up to `until`, which is then the time.
  void run_for(Duration duration) {
    touch({});
    const Instant until = now_ + duration;
    bool reached = false;
    at(until, [&] { reached = true; });
    while (!reached) {
      WIREUP_CHECK(step());
    }
  }

  [[nodiscard]] Instant now() const { return now_; }
  [[nodiscard]] const Stats& stats() const { return stats_; }
  [[nodiscard]] Rng& rng() { return rng_; }

 private:
  /// Time, then order of entry: equal times keep their order.
  using Key = std::pair<Instant, std::uint64_t>;

  struct Happening {
    std::function<void()> action;
    /// The only node that it can touch; nothing: any.
    std::optional<NodeId> to;
  };
  struct Deadline {
    std::optional<Instant> at;
    NodeId node = 0;
  };

  Deadline first_deadline() {
    if (!is_indexed_ || is_touched_) {
      is_touched_ = false;
      by_deadline_.clear();
      deadlines_.assign(nodes_.size(), std::nullopt);
      Deadline first;
      for (NodeId id = 0; id < nodes_.size(); ++id) {
        const auto next = look_at(id);
        if (next && (!first.at || *next < *first.at)) {
          first = {next, id};
        }
      }
      return first;
    }
    if (by_deadline_.empty()) {
      return {};
    }
    return {by_deadline_.begin()->first, by_deadline_.begin()->second};
  }
  std::optional<Instant> look_at(NodeId id) {
    const auto next = nodes_[id] != nullptr ? nodes_[id]->next_deadline() : std::nullopt;
    if (is_indexed_) {
      if (deadlines_[id]) {
        by_deadline_.erase({*deadlines_[id], id});
      }
      if (next) {
        by_deadline_.insert({*next, id});
      }
      deadlines_[id] = next;
    }
    return next;
  }
  void touch(std::optional<NodeId> node) {
    if (!is_indexed_) {
      return;
    }
    if (!node || is_touched_) {
      is_touched_ = true;
    } else {
      look_at(*node);
    }
  }

  bool hits(unsigned percent) { return percent > 0 && rng_.below(100) < percent; }

  void post(NodeId to, const std::shared_ptr<const Packet>& packet) {
    const auto spread = static_cast<std::uint64_t>((faults_.max_delay - faults_.min_delay).count());
    Duration delay =
        faults_.min_delay + Duration(static_cast<std::int64_t>(rng_.below(spread + 1)));
    if (hits(faults_.reorder_percent)) {
      const auto extra = static_cast<std::uint64_t>(faults_.reorder_delay.count());
      delay += Duration(static_cast<std::int64_t>(rng_.below(extra + 1)));
    }
    const auto deliver = [this, to, packet] {
      if (nodes_[to] != nullptr) {
        ++stats_.delivered;
        nodes_[to]->deliver(*packet, now_);
      }
    };
    queue_.emplace(Key{now_ + delay, next_order_++}, Happening{deliver, to});
  }

  Rng rng_;
  Instant now_{std::chrono::seconds(1)};
  std::uint64_t next_order_ = 0;
  std::vector<Node*> nodes_;
  std::map<Key, Happening> queue_;
  bool is_indexed_ = false;
  /// The deadline of any node may have changed.
  bool is_touched_ = true;
  std::vector<std::optional<Instant>> deadlines_;
  std::set<std::pair<Instant, NodeId>> by_deadline_;
  Faults faults_;
  std::function<bool(NodeId, NodeId, const Packet&)> filter_;
  Stats stats_;
};

}  // namespace wireup::test
