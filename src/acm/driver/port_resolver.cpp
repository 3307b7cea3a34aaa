// SPDX-License-Identifier: BSD-3-Clause
#include "acm/driver/port_resolver.hpp"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <variant>

#include "acm/driver/service_socket.hpp"

namespace wireup::acm {
namespace {

/// The others take over after eight missed beats (node_client.cpp).
constexpr Duration kBeatInterval = std::chrono::milliseconds(250);
constexpr Duration kReopenInterval = std::chrono::seconds(1);
/// A cache whose writer was alive this short ago is still true: a take-over within a job.
constexpr Duration kKeepCache = std::chrono::seconds(10);
constexpr int kRequestsPerTurn = 256;
/// Longest wait for an answer, whatever a rank asks for.
constexpr Duration kMaxWait = std::chrono::hours(1);

std::uint64_t make_seed(Instant now) noexcept {
  return static_cast<std::uint64_t>(now.time_since_epoch().count()) ^
         static_cast<std::uint64_t>(getpid()) << 40U;
}

[[nodiscard]] bool watch(const UniqueFd& epoll, int fd) noexcept {
  epoll_event event{};
  event.events = EPOLLIN;
  return epoll_ctl(epoll.value(), EPOLL_CTL_ADD, fd, &event) == 0;
}

}  // namespace

Result<std::unique_ptr<PortResolver>> PortResolver::open(const PortResolverOptions& options,
                                                         NodeLock& lock, Instant now) {
  auto listener = listen_at(options.directory.socket_path(options.epoch));
  if (!listener) {
    return fail(listener.error());
  }
  auto server = RankServer::open(std::move(*listener));
  if (!server) {
    return fail(server.error());
  }
  UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.is_open() || !watch(epoll, server->fd())) {
    return fail(Error::system(Errc::NoResources, errno, "making the resolver's descriptors"));
  }
  std::unique_ptr<PortResolver> resolver(
      new PortResolver(options, lock, std::move(*server), std::move(epoll)));
  resolver->keep_cache_ = lock.silence(now) <= kKeepCache;
  lock.beat(now);
  return resolver;
}

PortResolver::PortResolver(const PortResolverOptions& options, NodeLock& lock, RankServer server,
                           UniqueFd epoll) noexcept
    : options_(options), lock_(lock), server_(std::move(server)), epoll_(std::move(epoll)) {}

PortResolver::~PortResolver() {
  unlink(options_.directory.socket_path(options_.epoch).c_str());
}

bool PortResolver::progress(Instant now) {
  // Before anything is sent or written: this process may have been stopped, and replaced.
  if (lock_.epoch() != options_.epoch) {
    return false;
  }
  if (port_ == nullptr && next_open_ <= now) {
    open_port(now);
  }
  if (next_beat_ <= now) {
    lock_.beat(now);
    next_beat_ = now + kBeatInterval;
  }
  if (port_ != nullptr) {
    port_->progress(now);
    handle_events(now);
  }
  server_.progress();
  forget_gone();
  handle_requests(now);
  if (port_ != nullptr) {
    handle_events(now);
  }
  return true;
}

Instant PortResolver::poll_timeout() const {
  Instant until = next_beat_;
  if (!answers_.empty()) {
    return Instant{};
  }
  if (port_ == nullptr) {
    until = std::min(until, next_open_);
  } else if (const auto due = port_->poll_timeout()) {
    until = std::min(until, *due);
  }
  return until;
}

void PortResolver::open_port(Instant now) {
  next_open_ = now + kReopenInterval;
  auto port = AcmPort::open({options_.device, options_.port, options_.pkey, options_.engine,
                             make_seed(now), options_.locals},
                            now);
  if (!port) {
    fault_ = port.error();
    return;
  }
  port_ = std::move(*port);
  auto cache = open_cache();
  if (!cache || !watch(epoll_, port_->fd())) {
    fault_ = cache ? Error::system(Errc::NoResources, errno, "watching the resolver's port")
                   : cache.error();
    port_.reset();
    return;
  }
  read_preloads(now);
}

void PortResolver::read_preloads(Instant now) {
  const verbs::PortInfo& info = port_->info();
  preloads_ = Preloads::read(options_.preloads,
                             {info.gid, info.lid, port_->engine().port().pkey, info.subnet_timeout});
  for (const auto& [gid, record] : preloads_.paths()) {
    cache_->store(plain_key(gid), record, PathOrigin::Preloaded, now);
  }
}

