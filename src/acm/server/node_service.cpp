// SPDX-License-Identifier: BSD-3-Clause
#include "acm/server/node_service.hpp"

#include <poll.h>

#include <algorithm>
#include <utility>

namespace wireup::acm {
namespace {

/// Requests taken from clients before the fabric has its turn.
constexpr int kRequestsPerRound = 64;
constexpr int kRoundsPerTurn = 4;
/// Tells the kernel's questions from the clients'.
constexpr std::uint64_t kKernelBit = std::uint64_t{1} << 63U;

}  // namespace

Result<std::unique_ptr<NodeService>> NodeService::open(
    const std::vector<ServedPort::Options>& ports, ClientServer clients,
    std::optional<KernelService> kernel) {
  std::unique_ptr<NodeService> node(new NodeService(std::move(clients), std::move(kernel)));
  std::vector<ServedPort*> served;
  for (const ServedPort::Options& options : ports) {
    auto port = ServedPort::open(options);
    if (!port) {
      return fail(port.error());
    }
    served.push_back(port->get());
    node->ports_.push_back({std::move(*port), std::nullopt});
  }
  node->service_.emplace(ClientService::Options{}, served);
  return node;
}

void NodeService::progress(Instant now) {
  for (Watched& watched : ports_) {
    watched.port->progress(now);
  }
  clients_.progress(now);
  if (kernel_.has_value()) {
    kernel_->progress();
  }
  // A client that is answered may have sent its next request already.
  has_more_ = true;
  for (int round = 0; has_more_ && round < kRoundsPerTurn; ++round) {
    has_more_ = take_requests(now);
    service_->progress();
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
    service_->handle(request->client, request->request, now);
  }
  while (clients_.poll_gone().has_value()) {
    // Its reply, if one is still to come, goes nowhere.
  }
  while (const auto ask = kernel_.has_value() ? kernel_->poll_ask() : std::nullopt) {
    has_some = true;
    service_->handle(ask->id | kKernelBit, ask->request, now);
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

void NodeService::note_changes() {
  for (Watched& watched : ports_) {
    PortResolver* resolver = watched.port->resolver();
    while (const auto found = resolver != nullptr ? resolver->poll_identified() : std::nullopt) {
      const ServedPort::Options& options = watched.port->options();
      news_.push_back({options.device, options.port, std::nullopt, {}, found});
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
