// SPDX-License-Identifier: BSD-3-Clause
//
// connect_all: every pair of MPI ranks connects, sends a checked message each way over RC, and
// disconnects. Rank i asks for the connections to all ranks above it; with --both each rank asks
// for all, so that every pair is asked for from both ends at once. Rank 0 writes the outcome.
#include <mpi.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "connect_all/report.hpp"
#include "connect_all/traffic.hpp"
#include "wireup/wireup.hpp"

namespace {

using Clock = std::chrono::steady_clock;

struct Arguments {
  std::string json;
  bool both = false;
  bool helper_thread = false;
  /// Connections that a rank asks for at a time.
  std::uint32_t window = 8;
  std::chrono::seconds timeout{60};
};

bool parse(int argc, char** argv, Arguments& arguments) {
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    const bool has_value = i + 1 < argc;
    if (name == "--both") {
      arguments.both = true;
    } else if (name == "--helper-thread") {
      arguments.helper_thread = true;
    } else if (name == "--json" && has_value) {
      arguments.json = argv[++i];
    } else if (name == "--window" && has_value) {
      arguments.window = static_cast<std::uint32_t>(std::strtoul(argv[++i], nullptr, 10));
    } else if (name == "--timeout" && has_value) {
      arguments.timeout = std::chrono::seconds(std::strtol(argv[++i], nullptr, 10));
    } else {
      std::fprintf(stderr,
                   "usage: connect_all [--both] [--helper-thread] [--window CONNECTS] "
                   "[--timeout SECONDS] [--json FILE]\n");
      return false;
    }
  }
  return arguments.window > 0 && arguments.timeout.count() > 0;
}

/// One rank's part of the job.
class Job {
 public:
  Job(wireup::Context& context, const Arguments& arguments)
      : context_(context),
        arguments_(arguments),
        rank_(context.rank()),
        size_(context.size()),
        deadline_(Clock::now() + 2 * arguments.timeout),
        traffic_(context.pd(), rank_, size_),
        ends_(size_),
        next_(arguments.both ? 0 : rank_ + 1) {}

  /// Connects to all and exchanges the messages.
  bool connect() {
    if (!traffic_.is_ready()) {
      std::fprintf(stderr, "rank %u: registering the message buffer failed\n", rank_);
      return false;
    }
    return run_until([this] { return ask() && settled_ == size_ - 1; });
  }

  /// The lower rank of each pair ends its connection.
  bool disconnect() {
    for (std::uint32_t peer = rank_ + 1; peer < size_; ++peer) {
      if (ends_[peer].connected > 0) {
        if (const auto status = context_.disconnect(peer); !status) {
          std::fprintf(stderr, "rank %u: %s\n", rank_, status.text().c_str());
        }
      }
    }
    return run_until([this] { return disconnected_ >= connected_; });
  }

  /// Waits for all ranks while the connections are served.
  bool barrier() {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    const bool ok = run_until([&request] {
      int done = 0;
      MPI_Test(&request, &done, MPI_STATUS_IGNORE);
      return done != 0;
    });
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    return ok;
  }

  [[nodiscard]] const std::vector<EndRecord>& ends() {
    for (std::uint32_t peer = 0; peer < size_; ++peer) {
      ends_[peer].verified = traffic_.is_verified(peer) ? 1 : 0;
    }
    return ends_;
  }

 private:
  /// Asks for the next peers while fewer than the window are on their way.
  bool ask() {
    while (next_ < size_ && pending_.size() < arguments_.window) {
      const std::uint32_t peer = next_++;
      if (peer == rank_ || ends_[peer].connected > 0) {
        continue;
      }
      if (const auto status = context_.connect(peer, arguments_.timeout); status) {
        pending_.insert(peer);
      } else {
        std::fprintf(stderr, "rank %u: connect to %u: %s\n", rank_, peer, status.text().c_str());
        ++settled_;
      }
    }
    return next_ >= size_;
  }

