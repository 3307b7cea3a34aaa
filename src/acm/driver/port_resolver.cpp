// SPDX-License-Identifier: BSD-3-Clause
#include "acm/driver/port_resolver.hpp"

#include <malloc.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <variant>

#include "acm/driver/path_choice.hpp"
#include "acm/driver/sa_question.hpp"
#include "acm/driver/service_socket.hpp"
#include "base/epoll.hpp"

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
/// Failed paths that one user may report: a whole job that loses a switch, but not so many that the
/// others' paths are never known.
constexpr std::int64_t kFailuresAtOnce = 4096;
constexpr std::int64_t kFailuresPerSecond = 256;

std::uint64_t make_seed(Instant now) noexcept {
  return static_cast<std::uint64_t>(now.time_since_epoch().count()) ^
         static_cast<std::uint64_t>(getpid()) << 40U;
}

EndpointIdentity make_identity(PKey pkey) {
  EndpointIdentity::Options options;
  options.pkey = pkey;
  options.has_tables = true;
  // Without rtnetlink the kernel's neighbours are not known.
  if (auto neighbours = NeighbourTable::open()) {
    options.neighbours.emplace(std::move(*neighbours));
  }
  return EndpointIdentity(std::move(options));
}

}  // namespace

Result<std::unique_ptr<PortResolver>> PortResolver::open(const PortResolverOptions& options,
                                                         NodeLock& lock, Instant now) {
  const Audience audience = options.directory.audience();
  auto listener = listen_at(options.directory.socket_path(options.epoch), audience);
  if (!listener) {
    return fail(listener.error());
  }
  RankServerLimits limits = options.ranks;
  limits.audience = audience;
  auto server = RankServer::open(std::move(*listener), limits);
  if (!server) {
    return fail(server.error());
  }
  UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.is_open()) {
    return fail(Error::system(Errc::NoResources, errno, "making the resolver's descriptors"));
  }
  std::unique_ptr<PortResolver> resolver(
      new PortResolver(options, lock, std::move(*server), std::move(epoll)));
  resolver->keep_cache_ = lock.silence(now) <= kKeepCache;
  resolver->open_after_ = now + options.open_delay;
  lock.beat(now);
  return resolver;
}

PortResolver::PortResolver(const PortResolverOptions& options, NodeLock& lock, RankServer server,
                           UniqueFd epoll) noexcept
    : options_(options),
      lock_(lock),
      server_(std::move(server)),
      epoll_(std::move(epoll)),
      failure_reports_(kFailuresAtOnce, kFailuresPerSecond),
      identity_(make_identity(options.pkey)) {
  if (!options_.sources.uses(PathOrigin::Preloaded)) {
    options_.preloads.routes.clear();
  }
}

PortResolver::~PortResolver() {
  unlink(options_.directory.socket_path(options_.epoch).c_str());
}

bool PortResolver::progress(Instant now) {
  // Before anything is sent or written: this process may have been stopped, and replaced.
  if (lock_.epoch() != options_.epoch) {
    return false;
  }
  if (next_beat_ <= now) {
    lock_.beat(now);
    next_beat_ = now + kBeatInterval;
  }
  if (now < open_after_) {
    return true;
  }
  is_open_to_ranks_ = is_open_to_ranks_ || watch_readable(epoll_, server_.fd());
  if (port_ == nullptr && next_open_ <= now) {
    open_port(now);
  }
  if (port_ != nullptr) {
    port_->progress(now);
    handle_events(now);
  }
  if (borrowed_ != nullptr) {
    borrowed_->progress(now);
    handle_borrowed(now);
  }
  server_.progress();
  forget_gone();
  handle_requests(now);
  if (port_ != nullptr) {
    handle_events(now);
  }
  handle_identity(now);
  expire_asks(now);
  return true;
}

