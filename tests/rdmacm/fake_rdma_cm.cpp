// SPDX-License-Identifier: BSD-3-Clause
#include "rdmacm/fake_rdma_cm.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <infiniband/ib.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace wireup::test {
namespace {

FakeRdmaCm* current = nullptr;

using State = FakeRdmaCm::State;

constexpr int kStale = 10;
constexpr int kNoService = 8;
constexpr int kTimeout = 4;
constexpr int kConsumer = 28;
constexpr int kEce = 35;

std::size_t size_of(const sockaddr* address) {
  return address->sa_family == AF_INET    ? sizeof(sockaddr_in)
         : address->sa_family == AF_INET6 ? sizeof(sockaddr_in6)
                                          : sizeof(sockaddr_ib);
}

std::vector<std::uint8_t> bytes_of(const sockaddr* address) {
  if (address == nullptr) {
    return {};
  }
  std::vector<std::uint8_t> bytes(size_of(address));
  std::memcpy(bytes.data(), address, bytes.size());
  return bytes;
}

std::vector<std::uint8_t> data_of(const void* data, std::size_t size) {
  const auto* bytes = static_cast<const std::uint8_t*>(data);
  return size == 0 ? std::vector<std::uint8_t>() : std::vector<std::uint8_t>(bytes, bytes + size);
}

std::vector<std::uint8_t> padded(std::vector<std::uint8_t> data, std::size_t size) {
  EXPECT_LE(data.size(), size);
  data.resize(size);
  return data;
}

Gid gid_of(const sockaddr* address) {
  Gid::Bytes bytes{};
  if (address->sa_family == AF_IB) {
    sockaddr_ib ib{};
    std::memcpy(&ib, address, sizeof(ib));
    std::copy_n(ib.sib_addr.sib_raw, 16, bytes.begin());
  } else if (address->sa_family == AF_INET) {
    sockaddr_in ip{};
    std::memcpy(&ip, address, sizeof(ip));
    bytes[10] = bytes[11] = 0xFF;
    std::memcpy(bytes.data() + 12, &ip.sin_addr, 4);
  } else {
    sockaddr_in6 ip{};
    std::memcpy(&ip, address, sizeof(ip));
    std::memcpy(bytes.data(), &ip.sin6_addr, 16);
  }
  return Gid(bytes);
}

/// The service that an address names: a port, or the whole service id.
std::uint64_t service_of(const sockaddr* address) {
  if (address->sa_family == AF_IB) {
    sockaddr_ib ib{};
    std::memcpy(&ib, address, sizeof(ib));
    return be64toh(ib.sib_sid);
  }
  sockaddr_in ip{};
  std::memcpy(&ip, address, sizeof(ip));
  return ntohs(ip.sin_port);
}

void set_gid(ibv_gid& to, const Gid& gid) {
  std::copy(gid.bytes().begin(), gid.bytes().end(), to.raw);
}

Gid to_gid(const ibv_gid& gid) {
  Gid::Bytes bytes{};
  std::copy_n(gid.raw, 16, bytes.begin());
  return Gid(bytes);
}

ibv_sa_path_rec unpack(const ibv_path_record& from) {
  ibv_sa_path_rec to{};
  to.dgid = from.dgid;
  to.sgid = from.sgid;
  to.dlid = from.dlid;
  to.slid = from.slid;
  const std::uint32_t word = ntohl(from.flowlabel_hoplimit);
  to.flow_label = htonl(word >> 8U & 0xFFFFFU);
  to.hop_limit = static_cast<std::uint8_t>(word);
  to.traffic_class = from.tclass;
  to.reversible = from.reversible_numpath >> 7U;
  to.numb_path = from.reversible_numpath & 0x7FU;
  to.pkey = from.pkey;
  to.sl = static_cast<std::uint8_t>(ntohs(from.qosclass_sl) & 0xFU);
  to.mtu_selector = from.mtu >> 6U;
  to.mtu = from.mtu & 0x3FU;
  to.rate_selector = from.rate >> 6U;
  to.rate = from.rate & 0x3FU;
  to.packet_life_time_selector = from.packetlifetime >> 6U;
  to.packet_life_time = from.packetlifetime & 0x3FU;
  return to;
}

rdma_conn_param crossed(rdma_conn_param values) {
  std::swap(values.responder_resources, values.initiator_depth);
  return values;
}

int answer(bool failed) {
  if (!failed) {
    return 0;
  }
  errno = current->error;
  return -1;
}

}  // namespace

