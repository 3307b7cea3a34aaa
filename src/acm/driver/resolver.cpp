// SPDX-License-Identifier: BSD-3-Clause
#include "acm/driver/resolver.hpp"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <map>
#include <optional>
#include <thread>
#include <variant>
#include <vector>

#include "acm/cache/node_cache.hpp"
#include "acm/driver/acm_port.hpp"
#include "acm/driver/rank_server.hpp"
#include "acm/driver/service_socket.hpp"
#include "base/clock.hpp"

namespace wireup::acm {
namespace {

/// The others take over after eight missed beats (node_client.cpp).
constexpr Duration kBeatInterval = std::chrono::milliseconds(250);
constexpr Duration kReopenInterval = std::chrono::seconds(1);
/// A cache whose writer was alive this short ago is still true: a take-over within a job.
constexpr Duration kKeepCache = std::chrono::seconds(10);
constexpr int kRequestsPerTurn = 256;
/// Longest wait for an answer, whatever a rank asks for.
constexpr Duration kMaxWait = std::chrono::hours(1);

/// Starts `body` on a thread that takes no signal: they belong to the program's own threads.
template <typename F>
Result<std::thread> start_thread(F body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::optional<std::thread> thread;
  int error = 0;
  try {
    thread.emplace(std::move(body));
    pthread_setname_np(thread->native_handle(), "wireup-acm");
  } catch (const std::system_error& failure) {
    error = failure.code().value();
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!thread.has_value()) {
    return fail(Error::system(Errc::NoResources, error, "starting the resolver's thread"));
  }
  return std::move(*thread);
}

std::uint64_t make_seed(Instant now) noexcept {
  return static_cast<std::uint64_t>(now.time_since_epoch().count()) ^
         static_cast<std::uint64_t>(getpid()) << 40U;
}

/// What the thread owns. Everything but the stop flag and the lock is its alone.
class Loop {
 public:
  Loop(const Resolver::Options& options, NodeLock& lock, RankServer server, UniqueFd epoll)
      : options_(options), lock_(lock), server_(std::move(server)), epoll_(std::move(epoll)) {}

  void run(const std::atomic<bool>& stop);

 private:
  struct Waiter {
    RankServer::RankId rank = 0;
    PathKey key;
    friend bool operator==(const Waiter&, const Waiter&) noexcept = default;
  };

  void open_port(Instant now);
  [[nodiscard]] Result<> open_cache();
  void handle_requests(Instant now);
  void handle_resolve(const RankServer::Request& request, Instant now);
  void forget_gone();
  void handle_events(Instant now);
  void handle_learned(const PathLearned& learned, Instant now);
  void handle_unresolved(const PathUnresolved& unresolved);
  [[nodiscard]] PathKey plain_key(const Gid& dgid) const noexcept;
  [[nodiscard]] CacheBasis basis() const noexcept;
  void wait(Instant now);

