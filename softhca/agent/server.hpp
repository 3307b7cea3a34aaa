// SPDX-License-Identifier: BSD-3-Clause
// The agent's event loop: umad clients on one side, ibsim slots on the other.
#pragma once

#include <cerrno>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>

#include "softhca/agent/gsi.hpp"
#include "softhca/agent/issm_watch.hpp"
#include "softhca/agent/relay.hpp"
#include "softhca/agent/session.hpp"

namespace softhca {

/// What a command says to its user; `error` is an errno value.
struct CommandResult {
  int error = 0;
  std::string text;
};

struct ServerOptions {
  std::string dir;         // SOFTHCA_DIR
  std::string ibsim_base;  // ibsim's socket base name
  std::size_t slots = 3;   // ibsim slots for MADs of clients
  SlotJournal* journal = nullptr;
  /// A subnet manager told the port with this LID that its client must register again.
  std::function<void(std::uint16_t lid)> reregister = [](std::uint16_t) {};
  /// Orders at the fabric itself (`softhca fault link …`), which the server does not know.
  std::function<CommandResult(std::span<const std::string> words)> order =
      [](std::span<const std::string>) {
        return CommandResult{EINVAL, "unknown command\n"};
      };
};

/// Serves SOFTHCA_DIR/agent.sock. One thread.
class Server {
 public:
  /// `kick` asks for a sweep soon. nullptr with a message on stderr.
  static std::unique_ptr<Server> create(const ServerOptions& options, const FabricView& view,
                                        std::function<void()> kick);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server();

  /// Runs until `stop_fd` is readable.
  void run(int stop_fd);

 private:
  Server(const ServerOptions& options, const FabricView& view, std::unique_ptr<Counters> counters,
         std::function<void()> kick);

  bool listen();
  void watch(int fd, bool writable);
  void accept_clients();
  void serve_control(Session& session);
  AgentReply handle_request(Session& session, const AgentRequest& request, int passed_fd);
  /// Whether the process behind a session may open ports, as the modes of /dev/infiniband/umad*
  /// say on a host.
  [[nodiscard]] bool may_open(const Session& session) const;
  CommandResult handle_command(std::span<const std::string> words);
  void watch_subnet_manager(PortIndex port);
  void serve_data(Session& session, Clock::time_point now);
  void end_session(std::uint64_t id);
  void watch_slots();
  [[nodiscard]] std::optional<Clock::time_point> deadline() const;
  void watch_congestion();

  ServerOptions options_;
  const FabricView& view_;
  std::unique_ptr<Counters> counters_;
  std::function<void()> kick_;
  Sessions sessions_;
  SlotPool pool_;
  Relay relay_;
  GsiFaults faults_;
  Gsi gsi_;
  std::unique_ptr<IssmWatch> issm_;
  std::unordered_map<int, std::uint64_t> session_of_fd_;
  std::uint64_t next_session_ = 1;
  int epoll_ = -1;
  int listener_ = -1;
  bool umads_restricted_ = true;
};

}  // namespace softhca
