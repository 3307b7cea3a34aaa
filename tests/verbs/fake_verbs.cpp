// SPDX-License-Identifier: BSD-3-Clause
#include "verbs/fake_verbs.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <utility>

#include "base/check.hpp"

namespace wireup::verbs {
namespace {

FakeVerbs* current = nullptr;

struct FakeCq {
  ibv_cq cq{};
  std::deque<ibv_wc> completions;
};
struct FakeQp {
  ibv_qp qp{};
  FakeCq* send_cq = nullptr;
  FakeCq* receive_cq = nullptr;
  std::deque<ibv_recv_wr> receives;
  std::deque<ibv_sge> receive_parts;
  std::size_t groups = 0;
};
struct FakeContext {
  ibv_context context{};
  const FakeVerbs::Device* device = nullptr;
};
struct FakeChannel {
  ibv_comp_channel channel{};
  int other_end = -1;
};

/// An object of libibverbs, or null with errno when the call is to fail.
template <typename T>
T* make(const char* call, const char* kind) {
  if (const int error = current->enter(call); error != 0) {
    errno = error;
    return nullptr;
  }
  ++current->live[kind];
  return new T{};
}
template <typename T>
int destroy(const char* kind, T* object) {
  WIREUP_CHECK(current->live[kind] > 0);
  --current->live[kind];
  delete object;
  return 0;
}

template <typename To, typename From>
To* as(From* from) {
  return reinterpret_cast<To*>(from);
}

ibv_device** get_device_list(int* count) {
  if (const int error = current->enter("get_device_list"); error != 0) {
    errno = error;
    return nullptr;
  }
  ++current->live["list"];
  *count = static_cast<int>(current->devices.size());
  auto** list = new ibv_device* [current->devices.size() + 1] {};
  for (std::size_t i = 0; i < current->devices.size(); ++i) {
    list[i] = as<ibv_device>(&current->devices[i]);
  }
  return list;
}
void free_device_list(ibv_device** list) {
  --current->live["list"];
  delete[] list;
}
const char* get_device_name(ibv_device* device) {
  return as<FakeVerbs::Device>(device)->name.c_str();
}
ibv_context* open_device(ibv_device* device) {
  auto* context = make<FakeContext>("open_device", "context");
  if (context == nullptr) {
    return nullptr;
  }
  context->device = as<FakeVerbs::Device>(device);
  return &context->context;
}
int close_device(ibv_context* context) {
  return destroy("context", as<FakeContext>(context));
}
int query_device(ibv_context* context, ibv_device_attr* attr) {
  if (const int error = current->enter("query_device"); error != 0) {
    return error;
  }
  *attr = {};
  attr->node_guid = 0x0807060504030201;
  attr->max_qp = 100;
  attr->max_qp_wr = 128;
  attr->max_cq = 100;
  attr->max_cqe = 4095;
  attr->max_qp_rd_atom = 16;
  attr->max_qp_init_rd_atom = 16;
  attr->local_ca_ack_delay = 15;
  attr->phys_port_cnt = static_cast<std::uint8_t>(as<FakeContext>(context)->device->ports.size());
  return 0;
}
int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attr) {
  if (const int error = current->enter("query_port"); error != 0) {
    return error;
  }
  const auto& from = as<FakeContext>(context)->device->ports.at(port - 1U);
  *attr = {};
  attr->state = from.state;
  attr->link_layer = from.link_layer;
  attr->lid = from.lid;
  attr->active_mtu = IBV_MTU_4096;
  attr->active_width = 2;
  attr->active_speed = 32;
  attr->sm_lid = 1;
  attr->pkey_tbl_len = static_cast<std::uint16_t>(from.pkeys.size());
  return 0;
}
int query_gid(ibv_context*, std::uint8_t port, int, ibv_gid* gid) {
  if (const int error = current->enter("query_gid"); error != 0) {
    return error;
  }
  *gid = {};
  gid->raw[0] = 0xFE;
  gid->raw[1] = 0x80;
  gid->raw[15] = port;
  return 0;
}
int query_pkey(ibv_context* context, std::uint8_t port, int index, std::uint16_t* pkey) {
  if (const int error = current->enter("query_pkey"); error != 0) {
    return error;
  }
  const auto& from = as<FakeContext>(context)->device->ports.at(port - 1U);
  *pkey = htons(from.pkeys.at(static_cast<std::size_t>(index)));
  return 0;
}
ibv_pd* alloc_pd(ibv_context*) {
  return make<ibv_pd>("alloc_pd", "pd");
}
int dealloc_pd(ibv_pd* pd) {
  return destroy("pd", pd);
}
ibv_mr* reg_mr(ibv_pd*, void*, std::size_t, int) {
  return make<ibv_mr>("reg_mr", "mr");
}
int dereg_mr(ibv_mr* mr) {
  return destroy("mr", mr);
}
ibv_comp_channel* create_comp_channel(ibv_context*) {
  auto* channel = make<FakeChannel>("create_comp_channel", "channel");
  if (channel == nullptr) {
    return nullptr;
  }
  int ends[2];
  WIREUP_CHECK(::pipe(ends) == 0);
  channel->channel.fd = ends[0];
  channel->other_end = ends[1];
  return &channel->channel;
}
int destroy_comp_channel(ibv_comp_channel* channel) {
  auto* fake = as<FakeChannel>(channel);
  ::close(channel->fd);
  ::close(fake->other_end);
  return destroy("channel", fake);
}
ibv_cq* create_cq(ibv_context*, int entries, void*, ibv_comp_channel*) {
  auto* cq = make<FakeCq>("create_cq", "cq");
  if (cq == nullptr) {
    return nullptr;
  }
  cq->cq.cqe = entries;
  return &cq->cq;
}
int destroy_cq(ibv_cq* cq) {
  return destroy("cq", as<FakeCq>(cq));
}
int get_cq_event(ibv_comp_channel*, ibv_cq**, void**) {
  const int error = current->enter("get_cq_event");
  return error != 0 ? error : EAGAIN;
}
void ack_cq_events(ibv_cq*, unsigned) {}
int req_notify_cq(ibv_cq*) {
  return current->enter("req_notify_cq");
}
int poll_cq(ibv_cq* cq, int capacity, ibv_wc* completions) {
  if (current->enter("poll_cq") != 0) {
    return -1;
  }
  auto& waiting = as<FakeCq>(cq)->completions;
  int count = 0;
  const auto is_held = [&] {
    return current->holds_send_completions && waiting.front().opcode == IBV_WC_SEND;
  };
  while (count < capacity && !waiting.empty() && !is_held()) {
    completions[count++] = waiting.front();
    waiting.pop_front();
  }
  return count;
}
ibv_qp* create_qp(ibv_pd*, ibv_qp_init_attr* attr) {
  auto* qp = make<FakeQp>("create_qp", "qp");
  if (qp == nullptr) {
    return nullptr;
  }
  qp->qp.qp_num = 0x123;
  qp->qp.state = IBV_QPS_RESET;
  qp->send_cq = as<FakeCq>(attr->send_cq);
  qp->receive_cq = as<FakeCq>(attr->recv_cq);
  return &qp->qp;
}
int modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) {
  if (const int error = current->enter("modify_qp"); error != 0) {
    return error;
  }
  WIREUP_CHECK((mask & IBV_QP_STATE) != 0);
  current->transitions.push_back({qp->state, attr->qp_state});
  qp->state = attr->qp_state;
  if (qp->state == IBV_QPS_RESET) {
    as<FakeQp>(qp)->receives.clear();
    as<FakeQp>(qp)->receive_parts.clear();
  }
  return 0;
}
int query_qp(ibv_qp*, ibv_qp_attr*, int, ibv_qp_init_attr*) {
  return current->enter("query_qp");
}
int destroy_qp(ibv_qp* qp) {
  WIREUP_CHECK(as<FakeQp>(qp)->groups == 0);  // as the kernel demands
  return destroy("qp", as<FakeQp>(qp));
}
int post_recv(ibv_qp* qp, ibv_recv_wr* work, ibv_recv_wr** bad) {
  if (const int error = current->enter("post_recv"); error != 0) {
    *bad = work;
    return error;
  }
  for (; work != nullptr; work = work->next) {
    as<FakeQp>(qp)->receives.push_back(*work);
    as<FakeQp>(qp)->receive_parts.push_back(*work->sg_list);
  }
  return 0;
}
/// Every datagram comes back to its own queue pair.
int post_send(ibv_qp* qp, ibv_send_wr* work, ibv_send_wr** bad) {
  if (const int error = current->enter("post_send"); error != 0) {
    *bad = work;
    return error;
  }
  auto* fake = as<FakeQp>(qp);
  ibv_wc sent{};
  sent.wr_id = work->wr_id;
  sent.opcode = IBV_WC_SEND;
  fake->send_cq->completions.push_back(sent);
  if (fake->receives.empty()) {
    return 0;
  }
  const ibv_sge from = *work->sg_list;
  const ibv_sge to = fake->receive_parts.front();
  WIREUP_CHECK(to.length >= 40 + from.length);
  auto* buffer = reinterpret_cast<std::uint8_t*>(to.addr);
  const std::uint8_t grh[40] = {0x6B, 0xC1, 0x23, 0x45, 0, 0, 0x1B, 9, 0xFE, 0x80};
  std::memcpy(buffer, grh, sizeof grh);
  buffer[23] = 0x77;  // last byte of the SGID
  buffer[39] = 0x88;  // last byte of the DGID
  std::memcpy(buffer + 40, reinterpret_cast<const void*>(from.addr), from.length);
  ibv_wc received{};
  received.wr_id = fake->receives.front().wr_id;
  received.opcode = IBV_WC_RECV;
  received.status = std::exchange(current->next_receive_status, IBV_WC_SUCCESS);
  received.byte_len = 40 + from.length;
  received.src_qp = 0x321;
  received.slid = 17;
  received.sl = 3;
  received.wc_flags = IBV_WC_GRH;
  fake->receive_cq->completions.push_back(received);
  fake->receives.pop_front();
  fake->receive_parts.pop_front();
  return 0;
}
ibv_ah* create_ah(ibv_pd*, ibv_ah_attr*) {
  return make<ibv_ah>("create_ah", "ah");
}
int destroy_ah(ibv_ah* ah) {
  return destroy("ah", ah);
}
int attach_mcast(ibv_qp* qp, const ibv_gid*, std::uint16_t) {
  const int error = current->enter("attach_mcast");
  as<FakeQp>(qp)->groups += error == 0 ? 1 : 0;
  return error;
}
int detach_mcast(ibv_qp* qp, const ibv_gid*, std::uint16_t) {
  --as<FakeQp>(qp)->groups;
  return 0;
}

