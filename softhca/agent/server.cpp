// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/agent/server.hpp"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <sstream>
#include <vector>

#include "softhca/agent/fault_text.hpp"
#include "softhca/agent/log.hpp"
#include "softhca/umad/passed_descriptor.hpp"

namespace softhca {
namespace {

// MADs taken from one client before the others get their turn.
constexpr int kBurst = 64;

sockaddr* generic(sockaddr_un& address) {
  return static_cast<sockaddr*>(static_cast<void*>(&address));
}

/// Receives one request, the text behind it, and the file descriptor that came with it, if any. The
/// number of bytes of the request, 0 at the end, or -1.
ssize_t receive_request(int fd, AgentRequest& request, std::string& text, int& passed_fd) {
  std::array<char, kMaxCommandText> behind;
  std::array<iovec, 2> parts = {{{&request, sizeof request}, {behind.data(), behind.size()}}};
  DescriptorRoom room;
  msghdr message = {};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  message.msg_control = room.bytes.data();
  message.msg_controllen = room.bytes.size();
  const ssize_t got = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  passed_fd = -1;
  if (got < 0) {
    return got;
  }
  passed_fd = passed_descriptor(message);
  const auto whole = static_cast<ssize_t>(sizeof request);
  text.assign(behind.data(), static_cast<std::size_t>(std::max<ssize_t>(got - whole, 0)));
  return std::min(got, whole);
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

/// Whether some agent of the port wants requests of subnet management, as only a subnet manager
/// does.
bool has_subnet_manager(const Sessions& sessions, PortIndex port) {
  for (const auto& [id, session] : sessions) {
    for (const Registration& agent : session->agents()) {
      const bool smp = agent.mgmt_class == kClassSmLid || agent.mgmt_class == kClassSmDirect;
      if (session->port() == port && agent.used && smp &&
          (agent.method_mask[0] | agent.method_mask[1]) != 0) {
        return true;
      }
    }
  }
  return false;
}

bool is_seqpacket(int fd) {
  int type = 0;
  socklen_t length = sizeof type;
  return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) == 0 && type == SOCK_SEQPACKET;
}

}  // namespace

Server::Server(const ServerOptions& options, const FabricView& view,
               std::unique_ptr<Counters> counters, std::function<void()> kick)
    : options_(options),
      view_(view),
      counters_(std::move(counters)),
      kick_(std::move(kick)),
      pool_(options.ibsim_base, options.journal, options.slots),
      relay_(sessions_, view_, *counters_, pool_, options_.reregister),
      gsi_(sessions_, view_, *counters_, faults_, [this] { kick_(); }) {}

std::unique_ptr<Server> Server::create(const ServerOptions& options, const FabricView& view,
                                       std::function<void()> kick) {
  auto counters = Counters::attach(options.dir.c_str());
  if (counters == nullptr) {
    log_line("cannot map %s/%s: %s", options.dir.c_str(), kCountersFile, std::strerror(errno));
    return nullptr;
  }
  std::unique_ptr<Server> server(new Server(options, view, std::move(counters), std::move(kick)));
  return server->listen() ? std::move(server) : nullptr;
}

Server::~Server() {
  if (listener_ >= 0) {
    close(listener_);
  }
  if (epoll_ >= 0) {
    close(epoll_);
  }
}

bool Server::listen() {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const std::string path = options_.dir + "/" + kAgentSocket;
  if (path.size() >= sizeof address.sun_path) {
    log_line("the path %s is %zu bytes long and a socket's may have %zu: choose a shorter --dir",
             path.c_str(), path.size(), sizeof address.sun_path - 1);
    return false;
  }
  std::copy(path.begin(), path.end(), address.sun_path);
  unlink(path.c_str());
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  listener_ = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (epoll_ < 0 || listener_ < 0 || bind(listener_, generic(address), sizeof address) != 0 ||
      ::listen(listener_, SOMAXCONN) != 0) {
    log_line("cannot listen on %s: %s", path.c_str(), std::strerror(errno));
    return false;
  }
  if (geteuid() == 0) {
    static_cast<void>(chmod(path.c_str(), 0666));
  }
  watch(listener_, false);
  issm_ = IssmWatch::create(options_.dir);
  if (issm_ == nullptr) {
    log_line("cannot watch %s/%s: %s", options_.dir.c_str(), kIssmDir, std::strerror(errno));
    return false;
  }
  issm_->update();  // what was open before this agent came
  watch(issm_->fd(), false);
  return true;
}

void Server::watch(int fd, bool writable) {
  epoll_event event = {};
  event.events = EPOLLIN | (writable ? EPOLLOUT : 0U);
  event.data.fd = fd;
  if (epoll_ctl(epoll_, EPOLL_CTL_MOD, fd, &event) != 0) {
    epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event);
  }
}