Result<> PortResolver::open_cache() {
  auto cache = CacheWriter::open({options_.directory.cache_path(options_.epoch),
                                  options_.cache_entries, basis(), keep_cache_});
  if (!cache) {
    return fail(cache.error());
  }
  cache_.emplace(std::move(*cache));
  return {};
}

CacheBasis PortResolver::basis() const noexcept {
  return {port_->info().gid, port_->info().lid, port_->info().sm_lid};
}

PathKey PortResolver::plain_key(const Gid& dgid) const noexcept {
  PathKey key;
  key.sgid = port_->info().gid;
  key.dgid = dgid;
  key.pkey = port_->engine().port().pkey;
  return key;
}

void PortResolver::ask(AskId id, const mad::AcmAddress& address, Instant deadline, Instant now) {
  if (port_ == nullptr) {
    answers_.push_back({id, fail(fault_)});
    return;
  }
  if (const auto path = known(address)) {
    answers_.push_back({id, *path});
    return;
  }
  // A name that a file gives a GID is asked for by that: its port need not know the name.
  const auto gid = preloads_.gid(address);
  const mad::AcmAddress target = gid.has_value() ? mad::AcmAddress::gid(*gid) : address;
  asks_[target].push_back(id);
  if (auto started = port_->resolve(target, std::min(deadline, now + kMaxWait), now); !started) {
    answer_asks(target, fail(started.error()));
  }
}

void PortResolver::ask_sa(AskId id, const mad::PathRecord& record, std::uint64_t component_mask,
                          Instant now) {
  if (port_ == nullptr) {
    answers_.push_back({id, fail(fault_)});
    return;
  }
  sa_asks_.emplace(port_->ask_sa(record, component_mask, now), id);
}

std::optional<PortResolver::Answer> PortResolver::poll_answer() {
  if (answers_.empty()) {
    return std::nullopt;
  }
  Answer answer = answers_.front();
  answers_.pop_front();
  return answer;
}

std::optional<ResolvedPath> PortResolver::known(const mad::AcmAddress& address) const {
  if (port_ == nullptr) {
    return std::nullopt;
  }
  if (const mad::PathRecord* record = preloads_.path(address)) {
    return ResolvedPath{*record, PathOrigin::Preloaded, cache_->generation(), Duration::zero()};
  }
  const auto record = port_->engine().path(address);
  if (!record.has_value()) {
    return std::nullopt;
  }
  // The engine does not keep where a path came from; its protocol tells.
  const PathOrigin origin = options_.engine.route_protocol == RouteProtocol::Sa
                                ? PathOrigin::SaQuery
                                : PathOrigin::AcmMulticast;
  return ResolvedPath{*record, origin, cache_->generation(), Duration::zero()};
}

void PortResolver::answer_asks(const mad::AcmAddress& address, const Result<ResolvedPath>& path) {
  const auto waiting = asks_.find(address);
  if (waiting == asks_.end()) {
    return;
  }
  for (const AskId id : waiting->second) {
    answers_.push_back({id, path});
  }
  asks_.erase(waiting);
}

void PortResolver::handle_requests(Instant now) {
  for (int i = 0; i < kRequestsPerTurn; ++i) {
    const auto request = server_.poll_request();
    if (!request.has_value()) {
      return;
    }
    if (request->request.op == ServiceOp::Resolve) {
      handle_resolve(*request, now);
    } else if (port_ != nullptr) {
      cache_->remove(request->request.key);
      cache_->remove(plain_key(request->request.key.dgid));
      preloads_.forget(request->request.key.dgid);
      port_->path_failed(mad::AcmAddress::gid(request->request.key.dgid));
    }
  }
}

