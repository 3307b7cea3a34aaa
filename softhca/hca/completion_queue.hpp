// SPDX-License-Identifier: BSD-3-Clause
// A completion queue of this process: its place in the registry and its pinned ring.
#pragma once

#include <cstdint>
#include <memory>

#include "softhca/hca/completion.hpp"
#include "softhca/hca/layout.hpp"

namespace softhca::hca {

class Runtime;

class CompletionQueue {
 public:
  /// nullptr with `error`: EINVAL (cqe 0 or too many), ENOMEM (RLIMIT_MEMLOCK or no slot left).
  /// `channel` may be {kNone, 0}.
  static std::unique_ptr<CompletionQueue> create(Runtime& runtime, std::uint32_t cqe,
                                                 ChannelName channel, ChannelName async,
                                                 int& error);
  CompletionQueue(const CompletionQueue&) = delete;
  CompletionQueue& operator=(const CompletionQueue&) = delete;
  ~CompletionQueue();

  [[nodiscard]] std::uint32_t slot() const { return slot_; }
  [[nodiscard]] std::uint32_t generation() const { return generation_; }
  /// Entries it really has; at least what was asked for.
  [[nodiscard]] std::uint32_t cqe() const { return cqe_; }
  [[nodiscard]] CqConsumer& consumer() { return consumer_; }

  /// As CqConsumer's. A program that finds nothing, or is about to wait, may be waiting for one
  /// that cannot reach its memory; so these offer a relay if there is need of one.
  int poll(int count, ibv_wc* out);
  int take(Cqe& out);
  /// From now on completions say when they came.
  void keep_times();
  void arm(bool solicited_only);

  /// 0, EINVAL or ENOMEM.
  int resize(std::uint32_t cqe);

 private:
  CompletionQueue(Runtime& runtime, std::uint32_t slot);

  Runtime* runtime_;
  std::uint32_t slot_;
  std::uint32_t generation_ = 0;
  std::uint32_t cqe_ = 0;
  CqConsumer consumer_;
};

}  // namespace softhca::hca