/// The table's functions.
struct FakeCalls {
  static FakeRdmaCm::Id* of(rdma_cm_id* id) {
    EXPECT_TRUE(current->ids_.contains(id)) << "a call with an id that is gone";
    return static_cast<FakeRdmaCm::Id*>(id);
  }
  static bool fails(const char* name, rdma_cm_id* id) {
    KernelCall call;
    call.name = name;
    call.id = id;
    return current->fails(std::move(call));
  }

  static rdma_event_channel* create_event_channel() {
    if (fails("create_event_channel", nullptr)) {
      errno = current->error;
      return nullptr;
    }
    auto made = std::make_unique<FakeRdmaCm::Channel>();
    made->channel.fd = eventfd(0, EFD_SEMAPHORE);
    rdma_event_channel* const channel = &made->channel;
    current->channels_.emplace(channel, std::move(made));
    return channel;
  }
  static void destroy_event_channel(rdma_event_channel* channel) {
    fails("destroy_event_channel", nullptr);
    for (const auto& [id, owned] : current->ids_) {
      EXPECT_NE(id->channel, channel) << "ids go before their channel";
    }
    close(channel->fd);
    current->channels_.erase(channel);
  }
  static int create_id(rdma_event_channel* channel, rdma_cm_id** id, void* /*context*/,
                       rdma_port_space space) {
    KernelCall call;
    call.name = "create_id";
    call.space = space;
    if (current->fails(std::move(call))) {
      return answer(true);
    }
    *id = current->make_id(channel);
    (*id)->ps = space;
    return 0;
  }
  static int destroy_id(rdma_cm_id* id) {
    fails("destroy_id", id);
    EXPECT_EQ(current->unacknowledged(), 0U) << "the library would wait for the event for ever";
    current->leave(of(id));
    auto& events = current->channels_.at(id->channel)->events;
    for (auto at = events.begin(); at != events.end();) {
      const bool is_request = (*at)->listen_id == id;
      if ((*at)->id != id && !is_request) {
        ++at;
        continue;
      }
      if (is_request) {
        // The kernel drops requests that its listener has not taken.
        current->leave(static_cast<FakeRdmaCm::Id*>((*at)->id));
        current->bury((*at)->id);
      }
      at = events.erase(at);
    }
    current->bury(id);
    return 0;
  }
  static int resolve_addr(rdma_cm_id* id, sockaddr* source, sockaddr* destination, int ms) {
    KernelCall call;
    call.name = "resolve_addr";
    call.id = id;
    call.source = bytes_of(source);
    call.destination = bytes_of(destination);
    call.number = ms;
    if (current->fails(std::move(call))) {
      return answer(true);
    }
    FakeRdmaCm::Id* const at = of(id);
    std::memcpy(&at->route.addr.src_storage, source, size_of(source));
    std::memcpy(&at->route.addr.dst_storage, destination, size_of(destination));
    set_gid(at->route.addr.addr.ibaddr.sgid, gid_of(source));
    set_gid(at->route.addr.addr.ibaddr.dgid, gid_of(destination));
    at->state = State::AddressResolved;
    if (current->is_simulated) {
      current->push(RDMA_CM_EVENT_ADDR_RESOLVED, id);
    }
    return 0;
  }
  static int resolve_route(rdma_cm_id* id, int /*ms*/) {
    return answer(fails("resolve_route", id));
  }
  static int get_cm_event(rdma_event_channel* channel, rdma_cm_event** event) {
    if (fails("get_cm_event", nullptr)) {
      return answer(true);
    }
    auto& events = current->channels_.at(channel)->events;
    if (events.empty()) {
      errno = EAGAIN;
      return -1;
    }
    std::uint64_t one = 0;
    EXPECT_EQ(read(channel->fd, &one, sizeof(one)), static_cast<ssize_t>(sizeof(one)));
    auto next = std::move(events.front());
    events.pop_front();
    *event = next.get();
    current->out_.emplace(next.get(), std::move(next));
    return 0;
  }
  static int ack_cm_event(rdma_cm_event* event) {
    fails("ack_cm_event", nullptr);
    EXPECT_EQ(current->out_.erase(event), 1U);
    return 0;
  }
  static int bind_addr(rdma_cm_id* id, sockaddr* address) {
    KernelCall call;
    call.name = "bind_addr";
    call.id = id;
    call.source = bytes_of(address);
    if (current->fails(std::move(call))) {
      return answer(true);
    }
    auto port = static_cast<std::uint16_t>(service_of(address));
    if (current->taken_ports.contains(port)) {
      errno = EADDRINUSE;
      return -1;
    }
    if (port == 0) {
      port = current->next_port_++;
    }
    rdma_addr& to = of(id)->route.addr;
    std::memcpy(&to.src_storage, address, size_of(address));
    if (address->sa_family == AF_IB) {
      sockaddr_ib ib{};
      std::memcpy(&ib, address, sizeof(ib));
      EXPECT_EQ(be64toh(ib.sib_sid) & RDMA_IB_IP_PS_MASK, RDMA_IB_PS_IB) << "EPROTONOSUPPORT";
      ib.sib_sid = htobe64((be64toh(ib.sib_sid) & RDMA_IB_IP_PS_MASK) | port);
      ib.sib_sid_mask = ~__be64{0};
      std::memcpy(&to.src_storage, &ib, sizeof(ib));
    } else {
      to.src_sin.sin_port = htons(port);
    }
    return 0;
  }
  static int listen(rdma_cm_id* id, int backlog) {
    KernelCall call;
    call.name = "listen";
    call.id = id;
    call.number = backlog;
    if (current->fails(std::move(call))) {
      return answer(true);
    }
    of(id)->state = State::Listening;
    return 0;
  }
  static int set_option(rdma_cm_id* id, int level, int name, void* value, std::size_t size) {
    KernelCall call;
    call.name = "set_option";
    call.id = id;
    call.level = level;
    call.option_name = name;
    call.option = data_of(value, size);
    if (current->fails(std::move(call))) {
      return answer(true);
    }
    FakeRdmaCm::Id* const at = of(id);
    ibv_path_data data{};
    const bool fits = size == sizeof(data) && at->state == State::AddressResolved;
    if (fits) {
      std::memcpy(&data, value, sizeof(data));
    }
    if (data.flags != (IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY | IBV_PATH_FLAG_BIDIRECTIONAL)) {
      errno = EINVAL;
      return -1;
    }
    at->path = unpack(data.path);
    at->route.path_rec = &at->path;
    at->route.num_paths = 1;
    at->state = State::RouteResolved;
    if (current->is_simulated) {
      current->push(RDMA_CM_EVENT_ROUTE_RESOLVED, id);
    }
    return 0;
  }
  static bool fails_with_values(const char* name, rdma_cm_id* id, const rdma_conn_param* values) {
    KernelCall call;
    call.name = name;
    call.id = id;
    call.values = *values;
    call.private_data = data_of(values->private_data, values->private_data_len);
    return current->fails(std::move(call));
  }
  static int connect(rdma_cm_id* id, rdma_conn_param* values) {
    if (fails_with_values("connect", id, values)) {
      return answer(true);
    }
    const auto data = data_of(values->private_data, values->private_data_len);
    const std::size_t limit = id->ps == RDMA_PS_IB ? 92 : 56;
    if (current->is_simulated && (of(id)->state != State::RouteResolved || data.size() > limit)) {
      errno = EINVAL;
      return -1;
    }
    of(id)->state = State::ReqSent;
    of(id)->qpn = values->qp_num;
    if (current->is_simulated) {
      current->connect(of(id), *values, data);
    }
    return 0;
  }
  static int accept(rdma_cm_id* id, rdma_conn_param* values) {
    if (fails_with_values("accept", id, values)) {
      return answer(true);
    }
    const auto data = data_of(values->private_data, values->private_data_len);
    if (current->is_simulated && of(id)->state != State::ReqReceived) {
      errno = EINVAL;
      return -1;
    }
    of(id)->state = State::RepSent;
    of(id)->qpn = values->qp_num;
    if (current->is_simulated) {
      current->accept(of(id), *values, data);
    }
    return 0;
  }
  static int establish(rdma_cm_id* id) {
    if (fails("establish", id)) {
      return answer(true);
    }
    FakeRdmaCm::Id* const at = of(id);
    if (current->is_simulated) {
      if (at->state != State::RepReceived) {
        errno = EINVAL;
        return -1;
      }
      at->state = State::Connected;
      current->post([at, peer = at->peer] {
        if (current->alive(at) != nullptr && current->alive(peer) != nullptr &&
            peer->state == State::RepSent) {
          peer->state = State::Connected;
          current->push(RDMA_CM_EVENT_ESTABLISHED, peer);
        }
      });
    }
    return 0;
  }
  static int refuse(const char* name, int reason, rdma_cm_id* id, const void* data,
                    std::uint8_t size) {
    KernelCall call;
    call.name = name;
    call.id = id;
    call.private_data = data_of(data, size);
    if (current->fails(std::move(call))) {
      return answer(true);
    }
    if (current->is_simulated && !current->refuse(of(id), reason, data_of(data, size))) {
      errno = EINVAL;
      return -1;
    }
    return 0;
  }
  static int reject(rdma_cm_id* id, const void* data, std::uint8_t size) {
    return refuse("reject", kConsumer, id, data, size);
  }
  static int reject_ece(rdma_cm_id* id, const void* data, std::uint8_t size) {
    return refuse("reject_ece", kEce, id, data, size);
  }
  static int notify(rdma_cm_id* id, ibv_event_type event) {
    KernelCall call;
    call.name = "notify";
    call.id = id;
    call.number = event;
    return answer(current->fails(std::move(call)));
  }
  static int disconnect(rdma_cm_id* id) {
    if (fails("disconnect", id)) {
      return answer(true);
    }
    return current->is_simulated ? current->disconnect(of(id)) : 0;
  }
};

