// SPDX-License-Identifier: BSD-3-Clause
// Where this process may not ask the fabric: the questions go to the node's ibacm.
#include <algorithm>
#include <cerrno>
#include <utility>
#include <variant>

#include "acm/driver/port_resolver.hpp"
#include "base/check.hpp"
#include "base/epoll.hpp"

namespace wireup::acm {
namespace {

/// A privilege is rarely given to a process that runs; "rdma system set privileged-qkey on" is how.
constexpr Duration kPrivilegeInterval = std::chrono::seconds(30);

}  // namespace

/// Called where the port cannot, or shall not, be opened. `lacks` says why.
void PortResolver::borrow(const Error& lacks, Instant now) {
  const bool asks_ibacm = options_.sources.uses(PathOrigin::Ibacm);
  const bool asks_kernel = options_.sources.uses(PathOrigin::Kernel);
  if (options_.ibacm_socket.empty() || (!asks_ibacm && !asks_kernel)) {
    return;
  }
  if (!prefers_ibacm()) {
    next_open_ = now + kPrivilegeInterval;
  }
  if (borrowed_ != nullptr) {
    return;
  }
  UnprivilegedPort::Options port_options;
  port_options.device = options_.device;
  port_options.port = options_.port;
  port_options.pkey = options_.pkey;
  port_options.ibacm.socket = options_.ibacm_socket;
  port_options.asks_ibacm = asks_ibacm;
  port_options.asks_kernel = asks_kernel;
  port_options.lacks = lacks;
  auto port = UnprivilegedPort::open(port_options, now);
  if (port) {
    borrowed_ = std::move(*port);
    auto cache = open_cache();
    if (cache && watch_readable(epoll_, borrowed_->fd())) {
      read_preloads(now);
      return;
    }
    fault_ = cache ? Error::system(Errc::NoResources, errno, "watching the resolver's port")
                   : cache.error();
    borrowed_.reset();
  } else {
    fault_ = port.error();
  }
  next_open_ = std::min(next_open_, now + std::chrono::seconds(1));
}

/// The port is open now: what was asked of others is asked through it.
void PortResolver::stop_borrowing(Instant now) {
  if (borrowed_ == nullptr) {
    return;
  }
  borrowed_.reset();
  borrowed_targets_.clear();
  for (const auto& [id, question] : std::exchange(borrowed_questions_, {})) {
    for (const Ask& ask : question.asks) {
      start(ask, now);
    }
  }
}

/// One question for all who want the same.
void PortResolver::ask_borrowed(const Ask& ask, const BorrowedTarget& target, Instant deadline,
                                Instant now) {
  const auto* key = std::get_if<PathKey>(&target);
  if (key != nullptr && (key->sgid != info().gid || key->pkey != pkey())) {
    finish(
        ask,
        fail(Error::make(Errc::Stale, "%s got another GID or P_Key while it was asked for a path",
                         info().name().data())),
        now);
    return;
  }
  const auto [at, is_new] = borrowed_targets_.try_emplace(target, next_borrowed_);
  if (!is_new) {
    borrowed_questions_.at(at->second).asks.push_back(ask);
    return;
  }
  borrowed_questions_.emplace(next_borrowed_, Borrowed{{ask}, target});
  const auto id = next_borrowed_++;
  std::visit([&](const auto& to) { borrowed_->ask(id, to, deadline, now); }, target);
}

void PortResolver::handle_borrowed(Instant now) {
  if (borrowed_->poll_changed()) {
    cache_->invalidate(basis());
    identity_.forget();
    silent_.clear();
    read_preloads(now);
  }
  while (const auto answer = borrowed_->poll_answer()) {
    const auto at = borrowed_questions_.find(answer->id);
    WIREUP_CHECK(at != borrowed_questions_.end());
    const Borrowed question = std::move(at->second);
    borrowed_questions_.erase(at);
    borrowed_targets_.erase(question.target);
    Result<ResolvedPath> path = fail(Errc::PathUnresolved);
    if (answer->path) {
      path = fresh(*answer->path, answer->origin);
    } else {
      path = fail(answer->path.error());
    }
    take_borrowed(question, path, now);
  }
}

void PortResolver::take_borrowed(const Borrowed& question, const Result<ResolvedPath>& path,
                                 Instant now) {
  const auto* address = std::get_if<mad::AcmAddress>(&question.target);
  const bool is_name =
      address != nullptr && !address->as_gid().has_value() && !address->as_lid().has_value();
  for (Ask ask : question.asks) {
    if (path || ask.deadline <= now) {
      finish(ask, path, now);
      continue;
    }
    ask.silence = path.error();
    if (is_name && !ask.is_looked_for) {
      // Somebody else may know whose it is.
      identify(ask, now);
    } else if (path.error().is(Errc::Timeout)) {
      // The question had the patience of the first who asked.
      ask_borrowed(ask, question.target, ask.deadline, now);
    } else {
      finish(ask, path, now);
    }
  }
}

}  // namespace wireup::acm
