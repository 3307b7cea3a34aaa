// SPDX-License-Identifier: BSD-3-Clause
#include "acm/client/own_question.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "acm/client/ask_resolver.hpp"
#include "acm/client/local_port.hpp"
#include "acm/client/wait.hpp"
#include "acm/driver/node_directory.hpp"
#include "acm/driver/node_lock.hpp"
#include "acm/driver/port_resolver.hpp"
#include "acm/driver/service_watch.hpp"
#include "acm/identity/subnet_tables.hpp"
#include "acm/server/client_service.hpp"
#include "acm/server/service_setup.hpp"
#include "base/clock.hpp"
#include "umad/sa_client.hpp"

namespace wireup::acm {
namespace {

/// Queries to the SA in flight at the same time.
constexpr std::size_t kSaWindow = 16;

bool is_meant(const ServedPort::Options& port, const PortWish& wish) {
  return (wish.device.empty() || port.device == wish.device) &&
         (!wish.port.has_value() || port.port == *wish.port) &&
         (!wish.pkey.has_value() || !port.pkey.has_value() ||
          port.pkey->partition() == wish.pkey->partition());
}

/// The port of the setup that is meant and has the source, or the first one.
Result<ServedPort::Options> choose_port(const PortWish& wish, const mad::AcmAddress& destination) {
  auto setup = read_setup({});
  if (!setup) {
    return fail(setup.error());
  }
  const mad::AcmAddressType type = destination.type();
  const bool is_ip = type == mad::AcmAddressType::Ipv4 || type == mad::AcmAddressType::Ipv6;
  const bool is_named = wish.source.has_value() || !wish.device.empty();
  const auto wanted = is_named || !is_ip ? wish.source : route_source(destination);
  for (ServedPort::Options& port : setup->ports) {
    const bool has_it = !wanted.has_value() || std::find(port.locals.begin(), port.locals.end(),
                                                         *wanted) != port.locals.end();
    if (has_it && is_meant(port, wish)) {
      port.pkey = wish.pkey.has_value() ? wish.pkey : port.pkey;
      return port;
    }
  }
  const std::string source =
      wanted.has_value() ? "the source, " + to_text(*wanted) : std::string("what was asked for");
  return fail(Error::make(Errc::NotFound, "no port of this node%s%s is or has %s: see %s",
                          wish.device.empty() ? "" : " called ", wish.device.c_str(),
                          source.c_str(), setup->origin.c_str()));
}

umad::SaClient::Options sa_options(const verbs::PortInfo& port) {
  umad::SaClient::Options options;
  options.device = port.device;
  options.port = port.port;
  options.sm = {port.sm_lid, port.sm_sl, port.pkey_index(PKey(0xFFFF)).value_or(0)};
  return options;
}

/// The node's resolver for the time of some questions.
class Asker {
 public:
  [[nodiscard]] Result<> open(const PortWish& wish, const NodePlaces& places,
                              const mad::AcmAddress& first) {
    const auto chosen = choose_port(wish, first);
    if (!chosen) {
      return wireup::fail(chosen.error());
    }
    auto info = query_port(chosen->device, chosen->port);
    if (!info) {
      return wireup::fail(info.error());
    }
    name_ = info->name().data();
    const PKey wanted =
        chosen->pkey.value_or(info->pkeys.empty() ? PKey(0xFFFF) : info->pkeys.front());
    const auto pkey = info->table_pkey(wanted);
    if (!pkey) {
      return wireup::fail(pkey.error());
    }
    const Guid guid = info->port_guid;
    if (ServiceWatch(places.public_directory, guid, *pkey).is_there(monotonic_now())) {
      other_.emplace(std::move(*info), *pkey);
      return {};
    }
    auto directory = NodeDirectory::open(places.directory, places.cache_directory, guid, *pkey);
    if (!directory) {
      return wireup::fail(directory.error());
    }
    auto lock = NodeLock::open(directory->lock_path());
    if (!lock) {
      return wireup::fail(lock.error());
    }
    const std::uint64_t epoch = lock->epoch();
    const auto locked = lock->try_lock(epoch);
    if (!locked) {
      return wireup::fail(locked.error());
    }
    if (!*locked) {
      other_.emplace(std::move(*info), *pkey);
      return {};
    }
    lock_.emplace(std::move(*lock));
    PortResolverOptions options;
    options.directory = std::move(*directory);
    options.epoch = epoch;
    options.device = chosen->device;
    options.port = chosen->port;
    options.pkey = wanted;
    options.cache_entries = places.cache_entries;
    options.engine = chosen->engine;
    options.locals = chosen->locals;
    options.preloads = chosen->preloads;
    auto resolver = PortResolver::open(options, *lock_, monotonic_now());
    if (!resolver) {
      return wireup::fail(resolver.error());
    }
    resolver_ = std::move(*resolver);
    return {};
  }