  template <typename Done>
  bool run_until(Done done) {
    while (!done()) {
      if (Clock::now() > deadline_) {
        std::fprintf(stderr, "rank %u: not done in time: %u of %u peers settled, %zu pending\n",
                     rank_, settled_, size_ - 1, pending_.size());
        for (std::uint32_t peer = 0; peer < size_; ++peer) {
          const EndRecord& end = ends_[peer];
          if (end.connected != end.disconnected) {
            std::fprintf(stderr, "rank %u: rank %u: connected %u times, disconnected %u times\n",
                         rank_, peer, end.connected, end.disconnected);
          }
        }
        return false;
      }
      bool came = false;
      // With the data still on its way the wait is short: the completion queues are not in it.
      const auto status = context_.wait(std::chrono::milliseconds(1), came);
      if (!status) {
        std::fprintf(stderr, "rank %u: %s\n", rank_, status.text().c_str());
        return false;
      }
      while (const auto event = context_.poll_event()) {
        handle(*event);
      }
      while (traffic_.poll(context_.send_cq(), context_.receive_cq())) {
        settle();
      }
    }
    return true;
  }

  void handle(const wireup_event_t& event) {
    EndRecord& end = ends_[event.rank];
    switch (event.type) {
      case WIREUP_EVENT_CONNECTED:
        pending_.erase(event.rank);
        ++connected_;
        if (++end.connected == 1) {
          describe(event.rank, end);
          open_.insert(event.rank);
          if (!traffic_.start(event.rank, event.qp)) {
            std::fprintf(stderr, "rank %u: posting to rank %u failed\n", rank_, event.rank);
          }
        }
        break;
      case WIREUP_EVENT_FAILED:
        pending_.erase(event.rank);
        std::fprintf(stderr, "rank %u: connect to %u failed at step %s: %s\n", rank_, event.rank,
                     wireup_step_str(event.step), event.text);
        ++settled_;
        break;
      case WIREUP_EVENT_DISCONNECTED:
        ++end.disconnected;
        ++disconnected_;
        break;
      // This program asks for connections alone.
      case WIREUP_EVENT_RESOLVED:
      case WIREUP_EVENT_UNRESOLVED:
      case WIREUP_EVENT_PATH_CHANGED:
      case WIREUP_EVENT_NONE:
        break;
    }
    settle();
  }

  void describe(std::uint32_t peer, EndRecord& end) {
    const auto info = context_.peer_info(peer);
    if (!info.has_value()) {
      return;
    }
    end.local_qpn = info->local_qpn;
    end.peer_qpn = info->peer_qpn;
    end.path_origin = static_cast<std::uint32_t>(info->path_origin);
    end.passive = info->passive;
    end.connect_ns = info->connect_time_ns;
    std::memcpy(end.sgid.data(), info->sgid, end.sgid.size());
    std::memcpy(end.dgid.data(), info->dgid, end.dgid.size());
  }

  void settle() {
    for (auto peer = open_.begin(); peer != open_.end();) {
      if (traffic_.is_over(*peer)) {
        ++settled_;
        peer = open_.erase(peer);
      } else {
        ++peer;
      }
    }
  }

  wireup::Context& context_;
  const Arguments& arguments_;
  std::uint32_t rank_;
  std::uint32_t size_;
  Clock::time_point deadline_;
  Traffic traffic_;
  std::vector<EndRecord> ends_;
  std::uint32_t next_;
  std::set<std::uint32_t> pending_;
  std::set<std::uint32_t> open_;
  std::uint32_t connected_ = 0;
  std::uint32_t disconnected_ = 0;
  /// Peers with which this rank is through, well or not.
  std::uint32_t settled_ = 0;
};

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

