// SPDX-License-Identifier: BSD-3-Clause
//
// Random commands of two consumers over kernel carriers while calls fail, messages wait on the wire
// and peers fall silent. Whatever happened: every connection ends, and nothing is left over (the
// fixture looks).
#include <array>
#include <map>
#include <utility>
#include <vector>

#include "base/rng.hpp"
#include "cm/kernel_pair.hpp"
#include "support/seed.hpp"

namespace wireup::cm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::array<const char*, 9> kCalls{"create_id", "resolve_addr", "set_option",
                                            "connect",   "accept",       "establish",
                                            "reject",    "disconnect",   "get_cm_event"};

class KernelRandom : public KernelPair {
 protected:
  /// A consumer that decides at random, and remembers what is established.
  void play(KernelRank& rank) {
    rank.on_event = [this, &rank](const Event& event) {
      if (const auto* req = std::get_if<ReqReceived>(&event)) {
        names_[{&rank, req->handle}] = req->req.local_comm_id;
        decide(rank, *req);
        return true;
      }
      if (const auto* rep = std::get_if<RepReceived>(&event)) {
        names_[{&rank, rep->handle}] = rep->rep.local_comm_id;
        expect_done(
            rng_.below(10) == 0
                ? rank.engine().reject(rep->handle, mad::RejReason::ConsumerReject, {}, {}, now_)
                : rank.engine().establish(rep->handle, {}, now_));
        return true;
      }
      return false;
    };
  }
  /// Unless the connection has ended since, which the next event will tell.
  static void expect_done(const Result<>& done) {
    EXPECT_TRUE(done || done.error().is(Errc::NotFound) || done.error().is(Errc::InvalidState))
        << done.error().what();
  }
  void decide(KernelRank& rank, const ReqReceived& req) {
    switch (rng_.below(8)) {
      case 0:
        expect_done(rank.engine().reject(req.handle, mad::RejReason::ConsumerReject, {}, {}, now_));
        return;
      case 1:
        abandon(rank, req.handle);
        return;
      case 2:
        return;  // forgotten: the offer's deadline ends it
      default:
        // It fails when the peer's queue pair is in another connection.
        if (!rank.engine().accept(req.handle, rank.accept_params(next_qpn_++), now_)) {
          abandon(rank, req.handle);
        }
        return;
    }
  }
  void abandon(KernelRank& rank, Handle handle) {
    rank.engine().abandon(handle, now_);
    const auto name = names_.find({&rank, handle});
    if (name != names_.end()) {
      rank.carrier().forget(name->second);
    }
  }
  void step(KernelRank& rank, KernelRank& peer) {
    switch (rng_.below(10)) {
      case 0:
      case 1:
      case 2:
      case 3:
        handles_.emplace_back(&rank,
                              rank.connect(peer, next_qpn_++, now_,
                                           milliseconds(1 + static_cast<int>(rng_.below(20'000)))));
        break;
      case 4:
      case 5: {
        // Release some connection that this rank has, active or passive.
        std::vector<Handle> mine;
        for (const auto& [key, name] : names_) {
          if (key.first == &rank && rank.engine().state(key.second) == State::Established) {
            mine.push_back(key.second);
          }
        }
        if (!mine.empty()) {
          disconnect(rank, mine[rng_.below(mine.size())]);
        }
        break;
      }
      case 6:
        kernel_.failing = kCalls[rng_.below(kCalls.size())];
        kernel_.error = rng_.below(2) == 0 ? EINVAL : ENOMEM;
        break;
      case 7:
        kernel_.is_held = !kernel_.is_held;
        if (!kernel_.is_held) {
          kernel_.deliver();
        }
        break;
      case 8:
        if (!kernel_.unreachable.erase(peer.gid()) && rng_.below(4) == 0) {
          kernel_.unreachable.insert(peer.gid());
        }
        break;
      default:
        now_ += milliseconds(static_cast<int>(rng_.below(3000)));
        break;
    }
    if (rng_.below(2) == 0) {
      settle();
    }
  }
  /// All connections of both are released, without faults.
  void finish() {
    kernel_.failing.clear();
    kernel_.unreachable.clear();
    kernel_.is_held = false;
    kernel_.deliver();
    // A request that was abandoned may be made again meanwhile, and end in a connection.
    for (int i = 0; i < 100; ++i) {
      run_dry();
      bool any = false;
      for (const auto& [key, name] : names_) {
        if (key.first->engine().state(key.second) == State::Established) {
          any = true;
          disconnect(*key.first, key.second);
          settle();
        }
      }
      if (!any) {
        return;
      }
    }
    FAIL() << "connections never end";
  }

  Rng rng_{1};
  std::uint32_t next_qpn_ = 0x1000;
  std::vector<std::pair<KernelRank*, Handle>> handles_;
  /// Connections that have met their peer, and its name.
  std::map<std::pair<KernelRank*, Handle>, CommId> names_;
};

INSTANTIATE_TEST_SUITE_P(Media, KernelRandom, testing::Values(Medium::Infiniband, Medium::Roce),
                         [](const auto& medium) {
                           return medium.param == Medium::Infiniband ? "Infiniband" : "Roce";
                         });

TEST_P(KernelRandom, NothingIsLeftWhateverHappens) {
  rng_ = Rng(test::seed());
  play(a());
  play(b());
  std::uint64_t established = 0;
  for (std::uint64_t round = 0; round < test::rounds(40); ++round) {
    for (int i = 0; i < 100; ++i) {
      if (rng_.below(2) == 0) {
        step(a(), b());
      } else {
        step(b(), a());
      }
    }
    finish();
    established += a().all<Established>().size() + b().all<Established>().size();
    for (const auto& [rank, handle] : handles_) {
      EXPECT_FALSE(rank->engine().state(handle).has_value());
    }
    EXPECT_EQ(a().engine().connections(), 0U);
    EXPECT_EQ(b().engine().connections(), 0U);
    ASSERT_EQ(kernel_.ids(), 2U) << "in round " << round;
    handles_.clear();
    names_.clear();
    kernel_.calls.clear();
    for (KernelRank* rank : {&a(), &b()}) {
      rank->events.clear();
      rank->poll_errors.clear();
      EXPECT_TRUE(rank->send_errors.empty());
    }
  }
  EXPECT_GT(established, 100U) << "it is about connections";
}

}  // namespace
}  // namespace wireup::cm
