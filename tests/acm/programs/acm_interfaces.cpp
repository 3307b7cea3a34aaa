// SPDX-License-Identifier: BSD-3-Clause
// The node's service with a kernel of its own that tells of an IPoIB interface, which no host has
// without an adapter. Serves the clients' socket given as its argument; reads commands, one a line:
//   link GID PKEY   the interface's link address is of this GID, its partition that of the P_Key
//   add IPV4        the interface gets an address
//   remove IPV4     and loses it
// and writes "ready" when the port is served, "done" after each command.
#include <arpa/inet.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
// Needs sa_family_t of the header above.
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <deque>
#include <sstream>
#include <string>
#include <vector>

#include "acm/server/node_service.hpp"
#include "base/clock.hpp"

namespace {

using wireup::Instant;
using namespace wireup::acm;
using Bytes = std::vector<std::uint8_t>;

constexpr int kIndex = 7;
std::deque<Bytes> from_kernel;
/// What a dump tells.
Bytes link_message;

void append(Bytes& bytes, const void* value, std::size_t size) {
  const auto* begin = static_cast<const std::uint8_t*>(value);
  bytes.insert(bytes.end(), begin, begin + size);
  bytes.resize((bytes.size() + 3) / 4 * 4);
}
void append_attribute(Bytes& bytes, std::uint16_t type, const Bytes& value) {
  const rtattr head{static_cast<std::uint16_t>(sizeof(rtattr) + value.size()), type};
  append(bytes, &head, sizeof(head));
  append(bytes, value.data(), value.size());
}
Bytes message(std::uint16_t type, std::uint32_t sequence, const Bytes& body) {
  nlmsghdr head{};
  head.nlmsg_len = static_cast<std::uint32_t>(sizeof(head) + body.size());
  head.nlmsg_type = type;
  head.nlmsg_seq = sequence;
  Bytes bytes;
  append(bytes, &head, sizeof(head));
  bytes.insert(bytes.end(), body.begin(), body.end());
  return bytes;
}

Bytes link_of(const Bytes& gid, std::uint16_t pkey) {
  ifinfomsg link{};
  link.ifi_type = ARPHRD_INFINIBAND;
  link.ifi_index = kIndex;
  link.ifi_flags = IFF_UP;
  Bytes address = {0x80, 0, 0, 0x48};
  address.insert(address.end(), gid.begin(), gid.end());
  Bytes broadcast = {0, 0xFF, 0xFF, 0xFF, 0xFF, 0x12, 0x40, 0x1B};
  broadcast.push_back(static_cast<std::uint8_t>(pkey >> 8U));
  broadcast.push_back(static_cast<std::uint8_t>(pkey & 0xFFU));
  broadcast.resize(20);
  Bytes body;
  append(body, &link, sizeof(link));
  append_attribute(body, IFLA_ADDRESS, address);
  append_attribute(body, IFLA_BROADCAST, broadcast);
  return message(RTM_NEWLINK, 0, body);
}
Bytes address_of(std::uint16_t type, const Bytes& ip) {
  ifaddrmsg head{};
  head.ifa_family = AF_INET;
  head.ifa_prefixlen = 24;
  head.ifa_index = kIndex;
  Bytes body;
  append(body, &head, sizeof(head));
  append_attribute(body, IFA_LOCAL, ip);
  return message(type, 0, body);
}

ssize_t receive(int, void* to, std::size_t size, std::uint32_t* sender) {
  if (from_kernel.empty()) {
    errno = EAGAIN;
    return -1;
  }
  const Bytes bytes = from_kernel.front();
  from_kernel.pop_front();
  std::memcpy(to, bytes.data(), std::min(size, bytes.size()));
  *sender = 0;
  return static_cast<ssize_t>(bytes.size());
}
ssize_t send(int, const void* bytes, std::size_t size, std::uint32_t) {
  nlmsghdr head{};
  std::memcpy(&head, bytes, std::min(size, sizeof(head)));
  if (head.nlmsg_type == RTM_GETLINK && !link_message.empty()) {
    from_kernel.push_back(link_message);
  }
  from_kernel.push_back(message(NLMSG_DONE, head.nlmsg_seq, Bytes(4)));
  return static_cast<ssize_t>(size);
}
constexpr NetlinkOps kKernel{receive, send};

bool obey(const std::string& line) {
  std::istringstream words(line);
  std::string command;
  std::string value;
  std::string pkey;
  words >> command >> value >> pkey;
  Bytes binary(command == "link" ? 16 : 4);
  if (inet_pton(command == "link" ? AF_INET6 : AF_INET, value.c_str(), binary.data()) != 1) {
    return false;
  }
  if (command == "link") {
    link_message = link_of(binary, static_cast<std::uint16_t>(std::stoul(pkey, nullptr, 16)));
    from_kernel.push_back(link_message);
  } else {
    from_kernel.push_back(address_of(command == "add" ? RTM_NEWADDR : RTM_DELADDR, binary));
  }
  return true;
}

int run(const char* path) {
  auto listener = listen_client_socket(path, kClientSocketMode, {});
  auto clients = listener ? ClientServer::open(std::move(*listener), {})
                          : wireup::Result<ClientServer>(wireup::fail(listener.error()));
  if (!clients) {
    std::fprintf(stderr, "acm_interfaces: %s\n", std::string(clients.error().what()).c_str());
    return 1;
  }
  NodeService service(std::move(*clients), std::nullopt);
  service.watch_interfaces(IpoibWatch(wireup::UniqueFd(eventfd(0, EFD_CLOEXEC)), kKernel));
  ServedPort::Options port;
  port.device = "softhca0";
  port.locals = {*wireup::mad::AcmAddress::name("with-interfaces")};
  port.engine.route_protocol = RouteProtocol::Sa;
  if (auto added = service.add_ports({port}); !added) {
    std::fprintf(stderr, "acm_interfaces: %s\n", std::string(added.error().what()).c_str());
    return 1;
  }
  std::string input;
  while (true) {
    const Instant now = wireup::monotonic_now();
    service.progress(now);
    while (const auto news = service.poll_news()) {
      std::puts(news->fault.has_value() ? std::string(news->fault->what()).c_str() : "ready");
      std::fflush(stdout);
    }
    service.wait(STDIN_FILENO, now + std::chrono::milliseconds(100), now);
    std::array<char, 256> bytes{};
    pollfd waiting{STDIN_FILENO, POLLIN, 0};
    if (poll(&waiting, 1, 0) <= 0) {
      continue;
    }
    const ssize_t size = read(STDIN_FILENO, bytes.data(), bytes.size());
    if (size <= 0) {
      return 0;
    }
    input.append(bytes.data(), static_cast<std::size_t>(size));
    for (auto end = input.find('\n'); end != std::string::npos; end = input.find('\n')) {
      const bool is_done = obey(input.substr(0, end));
      input.erase(0, end + 1);
      service.progress(wireup::monotonic_now());
      std::puts(is_done ? "done" : "what?");
      std::fflush(stdout);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  return argc == 2 ? run(argv[1]) : 2;
}
