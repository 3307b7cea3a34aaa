// SPDX-License-Identifier: BSD-3-Clause
//
// Each cell of the table of alternate paths, visited with a real engine: what is expected is
// written by hand from IBTA vol 1, 12.8 and from what Linux' ib_cm does, not taken from the table.
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "cm/engine/alternate_table.hpp"
#include "cm/played_engine.hpp"

namespace wireup::cm {
namespace {

using S = AlternateState;
using I = AlternateInput;

struct Expected {
  S from;
  I input;
  /// Nothing: the connection is not established any more.
  std::optional<S> to;
  const char* effect;
};

/// Where something happens. In all other cells the state stays; a command is refused, a message
/// dropped as unexpected, and time alone does nothing.
constexpr Expected kExpected[] = {
    {S::Uninit, I::SendLap, S::Sent, ">LAP"},
    {S::Uninit, I::RecvLap, S::Rcvd, "!AlternateOffered"},
    // No LAP has come before: any is a new one.
    {S::Uninit, I::RecvLapAgain, S::Rcvd, "!AlternateOffered"},
    {S::Uninit, I::Migrated, S::Idle, ""},
    {S::Uninit, I::RecvRej, std::nullopt, "!Disconnected"},

    {S::Idle, I::SendLap, S::Sent, ">LAP"},
    {S::Idle, I::RecvLap, S::Rcvd, "!AlternateOffered"},
    {S::Idle, I::RecvLapAgain, S::Idle, ">APR"},
    {S::Idle, I::Migrated, S::Idle, ""},

    {S::Sent, I::RecvMra, S::MraRcvd, "!MraReceived"},
    {S::Sent, I::RecvApr, S::Idle, "!AlternateAnswered"},
    {S::Sent, I::RecvRej, std::nullopt, "!Disconnected"},
    {S::Sent, I::RetransmitDue, S::Sent, ">LAP"},
    {S::Sent, I::DeadlinePassed, S::Idle, "!AlternateFailed"},
    {S::MraRcvd, I::RecvMra, S::MraRcvd, "!MraReceived"},
    {S::MraRcvd, I::RecvApr, S::Idle, "!AlternateAnswered"},
    {S::MraRcvd, I::RecvRej, std::nullopt, "!Disconnected"},
    {S::MraRcvd, I::RetransmitDue, S::MraRcvd, ">LAP"},
    {S::MraRcvd, I::DeadlinePassed, S::Idle, "!AlternateFailed"},

    {S::Rcvd, I::SendApr, S::Idle, ">APR"},
    {S::Rcvd, I::SendMra, S::MraSent, ">MRA"},
    {S::Rcvd, I::RecvLapAgain, S::Rcvd, "~duplicate"},
    {S::Rcvd, I::DeadlinePassed, S::Idle, ">APR"},
    {S::MraSent, I::SendApr, S::Idle, ">APR"},
    {S::MraSent, I::RecvLapAgain, S::MraSent, ">MRA"},
    {S::MraSent, I::DeadlinePassed, S::Idle, ">APR"},
};

class Visitor {
 public:
  /// Establishes a connection and brings its alternate paths into a state; false when that failed.
  [[nodiscard]] bool reach(S state) {
    play_.receive(PlayedEngine::req());
    static_cast<void>(play_.observed());
    handle_ = handle_of(*play_.last_event);
    play_.note(play_.engine.accept(handle_, play_.accept_params(), play_.now));
    static_cast<void>(play_.observed());
    play_.receive(play_.message<mad::Rtu>());
    switch (state) {
      case S::Uninit:
      case S::kCount:
        break;
      case S::Idle:
        answered();
        break;
      case S::Sent:
        // A LAP of the peer's was answered before: there is one that can come again.
        answered();
        load();
        break;
      case S::MraRcvd:
        answered();
        load();
        static_cast<void>(play_.observed());
        play_.receive(play_.mra(mad::MraOf::Lap));
        break;
      case S::Rcvd:
        play_.receive(play_.lap(kTid));
        break;
      case S::MraSent:
        play_.receive(play_.lap(kTid));
        delay();
        break;
    }
    static_cast<void>(play_.observed());
    return this->state() == state;
  }
  void apply(I input) {
    Engine& engine = play_.engine;
    switch (input) {
      case I::SendLap:
        return load();
      case I::SendApr:
        return play_.note(engine.answer_alternate(handle_, {}, play_.now));
      case I::SendMra:
        return delay();
      case I::Migrated:
        return play_.note(engine.migrated(handle_, PlayedEngine::peer(), play_.now));
      case I::RecvLap:
        return play_.receive(play_.lap(Tid(0x200)));
      case I::RecvLapAgain:
        return play_.receive(play_.lap(kTid));
      case I::RecvMra:
        return play_.receive(play_.mra(mad::MraOf::Lap));
      case I::RecvApr:
        return play_.receive(apr());
      case I::RecvRej:
        return play_.receive(play_.rej(mad::RejReason::ConsumerReject));
      case I::RetransmitDue:
        return play_.wait(PlayedEngine::kRetransmission);
      case I::DeadlinePassed:
        return play_.wait(PlayedEngine::kDeadline);
      case I::kCount:
        return;
    }
  }
  [[nodiscard]] std::string observed() { return play_.observed(); }
  [[nodiscard]] std::optional<S> state() const { return play_.engine.alternate_state(handle_); }