  /// Another process is the node's resolver: it is asked as its ranks ask it.
  [[nodiscard]] const std::optional<std::pair<verbs::PortInfo, PKey>>& other() const noexcept {
    return other_;
  }

  /// Fills `answers`, which has one place for each destination.
  void ask(std::span<const mad::AcmAddress> destinations, Instant deadline,
           std::vector<Result<ResolvedPath>>& answers) {
    bool is_asked = false;
    std::size_t left = destinations.size();
    for (Instant now = monotonic_now(); now < deadline && left > 0; now = monotonic_now()) {
      if (!resolver_->progress(now)) {
        fill(answers, Error::make(Errc::Busy, "%s: another process became the node's resolver",
                                  name_.c_str()));
        return;
      }
      if (!is_asked && resolver_->port() != nullptr) {
        is_asked = true;
        for (std::size_t i = 0; i < destinations.size(); ++i) {
          resolver_->ask(i, destinations[i], deadline, now);
          answers[i] = wireup::fail(Error::make(Errc::Timeout, "%s: %s did not answer in time",
                                                name_.c_str(), to_text(destinations[i]).c_str()));
        }
        continue;
      }
      bool is_new = false;
      while (const auto answer = resolver_->poll_answer()) {
        answers[answer->id] = answer->path;
        --left;
        is_new = true;
      }
      if (!is_new) {
        wait_readable(resolver_->fd(), std::min(deadline, resolver_->poll_timeout()));
      }
    }
    if (!is_asked) {
      fill(answers, resolver_->fault());
    }
  }

  static void fill(std::vector<Result<ResolvedPath>>& answers, const Error& error) {
    std::fill(answers.begin(), answers.end(), Result<ResolvedPath>(wireup::fail(error)));
  }

