// SPDX-License-Identifier: BSD-3-Clause
#include "acm/server/served_port.hpp"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "acm/driver/node_directory.hpp"
#include "acm/driver/service_watch.hpp"
#include "base/epoll.hpp"
#include "verbs/device.hpp"

namespace wireup::acm {
namespace {

constexpr Duration kStartInterval = std::chrono::seconds(1);
/// Resolvers of ranks look five times a second whether the node has a service now (resolver.cpp).
constexpr Duration kStepDown = std::chrono::milliseconds(500);

}  // namespace

Result<std::unique_ptr<ServedPort>> ServedPort::open(const Options& options) {
  UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.is_open()) {
    return fail(Error::system(Errc::NoResources, errno, "making an epoll descriptor"));
  }
  return std::unique_ptr<ServedPort>(new ServedPort(options, std::move(epoll)));
}

void ServedPort::progress(Instant now) {
  if (resolver_ != nullptr && !resolver_->progress(now)) {
    // Another one ended our epoch: this process was taken as stopped.
    resolver_.reset();
    lock_.reset();
    fault_ = Error::make(Errc::Busy, "%s port %u: another process is the node's resolver now",
                         options_.device.c_str(), options_.port);
    next_start_ = now + kStartInterval;
  }
  if (resolver_ == nullptr && next_start_ <= now) {
    next_start_ = now + kStartInterval;
    if (auto started = start(now); !started) {
      lock_.reset();
      fault_ = started.error();
    } else {
      static_cast<void>(resolver_->progress(now));
    }
  }
}

Result<> ServedPort::look_at_port() {
  auto device = verbs::Device::open(options_.device);
  if (!device) {
    return fail(device.error());
  }
  device_ports_ = device->limits().port_count;
  auto info = device->query_port(options_.port);
  if (!info) {
    return fail(info.error());
  }
  info_ = std::move(*info);
  return {};
}

PKey ServedPort::wanted_pkey() const noexcept {
  const bool has_table = info_.has_value() && !info_->pkeys.empty();
  return options_.pkey.value_or(has_table ? info_->pkeys.front() : PKey(0xFFFF));
}

std::optional<PKey> ServedPort::table_pkey() const noexcept {
  const auto index = info_.has_value() ? info_->pkey_index(wanted_pkey()) : std::nullopt;
  return index.has_value() ? std::optional(info_->pkeys[*index]) : std::nullopt;
}

Result<NodeDirectory> ServedPort::open_directory(PKey pkey, Instant now) const {
  const Guid guid = info_->port_guid;
  if (options_.audience == Audience::Everybody) {
    return NodeDirectory::open_public(options_.public_directory, guid, pkey);
  }
  if (ServiceWatch(options_.public_directory, guid, pkey).is_there(now)) {
    return wireup::fail(Error::make(Errc::Busy,
                                    "%s, P_Key 0x%04x is served by the node's own service (%s): "
                                    "there is nothing to do for another one",
                                    info_->name().data(), pkey.value(),
                                    options_.public_directory.c_str()));
  }
  return NodeDirectory::open(options_.directory, options_.cache_directory, guid, pkey);
}

Result<> ServedPort::start(Instant now) {
  if (auto looked = look_at_port(); !looked) {
    return looked;
  }
  const PKey wanted = wanted_pkey();
  const auto found = info_->table_pkey(wanted);
  if (!found) {
    return wireup::fail(found.error());
  }
  auto directory = open_directory(*found, now);
  if (!directory) {
    return wireup::fail(directory.error());
  }
  auto lock = NodeLock::open(directory->lock_path(), options_.audience);
  if (!lock) {
    return wireup::fail(lock.error());
  }
  lock_.emplace(std::move(*lock));
  auto alone = lock_->try_lock(kServicePlace);
  if (!alone) {
    return wireup::fail(alone.error());
  }
  if (!*alone) {
    return wireup::fail(Error::make(Errc::Busy,
                                    "%s, P_Key 0x%04x is served by another service of this node: "
                                    "end it, or leave the port out here",
                                    info_->name().data(), found->value()));
  }
  std::uint64_t epoch = lock_->epoch();
  auto locked = lock_->try_lock(epoch);
  if (locked && !*locked) {
    // A rank of a job holds it. Its thread steps down when it sees the new epoch.
    lock_->end_epoch(epoch);
    epoch = lock_->epoch();
    locked = lock_->try_lock(epoch);
  }
  if (!locked) {
    return wireup::fail(locked.error());
  }
  if (!*locked) {
    return wireup::fail(Error::make(Errc::Busy,
                                    "%s, P_Key 0x%04x: another process has just become the "
                                    "node's resolver",
                                    info_->name().data(), found->value()));
  }
  PortResolverOptions served;
  served.directory = std::move(*directory);
  served.epoch = epoch;
  served.device = options_.device;
  served.port = options_.port;
  served.pkey = wanted;
  served.cache_entries = options_.cache_entries;
  served.engine = options_.engine;
  served.locals = options_.locals;
  served.preloads = options_.preloads;
  served.ranks = options_.ranks;
  served.sources = options_.sources;
  served.open_delay = options_.audience == Audience::Everybody ? kStepDown : Duration::zero();
  auto resolver = PortResolver::open(served, *lock_, now);
  if (!resolver) {
    return wireup::fail(resolver.error());
  }
  resolver_ = std::move(*resolver);
  if (!watch_readable(epoll_, resolver_->fd())) {
    const int error = errno;
    resolver_.reset();
    return wireup::fail(Error::system(Errc::NoResources, error, "watching the resolver of %s",
                                      info_->name().data()));
  }
  return {};
}

std::vector<mad::AcmAddress> ServedPort::set_addresses(
    const std::vector<mad::AcmAddress>& addresses, Instant now) {
  std::vector<mad::AcmAddress> locals = configured_;
  const auto has = [](const std::vector<mad::AcmAddress>& all, const mad::AcmAddress& address) {
    return std::find(all.begin(), all.end(), address) != all.end();
  };
  for (const mad::AcmAddress& address : addresses) {
    if (!has(locals, address)) {
      locals.push_back(address);
    }
  }
  std::vector<mad::AcmAddress> gone;
  for (const mad::AcmAddress& address : options_.locals) {
    if (!has(locals, address)) {
      gone.push_back(address);
    }
  }
  if (locals != options_.locals) {
    options_.locals = std::move(locals);
    if (resolver_ != nullptr) {
      resolver_->set_locals(options_.locals, now);
    }
  }
  return gone;
}

Instant ServedPort::poll_timeout() const {
  return resolver_ == nullptr ? next_start_ : resolver_->poll_timeout();
}

std::optional<Error> ServedPort::fault() const {
  if (resolver_ == nullptr) {
    return fault_;
  }
  return resolver_->port() == nullptr ? std::optional(resolver_->fault()) : std::nullopt;
}

}  // namespace wireup::acm
