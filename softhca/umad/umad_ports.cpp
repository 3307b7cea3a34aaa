// SPDX-License-Identifier: BSD-3-Clause
// The calls of libibumad that work on an opened port. The port id is the file descriptor, as in
// libibumad, and can be polled: the agent does what the kernel does behind it.
#include <fcntl.h>
#include <infiniband/umad.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <bitset>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <span>

#include "softhca/mad/mad.hpp"
#include "softhca/mad/rmpp.hpp"
#include "softhca/umad/agent_client.hpp"
#include "softhca/umad/export.hpp"
#include "softhca/umad/fabric_access.hpp"
#include "softhca/umad/umad_socket.hpp"

namespace {

using softhca::AgentOp;
using softhca::AgentReply;
using softhca::AgentRequest;
using softhca::UmadHeader;

constexpr int kSendRoomMs = 2000;
constexpr int kGoneMs = 100;
constexpr std::uint32_t kOpenIbOui = 0x001405;
constexpr std::size_t kRmppHeaderEnd = 36;

struct OpenPort {
  ~OpenPort() { close(control); }
  int control = -1;
  std::mutex mutex;  // one request at a time on `control`; guards what follows
  std::bitset<softhca::kMaxAgentsPerPort> agents;
  std::bitset<softhca::kMaxAgentsPerPort> rmpp;  // of these the agent cuts long messages
  std::mutex receiving;                          // from looking at a message to taking it
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
    port->rmpp.set(reply.agent_id, request.rmpp_version != 0 && request.user_rmpp == 0);
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

/// Threads that wait here may be cancelled, as in read() of the kernel's device: OpenSM ends so.
/// Only the waiting itself may be, in frames without destructors: programs' threads are unwound by
/// another copy of the runtime library than the one in here.
class NoCancel {
 public:
  NoCancel() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  NoCancel(const NoCancel&) = delete;
  NoCancel& operator=(const NoCancel&) = delete;
  ~NoCancel() { pthread_setcancelstate(before_, nullptr); }

