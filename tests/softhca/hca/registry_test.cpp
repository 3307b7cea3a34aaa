// SPDX-License-Identifier: BSD-3-Clause
// What happens when processes die or are stopped.
#include <sys/socket.h>
#include <sys/wait.h>

#include <csignal>

#include "softhca/hca/rig.hpp"
#include "softhca/hca/robust_lock.hpp"

namespace softhca::test {
namespace {

void report(int fd, std::uint32_t value) {
  static_cast<void>(!::write(fd, &value, sizeof value));
}

std::uint32_t reported(int fd) {
  std::uint32_t value = 0;
  EXPECT_EQ(::read(fd, &value, sizeof value), static_cast<ssize_t>(sizeof value));
  return value;
}

/// A child process that the test exchanges numbers with. It begins before the parent has threads: a
/// sanitizer does not bear threads of a child whose parent had some.
class Child {
 public:
  /// `body` gets the socket to report on and must not return.
  template <typename Body>
  explicit Child(const Body& body) {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(ends[0]);
      body(ends[1]);
      ::_exit(99);
    }
    ::close(ends[1]);
    socket_ = ends[0];
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    ::close(socket_);
  }

  [[nodiscard]] std::uint32_t wait_for_report() const { return reported(socket_); }
  void tell(std::uint32_t value) const { report(socket_, value); }
  void kill() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  void stop() const {
    ::kill(pid_, SIGSTOP);
    int status = 0;
    ::waitpid(pid_, &status, WUNTRACED);
  }

 private:
  pid_t pid_ = 0;
  int socket_ = -1;
};

class Death : public Rig {
 protected:
  [[nodiscard]] std::uint16_t lid_of(const char* host) const {
    const FabricView& view = h1_->view();
    return view.port(view.hcas_of(host)[0].ports[0]).lid;
  }

  /// What a child does that receives `count` messages on H2 from a QP on H1, of which it is told.
  auto receiver(int count) const {
    return [this, count](int fd) {
      auto runtime = hca::Runtime::open(dir_.path(), "H2");
      const auto end = make_end(*runtime, {});
      report(fd, end->qp->number());
      if (end->init() != 0 || end->rtr(lid_of("H1"), reported(fd)) != 0 || end->rts() != 0) {
        ::_exit(1);
      }
      for (int i = 1; i <= count; ++i) {
        if (end->post_recv(static_cast<std::uint64_t>(i), 0, 64) != 0) {
          ::_exit(1);
        }
      }
      report(fd, 1);
      ::pause();
    };
  }

