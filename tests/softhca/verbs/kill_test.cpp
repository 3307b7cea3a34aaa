// SPDX-License-Identifier: BSD-3-Clause
// A process may be killed around any system call, and at any instruction of a send: nothing that it
// had stays taken, and its peer and the fabric go on. The victim is traced, so that the places do
// not depend on the machine.
#include <dirent.h>
#include <sys/ptrace.h>

#include <algorithm>
#include <random>

#include "softhca/hca/registry.hpp"
#include "softhca/verbs/two_hosts.hpp"
#include "support/seed.hpp"

namespace softhca::test {
namespace {

using wireup::test::rounds;
using wireup::test::seed;

/// What is taken in a registry, of whichever process.
struct Taken {
  std::size_t processes = 0;
  std::size_t chunks = 0;
  std::size_t blocks = 0;
  std::size_t numbers = 0;
  std::size_t fifos = 0;
  bool operator==(const Taken&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Taken& taken) {
  return out << taken.processes << " processes, " << taken.chunks << " chunks, " << taken.blocks
             << " blocks, " << taken.numbers << " QPNs, " << taken.fifos << " FIFOs";
}

template <typename Owners>
std::size_t owned(const Owners& owners) {
  return static_cast<std::size_t>(
      std::count_if(owners.begin(), owners.end(), [](const auto& each) { return each != 0; }));
}

Taken look(const hca::Registry& registry) {
  const hca::RegistryHeader& header = registry.header();
  Taken taken;
  taken.processes = static_cast<std::size_t>(
      std::count_if(header.processes.begin(), header.processes.end(),
                    [](const hca::ProcessRecord& record) { return record.token != 0; }));
  taken.chunks = owned(header.qp_chunks) + owned(header.cq_chunks) + owned(header.srq_chunks) +
                 owned(header.mr_chunks) + owned(header.channel_chunks);
  // Well beyond what these processes can take, and independent of the file's own idea of the end.
  constexpr std::size_t kBlocks = 4096;
  for (std::size_t block = 0; block < kBlocks; ++block) {
    taken.blocks += header.arena_blocks[block] != 0 ? 1U : 0U;
  }
  for (std::uint32_t hca = 0; hca < 2; ++hca) {
    for (std::uint32_t qpn = 0; qpn < hca::kQpnIndexSize; ++qpn) {
      taken.numbers += registry.find_qp(hca, qpn) != hca::kNone ? 1U : 0U;
    }
  }
  DIR* events = ::opendir((registry.dir() + "/" + hca::kEventsDir).c_str());
  while (const dirent* entry = events != nullptr ? ::readdir(events) : nullptr) {
    taken.fifos += entry->d_name[0] != '.' ? 1U : 0U;
  }
  if (events != nullptr) {
    ::closedir(events);
  }
  return taken;
}

/// Stops this process for its tracer.
void mark_for_tracer() {
  CHILD_CHECK(::raise(SIGSTOP) == 0);
}

/// A child that asked to be traced and stops at its marks. It is killed with this object at the
/// latest.
class Victim {
 public:
  explicit Victim(pid_t pid) : pid_(pid) {}
  Victim(const Victim&) = delete;
  Victim& operator=(const Victim&) = delete;
  ~Victim() { kill(); }

  void kill() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
      pid_ = 0;
    }
  }

  /// Makes up to `most` steps of a kind: PTRACE_SINGLESTEP for instructions, PTRACE_SYSCALL for
  /// entries to and returns from system calls. Returns how many it made before the next mark.
  std::uint64_t step(__ptrace_request kind, std::uint64_t most) {
    std::uint64_t steps = 0;
    while (steps < most && resume(kind) && !at_mark_) {
      ++steps;
    }
    return steps;
  }

 private:
  bool resume(__ptrace_request how) {
    int status = 0;
    if (::ptrace(how, pid_, nullptr, nullptr) != 0 || ::waitpid(pid_, &status, 0) != pid_) {
      return false;
    }
    if (!WIFSTOPPED(status)) {
      pid_ = 0;
      return false;
    }
    at_mark_ = WSTOPSIG(status) == SIGSTOP;
    return true;
  }

