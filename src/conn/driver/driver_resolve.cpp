// SPDX-License-Identifier: BSD-3-Clause
// Paths that the user wants for themselves: asked for, watched, and given up.
#include <algorithm>
#include <utility>
#include <variant>

#include "base/clock.hpp"
#include "conn/driver/driver.hpp"
#include "conn/engine/rules.hpp"

namespace wireup::conn {
namespace {

bool is_cached(std::uint8_t origin) noexcept {
  return static_cast<acm::PathOrigin>(origin) != acm::PathOrigin::Local &&
         static_cast<acm::PathOrigin>(origin) != acm::PathOrigin::Card;
}

}  // namespace

Result<PathView> Driver::resolve(const PathTarget& target, const PathOptions& options,
                                 Duration timeout) {
  const std::lock_guard lock(mutex_);
  if (broken_.has_value()) {
    return fail(*broken_);
  }
  const Instant now = monotonic_now();
  const verbs::PortInfo& port = parts_.port.info;
  PathWish wish{pkey_, options.sl, options.service_id};
  if (options.pkey.has_value()) {
    const auto pkey = choose_pkey(port, options.pkey);
    if (!pkey) {
      return fail(pkey.error());
    }
    wish.pkey = *pkey;
  }
  // What is void by now must not be taken for an answer.
  partitions_.try_emplace(wish.pkey);
  follow_paths(now);
  const auto id = resolutions_->resolve(target, wish, deadline_after(now, timeout), now);
  if (!id) {
    return fail(id.error());
  }
  pump(now);
  if (const auto answer = resolutions_->take_answer(*id); answer.has_value()) {
    return *answer ? view(*id, now) : fail(answer->error());
  }
  const auto pending = view(*id, now);
  if (auto done = turn(); !done) {
    return fail(done.error());
  }
  return pending;
}

Result<PathView> Driver::path(PathId id) {
  const std::lock_guard lock(mutex_);
  return view(id, monotonic_now());
}

Result<> Driver::fail_path(PathId id) {
  const std::lock_guard lock(mutex_);
  const Resolution* resolution = resolutions_->find(id);
  const bool is_news = resolution != nullptr && resolution->state == Resolution::State::Resolved;
  if (auto done = resolutions_->fail_path(id); !done) {
    return done;
  }
  if (is_news) {
    parts_.paths->path_failed(key_of(resolution->path->record.dgid, resolution->wish));
    pump(monotonic_now());
  }
  return {};
}

Result<> Driver::forget_path(PathId id) {
  const std::lock_guard lock(mutex_);
  if (auto done = resolutions_->forget(id); !done) {
    return done;
  }
  std::erase_if(events_, [id](const UserEvent& event) {
    const auto* resolved = std::get_if<Resolved>(&event.event);
    const auto* changed = std::get_if<PathChanged>(&event.event);
    return (resolved != nullptr && resolved->id == id) || (changed != nullptr && changed->id == id);
  });
  clear_signal_if_idle();
  return {};
}

Result<PathView> Driver::view(PathId id, Instant now) const {
  const Resolution* resolution = resolutions_->find(id);
  if (resolution == nullptr) {
    return fail(Error::make(Errc::NotFound,
                            "no path with id %llu: it was given up, or never resolved",
                            static_cast<unsigned long long>(id.value())));
  }
  const verbs::PortInfo& port = parts_.port.info;
  PathView result;
  result.id = id;
  result.resolution = *resolution;
  result.port = port.port;
  result.gid_index = port.gid_index;
  result.pkey_index = port.pkey_index(resolution->wish.pkey).value_or(0);
  if (resolution->path.has_value()) {
    const KnownPath& path = *resolution->path;
    result.to = address_of(path.record, port.lid, Qpn());
    result.mtu = std::min(path.record.mtu, port.active_mtu);
    result.age = std::max<Duration>(now - path.learned, Duration(0));
  }
  return result;
}

acm::PathKey Driver::key_of(const Gid& dgid, const PathWish& wish) const {
  return {parts_.port.info.gid, dgid, wish.pkey, wish.sl, wish.service_id};
}

void Driver::run(const FindPath& command, Instant now) {
  const auto dgid = command.to.as_gid();
  const auto address = dgid.has_value() ? std::nullopt : std::optional(command.to);
  find_path({key_of(dgid.value_or(Gid()), command.wish), address}, command.id, command.deadline,
            now);
}

void Driver::run(const CheckPath& command, Instant /*now*/) {
  const Resolution* resolution = resolutions_->find(command.id);
  if (resolution == nullptr || !is_cached(resolution->path->origin)) {
    return;
  }
  const auto found = parts_.paths->lookup(key_of(resolution->path->record.dgid, resolution->wish));
  resolutions_->handle_check(command.id,
                             found.has_value() ? std::optional(found->record) : std::nullopt);
}

/// Do the paths that were resolved still hold? A few loads when nothing has changed.
void Driver::follow_paths(Instant now) {
  for (auto& [pkey, seen] : partitions_) {
    const acm::CacheVersion version = parts_.paths->version(pkey);
    if (version == seen) {
      continue;
    }
    const PathVersion rests_on = to_path_version(version, version.generation);
    if (rests_on.basis != to_path_version(seen, seen.generation).basis) {
      refresh_port();
    }
    seen = version;
    resolutions_->handle_version(pkey, rests_on);
  }
  pump(now);
}

/// Paths become void when the port's own addresses change, among other reasons.
void Driver::refresh_port() {
  const verbs::PortInfo& old = parts_.port.info;
  auto info = parts_.port.device.query_port(old.port);
  // A port that is down, or whose GID is another, cannot be used by this context.
  if (!info || !info->active || info->lid.is_zero() || info->gid != old.gid) {
    return;
  }
  parts_.port.info = std::move(*info);
  engine_->set_port(parts_.port.info.lid, parts_.port.info.lmc);
  resolutions_->set_port(parts_.port.info.lid, parts_.port.info.lmc);
  parts_.paths->port_changed(parts_.port.info);
}

}  // namespace wireup::conn
