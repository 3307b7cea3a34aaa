// SPDX-License-Identifier: BSD-3-Clause
#include "verbs/ud_endpoint.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/bytes.hpp"
#include "verbs/gid.hpp"
#include "verbs/objects.hpp"
#include "verbs/rc_qp.hpp"

namespace wireup::verbs {
namespace {

/// Room that every UD receive buffer begins with, filled only when a GRH came.
constexpr std::size_t kGrhSize = 40;
constexpr std::size_t kBatch = 16;

struct DestinationHash {
  std::size_t operator()(const UdDestination& to) const noexcept {
    std::uint64_t hash = to.dlid.value();
    hash = hash * 0x9E3779B97F4A7C15ULL + to.sl.value();
    hash = hash * 0x9E3779B97F4A7C15ULL + to.path_bits;
    hash = hash * 0x9E3779B97F4A7C15ULL + (to.global ? std::hash<Gid>{}(to.dgid) : 0);
    return hash;
  }
};

/// The part of a destination that an address handle holds: QPN and Q_Key are the work request's.
UdDestination address_of(const UdDestination& to) noexcept {
  UdDestination address = to;
  address.qpn = Qpn{};
  address.qkey = QKey{};
  return address;
}

Gid gid_at(std::span<const std::uint8_t> grh, std::size_t offset) noexcept {
  Gid::Bytes bytes{};
  std::copy_n(grh.begin() + static_cast<std::ptrdiff_t>(offset), Gid::kSize, bytes.begin());
  return Gid(bytes);
}

/// The datagram behind a successful completion. The buffer starts with the place of the GRH (IBTA
/// vol 1, 8.3: version/class/label 32 bits, length 16, next header 8, hop limit 8, SGID, DGID).
UdDatagram datagram_of(const ibv_wc& wc, std::span<const std::uint8_t> buffer) noexcept {
  UdDatagram datagram;
  const std::size_t filled = std::min<std::size_t>(wc.byte_len, buffer.size());
  datagram.bytes = buffer.subspan(kGrhSize, filled > kGrhSize ? filled - kGrhSize : 0);
  datagram.slid = Lid(wc.slid);
  datagram.source_qpn = Qpn(wc.src_qp & Qpn::kMax);
  datagram.sl = Sl(static_cast<std::uint8_t>(wc.sl & Sl::kMax));
  datagram.path_bits = wc.dlid_path_bits;
  if ((wc.wc_flags & IBV_WC_GRH) != 0) {
    const auto grh = buffer.first(kGrhSize);
    const std::uint64_t first = load_be(grh, 0, 4);
    datagram.has_grh = true;
    datagram.traffic_class = static_cast<std::uint8_t>(first >> 20U & 0xFFU);
    datagram.flow_label = FlowLabel(static_cast<std::uint32_t>(first & FlowLabel::kMax));
    datagram.hop_limit = grh[7];
    datagram.sgid = gid_at(grh, 8);
    datagram.dgid = gid_at(grh, 24);
  }
  return datagram;
}

}  // namespace

struct UdEndpoint::State {
  struct CachedHandle {
    AddressHandle handle;
    std::uint32_t in_flight = 0;
    std::uint64_t last_used = 0;
  };
  using HandleCache = std::unordered_map<UdDestination, CachedHandle, DestinationHash>;

  const Ops* ops = nullptr;
  Options options;
  // Declared parents first: destroyed last.
  Pd pd;
  CompletionChannel channel;
  Cq send_cq;
  Cq receive_cq;
  std::vector<std::uint8_t> pool;
  Mr mr;
  HandleCache handles;
  Qp qp;
  /// What the QP is attached to: a QP must leave its groups before it may be destroyed.
  std::vector<std::pair<Gid, Lid>> groups;
  /// By send buffer: the handle its datagram goes through (stable: nodes of the map do not move).
  std::vector<CachedHandle*> sending;
  std::vector<std::uint32_t> free_sends;
  std::uint64_t uses = 0;
  bool broken = false;
  UdCounters counters;

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    while (!groups.empty()) {
      static_cast<void>(detach(groups.back().first, groups.back().second));
      groups.pop_back();
    }
  }

  [[nodiscard]] Result<> detach(const Gid& mgid, Lid mlid) const;
  [[nodiscard]] std::size_t receive_size() const noexcept {
    return kGrhSize + options.message_size;
  }
  [[nodiscard]] std::span<std::uint8_t> receive_buffer(std::size_t index) noexcept {
    return std::span(pool).subspan(index * receive_size(), receive_size());
  }
  [[nodiscard]] std::span<std::uint8_t> send_buffer(std::size_t index) noexcept {
    const std::size_t base = options.receive_depth * receive_size();
    return std::span(pool).subspan(base + index * options.message_size, options.message_size);
  }
  [[nodiscard]] std::size_t pool_size() const noexcept {
    return options.receive_depth * receive_size() + options.send_depth * options.message_size;
  }

