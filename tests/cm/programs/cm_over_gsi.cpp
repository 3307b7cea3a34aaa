// SPDX-License-Identifier: BSD-3-Clause
// A CM engine over QP1: takes connections, or makes them and releases them.
//
//   cm_over_gsi listen                       until SIGTERM, then says what it counted
//   cm_over_gsi connect LID COUNT [GID]      all at once; with a GRH where a GID is named
//
// Exit status: 0 all went as it should, 1 it did not, 2 wrong words, 3 the carrier was refused.
#include <arpa/inet.h>
#include <poll.h>
#include <sys/signalfd.h>

#include <charconv>
#include <csignal>
#include <cstdio>
#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "base/unique_fd.hpp"
#include "cm/driver/gsi_carrier.hpp"
#include "cm/engine/engine.hpp"
#include "verbs/device.hpp"

namespace {

using namespace wireup;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr ServiceId kService{0x10000CE100000002ULL};
constexpr auto kLimit = seconds(100);

struct Tally {
  unsigned offered = 0;
  unsigned established = 0;
  unsigned rejected = 0;
  unsigned failed = 0;
  unsigned disconnected = 0;
  unsigned unanswered = 0;
  unsigned rested = 0;
};

class Rank {
 public:
  Rank(cm::GsiCarrier carrier, const verbs::PortInfo& port, Guid ca_guid, std::uint64_t seed)
      : carrier_(std::move(carrier)), port_(port), ca_guid_(ca_guid), engine_(config(), Rng(seed)) {
    engine_.listen(kService);
  }

  [[nodiscard]] bool connect(const cm::Address& to, std::uint32_t qpn) {
    cm::ConnectParams params;
    params.to = to;
    params.service_id = kService;
    params.local_ca_guid = ca_guid_;
    params.qpn = Qpn(qpn);
    params.path.slid = port_.lid;
    params.path.dlid = to.dlid;
    params.path.mtu = 4;
    params.path.rate = 7;
    params.deadline = monotonic_now() + kLimit;
    return engine_.connect(params, monotonic_now()).has_value();
  }

  /// One turn of a rank's loop. False when the device is gone. `also` is polled too.
  [[nodiscard]] bool turn(int also) {
    engine_.handle_timeout(monotonic_now());
    std::size_t taken = 0;
    do {
      flush();
      const auto count = carrier_.poll(
          [this](const cm::Address& from, std::span<const std::uint8_t> bytes) {
            engine_.handle_mad(from, bytes, monotonic_now());
          },
          64);
      if (!count) {
        std::printf("lost: %s\n", std::string(count.error().what()).c_str());
        return false;
      }
      taken = *count;
    } while (flush() || taken > 0);
    pollfd fds[] = {{carrier_.fd(), POLLIN, 0}, {also, POLLIN, 0}};
    ::poll(fds, 2, 10);
    return true;
  }

  void disconnect_all() {
    for (const cm::Handle handle : established_) {
      static_cast<void>(engine_.disconnect(handle, {}, monotonic_now()));
    }
  }
  void print() const {
    const cm::GsiCounters& counters = carrier_.counters();
    std::printf(
        "offered %u established %u rejected %u failed %u disconnected %u unanswered %u rested %u "
        "left %zu sent %llu received %llu refused %llu overflows %llu\n",
        tally.offered, tally.established, tally.rejected, tally.failed, tally.disconnected,
        tally.unanswered, tally.rested, engine_.connections(),
        static_cast<unsigned long long>(counters.sent),
        static_cast<unsigned long long>(counters.received),
        static_cast<unsigned long long>(counters.failed),
        static_cast<unsigned long long>(carrier_.overflows()));
  }

  Tally tally;

