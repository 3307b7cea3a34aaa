// SPDX-License-Identifier: BSD-3-Clause
//
// How many connections per second the CM makes, and with how many messages: ranks connect in a
// pattern, `WINDOW` requests at a time, until all connections are in RTS at both ends. Queue pairs
// exist before the clock starts, in INIT, as DAPL's own connection test has its endpoints; moving
// them to RTS is timed. Address vectors are made from the ports' LIDs: no path is resolved here,
// nor by the peers.
//
// Run on two or more ranks, one a host:
//   connect_rate CARRIER PATTERN CONNECTIONS WINDOW
// CARRIER is ud or gsi; PATTERN 1to1 (rank 0 to rank 1), 1toN (rank 0 to all others), Nto1 (all
// others to rank 0) or alltoall (each to each other, both ways). CONNECTIONS are shared out evenly.
// Rank 0 prints one line of JSON.
#include <mpi.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "cm/driver/gsi_carrier.hpp"
#include "cm/driver/ud_carrier.hpp"
#include "cm/engine/engine.hpp"
#include "verbs/device.hpp"
#include "verbs/rc_qp.hpp"

namespace {

using namespace wireup;  // NOLINT(google-build-using-namespace): a program, not a header

constexpr ServiceId kService{0x10000CE100000042ULL};
constexpr QKey kQKey{0x0BE7C4B1};
constexpr std::chrono::seconds kLimit{60};

[[noreturn]] void die(const char* step, const char* why) {
  std::fprintf(stderr, "connect_rate: %s: %s\n", step, why);
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

template <typename R>
auto take(R result, const char* step) {
  if (!result) {
    die(step, std::string(result.error().what()).c_str());
  }
  if constexpr (!std::is_void_v<typename R::value_type>) {
    return std::move(*result);
  }
}

/// What a rank tells the others beforehand.
struct Card {
  std::uint16_t lid;
  std::uint8_t mtu;
  std::uint32_t cm_qpn;
};

/// How many connections each rank asks each other for.
class Plan {
 public:
  Plan(const std::string& pattern, int ranks, std::uint32_t connections) : ranks_(ranks) {
    std::vector<std::pair<int, int>> pairs;
    for (int from = 0; from < ranks; ++from) {
      for (int to = 0; to < ranks; ++to) {
        const bool wanted = (pattern == "1to1" && from == 0 && to == 1) ||
                            (pattern == "1toN" && from == 0) || (pattern == "Nto1" && to == 0) ||
                            pattern == "alltoall";
        if (wanted && from != to) {
          pairs.emplace_back(from, to);
        }
      }
    }
    if (pairs.empty()) {
      die("PATTERN", "is none of 1to1, 1toN, Nto1, alltoall");
    }
    share_ = connections / static_cast<std::uint32_t>(pairs.size());
    for (const auto& [from, to] : pairs) {
      counts_[{from, to}] = share_;
    }
  }
  [[nodiscard]] std::uint32_t between(int from, int to) const {
    const auto found = counts_.find({from, to});
    return found == counts_.end() ? 0 : found->second;
  }
  [[nodiscard]] std::uint32_t asked_by(int rank) const {
    std::uint32_t sum = 0;
    for (int to = 0; to < ranks_; ++to) {
      sum += between(rank, to);
    }
    return sum;
  }
  [[nodiscard]] std::uint32_t answered_by(int rank) const {
    std::uint32_t sum = 0;
    for (int from = 0; from < ranks_; ++from) {
      sum += between(from, rank);
    }
    return sum;
  }
  [[nodiscard]] std::uint32_t total() const {
    return share_ * static_cast<std::uint32_t>(counts_.size());
  }

 private:
  int ranks_;
  std::uint32_t share_ = 0;
  std::map<std::pair<int, int>, std::uint32_t> counts_;
};

template <typename Carrier>
class Rank {
 public:
  Rank(const verbs::Device& device, Carrier carrier, int rank, const Plan& plan,
       std::uint32_t window)
      : device_(device),
        carrier_(std::move(carrier)),
        rank_(rank),
        plan_(plan),
        window_(window),
        port_(take(device.query_port(1), "ibv_query_port")),
        pd_(take(verbs::Pd::open(device), "ibv_alloc_pd")),
        cq_(take(verbs::Cq::open(device, 64), "ibv_create_cq")),
        engine_(config(), Rng(static_cast<std::uint64_t>(rank) + 1)) {
    verbs::RcQpOptions options;
    options.send_depth = 1;
    options.receive_depth = 1;
    options.inline_size = 0;
    const std::uint32_t count = plan.asked_by(rank) + plan.answered_by(rank);
    for (std::uint32_t i = 0; i < count; ++i) {
      spare_.push_back(
          take(verbs::open_rc_qp(pd_, options, cq_.raw(), cq_.raw()), "ibv_create_qp"));
      take(verbs::to_init(spare_.back(), 1, 0), "INIT");
    }
    engine_.listen(kService);
    cards_.resize(static_cast<std::size_t>(ranks()));
    const Card mine{port_.lid.value(), port_.active_mtu, carrier_.qpn().value()};
    MPI_Allgather(&mine, sizeof mine, MPI_BYTE, cards_.data(), sizeof mine, MPI_BYTE,
                  MPI_COMM_WORLD);
    // Requests to the peers in turn, as a job's would be.
    for (bool more = true; more;) {
      more = false;
      for (int to = 0; to < ranks(); ++to) {
        if (asked_[to] < plan.between(rank, to)) {
          ++asked_[to];
          waiting_.push_back(to);
          more = true;
        }
      }
    }
  }

  /// Until this rank's connections are all made.
  void run() {
    const Instant limit = monotonic_now() + kLimit;
    while (active_ < plan_.asked_by(rank_) || passive_ < plan_.answered_by(rank_)) {
      turn();
      if (monotonic_now() > limit) {
        die("run", "not all connections within a minute");
      }
    }
  }
  /// Serves the others until all are done: an RTU of ours may have been lost.
  void serve_the_others() {
    MPI_Request barrier{};
    MPI_Ibarrier(MPI_COMM_WORLD, &barrier);
    for (int done = 0; done == 0; MPI_Test(&barrier, &done, MPI_STATUS_IGNORE)) {
      turn();
    }
  }
  [[nodiscard]] std::uint64_t sent() const {
    std::uint64_t sum = 0;
    for (const auto count : engine_.counters().sent) {
      sum += count;
    }
    return sum;
  }

 private:
  /// A request that waits for its reply, or had one.
  struct Attempt {
    std::size_t qp;
    Lid lid;
    std::uint8_t mtu;
  };

  static cm::Config config() {
    cm::Config config;
    config.min_rto = std::chrono::milliseconds(200);
    return config;
  }
  static int ranks() {
    int size = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    return size;
  }

  void turn() {
    const Instant now = monotonic_now();
    engine_.handle_timeout(now);
    while (!waiting_.empty() && open_ < window_) {
      connect(waiting_.front(), now);
      waiting_.pop_front();
    }
    flush();
    take(carrier_.poll(
             [this](const cm::Address& from, std::span<const std::uint8_t> bytes) {
               engine_.handle_mad(from, bytes, monotonic_now());
             },
             64),
         "polling the carrier");
    flush();
  }
  void flush() {
    while (auto event = engine_.poll_event()) {
      consume(*event);
    }
    while (auto transmit = engine_.poll_transmit()) {
      take(carrier_.send(*transmit), "sending");
    }
  }

  std::size_t take_qp() {
    qps_.push_back(std::move(spare_.back()));
    spare_.pop_back();
    return qps_.size() - 1;
  }
  void connect(int to, Instant now) {
    const std::size_t qp = take_qp();
    const Card& card = cards_[static_cast<std::size_t>(to)];
    cm::ConnectParams params;
    params.to.dlid = Lid(card.lid);
    params.to.qpn = Qpn(card.cm_qpn);
    params.service_id = kService;
    params.local_ca_guid = device_.node_guid();
    params.qpn = qps_[qp].qpn();
    params.starting_psn = Psn(params.qpn.value());
    params.path.slid = port_.lid;
    params.path.dlid = params.to.dlid;
    params.path.pkey = PKey(0xFFFF);
    params.path.mtu = std::min(port_.active_mtu, card.mtu);
    params.path.rate = 7;
    params.path.packet_lifetime = 14;
    params.responder_resources = 1;
    params.initiator_depth = 1;
    params.deadline = now + kLimit;
    attempts_[take(engine_.connect(params, now), "connect")] = {qp, params.to.dlid,
                                                                params.path.mtu};
    ++open_;
  }
  void to_rts(std::size_t qp, Lid lid, Qpn remote, std::uint8_t mtu, Psn send_psn) {
    verbs::RcAttributes attributes;
    attributes.to.dlid = lid;
    attributes.to.qpn = remote;
    attributes.path_mtu = mtu;
    attributes.receive_psn = Psn(qps_[qp].qpn().value());
    attributes.send_psn = send_psn;
    attributes.responder_resources = 1;
    attributes.initiator_depth = 1;
    attributes.ack_timeout = IbTimeout(18);
    take(verbs::to_rtr(qps_[qp], attributes), "RTR");
    take(verbs::to_rts(qps_[qp], attributes), "RTS");
  }
  void consume(const cm::Event& event) {
    const Instant now = monotonic_now();
    if (const auto* req = std::get_if<cm::ReqReceived>(&event)) {
      const std::size_t qp = take_qp();
      to_rts(qp, req->from.dlid, req->req.local_qpn, req->req.path_mtu.value(),
             req->req.starting_psn);
      cm::AcceptParams params;
      params.local_ca_guid = device_.node_guid();
      params.qpn = qps_[qp].qpn();
      params.starting_psn = Psn(params.qpn.value());
      params.responder_resources = 1;
      params.initiator_depth = 1;
      take(engine_.accept(req->handle, params, now), "accept");
    } else if (const auto* rep = std::get_if<cm::RepReceived>(&event)) {
      const Attempt& attempt = attempts_.at(rep->handle);
      to_rts(attempt.qp, attempt.lid, rep->rep.local_qpn, attempt.mtu, rep->rep.starting_psn);
      take(engine_.establish(rep->handle, {}, now), "establish");
      --open_;
      ++active_;
    } else if (std::holds_alternative<cm::Established>(event)) {
      ++passive_;
    } else if (!std::holds_alternative<cm::MraReceived>(event)) {
      die("run", "a connection failed");
    }
  }
  const verbs::Device& device_;
  Carrier carrier_;
  int rank_;
  const Plan& plan_;
  std::uint32_t window_;
  verbs::PortInfo port_;
  verbs::Pd pd_;
  verbs::Cq cq_;
  cm::Engine engine_;
  std::vector<verbs::Qp> spare_;
  std::vector<verbs::Qp> qps_;
  std::vector<Card> cards_;
  std::map<int, std::uint32_t> asked_;
  std::deque<int> waiting_;
  std::map<cm::Handle, Attempt> attempts_;
  std::uint32_t open_ = 0;
  std::uint32_t active_ = 0;
  std::uint32_t passive_ = 0;
};

struct Arguments {
  std::string carrier;
  std::string pattern;
  std::uint32_t connections;
  std::uint32_t window;
};

template <typename Carrier>
void measure(const verbs::Device& device, Carrier carrier, const Arguments& arguments) {
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const Plan plan(arguments.pattern, size, arguments.connections);
  Rank<Carrier> self(device, std::move(carrier), rank, plan, arguments.window);
  MPI_Barrier(MPI_COMM_WORLD);
  const Instant start = monotonic_now();
  self.run();
  const std::chrono::duration<double> mine = monotonic_now() - start;
  self.serve_the_others();

  const double seconds = mine.count();
  double slowest = 0;
  MPI_Reduce(&seconds, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  const std::uint64_t sent = self.sent();
  std::uint64_t messages = 0;
  MPI_Reduce(&sent, &messages, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) {
    std::printf(
        "{\"stack\": \"wireup\", \"carrier\": \"%s\", \"connections\": %u, "
        "\"connections_per_s\": %.1f, \"messages_per_connection\": %.3f}\n",
        arguments.carrier.c_str(), plan.total(), plan.total() / slowest,
        static_cast<double>(messages) / plan.total());
  }
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc != 5 || std::atoi(argv[3]) < 1 || std::atoi(argv[4]) < 1) {
    die("usage", "connect_rate ud|gsi 1to1|1toN|Nto1|alltoall CONNECTIONS WINDOW");
  }
  const Arguments arguments{argv[1], argv[2], static_cast<std::uint32_t>(std::atoi(argv[3])),
                            static_cast<std::uint32_t>(std::atoi(argv[4]))};
  const verbs::Device device = take(verbs::Device::open(""), "opening a device");
  if (arguments.carrier == "ud") {
    cm::UdCarrier::Options options;
    options.qkey = kQKey;
    measure(device, take(cm::UdCarrier::open(device, options), "ud carrier"), arguments);
  } else if (arguments.carrier == "gsi") {
    cm::GsiCarrier::Options options;
    options.device = device.name();
    measure(device, take(cm::GsiCarrier::open(options), "gsi carrier"), arguments);
  } else {
    die("CARRIER", "is neither ud nor gsi");
  }
  MPI_Finalize();
  return 0;
}
