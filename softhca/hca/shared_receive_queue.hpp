// SPDX-License-Identifier: BSD-3-Clause
// A shared receive queue of this process.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <mutex>

#include "softhca/hca/layout.hpp"

namespace softhca::hca {

class Runtime;

class SharedReceiveQueue {
 public:
  /// nullptr with `error`: EINVAL (limits) or ENOMEM (RLIMIT_MEMLOCK, or no slot left).
  static std::unique_ptr<SharedReceiveQueue> create(Runtime& runtime, std::uint32_t pd,
                                                    const ibv_srq_attr& attr, ChannelName async,
                                                    int& error);
  SharedReceiveQueue(const SharedReceiveQueue&) = delete;
  SharedReceiveQueue& operator=(const SharedReceiveQueue&) = delete;
  ~SharedReceiveQueue();

  [[nodiscard]] std::uint32_t slot() const { return slot_; }
  [[nodiscard]] std::uint32_t generation() const { return generation_; }

  /// Only the limit can be set; a change of size is refused with EINVAL.
  int modify(const ibv_srq_attr& attr, int mask);
  void query(ibv_srq_attr& attr) const;
  int post(ibv_recv_wr* wr, ibv_recv_wr** bad);

 private:
  SharedReceiveQueue(Runtime& runtime, std::uint32_t slot) : runtime_(&runtime), slot_(slot) {}

  /// Finds out what senders took along that died before they completed it. True when there was
  /// such.
  bool recover_lost();

  Runtime* runtime_;
  std::uint32_t slot_;
  std::uint32_t generation_ = 0;
  std::uint64_t pinned_pages_ = 0;
  std::uint64_t ring_bytes_ = 0;
  std::mutex mutex_;
};

}  // namespace softhca::hca
