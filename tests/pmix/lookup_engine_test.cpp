// SPDX-License-Identifier: BSD-3-Clause
#include "pmix/engine/lookup_engine.hpp"

#include <gtest/gtest.h>

#include <map>

#include "support/seed.hpp"

namespace wireup::pmix {
namespace {

using namespace std::chrono_literals;

using Bytes = std::vector<std::uint8_t>;
constexpr Instant kStart{1000s};
Bytes card_bytes() {
  return {1, 2, 3};
}

PeerRef peer(std::uint32_t rank) {
  return {"job", rank};
}

class LookupEngineTest : public testing::Test {
 protected:
  LookupEngine engine_{LookupEngine::Config{}};
  Instant now_ = kStart;

  GetCall next_call() {
    auto call = engine_.poll_call(now_);
    EXPECT_TRUE(call) << "a question was expected";
    return call.value_or(GetCall{});
  }
  void expect_no_call() { EXPECT_FALSE(engine_.poll_call(now_)); }
  CardResult next_result() {
    auto result = engine_.poll_result();
    EXPECT_TRUE(result) << "a result was expected";
    return result.value_or(CardResult{});
  }
  void reply(const GetCall& call, GetStatus status, const Bytes& card = {}) {
    engine_.handle_reply(call.id, status, card, now_);
  }
  /// Lets time pass up to the engine's next deadline.
  void sleep() {
    ASSERT_TRUE(engine_.poll_timeout());
    ASSERT_GE(*engine_.poll_timeout(), now_);
    now_ = *engine_.poll_timeout();
    engine_.handle_timeout(now_);
  }
};

TEST_F(LookupEngineTest, AsksThisNodeFirstAndRemembersTheCard) {
  engine_.request(peer(3), now_ + 10s, now_);
  const GetCall call = next_call();
  EXPECT_EQ(call.peer, peer(3));
  EXPECT_TRUE(call.local_only);
  EXPECT_EQ(call.patience, 10s);
  expect_no_call();
  reply(call, GetStatus::Found, card_bytes());
  EXPECT_EQ(next_result(), (CardResult{peer(3), card_bytes()}));
  EXPECT_FALSE(engine_.poll_timeout());

  engine_.request(peer(3), now_ + 10s, now_);
  expect_no_call();
  EXPECT_EQ(next_result(), (CardResult{peer(3), card_bytes()}));
}

TEST_F(LookupEngineTest, AsksThePeersNodeWhenThisOneDoesNotKnow) {
  engine_.request(peer(3), now_ + 10s, now_);
  reply(next_call(), GetStatus::NotFound);
  const GetCall remote = next_call();
  EXPECT_FALSE(remote.local_only);
  reply(remote, GetStatus::Found, card_bytes());
  EXPECT_EQ(next_result().card, card_bytes());
}

TEST_F(LookupEngineTest, RequestsForOnePeerJoinAndTheLaterDeadlineCounts) {
  engine_.request(peer(1), now_ + 1s, now_);
  engine_.request(peer(1), now_ + 5s, now_);
  engine_.request(peer(1), now_ + 2s, now_);
  EXPECT_EQ(engine_.poll_timeout(), now_ + 5s);
  const GetCall call = next_call();
  EXPECT_EQ(call.patience, 5s);
  expect_no_call();
  reply(call, GetStatus::Found, card_bytes());
  next_result();
  EXPECT_FALSE(engine_.poll_result());
}

TEST_F(LookupEngineTest, NotFoundIsAskedAgainWithGrowingPausesUntilTheDeadline) {
  engine_.request(peer(1), now_ + 2s, now_);
  std::vector<Duration> pauses;
  while (engine_.pending() == 1) {
    reply(next_call(), GetStatus::NotFound);
    reply(next_call(), GetStatus::NotFound);
    expect_no_call();
    const Instant before = now_;
    sleep();
    pauses.push_back(now_ - before);
    ASSERT_LT(pauses.size(), 100U);
  }
  EXPECT_EQ(now_, kStart + 2s);
  const CardResult result = next_result();
  ASSERT_FALSE(result.card);
  EXPECT_TRUE(result.card.error().is(Errc::CardMissing));
  EXPECT_NE(result.card.error().what().find("rank 1"), std::string_view::npos);
  // 1 ms, doubling to 100 ms, each within 25 %; the last is cut by the deadline.
  Duration expected = 1ms;
  for (std::size_t i = 0; i + 1 < pauses.size(); ++i) {
    EXPECT_GE(pauses[i], expected - expected / 4) << i;
    EXPECT_LE(pauses[i], expected + expected / 4) << i;
    expected = std::min<Duration>(expected * 2, 100ms);
  }
  EXPECT_GT(pauses.size(), 15U);
}

TEST_F(LookupEngineTest, AnUnansweredQuestionEndsAtTheDeadline) {
  engine_.request(peer(1), now_ + 2s, now_);
  next_call();
  sleep();
  EXPECT_EQ(now_, kStart + 2s);
  EXPECT_TRUE(next_result().card.error().is(Errc::Timeout));
  EXPECT_FALSE(engine_.poll_timeout());
}

TEST_F(LookupEngineTest, APeerThatNobodyKnowsIsMissingThoughItsNodeIsSilent) {
  engine_.request(peer(1), now_ + 2s, now_);
  reply(next_call(), GetStatus::NotFound);
  next_call();
  sleep();
  EXPECT_TRUE(next_result().card.error().is(Errc::CardMissing));
}

TEST_F(LookupEngineTest, ALateReplyFillsTheCacheAndDisturbsNobody) {
  engine_.request(peer(1), now_ + 2s, now_);
  reply(next_call(), GetStatus::NotFound);
  const GetCall late = next_call();
  sleep();
  next_result();

  engine_.request(peer(1), now_ + 2s, now_);
  const GetCall second = next_call();
  EXPECT_TRUE(second.local_only);
  reply(late, GetStatus::Found, card_bytes());  // answers the new request too
  EXPECT_EQ(next_result().card, card_bytes());
  reply(second, GetStatus::NotFound);
  EXPECT_FALSE(engine_.poll_result());
  expect_no_call();
}

TEST_F(LookupEngineTest, AsksThePeersNodeOnlyOnceAtATime) {
  engine_.request(peer(1), now_ + 2s, now_);
  reply(next_call(), GetStatus::NotFound);
  const GetCall hanging = next_call();
  sleep();
  next_result();
  // The library still has the remote question; the next lookup asks this node again and again.
  engine_.request(peer(1), now_ + 2s, now_);
  for (int i = 0; i < 5; ++i) {
    const GetCall call = next_call();
    EXPECT_TRUE(call.local_only);
    reply(call, GetStatus::NotFound);
    expect_no_call();
    sleep();
  }
  // Once it has come back, the node is asked again.
  reply(hanging, GetStatus::Failed);
  reply(next_call(), GetStatus::NotFound);
  EXPECT_FALSE(next_call().local_only);
}

TEST_F(LookupEngineTest, TheEndOfTheCollectiveWakesWhatWaits) {
  engine_.request(peer(1), now_ + 60s, now_);
  engine_.request(peer(2), now_ + 60s, now_);
  reply(next_call(), GetStatus::NotFound);
  reply(next_call(), GetStatus::NotFound);
  const GetCall one = next_call();
  next_call();  // peer 2: never answered
  reply(one, GetStatus::NotFound);
  expect_no_call();
  engine_.handle_collected();
  for (int i = 0; i < 2; ++i) {
    const GetCall call = next_call();
    EXPECT_TRUE(call.local_only);
    reply(call, GetStatus::Found, card_bytes());
    EXPECT_EQ(next_result().card, card_bytes());
  }
  EXPECT_FALSE(engine_.poll_timeout());
}

TEST_F(LookupEngineTest, AValueThatIsNoCardEndsTheLookup) {
  engine_.request(peer(1), now_ + 2s, now_);
  reply(next_call(), GetStatus::Malformed);
  EXPECT_TRUE(next_result().card.error().is(Errc::Malformed));
  EXPECT_EQ(engine_.pending(), 0U);
}

TEST_F(LookupEngineTest, WithoutAServerOnlyTheCacheAnswers) {
  engine_.request(peer(1), now_ + 2s, now_);
  reply(next_call(), GetStatus::Found, card_bytes());
  next_result();
  engine_.request(peer(2), now_ + 2s, now_);
  const GetCall open = next_call();
  engine_.request(peer(3), now_ + 2s, now_);
  engine_.handle_server_gone();
  EXPECT_TRUE(next_result().card.error().is(Errc::NoPmix));
  EXPECT_TRUE(next_result().card.error().is(Errc::NoPmix));
  reply(open, GetStatus::NotFound);
  engine_.request(peer(1), now_ + 2s, now_);
  EXPECT_EQ(next_result().card, card_bytes());
  engine_.request(peer(4), now_ + 2s, now_);
  EXPECT_TRUE(next_result().card.error().is(Errc::NoPmix));
  expect_no_call();
  EXPECT_FALSE(engine_.poll_timeout());
}

TEST_F(LookupEngineTest, KeepsToItsWindowAndForgottenCallsLeaveRoom) {
  LookupEngine::Config config;
  config.window = 2;
  engine_ = LookupEngine(config);
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    engine_.request(peer(rank), now_ + 2s + rank * 1s, now_);
  }
  const GetCall zero = next_call();
  const GetCall one = next_call();
  expect_no_call();
  reply(one, GetStatus::Found, card_bytes());
  EXPECT_EQ(next_call().peer, peer(2));
  expect_no_call();
  sleep();  // rank 0 gives up; its call is still with the library
  EXPECT_EQ(next_call().peer, peer(3));
  expect_no_call();
  reply(zero, GetStatus::NotFound);
  expect_no_call();
}

TEST_F(LookupEngineTest, UnknownAndRepeatedRepliesAreIgnored) {
  engine_.request(peer(1), now_ + 2s, now_);
  const GetCall call = next_call();
  engine_.handle_reply(4711, GetStatus::Found, card_bytes(), now_);
  EXPECT_FALSE(engine_.has_result());
  reply(call, GetStatus::Found, card_bytes());
  reply(call, GetStatus::NotFound);
  next_result();
  EXPECT_FALSE(engine_.has_result());
}

TEST_F(LookupEngineTest, CancelledLookupsGiveNoResult) {
  engine_.request(peer(1), now_ + 2s, now_);
  const GetCall call = next_call();
  engine_.request(peer(2), now_ + 2s, now_);
  engine_.cancel_all();
  expect_no_call();
  EXPECT_FALSE(engine_.poll_timeout());
  reply(call, GetStatus::Found, card_bytes());
  EXPECT_FALSE(engine_.has_result());
}

TEST_F(LookupEngineTest, IsAValue) {
  engine_.request(peer(1), now_ + 2s, now_);
  LookupEngine copy = engine_;
  EXPECT_EQ(copy, engine_);
  const auto call = copy.poll_call(now_);
  EXPECT_FALSE(copy == engine_);
  EXPECT_EQ(engine_.poll_call(now_), call);
  EXPECT_EQ(copy, engine_);
}

/// Random requests, answers, silences and time: every request gets exactly one result, not after
/// its deadline, and nothing is left behind.
TEST(LookupEngineProperty, EveryRequestEndsOnceByItsDeadline) {
  const std::uint64_t first = test::seed();
  const std::uint64_t past = first + test::rounds(200);
  for (std::uint64_t seed = first; seed < past; ++seed) {
    SCOPED_TRACE("WIREUP_SEED=" + std::to_string(seed));
    Rng rng(seed);
    LookupEngine::Config config;
    config.window = static_cast<std::uint32_t>(1 + rng.below(8));
    config.seed = seed;
    LookupEngine engine(config);
    Instant now = kStart;
    std::map<PeerRef, Instant> wanted;
    std::vector<GetCall> open;
    const auto drain = [&] {
      while (const auto result = engine.poll_result()) {
        ASSERT_EQ(wanted.count(result->peer), 1U);
        ASSERT_LE(now, wanted[result->peer]);
        wanted.erase(result->peer);
      }
    };
    for (int step = 0; step < 400; ++step) {
      switch (rng.below(6)) {
        case 0: {
          const PeerRef who = peer(static_cast<std::uint32_t>(rng.below(10)));
          const Instant deadline = now + Duration(1ms) * static_cast<int>(rng.below(500));
          engine.request(who, deadline, now);
          Instant& end = wanted[who];
          end = std::max(end, deadline);
          break;
        }
        case 1:
        case 2:
          if (!open.empty()) {
            const std::size_t at = rng.below(open.size());
            const auto status = static_cast<GetStatus>(rng.below(4));
            engine.handle_reply(open[at].id, status, card_bytes(), now);
            open.erase(open.begin() + static_cast<std::ptrdiff_t>(at));
          }
          break;
        case 3:
          if (const auto wake = engine.poll_timeout()) {
            now = std::max(now, std::min(*wake, now + Duration(50ms)));
            engine.handle_timeout(now);
          }
          break;
        case 4:
          if (rng.below(20) == 0) {
            engine.handle_collected();
          }
          break;
        default:
          while (auto call = engine.poll_call(now)) {
            open.push_back(*call);
          }
          break;
      }
      drain();
    }
    for (int left = 0; engine.poll_timeout() && left < 10000; ++left) {
      now = *engine.poll_timeout();
      engine.handle_timeout(now);
      drain();
    }
    EXPECT_TRUE(wanted.empty());
    EXPECT_EQ(engine.pending(), 0U);
  }
}

}  // namespace
}  // namespace wireup::pmix
