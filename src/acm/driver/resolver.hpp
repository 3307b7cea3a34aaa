// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "acm/driver/node_directory.hpp"
#include "acm/driver/node_lock.hpp"
#include "base/ids.hpp"
#include "base/result.hpp"

namespace wireup::acm {

/// The node's resolver for one port and partition: a thread of its own, named "wireup-acm", with
/// every signal blocked. It answers the node's ranks on a socket, the fabric by ACM, and writes the
/// node cache. Held by the process that holds the node lock.
class Resolver {
 public:
  struct Options {
    NodeDirectory directory;
    /// The epoch whose lock is held.
    std::uint64_t epoch = 0;
    std::string device;
    std::uint8_t port = 1;
    PKey pkey{0xFFFF};
    std::uint32_t cache_entries = 16384;
  };
  /// Listens, then starts the thread; the port is opened by the thread, and when that fails the
  /// ranks are told why. `lock` must outlive the resolver.
  [[nodiscard]] static Result<std::unique_ptr<Resolver>> start(const Options& options,
                                                               NodeLock& lock);
  /// Ends the thread within one turn of its loop and takes the socket away, so that the ranks
  /// notice. The lock is the caller's to give back, after this.
  ~Resolver();
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  [[nodiscard]] std::uint64_t epoch() const noexcept;
  /// The thread has stepped down, because another epoch began.
  [[nodiscard]] bool has_ended() const noexcept;

 private:
  struct State;
  explicit Resolver(std::unique_ptr<State> state) noexcept;

  std::unique_ptr<State> state_;
};

}  // namespace wireup::acm