void PortResolver::handle_resolve(const RankServer::Request& request, Instant now) {
  const PathKey& key = request.request.key;
  const auto refuse = [&](const Error& error) { server_.reply(request.rank, {key, fail(error)}); };
  if (port_ == nullptr) {
    refuse(fault_);
    return;
  }
  const PathKey plain = plain_key(key.dgid);
  if (key.sgid != plain.sgid || key.pkey != plain.pkey) {
    refuse(Error::make(Errc::Stale,
                       "a path from GID %s, P_Key 0x%04x was asked for, but %s has GID %s, P_Key "
                       "0x%04x now",
                       to_text(key.sgid).data(), key.pkey.value(), port_->info().name().data(),
                       to_text(plain.sgid).data(), plain.pkey.value()));
    return;
  }
  const mad::PathRecord* preloaded = preloads_.path(mad::AcmAddress::gid(key.dgid));
  if (preloaded != nullptr && key.sl.value_or(preloaded->sl) == preloaded->sl) {
    cache_->store(key, *preloaded, PathOrigin::Preloaded, now);
    server_.reply(request.rank, {key, ResolvedPath{*preloaded, PathOrigin::Preloaded,
                                                   cache_->generation(), Duration::zero()}});
    return;
  }
  const Instant deadline = std::min(request.request.deadline, now + kMaxWait);
  if (auto started = port_->resolve(mad::AcmAddress::gid(key.dgid), deadline, now); !started) {
    refuse(started.error());
    return;
  }
  // The answer comes as an event, later. A rank that asks again only moved its deadline.
  const Waiter waiter{request.rank, key};
  std::vector<Waiter>& waiting = waiters_[key.dgid];
  if (std::find(waiting.begin(), waiting.end(), waiter) == waiting.end()) {
    waiting.push_back(waiter);
  }
}

void PortResolver::forget_gone() {
  while (const auto gone = server_.poll_gone()) {
    for (auto at = waiters_.begin(); at != waiters_.end();) {
      std::erase_if(at->second, [&](const Waiter& waiter) { return waiter.rank == *gone; });
      at = at->second.empty() ? waiters_.erase(at) : std::next(at);
    }
  }
}

void PortResolver::handle_events(Instant now) {
  while (const auto event = port_->poll_event()) {
    if (const auto* learned = std::get_if<PathLearned>(&*event)) {
      handle_learned(*learned, now);
    } else if (const auto* unresolved = std::get_if<PathUnresolved>(&*event)) {
      handle_unresolved(*unresolved);
    } else if (const auto* forgotten = std::get_if<PathForgotten>(&*event)) {
      if (const auto dgid = forgotten->address.as_gid()) {
        cache_->remove(plain_key(*dgid));
      }
    } else if (std::holds_alternative<Invalidated>(*event)) {
      cache_->invalidate(basis());
      read_preloads(now);
    }
  }
  while (const auto answer = port_->poll_sa_answer()) {
    const auto ask = sa_asks_.find(answer->id);
    if (ask == sa_asks_.end()) {
      continue;
    }
    if (answer->record) {
      answers_.push_back({ask->second, ResolvedPath{*answer->record, PathOrigin::SaQuery,
                                                    cache_->generation(), Duration::zero()}});
    } else {
      answers_.push_back({ask->second, fail(answer->record.error())});
    }
    sa_asks_.erase(ask);
  }
}

void PortResolver::handle_learned(const PathLearned& learned, Instant now) {
  answer_asks(learned.address,
              ResolvedPath{learned.record, learned.origin, cache_->generation(), Duration::zero()});
  if (const auto dgid = learned.address.as_gid()) {
    cache_->store(plain_key(*dgid), learned.record, learned.origin, now);
    tell_ranks(*dgid, learned, now);
  }
}

void PortResolver::tell_ranks(const Gid& dgid, const PathLearned& learned, Instant now) {
  const auto waiting = waiters_.find(dgid);
  if (waiting == waiters_.end()) {
    return;
  }
  for (const Waiter& waiter : waiting->second) {
    if (waiter.key.sl.has_value() && *waiter.key.sl != learned.record.sl) {
      server_.reply(
          waiter.rank,
          {waiter.key, fail(Error::make(Errc::PathUnresolved,
                                        "SL %u was asked for to GID %s, but the multicast group's "
                                        "paths have SL %u",
                                        waiter.key.sl->value(), to_text(dgid).data(),
                                        learned.record.sl.value()))});
      continue;
    }
    cache_->store(waiter.key, learned.record, learned.origin, now);
    server_.reply(waiter.rank, {waiter.key, ResolvedPath{learned.record, learned.origin,
                                                         cache_->generation(), Duration::zero()}});
  }
  waiters_.erase(waiting);
}

void PortResolver::handle_unresolved(const PathUnresolved& unresolved) {
  const Error error = port_->explain(unresolved);
  answer_asks(unresolved.address, fail(error));
  const auto dgid = unresolved.address.as_gid();
  const auto waiting = dgid.has_value() ? waiters_.find(*dgid) : waiters_.end();
  if (waiting == waiters_.end()) {
    return;
  }
  for (const Waiter& waiter : waiting->second) {
    server_.reply(waiter.rank, {waiter.key, fail(error)});
  }
  waiters_.erase(waiting);
}

}  // namespace wireup::acm