FakeRdmaCm::FakeRdmaCm() {
  current = this;
}
FakeRdmaCm::~FakeRdmaCm() {
  current = nullptr;
}

const rdmacm::Ops& FakeRdmaCm::ops() {
  static const rdmacm::Ops table{
      FakeCalls::create_event_channel,
      FakeCalls::destroy_event_channel,
      FakeCalls::create_id,
      FakeCalls::destroy_id,
      FakeCalls::resolve_addr,
      FakeCalls::resolve_route,
      FakeCalls::get_cm_event,
      FakeCalls::ack_cm_event,
      FakeCalls::bind_addr,
      FakeCalls::listen,
      FakeCalls::set_option,
      FakeCalls::connect,
      FakeCalls::accept,
      FakeCalls::establish,
      FakeCalls::reject,
      FakeCalls::reject_ece,
      FakeCalls::notify,
      FakeCalls::disconnect,
  };
  return table;
}

std::vector<std::string> FakeRdmaCm::names() const {
  std::vector<std::string> found;
  for (const KernelCall& call : calls) {
    if (call.name != "get_cm_event" && call.name != "ack_cm_event") {
      found.push_back(call.name);
    }
  }
  return found;
}

const KernelCall& FakeRdmaCm::last(const std::string& name) const {
  static const KernelCall none;
  const auto at = std::find_if(calls.rbegin(), calls.rend(),
                               [&](const KernelCall& call) { return call.name == name; });
  EXPECT_NE(at, calls.rend()) << name << " was not called";
  return at == calls.rend() ? none : *at;
}