 private:
  std::string name_;
  std::optional<std::pair<verbs::PortInfo, PKey>> other_;
  // Destroyed from the bottom up: the resolver before the lock that it holds.
  std::optional<NodeLock> lock_;
  std::unique_ptr<PortResolver> resolver_;
};

}  // namespace

Result<verbs::PortInfo> choose_local_port(const PortWish& wish) {
  if (!wish.source.has_value() || !wish.device.empty()) {
    auto opened = verbs::open_port({wish.device, wish.port});
    if (!opened) {
      return fail(opened.error());
    }
    return std::move(opened->info);
  }
  mad::PathRecord begins;
  begins.sgid = wish.source->as_gid().value_or(Gid());
  begins.slid = wish.source->as_lid().value_or(Lid());
  if (!begins.sgid.is_zero() || !begins.slid.is_zero()) {
    return find_port(begins);
  }
  const auto chosen = choose_port(wish, *wish.source);
  return chosen ? query_port(chosen->device, chosen->port) : fail(chosen.error());
}

std::vector<Result<ResolvedPath>> ask_fabric(const PortWish& wish, const NodePlaces& places,
                                             std::span<const mad::AcmAddress> destinations,
                                             Instant deadline) {
  std::vector<Result<ResolvedPath>> answers(destinations.size(), fail(Errc::PathUnresolved));
  if (destinations.empty()) {
    return answers;
  }
  Asker asker;
  if (auto opened = asker.open(wish, places, destinations.front()); !opened) {
    Asker::fill(answers, opened.error());
  } else if (asker.other().has_value()) {
    answers =
        ask_resolver(places, asker.other()->first, asker.other()->second, destinations, deadline);
  } else {
    asker.ask(destinations, deadline, answers);
  }
  return answers;
}

Result<mad::PathRecord> ask_fabric(const std::optional<mad::AcmAddress>& source,
                                   const mad::AcmAddress& destination, Instant deadline) {
  PortWish wish;
  wish.source = source;
  const auto answers = ask_fabric(wish, NodePlaces{}, std::span(&destination, 1), deadline);
  return answers.front() ? Result<mad::PathRecord>(answers.front()->record)
                         : fail(answers.front().error());
}

Result<> try_subnet(const verbs::PortInfo& port) {
  const auto sa = umad::SaClient::open(sa_options(port));
  return sa ? Result<>() : fail(sa.error());
}

std::vector<Result<mad::PathRecord>> ask_subnet(const verbs::PortInfo& port,
                                                std::span<const SaQuestion> questions,
                                                Instant deadline) {
  std::vector<Result<mad::PathRecord>> answers(
      questions.size(),
      fail(Error::make(Errc::Timeout, "%s: the SA (LID %u) did not answer in time",
                       port.name().data(), port.sm_lid.value())));
  auto sa = umad::SaClient::open(sa_options(port));
  if (!sa) {
    std::fill(answers.begin(), answers.end(), Result<mad::PathRecord>(fail(sa.error())));
    return answers;
  }
  std::map<umad::SaRequestId, std::size_t> asked;
  std::size_t next = 0;
  for (Instant now = monotonic_now(); now < deadline && (next < questions.size() || !asked.empty());
       now = monotonic_now()) {
    while (next < questions.size() && asked.size() < kSaWindow) {
      asked.emplace(sa->query_path(questions[next].record, questions[next].mask, now), next);
      ++next;
    }
    sa->progress(now);
    bool is_new = false;
    while (const auto reply = sa->poll_reply()) {
      is_new = true;
      const auto at = asked.find(reply->id);
      if (at == asked.end()) {
        continue;
      }
      Result<mad::PathRecord>& answer = answers[at->second];
      asked.erase(at);
      if (!reply->record) {
        answer = fail(reply->record.error());
      } else if (const auto* record = std::get_if<mad::PathRecord>(&*reply->record)) {
        answer = *record;
      } else {
        answer = fail(Error::make(Errc::Malformed, "%s: the SA's answer to a path query is no path",
                                  port.name().data()));
      }
    }
    if (!is_new) {
      wait_readable(sa->fd(), std::min(deadline, sa->poll_timeout().value_or(deadline)));
    }
  }
  return answers;
}

Result<std::vector<Guid>> ask_switches(const verbs::PortInfo& port, Instant deadline) {
  auto sa = umad::SaClient::open(sa_options(port));
  if (!sa) {
    return fail(sa.error());
  }
  mad::NodeRecord wanted;
  wanted.node_type = mad::kNodeSwitch;
  sa->query_nodes(wanted, mad::node_mask::kNodeType, monotonic_now());
  for (Instant now = monotonic_now(); now < deadline; now = monotonic_now()) {
    sa->progress(now);
    const auto reply = sa->poll_reply();
    if (!reply.has_value()) {
      wait_readable(sa->fd(), std::min(deadline, sa->poll_timeout().value_or(deadline)));
      continue;
    }
    if (!reply->record) {
      return fail(reply->record.error());
    }
    const auto* nodes = std::get_if<std::vector<mad::NodeRecord>>(&*reply->record);
    return nodes != nullptr ? port_guids(*nodes) : std::vector<Guid>();
  }
  return fail(Error::make(Errc::Timeout, "%s: the SA (LID %u) did not tell its switches in time",
                          port.name().data(), port.sm_lid.value()));
}

Result<mad::PathRecord> ask_subnet(const mad::PathRecord& path, Instant deadline) {
  const auto info = find_port(path);
  if (!info) {
    return fail(info.error());
  }
  const PKey pkey = info->pkeys.empty() ? PKey(0xFFFF) : info->pkeys.front();
  const SaQuestion question = question_for_sa(path, info->gid, pkey, false);
  return ask_subnet(*info, std::span(&question, 1), deadline).front();
}

}  // namespace wireup::acm