  Resolver::Options options_;
  NodeLock& lock_;
  RankServer server_;
  UniqueFd epoll_;
  std::unique_ptr<AcmPort> port_;
  std::optional<CacheWriter> cache_;
  /// Another resolver wrote the cache until a moment ago.
  bool keep_cache_ = false;
  /// Why there is no port; the answer to every request.
  Error fault_{Errc::NoDevice};
  Instant next_open_;
  Instant next_beat_;
  std::map<Gid, std::vector<Waiter>> waiters_;
};

void Loop::run(const std::atomic<bool>& stop) {
  const Instant start = monotonic_now();
  keep_cache_ = lock_.silence(start) <= kKeepCache;
  lock_.beat(start);
  while (!stop.load(std::memory_order_acquire)) {
    const Instant now = monotonic_now();
    // Before anything is sent or written: this thread may have been stopped, and replaced.
    if (lock_.epoch() != options_.epoch) {
      return;
    }
    if (port_ == nullptr && next_open_ <= now) {
      open_port(now);
    }
    if (next_beat_ <= now) {
      lock_.beat(now);
      next_beat_ = now + kBeatInterval;
    }
    if (port_ != nullptr) {
      port_->progress(now);
      handle_events(now);
    }
    server_.progress();
    forget_gone();
    handle_requests(now);
    if (port_ != nullptr) {
      handle_events(now);
    }
    wait(now);
  }
}

void Loop::open_port(Instant now) {
  next_open_ = now + kReopenInterval;
  auto port =
      AcmPort::open({options_.device, options_.port, options_.pkey, Config{}, make_seed(now)}, now);
  if (!port) {
    fault_ = port.error();
    return;
  }
  port_ = std::move(*port);
  epoll_event event{};
  event.events = EPOLLIN;
  auto cache = open_cache();
  if (!cache || epoll_ctl(epoll_.value(), EPOLL_CTL_ADD, port_->fd(), &event) != 0) {
    fault_ = cache ? Error::system(Errc::NoResources, errno, "watching the resolver's port")
                   : cache.error();
    port_.reset();
  }
}

Result<> Loop::open_cache() {
  auto cache = CacheWriter::open({options_.directory.cache_path(options_.epoch),
                                  options_.cache_entries, basis(), keep_cache_});
  if (!cache) {
    return fail(cache.error());
  }
  cache_.emplace(std::move(*cache));
  return {};
}

CacheBasis Loop::basis() const noexcept {
  return {port_->info().gid, port_->info().lid, port_->info().sm_lid};
}

PathKey Loop::plain_key(const Gid& dgid) const noexcept {
  PathKey key;
  key.sgid = port_->info().gid;
  key.dgid = dgid;
  key.pkey = port_->engine().port().pkey;
  return key;
}

void Loop::handle_requests(Instant now) {
  for (int i = 0; i < kRequestsPerTurn; ++i) {
    const auto request = server_.poll_request();
    if (!request.has_value()) {
      return;
    }
    if (request->request.op == ServiceOp::Resolve) {
      handle_resolve(*request, now);
    } else if (port_ != nullptr) {
      cache_->remove(request->request.key);
      cache_->remove(plain_key(request->request.key.dgid));
      port_->path_failed(request->request.key.dgid);
    }
  }
}

void Loop::handle_resolve(const RankServer::Request& request, Instant now) {
  const PathKey& key = request.request.key;
  const auto refuse = [&](const Error& error) { server_.reply(request.rank, {key, fail(error)}); };
  if (port_ == nullptr) {
    refuse(fault_);
    return;
  }
  const PathKey plain = plain_key(key.dgid);
  if (key.sgid != plain.sgid || key.pkey != plain.pkey) {
    refuse(Error::make(Errc::Stale,
                       "a path from GID %s, P_Key 0x%04x was asked for, but %s has GID %s, P_Key "
                       "0x%04x now",
                       to_text(key.sgid).data(), key.pkey.value(), port_->info().name().data(),
                       to_text(plain.sgid).data(), plain.pkey.value()));
    return;
  }
  const Instant deadline = std::min(request.request.deadline, now + kMaxWait);
  if (auto started = port_->resolve(key.dgid, deadline, now); !started) {
    refuse(started.error());
    return;
  }
  // The answer comes as an event, later. A rank that asks again only moved its deadline.
  const Waiter waiter{request.rank, key};
  std::vector<Waiter>& waiting = waiters_[key.dgid];
  if (std::find(waiting.begin(), waiting.end(), waiter) == waiting.end()) {
    waiting.push_back(waiter);
  }
}

void Loop::forget_gone() {
  while (const auto gone = server_.poll_gone()) {
    for (auto at = waiters_.begin(); at != waiters_.end();) {
      std::erase_if(at->second, [&](const Waiter& waiter) { return waiter.rank == *gone; });
      at = at->second.empty() ? waiters_.erase(at) : std::next(at);
    }
  }
}

void Loop::handle_events(Instant now) {
  while (const auto event = port_->poll_event()) {
    if (const auto* learned = std::get_if<PathLearned>(&*event)) {
      handle_learned(*learned, now);
    } else if (const auto* unresolved = std::get_if<PathUnresolved>(&*event)) {
      handle_unresolved(*unresolved);
    } else if (const auto* forgotten = std::get_if<PathForgotten>(&*event)) {
      if (const auto dgid = forgotten->address.as_gid()) {
        cache_->remove(plain_key(*dgid));
      }
    } else if (std::holds_alternative<Invalidated>(*event)) {
      cache_->invalidate(basis());
    }
  }
}

void Loop::handle_learned(const PathLearned& learned, Instant now) {
  const auto dgid = learned.address.as_gid();
  if (!dgid.has_value()) {
    return;
  }
  const PathOrigin origin = learned.origin;
  cache_->store(plain_key(*dgid), learned.record, origin, now);
  const auto waiting = waiters_.find(*dgid);
  if (waiting == waiters_.end()) {
    return;
  }
  for (const Waiter& waiter : waiting->second) {
    if (waiter.key.sl.has_value() && *waiter.key.sl != learned.record.sl) {
      server_.reply(
          waiter.rank,
          {waiter.key, fail(Error::make(Errc::PathUnresolved,
                                        "SL %u was asked for to GID %s, but the multicast group's "
                                        "paths have SL %u",
                                        waiter.key.sl->value(), to_text(*dgid).data(),
                                        learned.record.sl.value()))});
      continue;
    }
    cache_->store(waiter.key, learned.record, origin, now);
    server_.reply(waiter.rank, {waiter.key, ResolvedPath{learned.record, origin,
                                                         cache_->generation(), Duration::zero()}});
  }
  waiters_.erase(waiting);
}

void Loop::handle_unresolved(const PathUnresolved& unresolved) {
  const auto dgid = unresolved.address.as_gid();
  const auto waiting = dgid.has_value() ? waiters_.find(*dgid) : waiters_.end();
  if (waiting == waiters_.end()) {
    return;
  }
  const Error error = port_->explain(unresolved);
  for (const Waiter& waiter : waiting->second) {
    server_.reply(waiter.rank, {waiter.key, fail(error)});
  }
  waiters_.erase(waiting);
}

void Loop::wait(Instant now) {
  Instant until = next_beat_;
  if (port_ == nullptr) {
    until = std::min(until, next_open_);
  } else if (const auto due = port_->poll_timeout()) {
    until = std::min(until, *due);
  }
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - now).count();
  std::array<epoll_event, 8> events{};
  // What is ready is found by the calls of the next turn; the wait is all that is needed here.
  static_cast<void>(epoll_wait(epoll_.value(), events.data(), static_cast<int>(events.size()),
                               static_cast<int>(std::max<std::int64_t>(0, left))));
}

}  // namespace

