// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/bytes.hpp"
#include "conn/conn_host.hpp"

// All orders in which two ranks' commands, answers and messages can happen, walked by copying the
// engines: time stands still while anything is in flight, and every order of what is in flight is
// taken, with a bounded number of losses and duplicates; states that were reached before are not
// walked again. At the end of each walk the timers run until all is quiet, and both ends must agree
// on one connection.
namespace wireup::conn {
namespace {

struct Message {
  std::uint32_t to = 0;
  cm::Address from;
  mad::Mad bytes{};
  friend bool operator==(const Message&, const Message&) = default;
};

/// An answer that a driver owes: a card or a path.
struct Debt {
  std::uint32_t rank = 0;
  Command command;
  friend bool operator==(const Debt&, const Debt&) = default;
};

struct End {
  Engine engine;
  std::map<ConnectionId, SimQp> qps;
  std::uint32_t next_qpn = 0x400;
  unsigned connected = 0;
  unsigned failed = 0;
  unsigned disconnected = 0;
  friend bool operator==(const End&, const End&) = default;
};

/// What the users still want to do, in order for each rank.
enum class Act { Connect, Close };
using Script = std::array<std::vector<Act>, 2>;

struct Model {
  std::array<End, 2> ends;
  std::vector<Message> messages;
  std::vector<Debt> debts;
  Script script;
  Instant now{std::chrono::seconds(1)};
  unsigned losses = 0;
  unsigned duplicates = 0;
  friend bool operator==(const Model&, const Model&) = default;
};

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  return (hash ^ value) * 0x9E3779B97F4A7C15ULL + (hash >> 29U);
}

std::uint64_t hash_of(const Message& message) {
  std::uint64_t hash = message.to;
  for (std::size_t at = 0; at < message.bytes.size(); at += 8) {
    hash = mix(hash, load_be(message.bytes, at, 8));
  }
  return hash;
}

/// Equal for equal models; what is in flight is a set.
std::uint64_t hash_of(const Model& model) {
  std::uint64_t hash = model.script[0].size() * 16 + model.script[1].size();
  hash = mix(hash, model.losses * 16 + model.duplicates);
  std::uint64_t in_flight = 0;
  for (const Message& message : model.messages) {
    in_flight += hash_of(message);
  }
  hash = mix(hash, in_flight);
  hash = mix(hash, model.debts.size());
  for (const End& end : model.ends) {
    for (const std::uint64_t number : std::initializer_list<std::uint64_t>{
             end.connected, end.disconnected, end.failed, end.next_qpn, end.engine.ready_count(),
             end.engine.pending_count()}) {
      hash = mix(hash, number);
    }
    for (const auto count : end.engine.cm_counters().received) {
      hash = mix(hash, count);
    }
  }
  return hash;
}

/// The same model with what is in flight in an order that does not depend on the way here.
Model in_order(Model model) {
  std::sort(model.messages.begin(), model.messages.end(), [](const Message& a, const Message& b) {
    return std::tie(a.to, a.bytes) < std::tie(b.to, b.bytes);
  });
  std::stable_sort(model.debts.begin(), model.debts.end(),
                   [](const Debt& a, const Debt& b) { return a.rank < b.rank; });
  return model;
}

Model make_model(const Script& script, unsigned losses, unsigned duplicates) {
  const auto end = [](std::uint32_t rank) {
    return End{
        Engine(Rank::usual_config(rank, 2), Rng(77 + rank)), {}, 0x400 + rank * 0x100, 0, 0, 0};
  };
  return Model{{end(0), end(1)}, {},        {}, script, Instant(std::chrono::seconds(1)),
               losses,           duplicates};
}

void drain(Model& model, std::uint32_t rank) {
  End& end = model.ends[rank];
  bool more = true;
  while (more) {
    more = false;
    while (auto command = end.engine.poll_command()) {
      more = true;
      if (const auto* create = std::get_if<CreateQp>(&*command)) {
        SimQp& qp = end.qps[create->id];
        qp.qpn = Qpn(end.next_qpn++);
        end.engine.handle_qp_created(create->id, qp.qpn, model.now);
      } else if (const auto* connect = std::get_if<ConnectQp>(&*command)) {
        SimQp& qp = end.qps.at(connect->id);
        WIREUP_CHECK(qp.state == SimQp::State::Init);
        qp.state = SimQp::State::Rts;
        qp.attributes = connect->attributes;
        end.engine.handle_qp_connected(connect->id, {}, model.now);
      } else if (const auto* release = std::get_if<ReleaseQp>(&*command)) {
        WIREUP_CHECK(end.qps.erase(release->id) == 1);
      } else if (!std::holds_alternative<BreakQp>(*command)) {
        model.debts.push_back({rank, *command});
      }
    }
    while (auto transmit = end.engine.poll_transmit()) {
      more = true;
      cm::Address from;
      from.dlid = Place::lid(rank);
      from.qpn = Place::cm_qpn(rank);
      model.messages.push_back({1 - rank, from, transmit->bytes});
    }
    while (auto event = end.engine.poll_event()) {
      more = true;
      end.connected += std::holds_alternative<Connected>(*event) ? 1 : 0;
      end.failed += std::holds_alternative<Failed>(*event) ? 1 : 0;
      end.disconnected += std::holds_alternative<Disconnected>(*event) ? 1 : 0;
    }
  }
}

void act(Model& model, std::uint32_t rank) {
  auto& wishes = model.script[rank];
  const Act what = wishes.front();
  wishes.erase(wishes.begin());
  Engine& engine = model.ends[rank].engine;
  if (what == Act::Connect) {
    WIREUP_CHECK(engine.connect({kJob, 1 - rank}, model.now + std::chrono::seconds(60), model.now));
  } else {
    static_cast<void>(engine.close({kJob, 1 - rank}, model.now));  // there may be nothing to close
  }
  drain(model, rank);
}

void pay(Model& model, std::size_t index) {
  const Debt debt = model.debts[index];
  model.debts.erase(model.debts.begin() + static_cast<std::ptrdiff_t>(index));
  Engine& engine = model.ends[debt.rank].engine;
  const std::uint32_t peer = 1 - debt.rank;
  if (const auto* card = std::get_if<RequestCard>(&debt.command)) {
    engine.handle_card(card->peer,
                       PeerCard{Place::incarnation(peer), Place::gid(peer), Place::lid(peer),
                                PKey(0xFFFF), Place::cm_qpn(peer)},
                       model.now);
  } else if (const auto* path = std::get_if<RequestPath>(&debt.command)) {
    engine.handle_path(path->id, Path{Place::path(debt.rank, peer), 2}, model.now);
  }
  drain(model, debt.rank);
}

Message take(Model& model, std::size_t index) {
  const Message message = model.messages[index];
  model.messages.erase(model.messages.begin() + static_cast<std::ptrdiff_t>(index));
  return message;
}

void deliver(Model& model, const Message& message) {
  model.ends[message.to].engine.handle_mad(message.from, message.bytes, model.now);
  drain(model, message.to);
}

bool is_in_flight(const Model& model) {
  return !model.messages.empty() || !model.debts.empty() || !model.script[0].empty() ||
         !model.script[1].empty();
}

/// Runs the timers and everything they bring, in order, until nothing is left to happen.
void settle(Model& model) {
  for (int step = 0; step < 2000; ++step) {
    if (!model.debts.empty()) {
      pay(model, 0);
    } else if (!model.messages.empty()) {
      deliver(model, take(model, 0));
    } else {
      std::optional<Instant> next;
      for (const End& end : model.ends) {
        const auto at = end.engine.poll_timeout();
        if (at.has_value() && (!next.has_value() || *at < *next)) {
          next = at;
        }
      }
      if (!next.has_value()) {
        return;
      }
      model.now = std::max(model.now, *next);
      for (std::uint32_t rank = 0; rank < 2; ++rank) {
        model.ends[rank].engine.handle_timeout(model.now);
        drain(model, rank);
      }
    }
  }
  FAIL() << "livelock";
}

class Walk {
 public:
  explicit Walk(std::function<void(const Model&)> at_end) : at_end_(std::move(at_end)) {}

