// SPDX-License-Identifier: BSD-3-Clause
#include "cm/driver/ud_carrier.hpp"

#include <poll.h>

#include "base/clock.hpp"
#include "cm/engine/engine.hpp"
#include "softhca/verbs/two_hosts.hpp"
#include "verbs/device.hpp"

namespace wireup::cm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr ServiceId kService{0x10000CE100000001ULL};
constexpr QKey kQKey{0x0B1B0B1B};

/// What the ends of a test tell each other over their socket.
struct Card {
  std::uint16_t lid;
  std::uint32_t qpn;
  Gid::Bytes gid;
};

/// An engine with its carrier in one process; runs as a rank's loop does, by poll(2).
class Rank {
 public:
  Rank(int socket, std::uint64_t seed, const Config& config, const UdCarrier::Options& options)
      : engine_(config, Rng(seed)), socket_(socket) {
    auto device = verbs::Device::open("");
    CHILD_CHECK(device.has_value());
    device_ = std::make_unique<verbs::Device>(std::move(*device));
    auto carrier = UdCarrier::open(*device_, options);
    CHILD_CHECK(carrier.has_value());
    carrier_ = std::make_unique<UdCarrier>(std::move(*carrier));
    const auto port = device_->query_port(1);
    CHILD_CHECK(port.has_value());
    port_ = *port;
    engine_.listen(kService);
    CHILD_CHECK(carrier_->arm().has_value());

    const Card mine{port_.lid.value(), carrier_->qpn().value(), port_.gid.bytes()};
    CHILD_CHECK(::write(socket_, &mine, sizeof mine) == sizeof mine);
    CHILD_CHECK(::read(socket_, &peer_, sizeof peer_) == sizeof peer_);
  }

  void connect(std::uint32_t qpn, bool with_grh = false) {
    ConnectParams params;
    params.to.dlid = Lid(peer_.lid);
    params.to.qpn = Qpn(peer_.qpn);
    params.to.has_grh = with_grh;
    params.to.dgid = Gid(peer_.gid);
    params.to.hop_limit = 1;
    params.service_id = kService;
    params.local_ca_guid = device_->node_guid();
    params.qpn = Qpn(qpn);
    params.path.slid = port_.lid;
    params.path.dlid = params.to.dlid;
    params.path.mtu = 4;
    params.path.rate = 7;
    params.deadline = monotonic_now() + seconds(60);
    const auto handle = engine_.connect(params, monotonic_now());
    CHILD_CHECK(handle.has_value());
    handles.push_back(*handle);
  }

  /// Runs until `done`, at most a minute.
  template <typename Done>
  void run_until(Done done) {
    const Instant limit = monotonic_now() + seconds(60);
    while (!done()) {
      CHILD_CHECK(monotonic_now() < limit);
      turn();
    }
  }
  /// Says that this end is done and serves the other until it has said so too.
  void serve_the_other() {
    const char word = 'd';
    CHILD_CHECK(::write(socket_, &word, 1) == 1);
    pollfd fd{socket_, POLLIN, 0};
    run_until([&] { return ::poll(&fd, 1, 0) == 1; });
  }

  template <typename T>
  [[nodiscard]] std::size_t count() const {
    return static_cast<std::size_t>(std::count_if(
        events.begin(), events.end(), [](const auto& e) { return std::holds_alternative<T>(e); }));
  }
  [[nodiscard]] Engine& engine() { return engine_; }
  [[nodiscard]] UdCarrier& carrier() { return *carrier_; }
  [[nodiscard]] const verbs::PortInfo& port() const { return port_; }
  [[nodiscard]] const Card& peer() const { return peer_; }
  void disconnect_all() {
    for (const Handle handle : handles) {
      CHILD_CHECK(engine_.disconnect(handle, {}, monotonic_now()).has_value());
    }
  }

  std::vector<Event> events;
  std::vector<Handle> handles;

 private:
  void turn() {
    engine_.handle_timeout(monotonic_now());
    std::size_t received = 0;
    do {
      flush();
      const auto count = carrier_->poll(
          [this](const Address& from, std::span<const std::uint8_t> bytes) {
            engine_.handle_mad(from, bytes, monotonic_now());
          },
          64);
      CHILD_CHECK(count.has_value());
      received = *count;
    } while (received > 0 || flush());
    pollfd fd{carrier_->fd(), POLLIN, 0};
    ::poll(&fd, 1, 1);
    if ((fd.revents & POLLIN) != 0) {
      CHILD_CHECK(carrier_->arm().has_value());
    }
  }
  /// True when there was something to do.
  bool flush() {
    bool worked = false;
    while (auto event = engine_.poll_event()) {
      worked = true;
      consume(*event);
      events.push_back(*event);
    }
    while (auto transmit = engine_.poll_transmit()) {
      worked = true;
      CHILD_CHECK(carrier_->send(*transmit).has_value());
    }
    return worked;
  }
  void consume(const Event& event) {
    if (const auto* req = std::get_if<ReqReceived>(&event)) {
      AcceptParams params;
      params.local_ca_guid = device_->node_guid();
      params.qpn = Qpn(next_qpn_++);
      CHILD_CHECK(engine_.accept(req->handle, params, monotonic_now()).has_value());
    } else if (const auto* rep = std::get_if<RepReceived>(&event)) {
      CHILD_CHECK(engine_.establish(rep->handle, {}, monotonic_now()).has_value());
    }
  }