struct Resolver::State {
  Options options;
  UniqueFd wake;
  std::atomic<bool> stop{false};
  std::atomic<bool> has_ended{false};
  std::thread thread;
};

Result<std::unique_ptr<Resolver>> Resolver::start(const Options& options, NodeLock& lock) {
  auto listener = listen_at(options.directory.socket_path(options.epoch));
  if (!listener) {
    return fail(listener.error());
  }
  auto server = RankServer::open(std::move(*listener));
  if (!server) {
    return fail(server.error());
  }
  auto state = std::make_unique<State>();
  state->options = options;
  state->wake.reset(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{};
  event.events = EPOLLIN;
  if (!state->wake.is_open() || !epoll.is_open() ||
      epoll_ctl(epoll.value(), EPOLL_CTL_ADD, state->wake.value(), &event) != 0 ||
      epoll_ctl(epoll.value(), EPOLL_CTL_ADD, server->fd(), &event) != 0) {
    return fail(Error::system(Errc::NoResources, errno, "making the resolver's descriptors"));
  }
  auto loop = std::make_shared<Loop>(options, lock, std::move(*server), std::move(epoll));
  auto thread = start_thread([loop, raw = state.get()]() mutable {
    loop->run(raw->stop);
    // The sockets close here: the ranks see that their resolver is gone.
    loop.reset();
    raw->has_ended.store(true, std::memory_order_release);
  });
  if (!thread) {
    return fail(thread.error());
  }
  // The thread has the loop alone, so that it dies there.
  loop.reset();
  state->thread = std::move(*thread);
  return std::unique_ptr<Resolver>(new Resolver(std::move(state)));
}

Resolver::Resolver(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}

Resolver::~Resolver() {
  state_->stop.store(true, std::memory_order_release);
  const std::uint64_t one = 1;
  // Fails only when the counter is full, and then the thread is awake anyway.
  static_cast<void>(!write(state_->wake.value(), &one, sizeof(one)));
  state_->thread.join();
  unlink(state_->options.directory.socket_path(state_->options.epoch).c_str());
}

std::uint64_t Resolver::epoch() const noexcept {
  return state_->options.epoch;
}

bool Resolver::has_ended() const noexcept {
  return state_->has_ended.load(std::memory_order_acquire);
}

}  // namespace wireup::acm
