// SPDX-License-Identifier: BSD-3-Clause
// softhca-agent: one for each fabric. It walks the fabric that ibsim simulates, publishes what it
// finds for the emulated HCAs, and carries their management datagrams.
#include <getopt.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "softhca/agent/log.hpp"
#include "softhca/agent/port_announcer.hpp"
#include "softhca/agent/port_orders.hpp"
#include "softhca/agent/server.hpp"
#include "softhca/agent/sweep_loop.hpp"
#include "softhca/fabric/words.hpp"

namespace {

constexpr char kUsage[] =
    "usage: softhca-agent [--dir DIR] [--ibsim-sockname NAME] [--sim-host NODE] [--slots N]\n"
    "                     [--console FIFO] [--wait SECONDS]\n"
    "  --dir DIR              run directory of the fabric (default: $SOFTHCA_DIR)\n"
    "  --ibsim-sockname NAME  socket base name of ibsim (default: $IBSIM_SOCKNAME, or sim)\n"
    "  --sim-host NODE        node the walk starts at (default: $SIM_HOST, or ibsim's choice)\n"
    "  --slots N              ibsim client slots that move between ports, 1 to 6 (default 3); one\n"
    "                         more is taken for the walk and for each subnet manager\n"
    "  --console FIFO         where ibsim reads its commands; `softhca fault link` needs it\n"
    "  --wait SECONDS         how long to wait for ibsim to answer at first (default 30)\n"
    "Runs in the foreground until SIGTERM. DIR/agent.ready appears when the fabric is known.\n";

struct Options {
  std::string dir;
  std::string ibsim_base = "sim";
  std::string sim_host;
  std::size_t slots = 3;
  std::string console;
  int wait_seconds = 30;
};

void take_environment(std::string& value, const char* name) {
  const char* text = std::getenv(name);
  if (text != nullptr && *text != '\0') {
    value = text;
  }
}

/// Returns -1 to go on, else the exit status.
int parse(int argc, char** argv, Options& options) {
  take_environment(options.dir, "SOFTHCA_DIR");
  take_environment(options.ibsim_base, "IBSIM_SOCKNAME");
  take_environment(options.sim_host, "SIM_HOST");
  static const std::array<option, 8> long_options = {
      {{"dir", required_argument, nullptr, 'd'},
       {"ibsim-sockname", required_argument, nullptr, 's'},
       {"sim-host", required_argument, nullptr, 'n'},
       {"slots", required_argument, nullptr, 'c'},
       {"console", required_argument, nullptr, 'o'},
       {"wait", required_argument, nullptr, 'w'},
       {"help", no_argument, nullptr, 'h'},
       {nullptr, 0, nullptr, 0}}};
  for (int c = 0; (c = getopt_long(argc, argv, "h", long_options.data(), nullptr)) != -1;) {
    switch (c) {
      case 'd':
        options.dir = optarg;
        break;
      case 's':
        options.ibsim_base = optarg;
        break;
      case 'n':
        options.sim_host = optarg;
        break;
      case 'c':
        if (const auto slots = softhca::parse_number(optarg, 1, 6)) {
          options.slots = *slots;
          break;
        }
        softhca::log_line("--slots is %s; it must be 1 to 6, ibsim has 10 for all", optarg);
        return 2;
      case 'o':
        options.console = optarg;
        break;
      case 'w':
        if (const auto seconds = softhca::parse_number(optarg, 1, 86400)) {
          options.wait_seconds = static_cast<int>(*seconds);
          break;
        }
        softhca::log_line("--wait is %s; it must be 1 to 86400 seconds", optarg);
        return 2;
      case 'h':
        std::fputs(kUsage, stdout);
        return 0;
      default:
        std::fputs(kUsage, stderr);
        return 2;
    }
  }
  if (optind != argc) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  if (options.dir.empty()) {
    softhca::log_line("no run directory: give --dir or set SOFTHCA_DIR");
    return 2;
  }
  return -1;
}

bool prepare_directory(const std::string& dir) {
  if (mkdir(dir.c_str(), 0777) != 0 && errno != EEXIST) {
    softhca::log_line("cannot make %s: %s", dir.c_str(), std::strerror(errno));
    return false;
  }
  // A fabric that root runs is for all users.
  if (geteuid() == 0 && chmod(dir.c_str(), 0777) != 0) {
    softhca::log_line("cannot open %s to all users: %s", dir.c_str(), std::strerror(errno));
    return false;
  }
  return true;
}

void allow_many_files() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
}

int stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/// 1 the first sweep is there, 0 told to stop, -1 time is up.
int wait_for_sweep(int sweep_fd, int stop_fd, int seconds) {
  std::array<pollfd, 2> fds = {{{sweep_fd, POLLIN, 0}, {stop_fd, POLLIN, 0}}};
  const int ready = poll(fds.data(), fds.size(), seconds * 1000);
  if (ready <= 0) {
    return -1;
  }
  return fds[1].revents != 0 ? 0 : 1;
}

int serve(const Options& options, int stop_fd) {
  using softhca::log_line;
  const std::string ready = options.dir + "/agent.ready";
  const std::string pid = options.dir + "/agent.pid";
  auto writer = softhca::FabricWriter::open(options.dir.c_str());
  if (writer == nullptr) {
    log_line("cannot write %s/%s: %s", options.dir.c_str(), softhca::kFabricFile,
             errno == EBUSY ? "another agent serves this directory" : std::strerror(errno));
    return 1;
  }
  unlink(ready.c_str());
  std::ofstream(pid) << getpid() << '\n';
  const auto journal = softhca::SlotJournal::open(options.dir);
  if (journal == nullptr) {
    log_line("cannot write in %s: %s", options.dir.c_str(), std::strerror(errno));
    return 1;
  }
  const bool same = journal->recover(options.ibsim_base);
  softhca::SweepOptions sweep;
  sweep.ibsim_base = options.ibsim_base;
  sweep.sim_host = options.sim_host;
  sweep.journal = journal.get();
  softhca::PortAnnouncer announcer(options.dir);
  sweep.changed = [&announcer](const auto& before, const auto& after) {
    announcer.changed(before, after);
  };
  sweep.reregister = [&announcer](const auto& model, softhca::PortIndex port) {
    announcer.client_reregister(model, port);
  };
  softhca::SweepLoop loop(sweep, std::move(writer), same);
  const int begun = wait_for_sweep(loop.first_sweep_fd(), stop_fd, options.wait_seconds);
  if (begun < 0) {
    log_line(
        "ibsim \"%s\" gave no picture of the fabric within %d s; is it running, with this "
        "socket name and in this network namespace?",
        options.ibsim_base.c_str(), options.wait_seconds);
  }
  if (begun <= 0) {
    return begun == 0 ? 0 : 1;
  }
  const auto view = softhca::FabricView::attach(options.dir.c_str());
  if (view == nullptr) {
    log_line("cannot map %s/%s: %s", options.dir.c_str(), softhca::kFabricFile,
             std::strerror(errno));
    return 1;
  }
  softhca::ServerOptions server_options;
  server_options.dir = options.dir;
  server_options.ibsim_base = options.ibsim_base;
  server_options.slots = options.slots;
  server_options.journal = journal.get();
  softhca::PortOrders orders(loop, *view, options.console);
  server_options.order = [&orders](std::span<const std::string> words) {
    return orders.run(words);
  };
  server_options.reregister = [&loop](std::uint16_t lid) { loop.reregister(lid); };
  const auto server = softhca::Server::create(server_options, *view, [&loop] { loop.kick(); });
  if (server == nullptr) {
    return 1;
  }
  std::ofstream(ready) << getpid() << '\n';
  log_line("ready: %zu HCAs, %zu switches", view->all_hcas().size(), view->switches().size());
  server->run(stop_fd);
  unlink(ready.c_str());
  unlink(pid.c_str());
  unlink((options.dir + "/" + softhca::kAgentSocket).c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  const int status = parse(argc, argv, options);
  if (status >= 0) {
    return status;
  }
  if (!prepare_directory(options.dir)) {
    return 1;
  }
  allow_many_files();
  const int stop_fd = stop_signals();
  const int result = serve(options, stop_fd);
  close(stop_fd);
  return result;
}
