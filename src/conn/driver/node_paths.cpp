// SPDX-License-Identifier: BSD-3-Clause
#include <utility>

#include "acm/driver/node_client.hpp"
#include "conn/driver/path_source.hpp"

namespace wireup::conn {
namespace {

class NodePaths final : public PathSource {
 public:
  explicit NodePaths(acm::NodeClient client) : client_(std::move(client)) {}

  std::optional<acm::ResolvedPath> lookup(const acm::PathKey& key) const override {
    return client_.lookup(key);
  }
  Result<> request(const acm::PathKey& key, Instant deadline) override {
    return client_.request(key, deadline);
  }
  void progress(Instant now) override { client_.progress(now); }
  std::optional<PathAnswer> poll_answer() override {
    auto resolution = client_.poll_resolution();
    if (!resolution.has_value()) {
      return std::nullopt;
    }
    return PathAnswer{resolution->key, resolution->path};
  }
  int fd() const noexcept override { return client_.fd(); }
  std::optional<Instant> poll_timeout() const override { return client_.poll_timeout(); }
  void path_failed(const acm::PathKey& key) override { client_.path_failed(key); }

 private:
  acm::NodeClient client_;
};

}  // namespace

Result<std::unique_ptr<PathSource>> open_node_paths(const NodePathOptions& options,
                                                    const verbs::PortInfo& port) {
  acm::NodeClientOptions client_options;
  client_options.pkey = options.pkey;
  client_options.may_resolve = options.may_resolve;
  client_options.directory = options.directory;
  client_options.cache_directory = options.cache_directory;
  client_options.cache_entries = options.cache_entries;
  auto client = acm::NodeClient::open(client_options, port);
  if (!client) {
    return fail(client.error());
  }
  return std::unique_ptr<PathSource>(std::make_unique<NodePaths>(std::move(*client)));
}

}  // namespace wireup::conn
