// SPDX-License-Identifier: BSD-3-Clause
// `wireup serve`: the node's ACM service.
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

#include "acm/server/client_names.hpp"
#include "acm/server/client_server.hpp"
#include "acm/server/ipoib_watch.hpp"
#include "acm/server/kernel_service.hpp"
#include "acm/server/node_service.hpp"
#include "acm/server/service_setup.hpp"
#include "base/clock.hpp"
#include "base/unique_fd.hpp"
#include "command.hpp"
#include "serve_privileges.hpp"
#include "settings/settings.hpp"

namespace wireup::tool {
namespace {

struct Options {
  acm::ServiceFiles files;
  /// Empty: the settings' one.
  std::string socket;
  /// Empty: as it is started.
  std::string user;
  bool keeps_privileges = false;
};

/// How often a host without a port looks for one.
constexpr Duration kLookInterval = std::chrono::seconds(5);
/// What ports, ranks and files need besides the clients.
constexpr std::size_t kOwnDescriptors = 512;

/// One user's processes leave room for the others', and an ordinary node's fit.
std::size_t each_user(std::size_t all) {
  return std::max<std::size_t>(1, all / 2);
}

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

/// Half of the descriptors that the service does not need itself is for clients, half for ranks.
struct Bounds {
  acm::ClientServerLimits clients;
  /// Of all ports together.
  std::size_t ranks = 0;
};

Result<Bounds> find_bounds() {
  const auto most = acm::raise_descriptor_limit();
  if (!most) {
    return fail(most.error());
  }
  const std::size_t half = (*most - std::min(*most, kOwnDescriptors)) / 2;
  Bounds bounds;
  bounds.clients.max_clients = std::min(bounds.clients.max_clients, half);
  bounds.clients.max_clients_each_user = each_user(bounds.clients.max_clients);
  bounds.ranks = half;
  return bounds;
}

/// What the settings and the machine say for all ports.
struct Plan {
  settings::Settings settings;
  std::string socket;
  Bounds bounds;
};

/// The ports as they are served: root's service is everybody's.
std::vector<acm::ServedPort::Options> planned(std::vector<acm::ServedPort::Options> ports,
                                              const Plan& plan) {
  for (acm::ServedPort::Options& port : ports) {
    port.directory = plan.settings.runtime_directory(geteuid());
    port.cache_directory = plan.settings.cache_directory();
    port.cache_entries = plan.settings.cache_entries();
    const bool is_ordered =
        plan.settings.value(settings::Id::PathSources).origin != settings::Origin::Default;
    // Else the options' route_prot says which of multicast and the SA tells paths.
    port.sources =
        acm::policy_of(is_ordered ? plan.settings.path_sources() : std::vector<std::string>{},
                       plan.settings.sa_bulk());
    port.audience = geteuid() == 0 ? acm::Audience::Everybody : acm::Audience::OwnUser;
    acm::RankServerLimits& ranks = port.ranks;
    ranks.max_ranks = std::min(ranks.max_ranks, plan.bounds.ranks / ports.size());
    ranks.max_ranks_each_user = geteuid() == 0 ? each_user(ranks.max_ranks) : ranks.max_ranks;
  }
  return ports;
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

/// The ports of the files, or of the devices that are there.
Result<> look_for_ports(const Options& options, const Plan& plan, bool is_first_look,
                        acm::NodeService& service) {
  const auto setup = acm::read_setup(options.files);
  if (!setup) {
    return fail(setup.error());
  }
  for (std::size_t i = 0; is_first_look && i < setup->problems.size(); ++i) {
    spdlog::warn("{}", setup->problems[i].what());
  }
  if (setup->ports.empty()) {
    // Nothing to serve is no fault: a host may get its adapter, or its driver, later.
    spdlog::info("no InfiniBand port in {}: waiting for one", setup->origin);
    return {};
  }
  spdlog::info("{} ports of {}, clients at {}", setup->ports.size(), setup->origin, plan.socket);
  if (setup->uses_interfaces) {
    if (auto socket = acm::open_route_netlink()) {
      service.watch_interfaces(acm::IpoibWatch(std::move(*socket)));
    } else {
      spdlog::warn("the addresses of IPoIB interfaces are not served: {}", socket.error().what());
    }
  }
  return service.add_ports(planned(setup->ports, plan));
}

/// Until a signal.
Result<> run(const Options& options, const Plan& plan, ServePrivileges& privileges,
             acm::NodeService& service, const UniqueFd& signals) {
  Instant next_look;
  while (!has_signal(signals)) {
    const Instant now = monotonic_now();
    if (service.ports() == 0 && next_look <= now) {
      const bool is_first_look = next_look == Instant();
      next_look = now + kLookInterval;
      if (auto looked = look_for_ports(options, plan, is_first_look, service); !looked) {
        return looked;
      }
    }
    service.progress(now);
    while (const auto news = service.poll_news()) {
      tell(*news);
    }
    if (privileges.is_waiting() && service.serves_all()) {
      if (auto done = privileges.become_user(); !done) {
        return done;
      }
    }
    service.wait(signals.value(), service.ports() == 0 ? next_look : Instant::max(), now);
  }
  return {};
}

int serve(const Options& options) {
  spdlog::set_default_logger(std::make_shared<spdlog::logger>(
      "wireup", std::make_shared<spdlog::sinks::stderr_sink_mt>()));
  const UniqueFd signals = catch_signals();
  auto loaded = settings::load();
  spdlog::set_level(spdlog::level::from_str(loaded.settings.log_level()));
  for (const Error& problem : loaded.problems) {
    spdlog::warn("{}", problem.what());
  }
  auto privileges = ServePrivileges::make(options.user);
  if (!privileges) {
    return report(privileges.error());
  }
  const auto bounds = find_bounds();
  if (!bounds) {
    return report(bounds.error());
  }
  const std::string socket =
      options.socket.empty() ? loaded.settings.service_socket() : options.socket;
  const Plan plan{std::move(loaded.settings), socket, *bounds};
  auto listener = open_listener(plan.socket);
  if (!listener) {
    return report(listener.error());
  }
  for (const Error& misled : acm::names_that_mislead(listener->path())) {
    spdlog::warn("{}", misled.what());
  }
  auto clients = acm::ClientServer::open(std::move(*listener), plan.bounds.clients);
  if (!clients) {
    return report(clients.error());
  }
  auto kernel = open_kernel();
  // Before the devices: their libraries may start threads, which would keep what they had.
  if (options.keeps_privileges) {
    spdlog::info("no privilege is given up (--keep-privileges)");
  } else if (auto done = privileges->give_up(kernel.has_value()); !done) {
    return report(done.error());
  }
  acm::NodeService service(std::move(*clients), std::move(kernel));
  if (auto done = run(options, plan, *privileges, service, signals); !done) {
    return report(done.error());
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
  command->add_option("--socket", options->socket,
                      "where clients connect (setting service_socket)");
  CLI::Option* user =
      command->add_option("--user", options->user, "run as this user once all ports are open");
  command
      ->add_flag("--keep-privileges", options->keeps_privileges,
                 "give up no capability, for adapters whose library needs others than ours")
      ->excludes(user);
  command->callback([options, &action] { action = [options] { return serve(*options); }; });
}

}  // namespace wireup::tool
