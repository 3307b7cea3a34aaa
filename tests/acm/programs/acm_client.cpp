// SPDX-License-Identifier: BSD-3-Clause
// A rank's way to paths, by hand: reads commands, one a line, and prints one line for each.
//   resolve GID MS [SL]  asks the node's resolver: "path ..." or "failed KIND TEXT"
//   address TEXT MS  the same for a name or an IP address
//   lookup GID       reads the node cache: "path ..." or "miss"
//   fail GID         says that the path does not work: "ok"
//   resolver         "yes" when this process is the node's resolver, else "no"
//   pid              the process id, as its host sees it
//   quit
#include <arpa/inet.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>
#include <iostream>
#include <map>
#include <optional>
#include <sstream>
#include <string>

#include "acm/driver/node_client.hpp"
#include "acm/files/address_text.hpp"
#include "base/clock.hpp"
#include "settings/settings.hpp"
#include "verbs/device.hpp"

namespace {

using wireup::Duration;
using wireup::Gid;
using wireup::Instant;
using wireup::acm::NodeClient;
using wireup::acm::PathKey;
using wireup::acm::ResolvedPath;

long long microseconds(Duration duration) {
  return std::chrono::duration_cast<std::chrono::microseconds>(duration).count();
}

void print_path(const ResolvedPath& path, Duration took) {
  const auto& record = path.record;
  std::printf("path %s dgid %s dlid %u slid %u pkey 0x%04x sl %u mtu %u rate %u us %lld\n",
              std::string(wireup::acm::origin_name(path.origin)).c_str(),
              wireup::to_text(record.dgid).data(), unsigned{record.dlid.value()},
              unsigned{record.slid.value()}, unsigned{record.pkey.value()},
              unsigned{record.sl.value()}, unsigned{record.mtu}, unsigned{record.rate},
              microseconds(took));
}

std::optional<Gid> parse_gid(const std::string& text) {
  Gid::Bytes bytes{};
  if (inet_pton(AF_INET6, text.c_str(), bytes.data()) != 1) {
    return std::nullopt;
  }
  return Gid(bytes);
}

class Session {
 public:
  Session(NodeClient client, const wireup::verbs::PortInfo& port)
      : client_(std::move(client)), port_(port) {}

  /// False to end.
  bool handle(const std::string& line) {
    std::istringstream words(line);
    std::string command;
    std::string text;
    long limit_ms = 0;
    unsigned sl = 0;
    words >> command >> text >> limit_ms;
    const bool has_sl = static_cast<bool>(words >> sl);
    if (command == "quit") {
      return false;
    }
    if (command == "resolver") {
      std::puts(client_.is_resolver() ? "yes" : "no");
      return true;
    }
    if (command == "pid") {
      std::printf("%d\n", static_cast<int>(getpid()));
      return true;
    }
    if (command == "address") {
      ask_by_address(text, limit_ms);
      return true;
    }
    const auto gid = parse_gid(text);
    if (!gid.has_value()) {
      std::printf("bad command: %s\n", line.c_str());
      return true;
    }
    PathKey key = any_key();
    key.dgid = *gid;
    if (has_sl) {
      key.sl = wireup::Sl(static_cast<std::uint8_t>(sl));
    }
    const Instant now = wireup::monotonic_now();
    if (command == "lookup") {
      if (const auto path = client_.lookup(key)) {
        print_path(*path, wireup::monotonic_now() - now);
      } else {
        std::puts("miss");
      }
    } else if (command == "fail") {
      client_.path_failed(key);
      std::puts("ok");
    } else if (const auto asked = client_.request(key, now + std::chrono::milliseconds(limit_ms));
               asked) {
      started_[key] = now;
    } else {
      print_error(asked.error());
    }
    return true;
  }

  void progress() {
    client_.progress(wireup::monotonic_now());
    while (auto resolution = client_.poll_resolution()) {
      if (resolution->path) {
        print_path(*resolution->path, wireup::monotonic_now() - started_[resolution->key]);
      } else {
        print_error(resolution->path.error());
      }
    }
    std::fflush(stdout);
  }

  void run() {
    std::string buffer;
    while (true) {
      progress();
      std::array<pollfd, 2> fds{{{STDIN_FILENO, POLLIN, 0}, {client_.fd(), POLLIN, 0}}};
      int timeout = -1;
      if (const auto due = client_.poll_timeout()) {
        timeout = static_cast<int>(std::max<std::int64_t>(
            0,
            std::chrono::ceil<std::chrono::milliseconds>(*due - wireup::monotonic_now()).count()));
      }
      poll(fds.data(), fds.size(), timeout);
      if ((fds[0].revents & (POLLIN | POLLHUP)) == 0) {
        continue;
      }
      std::array<char, 4096> bytes{};
      const ssize_t size = read(STDIN_FILENO, bytes.data(), bytes.size());
      if (size <= 0) {
        return;
      }
      buffer.append(bytes.data(), static_cast<std::size_t>(size));
      for (auto end = buffer.find('\n'); end != std::string::npos; end = buffer.find('\n')) {
        const std::string line = buffer.substr(0, end);
        buffer.erase(0, end + 1);
        if (!handle(line)) {
          return;
        }
      }
    }
  }

 private:
  [[nodiscard]] PathKey any_key() const {
    PathKey key;
    key.sgid = port_.gid;
    key.pkey = wireup::PKey(0xFFFF);
    return key;
  }

  void ask_by_address(const std::string& text, long limit_ms) {
    const Instant now = wireup::monotonic_now();
    const auto ip = wireup::acm::parse_ipv4(text);
    const auto address =
        ip ? wireup::mad::AcmAddress::ipv4(*ip) : wireup::mad::AcmAddress::name(text);
    if (!address) {
      print_error(address.error());
    } else if (const auto asked =
                   client_.request(*address, any_key(), now + std::chrono::milliseconds(limit_ms));
               asked) {
      started_[any_key()] = now;
    } else {
      print_error(asked.error());
    }
  }

  static void print_error(const wireup::Error& error) {
    std::printf(
        "failed %s %s\n",
        std::string(wireup::error_name(static_cast<wireup::Errc>(error.code().value()))).c_str(),
        std::string(error.what()).c_str());
  }

  NodeClient client_;
  wireup::verbs::PortInfo port_;
  std::map<PathKey, Instant> started_;
};

}  // namespace

int main() {
  auto port = wireup::verbs::open_port({});
  if (!port) {
    std::fprintf(stderr, "acm_client: %s\n", std::string(port.error().what()).c_str());
    return 1;
  }
  const auto loaded = wireup::settings::load();
  for (const wireup::Error& problem : loaded.problems) {
    std::fprintf(stderr, "acm_client: %s\n", std::string(problem.what()).c_str());
  }
  wireup::acm::NodeClientOptions options;
  options.sources =
      wireup::acm::policy_of(loaded.settings.path_sources(), loaded.settings.sa_bulk());
  auto client = NodeClient::open(options, port->info);
  if (!client) {
    std::fprintf(stderr, "acm_client: %s\n", std::string(client.error().what()).c_str());
    return 1;
  }
  std::printf("open %s\n", wireup::to_text(port->info.gid).data());
  Session session(std::move(*client), port->info);
  session.run();
  return 0;
}
