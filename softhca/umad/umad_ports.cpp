// SPDX-License-Identifier: BSD-3-Clause
// The calls of libibumad that work on an opened port. The port id is the file descriptor, as in
// libibumad, and can be polled: the agent does what the kernel does behind it.
#include <fcntl.h>
#include <infiniband/umad.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <bitset>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "softhca/mad/mad.hpp"
#include "softhca/umad/agent_client.hpp"
#include "softhca/umad/export.hpp"
#include "softhca/umad/fabric_access.hpp"

namespace {

using softhca::AgentOp;
using softhca::AgentReply;
using softhca::AgentRequest;
using softhca::UmadHeader;

constexpr int kSendRoomMs = 2000;

struct OpenPort {
  ~OpenPort() { close(control); }
  int control = -1;
  std::mutex mutex;  // one request at a time on `control`; guards `agents`
  std::bitset<softhca::kMaxAgentsPerPort> agents;
};

class OpenPorts {
 public:
  static OpenPorts& instance() {
    static auto* ports = new OpenPorts();
    return *ports;
  }
  void add(int fd, std::shared_ptr<OpenPort> port) {
    const std::lock_guard<std::mutex> lock(mutex_);
    ports_[fd] = std::move(port);
  }
  std::shared_ptr<OpenPort> find(int fd) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto entry = ports_.find(fd);
    return entry == ports_.end() ? nullptr : entry->second;
  }
  bool remove(int fd) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return ports_.erase(fd) != 0;
  }

 private:
  std::mutex mutex_;
  std::map<int, std::shared_ptr<OpenPort>> ports_;
};

int fail(int error) {
  errno = error;
  return -error;
}

/// 0 or an errno value.
int do_register(int fd, const AgentRequest& request, std::uint32_t& agent_id) {
  const std::shared_ptr<OpenPort> port = OpenPorts::instance().find(fd);
  if (port == nullptr) {
    return EINVAL;
  }
  const std::lock_guard<std::mutex> lock(port->mutex);
  AgentReply reply;
  int error = softhca::call_agent(port->control, request, -1, &reply);
  if (error == 0 && reply.agent_id >= softhca::kMaxAgentsPerPort) {
    error = EIO;
  }
  if (error == 0) {
    port->agents.set(reply.agent_id);
    agent_id = reply.agent_id;
  } else {
    softhca::umad_complain("registering class 0x%x version %u: %s", request.mgmt_class,
                           request.class_version, std::strerror(error));
  }
  return error;
}

bool is_vendor2(int mgmt_class) {
  return mgmt_class >= softhca::kVendor2First && mgmt_class <= softhca::kVendor2Last;
}

int register_class(int fd, int mgmt_class, int version, std::uint8_t rmpp_version,
                   std::uint32_t oui, const long* method_mask) {
  if (mgmt_class < 0 || mgmt_class > 0xFF || version < 0 || version > 0xFF) {
    return fail(EINVAL);
  }
  AgentRequest request;
  request.op = static_cast<std::uint32_t>(AgentOp::Register);
  request.mgmt_class = static_cast<std::uint8_t>(mgmt_class);
  request.class_version = static_cast<std::uint8_t>(version);
  request.rmpp_version = rmpp_version;
  request.oui = oui;
  if (method_mask != nullptr) {
    std::memcpy(request.method_mask.data(), method_mask, sizeof request.method_mask);
  }
  std::uint32_t agent_id = 0;
  const int error = do_register(fd, request, agent_id);
  if (error != 0) {
    errno = error;
    return -EPERM;  // whatever the reason, as libibumad
  }
  return static_cast<int>(agent_id);
}

/// 0 when something can be read, else a negative errno value.
int wait_readable(int fd, int timeout_ms) {
  pollfd wait = {fd, POLLIN, 0};
  const int ready = poll(&wait, 1, timeout_ms);
  if (ready == 1) {
    return 0;
  }
  return ready == 0 ? -ETIMEDOUT : -EIO;
}

}  // namespace

