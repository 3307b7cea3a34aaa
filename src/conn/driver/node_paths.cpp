// SPDX-License-Identifier: BSD-3-Clause
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <utility>

#include "acm/driver/node_client.hpp"
#include "base/unique_fd.hpp"
#include "conn/driver/path_source.hpp"

namespace wireup::conn {
namespace {

class NodePaths final : public PathSource {
 public:
  NodePaths(const NodePathOptions& options, const verbs::PortInfo& port)
      : options_(options), port_(port) {}

  [[nodiscard]] Result<> open() {
    epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
    if (!epoll_.is_open()) {
      return fail(Error::system(Errc::NoResources, errno, "making an epoll descriptor"));
    }
    const auto first = client_of(options_.pkey);
    return first ? Result<>{} : fail(first.error());
  }

  std::optional<acm::ResolvedPath> lookup(const acm::PathKey& key) const override {
    const auto client = clients_.find(key.pkey.partition());
    return client != clients_.end() ? client->second.lookup(key) : std::nullopt;
  }
  acm::CacheVersion version(PKey pkey) const override {
    const auto client = clients_.find(pkey.partition());
    return client != clients_.end() ? client->second.version() : acm::CacheVersion{};
  }
  Result<> request(const acm::RankQuestion& question, Instant deadline) override {
    const auto client = client_of(question.key.pkey);
    if (!client) {
      return fail(client.error());
    }
    return question.address.has_value()
               ? (*client)->request(*question.address, question.key, deadline)
               : (*client)->request(question.key, deadline);
  }
  void progress(Instant now) override {
    for (auto& [partition, client] : clients_) {
      client.progress(now);
    }
  }
  std::optional<PathAnswer> poll_answer() override {
    for (auto& [partition, client] : clients_) {
      if (auto resolution = client.poll_resolution()) {
        return PathAnswer{{resolution->key, resolution->address}, resolution->path};
      }
    }
    return std::nullopt;
  }
  int fd() const noexcept override { return epoll_.value(); }
  std::optional<Instant> poll_timeout() const override {
    std::optional<Instant> earliest;
    for (const auto& [partition, client] : clients_) {
      if (const auto due = client.poll_timeout()) {
        earliest = std::min(earliest.value_or(*due), *due);
      }
    }
    return earliest;
  }
  void path_failed(const acm::PathKey& key) override {
    if (const auto client = clients_.find(key.pkey.partition()); client != clients_.end()) {
      client->second.path_failed(key);
    }
  }
  void port_changed(const verbs::PortInfo& port) override {
    port_ = port;
    for (auto& [partition, client] : clients_) {
      client.port_changed(port);
    }
  }

 private:
  /// The client of the P_Key's partition, opened at the first call.
  [[nodiscard]] Result<acm::NodeClient*> client_of(PKey pkey) {
    const auto known = clients_.find(pkey.partition());
    if (known != clients_.end()) {
      return &known->second;
    }
    acm::NodeClientOptions client_options;
    client_options.pkey = pkey;
    client_options.may_resolve = options_.may_resolve;
    client_options.directory = options_.directory;
    client_options.cache_directory = options_.cache_directory;
    client_options.cache_entries = options_.cache_entries;
    client_options.ibacm_socket = options_.ibacm_socket;
    client_options.sources = options_.sources;
    auto client = acm::NodeClient::open(client_options, port_);
    if (!client) {
      return fail(client.error());
    }
    epoll_event event{};
    event.events = EPOLLIN;
    if (epoll_ctl(epoll_.value(), EPOLL_CTL_ADD, client->fd(), &event) != 0) {
      return fail(Error::system(Errc::NoResources, errno, "watching the node's resolver"));
    }
    return &clients_.emplace(pkey.partition(), std::move(*client)).first->second;
  }

  NodePathOptions options_;
  verbs::PortInfo port_;
  UniqueFd epoll_;
  std::map<std::uint16_t, acm::NodeClient> clients_;
};

}  // namespace

Result<std::unique_ptr<PathSource>> open_node_paths(const NodePathOptions& options,
                                                    const verbs::PortInfo& port) {
  auto paths = std::make_unique<NodePaths>(options, port);
  if (auto done = paths->open(); !done) {
    return fail(done.error());
  }
  return std::unique_ptr<PathSource>(std::move(paths));
}

}  // namespace wireup::conn