  void run(const Model& reached) {
    if (testing::Test::HasFailure()) {
      return;
    }
    const Model model = in_order(reached);
    auto& same_hash = seen_[hash_of(model)];
    if (std::find(same_hash.begin(), same_hash.end(), model) != same_hash.end()) {
      return;
    }
    same_hash.push_back(model);
    ++states_;
    if (!is_in_flight(model)) {
      Model end = model;
      settle(end);
      ++ends_;
      at_end_(end);
      return;
    }
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      if (!model.script[rank].empty()) {
        Model next = model;
        act(next, rank);
        run(next);
      }
    }
    for (std::size_t i = 0; i < model.debts.size(); ++i) {
      Model next = model;
      pay(next, i);
      run(next);
    }
    for (std::size_t i = 0; i < model.messages.size(); ++i) {
      Model next = model;
      const Message message = take(next, i);
      deliver(next, message);
      run(next);
      if (model.losses > 0) {
        Model lossy = model;
        --lossy.losses;
        static_cast<void>(take(lossy, i));
        run(lossy);
      }
      if (model.duplicates > 0) {
        Model doubled = model;
        --doubled.duplicates;
        deliver(doubled, message);  // and it stays in flight
        run(doubled);
      }
    }
  }

  [[nodiscard]] std::size_t states() const { return states_; }
  [[nodiscard]] std::size_t ends() const { return ends_; }