bool FakeRdmaCm::fails(KernelCall call) {
  const bool hit = call.name == failing;
  calls.push_back(std::move(call));
  if (hit) {
    failing.clear();
  }
  return hit;
}

void FakeRdmaCm::post(std::function<void()> action) {
  wire_.push_back(std::move(action));
  if (!is_held) {
    deliver();
  }
}

void FakeRdmaCm::deliver() {
  while (!wire_.empty()) {
    const auto action = std::move(wire_.front());
    wire_.pop_front();
    action();
  }
}

void FakeRdmaCm::push(rdma_cm_event_type type, rdma_cm_id* id, int status,
                      const rdma_conn_param& values, const std::vector<std::uint8_t>& data,
                      rdma_cm_id* listener) {
  auto event = std::make_unique<Event>();
  event->event = type;
  event->id = id;
  event->listen_id = listener;
  event->status = status;
  event->data = data;
  event->param.conn = values;
  event->param.conn.private_data = event->data.empty() ? nullptr : event->data.data();
  event->param.conn.private_data_len = static_cast<std::uint8_t>(event->data.size());
  Channel& channel = *channels_.at(id->channel);
  channel.events.push_back(std::move(event));
  const std::uint64_t one = 1;
  EXPECT_EQ(write(channel.channel.fd, &one, sizeof(one)), static_cast<ssize_t>(sizeof(one)));
}

