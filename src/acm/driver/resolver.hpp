// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>

#include "acm/driver/node_lock.hpp"
#include "acm/driver/port_resolver.hpp"
#include "acm/driver/service_watch.hpp"
#include "base/result.hpp"

namespace wireup::acm {

/// A PortResolver on a thread of its own, named "wireup-acm", with every signal blocked.
class Resolver {
 public:
  /// Listens, then starts the thread; the port is opened by the thread, and when that fails the
  /// ranks are told why. `lock` must outlive the resolver. When `service` is there, or there again,
  /// the resolver steps down by itself.
  [[nodiscard]] static Result<std::unique_ptr<Resolver>> start(const PortResolverOptions& options,
                                                               NodeLock& lock,
                                                               ServiceWatch service);
  /// Ends the thread within one turn of its loop and takes the socket away, so that the ranks
  /// notice. The lock is the caller's to give back, after this.
  ~Resolver();
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  [[nodiscard]] std::uint64_t epoch() const noexcept;
  /// The thread has stepped down, because another epoch began, or the node has a service.
  [[nodiscard]] bool has_ended() const noexcept;

 private:
  struct State;
  explicit Resolver(std::unique_ptr<State> state) noexcept;

  std::unique_ptr<State> state_;
};

}  // namespace wireup::acm
