// SPDX-License-Identifier: BSD-3-Clause
// One rank of the integration tests of the card exchange; run_job.sh starts it under mpirun. It
// carries out the letters of STEPS, says what went wrong on stderr and exits with 1 then.
//
//   probe STEPS [--marks DIR] [--gap S] [--late RANK:S] [--killed RANK] [--lookup-limit S]
//         [--close-limit S] [--no-collect]
//
//   i  MPI_Init                         f  MPI_Finalize; then every rank must have published
//   s  sleep rank * gap                 l  sleep, in the late rank only
//   o  open an exchange                 p  publish a card
//   n  wait until all cards are here
//   k  SIGKILL, in the killed rank only
//   x  ask for the card of every rank and check it; the killed rank's must fail in time
//   a  as x, but the killed rank's card may be there (it had published)
//   m  meet: wait until every rank has come here
//   c  close; then every rank must have published
//   C  close without looking at the others
//   b  close that may time out, but in time: the launcher does not always notice a killed rank
//   w  say "ready" and wait until the file DIR/go exists
//   g  ask for all cards again after the server is gone: known ones come, others fail at once
//   d  write DIR/done.<rank>, for when nobody reads our output any more
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#ifdef WIREUP_PROBE_MPI
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>
#endif

#include "base/clock.hpp"
#include "pmix/driver/pmix_exchange.hpp"

namespace {

using namespace std::chrono_literals;
using wireup::Duration;
using wireup::Errc;
using wireup::Instant;
using wireup::monotonic_now;
using wireup::pmix::Exchange;
using wireup::pmix::PublishState;

struct Options {
  std::string steps;
  std::filesystem::path marks;
  double gap = 0;
  long late_rank = -1;
  double late = 0;
  long killed_rank = -1;
  double lookup_limit = 20;
  double close_limit = 60;
  bool collect = true;
};

Duration from_seconds(double s) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(s));
}

class Probe {
 public:
  explicit Probe(Options options) : options_(std::move(options)) {}

  bool run() {
    return (options_.marks.empty() || mark("pid")) &&
           std::all_of(options_.steps.begin(), options_.steps.end(),
                       [this](char step) { return this->step(step); });
  }

 private:
  bool step(char letter) {
    switch (letter) {
      case 'i':
      case 'f':
        return mpi(letter);
      case 's':
        std::this_thread::sleep_for(from_seconds(options_.gap * static_cast<double>(rank())));
        return true;
      case 'l':
        if (rank() == options_.late_rank) {
          std::this_thread::sleep_for(from_seconds(options_.late));
        }
        return true;
      case 'o':
        return open();
      case 'p':
        return publish();
      case 'n':
        return wait_until_collected();
      case 'k':
        if (rank() == options_.killed_rank) {
          ::kill(::getpid(), SIGKILL);
        }
        return true;
      case 'x':
        return look_up_all(true);
      case 'a':
        return look_up_all(false);
      case 'm':
        return meet();
      case 'c':
        return close() && all_have_entered("close");
      case 'C':
        return close();
      case 'b':
        return close_in_time();
      case 'w':
        return wait_for_go();
      case 'g':
        return look_up_without_server();
      case 'd':
        return mark("done");
      default:
        return complain("unknown step '%c'", letter);
    }
  }

