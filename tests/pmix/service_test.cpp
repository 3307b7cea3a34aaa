// SPDX-License-Identifier: BSD-3-Clause
// The service thread and the exchange over a library of ours that can fail, be late or hang.
#include "pmix/driver/service.hpp"

#include <gtest/gtest.h>
#include <poll.h>

#include <map>
#include <set>

#include "base/clock.hpp"
#include "pmix/driver/service_exchange.hpp"

namespace wireup::pmix {
namespace {

using namespace std::chrono_literals;
using Bytes = std::vector<std::uint8_t>;

constexpr Status kSuccess{Outcome::Success, 0, "SUCCESS"};
constexpr Status kNotFound{Outcome::NotFound, -46, "NOT-FOUND"};
constexpr Status kUnreachable{Outcome::Unreachable, -25, "UNREACHABLE"};
Bytes card_bytes() {
  return {9, 8, 7};
}

/// What happens is decided by the public members; call them under lock().
class FakeLibrary final : public Library {
 public:
  Status init(ReplySink& sink, std::string& nspace, std::uint32_t& rank) override {
    auto guard = enter("init");
    sink_ = &sink;
    if (!init_result.is(Outcome::Success)) {
      return init_result;
    }
    ++references;
    nspace = "job";
    rank = 1;
    return kSuccess;
  }
  Status finalize() override {
    auto guard = enter("finalize");
    --references;
    return kSuccess;
  }
  Status put(const std::string& key, std::span<const std::uint8_t> value) override {
    auto guard = enter("put");
    cards[key].assign(value.begin(), value.end());
    return put_result;
  }
  Status commit() override {
    auto guard = enter("commit");
    return kSuccess;
  }
  Status fence(std::uint64_t id, const std::string&, std::uint32_t size) override {
    auto guard = enter("fence");
    EXPECT_EQ(size, 4U);
    fences.push_back(id);
    return fence_result;
  }
  Status get(std::uint64_t id, const PeerRef& peer, const std::string& key, bool local_only,
             Duration) override {
    {
      auto guard = enter("get");
      gets.push_back({id, peer, key, local_only});
      if (!answer_gets) {
        return kSuccess;
      }
    }
    sink_->value_done(id, kSuccess, card_bytes());
    return kSuccess;
  }
  Status get_job_value(std::uint64_t id, const std::string&, JobKey key) override {
    { auto guard = enter("get_job_value"); }
    if (key == JobKey::Size) {
      sink_->value_done(id, job_size_status, job_size);
    } else {
      sink_->value_done(id, kSuccess, std::string("3,1"));
    }
    return kSuccess;
  }

  /// Blocks the next call named `name` inside the library until release().
  void hang_in(const char* name) {
    const std::lock_guard lock(mutex_);
    hang_ = name;
  }
  void release() {
    {
      const std::lock_guard lock(mutex_);
      hang_.clear();
    }
    changed_.notify_all();
  }
  /// Waits until `name` has been called `count` times.
  [[nodiscard]] bool await(const std::string& name, int count = 1) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, 20s, [&] { return calls_[name] >= count; });
  }
  [[nodiscard]] int count(const std::string& name) {
    const std::lock_guard lock(mutex_);
    return calls_[name];
  }
  [[nodiscard]] std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }
  ReplySink& sink() { return *sink_; }

  struct Get {
    std::uint64_t id;
    PeerRef peer;
    std::string key;
    bool local_only;
  };
  Status init_result = kSuccess;
  Status put_result = kSuccess;
  Status fence_result = kSuccess;
  Status job_size_status = kSuccess;
  Value job_size = std::uint64_t{4};
  bool answer_gets = true;
  int references = 0;
  std::map<std::string, Bytes> cards;
  std::vector<std::uint64_t> fences;
  std::vector<Get> gets;

 private:
  std::unique_lock<std::mutex> enter(const char* name) {
    std::unique_lock lock(mutex_);
    ++calls_[name];
    changed_.notify_all();
    changed_.wait(lock, [&] { return hang_ != name; });
    return lock;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, int> calls_;
  std::string hang_;
  ReplySink* sink_ = nullptr;
};

