// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "acm/driver/user_shares.hpp"
#include "acm/server/client_listener.hpp"
#include "acm/server/client_message.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "base/unique_fd.hpp"

namespace wireup::acm {

/// Who is behind a connection, as the kernel says.
struct ClientPeer {
  pid_t pid = 0;
  uid_t uid = 0;
  gid_t gid = 0;
};

struct ClientServerLimits {
  /// More are left waiting in the listener's queue. Keep it below the process's limit of
  /// descriptors by what the process needs besides.
  std::size_t max_clients = 16384;
  /// A user's clients beyond this are disconnected at once.
  std::size_t max_clients_each_user = 8192;
  /// Requests of a user that are served at a time; its others wait their turn.
  std::size_t max_served_each_user = 1024;
  /// A client that has begun a request has this long to finish it.
  Duration half_request = std::chrono::seconds(10);
};

/// The service's side of the clients' socket: connections, requests in, replies out. A client's
/// requests are served one after the other, in their order, however they arrive: in pieces or
/// several at once. While one is being served, or its reply is not taken, nothing is read from that
/// client, so it holds one request and one reply at most here. A client that breaks the frame is
/// disconnected alone. One that has closed its sending half still gets its replies.
///
/// Not thread-safe; never blocks.
class ClientServer {
 public:
  using ClientId = std::uint64_t;
  struct Request {
    ClientId client = 0;
    ClientPeer peer;
    /// Never a ClientRefusal: those are answered here.
    ClientRequest request;
  };
  struct Gone {
    ClientId client = 0;
    ClientPeer peer;
    /// Why it was disconnected; nothing when it went by itself.
    std::optional<Error> why;
  };
  struct Counters {
    std::uint64_t accepted = 0;
    std::uint64_t requests = 0;
    /// Answered here with a failure.
    std::uint64_t refused = 0;
    /// Disconnected for what they sent, or did not send in time.
    std::uint64_t expelled = 0;
    /// Disconnected at once, for their user has as many clients as one may.
    std::uint64_t turned_away = 0;
  };

  [[nodiscard]] static Result<ClientServer> open(ClientListener listener,
                                                 const ClientServerLimits& limits);

  /// Readable when progress() has something to do.
  [[nodiscard]] int fd() const noexcept { return epoll_.value(); }
  void progress(Instant now);
  /// When progress() has to be called although fd() is not readable.
  [[nodiscard]] std::optional<Instant> poll_timeout() const noexcept;
  /// The next request, to be answered by exactly one reply(). Poll until empty after progress() and
  /// after reply(): an answered client may have sent the next one already.
  [[nodiscard]] std::optional<Request> poll_request();
  /// A client that has gone. The request that was polled of it, if any, is its user's until its
  /// reply(), which goes nowhere.
  [[nodiscard]] std::optional<Gone> poll_gone();
  /// To a client that has gone: nothing is sent. A second reply to a request is a defect.
  void reply(ClientId client, const ClientReply& reply);

  [[nodiscard]] std::size_t clients() const noexcept { return clients_.size(); }
  [[nodiscard]] const Counters& counters() const noexcept { return counters_; }

 private:
  struct Client {
    UniqueFd socket;
    ClientPeer peer;
    /// What has arrived of requests that are not being served.
    std::vector<std::uint8_t> input;
    /// The reply, and how much of it is sent.
    std::vector<std::uint8_t> output;
    std::size_t sent = 0;
    bool is_served = false;
    /// It has a request, but its user has as many served as one may.
    bool is_queued = false;
    /// It will send nothing more.
    bool has_ended = false;
    /// What its socket is watched for.
    std::uint32_t watched = 0;
    /// Set while `input` is the beginning of a request.
    std::optional<Instant> deadline;
  };
  using Place = std::map<ClientId, Client>::iterator;

  ClientServer(ClientListener listener, UniqueFd epoll, const ClientServerLimits& limits) noexcept
      : listener_(std::move(listener)),
        epoll_(std::move(epoll)),
        limits_(limits),
        client_shares_(limits.max_clients_each_user),
        served_shares_(limits.max_served_each_user) {}
  void accept_all();
  void add(UniqueFd socket);
  void pause_accepting();
  void resume_accepting();
  void handle_events(ClientId id, std::uint32_t events);
  // These end with the client in order, or with it gone: the place is not valid after them.
  void receive_from(Place at);
  void send_to(Place at);
  void go_on(Place at);
  void drop(Place at, const std::optional<Error>& why);
  /// The next step for a client that is not being served: true when there is a request.
  [[nodiscard]] Result<bool> take_request(Place at);
  /// The request of a client that has gone is served no more.
  void end_orphan(ClientId client);
  /// A request of this user is served no more: the next one's turn.
  void end_served(uid_t user);
  void set_deadline(Place at, std::optional<Instant> deadline);
  [[nodiscard]] bool watch(int operation, int fd, ClientId id, std::uint32_t events) noexcept;

  ClientListener listener_;
  UniqueFd epoll_;
  ClientServerLimits limits_;
  Instant now_;
  /// Out of descriptors or of room: the listener is not watched until then, or until a client goes.
  std::optional<Instant> paused_until_;
  ClientId next_id_ = 1;
  std::map<ClientId, Client> clients_;
  UserShares client_shares_;
  UserShares served_shares_;
  /// Whose requests those are that are served for clients that have gone.
  std::map<ClientId, uid_t> orphans_;
  /// Clients whose requests wait their turn, by user; some may have gone.
  std::map<uid_t, std::deque<ClientId>> queued_;
  /// Of those that have begun a request.
  std::set<std::pair<Instant, ClientId>> deadlines_;
  std::deque<Request> requests_;
  std::deque<Gone> gone_;
  Counters counters_;
};

}  // namespace wireup::acm
