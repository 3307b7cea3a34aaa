// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "acm/driver/service_message.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace wireup::acm {

/// The resolver's side of the ranks' socket: connections, requests in, replies out. A rank that
/// breaks the format, or does not take its replies, is disconnected alone. Not thread-safe; never
/// blocks.
class RankServer {
 public:
  using RankId = std::uint64_t;
  struct Request {
    RankId rank = 0;
    ServiceRequest request;
  };

  /// Takes over a listening socket and makes the descriptor to wait for.
  [[nodiscard]] static Result<RankServer> open(UniqueFd listener);

  /// Readable when progress() has something to do.
  [[nodiscard]] int fd() const noexcept { return epoll_.value(); }
  void progress();
  [[nodiscard]] std::optional<Request> poll_request();
  /// A rank that has gone; its requests need no reply.
  [[nodiscard]] std::optional<RankId> poll_gone();
  /// To a rank that has gone: nothing.
  void reply(RankId rank, const ServiceReply& reply);
  [[nodiscard]] std::size_t ranks() const noexcept { return ranks_.size(); }

 private:
  struct Rank {
    UniqueFd socket;
    std::deque<ServiceReplyBytes> waiting;
    /// Its socket is watched for room.
    bool wants_room = false;
  };

  RankServer(UniqueFd listener, UniqueFd epoll) noexcept
      : listener_(std::move(listener)), epoll_(std::move(epoll)) {}
  void accept_all();
  void receive_from(RankId id);
  void send_to(RankId id);
  void drop(RankId id);

  UniqueFd listener_;
  UniqueFd epoll_;
  /// Out of descriptors: the listener is not watched until the next turn.
  bool is_paused_ = false;
  RankId next_id_ = 1;
  std::map<RankId, Rank> ranks_;
  std::deque<Request> requests_;
  std::deque<RankId> gone_;
};

}  // namespace wireup::acm
