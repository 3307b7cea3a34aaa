// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/unique_fd.hpp"
#include "conn/driver/driver.hpp"
#include "softhca/fabric/static_fabric.hpp"
#include "softhca/temp_dir.hpp"

namespace wireup::conn {

/// The cards of all ranks, with their lookups served at once or as soon as the card is there.
class Board {
 public:
  void publish(std::uint32_t rank, std::vector<std::uint8_t> card) {
    const std::lock_guard lock(mutex_);
    cards_[rank] = std::move(card);
  }
  std::optional<std::vector<std::uint8_t>> find(std::uint32_t rank) {
    const std::lock_guard lock(mutex_);
    const auto card = cards_.find(rank);
    return card != cards_.end() ? std::optional(card->second) : std::nullopt;
  }

 private:
  std::mutex mutex_;
  std::map<std::uint32_t, std::vector<std::uint8_t>> cards_;
};

class BoardExchange final : public pmix::Exchange {
 public:
  BoardExchange(Board& board, std::uint32_t rank, std::uint32_t size) : board_(board) {
    job_.nspace = "board";
    job_.rank = rank;
    job_.size = size;
  }

  const pmix::JobInfo& job() const noexcept override { return job_; }
  Result<> publish(std::span<const std::uint8_t> card) override {
    board_.publish(job_.rank, {card.begin(), card.end()});
    return {};
  }
  pmix::PublishState publish_state() const noexcept override {
    return pmix::PublishState::Complete;
  }
  Result<> request(const pmix::PeerRef& peer, Instant deadline, Instant /*now*/) override {
    waiting_.push_back({peer.rank, deadline});
    return {};
  }
  std::optional<pmix::CardResult> poll(Instant now) override {
    for (auto wait = waiting_.begin(); wait != waiting_.end(); ++wait) {
      auto card = board_.find(wait->first);
      if (card.has_value() || wait->second <= now) {
        pmix::CardResult result{{job_.nspace, wait->first}, fail(Errc::CardMissing)};
        if (card.has_value()) {
          result.card = std::move(*card);
        }
        waiting_.erase(wait);
        return result;
      }
    }
    return std::nullopt;
  }
  int fd() const noexcept override { return -1; }
  std::optional<Instant> poll_timeout() const noexcept override {
    return waiting_.empty() ? std::nullopt : std::optional(waiting_.front().second);
  }
  Result<> close(Instant /*deadline*/) override { return {}; }

 private:
  Board& board_;
  pmix::JobInfo job_;
  std::deque<std::pair<std::uint32_t, Instant>> waiting_;
};

/// The path from the port to itself, as a node's cache and resolver would give it.
class OwnPortPaths final : public PathSource {
 public:
  explicit OwnPortPaths(const verbs::PortInfo& port) : port_(port) {}

  /// Does the cache have it? Else it is asked for, and answered by answer().
  bool is_cached = true;
  acm::CacheVersion now{1, false, 7, 0};
  std::uint8_t hop_limit = 0;
  std::optional<Error> refusal;
  std::vector<acm::RankQuestion> asked;
  std::vector<acm::PathKey> failed;
  int port_changes = 0;

  void answer(const acm::RankQuestion& question, const Result<acm::ResolvedPath>& path) {
    answers_.push_back({question, path});
  }
  [[nodiscard]] acm::ResolvedPath path_for(const acm::PathKey& key) const {
    acm::ResolvedPath path;
    path.record.sgid = key.sgid;
    path.record.dgid = key.dgid;
    path.record.slid = port_.lid;
    path.record.dlid = port_.lid;
    path.record.pkey = key.pkey;
    path.record.sl = key.sl.value_or(Sl());
    path.record.service_id = key.service_id;
    path.record.hop_limit = hop_limit;
    path.record.mtu = port_.active_mtu;
    path.record.rate = port_.active_rate;
    path.origin = acm::PathOrigin::AcmMulticast;
    path.generation = now.generation;
    return path;
  }

  std::optional<acm::ResolvedPath> lookup(const acm::PathKey& key) const override {
    return is_cached ? std::optional(path_for(key)) : std::nullopt;
  }
  acm::CacheVersion version(PKey /*pkey*/) const override { return now; }
  Result<> request(const acm::RankQuestion& question, Instant /*deadline*/) override {
    if (refusal.has_value()) {
      return fail(*refusal);
    }
    asked.push_back(question);
    return {};
  }
  void progress(Instant /*now*/) override {}
  std::optional<PathAnswer> poll_answer() override {
    if (answers_.empty()) {
      return std::nullopt;
    }
    const PathAnswer next = answers_.front();
    answers_.pop_front();
    return next;
  }
  int fd() const noexcept override { return -1; }
  std::optional<Instant> poll_timeout() const override {
    return answers_.empty() ? std::nullopt : std::optional(Instant());
  }
  void path_failed(const acm::PathKey& key) override { failed.push_back(key); }
  void port_changed(const verbs::PortInfo& /*port*/) override { ++port_changes; }