Instant PortResolver::poll_timeout() const {
  Instant until = next_beat_;
  if (!answers_.empty()) {
    return Instant{};
  }
  if (!is_open_to_ranks_ || port_ == nullptr) {
    until = std::min(until, std::max(open_after_, next_open_));
  } else if (const auto due = port_->poll_timeout()) {
    until = std::min(until, *due);
  }
  if (borrowed_ != nullptr) {
    until = std::min(until, borrowed_->poll_timeout());
  }
  for (const auto* waiting : {&unidentified_, &routed_}) {
    for (const auto& [address, asks] : *waiting) {
      for (const Ask& ask : asks) {
        until = std::min(until, ask.deadline);
      }
    }
  }
  return until;
}

/// Before everything that this process could ask itself.
bool PortResolver::prefers_ibacm() const noexcept {
  const SourcePolicy& sources = options_.sources;
  return sources.prefers(PathOrigin::Ibacm, PathOrigin::AcmMulticast) &&
         sources.prefers(PathOrigin::Ibacm, PathOrigin::SaQuery);
}

void PortResolver::open_port(Instant now) {
  next_open_ = now + kReopenInterval;
  const SourcePolicy& sources = options_.sources;
  if (!sources.uses_fabric()) {
    fault_ =
        Error::make(Errc::NoPermission, "path_sources names neither acm_multicast nor sa_query");
    borrow(fault_, now);
    return;
  }
  if (prefers_ibacm() && has_listener(options_.ibacm_socket)) {
    borrow(Error::make(Errc::NoPermission, "path_sources prefers it"), now);
    return;
  }
  const Config engine = with_policy(options_.engine, sources, !options_.preloads.routes.empty());
  auto port = AcmPort::open({options_.device, options_.port, options_.pkey, engine, make_seed(now),
                             options_.locals, sources.uses(PathOrigin::SaQuery)},
                            now);
  if (!port) {
    fault_ = port.error();
    if (fault_.is(Errc::NoPermission)) {
      borrow(fault_, now);
    }
    return;
  }
  port_ = std::move(*port);
  auto cache = open_cache();
  if (!cache || !watch_readable(epoll_, port_->fd())) {
    fault_ = cache ? Error::system(Errc::NoResources, errno, "watching the resolver's port")
                   : cache.error();
    port_.reset();
    return;
  }
  read_preloads(now);
  stop_borrowing(now);
}

void PortResolver::read_preloads(Instant now) {
  preloads_ = Preloads::read(
      options_.preloads,
      {info().gid, info().lid, pkey(), usual_lifetime(info().subnet_timeout), info().lmc});
  if (preloads_.has_paths()) {
    preloads_.store_paths(*cache_, plain_key(Gid()), now);
    // The file's text is gone; the memory it took would stay with this process otherwise.
    malloc_trim(0);
  }
}

std::optional<ResolvedPath> PortResolver::preloaded(const mad::AcmAddress& address) const {
  if (!preloads_.has_paths()) {
    return std::nullopt;
  }
  if (const auto lid = address.as_lid()) {
    return cache_->find_lid(*lid, PathOrigin::Preloaded, Instant());
  }
  const auto gid = address.as_gid().has_value() ? address.as_gid() : preloads_.gid(address);
  const auto path = gid.has_value() ? cache_->lookup(plain_key(*gid), Instant()) : std::nullopt;
  return path.has_value() && path->origin == PathOrigin::Preloaded ? path : std::nullopt;
}

Result<> PortResolver::open_cache() {
  // Each epoch has a file of its own: its generations are its own too.
  const auto first_generation = static_cast<std::uint32_t>((options_.epoch & 0xFFFFU) << 16U | 1U);
  auto cache = CacheWriter::open(
      {options_.directory.cache_path(options_.epoch), options_.cache_entries, basis(), keep_cache_,
       options_.directory.audience() == Audience::Everybody, first_generation});
  if (!cache) {
    return fail(cache.error());
  }
  cache_.emplace(std::move(*cache));
  return {};
}

CacheBasis PortResolver::basis() const noexcept {
  return {info().gid, info().lid, info().sm_lid};
}

const verbs::PortInfo& PortResolver::info() const noexcept {
  return port_ != nullptr ? port_->info() : borrowed_->info();
}

PKey PortResolver::pkey() const noexcept {
  return port_ != nullptr ? port_->engine().port().pkey : borrowed_->pkey();
}

