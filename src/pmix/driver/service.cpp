// SPDX-License-Identifier: BSD-3-Clause
#include "pmix/driver/service.hpp"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "pmix/driver/steady.hpp"
#include "pmix/engine/rank_list.hpp"

namespace wireup::pmix {
namespace {

using std::chrono::seconds;

/// Job-level values are on this node; an answer takes microseconds.
constexpr Duration kJobValueLimit = seconds(5);
/// Of stop(): what is kept back from waiting for fences, so that there is time to finalize.
constexpr Duration kFinalizeReserve = seconds(2);
/// How long the exit of a process may be held up, fences included.
constexpr Duration kExitLimit = seconds(6);
/// More ranks than any machine has cores; bounds what a wrong answer can make us allocate.
constexpr std::uint64_t kMaxJobSize = std::uint64_t{1} << 24U;

constexpr Status kServerLost{Outcome::Unreachable, 0, "server lost"};

Error no_pmix(const Status& status) {
  return Error::make(
      Errc::NoPmix,
      "PMIx: no server answers (%s, %d): start the program with mpirun, or with srun "
      "--mpi=pmix",
      status.name, status.code);
}

}  // namespace

Service::~Service() {
  WIREUP_CHECK(!thread_.joinable());
}

void Service::enqueue(std::function<void()> call) {
  {
    const std::lock_guard lock(mutex_);
    calls_.push_back(std::move(call));
  }
  changed_.notify_all();
}

void Service::run() {
  pthread_setname_np(pthread_self(), "wireup-pmix");
  std::unique_lock lock(mutex_);
  while (phase_ != Phase::Stopped) {
    if (calls_.empty()) {
      // Without a deadline on purpose: the thread has nothing to do until it is told, and stop()
      // always tells it.
      changed_.wait(lock);
      continue;
    }
    const std::function<void()> call = std::move(calls_.front());
    calls_.pop_front();
    lock.unlock();
    call();
    lock.lock();
  }
}

Result<JobInfo> Service::start(Instant deadline) {
  std::unique_lock lock(mutex_);
  if (phase_ == Phase::Stopping || phase_ == Phase::Stopped) {
    return fail(Error::make(Errc::InvalidState, "PMIx: the process is ending"));
  }
  if (phase_ == Phase::Idle) {
    phase_ = Phase::Starting;
    calls_.emplace_back([this] { do_start(); });
    if (!thread_.joinable()) {
      // The thread inherits the mask: signals are for the application's threads.
      sigset_t all;
      sigset_t before;
      sigfillset(&all);
      pthread_sigmask(SIG_SETMASK, &all, &before);
      thread_ = std::thread([this] { run(); });
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
    }
    changed_.notify_all();
  }
  if (!changed_.wait_until(lock, to_steady(deadline),
                           [this] { return phase_ != Phase::Starting; })) {
    return fail(Error::make(Errc::Timeout,
                            "PMIx: the server did not answer in time: look at the launcher and its "
                            "daemon on this node"));
  }
  if (!job_) {
    return fail(start_error_);
  }
  return *job_;
}

void Service::do_start() {
  std::string nspace;
  std::uint32_t rank = 0;
  Result<JobInfo> job = fail(Errc::Internal);
  const Status status = library_->init(*this, nspace, rank);
  if (status.is(Outcome::Success)) {
    {
      const std::lock_guard lock(mutex_);
      initialised_ = true;
    }
    job = read_job(nspace, rank);
    if (!job) {
      // Nothing can be done with such a server: give the reference back at once.
      static_cast<void>(library_->finalize());
      const std::lock_guard lock(mutex_);
      initialised_ = false;
    }
  } else if (status.is(Outcome::Unreachable)) {
    job = fail(no_pmix(status));
  } else {
    job = fail(Error::make(Errc::NoPmix, "PMIx: initialisation failed: %s (%d)", status.name,
                           status.code));
  }
  {
    const std::lock_guard lock(mutex_);
    if (phase_ == Phase::Starting) {
      phase_ = job ? Phase::Ready : Phase::Idle;
    }
    if (job) {
      job_ = std::move(*job);
    } else {
      start_error_ = job.error();
    }
  }
  changed_.notify_all();
}

Result<JobInfo> Service::read_job(const std::string& nspace, std::uint32_t rank) {
  JobInfo job;
  job.nspace = nspace;
  job.rank = rank;
  const auto size = job_value(nspace, Library::JobKey::Size, "the size of the job");
  if (!size) {
    return fail(size.error());
  }
  const auto* number = std::get_if<std::uint64_t>(&*size);
  if (number == nullptr || *number <= rank || *number > kMaxJobSize) {
    return fail(Error::make(
        Errc::NoPmix, "PMIx: the server gives no sensible size of the job for rank %u", rank));
  }
  job.size = static_cast<std::uint32_t>(*number);
  // Absent on some launchers; then this rank counts as alone on its node.
  job.local_peers = {rank};
  if (const auto peers = job_value(nspace, Library::JobKey::LocalPeers, "the peers of the node")) {
    if (const auto* text = std::get_if<std::string>(&*peers)) {
      if (auto ranks = parse_rank_list(*text, job.size);
          ranks && std::binary_search(ranks->begin(), ranks->end(), rank)) {
        job.local_peers = std::move(*ranks);
      }
    }
  }
  return job;
}

Result<Value> Service::job_value(const std::string& nspace, Library::JobKey key, const char* name) {
  std::uint64_t id = 0;
  {
    const std::lock_guard lock(mutex_);
    id = next_id_++;
    awaited_job_value_ = id;
    job_value_.reset();
  }
  const Status asked = library_->get_job_value(id, nspace, key);
  std::unique_lock lock(mutex_);
  bool answered = false;
  if (asked.is(Outcome::Success)) {
    answered = changed_.wait_until(lock, to_steady(monotonic_now() + kJobValueLimit),
                                   [this] { return job_value_.has_value(); });
  }
  awaited_job_value_ = 0;
  const Status status = !asked.is(Outcome::Success) ? asked
                        : answered                  ? job_value_->first
                                                    : Status{Outcome::Timeout, 0, "no answer"};
  if (!status.is(Outcome::Success)) {
    return fail(Error::make(Errc::NoPmix, "PMIx: the server does not tell %s: %s (%d)", name,
                            status.name, status.code));
  }
  return std::move(job_value_->second);
}

std::uint32_t Service::attach(const std::shared_ptr<Mailbox>& mailbox) {
  const std::lock_guard lock(mutex_);
  std::erase_if(mailboxes_, [](const auto& known) { return known.expired(); });
  mailboxes_.push_back(mailbox);
  if (server_lost_) {
    mailbox->post(ServerLost{});
  }
  return next_ordinal_++;
}

void Service::get(const std::shared_ptr<Mailbox>& mailbox, const std::string& key, GetCall call) {
  enqueue([this, mailbox, key, call = std::move(call)] { do_get(mailbox, key, call); });
}

void Service::do_get(const std::shared_ptr<Mailbox>& mailbox, const std::string& key,
                     const GetCall& call) {
  std::uint64_t id = 0;
  {
    const std::lock_guard lock(mutex_);
    if (server_lost_) {
      return;  // the mailbox has been told
    }
    id = next_id_++;
    gets_.emplace(id, Get{mailbox, call.id});
  }
  const Status status = library_->get(id, call.peer, key, call.local_only, call.patience);
  if (!status.is(Outcome::Success)) {
    value_done(id, status, {});
  }
}

void Service::value_done(std::uint64_t id, const Status& status, Value value) {
  Get get;
  {
    const std::lock_guard lock(mutex_);
    if (id == awaited_job_value_) {
      job_value_.emplace(status, std::move(value));
      changed_.notify_all();
      return;
    }
    const auto found = gets_.find(id);
    if (found == gets_.end()) {
      return;
    }
    get = std::move(found->second);
    gets_.erase(found);
  }
  get.mailbox->post(GetReply{get.call_id, status, std::move(value)});
}

void Service::publish(const std::shared_ptr<Mailbox>& mailbox, const std::string& key,
                      std::vector<std::uint8_t> card, bool collect) {
  bool lost = false;
  {
    const std::lock_guard lock(mutex_);
    lost = server_lost_;
    if (collect && !lost) {
      // Entered in the books at once, so that stop() waits for a fence that is still to be started.
      fences_.push_back({mailbox, false, std::nullopt, false});
    }
  }
  if (lost) {
    mailbox->post(PublishEnded{true, kServerLost, "put"});
    return;
  }
  enqueue([this, mailbox, key, card = std::move(card), collect] {
    do_publish(mailbox, key, card, collect);
  });
}

void Service::do_publish(const std::shared_ptr<Mailbox>& mailbox, const std::string& key,
                         const std::vector<std::uint8_t>& card, bool collect) {
  std::optional<PublishEnded> failure;
  if (!card.empty()) {
    if (const Status put = library_->put(key, card); !put.is(Outcome::Success)) {
      failure = PublishEnded{true, put, "put"};
    } else if (const Status commit = library_->commit(); !commit.is(Outcome::Success)) {
      failure = PublishEnded{true, commit, "commit"};
    } else {
      mailbox->post(CardIsOut{});
    }
  }
  if (!collect) {
    mailbox->post(failure.value_or(PublishEnded{false, Status{Outcome::Success, 0, ""}, ""}));
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    const auto fence = std::find_if(fences_.begin(), fences_.end(), [&](const Fence& candidate) {
      return candidate.mailbox == mailbox && !candidate.card_is_out;
    });
    if (fence == fences_.end()) {
      return;  // the server went away meanwhile; the mailbox has been told
    }
    fence->card_is_out = true;
    fence->failure = failure;
  }
  start_next_fence();
}

void Service::start_next_fence() {
  std::uint64_t id = 0;
  std::string nspace;
  std::uint32_t size = 0;
  {
    const std::lock_guard lock(mutex_);
    if (running_fence_ != 0 || fences_.empty() || !fences_.front().card_is_out) {
      return;
    }
    id = next_id_++;
    running_fence_ = id;
    nspace = job_->nspace;
    size = job_->size;
  }
  const Status status = library_->fence(id, nspace, size);
  if (!status.is(Outcome::Success)) {
    end_fence(id, status);
  }
}

void Service::operation_done(std::uint64_t id, const Status& status) {
  end_fence(id, status);
}

void Service::end_fence(std::uint64_t id, const Status& status) {
  Fence fence;
  {
    const std::lock_guard lock(mutex_);
    if (running_fence_ != id) {
      return;
    }
    running_fence_ = 0;
    fence = std::move(fences_.front());
    fences_.pop_front();
    if (!fences_.empty()) {
      calls_.emplace_back([this] { start_next_fence(); });
    }
  }
  changed_.notify_all();
  const bool ok = status.is(Outcome::Success) || status.is(Outcome::Partial);
  fence.mailbox->post(fence.failure.value_or(PublishEnded{!ok, status, "fence"}));
}

void Service::server_lost() {
  std::deque<Fence> fences;
  std::vector<std::shared_ptr<Mailbox>> mailboxes;
  {
    const std::lock_guard lock(mutex_);
    server_lost_ = true;
    running_fence_ = 0;
    fences.swap(fences_);
    for (const auto& known : mailboxes_) {
      if (auto mailbox = known.lock()) {
        mailboxes.push_back(std::move(mailbox));
      }
    }
  }
  changed_.notify_all();
  for (const Fence& fence : fences) {
    fence.mailbox->post(PublishEnded{true, kServerLost, "fence"});
  }
  for (const auto& mailbox : mailboxes) {
    mailbox->post(ServerLost{});
  }
}

void Service::give_up(const std::shared_ptr<Mailbox>& mailbox) {
  {
    const std::lock_guard lock(mutex_);
    for (Fence& fence : fences_) {
      fence.given_up |= fence.mailbox == mailbox;
    }
  }
  changed_.notify_all();
}

bool Service::fences_are_over() const {
  return std::all_of(fences_.begin(), fences_.end(),
                     [](const Fence& fence) { return fence.given_up; });
}

Result<> Service::stop(Instant deadline) {
  {
    std::unique_lock lock(mutex_);
    if (!thread_.joinable()) {
      phase_ = Phase::Stopped;
      return {};
    }
    if (phase_ != Phase::Stopping && phase_ != Phase::Stopped) {
      changed_.wait_until(lock, to_steady(deadline - kFinalizeReserve),
                          [this] { return fences_are_over(); });
      phase_ = Phase::Stopping;
      calls_.emplace_back([this] { do_stop(); });
      changed_.notify_all();
    }
    if (!changed_.wait_until(lock, to_steady(deadline),
                             [this] { return phase_ == Phase::Stopped; })) {
      return fail(Error::make(Errc::Timeout,
                              "PMIx: a call does not return, so PMIx cannot be finalized; the "
                              "launcher will report this process"));
    }
  }
  thread_.join();
  return {};
}

void Service::do_stop() {
  bool finalize = false;
  {
    const std::lock_guard lock(mutex_);
    finalize = std::exchange(initialised_, false);
  }
  if (finalize) {
    static_cast<void>(library_->finalize());
  }
  {
    const std::lock_guard lock(mutex_);
    phase_ = Phase::Stopped;
  }
  changed_.notify_all();
}

Service& process_service() {
  // Never destroyed: PMIx's thread and ours may call into it until the process is gone.
  static Service* const service = [] {
    static Service* made = new Service(make_pmix_library());
    static const pid_t owner = getpid();
    std::atexit([] {
      if (getpid() != owner) {
        return;  // a forked child: thread and reference are its parent's
      }
      if (const auto stopped = made->stop(monotonic_now() + kExitLimit); !stopped) {
        std::fprintf(stderr, "wireup: %s\n", stopped.error().what().data());
      }
    });
    return made;
  }();
  return *service;
}

}  // namespace wireup::pmix
