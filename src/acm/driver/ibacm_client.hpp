// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "acm/server/client_message.hpp"
#include "base/error.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "base/unique_fd.hpp"

namespace wireup::acm {

/// Where ibacm listens for librdmacm, and so does `wireup serve`.
inline constexpr const char* kIbacmSocket = "/run/ibacm.sock";

/// Does a service listen at the socket now?
[[nodiscard]] bool has_listener(const std::string& socket);

/// A client of the node's ibacm, or of `wireup serve` in its place. ibacm hangs up on who sends a
/// request before it has the answer to the one before, so each connection carries one question at a
/// time, and several connections several; a question that nobody there can answer holds one until
/// its deadline. Connections are made when there is something to ask, kept, and made anew after a
/// hang-up.
///
/// Not thread-safe; never blocks. The service is not trusted: an answer that is none, is to another
/// question, or comes unasked costs its connection.
class IbacmClient {
 public:
  struct Options {
    std::string socket = kIbacmSocket;
    std::size_t connections = 4;
    /// How often a question is put when the service hangs up on it.
    unsigned tries = 2;
    /// Waits between attempts to connect, doubled each time up to the longest.
    Duration first_reconnect = std::chrono::milliseconds(10);
    Duration max_reconnect = std::chrono::seconds(1);
    /// How long questions wait for a service that was there and is gone, as when it is restarted.
    /// For one that was never there they do not wait.
    Duration absence = std::chrono::seconds(3);
    /// Only a service of root or of this user is asked.
    bool check_owner = true;
  };
  /// Makes the descriptor to wait for; connects later. Errc::InvalidArgument: the socket's name is
  /// too long.
  [[nodiscard]] static Result<IbacmClient> open(const Options& options);

  /// One Answer with `request.tid` follows, at `deadline` at the latest. The tid must not be that
  /// of a question whose answer is still to come: a defect otherwise.
  void ask(const ClientRequest& request, Instant deadline, Instant now);

  /// The status of a reply is the asker's to look at. Errors: Errc::NotFound (nobody listens
  /// there), Errc::NoPermission (the socket is not for us, or the service is another user's),
  /// Errc::Timeout, Errc::PeerGone (it hung up on every try), Errc::Malformed (it answered
  /// something else).
  struct Answer {
    Tid tid;
    Result<ClientReply> reply;
  };
  [[nodiscard]] std::optional<Answer> poll_answer();

  /// Readable when progress() has something to do; constant for life.
  [[nodiscard]] int fd() const noexcept { return epoll_.value(); }
  void progress(Instant now);
  [[nodiscard]] std::optional<Instant> poll_timeout() const;

  [[nodiscard]] const std::string& socket() const noexcept { return options_.socket; }
  /// Questions without an answer.
  [[nodiscard]] std::size_t pending() const noexcept { return questions_.size(); }
  [[nodiscard]] std::size_t connections() const noexcept { return connections_.size(); }

 private:
  struct Question {
    ClientRequest request;
    Instant deadline;
    unsigned tries = 0;
  };
  struct Connection {
    UniqueFd fd;
    /// The question on its way.
    std::optional<Tid> asked;
    /// What came of its answer: the header, then all of it.
    std::vector<std::uint8_t> buffer;
    std::size_t received = 0;
  };

  IbacmClient(const Options& options, UniqueFd epoll) noexcept;
  void expire(Instant now);
  void send_waiting(Instant now);
  [[nodiscard]] Connection* free_connection(Instant now);
  [[nodiscard]] Result<UniqueFd> connect() const;
  void note_absence(const Error& error, Instant now);
  void receive(Connection& connection);
  [[nodiscard]] Result<> take(Connection& connection);
  void hung_up(Connection& connection, const Error& why);
  void finish(Tid tid, const Result<ClientReply>& reply);
  [[nodiscard]] Error timed_out() const;

  Options options_;
  UniqueFd epoll_;
  std::map<Tid, Question> questions_;
  /// Of those, the ones that no connection carries, in their order.
  std::deque<Tid> waiting_;
  std::vector<Connection> connections_;
  std::deque<Answer> answers_;
  Instant next_connect_;
  Duration reconnect_wait_;
  /// Since when it cannot be reached, and why; nothing while it can, or was not tried.
  std::optional<Instant> absent_since_;
  Error absence_;
  bool was_there_ = false;
};

}  // namespace wireup::acm
