// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <vector>

/// The messages of this rank: one to and one from each peer, in one registered buffer.
class Traffic {
 public:
  static constexpr std::size_t kMessageSize = 1024;

  Traffic(ibv_pd* pd, std::uint32_t rank, std::uint32_t size);
  ~Traffic();
  Traffic(const Traffic&) = delete;
  Traffic& operator=(const Traffic&) = delete;

  /// False when the buffer could not be registered.
  [[nodiscard]] bool is_ready() const noexcept { return mr_ != nullptr; }
  /// Posts the receive from `peer` and the send to it.
  [[nodiscard]] bool start(std::uint32_t peer, ibv_qp* qp);
  /// Takes completions; true when there were any. An error counts as a failed message.
  bool poll(ibv_cq* send_cq, ibv_cq* receive_cq);

  /// Both messages have come through, and the received one is what the peer must have sent.
  [[nodiscard]] bool is_verified(std::uint32_t peer) const noexcept;
  /// Both messages are over, well or not.
  [[nodiscard]] bool is_over(std::uint32_t peer) const noexcept;

 private:
  enum class State : std::uint8_t { None, Posted, Good, Bad };

  void take(const ibv_wc& completion, std::vector<State>& states, bool is_receive);
  [[nodiscard]] std::uint8_t* outgoing(std::uint32_t peer) noexcept;
  [[nodiscard]] std::uint8_t* incoming(std::uint32_t peer) noexcept;

  std::uint32_t rank_;
  std::vector<std::uint8_t> buffer_;
  std::vector<State> sent_;
  std::vector<State> received_;
  ibv_mr* mr_ = nullptr;
};