 private:
  verbs::PortInfo port_;
  std::deque<PathAnswer> answers_;
};

/// A resolver that finds no path: it says so at once, or says nothing until the deadline.
class NoPaths final : public PathSource {
 public:
  NoPaths(const Error& why, bool is_silent) : why_(why), is_silent_(is_silent) {}
  std::optional<acm::ResolvedPath> lookup(const acm::PathKey& /*key*/) const override {
    return std::nullopt;
  }
  acm::CacheVersion version(PKey /*pkey*/) const override { return {}; }
  Result<> request(const acm::RankQuestion& question, Instant deadline) override {
    asked_.push_back({question, is_silent_ ? deadline : Instant()});
    return {};
  }
  void progress(Instant now) override { now_ = now; }
  std::optional<PathAnswer> poll_answer() override {
    const auto due = std::find_if(asked_.begin(), asked_.end(),
                                  [this](const auto& asked) { return asked.second <= now_; });
    if (due == asked_.end()) {
      return std::nullopt;
    }
    PathAnswer answer{due->first, fail(why_)};
    asked_.erase(due);
    return answer;
  }
  int fd() const noexcept override { return -1; }
  std::optional<Instant> poll_timeout() const override {
    return asked_.empty() ? std::nullopt : std::optional(asked_.front().second);
  }
  void path_failed(const acm::PathKey& /*key*/) override {}
  void port_changed(const verbs::PortInfo& /*port*/) override {}

 private:
  Error why_;
  bool is_silent_;
  Instant now_;
  std::deque<std::pair<acm::RankQuestion, Instant>> asked_;
};

/// Several ranks in this process, each with a driver on the one port of an emulated adapter.
class DriverRig : public testing::Test {
 protected:
  // The emulated adapter looks for its fabric once in a process.
  static void SetUpTestSuite() {
    directory = std::make_unique<softhca_test::TempDir>();
    fabric = softhca::make_star_fabric(directory->path());
    ASSERT_NE(fabric, nullptr);
    ::setenv("SOFTHCA_DIR", directory->path(), 1);
    ::setenv("SOFTHCA_HOST", "H1", 1);
  }
  static void TearDownTestSuite() {
    fabric.reset();
    directory.reset();
  }

  void open(std::uint32_t size, const Options& options = {}) {
    for (std::uint32_t rank = 0; rank < size; ++rank) {
      auto port = verbs::open_port({});
      ASSERT_TRUE(port) << port.error().what();
      Parts parts{std::move(*port), std::make_unique<BoardExchange>(board, rank, size), nullptr};
      parts.paths = make_paths(rank, parts.port.info);
      paths.push_back(dynamic_cast<OwnPortPaths*>(parts.paths.get()));
      auto driver = Driver::open(std::move(parts), options);
      ASSERT_TRUE(driver) << driver.error().what();
      drivers.push_back(std::move(*driver));
    }
  }
  [[nodiscard]] PeerId peer(std::uint32_t rank) const { return {drivers[0]->job().id().job, rank}; }
  /// Progress of all drivers until `done`.
  template <typename Done>
  [[nodiscard]] bool run_until(Done done, std::chrono::seconds limit = std::chrono::seconds(20)) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    while (!done()) {
      for (auto& driver : drivers) {
        EXPECT_TRUE(driver->progress());
      }
      if (std::chrono::steady_clock::now() > deadline) {
        return false;
      }
    }
    return true;
  }
  /// The next event of a driver, which must come.
  [[nodiscard]] UserEvent next_event(std::uint32_t rank) {
    std::optional<UserEvent> event;
    EXPECT_TRUE(run_until([&] { return (event = drivers[rank]->poll_event()).has_value(); }));
    return event.value_or(UserEvent{Failed{}, nullptr});
  }

  Board board;
  std::vector<std::unique_ptr<Driver>> drivers;
  /// Of the drivers, which own them; null for those of another kind. Touch them only while no
  /// helper thread runs.
  std::vector<OwnPortPaths*> paths;
  std::function<std::unique_ptr<PathSource>(std::uint32_t rank, const verbs::PortInfo& port)>
      make_paths = [](std::uint32_t /*rank*/, const verbs::PortInfo& port) {
        return std::make_unique<OwnPortPaths>(port);
      };

 private:
  inline static std::unique_ptr<softhca_test::TempDir> directory;
  inline static std::unique_ptr<softhca::StaticFabric> fabric;
};

}  // namespace wireup::conn