  [[nodiscard]] Result<> make_ready() const;
  [[nodiscard]] Result<> post_receives(std::span<const std::uint32_t> indices);
  [[nodiscard]] Result<> post_all_receives();
  [[nodiscard]] Result<CachedHandle*> handle_for(const Destination& to);
  void evict_handle();
  [[nodiscard]] Result<> reap_sends();
  [[nodiscard]] Result<> restart();
};

Result<> UdEndpoint::State::make_ready() const {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.pkey_index = options.pkey_index;
  attr.port_num = options.port;
  attr.qkey = options.qkey.value();
  auto done = qp.modify(attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY,
                        "RESET to INIT (UD)");
  if (!done) {
    if (done.error().is(Errc::NoPermission)) {
      return fail(Error::system(Errc::NoPermission, done.error().error_number(),
                                "setting Q_Key 0x%08x on a UD QP needs CAP_NET_RAW",
                                options.qkey.value()));
    }
    return done;
  }
  attr = {};
  attr.qp_state = IBV_QPS_RTR;
  if (done = qp.modify(attr, IBV_QP_STATE, "INIT to RTR (UD)"); !done) {
    return done;
  }
  attr = {};
  attr.qp_state = IBV_QPS_RTS;
  return qp.modify(attr, IBV_QP_STATE | IBV_QP_SQ_PSN, "RTR to RTS (UD)");
}

Result<> UdEndpoint::State::post_receives(std::span<const std::uint32_t> indices) {
  std::array<ibv_recv_wr, kBatch> work{};
  std::array<ibv_sge, kBatch> parts{};
  while (!indices.empty()) {
    const std::size_t count = std::min(indices.size(), kBatch);
    for (std::size_t i = 0; i < count; ++i) {
      const auto buffer = receive_buffer(indices[i]);
      parts[i] = {reinterpret_cast<std::uint64_t>(buffer.data()),
                  static_cast<std::uint32_t>(buffer.size()), mr.lkey()};
      work[i] = {};
      work[i].wr_id = indices[i];
      work[i].sg_list = &parts[i];
      work[i].num_sge = 1;
      work[i].next = i + 1 < count ? &work[i + 1] : nullptr;
    }
    ibv_recv_wr* bad = nullptr;
    if (const int error = ops->post_recv(qp.raw(), work.data(), &bad); error != 0) {
      return fail(Error::system(Errc::NoResources, error, "posting receives on UD QP 0x%06x",
                                qp.qpn().value()));
    }
    indices = indices.subspan(count);
  }
  return {};
}

Result<> UdEndpoint::State::post_all_receives() {
  std::vector<std::uint32_t> all(options.receive_depth);
  for (std::uint32_t i = 0; i < options.receive_depth; ++i) {
    all[i] = i;
  }
  return post_receives(all);
}

void UdEndpoint::State::evict_handle() {
  auto oldest = handles.end();
  for (auto entry = handles.begin(); entry != handles.end(); ++entry) {
    if (entry->second.in_flight == 0 &&
        (oldest == handles.end() || entry->second.last_used < oldest->second.last_used)) {
      oldest = entry;
    }
  }
  if (oldest != handles.end()) {
    handles.erase(oldest);
  }
}

Result<UdEndpoint::State::CachedHandle*> UdEndpoint::State::handle_for(const Destination& to) {
  const UdDestination key = address_of(to);
  auto found = handles.find(key);
  if (found == handles.end()) {
    if (handles.size() >= std::max<std::size_t>(options.max_address_handles, 1)) {
      evict_handle();
    }
    auto made = AddressHandle::open(pd, ah_attributes(to, options.port));
    if (!made) {
      return fail(made.error());
    }
    found = handles.emplace(key, CachedHandle{std::move(*made), 0, 0}).first;
  }
  found->second.last_used = ++uses;
  return &found->second;
}

Result<> UdEndpoint::State::reap_sends() {
  std::array<ibv_wc, kBatch> done;
  for (;;) {
    auto count = send_cq.poll(done);
    if (!count) {
      return fail(count.error());
    }
    for (std::size_t i = 0; i < *count; ++i) {
      const auto index = static_cast<std::uint32_t>(done[i].wr_id);
      --sending[index]->in_flight;
      free_sends.push_back(index);
      if (done[i].status != IBV_WC_SUCCESS) {
        ++counters.failed;
        broken = true;
      }
    }
    if (*count < done.size()) {
      return {};
    }
  }
}