void Server::run(int stop_fd) {
  watch(stop_fd, false);
  std::array<epoll_event, 64> events{};
  for (;;) {
    int timeout = -1;
    if (const auto next = deadline()) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*next - Clock::now());
      timeout = static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60000));
    }
    const int count = epoll_wait(epoll_, events.data(), events.size(), timeout);
    if (count < 0 && errno != EINTR) {
      log_line("epoll_wait: %s", std::strerror(errno));
      return;
    }
    const auto now = Clock::now();
    for (int i = 0; i < count; ++i) {
      const int fd = events[static_cast<std::size_t>(i)].data.fd;
      if (fd == stop_fd) {
        return;
      }
      if (fd == listener_) {
        accept_clients();
        continue;
      }
      if (fd == issm_->fd()) {
        for (const PortIndex port : issm_->update()) {
          pool_.set_is_sm(view_, port, issm_->is_open(port));
        }
        continue;
      }
      const auto owner = session_of_fd_.find(fd);
      if (owner == session_of_fd_.end()) {
        continue;  // a slot: all of them are looked at below
      }
      Session& session = *sessions_.at(owner->second);
      if (fd == session.control()) {
        serve_control(session);
      } else {
        serve_data(session, now);
      }
    }
    relay_.handle_slots(now);
    relay_.handle_time(Clock::now());
    gsi_.handle_time(Clock::now());
    watch_slots();
    watch_congestion();
  }
}

void Server::accept_clients() {
  for (;;) {
    const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
      if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
        log_limited("cannot accept a client: %s", std::strerror(errno));
      }
      return;
    }
    const std::uint64_t id = next_session_++;
    sessions_.emplace(id, std::make_unique<Session>(id, fd));
    session_of_fd_[fd] = id;
    watch(fd, false);
  }
}

void Server::serve_control(Session& session) {
  AgentRequest request;
  std::string text;
  int passed_fd = -1;
  const ssize_t got = receive_request(session.control(), request, text, passed_fd);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
    return;
  }
  if (got != static_cast<ssize_t>(sizeof request) || request.magic != kAgentMagic) {
    if (passed_fd >= 0) {
      close(passed_fd);
    }
    if (got > 0) {
      log_limited("a client sent %zd bytes that are no request of ours; it is dropped", got);
    }
    end_session(session.id());
    return;
  }
  AgentReply reply;
  CommandResult result;
  if (request.op == static_cast<std::uint32_t>(AgentOp::Command)) {
    result = handle_command(words_of(text));
    result.text.resize(std::min(result.text.size(), kMaxReplyText));
    reply.error = result.error;
    if (passed_fd >= 0) {
      close(passed_fd);
    }
  } else {
    reply = handle_request(session, request, passed_fd);
  }
  std::array<iovec, 2> parts = {{{&reply, sizeof reply}, {result.text.data(), result.text.size()}}};
  msghdr message = {};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  if (sendmsg(session.control(), &message, MSG_DONTWAIT | MSG_NOSIGNAL) !=
      static_cast<ssize_t>(sizeof reply + result.text.size())) {
    end_session(session.id());
  }
}

AgentReply Server::handle_request(Session& session, const AgentRequest& request, int passed_fd) {
  AgentReply reply;
  const auto op = static_cast<AgentOp>(request.op);
  if (op == AgentOp::Open) {
    if (session.data() >= 0 || passed_fd < 0 || !is_seqpacket(passed_fd)) {
      reply.error = EINVAL;
    } else if (!view_.brief(request.port_index).present) {
      reply.error = ENODEV;
    } else if (!may_open(session)) {
      reply.error = EACCES;
    } else {
      session.open(request.port_index, passed_fd);
      session_of_fd_[passed_fd] = session.id();
      watch(passed_fd, false);
      return reply;
    }
    if (passed_fd >= 0) {
      close(passed_fd);
    }
    return reply;
  }
  if (passed_fd >= 0) {
    close(passed_fd);
  }
  switch (op) {
    case AgentOp::Register:
      reply.error =
          session.data() < 0 ? EINVAL : register_agent(sessions_, session, request, reply.agent_id);
      watch_subnet_manager(session.port());
      break;
    case AgentOp::Unregister:
      if (request.agent_id < kMaxAgentsPerPort && session.agents()[request.agent_id].used) {
        session.agents()[request.agent_id] = Registration{};
        watch_subnet_manager(session.port());
      } else {
        reply.error = EINVAL;
      }
      break;
    case AgentOp::Kick:
      kick_();
      break;
    default:
      reply.error = EINVAL;
  }
  return reply;
}

