// SPDX-License-Identifier: BSD-3-Clause
//
// How often the SA is asked in all: the engine repeats queries, and so could the client below it.
//
//   10,000 ports heard ──► Engine ──► SaClient ──► FakeUmad ──► an SA that answers 100 a second
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <queue>
#include <variant>

#include "acm/engine/engine.hpp"
#include "umad/fake_umad.hpp"
#include "umad/sa_client.hpp"

namespace wireup::umad {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using test::FakeUmad;

constexpr std::size_t kAsked = 10'000;
constexpr Duration kService = milliseconds(10);

/// What an SA does with more than it can answer.
enum class Overload { Queues, Drops, SaysBusy };

class Kindness : public testing::TestWithParam<Overload> {
 protected:
  Kindness()
      : engine_(config(), port(), Rng(1), now_),
        client_(std::move(*SaClient::open(options(), FakeUmad::ops()))) {}

  static acm::Config config() {
    acm::Config config;
    config.route_protocol = acm::RouteProtocol::Sa;
    config.announcements = 0;
    return config;
  }
  static acm::PortIdentity port() {
    acm::PortIdentity port;
    port.gid = gid(0xFFFF);
    port.lid = Lid(0xBFFF);
    port.pkey = PKey(0xFFFF);
    port.qpn = Qpn(7);
    port.rate = mad::kRate10;
    port.mtu = mad::kMtu2048;
    return port;
  }
  static SaClient::Options options() {
    SaClient::Options options;
    options.device = "fake0";
    options.timeout = milliseconds(300);
    options.tries = 2;
    return options;
  }
  static Gid gid(std::size_t index) { return Gid::make(0xFE80000000000000, Guid(0x10000 + index)); }

  void join() {
    while (auto command = engine_.poll_join(now_)) {
      command->record.mlid = Lid(0xC001);
      engine_.handle_join_reply(command->record, now_);
    }
    ASSERT_TRUE(engine_.is_ready());
    mgid_ = acm::group_mgid(PKey(0xFFFF), 0, mad::kRate10, mad::kMtu2048);
  }
  /// Every port is heard once, so that its path is all that is missing.
  void hear(std::size_t index) {
    const acm::Source from{Lid(static_cast<std::uint16_t>(index + 1)), Qpn(0x100), 0, true,
                           gid(index)};
    const mad::AcmAddress self = mad::AcmAddress::gid(gid(index));
    mad::AcmRequest request{Tid(index + 1), self, self, {}};
    request.groups.count = 1;
    request.groups.gids[0] = mgid_;
    mad::Mad bytes;
    mad::serialize(request, bytes);
    engine_.handle_mad(from, bytes, now_);
  }

  /// What the port's driver does (acm_port_sa.cpp): queries are sent once, the engine repeats them.
  void drive() {
    client_.progress(now_);
    while (const auto reply = client_.poll_reply()) {
      const std::uint32_t query = queries_.at(reply->id);
      queries_.erase(reply->id);
      if (reply->record.has_value()) {
        engine_.handle_path_reply(query, std::get<mad::PathRecord>(*reply->record), now_);
      } else {
        const bool is_busy = reply->record.error().is(Errc::Busy);
        engine_.handle_path_failure(
            query, is_busy ? acm::QueryFailure::Busy : acm::QueryFailure::NoAnswer, now_);
      }
    }
    engine_.handle_timeout(now_);
    while (const auto query = engine_.poll_path_query(now_)) {
      queries_.emplace(client_.query_path(query->record, query->component_mask, now_, 1),
                       query->id);
    }
    while (engine_.poll_transmit()) {
    }
    while (const auto event = engine_.poll_event()) {
      const auto* learned = std::get_if<acm::PathLearned>(&*event);
      answered_ += learned != nullptr && learned->wanted ? 1 : 0;
      failed_ += std::holds_alternative<acm::PathUnresolved>(*event) ? 1 : 0;
    }
  }