int get_async_event(ibv_context*, ibv_async_event* event) {
  if (current->events.empty()) {
    return EAGAIN;
  }
  *event = current->events.front();
  current->events.pop_front();
  ++current->unacknowledged;
  return 0;
}
void ack_async_event(ibv_async_event*) {
  --current->unacknowledged;
}

constexpr Ops kOps{get_device_list, free_device_list,    get_device_name,
                   open_device,     close_device,        query_device,
                   query_port,      query_gid,           query_pkey,
                   alloc_pd,        dealloc_pd,          reg_mr,
                   dereg_mr,        create_comp_channel, destroy_comp_channel,
                   create_cq,       destroy_cq,          get_cq_event,
                   ack_cq_events,   req_notify_cq,       poll_cq,
                   create_qp,       modify_qp,           query_qp,
                   destroy_qp,      post_send,           post_recv,
                   create_ah,       destroy_ah,          attach_mcast,
                   detach_mcast,    get_async_event,     ack_async_event};

}  // namespace

FakeVerbs::FakeVerbs() {
  WIREUP_CHECK(current == nullptr);
  current = this;
}
FakeVerbs::~FakeVerbs() {
  current = nullptr;
}

const Ops& FakeVerbs::ops() noexcept {
  return kOps;
}

void FakeVerbs::fail_call(std::uint64_t nth, int error) {
  calls_ = 0;
  failing_ = nth;
  error_ = error;
  failed_call_.clear();
}

void FakeVerbs::fail_every(const std::string& name, int error) {
  always_[name] = error;
}

std::size_t FakeVerbs::alive() const noexcept {
  std::size_t sum = 0;
  for (const auto& [kind, count] : live) {
    sum += count;
  }
  return sum;
}

int FakeVerbs::enter(const char* name) {
  ++calls_;
  if (calls_ == failing_) {
    failed_call_ = name;
    return error_;
  }
  const auto always = always_.find(name);
  return always != always_.end() ? always->second : 0;
}

}  // namespace wireup::verbs