bool Server::may_open(const Session& session) const {
  if (!umads_restricted_) {
    return true;
  }
  // The user who connected; who gives up privileges later keeps what is open, as on a host.
  ucred peer = {};
  socklen_t length = sizeof peer;
  return getsockopt(session.control(), SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
         (peer.uid == 0 || peer.uid == geteuid());
}

void Server::serve_data(Session& session, Clock::time_point now) {
  const std::uint64_t id = session.id();
  session.flush();
  for (int i = 0; i < kBurst; ++i) {
    UmadArrival arrival;
    switch (read_umad(session.data(), arrival)) {
      case UmadRead::Nothing:
        return;
      case UmadRead::End:  // every holder of the other end has closed it
        end_session(id);
        return;
      case UmadRead::Malformed:
        continue;
      case UmadRead::Message:
        break;
    }
    if (arrival.data.size() < kMadHeaderSize) {
      continue;
    }
    if (goes_through_ibsim(arrival.data[1])) {
      relay_.handle_send(session, arrival.header, arrival.data, now);
    } else {
      gsi_.handle_send(session, arrival.header, std::move(arrival.data), now);
    }
  }
}

void Server::watch_subnet_manager(PortIndex port) {
  if (!has_subnet_manager(sessions_, port)) {
    pool_.release_slot(port);
  } else if (pool_.keep_slot(view_, port, Clock::now())) {
    pool_.set_is_sm(view_, port, issm_->is_open(port));
  }
}

CommandResult Server::handle_command(std::span<const std::string> words) {
  const std::string_view group = words.empty() ? std::string_view() : words.front();
  if (group == "umad") {
    const std::string_view mode = words.size() == 2 ? std::string_view(words[1]) : "";
    if (mode != "restricted" && mode != "open") {
      return {EINVAL, "umad: wants restricted or open\n"};
    }
    umads_restricted_ = mode == "restricted";
    return {0, "umad " + std::string(mode) + "\n"};
  }
  if (group != "gsi" && group != "sa") {
    return options_.order(words);
  }
  words = words.subspan(1);
  const std::string_view what = words.empty() ? std::string_view() : words.front();
  if (what == "clear" && words.size() == 1) {
    faults_.clear();
  } else if (what != "list" || words.size() != 1) {
    const auto rule = group == "gsi" ? parse_gsi_rule(words, view_) : parse_sa_rule(words, view_);
    if (const auto* mistake = std::get_if<FaultMistake>(&rule)) {
      return {EINVAL, mistake->text + "\n"};
    }
    faults_.add(std::get<GsiRule>(rule));
  }
  return {0, list_rules(faults_)};
}

void Server::end_session(std::uint64_t id) {
  const auto entry = sessions_.find(id);
  if (entry == sessions_.end()) {
    return;
  }
  relay_.forget_session(id);
  gsi_.forget_session(id);
  const PortIndex port = entry->second->port();
  session_of_fd_.erase(entry->second->control());
  if (entry->second->data() >= 0) {
    session_of_fd_.erase(entry->second->data());
  }
  sessions_.erase(entry);
  if (port != kNoPort) {
    watch_subnet_manager(port);
  }
}

std::optional<Clock::time_point> Server::deadline() const {
  const auto one = relay_.deadline();
  const auto two = gsi_.deadline();
  return one && two ? std::min(*one, *two) : one ? one : two;
}

void Server::watch_slots() {
  for (const SlotPool::Slot& slot : pool_.slots()) {
    if (slot.link != nullptr) {
      epoll_event event = {};
      event.events = EPOLLIN;
      event.data.fd = slot.link->fd();
      // A slot's socket lives as long as the slot; adding it twice changes nothing.
      epoll_ctl(epoll_, EPOLL_CTL_ADD, slot.link->fd(), &event);
    }
  }
}

void Server::watch_congestion() {
  for (const auto& [id, session] : sessions_) {
    if (session->data() >= 0 && session->congested() != session->watched_for_room()) {
      session->set_watched_for_room(session->congested());
      watch(session->data(), session->congested());
    }
  }
}

}  // namespace softhca
