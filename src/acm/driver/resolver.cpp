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
#include <optional>
#include <thread>
#include <utility>

#include "base/clock.hpp"
#include "base/epoll.hpp"

namespace wireup::acm {
namespace {

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

/// How often a resolver of ranks looks whether the node has a service now.
constexpr Duration kServiceInterval = std::chrono::milliseconds(200);

/// Waits until the resolver has something to do.
void wait(int epoll, Instant until, Instant now) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - now).count();
  std::array<epoll_event, 2> events{};
  // What is ready is found by the calls of the next turn; the wait is all that is needed here.
  static_cast<void>(epoll_wait(epoll, events.data(), static_cast<int>(events.size()),
                               static_cast<int>(std::max<std::int64_t>(0, left))));
}

}  // namespace

struct Resolver::State {
  std::uint64_t epoch = 0;
  UniqueFd wake;
  std::atomic<bool> stop{false};
  std::atomic<bool> has_ended{false};
  std::thread thread;
};

Result<std::unique_ptr<Resolver>> Resolver::start(const PortResolverOptions& options,
                                                  NodeLock& lock, ServiceWatch service) {
  auto opened = PortResolver::open(options, lock, monotonic_now());
  if (!opened) {
    return fail(opened.error());
  }
  auto state = std::make_unique<State>();
  state->epoch = options.epoch;
  state->wake.reset(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!state->wake.is_open() || !epoll.is_open() || !watch_readable(epoll, state->wake.value()) ||
      !watch_readable(epoll, (*opened)->fd())) {
    return fail(Error::system(Errc::NoResources, errno, "making the resolver's descriptors"));
  }
  // One that beats after this has come, or come back: two on one port are one too many.
  service.leave(monotonic_now());
  // The thread has the resolver alone, so that it dies there.
  auto thread = start_thread([resolver = std::move(*opened), epoll = std::move(epoll),
                              service = std::move(service), raw = state.get()]() mutable {
    Instant now = monotonic_now();
    Instant next_look = now;
    while (!raw->stop.load(std::memory_order_acquire) && resolver->progress(now)) {
      if (next_look <= now) {
        next_look = now + kServiceInterval;
        if (service.is_there(now)) {
          break;
        }
      }
      wait(epoll.value(), std::min(next_look, resolver->poll_timeout()), now);
      now = monotonic_now();
    }
    // The sockets close here: the ranks see that their resolver is gone.
    resolver.reset();
    raw->has_ended.store(true, std::memory_order_release);
  });
  if (!thread) {
    return fail(thread.error());
  }
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
}

std::uint64_t Resolver::epoch() const noexcept {
  return state_->epoch;
}

bool Resolver::has_ended() const noexcept {
  return state_->has_ended.load(std::memory_order_acquire);
}

}  // namespace wireup::acm