  [[gnu::format(printf, 1, 2)]] static bool complain(const char* format, ...) {
    std::array<char, 512> text{};
    std::va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text.data(), text.size(), format, arguments);
    va_end(arguments);
    std::fprintf(stderr, "probe: rank %ld: %s\n", rank(), text.data());
    return false;
  }

  /// From the launcher's environment, so that a rank can sleep before it knows PMIx.
  static long rank() {
    const char* text = std::getenv("OMPI_COMM_WORLD_RANK");
    return text != nullptr ? std::strtol(text, nullptr, 10) : 0;
  }

  bool mark(const char* name) const {
    const auto path = options_.marks / (std::string(name) + "." + std::to_string(rank()));
    std::ofstream(path) << ::getpid() << "\n";
    return std::filesystem::exists(path) || complain("cannot write %s", path.c_str());
  }

  bool mpi([[maybe_unused]] char letter) {
#ifdef WIREUP_PROBE_MPI
    if (letter == 'i') {
      return MPI_Init(nullptr, nullptr) == MPI_SUCCESS || complain("MPI_Init failed");
    }
    if (MPI_Finalize() != MPI_SUCCESS) {
      return complain("MPI_Finalize failed");
    }
    return all_have_entered("MPI_Finalize");
#else
    return complain("built without MPI");
#endif
  }

  bool open() {
    wireup::pmix::PmixOptions options;
    options.collect = options_.collect;
    auto opened = wireup::pmix::open_pmix_exchange(options);
    if (!opened) {
      return complain("open: %s: %s",
                      wireup::error_name(static_cast<Errc>(opened.error().code().value())).data(),
                      opened.error().what().data());
    }
    exchange_ = std::move(*opened);
    return static_cast<long>(exchange_->job().rank) == rank() || complain("PMIx has another rank");
  }

  static std::vector<std::uint8_t> card_of(std::uint32_t rank) {
    std::vector<std::uint8_t> card(200);
    for (std::size_t i = 0; i < card.size(); ++i) {
      card[i] = static_cast<std::uint8_t>(std::size_t{rank} * 7 + i);
    }
    return card;
  }

  bool publish() {
    if (!options_.marks.empty() && !mark("entered")) {
      return false;
    }
    const auto published = exchange_->publish(card_of(exchange_->job().rank));
    return published || complain("publish: %s", published.error().what().data());
  }

  bool wait_until_collected() {
    const Instant end = monotonic_now() + from_seconds(options_.close_limit);
    while (exchange_->publish_state() != PublishState::Complete) {
      if (monotonic_now() > end) {
        return complain("the cards were not collected in time");
      }
      pollfd waiter{exchange_->fd(), POLLIN, 0};
      ::poll(&waiter, 1, 100);
      static_cast<void>(exchange_->poll(monotonic_now()));
    }
    return true;
  }

  bool all_have_entered(const char* what) const {
    for (std::uint32_t other = 0; other < exchange_size_; ++other) {
      if (!std::filesystem::exists(options_.marks / ("entered." + std::to_string(other)))) {
        return complain("%s ended before rank %u had entered", what, other);
      }
    }
    return true;
  }

  /// Fills `results` by rank with what poll() gives, for at most `limit`.
  void collect(std::map<std::uint32_t, wireup::pmix::CardResult>& results, std::size_t wanted,
               Duration limit) {
    const Instant end = monotonic_now() + limit;
    while (results.size() < wanted && monotonic_now() < end) {
      const Instant wake = std::min(exchange_->poll_timeout().value_or(end), end);
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(wake - monotonic_now());
      pollfd waiter{exchange_->fd(), POLLIN, 0};
      ::poll(&waiter, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
      while (auto result = exchange_->poll(monotonic_now())) {
        const std::uint32_t rank = result->peer.rank;
        results.emplace(rank, std::move(*result));
      }
    }
  }

  bool look_up_all(bool killed_must_fail) {
    const std::uint32_t size = exchange_->job().size;
    const Duration limit = from_seconds(options_.lookup_limit);
    const Instant deadline = monotonic_now() + limit;
    for (std::uint32_t other = 0; other < size; ++other) {
      const auto asked = exchange_->request({"", other}, deadline, monotonic_now());
      if (!asked) {
        return complain("request of %u: %s", other, asked.error().what().data());
      }
    }
    std::map<std::uint32_t, wireup::pmix::CardResult> results;
    collect(results, size, limit + 2s);
    bool good = true;
    for (std::uint32_t other = 0; other < size; ++other) {
      const auto found = results.find(other);
      const bool killed = other == options_.killed_rank;
      if (found == results.end()) {
        good = complain("no result for rank %u within the deadline and 2 s", other);
      } else if (!found->second.card) {
        const wireup::Error& error = found->second.card.error();
        if (!killed || !(error.is(Errc::CardMissing) || error.is(Errc::Timeout))) {
          good = complain("card of %u: %s", other, error.what().data());
        }
      } else if (killed && killed_must_fail) {
        good = complain("rank %u never published, and has a card", other);
      } else if (*found->second.card != card_of(other)) {
        good = complain("the card of rank %u is not what it published", other);
      }
    }
    return good;
  }

  bool close() {
    exchange_size_ = exchange_->job().size;
    const auto closed = exchange_->close(monotonic_now() + from_seconds(options_.close_limit));
    if (!closed) {
      return complain("close: %s", closed.error().what().data());
    }
    const PublishState state = exchange_->publish_state();
    const bool killed = options_.killed_rank >= 0;
    if (options_.collect && !killed && state != PublishState::Complete) {
      return complain("close: the fence is not complete (state %d)", static_cast<int>(state));
    }
    return true;
  }

  bool close_in_time() {
    const Duration limit = from_seconds(options_.close_limit);
    const Instant start = monotonic_now();
    const auto closed = exchange_->close(start + limit);
    const bool in_time = monotonic_now() - start < limit + 2s;
    return (closed || closed.error().is(Errc::Timeout)) &&
           (in_time || complain("close took longer than its limit and 2 s"));
  }

  bool wait_for_mark(const std::string& name) const {
    const Instant end = monotonic_now() + 30s;
    while (!std::filesystem::exists(options_.marks / name)) {
      if (monotonic_now() > end) {
        return complain("no %s within 30 s", name.c_str());
      }
      std::this_thread::sleep_for(5ms);
    }
    return true;
  }

  bool wait_for_go() const {
    return mark("ready") && wait_for_mark("go");
  }

  bool meet() const {
    if (!mark("met")) {
      return false;
    }
    for (std::uint32_t other = 0; other < exchange_->job().size; ++other) {
      if (!wait_for_mark("met." + std::to_string(other))) {
        return false;
      }
    }
    return true;
  }

  bool look_up_without_server() {
    if (!look_up_all(false)) {  // all from the cache
      return false;
    }
    // The name of another job: nobody can have fetched this before. The end of the server may still
    // be on its way to us, so the answer is allowed the time of a lookup.
    const Instant start = monotonic_now();
    static_cast<void>(exchange_->request({"no-such-job", 0}, start + 10s, start));
    std::map<std::uint32_t, wireup::pmix::CardResult> results;
    collect(results, 1, 12s);
    if (results.empty() || results.begin()->second.card) {
      return complain("a card came from a server that is gone");
    }
    return results.begin()->second.card.error().is(Errc::NoPmix) ||
           complain("not NoPmix: %s", results.begin()->second.card.error().what().data());
  }

  Options options_;
  std::unique_ptr<Exchange> exchange_;
  std::uint32_t exchange_size_ = 0;
};