 private:
  static cm::Config config() {
    cm::Config config;
    config.timewait = milliseconds(100);
    config.disconnect_deadline = seconds(60);
    return config;
  }
  /// True when there was something to do.
  bool flush() {
    bool worked = false;
    while (auto event = engine_.poll_event()) {
      worked = true;
      consume(*event);
    }
    while (auto transmit = engine_.poll_transmit()) {
      worked = true;
      if (auto sent = carrier_.send(*transmit); !sent) {
        std::printf("not sent: %s\n", std::string(sent.error().what()).c_str());
      }
    }
    return worked;
  }
  void consume(const cm::Event& event) {
    if (const auto* req = std::get_if<cm::ReqReceived>(&event)) {
      ++tally.offered;
      cm::AcceptParams params;
      params.local_ca_guid = ca_guid_;
      params.qpn = Qpn(next_qpn_++);
      static_cast<void>(engine_.accept(req->handle, params, monotonic_now()));
    } else if (const auto* rep = std::get_if<cm::RepReceived>(&event)) {
      if (engine_.establish(rep->handle, {}, monotonic_now())) {
        ++tally.established;
        established_.push_back(rep->handle);
      }
    } else if (std::holds_alternative<cm::Established>(event)) {
      ++tally.established;
    } else if (std::holds_alternative<cm::Rejected>(event)) {
      ++tally.rejected;
    } else if (std::holds_alternative<cm::Failed>(event)) {
      ++tally.failed;
    } else if (const auto* over = std::get_if<cm::Disconnected>(&event)) {
      ++tally.disconnected;
      tally.unanswered += over->cause == cm::DisconnectCause::Timeout ? 1 : 0;
    } else if (std::holds_alternative<cm::TimewaitExit>(event)) {
      ++tally.rested;
    }
  }

  cm::GsiCarrier carrier_;
  verbs::PortInfo port_;
  Guid ca_guid_;
  cm::Engine engine_;
  std::vector<cm::Handle> established_;
  std::uint32_t next_qpn_ = 0x800000;
};

int listen(Rank& rank) {
  sigset_t end;
  sigemptyset(&end);
  sigaddset(&end, SIGTERM);
  sigprocmask(SIG_BLOCK, &end, nullptr);
  const UniqueFd ended(signalfd(-1, &end, SFD_NONBLOCK | SFD_CLOEXEC));
  std::printf("listening\n");
  signalfd_siginfo info{};
  while (::read(ended.value(), &info, sizeof info) != sizeof info) {
    if (!rank.turn(ended.value())) {
      return 1;
    }
  }
  rank.print();
  return 0;
}

int connect(Rank& rank, const cm::Address& to, unsigned count) {
  for (unsigned i = 0; i < count; ++i) {
    if (!rank.connect(to, 0x500 + i)) {
      return 1;
    }
  }
  const Instant limit = monotonic_now() + kLimit;
  const auto run_until = [&](const auto& done) {
    while (!done()) {
      if (monotonic_now() > limit || !rank.turn(-1)) {
        return false;
      }
    }
    return true;
  };
  const Tally& tally = rank.tally;
  const bool asked =
      run_until([&] { return tally.established + tally.rejected + tally.failed == count; });
  rank.disconnect_all();
  const bool over = run_until([&] { return tally.rested == tally.established; });
  rank.print();
  return asked && over && tally.established == count ? 0 : 1;
}

bool parse(std::string_view text, unsigned most, unsigned& number) {
  const auto done = std::from_chars(text.data(), text.data() + text.size(), number);
  return done.ec == std::errc() && done.ptr == text.data() + text.size() && number <= most;
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const std::string_view word = argc > 1 ? argv[1] : "";
  unsigned lid = 0;
  unsigned count = 0;
  cm::Address to;
  const bool connects = word == "connect" && (argc == 4 || argc == 5) &&
                        parse(argv[2], 0xBFFF, lid) && parse(argv[3], 100000, count);
  if (!connects && !(word == "listen" && argc == 2)) {
    std::fprintf(stderr, "usage: cm_over_gsi listen | connect LID COUNT [GID]\n");
    return 2;
  }
  to.dlid = Lid(static_cast<std::uint16_t>(lid));
  to.qpn = Qpn(1);
  if (argc == 5) {
    Gid::Bytes gid{};
    if (inet_pton(AF_INET6, argv[4], gid.data()) != 1) {
      std::fprintf(stderr, "'%s' is no GID\n", argv[4]);
      return 2;
    }
    to.has_grh = true;
    to.dgid = Gid(gid);
    to.hop_limit = 1;
  }
  auto device = verbs::Device::open("");
  const auto port = device ? device->query_port(1) : fail(device.error());
  if (!port) {
    std::printf("no port: %s\n", std::string(port.error().what()).c_str());
    return 3;
  }
  cm::GsiCarrier::Options options;
  options.device = device->name();
  auto carrier = cm::GsiCarrier::open(options);
  if (!carrier) {
    std::printf("refused: %s\n", std::string(carrier.error().what()).c_str());
    return 3;
  }
  // Two ranks of a test must not draw the same communication ids.
  const auto seed = static_cast<std::uint64_t>(monotonic_now().time_since_epoch().count());
  Rank rank(std::move(*carrier), *port, device->node_guid(), seed);
  return connects ? connect(rank, to, count) : listen(rank);
}