ResolvedPath PortResolver::fresh(const mad::PathRecord& record, PathOrigin origin) const noexcept {
  return {record, origin, cache_->generation(), Duration::zero()};
}

PathKey PortResolver::plain_key(const Gid& dgid) const noexcept {
  PathKey key;
  key.sgid = info().gid;
  key.dgid = dgid;
  key.pkey = pkey();
  return key;
}

mad::AcmAddress PortResolver::target_of(const mad::AcmAddress& address) const {
  const auto gid = preloads_.gid(address);
  return gid.has_value() ? mad::AcmAddress::gid(*gid) : address;
}

void PortResolver::ask(AskId id, const mad::AcmAddress& address, Instant deadline, Instant now) {
  if (!has_port()) {
    answers_.push_back({id, fail(fault_)});
    return;
  }
  if (const auto path = known(address)) {
    answers_.push_back({id, *path});
    return;
  }
  start({id, address, std::min(deadline, now + kMaxWait)}, now);
}

void PortResolver::start(const Ask& ask, Instant now) {
  const bool is_named = !ask.address.as_gid().has_value() && !ask.address.as_lid().has_value();
  if (ask_silent(ask, now)) {
    return;
  }
  if (options_.identify_first && is_named) {
    identify(ask, now);
  } else {
    // The rest is for those who know the port when it does not answer.
    ask_acm(ask, now + (ask.deadline - now) / 2, now);
  }
}

void PortResolver::ask_acm(const Ask& ask, Instant deadline, Instant now) {
  const mad::AcmAddress target = target_of(ask.address);
  if (port_ == nullptr) {
    const auto* waiter = std::get_if<Waiter>(&ask.who);
    if (waiter != nullptr && !waiter->question.address.has_value()) {
      ask_borrowed(ask, waiter->question.key, deadline, now);
    } else {
      ask_borrowed(ask, target, deadline, now);
    }
    return;
  }
  asks_[target].push_back(ask);
  if (auto started = port_->resolve(target, deadline, now); !started) {
    answer_asks(target, fail(started.error()), now);
  }
}