  pid_t pid_;
  bool at_mark_ = false;
};

/// Every kind of object made, and undone.
void whole_life() {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  CHILD_CHECK(list != nullptr && count == 1);
  ibv_context* context = ibv_open_device(list[0]);
  CHILD_CHECK(context != nullptr);
  ibv_free_device_list(list);
  ibv_pd* pd = ibv_alloc_pd(context);
  ibv_comp_channel* channel = ibv_create_comp_channel(context);
  CHILD_CHECK(pd != nullptr && channel != nullptr);
  ibv_cq* cq = ibv_create_cq(context, 2000, nullptr, channel, 0);  // a ring of several blocks
  ibv_srq_init_attr srq_init{nullptr, {16, 1, 0}};
  ibv_srq* srq = ibv_create_srq(pd, &srq_init);
  std::array<std::uint64_t, 8> memory{};
  ibv_mr* mr = ibv_reg_mr(pd, memory.data(), sizeof memory, IBV_ACCESS_LOCAL_WRITE);
  CHILD_CHECK(cq != nullptr && srq != nullptr && mr != nullptr);
  ibv_qp_init_attr init{};
  init.send_cq = cq;
  init.recv_cq = cq;
  init.cap = {8, 8, 1, 1, 0};
  init.qp_type = IBV_QPT_UD;
  ibv_qp* qp = ibv_create_qp(pd, &init);
  CHILD_CHECK(qp != nullptr);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qkey = 7;
  CHILD_CHECK(
      ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) == 0);
  ibv_gid group{};
  group.raw[0] = 0xFF;
  CHILD_CHECK(ibv_attach_mcast(qp, &group, 0xC001) == 0);
  CHILD_CHECK(ibv_req_notify_cq(cq, 0) == 0);
  CHILD_CHECK(ibv_resize_cq(cq, 600) == 0);
  CHILD_CHECK(ibv_detach_mcast(qp, &group, 0xC001) == 0);
  CHILD_CHECK(ibv_destroy_qp(qp) == 0 && ibv_dereg_mr(mr) == 0 && ibv_destroy_srq(srq) == 0);
  CHILD_CHECK(ibv_destroy_cq(cq) == 0 && ibv_destroy_comp_channel(channel) == 0);
  CHILD_CHECK(ibv_dealloc_pd(pd) == 0 && ibv_close_device(context) == 0);
}

}  // namespace

class Kill : public TwoHosts {
 protected:
  void SetUp() override {
    TwoHosts::SetUp();
    registry_ = hca::Registry::attach(dir_.path());
    ASSERT_NE(registry_, nullptr);
  }

  /// New sockets between the ends, for the next pair of programs.
  void renew_sockets() {
    ::close(sockets_[0]);
    ::close(sockets_[1]);
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets_.data()), 0);
    for (const int end : sockets_) {
      const timeval patience{60, 0};
      ASSERT_EQ(::setsockopt(end, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
    }
  }

  /// Starts a child that is traced, up to its first mark.
  template <typename Body>
  pid_t start_traced(const char* host, int end, Body&& body) {
    const pid_t pid = start(host, end, [&body](int socket) {
      CHILD_CHECK(::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) == 0);
      body(socket);
      ::_exit(0);
    });
    int status = 0;
    EXPECT_EQ(::waitpid(pid, &status, 0), pid);
    EXPECT_TRUE(WIFSTOPPED(status)) << status;
    return pid;
  }

  /// Kills a sender at instructions of a send, drawn at random over all of it, each time another
  /// pair of processes. `peer(socket)` gets the message, or a part of the way it would have gone.
  template <typename Peer>
  void kill_in_a_send(Peer&& peer);

  /// Nothing is left of the dead, and two programs can use the fabric.
  void expect_clean(std::uint64_t at) {
    registry_->reap();
    EXPECT_EQ(look(*registry_), Taken{}) << "after a kill at step " << at;
  }
  void expect_usable() {
    renew_sockets();
    run(
        [](int socket) {
          Program program(socket, IBV_QPT_RC, false);
          program.connect();
          program.meet();
          program.post(IBV_WR_SEND, 1, 0, 64);
          CHILD_CHECK(program.wait_for(1).status == IBV_WC_SUCCESS);
          program.meet();
        },
        [](int socket) {
          Program program(socket, IBV_QPT_RC, false);
          program.connect();
          program.post_recv(2, 0, 64);
          program.meet();
          CHILD_CHECK(program.wait_for(2).status == IBV_WC_SUCCESS);
          program.meet();
        });
    registry_->reap();
    EXPECT_EQ(look(*registry_), Taken{});
  }

  std::unique_ptr<hca::Registry> registry_;
};