FakeRdmaCm::Id* FakeRdmaCm::make_id(rdma_event_channel* channel) {
  auto made = std::make_unique<Id>();
  made->channel = channel;
  Id* const id = made.get();
  ids_.emplace(id, std::move(made));
  return id;
}

void FakeRdmaCm::bury(rdma_cm_id* id) {
  const auto at = ids_.find(id);
  if (at != ids_.end()) {
    buried_.push_back(std::move(at->second));
    ids_.erase(at);
  }
}

FakeRdmaCm::Id* FakeRdmaCm::only_id() const {
  Id* found = nullptr;
  for (const auto& [id, owned] : ids_) {
    if (owned->state != State::Listening) {
      EXPECT_EQ(found, nullptr) << "there are several";
      found = owned.get();
    }
  }
  EXPECT_NE(found, nullptr) << "there is none";
  return found;
}

bool FakeRdmaCm::is_stale(const Id* id, std::uint32_t remote_qpn) const {
  const Gid here = to_gid(id->route.addr.addr.ibaddr.sgid);
  const Gid there = to_gid(id->route.addr.addr.ibaddr.dgid);
  return std::any_of(ids_.begin(), ids_.end(), [&](const auto& entry) {
    const Id& other = *entry.second;
    return &other != id && other.state != State::Over && other.remote_qpn == remote_qpn &&
           to_gid(other.route.addr.addr.ibaddr.sgid) == here &&
           to_gid(other.route.addr.addr.ibaddr.dgid) == there;
  });
}

FakeRdmaCm::Id* FakeRdmaCm::listener_of(const Id* id) const {
  const sockaddr* const to = &id->route.addr.dst_addr;
  for (const auto& [other, owned] : ids_) {
    const sockaddr* const bound = &owned->route.addr.src_addr;
    if (owned->state == State::Listening && bound->sa_family == to->sa_family &&
        gid_of(bound) == gid_of(to) && service_of(bound) == service_of(to)) {
      return owned.get();
    }
  }
  return nullptr;
}