class ServiceTest : public testing::Test {
 protected:
  ServiceTest() : library_(new FakeLibrary), service_(std::unique_ptr<Library>(library_)) {}
  ~ServiceTest() override {
    library_->release();
    EXPECT_TRUE(service_.stop(in(20s)));
    EXPECT_EQ(library_->references, 0) << "finalized exactly as often as initialised";
  }

  static Instant in(Duration time) { return monotonic_now() + time; }

  std::unique_ptr<Exchange> open(bool collect = true, Duration limit = 20s) {
    PmixOptions options;
    options.collect = collect;
    options.open_limit = limit;
    auto exchange = ServiceExchange::open(service_, options);
    EXPECT_TRUE(exchange) << exchange.error().what();
    return exchange ? std::move(*exchange) : nullptr;
  }
  void complete_fence(std::size_t index, const Status& status = kSuccess) {
    ASSERT_TRUE(library_->await("fence", static_cast<int>(index) + 1));
    std::uint64_t id = 0;
    {
      const auto guard = library_->lock();
      id = library_->fences.at(index);
    }
    service_.operation_done(id, status);
  }
  /// Waits by fd and timeout as a context does.
  static std::optional<CardResult> wait_result(Exchange& exchange) {
    const Instant end = in(20s);
    while (monotonic_now() < end) {
      if (auto result = exchange.poll(monotonic_now())) {
        return result;
      }
      const Instant wake = std::min(exchange.poll_timeout().value_or(end), end);
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(wake - monotonic_now());
      pollfd waiter{exchange.fd(), POLLIN, 0};
      ::poll(&waiter, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
    }
    return std::nullopt;
  }
  static bool readable(Exchange& exchange) {
    pollfd waiter{exchange.fd(), POLLIN, 0};
    return ::poll(&waiter, 1, 0) == 1;
  }

  FakeLibrary* library_;  // owned by service_
  Service service_;
};

TEST_F(ServiceTest, TellsWhoWeAre) {
  const auto exchange = open();
  EXPECT_EQ(exchange->job().nspace, "job");
  EXPECT_EQ(exchange->job().rank, 1U);
  EXPECT_EQ(exchange->job().size, 4U);
  EXPECT_EQ(exchange->job().local_peers, (std::vector<std::uint32_t>{1, 3}));
  EXPECT_TRUE(exchange->publish(card_bytes()));
  complete_fence(0);
  EXPECT_TRUE(exchange->close(in(20s)));
}

TEST_F(ServiceTest, WithoutAServerSaysWhatToDoAndCanTryAgain) {
  library_->init_result = kUnreachable;
  const auto refused = ServiceExchange::open(service_, {});
  ASSERT_FALSE(refused);
  EXPECT_TRUE(refused.error().is(Errc::NoPmix));
  EXPECT_NE(refused.error().what().find("srun --mpi=pmix"), std::string_view::npos);
  {
    const auto guard = library_->lock();
    library_->init_result = kSuccess;
  }
  EXPECT_TRUE(open(false));
}

TEST_F(ServiceTest, AServerWithoutAJobSizeGetsItsReferenceBack) {
  library_->job_size_status = kNotFound;
  const auto refused = ServiceExchange::open(service_, {});
  ASSERT_FALSE(refused);
  EXPECT_TRUE(refused.error().is(Errc::NoPmix));
  EXPECT_EQ(library_->references, 0);
}

TEST_F(ServiceTest, ARankOutsideTheJobIsRefused) {
  for (const Value& size : {Value{std::uint64_t{1}}, Value{std::uint64_t{0}}, Value{},
                            Value{std::string("4")}, Value{std::uint64_t{1} << 40U}}) {
    {
      const auto guard = library_->lock();
      library_->job_size = size;
    }
    EXPECT_FALSE(ServiceExchange::open(service_, {}));
  }
}

TEST_F(ServiceTest, InitialisesOnceForAllExchanges) {
  const auto first = open(false);
  const auto second = open(false);
  EXPECT_EQ(library_->count("init"), 1);
  ASSERT_TRUE(first->publish(card_bytes()));
  ASSERT_TRUE(second->publish(card_bytes()));
  ASSERT_TRUE(first->close(in(20s)));
  ASSERT_TRUE(second->close(in(20s)));
  EXPECT_EQ(library_->cards.size(), 2U) << "each exchange has a key of its own";
  EXPECT_EQ(library_->count("finalize"), 0) << "the reference is kept for the process's life";
}

TEST_F(ServiceTest, AnInitThatHangsEndsByTheLimitAndIsFinalizedWhenItReturns) {
  library_->hang_in("init");
  PmixOptions options;
  options.open_limit = 20ms;
  const auto exchange = ServiceExchange::open(service_, options);
  ASSERT_FALSE(exchange);
  EXPECT_TRUE(exchange.error().is(Errc::Timeout));
  // The destructor lets it go and checks the books.
}

TEST_F(ServiceTest, PublishesAndLooksUp) {
  const auto exchange = open();
  EXPECT_EQ(exchange->publish_state(), PublishState::NotPublished);
  ASSERT_TRUE(exchange->publish(card_bytes()));
  EXPECT_EQ(exchange->publish_state(), PublishState::Publishing);
  EXPECT_TRUE(exchange->publish(card_bytes()).error().is(Errc::InvalidState));
  ASSERT_TRUE(library_->await("fence"));
  EXPECT_FALSE(exchange->poll(monotonic_now()));
  EXPECT_EQ(exchange->publish_state(), PublishState::Collecting);
  EXPECT_EQ(library_->cards.at("wireup.card.0"), card_bytes());

  ASSERT_TRUE(exchange->request({"", 2}, in(20s), monotonic_now()));
  EXPECT_EQ(wait_result(*exchange), (CardResult{{"job", 2}, card_bytes()}));
  EXPECT_FALSE(exchange->poll(monotonic_now()));
  EXPECT_FALSE(readable(*exchange));
  ASSERT_TRUE(exchange->request({"job", 2}, in(20s), monotonic_now()));
  EXPECT_TRUE(readable(*exchange)) << "a cached card is ready at once";
  EXPECT_TRUE(exchange->poll(monotonic_now()));
  EXPECT_FALSE(exchange->poll(monotonic_now()));
  EXPECT_FALSE(readable(*exchange));
  EXPECT_EQ(library_->gets.size(), 1U);

  complete_fence(0);
  EXPECT_TRUE(readable(*exchange));
  EXPECT_FALSE(exchange->poll(monotonic_now()));
  EXPECT_EQ(exchange->publish_state(), PublishState::Complete);
  EXPECT_TRUE(exchange->close(in(20s)));
  EXPECT_TRUE(exchange->close(in(20s)));
  EXPECT_TRUE(exchange->request({"", 2}, in(20s), monotonic_now()).error().is(Errc::InvalidState));
}

TEST_F(ServiceTest, RefusesMisuse) {
  const auto exchange = open(false);
  EXPECT_TRUE(exchange->publish({}).error().is(Errc::InvalidArgument));
  EXPECT_TRUE(exchange->publish(Bytes(4097)).error().is(Errc::InvalidArgument));
  const Instant now = monotonic_now();
  EXPECT_TRUE(exchange->request({"", 4}, in(20s), now).error().is(Errc::InvalidArgument));
  EXPECT_TRUE(exchange->request({std::string(256, 'x'), 0}, in(20s), now)
                  .error()
                  .is(Errc::InvalidArgument));
}

TEST_F(ServiceTest, ValuesThatAreNoCardAreMalformed) {
  const auto exchange = open(false);
  library_->answer_gets = false;
  std::uint32_t rank = 0;
  for (const Value& value :
       {Value{}, Value{std::string("text")}, Value{Bytes{}}, Value{Bytes(4097)}}) {
    ASSERT_TRUE(exchange->request({"", rank}, in(20s), monotonic_now()));
    ASSERT_TRUE(library_->await("get", static_cast<int>(rank) + 1));
    std::uint64_t id = 0;
    {
      const auto guard = library_->lock();
      id = library_->gets.back().id;
    }
    service_.value_done(id, kSuccess, value);
    const auto result = wait_result(*exchange);
    ASSERT_TRUE(result);
    EXPECT_TRUE(result->card.error().is(Errc::Malformed));
    ++rank;
  }
}

TEST_F(ServiceTest, FencesOfAProcessRunOneAfterTheOther) {
  const auto first = open();
  const auto second = open();
  ASSERT_TRUE(first->publish(card_bytes()));
  ASSERT_TRUE(second->publish(card_bytes()));
  ASSERT_TRUE(library_->await("commit", 2));
  // A later call of the service has been made, so a second fence would have been seen.
  ASSERT_TRUE(second->request({"", 0}, in(20s), monotonic_now()));
  ASSERT_TRUE(library_->await("get"));
  EXPECT_EQ(library_->count("fence"), 1);
  complete_fence(0);
  EXPECT_TRUE(first->close(in(20s)));
  complete_fence(1);
  EXPECT_TRUE(second->close(in(20s)));
}

TEST_F(ServiceTest, CloseWaitsForTheFence) {
  const auto exchange = open();
  ASSERT_TRUE(exchange->publish(card_bytes()));
  ASSERT_TRUE(library_->await("fence"));
  std::thread others([this] { complete_fence(0); });
  EXPECT_TRUE(exchange->close(in(20s)));
  EXPECT_EQ(exchange->publish_state(), PublishState::Complete);
  others.join();
}

TEST_F(ServiceTest, CloseGivesUpAtItsDeadlineAndALateFenceHurtsNobody) {
  auto exchange = open();
  ASSERT_TRUE(exchange->publish(card_bytes()));
  ASSERT_TRUE(library_->await("fence"));
  const auto closed = exchange->close(in(20ms));
  ASSERT_FALSE(closed);
  EXPECT_TRUE(closed.error().is(Errc::Timeout));
  exchange.reset();
  complete_fence(0);
}

TEST_F(ServiceTest, AFenceThatWasGivenUpDoesNotHoldUpTheExit) {
  const auto exchange = open();
  ASSERT_TRUE(exchange->publish(card_bytes()));
  ASSERT_TRUE(library_->await("fence"));
  EXPECT_FALSE(exchange->close(in(1ms)));
  const Instant start = monotonic_now();
  EXPECT_TRUE(service_.stop(in(30s)));
  EXPECT_LT(monotonic_now() - start, 10s);
  EXPECT_EQ(library_->count("finalize"), 1);
}

TEST_F(ServiceTest, TheExitWaitsForAFenceThatNobodyClosed) {
  const auto exchange = open();
  ASSERT_TRUE(exchange->publish(card_bytes()));
  ASSERT_TRUE(library_->await("fence"));
  std::thread others([this] {
    // stop() has been called or soon will be: in both cases it has to see this first.
    EXPECT_EQ(library_->count("finalize"), 0);
    complete_fence(0);
  });
  EXPECT_TRUE(service_.stop(in(30s)));
  EXPECT_EQ(library_->count("finalize"), 1);
  others.join();
}

TEST_F(ServiceTest, CloseWithoutPublishTakesPartForTheOthersSake) {
  const auto exchange = open();
  std::thread others([this] { complete_fence(0); });
  EXPECT_TRUE(exchange->close(in(20s)));
  others.join();
  EXPECT_EQ(library_->count("put"), 0);
  EXPECT_EQ(library_->count("fence"), 1);
}

TEST_F(ServiceTest, OneThatIsDroppedBeforeItPublishedTakesPartToo) {
  open().reset();
  complete_fence(0);
  EXPECT_EQ(library_->count("put"), 0);
}

TEST_F(ServiceTest, WithoutCollectingThereIsNoFence) {
  const auto exchange = open(false);
  ASSERT_TRUE(exchange->publish(card_bytes()));
  EXPECT_TRUE(exchange->close(in(20s)));
  EXPECT_EQ(exchange->publish_state(), PublishState::Single);
  EXPECT_EQ(library_->count("fence"), 0);
}

TEST_F(ServiceTest, AFailedPutIsReportedAndTheFenceRunsAllTheSame) {
  library_->put_result = Status{Outcome::Other, -27, "BAD-PARAM"};
  const auto exchange = open();
  ASSERT_TRUE(exchange->publish(card_bytes()));
  complete_fence(0);
  const auto closed = exchange->close(in(20s));
  ASSERT_FALSE(closed);
  EXPECT_TRUE(closed.error().is(Errc::NoPmix));
  EXPECT_NE(closed.error().what().find("put failed: BAD-PARAM"), std::string_view::npos);
}

TEST_F(ServiceTest, AFailedFenceIsReported) {
  library_->fence_result = Status{Outcome::Other, -1, "ERROR"};
  const auto exchange = open();
  ASSERT_TRUE(exchange->publish(card_bytes()));
  EXPECT_FALSE(exchange->close(in(20s)));
  EXPECT_EQ(exchange->publish_state(), PublishState::Failed);
}

TEST_F(ServiceTest, APartialFenceIsAnEnd) {
  const auto exchange = open();
  ASSERT_TRUE(exchange->publish(card_bytes()));
  complete_fence(0, Status{Outcome::Partial, -52, "PARTIAL-SUCCESS"});
  EXPECT_TRUE(exchange->close(in(20s)));
  EXPECT_EQ(exchange->publish_state(), PublishState::Partial);
}

TEST_F(ServiceTest, TheEndOfTheServerEndsEverythingButTheCache) {
  const auto exchange = open();
  ASSERT_TRUE(exchange->publish(card_bytes()));
  ASSERT_TRUE(library_->await("fence"));
  ASSERT_TRUE(exchange->request({"", 2}, in(20s), monotonic_now()));
  ASSERT_TRUE(wait_result(*exchange));
  {
    const auto guard = library_->lock();
    library_->answer_gets = false;
  }
  ASSERT_TRUE(exchange->request({"", 3}, in(20s), monotonic_now()));
  service_.server_lost();
  const auto lost = wait_result(*exchange);
  ASSERT_TRUE(lost);
  EXPECT_TRUE(lost->card.error().is(Errc::NoPmix));
  ASSERT_TRUE(exchange->request({"", 2}, in(20s), monotonic_now()));
  EXPECT_EQ(wait_result(*exchange)->card, card_bytes());
  EXPECT_TRUE(exchange->close(in(20s))) << "nobody is left to wait for";
  EXPECT_EQ(exchange->publish_state(), PublishState::Failed);
  // One that is opened later hears of it as well.
  const auto later = open();
  ASSERT_TRUE(later->publish(card_bytes()));
  ASSERT_TRUE(later->request({"", 2}, in(20s), monotonic_now()));
  EXPECT_TRUE(wait_result(*later)->card.error().is(Errc::NoPmix));
  EXPECT_TRUE(later->close(in(20s)));
}

/// Every call in which the service thread can be stuck for ever.
class HangTest : public ServiceTest, public testing::WithParamInterface<const char*> {};

TEST_P(HangTest, NothingWaitsLongerThanItsDeadline) {
  auto exchange = open();
  library_->hang_in(GetParam());
  ASSERT_TRUE(exchange->publish(card_bytes()));
  ASSERT_TRUE(exchange->request({"", 2}, in(30ms), monotonic_now()));
  ASSERT_TRUE(library_->await(GetParam()));
  const auto result = wait_result(*exchange);
  ASSERT_TRUE(result);
  if (!result->card) {
    EXPECT_TRUE(result->card.error().is(Errc::Timeout)) << result->card.error().what();
  }
  const auto closed = exchange->close(in(10ms));
  ASSERT_FALSE(closed);
  EXPECT_TRUE(closed.error().is(Errc::Timeout));
  exchange.reset();
  const auto stopped = service_.stop(in(10ms));
  ASSERT_FALSE(stopped);
  EXPECT_TRUE(stopped.error().is(Errc::Timeout));
  EXPECT_EQ(library_->count("finalize"), 0);
  // Released by the destructor, which finds the reference given back.
}

INSTANTIATE_TEST_SUITE_P(Calls, HangTest, testing::Values("put", "commit", "fence", "get"),
                         [](const auto& call) { return std::string(call.param); });

TEST_F(ServiceTest, AHangingFinalizeIsLeftBehind) {
  const auto exchange = open(false);
  library_->hang_in("finalize");
  const auto stopped = service_.stop(in(20ms));
  ASSERT_FALSE(stopped);
  EXPECT_TRUE(stopped.error().is(Errc::Timeout));
}

TEST_F(ServiceTest, NothingStartsAfterTheStop) {
  { const auto exchange = open(false); }
  ASSERT_TRUE(service_.stop(in(20s)));
  const auto late = ServiceExchange::open(service_, {});
  ASSERT_FALSE(late);
  EXPECT_TRUE(late.error().is(Errc::InvalidState));
}

}  // namespace
}  // namespace wireup::pmix
