// SPDX-License-Identifier: BSD-3-Clause
#include "acm/libibacm/own_question.hpp"

#include <poll.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "acm/driver/node_client.hpp"
#include "acm/driver/node_directory.hpp"
#include "acm/driver/node_lock.hpp"
#include "acm/driver/port_resolver.hpp"
#include "acm/driver/sa_question.hpp"
#include "acm/driver/service_watch.hpp"
#include "acm/libibacm/local_port.hpp"
#include "acm/server/client_service.hpp"
#include "acm/server/service_setup.hpp"
#include "base/clock.hpp"
#include "umad/sa_client.hpp"

namespace wireup::acm {
namespace {

/// Sleeps until `fd` is readable or it is `until`.
void wait_for(int fd, Instant until) {
  pollfd descriptor{fd, POLLIN, 0};
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - monotonic_now()).count();
  constexpr std::int64_t kLongest = 60'000;
  poll(&descriptor, 1, static_cast<int>(std::clamp<std::int64_t>(left, 0, kLongest)));
}

/// The port of the setup that has `source`, or the first one.
Result<ServedPort::Options> choose_port(const std::optional<mad::AcmAddress>& source,
                                        const mad::AcmAddress& destination) {
  auto setup = read_setup({});
  if (!setup) {
    return fail(setup.error());
  }
  const mad::AcmAddressType type = destination.type();
  const bool is_ip = type == mad::AcmAddressType::Ipv4 || type == mad::AcmAddressType::Ipv6;
  const auto wanted = source.has_value() || !is_ip ? source : route_source(destination);
  for (const ServedPort::Options& port : setup->ports) {
    const bool has_it = !wanted.has_value() || std::find(port.locals.begin(), port.locals.end(),
                                                         *wanted) != port.locals.end();
    if (has_it) {
      return port;
    }
  }
  return fail(Error::make(Errc::NotFound, "no port of this node has the %s: see %s",
                          wanted.has_value() ? to_text(*wanted).c_str() : "source",
                          setup->origin.c_str()));
}

/// Another process is the node's resolver: it is asked as its ranks ask it.
Result<mad::PathRecord> ask_resolver(const ServedPort::Options& chosen, const verbs::PortInfo& info,
                                     PKey pkey, const mad::AcmAddress& destination,
                                     Instant deadline) {
  NodeClientOptions options;
  options.pkey = pkey;
  options.directory = chosen.directory;
  options.cache_directory = chosen.cache_directory;
  options.may_resolve = false;
  auto client = NodeClient::open(options, info);
  if (!client) {
    return fail(client.error());
  }
  PathKey key;
  key.sgid = info.gid;
  key.pkey = pkey;
  if (auto asked = client->request(destination, key, deadline); !asked) {
    return fail(asked.error());
  }
  // The Resolution comes at the deadline at the latest.
  while (true) {
    client->progress(monotonic_now());
    if (const auto resolution = client->poll_resolution()) {
      return resolution->path ? Result<mad::PathRecord>(resolution->path->record)
                              : fail(resolution->path.error());
    }
    wait_for(client->fd(), client->poll_timeout().value_or(deadline));
  }
}

}  // namespace

Result<mad::PathRecord> ask_fabric(const std::optional<mad::AcmAddress>& source,
                                   const mad::AcmAddress& destination, Instant deadline) {
  const auto chosen = choose_port(source, destination);
  if (!chosen) {
    return fail(chosen.error());
  }
  const auto info = query_port(chosen->device, chosen->port);
  if (!info) {
    return fail(info.error());
  }
  const PKey wanted =
      chosen->pkey.value_or(info->pkeys.empty() ? PKey(0xFFFF) : info->pkeys.front());
  const auto pkey = info->table_pkey(wanted);
  if (!pkey) {
    return fail(pkey.error());
  }
  if (ServiceWatch(chosen->public_directory, info->port_guid, *pkey).is_there(monotonic_now())) {
    return ask_resolver(*chosen, *info, wanted, destination, deadline);
  }
  auto directory =
      NodeDirectory::open(chosen->directory, chosen->cache_directory, info->port_guid, *pkey);
  if (!directory) {
    return fail(directory.error());
  }
  auto lock = NodeLock::open(directory->lock_path());
  if (!lock) {
    return fail(lock.error());
  }
  const std::uint64_t epoch = lock->epoch();
  const auto locked = lock->try_lock(epoch);
  if (!locked) {
    return fail(locked.error());
  }
  if (!*locked) {
    return ask_resolver(*chosen, *info, wanted, destination, deadline);
  }
  PortResolverOptions options;
  options.directory = std::move(*directory);
  options.epoch = epoch;
  options.device = chosen->device;
  options.port = chosen->port;
  options.pkey = wanted;
  options.cache_entries = chosen->cache_entries;
  options.engine = chosen->engine;
  options.locals = chosen->locals;
  options.preloads = chosen->preloads;
  auto resolver = PortResolver::open(options, *lock, monotonic_now());
  if (!resolver) {
    return fail(resolver.error());
  }
  bool is_asked = false;
  for (Instant now = monotonic_now(); now < deadline; now = monotonic_now()) {
    if (!(*resolver)->progress(now)) {
      return fail(Error::make(Errc::Busy, "%s: another process became the node's resolver",
                              info->name().data()));
    }
    if (!is_asked && (*resolver)->port() != nullptr) {
      is_asked = true;
      (*resolver)->ask(1, destination, deadline, now);
      continue;
    }
    if (const auto answer = (*resolver)->poll_answer()) {
      return answer->path ? Result<mad::PathRecord>(answer->path->record)
                          : fail(answer->path.error());
    }
    wait_for((*resolver)->fd(), std::min(deadline, (*resolver)->poll_timeout()));
  }
  return is_asked ? fail(Error::make(Errc::Timeout, "%s did not answer in time",
                                     to_text(destination).c_str()))
                  : fail((*resolver)->fault());
}

Result<mad::PathRecord> ask_subnet(const mad::PathRecord& path, Instant deadline) {
  const auto info = find_port(path);
  if (!info) {
    return fail(info.error());
  }
  const umad::MadAddress sm{info->sm_lid, info->sm_sl, info->pkey_index(PKey(0xFFFF)).value_or(0)};
  umad::SaClient::Options options;
  options.device = info->device;
  options.port = info->port;
  options.sm = sm;
  auto sa = umad::SaClient::open(options);
  if (!sa) {
    return fail(sa.error());
  }
  const PKey pkey = info->pkeys.empty() ? PKey(0xFFFF) : info->pkeys.front();
  const SaQuestion question = question_for_sa(path, info->gid, pkey, false);
  Instant now = monotonic_now();
  sa->query_path(question.record, question.mask, now);
  for (; now < deadline; now = monotonic_now()) {
    sa->progress(now);
    if (const auto reply = sa->poll_reply()) {
      if (!reply->record) {
        return fail(reply->record.error());
      }
      if (const auto* record = std::get_if<mad::PathRecord>(&*reply->record)) {
        return *record;
      }
      return fail(Error::make(Errc::Malformed, "%s: the SA's answer to a path query is no path",
                              info->name().data()));
    }
    wait_for(sa->fd(), std::min(deadline, sa->poll_timeout().value_or(deadline)));
  }
  return fail(Error::make(Errc::Timeout, "%s: the SA did not answer in time", info->name().data()));
}

}  // namespace wireup::acm
