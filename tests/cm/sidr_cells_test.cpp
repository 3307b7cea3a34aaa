// SPDX-License-Identifier: BSD-3-Clause
//
// Each cell of the SIDR table, visited with a real engine: what is expected is written by hand from
// IBTA vol 1, 12.11, not taken from the table.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>

#include "cm/engine/sidr_table.hpp"
#include "cm/played_engine.hpp"

namespace wireup::cm {
namespace {

using S = SidrState;
using I = SidrInput;

constexpr CommId kPeersQuestion{0x4444};

struct Expected {
  S from;
  I input;
  /// Resolutions under way afterwards.
  std::size_t left;
  const char* effect;
  /// Why the cell cannot be entered in this state; null when it can.
  const char* elsewhere = nullptr;
};

constexpr Expected kExpected[] = {
    {S::Idle, I::SendReq, 1, ">SIDR_REQ"},
    {S::Idle, I::SendRep, 0, "?NotFound"},
    {S::Idle, I::Abandon, 0, ""},
    {S::Idle, I::RecvReq, 1, "!SidrReqReceived"},
    {S::Idle, I::RecvRep, 0, "~unknown connection"},
    {S::Idle, I::RetransmitDue, 0, ""},
    {S::Idle, I::DeadlinePassed, 0, ""},

    {S::ReqSent, I::SendReq, 2, ">SIDR_REQ", "it starts another resolution"},
    {S::ReqSent, I::SendRep, 1, "?InvalidState"},
    {S::ReqSent, I::Abandon, 0, ""},
    {S::ReqSent, I::RecvReq, 2, "!SidrReqReceived",
     "its id is the peer's, and names no question of ours"},
    {S::ReqSent, I::RecvRep, 0, "!SidrRepReceived"},
    {S::ReqSent, I::RetransmitDue, 1, ">SIDR_REQ"},
    {S::ReqSent, I::DeadlinePassed, 0, "!SidrFailed"},

    {S::ReqRcvd, I::SendReq, 2, ">SIDR_REQ", "it starts another resolution"},
    {S::ReqRcvd, I::SendRep, 0, ">SIDR_REP"},
    {S::ReqRcvd, I::Abandon, 0, ""},
    {S::ReqRcvd, I::RecvReq, 1, "~duplicate"},
    {S::ReqRcvd, I::RecvRep, 1, "~unknown connection",
     "its id is ours, and names no question of the peer"},
    {S::ReqRcvd, I::RetransmitDue, 1, ""},
    {S::ReqRcvd, I::DeadlinePassed, 0, ">SIDR_REP"},
};

class Visitor {
 public:
  void reach(S state) {
    switch (state) {
      case S::Idle:
        // One that has ended.
        ask();
        play_.engine.abandon(id_);
        break;
      case S::ReqSent:
        ask();
        break;
      case S::ReqRcvd:
        play_.receive(question());
        break;
      case S::kCount:
        break;
    }
    static_cast<void>(play_.observed());
    if (state == S::ReqRcvd) {
      id_ = std::get<SidrReqReceived>(*play_.last_sidr_event).id;
    } else {
      ours_ = std::get<mad::SidrReq>(*mad::parse_cm(play_.last_sent->bytes)).request_id;
    }
  }
  void apply(I input) {
    switch (input) {
      case I::SendReq:
        return ask();
      case I::SendRep:
        return play_.note(play_.engine.answer_service(id_, {}, play_.now));
      case I::Abandon:
        return play_.engine.abandon(id_);
      case I::RecvReq:
        return play_.receive(question());
      case I::RecvRep: {
        mad::SidrRep rep;
        // In answer to our question, or, where there is none, as if the peer's were ours.
        rep.request_id = ours_.is_zero() ? kPeersQuestion : ours_;
        return play_.receive(rep);
      }
      case I::RetransmitDue:
        return play_.wait(PlayedEngine::kRetransmission);
      case I::DeadlinePassed:
        return play_.wait(PlayedEngine::kDeadline);
      case I::kCount:
        return;
    }
  }
  [[nodiscard]] std::string observed() { return play_.observed(); }
  [[nodiscard]] const Engine& engine() const { return play_.engine; }

 private:
  static mad::SidrReq question() {
    mad::SidrReq req;
    req.tid = Tid(3);
    req.request_id = kPeersQuestion;
    req.service_id = PlayedEngine::kService;
    return req;
  }
  void ask() {
    SidrParams params;
    params.to = PlayedEngine::peer();
    params.service_id = PlayedEngine::kService;
    params.deadline = play_.now + PlayedEngine::kDeadline;
    const auto id = play_.engine.resolve_service(params, play_.now);
    play_.note(id);
    id_ = id.value_or(ResolutionId{});
  }

  PlayedEngine play_;
  ResolutionId id_{};
  CommId ours_;
};

TEST(SidrCells, EachIsVisited) {
  std::map<std::pair<S, I>, Expected> expected;
  for (const Expected& cell : kExpected) {
    ASSERT_TRUE(expected.emplace(std::pair{cell.from, cell.input}, cell).second)
        << state_name(cell.from) << " x " << input_name(cell.input) << " is listed twice";
  }
  std::size_t visited = 0;
  for (std::size_t s = 0; s < SidrTable::kStates; ++s) {
    for (std::size_t i = 0; i < SidrTable::kInputs; ++i) {
      const auto state = static_cast<S>(s);
      const auto input = static_cast<I>(i);
      SCOPED_TRACE(testing::Message() << state_name(state) << " x " << input_name(input));
      ASSERT_TRUE(expected.contains({state, input})) << "extend the list above";
      const Expected& cell = expected.at({state, input});
      Visitor visitor;
      visitor.reach(state);
      ASSERT_EQ(visitor.engine().resolutions(), state == S::Idle ? 0U : 1U);
      visitor.apply(input);
      EXPECT_EQ(visitor.observed(), cell.effect);
      EXPECT_EQ(visitor.engine().resolutions(), cell.left);
      EXPECT_EQ(visitor.engine().poll_timeout().has_value(), cell.left > 0)
          << "who waits has a deadline, and nobody else";
      if (cell.elsewhere != nullptr) {
        EXPECT_EQ(kSidrTable.of(state, input).next, state) << cell.elsewhere;
      }
      ++visited;
    }
  }
  EXPECT_EQ(visited, expected.size());
}

/// The end of a question is the same for both directions: IDLE knows nothing of it.
TEST(SidrCells, TheTableAgreesWithTheList) {
  for (const Expected& cell : kExpected) {
    SCOPED_TRACE(testing::Message() << state_name(cell.from) << " x " << input_name(cell.input));
    if (cell.elsewhere == nullptr) {
      EXPECT_EQ(kSidrTable.of(cell.from, cell.input).next == S::Idle, cell.left == 0);
    }
  }
}

}  // namespace
}  // namespace wireup::cm