  /// A QP on H1 that is connected to that of such a child.
  [[nodiscard]] std::unique_ptr<End> sender_to(const Child& child) const {
    auto end = on_h1({});
    const std::uint32_t qpn = child.wait_for_report();
    child.tell(end->qp->number());
    EXPECT_EQ(end->init(), 0);
    EXPECT_EQ(end->rtr(lid_of("H2"), qpn), 0);
    EXPECT_EQ(end->rts(), 0);
    EXPECT_EQ(child.wait_for_report(), 1U);
    return end;
  }
};

TEST_F(Death, ObjectsOfADeadProcessAreClearedAway) {
  Child child([&](int fd) {
    auto runtime = hca::Runtime::open(dir_.path(), "H3");
    Options ud;
    ud.type = IBV_QPT_UD;
    const auto end = make_end(*runtime, ud);
    report(fd, end->qp->slot());
    ::pause();
  });
  const std::uint32_t slot = child.wait_for_report();
  const hca::QpRecord& record = h1_->registry().qp(slot);
  const std::uint32_t owner = record.owner.load();
  EXPECT_NE(owner, 0U);
  EXPECT_EQ(h1_->registry().find_qp(record.hca, record.qpn), slot);
  EXPECT_EQ(h1_->registry().reap(), 0U);
  child.kill();
  EXPECT_EQ(h1_->registry().reap(), 1U);
  EXPECT_EQ(record.owner.load(), 0U);
  EXPECT_EQ(h1_->registry().find_qp(record.hca, record.qpn), hca::kNone);
  EXPECT_EQ(h1_->registry().processes().find(owner), nullptr);
  EXPECT_EQ(h1_->registry().header().qp_chunks[slot / hca::kQpChunk].load(), 0U);
  EXPECT_TRUE(std::filesystem::is_empty(dir_.file("events")));
}

TEST_F(Death, ALockGoesFromADeadOwnerToTheNext) {
  hca::LockWord& lock = h1_->registry().header().attach_lock;
  Child child([&](int fd) {
    auto runtime = hca::Runtime::open(dir_.path(), "H3");
    const hca::RobustGuard guard(lock, runtime->registry().processes(), runtime->token());
    report(fd, 1);
    ::pause();
  });
  ASSERT_EQ(child.wait_for_report(), 1U);
  child.kill();
  const hca::RobustGuard guard(lock, h1_->registry().processes(), h1_->token());
  EXPECT_TRUE(guard.held());
}

TEST_F(Death, ALockGoesFromAStoppedOwnerToTheNext) {
  hca::LockWord& lock = h1_->registry().header().attach_lock;
  Child child([&](int fd) {
    auto runtime = hca::Runtime::open(dir_.path(), "H3");
    const hca::RobustGuard guard(lock, runtime->registry().processes(), runtime->token());
    report(fd, 1);
    ::pause();
  });
  ASSERT_EQ(child.wait_for_report(), 1U);
  child.stop();
  hca::RobustGuard guard(lock, h1_->registry().processes(), h1_->token());
  EXPECT_TRUE(guard.held());
}

TEST_F(Death, OnlyTheHolderGivesALockBack) {
  hca::LockWord lock{};
  hca::RobustGuard guard(lock, h1_->registry().processes(), h1_->token());
  EXPECT_TRUE(guard.held());
  lock.value.store(12345);  // as if it had been taken over
  EXPECT_FALSE(guard.held());
  guard.release();
  EXPECT_EQ(lock.value.load(), 12345U);
}

TEST_F(Death, SendingToADeadPeerEndsInRetryExceeded) {
  Child child(receiver(2));
  const auto a = sender_to(child);
  ASSERT_EQ(a->post_send(1, 0, 8), 0);
  EXPECT_EQ(a->wait()->status, IBV_WC_SUCCESS);
  child.kill();
  ASSERT_EQ(a->post_send(2, 0, 8), 0);
  EXPECT_EQ(a->wait()->status, IBV_WC_RETRY_EXC_ERR);
}

TEST_F(Death, AStoppedPeerStillReceives) {
  const Child child(receiver(1));
  const auto a = sender_to(child);
  child.stop();
  ASSERT_EQ(a->post_send(1, 0, 8), 0);
  EXPECT_EQ(a->wait()->status, IBV_WC_SUCCESS);
}

TEST_F(Death, SixteenThousandQueuePairsExistAtOnce) {
  int error = 0;
  const auto end = on_h1({});
  hca::QpInit init = end->qp->init();
  init.cap = {1, 1, 1, 1, 0};
  std::vector<std::unique_ptr<hca::Qp>> qps;
  for (int i = 0; i < 16384; ++i) {
    qps.push_back(hca::Qp::create(*h1_, init, error));
    ASSERT_NE(qps.back(), nullptr) << i << " " << std::strerror(error);
  }
  // A number is not used again at once.
  const std::uint32_t last = qps.back()->number();
  qps.pop_back();
  qps.push_back(hca::Qp::create(*h1_, init, error));
  EXPECT_NE(qps.back()->number(), last);
  // The file is sparse: it takes what is used, not what is possible.
  struct stat info {};
  ASSERT_EQ(::stat((dir_.file("hca")).c_str(), &info), 0);
  EXPECT_LT(info.st_blocks * 512, 64 << 20);
}

}  // namespace
}  // namespace softhca::test