  std::unique_ptr<verbs::Device> device_;
  std::unique_ptr<UdCarrier> carrier_;
  verbs::PortInfo port_;
  Card peer_{};
  Engine engine_;
  int socket_;
  std::uint32_t next_qpn_ = 0x800000;
};

/// A rank on H1 ── switch ── a rank on H2, each a process.
class UdCarrierTest : public softhca::test::TwoHosts {
 protected:
  static UdCarrier::Options options() {
    UdCarrier::Options result;
    result.qkey = kQKey;
    return result;
  }
  static Config config() {
    Config result;
    result.timewait = milliseconds(50);
    return result;
  }
};

TEST_F(UdCarrierTest, ThreeDatagramsConnectAndTwoRelease) {
  run(
      [](int socket) {
        Rank rank(socket, 1, config(), options());
        rank.connect(0x500);
        rank.run_until([&] { return rank.count<RepReceived>() == 1; });
        rank.disconnect_all();
        rank.run_until([&] { return rank.count<TimewaitExit>() == 1; });
        CHILD_CHECK(rank.count<Disconnected>() == 1);
        CHILD_CHECK(rank.carrier().counters().sent == 3);      // REQ, RTU, DREQ
        CHILD_CHECK(rank.carrier().counters().received == 2);  // REP, DREP
        rank.serve_the_other();
      },
      [](int socket) {
        Rank rank(socket, 2, config(), options());
        rank.run_until([&] { return rank.count<TimewaitExit>() == 1; });
        CHILD_CHECK(rank.count<Established>() == 1);
        CHILD_CHECK(rank.count<Disconnected>() == 1);
        const Address from = std::get<ReqReceived>(rank.events.front()).from;
        CHILD_CHECK(from.dlid == Lid(rank.peer().lid));
        CHILD_CHECK(from.qpn == Qpn(rank.peer().qpn));
        CHILD_CHECK(!from.has_grh);
        rank.serve_the_other();
      });
}

TEST_F(UdCarrierTest, AnswersGoBackByTheGrhOfTheRequest) {
  run(
      [](int socket) {
        Rank rank(socket, 1, config(), options());
        rank.connect(0x500, true);
        rank.run_until([&] { return rank.count<RepReceived>() == 1; });
        rank.serve_the_other();
      },
      [](int socket) {
        Rank rank(socket, 2, config(), options());
        rank.run_until([&] { return rank.count<Established>() == 1; });
        const Address from = std::get<ReqReceived>(rank.events.front()).from;
        CHILD_CHECK(from.has_grh);
        CHILD_CHECK(from.dgid == Gid(rank.peer().gid));
        rank.serve_the_other();
      });
}

/// A thousand REQs at once to a rank with few receive buffers: what is lost comes again, and
/// nothing is refused.
TEST_F(UdCarrierTest, ABurstBeyondTheReceiveBuffersIsSurvived) {
  constexpr std::uint32_t kConnects = 1000;
  run(
      [](int socket) {
        UdCarrier::Options few = options();
        few.send_depth = 16;
        Config fast = config();
        fast.initial_rto = milliseconds(100);
        Rank rank(socket, 1, fast, few);
        for (std::uint32_t i = 0; i < kConnects; ++i) {
          rank.connect(0x500 + i);
        }
        rank.run_until([&] { return rank.count<RepReceived>() == kConnects; });
        CHILD_CHECK(rank.count<Rejected>() == 0);
        CHILD_CHECK(rank.carrier().overflows() == 0);
        rank.serve_the_other();
      },
      [](int socket) {
        UdCarrier::Options few = options();
        few.receive_depth = 16;
        Rank rank(socket, 2, config(), few);
        rank.run_until([&] { return rank.count<Established>() == kConnects; });
        CHILD_CHECK(rank.count<ReqReceived>() == kConnects);
        rank.serve_the_other();
      });
}

/// Messages of another job have another Q_Key: they do not arrive.
TEST_F(UdCarrierTest, AnotherJobIsNotHeard) {
  run(
      [](int socket) {
        UdCarrier::Options other = options();
        other.qkey = QKey(0x0B1B0B1C);
        Rank rank(socket, 1, config(), other);
        rank.connect(0x500);
        const Instant until = monotonic_now() + milliseconds(1200);
        rank.run_until([&] { return monotonic_now() >= until; });
        CHILD_CHECK(rank.carrier().counters().sent >= 2);
        CHILD_CHECK(rank.carrier().counters().received == 0);
        rank.serve_the_other();
      },
      [](int socket) {
        Rank rank(socket, 2, config(), options());
        rank.serve_the_other();
        CHILD_CHECK(rank.carrier().counters().received == 0);
        CHILD_CHECK(rank.events.empty());
      });
}

}  // namespace
}  // namespace wireup::cm
