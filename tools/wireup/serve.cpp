// SPDX-License-Identifier: BSD-3-Clause
// `wireup serve`: the node's ACM service.
#include <poll.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "acm/server/client_server.hpp"
#include "acm/server/kernel_service.hpp"
#include "acm/server/node_service.hpp"
#include "acm/server/service_setup.hpp"
#include "base/clock.hpp"
#include "base/unique_fd.hpp"
#include "command.hpp"

namespace wireup::tool {
namespace {

struct Options {
  acm::ServiceFiles files;
  std::string socket = acm::kClientSocketPath;
};

/// How often a host without a port looks for one.
constexpr Duration kLookInterval = std::chrono::seconds(5);
/// What ports, ranks and files need besides the clients.
constexpr std::size_t kOwnDescriptors = 512;

int report(const Error& error) {
  spdlog::error("{}", error.what());
  return 1;
}

/// SIGTERM and SIGINT as a descriptor.
UniqueFd catch_signals() {
  sigset_t ending;
  sigemptyset(&ending);
  sigaddset(&ending, SIGTERM);
  sigaddset(&ending, SIGINT);
  sigprocmask(SIG_BLOCK, &ending, nullptr);
  signal(SIGPIPE, SIG_IGN);
  return UniqueFd(signalfd(-1, &ending, SFD_CLOEXEC | SFD_NONBLOCK));
}

bool has_signal(const UniqueFd& signals) {
  signalfd_siginfo info{};
  return read(signals.value(), &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info));
}

void tell(const acm::NodeService::PortNews& news) {
  if (news.identified.has_value()) {
    const auto& [address, identity] = *news.identified;
    spdlog::info("{} port {}: {} is GID {} by {}", news.device, news.port, mad::to_text(address),
                 to_text(identity.gid).data(), acm::identity_source_name(identity.source));
    return;
  }
  if (news.fault.has_value()) {
    spdlog::warn("not serving {} port {}: {}", news.device, news.port, news.fault->what());
  } else {
    spdlog::info("serving {} port {}", news.device, news.port);
  }
  for (const Error& problem : news.problems) {
    spdlog::warn("{} port {}: {}", news.device, news.port, problem.what());
  }
}

/// What a service manager passed, or a socket of our own.
Result<acm::ClientListener> open_listener(const std::string& path) {
  constexpr int kFirstPassed = 3;
  const char* pid = std::getenv("LISTEN_PID");
  const char* count = std::getenv("LISTEN_FDS");
  if (pid != nullptr && count != nullptr && std::to_string(getpid()) == pid && *count != '0') {
    return acm::ClientListener::adopt(UniqueFd(kFirstPassed));
  }
  // librdmacm looks at one place only; who wants another socket does not mean librdmacm.
  std::vector<std::string> links;
  if (path == acm::kClientSocketPath) {
    links.emplace_back(acm::kClientSocketLink);
  }
  return acm::listen_client_socket(path, acm::kClientSocketMode, links);
}

Result<acm::ClientServer> open_clients(const std::string& path) {
  const auto most = acm::raise_descriptor_limit();
  if (!most) {
    return fail(most.error());
  }
  auto listener = open_listener(path);
  if (!listener) {
    return fail(listener.error());
  }
  acm::ClientServerLimits limits;
  limits.max_clients = std::min(limits.max_clients, *most - std::min(*most, kOwnDescriptors));
  return acm::ClientServer::open(std::move(*listener), limits);
}

/// The kernel's path requests, where this kernel makes some.
std::optional<acm::KernelService> open_kernel() {
  auto socket = acm::open_netlink();
  if (!socket) {
    spdlog::info("the kernel's path requests are not served: {}", socket.error().what());
    return std::nullopt;
  }
  return acm::KernelService(std::move(*socket));
}

int serve(const Options& options) {
  spdlog::set_default_logger(std::make_shared<spdlog::logger>(
      "wireup", std::make_shared<spdlog::sinks::stderr_sink_mt>()));
  const UniqueFd signals = catch_signals();
  auto setup = acm::read_setup(options.files);
  if (!setup) {
    return report(setup.error());
  }
  for (const Error& problem : setup->problems) {
    spdlog::warn("{}", problem.what());
  }
  auto clients = open_clients(options.socket);
  if (!clients) {
    return report(clients.error());
  }
  while (setup->ports.empty()) {
    // Nothing to serve is no fault: a host may get its adapter, or its driver, later.
    spdlog::info("no InfiniBand port in {}: waiting for one", setup->origin);
    if (::poll(nullptr, 0, static_cast<int>(kLookInterval / std::chrono::milliseconds(1))) < 0 ||
        has_signal(signals)) {
      return 0;
    }
    setup = acm::read_setup(options.files);
    if (!setup) {
      return report(setup.error());
    }
  }
  auto service = acm::NodeService::open(setup->ports, std::move(*clients), open_kernel());
  if (!service) {
    return report(service.error());
  }
  spdlog::info("{} ports of {}, clients at {}", setup->ports.size(), setup->origin, options.socket);
  while (!has_signal(signals)) {
    Instant now = monotonic_now();
    (*service)->progress(now);
    while (const auto news = (*service)->poll_news()) {
      tell(*news);
    }
    (*service)->wait(signals.value(), Instant::max(), now);
  }
  spdlog::info("ending");
  return 0;
}

}  // namespace

void add_serve(CLI::App& app, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "serve", "the node's ACM service, for ranks and in ibacm's place for its clients");
  command->add_option("--options", options->files.options,
                      "options in ibacm's format (/etc/rdma/ibacm_opts.cfg, if there)");
  command->add_option("--addresses", options->files.addresses,
                      "names and addresses in ibacm's format (/etc/rdma/ibacm_addr.cfg, if there)");
  command->add_option("--socket", options->socket, "where clients connect")->capture_default_str();
  command->callback([options, &action] { action = [options] { return serve(*options); }; });
}

}  // namespace wireup::tool