  /// Takes what was sent, and gives back what is due: answers, and requests whose time is over.
  void serve() {
    for (; taken_ < fake_.sent.size(); ++taken_) {
      const Instant kernel_gives_up = now_ + milliseconds(fake_.sent[taken_].timeout_ms);
      due_.push({kernel_gives_up, taken_, Outcome::TimedOut});
      if (GetParam() == Overload::Queues || free_at_ <= now_) {
        free_at_ = std::max(free_at_, now_) + kService;
        due_.push({free_at_, taken_, Outcome::Answered});
      } else if (GetParam() == Overload::SaysBusy) {
        due_.push({now_ + milliseconds(1), taken_, Outcome::Busy});
      }
    }
    while (!due_.empty() && due_.top().at <= now_) {
      const Due due = due_.top();
      due_.pop();
      if (done_.size() <= due.request) {
        done_.resize(due.request + 1024);
      }
      if (done_[due.request]) {
        continue;  // the kernel drops what comes too late
      }
      done_[due.request] = true;
      give_back(due);
    }
  }

  enum class Outcome { Answered, Busy, TimedOut };
  struct Due {
    Instant at;
    std::size_t request = 0;
    Outcome outcome = Outcome::TimedOut;
    bool operator>(const Due& other) const { return at > other.at; }
  };

  void give_back(const Due& due) {
    if (due.outcome == Outcome::TimedOut) {
      fake_.time_out(due.request);
      return;
    }
    fake_.answer(due.request, due.outcome == Outcome::Busy ? 1 : 0, nullptr);
    if (due.outcome == Outcome::Answered) {
      auto& bytes = fake_.waiting.back().bytes;
      mad::PathRecord record =
          *mad::parse_path_record(std::span(bytes).subspan(56, mad::PathRecord::kSize));
      record.dlid = Lid(static_cast<std::uint16_t>(record.dgid.interface_id().value() - 0xFFFF));
      record.slid = port().lid;
      record.mtu = mad::kMtu4096;
      mad::serialize(record, std::span(bytes).subspan(56).first<mad::PathRecord::kSize>());
    }
  }

  void run_until_answered(Instant limit) {
    while (answered_ + failed_ < kAsked) {
      drive();
      serve();
      if (!fake_.waiting.empty()) {
        continue;
      }
      Instant next = limit;
      for (const auto& at : {engine_.poll_timeout(), client_.poll_timeout()}) {
        next = std::min(next, at.value_or(limit));
      }
      if (!due_.empty()) {
        next = std::min(next, due_.top().at);
      }
      ASSERT_LT(next, limit) << answered_ << " answered, " << failed_ << " failed after "
                             << fake_.sent.size() << " requests";
      now_ = std::max(now_, next);
    }
  }

  Instant now_{seconds(1)};
  FakeUmad fake_;
  acm::Engine engine_;
  SaClient client_;
  Gid mgid_;
  std::map<SaRequestId, std::uint32_t> queries_;
  std::size_t answered_ = 0;
  std::size_t failed_ = 0;
  std::size_t taken_ = 0;
  Instant free_at_;
  std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;
  std::vector<bool> done_;
};

TEST_P(Kindness, TenThousandQuestionsCostAtMostThreeTimesAsManyRequests) {
  join();
  for (std::size_t i = 0; i < kAsked; ++i) {
    hear(i);
  }
  for (std::size_t i = 0; i < kAsked; ++i) {
    ASSERT_TRUE(engine_.resolve(mad::AcmAddress::gid(gid(i)), now_ + minutes(30), now_));
  }
  const Instant start = now_;
  run_until_answered(start + minutes(30));
  EXPECT_EQ(answered_, kAsked);
  EXPECT_EQ(failed_, 0U);
  EXPECT_LE(fake_.sent.size(), 3 * kAsked);
  RecordProperty("requests", static_cast<int>(fake_.sent.size()));
  std::printf("%zu requests for %zu questions in %lld s of the SA's time\n", fake_.sent.size(),
              kAsked,
              static_cast<long long>(std::chrono::duration_cast<seconds>(now_ - start).count()));
}

INSTANTIATE_TEST_SUITE_P(Sa, Kindness,
                         testing::Values(Overload::Queues, Overload::Drops, Overload::SaysBusy),
                         [](const testing::TestParamInfo<Overload>& each) {
                           switch (each.param) {
                             case Overload::Queues:
                               return "Queues";
                             case Overload::Drops:
                               return "Drops";
                             case Overload::SaysBusy:
                               break;
                           }
                           return "SaysBusy";
                         });

}  // namespace
}  // namespace wireup::umad
