// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "acm/driver/node_directory.hpp"
#include "acm/driver/service_message.hpp"
#include "acm/driver/user_shares.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace wireup::acm {

struct RankServerLimits {
  Audience audience = Audience::OwnUser;
  /// More are left waiting in the listener's queue. Keep it below the process's limit of
  /// descriptors by what the process needs besides.
  std::size_t max_ranks = 16384;
  /// A user's ranks beyond this are disconnected at once.
  std::size_t max_ranks_each_user = 16384;
  /// Questions of a user that are not answered yet, and requests of one that are not polled yet;
  /// those beyond it wait in its ranks' sockets.
  std::size_t max_pending_each_user = 16384;
};

/// The resolver's side of the ranks' socket: connections, requests in, replies out. A rank that
/// breaks the format, or does not take its replies, is disconnected alone. Not thread-safe; never
/// blocks.
class RankServer {
 public:
  using RankId = std::uint64_t;
  struct Request {
    RankId rank = 0;
    /// Whose process the rank is.
    uid_t user = 0;
    ServiceRequest request;
  };

  /// Takes over a listening socket and makes the descriptor to wait for.
  [[nodiscard]] static Result<RankServer> open(UniqueFd listener,
                                               const RankServerLimits& limits = {});

  /// Readable when progress() has something to do.
  [[nodiscard]] int fd() const noexcept { return epoll_.value(); }
  void progress();
  /// A question (ServiceOp::Resolve) is pending until a reply() to its rank with the same question,
  /// or until the rank goes. One that is asked again while it is pending is one.
  [[nodiscard]] std::optional<Request> poll_request();
  /// A rank that has gone; its requests need no reply.
  [[nodiscard]] std::optional<RankId> poll_gone();
  /// To a rank that has gone: nothing.
  void reply(RankId rank, const ServiceReply& reply);
  [[nodiscard]] std::size_t ranks() const noexcept { return ranks_.size(); }
  /// Questions of a user that are pending.
  [[nodiscard]] std::size_t pending(uid_t user) const { return pending_shares_.held(user); }

 private:
  struct Rank {
    UniqueFd socket;
    uid_t user = 0;
    std::deque<ServiceReplyBytes> waiting;
    std::set<RankQuestion> pending;
    /// What its socket is watched for.
    std::uint32_t watched = 0;
    /// Nothing is read from it until its user has room again.
    bool is_held_back = false;
  };
  using Place = std::map<RankId, Rank>::iterator;

  RankServer(UniqueFd listener, UniqueFd epoll, const RankServerLimits& limits) noexcept
      : listener_(std::move(listener)),
        epoll_(std::move(epoll)),
        limits_(limits),
        rank_shares_(limits.max_ranks_each_user),
        pending_shares_(limits.max_pending_each_user),
        queued_shares_(limits.max_pending_each_user) {}
  void accept_all();
  void receive_from(RankId id);
  void handle_hang_up(RankId id);
  /// False: the packet breaks the format.
  [[nodiscard]] bool take(Place at, std::span<const std::uint8_t> packet);
  void send_to(RankId id);
  void drop(RankId id);
  void hold_back(Place at);
  void end_pending(Place at, std::set<RankQuestion>::iterator question);
  [[nodiscard]] bool is_full(uid_t user) const;
  void let_go_on(uid_t user);
  /// Watches the rank's socket for what is to be done with it now; drops the rank where it cannot.
  void watch_rank(Place at);

  UniqueFd listener_;
  UniqueFd epoll_;
  RankServerLimits limits_;
  /// Out of descriptors or of room: the listener is not watched until the next turn.
  bool is_paused_ = false;
  RankId next_id_ = 1;
  std::map<RankId, Rank> ranks_;
  UserShares rank_shares_;
  UserShares pending_shares_;
  UserShares queued_shares_;
  /// Ranks that are held back, by user.
  std::map<uid_t, std::set<RankId>> held_back_;
  std::deque<Request> requests_;
  std::deque<RankId> gone_;
};

}  // namespace wireup::acm