void FakeRdmaCm::connect(Id* id, const rdma_conn_param& values,
                         const std::vector<std::uint8_t>& data) {
  post([this, id, values, data] {
    if (alive(id) == nullptr || id->state != State::ReqSent) {
      return;
    }
    if (unreachable.contains(gid_of(&id->route.addr.dst_addr))) {
      id->state = State::Over;
      push(RDMA_CM_EVENT_UNREACHABLE, id, -ETIMEDOUT);
      return;
    }
    Id* const listener = listener_of(id);
    if (listener == nullptr) {
      id->state = State::Over;
      push(RDMA_CM_EVENT_REJECTED, id, kNoService, {}, padded({}, 148));
      return;
    }
    Id* const made = make_id(listener->channel);
    made->ps = listener->ps;
    made->state = State::ReqReceived;
    made->peer = id;
    id->peer = made;
    made->path = id->path;
    std::swap(made->path.sgid, made->path.dgid);
    std::swap(made->path.slid, made->path.dlid);
    made->route.path_rec = &made->path;
    made->route.num_paths = 1;
    made->route.addr.addr.ibaddr.sgid = id->route.addr.addr.ibaddr.dgid;
    made->route.addr.addr.ibaddr.dgid = id->route.addr.addr.ibaddr.sgid;
    if (is_stale(made, values.qp_num)) {
      id->peer = nullptr;
      bury(made);
      id->state = State::Over;
      push(RDMA_CM_EVENT_REJECTED, id, kStale, {}, padded({}, 148));
      return;
    }
    made->remote_qpn = values.qp_num;
    push(RDMA_CM_EVENT_CONNECT_REQUEST, made, 0, crossed(values),
         padded(data, id->ps == RDMA_PS_IB ? 92 : 56), listener);
  });
}

void FakeRdmaCm::accept(Id* id, const rdma_conn_param& values,
                        const std::vector<std::uint8_t>& data) {
  post([this, id, values, data] {
    if (alive(id) == nullptr || alive(id->peer) == nullptr || id->state != State::RepSent) {
      return;
    }
    Id* const to = id->peer;
    if (to->state != State::ReqSent) {
      return;
    }
    if (is_stale(to, values.qp_num)) {
      id->state = State::Over;
      push(RDMA_CM_EVENT_REJECTED, id, kStale, {}, padded({}, 148));
      return;
    }
    to->remote_qpn = values.qp_num;
    to->state = State::RepReceived;
    rdma_conn_param shown = crossed(values);
    // A REP has no retry count.
    shown.retry_count = 0;
    push(RDMA_CM_EVENT_CONNECT_RESPONSE, to, 0, shown, padded(data, 196));
  });
}

bool FakeRdmaCm::refuse(Id* id, int reason, const std::vector<std::uint8_t>& data) {
  const bool can = id->state == State::ReqSent || id->state == State::ReqReceived ||
                   id->state == State::RepSent || id->state == State::RepReceived;
  if (!can) {
    return false;
  }
  id->state = State::Over;
  post([this, peer = id->peer, reason, data] {
    if (alive(peer) != nullptr && peer->state != State::Over) {
      peer->state = State::Over;
      push(RDMA_CM_EVENT_REJECTED, peer, reason, {}, padded(data, 148));
    }
  });
  return true;
}

void FakeRdmaCm::rest(Id* id) {
  id->state = State::Over;
  push(RDMA_CM_EVENT_TIMEWAIT_EXIT, id);
}

int FakeRdmaCm::disconnect(Id* id) {
  if (id->state == State::Connected) {
    id->state = State::DreqSent;
    post([this, peer = id->peer] {
      if (alive(peer) == nullptr) {
        return;
      }
      if (peer->state == State::Connected || peer->state == State::RepSent ||
          peer->state == State::DreqSent) {
        peer->state = State::DreqReceived;
        push(RDMA_CM_EVENT_DISCONNECTED, peer);
      }
    });
    return 0;
  }
  if (id->state == State::DreqReceived) {
    rest(id);
    post([this, peer = id->peer] {
      if (alive(peer) != nullptr && peer->state == State::DreqSent) {
        push(RDMA_CM_EVENT_DISCONNECTED, peer);
        rest(peer);
      }
    });
    return 0;
  }
  errno = EINVAL;
  return -1;
}

void FakeRdmaCm::leave(Id* id) {
  switch (id->state) {
    case State::ReqSent:
      static_cast<void>(refuse(id, kTimeout, {}));
      break;
    case State::ReqReceived:
    case State::RepSent:
    case State::RepReceived:
      static_cast<void>(refuse(id, kConsumer, {}));
      break;
    case State::Connected:
    case State::DreqReceived:
      static_cast<void>(disconnect(id));
      break;
    case State::Fresh:
    case State::AddressResolved:
    case State::RouteResolved:
    case State::Listening:
    case State::DreqSent:
    case State::Over:
      break;
  }
}

}  // namespace wireup::test