/// The end of a question.
void PortResolver::finish(const Ask& ask, const Result<ResolvedPath>& path, Instant now) {
  if (const auto* id = std::get_if<AskId>(&ask.who)) {
    answers_.push_back({*id, path, ask.identified_by});
    return;
  }
  const Waiter& waiter = std::get<Waiter>(ask.who);
  if (!path) {
    server_.reply(waiter.rank, {waiter.question, fail(path.error())});
  } else if (path->record.sgid != waiter.question.key.sgid) {
    server_.reply(waiter.rank,
                  {waiter.question,
                   fail(Error::make(Errc::Stale, "%s got another GID while it was asked for a path",
                                    info().name().data()))});
  } else {
    answer_rank(waiter, *path, now);
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

void PortResolver::set_locals(const std::vector<mad::AcmAddress>& locals, Instant now) {
  options_.locals = locals;
  if (port_ != nullptr) {
    port_->set_locals(locals, now);
  }
}

void PortResolver::forget(const mad::AcmAddress& address) {
  if (port_ != nullptr) {
    port_->path_failed(address);
  }
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
  if (!has_port()) {
    return std::nullopt;
  }
  if (const auto path = preloaded(address)) {
    return path;
  }
  if (port_ == nullptr) {
    return std::nullopt;
  }
  const auto record = port_->engine().path(address);
  const auto origin = port_->engine().origin(address);
  if (!record.has_value() || !origin.has_value()) {
    return std::nullopt;
  }
  return fresh(*record, *origin);
}

void PortResolver::answer_asks(const mad::AcmAddress& address, const Result<ResolvedPath>& path,
                               Instant now) {
  const auto waiting = asks_.find(address);
  if (waiting == asks_.end()) {
    return;
  }
  std::vector<Ask> asks = std::move(waiting->second);
  asks_.erase(waiting);
  for (Ask& ask : asks) {
    ask.identified_by = ask.address == address ? IdentitySource::Itself : IdentitySource::HostsFile;
    finish(ask, path, now);
  }
}

void PortResolver::handle_requests(Instant now) {
  for (int i = 0; i < kRequestsPerTurn; ++i) {
    const auto request = server_.poll_request();
    if (!request.has_value()) {
      return;
    }
    if (request->request.op == ServiceOp::Resolve) {
      handle_resolve(*request, now);
    } else if (request->request.op == ServiceOp::Flush) {
      if (has_port() && (request->user == 0 || request->user == geteuid())) {
        flush(now);
      }
    } else if (has_port() && failure_reports_.allow(request->user, now)) {
      const PathKey& key = request->request.question.key;
      cache_->remove_paths(key);
      cache_->remove_paths(plain_key(key.dgid));
      forget_silent(key.dgid);
      if (port_ != nullptr) {
        port_->path_failed(mad::AcmAddress::gid(key.dgid));
      } else {
        borrowed_->path_failed(key.dgid);
      }
    }
  }
}

void PortResolver::handle_resolve(const RankServer::Request& request, Instant now) {
  const Waiter waiter{request.rank, request.request.question,
                      std::min(request.request.deadline, now + kMaxWait)};
  const PathKey& key = waiter.question.key;
  const auto refuse = [&](const Error& error) {
    server_.reply(waiter.rank, {waiter.question, fail(error)});
  };
  if (!has_port()) {
    refuse(fault_);
    return;
  }
  const PathKey plain = plain_key(key.dgid);
  if (key.sgid != plain.sgid || key.pkey != plain.pkey) {
    refuse(Error::make(Errc::Stale,
                       "a path from GID %s, P_Key 0x%04x was asked for, but %s has GID %s, P_Key "
                       "0x%04x now",
                       to_text(key.sgid).data(), key.pkey.value(), info().name().data(),
                       to_text(plain.sgid).data(), plain.pkey.value()));
    return;
  }
  const mad::AcmAddress asked = waiter.question.address.value_or(mad::AcmAddress::gid(key.dgid));
  if (const auto path = preloaded(asked);
      path.has_value() && key.sl.value_or(path->record.sl) == path->record.sl) {
    answer_rank(waiter, *path, now);
    return;
  }
  // A rank that asks again only moves its deadline.
  if (const auto waiting = asks_.find(target_of(asked)); waiting != asks_.end()) {
    std::erase_if(waiting->second, [&waiter](const Ask& ask) {
      const auto* other = std::get_if<Waiter>(&ask.who);
      return other != nullptr && other->rank == waiter.rank && other->question == waiter.question;
    });
  }
  start({waiter, asked, waiter.deadline}, now);
}

void PortResolver::flush(Instant now) {
  if (port_ != nullptr) {
    // Its event empties the cache and reads the preloaded files again.
    port_->forget_learned();
    return;
  }
  cache_->invalidate(basis());
  read_preloads(now);
}

void PortResolver::forget_gone() {
  while (const auto gone = server_.poll_gone()) {
    for (auto* asks : {&asks_, &unidentified_, &routed_}) {
      for (auto at = asks->begin(); at != asks->end();) {
        std::erase_if(at->second, [&](const Ask& ask) {
          const auto* waiter = std::get_if<Waiter>(&ask.who);
          return waiter != nullptr && waiter->rank == *gone;
        });
        at = at->second.empty() ? asks->erase(at) : std::next(at);
      }
    }
  }
}

void PortResolver::handle_events(Instant now) {
  while (const auto event = port_->poll_event()) {
    if (const auto* learned = std::get_if<PathLearned>(&*event)) {
      handle_learned(*learned, now);
    } else if (const auto* unresolved = std::get_if<PathUnresolved>(&*event)) {
      handle_unresolved(*unresolved, now);
    } else if (const auto* forgotten = std::get_if<PathForgotten>(&*event)) {
      if (const auto dgid = forgotten->address.as_gid()) {
        cache_->remove_paths(plain_key(*dgid));
      }
    } else if (std::holds_alternative<Invalidated>(*event)) {
      cache_->invalidate(basis());
      identity_.forget();
      silent_.clear();
      if (info().active) {
        read_preloads(now);
      }
    }
  }
  while (const auto answer = port_->poll_sa_answer()) {
    handle_sa_answer(*answer, now);
  }
}

void PortResolver::handle_sa_answer(const AcmPort::SaAnswer& answer, Instant now) {
  Result<ResolvedPath> path = fail(Errc::PathUnresolved);
  if (answer.record) {
    path = fresh(*answer.record, PathOrigin::SaQuery);
  } else {
    path = fail(answer.record.error());
  }
  if (const auto route = route_queries_.find(answer.id); route != route_queries_.end()) {
    const mad::AcmAddress target = route->second;
    route_queries_.erase(route);
    take_route(target, path, now);
    return;
  }
  if (const auto ask = sa_asks_.find(answer.id); ask != sa_asks_.end()) {
    answers_.push_back({ask->second, path});
    sa_asks_.erase(ask);
    return;
  }
  const auto at = sl_waiters_.find(answer.id);
  if (at == sl_waiters_.end()) {
    return;
  }
  const Waiter waiter = at->second;
  sl_waiters_.erase(at);
  const unsigned sl = waiter.question.key.sl.value_or(Sl()).value();
  const std::string peer = to_text(waiter.question);
  if (!path) {
    server_.reply(waiter.rank,
                  {waiter.question,
                   fail(Error::make(Errc::PathUnresolved, "no path of SL %u to %s: %.*s", sl,
                                    peer.c_str(), static_cast<int>(path.error().what().size()),
                                    path.error().what().data()))});
  } else if (path->record.sl.value() != sl) {
    server_.reply(waiter.rank,
                  {waiter.question,
                   fail(Error::make(Errc::PathUnresolved,
                                    "a path of SL %u to %s was asked for, and the SA gives one of "
                                    "SL %u",
                                    sl, peer.c_str(), path->record.sl.value()))});
  } else {
    answer_rank(waiter, *path, now);
  }
}

void PortResolver::handle_learned(const PathLearned& learned, Instant now) {
  store_learned(*cache_, plain_key(learned.record.dgid), learned.record, learned.origin,
                port_->engine().port(), now);
  answer_asks(learned.address, fresh(learned.record, learned.origin), now);
}

void PortResolver::answer_rank(const Waiter& waiter, const ResolvedPath& path, Instant now) {
  PathKey key = waiter.question.key;
  key.dgid = path.record.dgid;
  if (key.sl.has_value() && *key.sl != path.record.sl) {
    if (port_ != nullptr) {
      ask_for_sl(waiter, key.dgid, now);
    } else {
      ask_borrowed({waiter, mad::AcmAddress::gid(key.dgid), waiter.deadline}, key, waiter.deadline,
                   now);
    }
    return;
  }
  server_.reply(waiter.rank,
                {waiter.question, choose_path(*cache_, plain_key(key.dgid), key, path, now)});
}

/// A group's paths have the group's SL. A demanded one has to come from the SA.
void PortResolver::ask_for_sl(const Waiter& waiter, const Gid& dgid, Instant now) {
  const PathKey& key = waiter.question.key;
  mad::PathRecord wanted;
  wanted.dgid = dgid;
  wanted.sl = key.sl.value_or(Sl());
  const SaQuestion question = question_for_sa(wanted, key.sgid, key.pkey, false);
  // SL 0 is a demand here.
  sl_waiters_.emplace(port_->ask_sa(question.record, question.mask | mad::path_mask::kSl, now),
                      waiter);
}

void PortResolver::handle_unresolved(const PathUnresolved& unresolved, Instant now) {
  const auto waiting = asks_.find(unresolved.address);
  if (waiting == asks_.end()) {
    return;
  }
  const Error error = port_->explain(unresolved);
  std::vector<Ask> asks = std::move(waiting->second);
  asks_.erase(waiting);
  for (Ask& ask : asks) {
    ask.silence = error;
    if (ask.deadline > now) {
      identify(ask, now);
    } else {
      finish(ask, fail(error), now);
    }
  }
}

}  // namespace wireup::acm
