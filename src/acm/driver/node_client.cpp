// SPDX-License-Identifier: BSD-3-Clause
#include "acm/driver/node_client.hpp"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
#include <map>
#include <set>
#include <utility>

#include "acm/cache/node_cache.hpp"
#include "acm/driver/node_directory.hpp"
#include "acm/driver/node_lock.hpp"
#include "acm/driver/resolver.hpp"
#include "acm/driver/service_message.hpp"
#include "acm/driver/service_socket.hpp"
#include "acm/driver/service_watch.hpp"
#include "acm/engine/port_identity.hpp"
#include "base/clock.hpp"
#include "base/epoll.hpp"
#include "base/unique_fd.hpp"

namespace wireup::acm {
namespace {

/// How often a rank looks whether the resolver still beats.
constexpr Duration kWatchInterval = std::chrono::seconds(1);
/// Silence after which, seen at two looks in a row, a resolver is taken as stopped. Twice, because
/// a whole job that was stopped and goes on finds every beat old at its first look.
constexpr Duration kSilenceLimit = std::chrono::seconds(2);
/// Waits between tries to reach a resolver that is just starting.
constexpr Duration kFirstReconnect = std::chrono::milliseconds(2);
constexpr Duration kMaxReconnect = std::chrono::milliseconds(100);
/// The resolver is told a deadline this much earlier, so that its answer, which knows the reason,
/// is here before ours.
constexpr Duration kAnswerMargin = std::chrono::milliseconds(50);
/// A path older than this is asked for again.
constexpr Duration kMaxAge = std::chrono::hours(24);
constexpr int kRepliesPerTurn = 1024;
/// How long a process that may not resolve waits for another one of its node that does.
constexpr Duration kAbsence = std::chrono::seconds(2);

}  // namespace

struct NodeClient::State {
  struct Pending {
    /// As the caller wrote it.
    RankQuestion asked;
    Instant deadline;
    bool is_sent = false;
  };

  NodeClientOptions options;
  verbs::PortInfo port;
  PKey table_pkey;
  NodeDirectory directory;
  NodeLock lock;
  ServiceWatch service;
  /// The node's service is asked, not a rank of this user.
  bool uses_service = false;
  UniqueFd epoll;
  // Before the lock and the directory go, the resolver must have ended.
  std::unique_ptr<Resolver> resolver;
  std::optional<CacheReader> cache;
  /// The epoch of the cache and the socket.
  std::uint64_t epoch = 0;
  UniqueFd socket;
  /// The resolver has answered on this socket.
  bool is_answered = false;
  /// The socket's queue was full: it is watched for room.
  bool wants_room = false;
  std::map<RankQuestion, Pending> pending;
  /// Paths that failed here: the resolver may not have removed them yet, so they are asked for.
  std::set<PathKey> distrusted;
  std::deque<Resolution> done;
  Instant next_connect;
  /// Since when nobody listens.
  Instant absent_since;
  Duration reconnect_wait = kFirstReconnect;
  Instant next_watch;
  bool was_silent = false;
  /// Why there is no resolver.
  Error last_error{Errc::PathUnresolved};