 private:
  int before_ = 0;
};

/// 0 when something can be read, else a negative errno value.
int wait_readable(int fd, int timeout_ms) {
  pollfd wait = {fd, POLLIN, 0};
  const int ready = poll(&wait, 1, timeout_ms);
  if (ready == 1) {
    return 0;
  }
  return ready == 0 ? -ETIMEDOUT : -EIO;
}

[[gnu::noinline]] bool is_open_port(int fd) {
  const NoCancel uncancelled;
  return OpenPorts::instance().find(fd) != nullptr;
}

/// Takes a message that is there. Its agent, or a negative errno value, also in errno.
[[gnu::noinline]] int take_message(int fd, void* umad, int& length) {
  const NoCancel uncancelled;
  const std::shared_ptr<OpenPort> port = OpenPorts::instance().find(fd);
  if (port == nullptr) {
    return fail(EINVAL);
  }
  const std::lock_guard<std::mutex> lock(port->receiving);
  UmadHeader header;
  const softhca::UmadRead next = softhca::peek_umad(fd, header);
  if (next == softhca::UmadRead::Nothing) {
    return fail(EWOULDBLOCK);
  }
  if (next == softhca::UmadRead::End) {
    // The agent has ended. Programs that just try again, as OpenSM does, shall not do only that.
    static_cast<void>(poll(nullptr, 0, kGoneMs));
    return fail(EIO);
  }
  const std::size_t data = header.length - sizeof header;
  const std::size_t room = length < 0 ? 0 : static_cast<std::size_t>(length);
  if (data > room) {
    // It stays there for a larger buffer; the kernel tells the two cases apart.
    std::memcpy(umad, &header, sizeof header);
    length = static_cast<int>(data);
    return fail(room < softhca::kMadSize ? EINVAL : ENOSPC);
  }
  softhca::UmadArrival arrival;
  if (softhca::read_umad(fd, arrival) != softhca::UmadRead::Message) {
    return fail(EIO);
  }
  std::memcpy(umad, &arrival.header, sizeof arrival.header);
  std::copy(arrival.data.begin(), arrival.data.end(),
            static_cast<std::uint8_t*>(umad_get_mad(umad)));
  length = static_cast<int>(arrival.data.size());
  return static_cast<int>(arrival.header.agent_id);
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
    errno = error;  // EACCES for who may not; libibumad returns -EIO whatever open() says
    return -EIO;
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
  // As libibumad: a vendor class without an OUI is OpenIB's.
  const std::uint32_t oui = is_vendor2(mgmt_class) ? kOpenIbOui : 0;
  return register_class(portid, mgmt_class, mgmt_version, rmpp_version, oui, method_mask);
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
  request.user_rmpp = (attr->flags & UMAD_USER_RMPP) != 0 ? 1 : 0;
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
  const NoCancel uncancelled;
  const std::shared_ptr<OpenPort> port = OpenPorts::instance().find(portid);
  if (port == nullptr) {
    return fail(EINVAL);
  }
  auto* header = static_cast<ib_user_mad*>(umad);
  header->agent_id = static_cast<std::uint32_t>(agentid);
  header->timeout_ms = static_cast<std::uint32_t>(timeout_ms);
  header->retries = static_cast<std::uint32_t>(retries);
  const std::span<const std::uint8_t> data(static_cast<const std::uint8_t*>(umad_get_mad(umad)),
                                           static_cast<std::size_t>(std::max(length, 0)));
  bool rmpp = false;
  {
    const std::lock_guard<std::mutex> lock(port->mutex);
    const bool known = agentid >= 0 &&
                       static_cast<std::uint32_t>(agentid) < softhca::kMaxAgentsPerPort &&
                       port->agents.test(static_cast<std::size_t>(agentid));
    if (!known || data.size() < softhca::kMadHeaderSize) {
      errno = EINVAL;
      return -EIO;
    }
    rmpp = port->rmpp.test(static_cast<std::size_t>(agentid));
  }
  // As the kernel: long messages are for agents with RMPP, and only if the message says so.
  const bool may_be_long = rmpp && data.size() >= kRmppHeaderEnd && softhca::rmpp_active(data);
  if (data.size() > (may_be_long ? softhca::kMaxUmadData : softhca::kMadSize)) {
    softhca::umad_complain("a MAD of %d bytes: more than %zu need an agent with RMPP", length,
                           softhca::kMadSize);
    errno = EINVAL;
    return -EIO;
  }
  UmadHeader sent;
  std::memcpy(&sent, umad, sizeof sent);
  const softhca::UmadMessage message(sent, data);
  while (message.ok()) {
    if (message.send(portid)) {
      return 0;
    }
    if (errno == EINTR) {
      continue;
    }
    pollfd wait = {portid, POLLOUT, 0};
    if (errno != EAGAIN || poll(&wait, 1, kSendRoomMs) != 1) {
      break;
    }
  }
  softhca::umad_complain("sending: %s", std::strerror(errno));
  return -EIO;
}

SOFTHCA_EXPORT int umad_poll(int portid, int timeout_ms) {
  if (!is_open_port(portid)) {
    return fail(EINVAL);
  }
  return wait_readable(portid, timeout_ms);
}

SOFTHCA_EXPORT int umad_recv(int portid, void* umad, int* length, int timeout_ms) {
  if (umad == nullptr || length == nullptr || !is_open_port(portid)) {
    return fail(EINVAL);
  }
  errno = 0;
  const bool may_block = timeout_ms != 0 || (fcntl(portid, F_GETFL) & O_NONBLOCK) == 0;
  for (;;) {
    if (may_block) {
      const int error = wait_readable(portid, timeout_ms != 0 ? timeout_ms : -1);
      if (error < 0) {
        if (errno == 0) {
          errno = -error;
        }
        return error;
      }
    }
    const int result = take_message(portid, umad, *length);
    if (result != -EWOULDBLOCK || !may_block) {
      return result;
    }
    // Another thread was faster.
  }
}