Result<> UdEndpoint::State::restart() {
  ++counters.restarts;
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RESET;
  if (auto done = qp.modify(attr, IBV_QP_STATE, "any state to RESET (UD)"); !done) {
    return done;
  }
  // RESET has dropped all posted work; completions from before it are taken and forgotten.
  std::array<ibv_wc, kBatch> old;
  for (const Cq* cq : {&send_cq, &receive_cq}) {
    for (;;) {
      auto count = cq->poll(old);
      if (!count) {
        return fail(count.error());
      }
      if (*count == 0) {
        break;
      }
    }
  }
  free_sends.clear();
  for (std::uint32_t i = 0; i < options.send_depth; ++i) {
    free_sends.push_back(i);
  }
  for (auto& [to, cached] : handles) {
    cached.in_flight = 0;
  }
  broken = false;
  if (auto done = make_ready(); !done) {
    return done;
  }
  return post_all_receives();
}

UdEndpoint::UdEndpoint(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
UdEndpoint::UdEndpoint(UdEndpoint&&) noexcept = default;
UdEndpoint& UdEndpoint::operator=(UdEndpoint&&) noexcept = default;
UdEndpoint::~UdEndpoint() = default;

Result<UdEndpoint> UdEndpoint::open(const Device& device, const Options& options) {
  auto state = std::make_unique<State>();
  state->ops = &device.ops();
  state->options = options;
  const std::uint32_t limit = std::max<std::uint32_t>(device.limits().max_qp_wr, 1);
  state->options.send_depth = std::clamp<std::uint32_t>(options.send_depth, 1, limit);
  state->options.receive_depth = std::clamp<std::uint32_t>(options.receive_depth, 1, limit);

  auto pd = Pd::open(device);
  if (!pd) {
    return fail(pd.error());
  }
  state->pd = std::move(*pd);
  auto channel = CompletionChannel::open(device);
  if (!channel) {
    return fail(channel.error());
  }
  state->channel = std::move(*channel);
  auto send_cq = Cq::open(device, state->options.send_depth);
  if (!send_cq) {
    return fail(send_cq.error());
  }
  state->send_cq = std::move(*send_cq);
  auto receive_cq = Cq::open(device, state->options.receive_depth, &state->channel);
  if (!receive_cq) {
    return fail(receive_cq.error());
  }
  state->receive_cq = std::move(*receive_cq);
  state->pool.resize(state->pool_size());
  auto mr = Mr::open(state->pd, state->pool, IBV_ACCESS_LOCAL_WRITE);
  if (!mr) {
    return fail(mr.error());
  }
  state->mr = std::move(*mr);

  ibv_qp_init_attr attr{};
  attr.qp_type = IBV_QPT_UD;
  attr.sq_sig_all = 1;
  attr.send_cq = state->send_cq.raw();
  attr.recv_cq = state->receive_cq.raw();
  attr.cap.max_send_wr = state->options.send_depth;
  attr.cap.max_recv_wr = state->options.receive_depth;
  attr.cap.max_send_sge = 1;
  attr.cap.max_recv_sge = 1;
  auto qp = Qp::open(state->pd, attr);
  if (!qp) {
    return fail(qp.error());
  }
  state->qp = std::move(*qp);

  state->sending.resize(state->options.send_depth);
  for (std::uint32_t i = 0; i < state->options.send_depth; ++i) {
    state->free_sends.push_back(i);
  }
  if (auto done = state->make_ready(); !done) {
    return fail(done.error());
  }
  if (auto done = state->post_all_receives(); !done) {
    return fail(done.error());
  }
  if (auto done = state->receive_cq.arm(state->channel); !done) {
    return fail(done.error());
  }
  return UdEndpoint(std::move(state));
}

Result<> UdEndpoint::send(const Destination& to, std::span<const std::uint8_t> bytes) {
  State& s = *state_;
  if (bytes.size() > s.options.message_size) {
    return fail(Error::make(Errc::InvalidArgument, "datagram of %zu bytes, at most %zu fit",
                            bytes.size(), s.options.message_size));
  }
  if (s.free_sends.empty()) {
    if (auto done = s.reap_sends(); !done) {
      return done;
    }
    if (s.free_sends.empty()) {
      return fail(Error::make(Errc::Busy, "all %u UD sends are in flight", s.options.send_depth));
    }
  }
  auto handle = s.handle_for(to);
  if (!handle) {
    return fail(handle.error());
  }
  const std::uint32_t index = s.free_sends.back();
  const auto buffer = s.send_buffer(index);
  std::copy(bytes.begin(), bytes.end(), buffer.begin());

  ibv_sge part{reinterpret_cast<std::uint64_t>(buffer.data()),
               static_cast<std::uint32_t>(bytes.size()), s.mr.lkey()};
  ibv_send_wr work{};
  work.wr_id = index;
  work.sg_list = &part;
  work.num_sge = 1;
  work.opcode = IBV_WR_SEND;
  work.wr.ud.ah = (*handle)->handle.raw();
  work.wr.ud.remote_qpn = to.qpn.value();
  work.wr.ud.remote_qkey = to.qkey.value();
  ibv_send_wr* bad = nullptr;
  if (const int error = s.ops->post_send(s.qp.raw(), &work, &bad); error != 0) {
    return fail(Error::system(Errc::NoResources, error, "posting a datagram to LID %u QP 0x%06x",
                              to.dlid.value(), to.qpn.value()));
  }
  s.free_sends.pop_back();
  s.sending[index] = *handle;
  ++(*handle)->in_flight;
  ++s.counters.sent;
  return {};
}

Result<std::size_t> UdEndpoint::poll_with(void (*call)(void*, const Datagram&), void* callback,
                                          std::size_t max) {
  State& s = *state_;
  if (auto done = s.reap_sends(); !done) {
    return fail(done.error());
  }
  std::size_t delivered = 0;
  std::array<ibv_wc, kBatch> completions;
  while (delivered < max && !s.broken) {
    auto count = s.receive_cq.poll(std::span(completions).first(std::min(kBatch, max - delivered)));
    if (!count) {
      return fail(count.error());
    }
    if (*count == 0) {
      return delivered;
    }
    std::array<std::uint32_t, kBatch> returned{};
    for (std::size_t i = 0; i < *count; ++i) {
      const ibv_wc& wc = completions[i];
      returned[i] = static_cast<std::uint32_t>(wc.wr_id);
      if (wc.status != IBV_WC_SUCCESS) {
        ++s.counters.failed;
        s.broken = true;
        continue;
      }
      ++s.counters.received;
      ++delivered;
      call(callback, datagram_of(wc, s.receive_buffer(wc.wr_id)));
    }
    if (!s.broken) {
      if (auto done = s.post_receives(std::span(returned).first(*count)); !done) {
        return fail(done.error());
      }
    }
  }
  if (s.broken) {
    if (auto done = s.restart(); !done) {
      return fail(done.error());
    }
  }
  return delivered;
}

Result<> UdEndpoint::arm() {
  return state_->receive_cq.arm(state_->channel);
}
int UdEndpoint::fd() const noexcept {
  return state_->channel.fd();
}
Qpn UdEndpoint::qpn() const noexcept {
  return state_->qp.qpn();
}
UdCounters UdEndpoint::counters() const noexcept {
  return state_->counters;
}

Result<> UdEndpoint::attach(const Gid& mgid, Lid mlid) {
  const ibv_gid gid = raw_gid(mgid);
  if (const int error = state_->ops->attach_mcast(state_->qp.raw(), &gid, mlid.value());
      error != 0) {
    return fail(Error::system(Errc::NoResources, error,
                              "attaching UD QP 0x%06x to group %s LID 0x%04x", qpn().value(),
                              to_text(mgid).data(), mlid.value()));
  }
  state_->groups.emplace_back(mgid, mlid);
  return {};
}

Result<> UdEndpoint::detach(const Gid& mgid, Lid mlid) {
  const auto group =
      std::find(state_->groups.begin(), state_->groups.end(), std::pair<Gid, Lid>(mgid, mlid));
  if (group == state_->groups.end()) {
    return fail(Error::make(Errc::NotFound, "UD QP 0x%06x is not attached to group %s LID 0x%04x",
                            qpn().value(), to_text(mgid).data(), mlid.value()));
  }
  state_->groups.erase(group);
  return state_->detach(mgid, mlid);
}

Result<> UdEndpoint::State::detach(const Gid& mgid, Lid mlid) const {
  const ibv_gid gid = raw_gid(mgid);
  if (const int error = ops->detach_mcast(qp.raw(), &gid, mlid.value()); error != 0) {
    return fail(Error::system(Errc::InvalidState, error,
                              "detaching UD QP 0x%06x from group %s LID 0x%04x", qp.qpn().value(),
                              to_text(mgid).data(), mlid.value()));
  }
  return {};
}

}  // namespace wireup::verbs
