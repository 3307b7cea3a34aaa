// SPDX-License-Identifier: BSD-3-Clause
//
// Hosts that do everything at once over a network that loses, copies, reorders and delays, and that
// crash now and then: both ends agree, each call ends once, and nothing is left.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "cm/busy_host.hpp"

namespace wireup::cm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct Climate {
  const char* name;
  test::Faults faults;
  bool has_crashes;
};
void PrintTo(const Climate& climate, std::ostream* out) {
  *out << climate.name;
}

class RandomOperations : public testing::TestWithParam<Climate> {
 protected:
  static constexpr std::size_t kHosts = 5;

  void SetUp() override {
    seed_ = test::seed(12);
    network_ = std::make_unique<Network>(seed_);
    network_->set_faults(GetParam().faults);
    Config config = Host::usual_config();
    config.min_rto = milliseconds(10);
    config.initial_rto = milliseconds(50);
    config.max_rto = milliseconds(500);
    config.offer_deadline = seconds(20);
    config.disconnect_deadline = seconds(30);
    config.stale_guard = milliseconds(100);
    for (std::size_t i = 0; i < kHosts; ++i) {
      hosts_.push_back(std::make_unique<BusyHost>(*network_, seed_ * 100 + i, config, stories_));
    }
  }
  void operate() {
    Rng& rng = network_->rng();
    const std::size_t at = rng.below(kHosts);
    const std::size_t peer = (at + 1 + rng.below(kHosts - 1)) % kHosts;
    BusyHost& host = *hosts_[at];
    const auto choice = rng.below(100);
    if (choice < 30) {
      if (host.connect(peer, next_number_)) {
        ++next_number_;
      }
    } else if (choice < 38) {
      meet(at, peer);
    } else if (choice < 41) {
      host.call_off();
    } else if (choice < 66) {
      host.disconnect();
    } else if (choice < 76) {
      host.load_alternate();
    } else if (choice < 80) {
      host.migrate();
    } else if (choice < 85) {
      host.reuse_too_early();
    } else if (choice < 99 || !GetParam().has_crashes || rng.below(10) != 0) {
      host.ask(peer);
    } else {
      crash(at);
    }
    host.host.events.clear();
    host.host.sidr_events.clear();
    network_->run_for(Duration(static_cast<std::int64_t>(rng.below(4000000))));
  }
  /// Both call, in any order; one pair at a time, so that no call meets another one's.
  void meet(std::size_t at, std::size_t peer) {
    if (hosts_[at]->is_meeting(peer) || hosts_[peer]->is_meeting(at) ||
        pairs_.contains({at, peer}) || pairs_.contains({peer, at})) {
      return;
    }
    const std::uint64_t number = next_number_;
    if (!hosts_[at]->meet(peer, number)) {
      return;
    }
    ++next_number_;
    pairs_.insert({at, peer});
    network_->at(network_->now() + milliseconds(network_->rng().below(400)), [=, this] {
      pairs_.erase({at, peer});
      if (hosts_[at]->is_meeting(peer)) {
        hosts_[peer]->meet(at, number);
      }
    });
  }
  void crash(std::size_t at) {
    hosts_[at]->tear_all();
    for (const auto& host : hosts_) {
      host->tear(at);
    }
    hosts_[at]->crash();
    ++crashes_;
  }
  void settle() {
    // Whatever still wants an answer gets one, or is given up, before the last release.
    for (int round = 0; round < 3; ++round) {
      ASSERT_TRUE(network_->run(20000000));
      for (const auto& host : hosts_) {
        host->disconnect_all();
      }
    }
    ASSERT_TRUE(network_->run(20000000));
  }
  void expect_agreement() {
    std::uint64_t both = 0;
    std::uint64_t torn = 0;
    for (auto& [number, story] : stories_) {
      SCOPED_TRACE(testing::Message() << "connection " << number);
      if (story.is_torn) {
        ++torn;
        continue;
      }
      ASSERT_EQ(story.of_caller.established, story.of_other.established);
      ASSERT_EQ(story.of_caller.ends, 1U);
      // A late copy of the REQ may be offered, accepted and refused once more.
      ASSERT_GE(story.of_other.ends, story.of_other.established ? 1U : 0U);
      ASSERT_TRUE(story.of_other.ends == 1 || !story.of_other.called);
      both += story.of_caller.established ? 1 : 0;
    }
    std::printf("%llu of %zu connections established, %llu torn by %u crashes, %llu messages\n",
                static_cast<unsigned long long>(both), stories_.size(),
                static_cast<unsigned long long>(torn), crashes_,
                static_cast<unsigned long long>(network_->stats().sent));
    // Every tenth question is never answered, and every twentieth is refused, at each step.
    EXPECT_GT(both, stories_.size() / 10) << "many succeed";
    EXPECT_EQ(crashes_ > 0, GetParam().has_crashes);
  }
  /// A test in which something never happened would not have tested it.
  void expect_all_happened() {
    std::map<std::string, std::uint64_t> tally;
    for (const auto& host : hosts_) {
      for (const auto& [what, count] : host->tally) {
        tally[what] += count;
      }
    }
    for (const char* what :
         {"ReqReceived", "RepReceived", "Established", "Rejected", "Failed", "Disconnected",
          "TimewaitExit", "MraReceived", "AlternateOffered", "AlternateAnswered", "SidrReqReceived",
          "SidrRepReceived", "resting"}) {
      EXPECT_GT(tally[what], 0U) << what;
    }
  }

  std::uint64_t seed_ = 0;
  std::unique_ptr<Network> network_;
  Stories stories_;
  std::vector<std::unique_ptr<BusyHost>> hosts_;
  std::set<std::pair<std::size_t, std::size_t>> pairs_;
  std::uint64_t next_number_ = 0;
  unsigned crashes_ = 0;
};

TEST_P(RandomOperations, BothEndsAgreeAndNothingIsLeft) {
  const std::uint64_t operations = test::rounds(25000);
  for (std::uint64_t i = 0; i < operations && !HasFailure(); ++i) {
    operate();
  }
  ASSERT_FALSE(HasFailure());
  settle();
  expect_agreement();
  expect_all_happened();
  for (const auto& host : hosts_) {
    host->expect_nothing_left();
  }
}

INSTANTIATE_TEST_SUITE_P(In, RandomOperations,
                         testing::Values(Climate{"calm", {}, false},
                                         Climate{"crashes", {.duplicate_percent = 10}, true},
                                         Climate{"storm",
                                                 {.loss_percent = 20,
                                                  .duplicate_percent = 10,
                                                  .reorder_percent = 20,
                                                  .reorder_delay = milliseconds(20)},
                                                 false},
                                         Climate{"storm_and_crashes",
                                                 {.loss_percent = 10,
                                                  .duplicate_percent = 20,
                                                  .reorder_percent = 20,
                                                  .reorder_delay = milliseconds(20)},
                                                 true}),
                         [](const auto& param) { return std::string(param.param.name); });

}  // namespace
}  // namespace wireup::cm
