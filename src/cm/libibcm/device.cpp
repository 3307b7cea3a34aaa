// SPDX-License-Identifier: BSD-3-Clause
#include "cm/libibcm/device.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <exception>
#include <system_error>
#include <utility>

#include "base/epoll.hpp"
#include "cm/libibcm/log.hpp"

namespace wireup::cm::ibcm {
namespace {

/// Messages of a port before the others, and programs that wait for the lock, have their turn.
constexpr std::size_t kMessagesPerTurn = 64;

/// Programs of libibcm may take as long as they like for an answer; the kernel knew no limit. An
/// hour keeps a forgotten REQ from staying for ever.
constexpr Duration kOfferDeadline = std::chrono::hours(1);

Config config_for(const Port& port) {
  Config config;
  config.ca_ack_delay = port.ack_delay();
  config.offer_deadline = kOfferDeadline;
  config.disconnect_deadline = std::chrono::seconds(60);
  return config;
}

/// Communication ids of a process that came before ours shall not come again.
std::uint64_t random_seed() noexcept {
  std::uint64_t seed = 0;
  if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != static_cast<ssize_t>(sizeof(seed))) {
    seed = static_cast<std::uint64_t>(monotonic_now().time_since_epoch().count()) ^
           static_cast<std::uint64_t>(getpid()) << 32U;
  }
  return seed;
}

Error no_room(const char* what) {
  return Error::system(Errc::NoResources, errno, "opening a CM device: making its %s", what);
}

void drain(const UniqueFd& fd) noexcept {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = ::read(fd.value(), &count, sizeof(count));
}

}  // namespace

Result<std::unique_ptr<Device>> Device::open(ibv_context* context,
                                             std::vector<std::unique_ptr<Port>> ports) {
  std::unique_ptr<Device> device(new Device());
  device->device_context = context;
  const std::uint64_t seed = random_seed();
  device->next_service_ = seed & 0xFFFFFFFF;
  for (std::unique_ptr<Port>& port : ports) {
    const Config config = config_for(*port);
    const Rng rng(seed + device->sides_.size());
    device->sides_.push_back(
        std::make_unique<Side>(Side{std::move(port), Engine(config, rng), {}, {}}));
  }
  if (auto started = device->start(); !started) {
    return fail(started.error());
  }
  return device;
}

