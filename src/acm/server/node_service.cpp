// SPDX-License-Identifier: BSD-3-Clause
#include "acm/server/node_service.hpp"

#include <poll.h>

#include <algorithm>
#include <utility>

#include "base/check.hpp"

namespace wireup::acm {
namespace {

/// Requests taken from clients before the fabric has its turn.
constexpr int kRequestsPerRound = 64;
constexpr int kRoundsPerTurn = 4;
/// Tells the kernel's questions from the clients'.
constexpr std::uint64_t kKernelBit = std::uint64_t{1} << 63U;

}  // namespace

NodeService::NodeService(ClientServer clients, std::optional<KernelService> kernel,
                         RoutedPaths* routed)
    : clients_(std::move(clients)), kernel_(std::move(kernel)), routed_(routed) {
  serve_clients({});
}

void NodeService::serve_clients(const std::vector<ServedPort*>& ports) {
  ClientService::Options options;
  options.routed = routed_;
  service_.emplace(options, ports);
}

Result<> NodeService::add_ports(const std::vector<ServedPort::Options>& ports) {
  WIREUP_CHECK(ports_.empty());
  std::vector<ServedPort*> served;
  for (const ServedPort::Options& options : ports) {
    auto port = ServedPort::open(options);
    if (!port) {
      return fail(port.error());
    }
    served.push_back(port->get());
    ports_.push_back({std::move(*port), std::nullopt, 0, Gid()});
  }
  // Without ports nobody waits for an answer of it.
  serve_clients(served);
  return {};
}

bool NodeService::serves_all() const {
  return !ports_.empty() && std::all_of(ports_.begin(), ports_.end(), [](const Watched& watched) {
    return !watched.port->fault().has_value();
  });
}

void NodeService::progress(Instant now) {
  for (Watched& watched : ports_) {
    watched.port->progress(now);
  }
  if (interfaces_.has_value()) {
    interfaces_->progress(now);
    follow_interfaces(now);
  }
  if (routed_ != nullptr) {
    routed_->progress(now);
  }
  clients_.progress(now);
  if (kernel_.has_value()) {
    kernel_->progress();
  }
  // A client that is answered may have sent its next request already.
  has_more_ = true;
  for (int round = 0; has_more_ && round < kRoundsPerTurn; ++round) {
    has_more_ = take_requests(now);
    service_->progress(now);
    send_replies();
  }
  note_changes();
}

bool NodeService::take_requests(Instant now) {
  bool has_some = false;
  for (int i = 0; i < kRequestsPerRound; ++i) {
    const auto request = clients_.poll_request();
    if (!request.has_value()) {
      break;
    }
    has_some = true;
    service_->handle(request->client, request->peer.uid, request->request, now);
  }
  while (clients_.poll_gone().has_value()) {
    // Its reply, if one is still to come, goes nowhere.
  }
  while (const auto ask = kernel_.has_value() ? kernel_->poll_ask() : std::nullopt) {
    has_some = true;
    service_->handle(ask->id | kKernelBit, 0, ask->request, now);
  }
  return has_some;
}

void NodeService::send_replies() {
  while (auto reply = service_->poll_reply()) {
    if ((reply->client & kKernelBit) != 0) {
      kernel_->reply(reply->client & ~kKernelBit, reply->reply);
    } else {
      clients_.reply(reply->client, reply->reply);
    }
  }
}

/// The addresses of a port's interfaces, when they or the port's GID have changed.
void NodeService::follow_interfaces(Instant now) {
  std::vector<mad::AcmAddress> gone;
  for (Watched& watched : ports_) {
    const PortResolver* resolver = watched.port->resolver();
    const AcmPort* active = resolver == nullptr ? nullptr : resolver->port();
    if (active == nullptr || (watched.interfaces_version == interfaces_->version() &&
                              watched.gid == active->info().gid)) {
      continue;
    }
    watched.interfaces_version = interfaces_->version();
    watched.gid = active->info().gid;
    const auto addresses = interfaces_->addresses().of(watched.gid, active->engine().port().pkey);
    for (const mad::AcmAddress& address : watched.port->set_addresses(addresses, now)) {
      gone.push_back(address);
    }
  }
  // It may have gone from one port of this node to another, or to another node. Other ports' caches
  // have it where it was.
  for (const mad::AcmAddress& address : gone) {
    for (Watched& watched : ports_) {
      if (watched.port->resolver() != nullptr) {
        watched.port->resolver()->forget(address);
      }
    }
  }
}

void NodeService::note_changes() {
  for (Watched& watched : ports_) {
    PortResolver* resolver = watched.port->resolver();
    while (const auto found = resolver != nullptr ? resolver->poll_identified() : std::nullopt) {
      const ServedPort::Options& options = watched.port->options();
      news_.push_back({options.device, options.port, std::nullopt, {}, found});
    }
    if (resolver != nullptr && resolver->is_starting()) {
      continue;
    }
    const auto fault = watched.port->fault();
    const std::string state = fault.has_value() ? std::string(fault->what()) : std::string();
    if (watched.told == state) {
      continue;
    }
    watched.told = state;
    const ServedPort::Options& options = watched.port->options();
    PortNews news{options.device, options.port, fault, {}};
    if (!fault.has_value()) {
      news.problems = watched.port->resolver()->preloads().problems();
    }
    news_.push_back(std::move(news));
  }
}

std::optional<NodeService::PortNews> NodeService::poll_news() {
  if (news_.empty()) {
    return std::nullopt;
  }
  PortNews news = std::move(news_.front());
  news_.pop_front();
  return news;
}

void NodeService::wait(int also, Instant until, Instant now) {
  std::vector<pollfd> descriptors;
  const auto watch = [&descriptors](int fd) { descriptors.push_back({fd, POLLIN, 0}); };
  if (has_more_) {
    until = now;
  }
  watch(clients_.fd());
  if (kernel_.has_value()) {
    watch(kernel_->fd());
  }
  for (const Watched& watched : ports_) {
    watch(watched.port->fd());
    until = std::min(until, watched.port->poll_timeout());
  }
  if (const auto due = clients_.poll_timeout()) {
    until = std::min(until, *due);
  }
  if (interfaces_.has_value()) {
    watch(interfaces_->fd());
    until = std::min(until, interfaces_->poll_timeout().value_or(until));
  }
  if (routed_ != nullptr) {
    watch(routed_->fd());
    until = std::min(until, routed_->poll_timeout().value_or(until));
  }
  if (also >= 0) {
    watch(also);
  }
  constexpr std::int64_t kLongest = 60'000;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - now).count();
  // What is ready is found by the calls of the next turn; the wait is all that is needed here.
  static_cast<void>(poll(descriptors.data(), descriptors.size(),
                         static_cast<int>(std::clamp<std::int64_t>(left, 0, kLongest))));
}

}  // namespace wireup::acm