 private:
  std::function<void(const Model&)> at_end_;
  std::unordered_map<std::uint64_t, std::vector<Model>> seen_;
  std::size_t states_ = 0;
  std::size_t ends_ = 0;
};

const SimQp* qp_of(const Model& model, std::uint32_t rank) {
  const End& end = model.ends[rank];
  const Connection* c = end.engine.ready({kJob, 1 - rank});
  return c != nullptr ? &end.qps.at(c->id) : nullptr;
}

void expect_one_connection(const Model& model) {
  const SimQp* one = qp_of(model, 0);
  const SimQp* other = qp_of(model, 1);
  ASSERT_NE(one, nullptr);
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(one->attributes.peer_qpn, other->qpn);
  EXPECT_EQ(other->attributes.peer_qpn, one->qpn);
  EXPECT_EQ(one->attributes.send_psn, other->attributes.receive_psn);
  EXPECT_EQ(one->attributes.receive_psn, other->attributes.send_psn);
  for (const End& end : model.ends) {
    EXPECT_EQ(end.qps.size(), 1U);
    EXPECT_EQ(end.failed, 0U);
    EXPECT_EQ(end.engine.pending_count(), 0U);
  }
}

void expect_one_or_none(const Model& model) {
  if (qp_of(model, 0) != nullptr || qp_of(model, 1) != nullptr) {
    expect_one_connection(model);
  }
  for (const End& end : model.ends) {
    EXPECT_EQ(end.qps.size(), end.engine.ready_count());
    EXPECT_EQ(end.engine.pending_count(), 0U);
  }
}

void report(const char* what, const Walk& walk) {
  std::printf("%s: %zu states, %zu ends\n", what, walk.states(), walk.ends());
  EXPECT_GT(walk.ends(), 0U);
}

bool is_exhaustive() {
  const char* wish = std::getenv("WIREUP_EXHAUSTIVE");
  return wish != nullptr && *wish == '1';
}

const Script kBothConnect{{{Act::Connect}, {Act::Connect}}};

TEST(Crossing, EveryOrderEndsInOneConnection) {
  Walk walk([](const Model& model) {
    expect_one_connection(model);
    for (const End& end : model.ends) {
      EXPECT_EQ(end.connected, 1U);
      EXPECT_EQ(end.disconnected, 0U);
    }
  });
  walk.run(make_model(kBothConnect, 0, 0));
  report("both connect", walk);
}

TEST(Crossing, EveryOrderWithFaultsEndsInOneConnection) {
  Walk walk([](const Model& model) { expect_one_connection(model); });
  walk.run(make_model(kBothConnect, 2, 2));
  report("both connect, up to two losses and two duplicates", walk);
}

TEST(Crossing, CloseInBetweenEndsInOneOrNone) {
  Walk walk(expect_one_or_none);
  walk.run(make_model({{{Act::Connect, Act::Close}, {Act::Connect}}}, 0, 0));
  report("connect and close, connect", walk);
  Walk mirrored(expect_one_or_none);
  mirrored.run(make_model({{{Act::Connect}, {Act::Connect, Act::Close}}}, 0, 0));
  report("connect, connect and close", mirrored);
}

TEST(Crossing, CloseAndConnectAgainEndsInOneConnection) {
  Walk walk([](const Model& model) {
    expect_one_or_none(model);
    // The last word of rank 0 is connect, and rank 1 never closes.
    EXPECT_NE(qp_of(model, 0), nullptr);
  });
  // Losses and duplicates at once take a minute: WIREUP_EXHAUSTIVE asks for them.
  walk.run(make_model({{{Act::Connect, Act::Close, Act::Connect}, {Act::Connect}}},
                      is_exhaustive() ? 1 : 0, is_exhaustive() ? 1 : 0));
  report("connect, close, connect; connect", walk);
}

TEST(Crossing, BothConnectAndCloseEndInOneOrNone) {
  Walk walk(expect_one_or_none);
  Script script{{{Act::Connect, Act::Close}, {Act::Connect, Act::Close}}};
  if (is_exhaustive()) {
    script[0].push_back(Act::Connect);
  }
  walk.run(make_model(script, is_exhaustive() ? 1 : 0, 0));
  report("both connect and close", walk);
}

TEST(Crossing, ReconnectWithFaultsEndsInOneConnection) {
  Walk walk([](const Model& model) {
    expect_one_or_none(model);
    EXPECT_NE(qp_of(model, 0), nullptr);
  });
  walk.run(make_model({{{Act::Connect, Act::Close, Act::Connect}, {}}}, 1, 1));
  report("connect, close, connect; a loss and a duplicate", walk);
}

}  // namespace
}  // namespace wireup::conn