/// Hosts that the ranks run on, counted by name.
std::uint32_t count_hosts(std::uint32_t size) {
  std::vector<char> names(std::size_t{size} * MPI_MAX_PROCESSOR_NAME);
  char own[MPI_MAX_PROCESSOR_NAME] = {};
  int length = 0;
  MPI_Get_processor_name(own, &length);
  MPI_Allgather(own, MPI_MAX_PROCESSOR_NAME, MPI_CHAR, names.data(), MPI_MAX_PROCESSOR_NAME,
                MPI_CHAR, MPI_COMM_WORLD);
  std::set<std::string> hosts;
  for (std::uint32_t i = 0; i < size; ++i) {
    hosts.insert(names.data() + std::size_t{i} * MPI_MAX_PROCESSOR_NAME);
  }
  return static_cast<std::uint32_t>(hosts.size());
}

/// Gathers all records to rank 0, which reports; true everywhere when all is well.
bool gather_and_report(wireup::Context& context, const std::vector<EndRecord>& ends,
                       const std::array<double, 3>& phases_ms, const Arguments& arguments) {
  JobRecord job;
  job.phases_ms = phases_ms;
  job.ranks = context.size();
  job.hosts = count_hosts(job.ranks);
  job.ends.resize(std::size_t{job.ranks} * job.ranks);
  const wireup_stats_t stats = context.stats();
  std::uint64_t counts[2] = {stats.cm_retransmitted, stats.crossed};
  std::uint64_t sums[2] = {0, 0};
  MPI_Reduce(counts, sums, 2, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
  job.retransmits = sums[0];
  job.crossed = sums[1];
  job.carrier = context.carrier();
  const int bytes = static_cast<int>(ends.size() * sizeof(EndRecord));
  MPI_Gather(ends.data(), bytes, MPI_BYTE, job.ends.data(), bytes, MPI_BYTE, 0, MPI_COMM_WORLD);

  int ok = 1;
  if (context.rank() == 0) {
    const Report report = make_report(job);
    ok = report.failed == 0 && report.verified ? 1 : 0;
    if (arguments.json.empty()) {
      std::fputs(report.json.c_str(), stdout);
    } else if (std::FILE* file = std::fopen(arguments.json.c_str(), "w"); file != nullptr) {
      const bool written = std::fputs(report.json.c_str(), file) >= 0;
      ok = std::fclose(file) == 0 && written ? ok : 0;
    } else {
      std::perror(arguments.json.c_str());
      ok = 0;
    }
  }
  MPI_Bcast(&ok, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return ok != 0;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  Arguments arguments;
  if (!parse(argc, argv, arguments)) {
    MPI_Abort(MPI_COMM_WORLD, 2);
    return 2;
  }
  wireup::Config config;
  config.flags = arguments.helper_thread ? WIREUP_FLAG_HELPER_THREAD : 0;
  wireup::Status status;
  auto start = Clock::now();
  auto context = wireup::Context::open(config, status);
  if (!context.has_value()) {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    std::fprintf(stderr, "rank %d: wireup: %s: %s\n", rank, wireup_status_name(status.code()),
                 status.text().c_str());
    MPI_Abort(MPI_COMM_WORLD, 1);
    return 1;
  }
  std::array<double, 3> phases_ms{milliseconds_since(start), 0, 0};
  bool ok = false;
  {
    Job job(*context, arguments);
    start = Clock::now();
    ok = job.connect();
    ok = job.barrier() && ok;  // nobody disconnects while a message is under way
    phases_ms[1] = milliseconds_since(start);
    start = Clock::now();
    ok = job.disconnect() && ok;
    ok = job.barrier() && ok;  // and nobody leaves while a peer may repeat its DREQ
    phases_ms[2] = milliseconds_since(start);
    ok = gather_and_report(*context, job.ends(), phases_ms, arguments) && ok;
  }
  if (const auto closed = context->close(std::chrono::seconds(10)); !closed) {
    std::fprintf(stderr, "wireup: closing: %s\n", closed.text().c_str());
    ok = false;
  }
  MPI_Finalize();
  return ok ? 0 : 1;
}