  State(NodeDirectory names, NodeLock node_lock, ServiceWatch watch)
      : directory(std::move(names)), lock(std::move(node_lock)), service(std::move(watch)) {}
  ~State() { end_resolver(); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  [[nodiscard]] std::optional<PathKey> normalise(PathKey key) const noexcept;
  [[nodiscard]] Error other_port(const PathKey& key) const noexcept;
  [[nodiscard]] ResolvedPath local() const noexcept;
  /// Of the resolver that is asked.
  [[nodiscard]] const NodeDirectory& names() const noexcept {
    return uses_service ? service.names() : directory;
  }
  [[nodiscard]] std::uint64_t current_epoch() const noexcept {
    return uses_service ? service.epoch() : lock.epoch();
  }
  void use_service(bool wanted, Instant now);
  void leave_service(Instant now);
  [[nodiscard]] bool is_silent(Instant now) const;
  void end_resolver();
  void watch(Instant now);
  void follow_epoch(Instant now);
  void connect(Instant now);
  void elect(Instant now);
  void connected(UniqueFd fd, Instant now);
  void disconnect(Instant now);
  void lose(Instant now);
  void open_cache();
  void send_pending(Instant now);
  bool watch_room(bool wanted) noexcept;
  void receive(Instant now);
  void handle_reply(const ServiceReply& reply);
  void request(const RankQuestion& asked, const RankQuestion& wanted, Instant deadline);
  void finish(std::map<RankQuestion, Pending>::iterator at, const Result<ResolvedPath>& path);
  void expire(Instant now);
};

std::optional<PathKey> NodeClient::State::normalise(PathKey key) const noexcept {
  if (key.sgid != port.gid || key.pkey.partition() != table_pkey.partition()) {
    return std::nullopt;
  }
  key.pkey = table_pkey;
  return key;
}

Error NodeClient::State::other_port(const PathKey& key) const noexcept {
  return Error::make(Errc::InvalidArgument,
                     "a path from GID %s, P_Key 0x%04x was asked for, but %s has GID %s, "
                     "P_Key 0x%04x",
                     to_text(key.sgid).data(), key.pkey.value(), port.name().data(),
                     to_text(port.gid).data(), table_pkey.value());
}

ResolvedPath NodeClient::State::local() const noexcept {
  ResolvedPath path;
  path.record = local_path(
      {port.gid, port.lid, port.lmc, table_pkey, Qpn(), port.active_mtu, port.active_rate});
  path.origin = PathOrigin::Local;
  return path;
}

void NodeClient::State::end_resolver() {
  if (resolver != nullptr) {
    const std::uint64_t held = resolver->epoch();
    resolver.reset();
    lock.unlock(held);
  }
}

/// From the ranks' resolver to the node's service, or back.
void NodeClient::State::use_service(bool wanted, Instant now) {
  if (uses_service == wanted) {
    return;
  }
  if (wanted) {
    end_resolver();
  }
  uses_service = wanted;
  was_silent = false;
  cache.reset();
  disconnect(now);
  epoch = current_epoch();
}

void NodeClient::State::leave_service(Instant now) {
  service.leave(now);
  use_service(false, now);
}

bool NodeClient::State::is_silent(Instant now) const {
  if (uses_service) {
    return service.silence(now) > kSilenceLimit;
  }
  const bool is_mine = resolver != nullptr && !resolver->has_ended();
  return !is_mine && lock.silence(now) > kSilenceLimit;
}

/// Has the node a service now? Or has the resolver stopped beating? Then this process starts the
/// next epoch.
void NodeClient::State::watch(Instant now) {
  if (next_watch > now) {
    return;
  }
  next_watch = now + kWatchInterval;
  if (!uses_service && service.is_there(now)) {
    use_service(true, now);
    return;
  }
  const bool is_silent_now = is_silent(now);
  if (is_silent_now && was_silent && uses_service) {
    leave_service(now);
    return;
  }
  if (is_silent_now && was_silent && options.may_resolve) {
    const std::uint64_t ended = lock.epoch();
    // A free lock means that it died: then the epoch goes on with another resolver.
    auto locked = lock.try_lock(ended);
    if (locked && *locked) {
      lock.unlock(ended);
    } else {
      lock.end_epoch(ended);
    }
    disconnect(now);
    follow_epoch(now);
  }
  was_silent = is_silent_now;
}

void NodeClient::State::follow_epoch(Instant now) {
  if (resolver != nullptr && (resolver->epoch() != lock.epoch() || resolver->has_ended())) {
    end_resolver();
  }
  const std::uint64_t current = current_epoch();
  if (current != epoch) {
    epoch = current;
    cache.reset();
    disconnect(now);
  }
}

void NodeClient::State::connect(Instant now) {
  if (socket.is_open() || next_connect > now) {
    return;
  }
  if (service.is_there(now)) {
    use_service(true, now);
  } else if (uses_service) {
    leave_service(now);
  }
  follow_epoch(now);
  next_connect = now + reconnect_wait;
  reconnect_wait = std::min(reconnect_wait * 2, kMaxReconnect);
  auto fd = connect_to(names().socket_path(epoch));
  if (fd) {
    connected(std::move(*fd), now);
    return;
  }
  last_error = fd.error();
  if (uses_service && !fd.error().is(Errc::Busy)) {
    leave_service(now);
  } else if (fd.error().is(Errc::NotFound)) {
    elect(now);
  }
}

/// Nobody listens: become the resolver, unless another process was faster.
void NodeClient::State::elect(Instant now) {
  if (!options.may_resolve) {
    const bool is_given_up = now - absent_since >= kAbsence;
    last_error = Error::make(Errc::PathUnresolved,
                             "no process of this node resolves paths for %s, and this one may not "
                             "(option may_resolve)",
                             port.name().data());
    while (is_given_up && !pending.empty()) {
      finish(pending.begin(), fail(last_error));
    }
    return;
  }
  // A resolver of ours that listens no more has not noticed that its epoch is over; it will.
  if (resolver != nullptr) {
    return;
  }
  auto locked = lock.try_lock(epoch);
  if (!locked) {
    last_error = locked.error();
    return;
  }
  if (!*locked) {
    return;
  }
  PortResolverOptions wanted;
  wanted.directory = directory;
  wanted.epoch = epoch;
  wanted.device = port.device;
  wanted.port = port.port;
  wanted.pkey = options.pkey;
  wanted.cache_entries = options.cache_entries;
  wanted.ibacm_socket = options.ibacm_socket;
  wanted.sources = options.sources;
  auto started = Resolver::start(
      wanted, lock, ServiceWatch(options.public_directory, port.port_guid, table_pkey));
  if (!started) {
    last_error = started.error();
    lock.unlock(epoch);
    return;
  }
  resolver = std::move(*started);
  if (epoch > 0) {
    // What a stopped resolver left. It keeps its open files, and steps down when it goes on.
    unlink(directory.socket_path(epoch - 1).c_str());
    unlink(directory.cache_path(epoch - 1).c_str());
  }
  if (auto fd = connect_to(directory.socket_path(epoch))) {
    connected(std::move(*fd), now);
  }
}

void NodeClient::State::connected(UniqueFd fd, Instant now) {
  if (!watch_readable(epoll, fd.value())) {
    last_error = Error::system(Errc::NoResources, errno, "watching the resolver's socket");
    return;
  }
  socket = std::move(fd);
  wants_room = false;
  is_answered = false;
  open_cache();
  send_pending(now);
}

void NodeClient::State::disconnect(Instant now) {
  // Closing takes it out of the epoll set.
  socket.reset();
  for (auto& [question, waiting] : pending) {
    waiting.is_sent = false;
  }
  next_connect = now;
  absent_since = now;
  reconnect_wait = kFirstReconnect;
}

/// The other side closed the connection, or broke the format.
void NodeClient::State::lose(Instant now) {
  const bool was_answered = is_answered;
  const Duration wait = reconnect_wait;
  disconnect(now);
  if (!was_answered) {
    // One that takes connections only to close them (its limit for a user) is not hurried.
    last_error = Error::make(Errc::PathUnresolved,
                             "the resolver at %s closes the connection without an answer: has this "
                             "user more processes than it takes?",
                             names().socket_path(epoch).c_str());
    next_connect = now + wait;
    reconnect_wait = wait;
  }
}

void NodeClient::State::open_cache() {
  if (cache.has_value()) {
    return;
  }
  // Not there yet: the resolver makes it when its port is open. Every path comes by reply then.
  if (auto opened = CacheReader::open(names().cache_path(epoch))) {
    cache.emplace(std::move(*opened));
  }
}

void NodeClient::State::send_pending(Instant now) {
  for (auto& [question, waiting] : pending) {
    if (waiting.is_sent) {
      continue;
    }
    ServiceRequest request;
    request.question = question;
    const Duration left = std::max(Duration::zero(), waiting.deadline - now);
    request.deadline = waiting.deadline - std::min(left / 4, kAnswerMargin);
    switch (send_packet(socket.value(), encode(request))) {
      case SendOutcome::Sent:
        waiting.is_sent = true;
        break;
      case SendOutcome::WouldBlock:
        if (!watch_room(true)) {
          disconnect(now);
        }
        return;
      case SendOutcome::Closed:
        lose(now);
        return;
    }
  }
  if (wants_room && !watch_room(false)) {
    disconnect(now);
  }
}

bool NodeClient::State::watch_room(bool wanted) noexcept {
  epoll_event event{};
  event.events = EPOLLIN;
  if (wanted) {
    event.events |= EPOLLOUT;
  }
  wants_room = wanted;
  return epoll_ctl(epoll.value(), EPOLL_CTL_MOD, socket.value(), &event) == 0;
}

void NodeClient::State::receive(Instant now) {
  for (int i = 0; i < kRepliesPerTurn && socket.is_open(); ++i) {
    ServiceReplyBytes buffer{};
    const ReceivedPacket packet = receive_packet(socket.value(), buffer);
    if (packet.outcome == ReceiveOutcome::WouldBlock) {
      return;
    }
    const auto reply = packet.outcome == ReceiveOutcome::Received && !packet.is_cut
                           ? decode_reply(std::span(buffer).first(packet.size))
                           : Result<ServiceReply>(fail(Errc::PeerGone));
    if (!reply) {
      lose(now);
      return;
    }
    is_answered = true;
    reconnect_wait = kFirstReconnect;
    open_cache();
    handle_reply(*reply);
  }
}

void NodeClient::State::handle_reply(const ServiceReply& reply) {
  const auto at = pending.find(reply.question);
  if (at != pending.end()) {
    finish(at, reply.path);
  }
}

void NodeClient::State::request(const RankQuestion& asked, const RankQuestion& wanted,
                                Instant deadline) {
  const auto [at, is_new] = pending.try_emplace(wanted, Pending{asked, deadline, false});
  if (!is_new && deadline > at->second.deadline) {
    at->second.deadline = deadline;
    at->second.is_sent = false;
  }
  if (socket.is_open()) {
    send_pending(monotonic_now());
  }
}

void NodeClient::State::finish(std::map<RankQuestion, Pending>::iterator at,
                               const Result<ResolvedPath>& path) {
  done.push_back({at->second.asked.key, at->second.asked.address, path});
  if (path) {
    distrusted.erase(at->first.key);
  }
  pending.erase(at);
}

void NodeClient::State::expire(Instant now) {
  for (auto at = pending.begin(); at != pending.end();) {
    const auto here = at++;
    if (here->second.deadline > now) {
      continue;
    }
    if (here->second.is_sent) {
      finish(here,
             fail(Error::make(Errc::Timeout, "the node's resolver did not answer for %s in time",
                              to_text(here->first).c_str())));
    } else {
      finish(here, fail(last_error));
    }
  }
}

Result<NodeClient> NodeClient::open(const NodeClientOptions& options, const verbs::PortInfo& port) {
  const auto pkey = port.table_pkey(options.pkey);
  if (!pkey) {
    return fail(pkey.error());
  }
  auto directory =
      NodeDirectory::open(options.directory, options.cache_directory, port.port_guid, *pkey);
  if (!directory) {
    return fail(directory.error());
  }
  auto lock = NodeLock::open(directory->lock_path());
  if (!lock) {
    return fail(lock.error());
  }
  auto state =
      std::make_unique<State>(std::move(*directory), std::move(*lock),
                              ServiceWatch(options.public_directory, port.port_guid, *pkey));
  state->options = options;
  state->port = port;
  state->table_pkey = *pkey;
  state->epoll.reset(epoll_create1(EPOLL_CLOEXEC));
  if (!state->epoll.is_open()) {
    return fail(Error::system(Errc::NoResources, errno, "making an epoll descriptor"));
  }
  const Instant now = monotonic_now();
  state->epoch = state->lock.epoch();
  state->next_connect = now;
  state->absent_since = now;
  state->next_watch = now + kWatchInterval;
  state->connect(now);
  return NodeClient(std::move(state));
}

NodeClient::NodeClient(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
NodeClient::NodeClient(NodeClient&&) noexcept = default;
NodeClient& NodeClient::operator=(NodeClient&&) noexcept = default;
NodeClient::~NodeClient() = default;

std::optional<ResolvedPath> NodeClient::lookup(const PathKey& key) const {
  const auto wanted = state_->normalise(key);
  if (!wanted.has_value()) {
    return std::nullopt;
  }
  if (wanted->sgid == wanted->dgid) {
    return state_->local();
  }
  // A cache of an epoch that is over gets no more news.
  if (!state_->cache.has_value() || state_->epoch != state_->current_epoch()) {
    return std::nullopt;
  }
  if (!state_->distrusted.empty() && state_->distrusted.contains(*wanted)) {
    return std::nullopt;
  }
  const Instant now = monotonic_now();
  auto path = state_->cache->lookup(*wanted, now);
  if (!path.has_value() && !wanted->service_id.is_zero() && !wanted->sl.has_value()) {
    // What was heard on the fabric was stored for no service in particular.
    PathKey any = *wanted;
    any.service_id = ServiceId();
    path = state_->cache->lookup(any, now);
  }
  if (path.has_value() && path->age > kMaxAge) {
    return std::nullopt;
  }
  return path;
}

CacheVersion NodeClient::version() const noexcept {
  CacheVersion version;
  version.epoch = state_->current_epoch();
  version.is_public = state_->uses_service;
  if (state_->cache.has_value() && state_->epoch == version.epoch) {
    version.generation = state_->cache->generation();
    version.changes = state_->cache->changes();
  }
  return version;
}

Result<> NodeClient::request(const PathKey& key, Instant deadline) {
  const auto wanted = state_->normalise(key);
  if (!wanted.has_value()) {
    return fail(state_->other_port(key));
  }
  if (wanted->sgid == wanted->dgid) {
    state_->done.push_back({key, std::nullopt, state_->local()});
    return {};
  }
  state_->request({key, std::nullopt}, {*wanted, std::nullopt}, deadline);
  return {};
}

Result<> NodeClient::request(const mad::AcmAddress& address, const PathKey& key, Instant deadline) {
  PathKey any = key;
  any.dgid = Gid();
  const auto wanted = state_->normalise(any);
  if (!wanted.has_value()) {
    return fail(state_->other_port(key));
  }
  state_->request({any, address}, {*wanted, address}, deadline);
  return {};
}

int NodeClient::fd() const noexcept {
  return state_->epoll.value();
}

void NodeClient::progress(Instant now) {
  state_->follow_epoch(now);
  state_->watch(now);
  if (state_->socket.is_open()) {
    state_->receive(now);
  }
  state_->connect(now);
  if (state_->socket.is_open()) {
    state_->send_pending(now);
  }
  state_->expire(now);
}

std::optional<Resolution> NodeClient::poll_resolution() {
  if (state_->done.empty()) {
    return std::nullopt;
  }
  const Resolution resolution = state_->done.front();
  state_->done.pop_front();
  return resolution;
}

std::optional<Instant> NodeClient::poll_timeout() const {
  if (!state_->done.empty()) {
    // Nothing to wait for: poll_resolution() has one.
    return Instant();
  }
  Instant earliest = state_->next_watch;
  if (!state_->socket.is_open()) {
    earliest = std::min(earliest, state_->next_connect);
  }
  for (const auto& [question, waiting] : state_->pending) {
    earliest = std::min(earliest, waiting.deadline);
  }
  return earliest;
}

void NodeClient::path_failed(const PathKey& key) {
  const auto wanted = state_->normalise(key);
  if (!wanted.has_value() || wanted->sgid == wanted->dgid) {
    return;
  }
  state_->distrusted.insert(*wanted);
  if (!state_->socket.is_open()) {
    return;
  }
  ServiceRequest request;
  request.op = ServiceOp::PathFailed;
  request.question.key = *wanted;
  // Lost when the socket is full or the resolver just went: the caller finds the path failing
  // again, or its next resolver starts without it.
  static_cast<void>(send_packet(state_->socket.value(), encode(request)));
}

void NodeClient::port_changed(const verbs::PortInfo& port) {
  const auto index = port.pkey_index(state_->table_pkey);
  if (port.gid == state_->port.gid && index.has_value()) {
    state_->port = port;
    state_->table_pkey = port.pkeys[*index];
  }
}

bool NodeClient::is_resolver() const noexcept {
  return state_->resolver != nullptr && !state_->resolver->has_ended();
}

}  // namespace wireup::acm