SOFTHCA_EXPORT int umad_open_port(const char* ca_name, int portnum) {
  softhca::FabricAccess& fabric = softhca::FabricAccess::instance();
  const auto named = fabric.find(ca_name, portnum);
  if (!named) {
    softhca::umad_complain("no port %d on device \"%s\"", portnum,
                           ca_name == nullptr ? "" : ca_name);
    return fail(ENODEV);
  }
  auto port = std::make_shared<OpenPort>();
  port->control = softhca::connect_agent(fabric.dir());
  int pair[2] = {-1, -1};
  if (port->control < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
    softhca::umad_complain("no way to the agent: %s", std::strerror(errno));
    return fail(EIO);
  }
  AgentRequest request;
  request.op = static_cast<std::uint32_t>(AgentOp::Open);
  request.port_index = named->index;
  const int error = softhca::call_agent(port->control, request, pair[1], nullptr);
  close(pair[1]);
  if (error != 0) {
    softhca::umad_complain("the agent does not open the port: %s", std::strerror(error));
    close(pair[0]);
    return fail(EIO);
  }
  OpenPorts::instance().add(pair[0], std::move(port));
  return pair[0];
}

SOFTHCA_EXPORT int umad_close_port(int portid) {
  if (!OpenPorts::instance().remove(portid)) {
    return fail(EINVAL);
  }
  close(portid);
  return 0;
}

SOFTHCA_EXPORT int umad_get_fd(int portid) {
  return portid;
}

SOFTHCA_EXPORT int umad_register(int portid, int mgmt_class, int mgmt_version,
                                 std::uint8_t rmpp_version, long method_mask[16 / sizeof(long)]) {
  if (is_vendor2(mgmt_class)) {
    softhca::umad_complain("class 0x%x needs an OUI", static_cast<unsigned>(mgmt_class));
    return fail(EINVAL);
  }
  return register_class(portid, mgmt_class, mgmt_version, rmpp_version, 0, method_mask);
}

SOFTHCA_EXPORT int umad_register_oui(int portid, int mgmt_class, std::uint8_t rmpp_version,
                                     std::uint8_t oui[3], long method_mask[16 / sizeof(long)]) {
  if (!is_vendor2(mgmt_class) || oui == nullptr) {
    softhca::umad_complain("class 0x%x has no OUI", static_cast<unsigned>(mgmt_class));
    return fail(EINVAL);
  }
  const auto number = static_cast<std::uint32_t>(oui[0] << 16 | oui[1] << 8 | oui[2]);
  return register_class(portid, mgmt_class, 1, rmpp_version, number, method_mask);
}

SOFTHCA_EXPORT int umad_register2(int port_fd, struct umad_reg_attr* attr,
                                  std::uint32_t* agent_id) {
  if (attr == nullptr || agent_id == nullptr || (attr->flags & ~unsigned{UMAD_USER_RMPP}) != 0) {
    return EINVAL;
  }
  AgentRequest request;
  request.op = static_cast<std::uint32_t>(AgentOp::Register);
  request.mgmt_class = attr->mgmt_class;
  request.class_version = attr->mgmt_class_version;
  request.rmpp_version = attr->rmpp_version;
  request.oui = attr->oui;
  request.method_mask = {attr->method_mask[0], attr->method_mask[1]};
  return do_register(port_fd, request, *agent_id);
}

SOFTHCA_EXPORT int umad_unregister(int portid, int agentid) {
  const std::shared_ptr<OpenPort> port = OpenPorts::instance().find(portid);
  if (port == nullptr || agentid < 0) {
    return fail(EINVAL);
  }
  const std::lock_guard<std::mutex> lock(port->mutex);
  AgentRequest request;
  request.op = static_cast<std::uint32_t>(AgentOp::Unregister);
  request.agent_id = static_cast<std::uint32_t>(agentid);
  const int error = softhca::call_agent(port->control, request, -1, nullptr);
  if (error != 0) {
    return fail(error);
  }
  port->agents.reset(request.agent_id);
  return 0;
}