 private:
  /// Of the peer's last LAP.
  static constexpr Tid kTid{0x100};

  void answered() {
    play_.receive(play_.lap(kTid));
    play_.note(play_.engine.answer_alternate(handle_, {}, play_.now));
    static_cast<void>(play_.observed());
  }
  void load() {
    LapParams params;
    params.path = PlayedEngine::path();
    params.deadline = play_.now + PlayedEngine::kDeadline;
    play_.note(play_.engine.load_alternate(handle_, params, play_.now));
  }
  void delay() { play_.note(play_.engine.delay(handle_, IbTimeout(18), {}, play_.now)); }
  /// An APR to our last LAP.
  [[nodiscard]] mad::Apr apr() const {
    mad::Apr apr = play_.message<mad::Apr>();
    const auto sent = play_.last_sent ? mad::parse_cm(play_.last_sent->bytes)
                                      : Result<mad::CmMessage>(mad::Rtu{});
    if (sent && std::holds_alternative<mad::Lap>(*sent)) {
      apr.tid = std::get<mad::Lap>(*sent).tid;
    }
    return apr;
  }

  PlayedEngine play_;
  Handle handle_;
};

const char* effect_of_nothing(I input) {
  switch (input) {
    case I::SendLap:
    case I::SendApr:
    case I::SendMra:
    case I::Migrated:
      return "?InvalidState";
    case I::RetransmitDue:
    case I::DeadlinePassed:
      return "";
    case I::RecvLap:
    case I::RecvLapAgain:
    case I::RecvMra:
    case I::RecvApr:
    case I::RecvRej:
    case I::kCount:
      break;
  }
  return "~unexpected in this state";
}

TEST(AlternateCells, EachIsVisited) {
  std::map<std::pair<S, I>, Expected> expected;
  for (const Expected& cell : kExpected) {
    ASSERT_TRUE(expected.emplace(std::pair{cell.from, cell.input}, cell).second)
        << state_name(cell.from) << " x " << input_name(cell.input) << " is listed twice";
  }
  std::size_t visited = 0;
  for (std::size_t s = 0; s < AlternateTable::kStates; ++s) {
    for (std::size_t i = 0; i < AlternateTable::kInputs; ++i) {
      const auto state = static_cast<S>(s);
      const auto input = static_cast<I>(i);
      SCOPED_TRACE(testing::Message() << state_name(state) << " x " << input_name(input));
      Visitor visitor;
      ASSERT_TRUE(visitor.reach(state));
      visitor.apply(input);
      const std::string effect = visitor.observed();
      const auto found = expected.find({state, input});
      if (found != expected.end()) {
        EXPECT_EQ(effect, found->second.effect);
        EXPECT_EQ(visitor.state(), found->second.to);
      } else {
        EXPECT_EQ(effect, effect_of_nothing(input));
        EXPECT_EQ(visitor.state(), state);
      }
      ++visited;
    }
  }
  EXPECT_EQ(visited, std::size_t{6} * 11) << "the table has grown: extend the list above";
}

}  // namespace
}  // namespace wireup::cm
