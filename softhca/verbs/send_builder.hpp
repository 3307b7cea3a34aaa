// SPDX-License-Identifier: BSD-3-Clause
// The extended way of sending (ibv_wr_start … ibv_wr_complete): requests are put together one call
// at a time and posted all at once.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

namespace softhca::verbs {

struct Qp;

/// The requests of one QP between ibv_wr_start() and ibv_wr_complete(). The QP belongs to the
/// caller in between, as ibv_wr_start(3) has it: another thread's start() waits.
class SendBuilder {
 public:
  /// Which of the operations in `flags` (ibv_qp_create_send_ops_flags) a QP of this type can do:
  /// 0, EINVAL for one that its transport does not have, EOPNOTSUPP for one that nobody here has.
  static int check(ibv_qp_type type, std::uint64_t flags);

  /// Fills in the functions of `qp` for the operations in `flags`.
  static void install(ibv_qp_ex& qp, std::uint64_t flags);

  void start();
  /// Posts all or none: 0, or what the first mistake in a setter or ibv_post_send() would say.
  int complete(Qp& qp);
  void abort();

  ibv_send_wr& add(const ibv_qp_ex& qp, ibv_wr_opcode opcode);
  /// The request that setters are about.
  ibv_send_wr& last();
  void set_sges(std::size_t count, const ibv_sge* list);
  void set_inline(std::size_t count, const ibv_data_buf* list);

 private:
  struct Request {
    ibv_send_wr wr{};
    std::vector<ibv_sge> sges;
    std::vector<std::uint8_t> inline_data;
  };

  std::mutex mutex_;
  std::deque<Request> requests_;  // its elements stay where they are
  ibv_send_wr nowhere_{};         // what setters without a request write to
  int error_ = 0;
};

}  // namespace softhca::verbs
