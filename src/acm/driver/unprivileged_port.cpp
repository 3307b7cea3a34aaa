// SPDX-License-Identifier: BSD-3-Clause
#include "acm/driver/unprivileged_port.hpp"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string_view>
#include <utility>

#include "acm/driver/told_path.hpp"
#include "base/epoll.hpp"
#include "verbs/device.hpp"

namespace wireup::acm {
namespace {

constexpr Duration kLookInterval = std::chrono::milliseconds(500);

/// Keeps the device open between the looks.
std::function<Result<verbs::PortInfo>()> look_at(const std::string& name, std::uint8_t port) {
  auto device = std::make_shared<std::optional<verbs::Device>>();
  return [device, name, port]() -> Result<verbs::PortInfo> {
    if (!device->has_value()) {
      auto opened = verbs::Device::open(name);
      if (!opened) {
        return fail(opened.error());
      }
      device->emplace(std::move(*opened));
    }
    return (*device)->query_port(port);
  };
}

bool is_same_place(const verbs::PortInfo& a, const verbs::PortInfo& b) noexcept {
  return a.gid == b.gid && a.lid == b.lid && a.lmc == b.lmc && a.sm_lid == b.sm_lid &&
         a.active_mtu == b.active_mtu && a.active_rate == b.active_rate && a.pkeys == b.pkeys;
}

}  // namespace

Result<std::unique_ptr<UnprivilegedPort>> UnprivilegedPort::open(const Options& options,
                                                                 Instant now) {
  std::unique_ptr<UnprivilegedPort> port(new UnprivilegedPort(options));
  if (!port->options_.look) {
    port->options_.look = look_at(options.device, options.port);
  }
  auto info = port->options_.look();
  if (!info) {
    return fail(info.error());
  }
  if (!info->active) {
    return fail(Error::make(Errc::NoSubnetManager,
                            "%s is %s, not ACTIVE: is the subnet manager (OpenSM) running?",
                            info->name().data(), info->state));
  }
  const auto pkey = info->table_pkey(options.pkey);
  if (!pkey) {
    return fail(pkey.error());
  }
  auto source = IbacmSource::open(options.ibacm, *info, *pkey);
  if (!source) {
    return fail(source.error());
  }
  port->source_.emplace(std::move(*source));
  port->epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
  if (!port->epoll_.is_open()) {
    return fail(Error::system(Errc::NoResources, errno, "making an epoll descriptor"));
  }
  if (auto watched = port->watch(port->source_->fd()); !watched) {
    return fail(watched.error());
  }
  port->open_kernel();
  port->next_look_ = now + kLookInterval;
  return port;
}

Result<> UnprivilegedPort::watch(int fd) const {
  if (!watch_readable(epoll_, fd)) {
    return wireup::fail(Error::system(Errc::NoResources, errno, "watching a descriptor of %s",
                                      info().name().data()));
  }
  return {};
}

/// Where there is none, which is usual, ibacm is the only one to ask.
void UnprivilegedPort::open_kernel() {
  kernel_.reset();
  if (!options_.asks_kernel) {
    return;
  }
  auto kernel =
      rdmacm::KernelPaths::open({info().gid, pkey(), options_.kernel_device}, options_.kernel_ops);
  if (kernel && watch(kernel->fd())) {
    kernel_.emplace(std::move(*kernel));
  }
}

void UnprivilegedPort::ask(QuestionId id, const PathKey& key, Instant deadline, Instant now) {
  questions_.insert_or_assign(
      id, Question{mad::AcmAddress::gid(key.dgid), key.sl, key.service_id, deadline, std::nullopt});
  ask_ibacm(id, key, deadline, now);
}

void UnprivilegedPort::ask(QuestionId id, const mad::AcmAddress& address, Instant deadline,
                           Instant now) {
  questions_.insert_or_assign(id,
                              Question{address, std::nullopt, ServiceId(), deadline, std::nullopt});
  ask_ibacm(id, address, deadline, now);
}

void UnprivilegedPort::ask_ibacm(QuestionId id,
                                 const std::variant<PathKey, mad::AcmAddress>& target,
                                 Instant deadline, Instant now) {
  if (options_.asks_ibacm) {
    std::visit([&](const auto& to) { source_->ask(id, to, deadline, now); }, target);
    return;
  }
  take_from_ibacm({id, fail(Error::make(Errc::NoPermission, "path_sources does not name ibacm"))},
                  now);
}

void UnprivilegedPort::progress(Instant now) {
  if (next_look_ <= now) {
    next_look_ = now + kLookInterval;
    look_at_port();
  }
  source_->progress(now);
  while (const auto answer = source_->poll_answer()) {
    take_from_ibacm(*answer, now);
  }
  if (kernel_.has_value()) {
    kernel_->progress(now);
    while (const auto answer = kernel_->poll_answer()) {
      take_from_kernel(*answer);
    }
  }
}

void UnprivilegedPort::take_from_ibacm(const IbacmSource::Answer& answer, Instant now) {
  const auto at = questions_.find(answer.id);
  if (at == questions_.end()) {
    return;
  }
  if (answer.path) {
    answers_.push_back({answer.id, answer.path, PathOrigin::Ibacm});
    questions_.erase(at);
    return;
  }
  if (kernel_.has_value() && at->second.deadline > now) {
    at->second.error = explain(answer.path.error());
    kernel_->ask(answer.id, at->second.destination, at->second.service, at->second.deadline, now);
    return;
  }
  answers_.push_back({answer.id, fail(explain(answer.path.error())), PathOrigin::Ibacm});
  questions_.erase(at);
}

void UnprivilegedPort::take_from_kernel(const rdmacm::KernelPaths::Answer& answer) {
  const auto at = questions_.find(answer.id);
  if (at == questions_.end()) {
    return;
  }
  const Question question = at->second;
  questions_.erase(at);
  if (!answer.path) {
    // What it does not resolve at all is no news.
    answers_.push_back(
        {answer.id,
         fail(answer.path.error().is(Errc::Unsupported) ? *question.error : answer.path.error()),
         PathOrigin::Kernel});
    return;
  }
  const auto checked = check_told_path(*answer.path, info(), pkey(), question.destination,
                                       question.sl, "the kernel");
  answers_.push_back({answer.id, answer.path, PathOrigin::Kernel});
  if (!checked) {
    answers_.back().path = fail(checked.error());
  }
}

void UnprivilegedPort::look_at_port() {
  auto info = options_.look();
  if (!info || !info->active || is_same_place(*info, source_->port())) {
    // A port that is down, or a device that goes away, may come back as it was.
    return;
  }
  const auto pkey = info->table_pkey(options_.pkey);
  source_->set_port(*info, pkey ? *pkey : source_->pkey());
  has_changed_ = true;
  if (!kernel_.has_value()) {
    return;
  }
  open_kernel();
  // What was asked of it from the port's old addresses.
  for (auto at = questions_.begin(); at != questions_.end();) {
    if (!at->second.error.has_value()) {
      ++at;
      continue;
    }
    answers_.push_back(
        {at->first,
         fail(Error::make(Errc::Stale, "%s got other addresses while the kernel was asked",
                          info->name().data())),
         PathOrigin::Kernel});
    at = questions_.erase(at);
  }
}

/// Both halves of why there is no path: what this process lacks, and who could have helped.
Error UnprivilegedPort::explain(const Error& error) const {
  if (!error.is(Errc::NotFound) && !error.is(Errc::NoPermission)) {
    return error;
  }
  const std::string_view lacks = options_.lacks.what();
  const char* kernel = kernel_.has_value() ? "" : ", no rdma_cm";
  if (error.is(Errc::NotFound)) {
    return Error::make(Errc::NoPermission, "no ibacm or wireup serve at %s%s, and %.*s",
                       source_->socket().c_str(), kernel, static_cast<int>(lacks.size()),
                       lacks.data());
  }
  return Error::make(Errc::NoPermission, "%.*s%s, and %.*s", static_cast<int>(error.what().size()),
                     error.what().data(), kernel, static_cast<int>(lacks.size()), lacks.data());
}

std::optional<UnprivilegedPort::Answer> UnprivilegedPort::poll_answer() {
  if (answers_.empty()) {
    return std::nullopt;
  }
  const Answer answer = answers_.front();
  answers_.pop_front();
  return answer;
}

bool UnprivilegedPort::poll_changed() noexcept {
  return std::exchange(has_changed_, false);
}

Instant UnprivilegedPort::poll_timeout() const {
  if (!answers_.empty() || has_changed_) {
    return Instant();
  }
  Instant until = std::min(next_look_, source_->poll_timeout().value_or(next_look_));
  if (kernel_.has_value()) {
    until = std::min(until, kernel_->poll_timeout().value_or(until));
  }
  return until;
}

}  // namespace wireup::acm
