// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/result.hpp"
#include "base/time.hpp"
#include "pmix/driver/library.hpp"
#include "pmix/driver/mailbox.hpp"
#include "pmix/engine/lookup_engine.hpp"
#include "pmix/engine/types.hpp"

namespace wireup::pmix {

/// The one place that calls PMIx: a thread that executes calls in order, and the books about what
/// is under way. Even a non-blocking PMIx call can block inside the library, so nobody else waits
/// for this thread without a deadline; an answer goes from the library's thread straight to the
/// mailbox, not through this one.
///
/// All methods may be called from any thread. An object that has been started must not be
/// destroyed before stop() succeeded; process_service() is never destroyed.
class Service final : public ReplySink {
 public:
  explicit Service(std::unique_ptr<Library> library) : library_(std::move(library)) {}
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;
  ~Service() override;

  /// Takes the PMIx reference, once however often it is called, and reads who we are. After a
  /// NoPmix the next call tries again.
  Result<JobInfo> start(Instant deadline);

  /// A new exchange: its ordinal in this process. The mailbox hears of the server's end.
  std::uint32_t attach(const std::shared_ptr<Mailbox>& mailbox);

  void get(const std::shared_ptr<Mailbox>& mailbox, const std::string& key, GetCall call);

  /// Puts `card` under `key` if it is not empty, and then takes part in the fence if `collect`.
  /// Fences of a process run one after the other, since PMIx cannot tell two with the same members
  /// apart. Answers: CardIsOut (with a card only), then PublishEnded.
  void publish(const std::shared_ptr<Mailbox>& mailbox, const std::string& key,
               std::vector<std::uint8_t> card, bool collect);
  /// stop() need not wait for the fences of this mailbox any more.
  void give_up(const std::shared_ptr<Mailbox>& mailbox);

  /// Gives the PMIx reference back, after the fences that nobody gave up, and ends the thread. By
  /// `deadline` it returns Timeout instead, leaving the thread behind with its reference; safe, but
  /// the launcher will say that the process did not finalize.
  Result<> stop(Instant deadline);

  void operation_done(std::uint64_t id, const Status& status) override;
  void value_done(std::uint64_t id, const Status& status, Value value) override;
  void server_lost() override;

 private:
  enum class Phase : std::uint8_t { Idle, Starting, Ready, Stopping, Stopped };
  struct Get {
    std::shared_ptr<Mailbox> mailbox;
    std::uint64_t call_id = 0;
  };
  struct Fence {
    std::shared_ptr<Mailbox> mailbox;
    bool given_up = false;
    /// A failed put or commit: the fence runs all the same, for the others' sake.
    std::optional<PublishEnded> failure;
    bool card_is_out = false;  // put and commit have been tried
  };

  void run();
  void enqueue(std::function<void()> call);
  void do_start();
  void do_stop();
  Result<JobInfo> read_job(const std::string& nspace, std::uint32_t rank);
  Result<Value> job_value(const std::string& nspace, Library::JobKey key, const char* name);
  void do_get(const std::shared_ptr<Mailbox>& mailbox, const std::string& key, const GetCall& call);
  void do_publish(const std::shared_ptr<Mailbox>& mailbox, const std::string& key,
                  const std::vector<std::uint8_t>& card, bool collect);
  void start_next_fence();
  void end_fence(std::uint64_t id, const Status& status);
  [[nodiscard]] bool fences_are_over() const;

  const std::unique_ptr<Library> library_;
  std::thread thread_;

  mutable std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::deque<std::function<void()>> calls_;
  Phase phase_ = Phase::Idle;
  bool initialised_ = false;  // we hold a PMIx reference
  std::optional<JobInfo> job_;
  Error start_error_;  // of the last attempt, while there is no job_
  std::uint64_t next_id_ = 1;
  std::unordered_map<std::uint64_t, Get> gets_;
  std::uint64_t awaited_job_value_ = 0;  // id of the question of job_value()
  std::optional<std::pair<Status, Value>> job_value_;
  std::deque<Fence> fences_;  // the first is under way while running_fence_ is not 0
  std::uint64_t running_fence_ = 0;
  std::vector<std::weak_ptr<Mailbox>> mailboxes_;
  std::uint32_t next_ordinal_ = 0;
  bool server_lost_ = false;
};

/// The service of this process over the real library, made at the first call and kept. An exit
/// handler stops it.
[[nodiscard]] Service& process_service();

}  // namespace wireup::pmix