template <typename Peer>
void Kill::kill_in_a_send(Peer&& peer) {
  const auto sender = [](int socket) {
    Program program(socket, IBV_QPT_RC, false);
    program.connect();
    program.meet();
    program.post(IBV_WR_SEND, 1, 0, 64);  // the first one faults pages in
    CHILD_CHECK(program.wait_for(1).status == IBV_WC_SUCCESS);
    mark_for_tracer();
    program.post(IBV_WR_SEND, 2, 0, 64);
    mark_for_tracer();
  };
  std::mt19937_64 draw(seed());
  std::uint64_t total = 0;
  for (std::uint64_t i = 0; i <= rounds(4) && !HasFailure(); ++i) {
    renew_sockets();
    const pid_t other = start("H2", 1, peer);
    std::uint64_t at = 0;
    {
      Victim victim(start_traced("H1", 0, sender));
      // Only the victim may hold its end of the socket: the peer sees it closed.
      ::close(sockets_[0]);
      ::close(sockets_[1]);
      sockets_ = {-1, -1};
      constexpr std::uint64_t kMost = 1'000'000;
      at = total == 0 ? kMost : std::uniform_int_distribution<std::uint64_t>(0, total)(draw);
      const std::uint64_t made = victim.step(PTRACE_SINGLESTEP, at);
      total = total == 0 ? made : total;
      ASSERT_GT(total, 100U) << "a send has more instructions";
      ASSERT_LT(total, kMost);
    }
    EXPECT_EQ(finish(other), 0) << "killed at " << at << " of " << total;
    expect_clean(at);
  }
  expect_usable();
}

/// Returns when the other end has died.
void wait_for_death(int socket) {
  char nothing = 0;
  CHILD_CHECK(::read(socket, &nothing, 1) == 0);
}

TEST_F(Kill, AtAnyInstructionOfASend) {
  kill_in_a_send([](int socket) {
    Program program(socket, IBV_QPT_RC, false);
    program.connect();
    for (std::uint64_t id = 20; id < 24; ++id) {
      program.post_recv(id, 0, 64);
    }
    program.meet();
    wait_for_death(socket);
    // Its own side of the connection works: it finds out, and is taken down.
    program.post(IBV_WR_SEND, 30, 0, 64);
    CHILD_CHECK(program.wait_for(30).status == IBV_WC_RETRY_EXC_ERR);
    CHILD_CHECK(program.wait_for(23).status == IBV_WC_WR_FLUSH_ERR);
  });
}

TEST_F(Kill, AtAnyInstructionOfASendToASharedReceiveQueue) {
  kill_in_a_send([this](int socket) {
    constexpr std::uint32_t kRoom = 4;
    Program program(socket, IBV_QPT_RC, false, kRoom);
    program.connect();
    for (std::uint64_t id = 20; id < 20 + kRoom; ++id) {
      program.post_recv(id, 0, 64);
    }
    program.meet();
    wait_for_death(socket);
    ibv_wc wc{};
    while (ibv_poll_cq(program.cq, 1, &wc) > 0) {
      CHILD_CHECK(wc.status == IBV_WC_SUCCESS);
    }
    // Whatever the dead took along, there is room again. A process dies in several steps, and may
    // have closed its files before it counts as dead.
    const hca::SrqRecord& queue = registry_->srq(program.srq->handle);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (queue.posted.load() - queue.taken.load() < kRoom &&
           std::chrono::steady_clock::now() < deadline) {
      const int error = program.try_post_recv(30, 0, 64);
      CHILD_CHECK(error == 0 || error == ENOMEM);
    }
    CHILD_CHECK(queue.posted.load() - queue.taken.load() == kRoom);
    CHILD_CHECK(program.try_post_recv(31, 0, 64) == ENOMEM);
  });
}

TEST_F(Kill, AroundEverySystemCallOfALife) {
  const auto life = [](int) {
    mark_for_tracer();
    whole_life();
    mark_for_tracer();
  };
  constexpr std::uint64_t kMost = 100'000;
  std::uint64_t total = 0;
  {
    Victim victim(start_traced("H1", 0, life));
    total = victim.step(PTRACE_SYSCALL, kMost);
    ASSERT_LT(total, kMost);
    ASSERT_GT(total, 50U) << "the life of a process has more steps";
  }
  expect_clean(total);
  for (std::uint64_t at = 0; at < total && !HasFailure(); ++at) {
    Victim victim(start_traced("H1", 0, life));
    victim.step(PTRACE_SYSCALL, at);
    victim.kill();
    expect_clean(at);
  }
  expect_usable();
}

}  // namespace softhca::test