Result<> Device::start() {
  events_fd_.reset(::eventfd(0, EFD_CLOEXEC));
  stop_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  timer_.reset(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  fd = events_fd_.value();
  if (!events_fd_.is_open() || !stop_.is_open() || !timer_.is_open() || !epoll_.is_open() ||
      !watch_readable(epoll_, stop_.value()) || !watch_readable(epoll_, timer_.value())) {
    return fail(no_room("descriptors"));
  }
  for (const auto& side : sides_) {
    if (!watch_readable(epoll_, side->port->fd())) {
      return fail(no_room("descriptors"));
    }
  }
  if (::sem_init(&ready_, 0, 0) != 0) {
    return fail(no_room("semaphore"));
  }
  has_semaphore_ = true;
  // Signals are for the program's threads.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int error = 0;
  try {
    thread_ = std::thread([this] { serve(); });
  } catch (const std::system_error& refused) {
    error = refused.code().value();
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0) {
    errno = error;
    return fail(no_room("thread"));
  }
  return {};
}

Device::~Device() {
  if (thread_.joinable()) {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t put = ::write(stop_.value(), &one, sizeof(one));
    thread_.join();
    const std::lock_guard lock(shared_->mutex);
    try {
      // What it calls for is sent here; what peers answer finds nobody.
      while (!queue_.empty()) {
        drop_events_of(*queue_.front()->owner);
      }
      for (CmId* id : ids_) {
        withdraw(*id);
      }
      pump_all();
    } catch (const std::exception&) {
      // Out of memory: peers find out by their own timers.
    }
    // Programs may still destroy them.
    for (CmId* id : ids_) {
      id->side = nullptr;
    }
    queue_.clear();
    shared_->is_closed = true;
  }
  if (has_semaphore_) {
    ::sem_destroy(&ready_);
  }
}

void Device::serve() {
  std::array<epoll_event, 8> ready{};
  for (;;) {
    if (::epoll_wait(epoll_.value(), ready.data(), static_cast<int>(ready.size()), -1) < 0 &&
        errno != EINTR) {
      log_line("waiting", Error::system(Errc::Internal, errno, "for messages"));
      return;
    }
    pollfd stop{stop_.value(), POLLIN, 0};
    if (::poll(&stop, 1, 0) > 0) {
      return;
    }
    const std::lock_guard lock(shared_->mutex);
    try {
      drain(timer_);
      for (const auto& side : sides_) {
        Side& at = *side;
        at.port->poll(
            [&](const Address& from, std::span<const std::uint8_t> bytes) {
              at.engine.handle_mad(from, bytes, monotonic_now());
              pump(at);
            },
            kMessagesPerTurn);
        at.engine.handle_timeout(monotonic_now());
        pump(at);
      }
    } catch (const std::exception&) {
      // Out of memory: as if the message had been lost.
      log_line("receiving", Error(Errc::NoResources));
    }
  }
}

void Device::pump(Side& side) {
  bool more = true;
  while (more) {
    more = false;
    while (const auto transmit = side.engine.poll_transmit()) {
      more = true;
      side.port->send(*transmit);
    }
    while (const auto event = side.engine.poll_event()) {
      more = true;
      std::visit([&](const auto& told) { on(side, told); }, *event);
    }
    while (const auto event = side.engine.poll_sidr_event()) {
      more = true;
      std::visit([&](const auto& told) { on(side, told); }, *event);
    }
  }
  set_timer();
}

void Device::pump_all() {
  for (const auto& side : sides_) {
    pump(*side);
  }
}

void Device::set_timer() {
  std::optional<Instant> next;
  for (const auto& side : sides_) {
    const auto due = side->engine.poll_timeout();
    if (due.has_value() && (!next.has_value() || *due < *next)) {
      next = due;
    }
  }
  itimerspec when{};
  if (next.has_value()) {
    // Zero would mean never.
    const auto due = std::max<Duration>(next->time_since_epoch(), Duration(1));
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(due);
    when.it_value.tv_sec = seconds.count();
    when.it_value.tv_nsec = (due - seconds).count();
  }
  ::timerfd_settime(timer_.value(), TFD_TIMER_ABSTIME, &when, nullptr);
}

void Device::push(std::unique_ptr<EventBox> box) {
  queue_.push_back(std::move(box));
  if (queue_.size() == 1) {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t put = ::write(events_fd_.value(), &one, sizeof(one));
  }
  // When nobody has waited for a very long time it is full, which is as good.
  ::sem_post(&ready_);
}

std::unique_ptr<EventBox> Device::take_first() {
  std::unique_ptr<EventBox> box = std::move(queue_.front());
  queue_.pop_front();
  clear_if_empty();
  return box;
}

void Device::clear_if_empty() {
  pollfd events{events_fd_.value(), POLLIN, 0};
  // Asked first: a program that reads from fd shall not make this wait.
  if (queue_.empty() && ::poll(&events, 1, 0) > 0) {
    drain(events_fd_);
  }
}

Result<EventBox*> Device::next_event() {
  for (;;) {
    {
      const std::lock_guard lock(shared_->mutex);
      if (!queue_.empty()) {
        ::sem_trywait(&ready_);
        ++queue_.front()->owner->unacked;
        return take_first().release();
      }
    }
    const int flags = ::fcntl(fd, F_GETFL);
    if (flags < 0 || (flags & O_NONBLOCK) != 0) {
      return fail(Error::system(Errc::InvalidState, flags < 0 ? errno : EAGAIN,
                                "getting an event: none waits"));
    }
    // As a system call that blocks: interrupted, unless the handler says SA_RESTART.
    if (::sem_wait(&ready_) != 0) {
      return fail(Error::system(Errc::InvalidState, errno, "getting an event"));
    }
  }
}

}  // namespace wireup::cm::ibcm