bool parse(int argc, char** argv, Options& options) {
  if (argc < 2) {
    return false;
  }
  options.steps = argv[1];
  for (int i = 2; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--no-collect") {
      options.collect = false;
      continue;
    }
    if (++i == argc) {
      return false;
    }
    char* end = nullptr;
    if (name == "--marks") {
      options.marks = argv[i];
    } else if (name == "--gap") {
      options.gap = std::strtod(argv[i], nullptr);
    } else if (name == "--late") {
      options.late_rank = std::strtol(argv[i], &end, 10);
      options.late = *end == ':' ? std::strtod(end + 1, nullptr) : 0;
    } else if (name == "--killed") {
      options.killed_rank = std::strtol(argv[i], nullptr, 10);
    } else if (name == "--lookup-limit") {
      options.lookup_limit = std::strtod(argv[i], nullptr);
    } else if (name == "--close-limit") {
      options.close_limit = std::strtod(argv[i], nullptr);
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  // The pipe of a dead launcher must not end us.
  signal(SIGPIPE, SIG_IGN);
  Options options;
  if (!parse(argc, argv, options)) {
    std::fprintf(stderr, "usage: probe STEPS [options]; see probe.cpp\n");
    return 2;
  }
  return Probe(std::move(options)).run() ? 0 : 1;
}