SOFTHCA_EXPORT int umad_send(int portid, int agentid, void* umad, int length, int timeout_ms,
                             int retries) {
  const std::shared_ptr<OpenPort> port = OpenPorts::instance().find(portid);
  if (port == nullptr) {
    return fail(EINVAL);
  }
  auto* header = static_cast<ib_user_mad*>(umad);
  header->agent_id = static_cast<std::uint32_t>(agentid);
  header->timeout_ms = static_cast<std::uint32_t>(timeout_ms);
  header->retries = static_cast<std::uint32_t>(retries);
  {
    const std::lock_guard<std::mutex> lock(port->mutex);
    const bool known = agentid >= 0 &&
                       static_cast<std::uint32_t>(agentid) < softhca::kMaxAgentsPerPort &&
                       port->agents.test(static_cast<std::size_t>(agentid));
    if (!known || length < static_cast<int>(softhca::kMadHeaderSize)) {
      errno = EINVAL;
      return -EIO;
    }
  }
  if (length > static_cast<int>(softhca::kMadSize)) {
    softhca::umad_complain("a MAD of %d bytes: one of up to %zu can be sent", length,
                           softhca::kMadSize);
    errno = EMSGSIZE;
    return -EIO;
  }
  const std::size_t size = sizeof(UmadHeader) + static_cast<std::size_t>(length);
  for (;;) {
    if (send(portid, umad, size, MSG_DONTWAIT | MSG_NOSIGNAL) == static_cast<ssize_t>(size)) {
      return 0;
    }
    if (errno == EINTR) {
      continue;
    }
    pollfd wait = {portid, POLLOUT, 0};
    if (errno != EAGAIN || poll(&wait, 1, kSendRoomMs) != 1) {
      softhca::umad_complain("sending: %s", std::strerror(errno));
      return -EIO;
    }
  }
}

SOFTHCA_EXPORT int umad_poll(int portid, int timeout_ms) {
  if (OpenPorts::instance().find(portid) == nullptr) {
    return fail(EINVAL);
  }
  return wait_readable(portid, timeout_ms);
}

SOFTHCA_EXPORT int umad_recv(int portid, void* umad, int* length, int timeout_ms) {
  if (OpenPorts::instance().find(portid) == nullptr || umad == nullptr || length == nullptr) {
    return fail(EINVAL);
  }
  errno = 0;
  if (timeout_ms != 0) {
    const int error = wait_readable(portid, timeout_ms);
    if (error < 0) {
      if (errno == 0) {
        errno = -error;
      }
      return error;
    }
  }
  const std::size_t room = *length < 0 ? 0 : static_cast<std::size_t>(*length);
  std::array<std::uint8_t, sizeof(UmadHeader) + softhca::kMadSize> message;
  // Look first: what does not fit stays there for a larger buffer.
  const ssize_t got = recv(portid, message.data(), message.size(), MSG_PEEK);
  if (got < 0) {
    return errno == EAGAIN ? -EWOULDBLOCK : fail(errno);
  }
  if (got < static_cast<ssize_t>(sizeof(UmadHeader))) {
    return fail(EIO);  // the agent has ended
  }
  const std::size_t data = static_cast<std::size_t>(got) - sizeof(UmadHeader);
  if (data > room) {
    std::memcpy(umad, message.data(), sizeof(UmadHeader));
    *length = static_cast<int>(data);
    return fail(EINVAL);
  }
  static_cast<void>(recv(portid, message.data(), message.size(), MSG_DONTWAIT));
  std::memcpy(umad, message.data(), static_cast<std::size_t>(got));
  *length = static_cast<int>(data);
  return static_cast<int>(static_cast<ib_user_mad*>(umad)->agent_id);
}
