// SPDX-License-Identifier: BSD-3-Clause
// A queue pair of this process.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "softhca/hca/asynchrony.hpp"
#include "softhca/hca/completion.hpp"
#include "softhca/hca/pending.hpp"
#include "softhca/hca/port_cache.hpp"
#include "softhca/hca/send_request.hpp"

namespace softhca::hca {

class Runtime;

struct QpInit {
  std::uint32_t hca = 0;
  std::span<const PortIndex> ports;  // of the HCA; ports[0] is port number 1; outlives the QP
  std::uint32_t pd = 0;
  ibv_qp_type type = IBV_QPT_RC;
  std::uint32_t send_cq = kNone;  // slots
  std::uint32_t recv_cq = kNone;
  std::uint32_t srq = kNone;
  CqConsumer* send_consumer = nullptr;
  CqConsumer* recv_consumer = nullptr;
  ibv_qp_cap cap{};
  bool signal_all = false;
  bool block_self_multicast = false;
  ChannelName async{kNone, 0};
};

/// Thread rule: any thread, as for verbs. Lock order: the send mutex of a QP, then the rx_lock of
/// any QP (one at a time), then an SRQ's or CQ's lock.
class Qp final : public PendingTask {
 public:
  /// nullptr with `error`: EINVAL (limits, types), ENOMEM (RLIMIT_MEMLOCK, or no slot left).
  static std::unique_ptr<Qp> create(Runtime& runtime, const QpInit& init, int& error);

  Qp(const Qp&) = delete;
  Qp& operator=(const Qp&) = delete;
  ~Qp();

  [[nodiscard]] std::uint32_t number() const { return record_->qpn; }
  [[nodiscard]] std::uint32_t slot() const { return slot_; }
  [[nodiscard]] std::uint32_t generation() const { return generation_; }
  [[nodiscard]] std::uint32_t pd() const { return init_.pd; }
  [[nodiscard]] const QpInit& init() const { return init_; }
  [[nodiscard]] ibv_qp_state state() const;
  [[nodiscard]] bool had_events() const { return record_->had_events.load() != 0; }

  /// As ibv_modify_qp: 0 or EINVAL.
  int modify(const ibv_qp_attr& attr, int mask);
  /// All attributes, whatever the state.
  void query(ibv_qp_attr& attr);

  /// As ibv_post_send and ibv_post_recv: 0, EINVAL or ENOMEM, `bad` is the first not accepted.
  int post_send(ibv_send_wr* wr, ibv_send_wr** bad);
  int post_recv(ibv_recv_wr* wr, ibv_recv_wr** bad);
  /// Posts the whole list or, when one of it cannot be, nothing.
  int post_batch(const ibv_send_wr& first);

  /// Tries the pending work requests again.
  std::optional<std::uint64_t> progress(std::uint64_t now) override;

  /// Remembers that the QP is attached to some multicast group.
  void set_attached() { attached_ = true; }

  /// Waits until no access to memory under way can still use a region taken back before.
  void quiesce();

 private:
  Qp(Runtime& runtime, const QpInit& init, std::uint32_t slot);

  /// What came of one try: a completion, or a time to try again.
  struct Step {
    std::optional<std::uint64_t> retry_at;
    ibv_wc_status status = IBV_WC_SUCCESS;
    std::uint32_t byte_len = 0;
  };

  /// A work request that is not complete when posting it returns.
  struct Pending {
    explicit Pending(const SendRequest& posted) : request(posted) {}
    StoredRequest request;
    RetryState retry;
    std::uint64_t not_before = 0;  // when to execute it, or to try it again
    std::optional<Step> executed;  // what came of it
    std::uint64_t complete_at = 0;

    /// Whether the peer may have seen something of it.
    [[nodiscard]] bool started() const {
      return executed || retry.unanswered_since != 0 || retry.rnr_used != 0;
    }
  };

  bool values_ok(const ibv_qp_attr& attr, int mask, ibv_qp_state target) const;
  void store(const ibv_qp_attr& attr, int mask);
  void publish(ibv_qp_state from, ibv_qp_state to, int mask);
  void forget_completions();

  /// Whether `wr` can be posted after `ahead` more that are not posted yet.
  // Migration to the alternate path; in qp_migration.cpp.
  [[nodiscard]] bool migration_ok(const ibv_qp_attr& attr, int mask) const;
  void publish_paths();
  void set_migration(ibv_mig_state wanted);
  void adopt_migration();
  bool migrate_by_itself();
  void forget_routes();

  int check(const ibv_send_wr& wr, std::uint32_t ahead) const;
  void accept(const ibv_send_wr& wr);
  Step attempt(const SendRequest& request, RetryState& retry);
  Step no_answer(RetryState& retry);
  std::optional<Step> suffer_rules(const SendRequest& request, RetryState& retry);
  [[nodiscard]] bool path_broken(bool backwards);
  void enqueue(const SendRequest& request, const Asynchrony& mode);
  [[nodiscard]] bool may_execute() const;
  void execute_next(const Asynchrony& mode);
  [[nodiscard]] bool drained() const;
  void tell_drained();
  void stop_sending();
  [[nodiscard]] std::uint64_t delay(const Asynchrony& mode, Wait kind);
  void complete(const SendRequest& request, ibv_wc_status status, std::uint32_t byte_len);
  void flush_sends();
  void flush_recv_queue();

  Runtime* runtime_;
  QpInit init_;
  QpRecord* record_;
  std::uint32_t slot_;
  std::uint32_t generation_ = 0;
  std::uint64_t pinned_pages_ = 0;

  std::atomic<bool> attached_{false};

  std::mutex send_mutex_;  // everything below, and the order of sends
  std::mutex recv_mutex_;  // the order of posted receives
  ibv_qp_attr attr_{};
  std::uint32_t posted_ = 0;
  SendPath path_;
  std::deque<std::unique_ptr<Pending>> pending_;  // in order of posting
  std::size_t executed_ = 0;                      // so many at its front only await completion
  std::uint64_t delays_drawn_ = 0;
  std::uint32_t migrations_seen_ = 0;
  bool tell_when_drained_ = false;
};

}  // namespace softhca::hca
