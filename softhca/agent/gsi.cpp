// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/agent/gsi.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>

#include "softhca/mad/bytes.hpp"

namespace softhca {
namespace {

constexpr std::size_t kMaxRequests = 65536;
constexpr std::size_t kMaxTransfers = 4096;
constexpr std::size_t kRmppHeaderEnd = 36;
constexpr std::uint32_t kGsiQpn = 1;
constexpr std::uint32_t kMaxTimeoutMs = 24U * 3600 * 1000;
// As Linux: a transfer that stands still is given up, and a finished one is remembered for a while,
// for the sender may not have got the last acknowledgement.
constexpr std::chrono::seconds kIncomplete{40};
constexpr std::chrono::seconds kRemembered{10};

/// Whether RMPP is active in a message of any length.
bool has_rmpp(std::span<const std::uint8_t> message) {
  return message.size() >= kRmppHeaderEnd && rmpp_active(message);
}

UmadHeader address_of(const GsiPacket& packet) {
  UmadHeader header;
  header.qpn = htonl(kGsiQpn);
  header.lid = htons(packet.slid);
  header.sl = packet.sl;
  header.pkey_index = packet.pkey_index;
  if (packet.has_grh) {
    header.grh_present = 1;
    header.gid = packet.sgid;
    header.gid_index = packet.gid_index;
    header.hop_limit = packet.hop_limit;
    header.traffic_class = packet.traffic_class;
    header.flow_label = htonl(packet.flow_label);
  }
  return header;
}

}  // namespace

void Gsi::handle_send(Session& session, const UmadHeader& header, std::vector<std::uint8_t> data,
                      Instant now) {
  if (data.size() < kMadHeaderSize || header.agent_id >= kMaxAgentsPerPort) {
    return;
  }
  const Registration& agent = session.agents()[header.agent_id];
  const bool transfer = agent.kernel_rmpp() && has_rmpp(data);
  const std::size_t least = transfer ? mad_data_offset(data[1]) : kMadHeaderSize;
  const std::size_t most = transfer ? kMaxRmppMessage : kMadSize;
  if (!agent.used || data.size() < least || data.size() > most) {
    return;
  }
  const MadHeader mad = get_mad_header(data);
  if (!mad.is_response()) {
    put32(data, kTidOffset, agent.tid_high);
  }
  if (mad.is_response() || header.timeout_ms == 0) {
    if (transfer) {
      begin_transfer(session, header, std::move(data), std::nullopt, now);
    } else {
      post(session, header, data, now);
    }
    return;
  }
  const RequestKey key{get64(data, kTidOffset), next_id_++};
  Request request;
  request.session = session.id();
  request.header = header;
  request.header.timeout_ms = std::min(header.timeout_ms, kMaxTimeoutMs);
  request.tries_left = header.retries;
  request.data = std::move(data);
  requests_.emplace(key, std::move(request));
  if (requests_.size() > kMaxRequests) {
    give_up(key);
    return;
  }
  transmit(key, now);
}

void Gsi::transmit(const RequestKey& key, Instant now) {
  Request& request = requests_.at(key);
  Session& session = *sessions_.at(request.session);
  request.target = view_.unicast(session.port(), ntohs(request.header.lid)).value_or(kNoPort);
  const bool transfer =
      session.agents()[request.header.agent_id].kernel_rmpp() && has_rmpp(request.data);
  if (transfer) {
    request.sending = true;
    begin_transfer(session, request.header, request.data, key, now);
    return;
  }
  arm(key, request, now);
  post(session, request.header, request.data, now);
}

void Gsi::arm(const RequestKey& key, Request& request, Instant now) {
  request.sending = false;
  request.due = now + std::chrono::milliseconds(request.header.timeout_ms);
  timers_.emplace(request.due, key);
}

void Gsi::post(const Session& session, const UmadHeader& header, std::span<const std::uint8_t> mad,
               Instant now) {
  count(session, mad);
  if (ntohl(header.qpn) != kGsiQpn) {
    return;  // no agent is behind another queue pair
  }
  const PortAttr port = view_.port(session.port());
  GsiPacket packet;
  packet.from = session.port();
  packet.slid = static_cast<std::uint16_t>(port.lid | (header.path_bits & ((1U << port.lmc) - 1)));
  packet.dlid = ntohs(header.lid);
  packet.sl = header.sl & 0xF;
  const std::size_t pkeys = std::min<std::size_t>(port.pkey_count, port.pkeys.size());
  packet.pkey = header.pkey_index < pkeys ? port.pkeys[header.pkey_index] : std::uint16_t{0};
  if (header.grh_present != 0) {
    packet.has_grh = true;
    packet.sgid = port.gids[header.gid_index < port.gid_count ? header.gid_index : 0];
    packet.dgid = header.gid;
    packet.hop_limit = header.hop_limit;
    packet.traffic_class = header.traffic_class;
    packet.flow_label = ntohl(header.flow_label);
  }
  std::copy(mad.begin(), mad.end(), packet.mad.begin());
  wire_.send(packet, now);
}

void Gsi::reply(const GsiPacket& to, const Mad& mad, Instant now) {
  GsiPacket packet = to;
  packet.from = to.to;
  packet.slid = to.dlid;
  packet.dlid = to.slid;
  packet.has_grh = false;
  const PortAttr port = view_.port(to.to);
  packet.pkey = port.pkeys[std::min<std::size_t>(to.pkey_index, port.pkeys.size() - 1)];
  packet.mad = mad;
  wire_.send(packet, now);
}

void Gsi::count(const Session& session, std::span<const std::uint8_t> mad) {
  const MadHeader header = get_mad_header(mad);
  if (header.mgmt_class == kClassCm && mad.size() >= kMadHeaderSize) {
    Mad whole{};
    std::copy(mad.begin(), mad.end(), whole.begin());
    if (count_cm_mad(counters_, session.port(), whole)) {
      return;
    }
  }
  if (header.is_response()) {
    return;
  }
  Counter counter = Counter::GmpOther;
  if (header.mgmt_class == kClassSa) {
    const bool path = header.attr_id == kAttrPathRecord &&
                      (header.method == kMethodGet || header.method == kMethodGetTable);
    counter = path ? Counter::SaPathQueries : Counter::SaOther;
  }
  counters_.add(session.port(), counter);
}

void Gsi::begin_transfer(Session& session, const UmadHeader& header, std::vector<std::uint8_t> data,
                         std::optional<RequestKey> request, Instant now) {
  const auto target = view_.unicast(session.port(), ntohs(header.lid));
  const TransferKey key{session.id(), header.agent_id, get64(data, kTidOffset),
                        target.value_or(kNoPort)};
  if (outgoing_.size() >= kMaxTransfers || outgoing_.count(key) != 0) {
    return;  // the same answer once more, while the first is under way
  }
  const std::uint32_t timeout = std::min(header.timeout_ms, kMaxTimeoutMs);
  outgoing_.emplace(
      key, Outgoing{RmppSender(std::move(data), std::chrono::milliseconds(timeout), header.retries),
                    header, request});
  advance(key, now);
}

void Gsi::advance(const TransferKey& key, Instant now) {
  const auto entry = outgoing_.find(key);
  const auto session = sessions_.find(std::get<0>(key));
  if (entry == outgoing_.end() || session == sessions_.end()) {
    return;
  }
  Outgoing& transfer = entry->second;
  std::vector<Mad> segments;
  transfer.sender.poll(segments, now);
  for (const Mad& segment : segments) {
    post(*session->second, transfer.header, segment, now);
  }
  if (transfer.sender.state() == RmppSender::State::Sending) {
    return;
  }
  const bool done = transfer.sender.state() == RmppSender::State::Done;
  const std::optional<RequestKey> request = transfer.request;
  outgoing_.erase(entry);
  if (request && requests_.count(*request) != 0) {
    if (done) {
      arm(*request, requests_.at(*request), now);
    } else {
      give_up(*request);
    }
  }
}

void Gsi::receive(const GsiPacket& packet, Instant now) {
  const MadHeader header = get_mad_header(packet.mad);
  if (header.base_version != kBaseVersion) {
    return;
  }
  const auto agent = header.is_response() ? find_agent_of_tid(sessions_, packet.to, header.tid)
                                          : find_agent(sessions_, packet.to, header, packet.mad);
  if (!agent || agent->registration().mgmt_class != header.mgmt_class) {
    return;
  }
  if (!agent->registration().kernel_rmpp() || !rmpp_active(packet.mad)) {
    deliver(*agent, packet, packet.mad);
    return;
  }
  if (get_rmpp_header(packet.mad).type == kRmppTypeData) {
    receive_segment(*agent, packet, now);
  } else {
    receive_control(*agent, packet, now);
  }
}

void Gsi::receive_segment(const AgentRef& agent, const GsiPacket& packet, Instant now) {
  const TransferKey key{agent.session->id(), agent.agent_id, get64(packet.mad, kTidOffset),
                        packet.from};
  if (incoming_.count(key) == 0) {
    const RmppHeader rmpp = get_rmpp_header(packet.mad);
    if (incoming_.size() >= kMaxTransfers || rmpp.segment != 1) {
      return;  // the middle of something that nobody waits for
    }
  }
  Incoming& transfer = incoming_[key];
  transfer.until = now + (transfer.delivered ? kRemembered : kIncomplete);
  const auto answer = transfer.receiver.handle(packet.mad);
  if (answer) {
    reply(packet, *answer, now);
    if (get_rmpp_header(*answer).type == kRmppTypeAbort) {
      incoming_.erase(key);
      return;
    }
  }
  if (transfer.receiver.complete() && !transfer.delivered) {
    transfer.delivered = true;
    transfer.until = now + kRemembered;
    deliver(agent, packet, transfer.receiver.take());
  }
}

void Gsi::receive_control(const AgentRef& agent, const GsiPacket& packet, Instant now) {
  const TransferKey key{agent.session->id(), agent.agent_id, get64(packet.mad, kTidOffset),
                        packet.from};
  const auto entry = outgoing_.find(key);
  if (entry != outgoing_.end()) {
    entry->second.sender.handle(packet.mad, now);
    advance(key, now);
  } else if (get_rmpp_header(packet.mad).type != kRmppTypeAck) {
    incoming_.erase(key);
  }
}

void Gsi::deliver(const AgentRef& agent, const GsiPacket& packet,
                  std::span<const std::uint8_t> message) {
  const MadHeader mad = get_mad_header(message);
  // Those who do RMPP themselves get its MADs whether or not a request waits.
  const bool own_rmpp = agent.registration().user_rmpp && has_rmpp(message);
  if (mad.is_response() && !own_rmpp) {
    auto entry = requests_.lower_bound({mad.tid, 0});
    while (entry != requests_.end() && entry->first.first == mad.tid &&
           entry->second.target != packet.from) {
      ++entry;
    }
    if (entry == requests_.end() || entry->first.first != mad.tid) {
      return;  // late, or nobody asked
    }
    erase(RequestKey(entry->first));
  }
  if (mad.mgmt_class == kClassSa && mad.attr_id == kAttrMcMemberRecord && mad.status == 0 &&
      mad.is_response()) {
    joined_();
  }
  UmadHeader header = address_of(packet);
  header.agent_id = agent.agent_id;
  const PortBrief port = view_.brief(packet.to);
  header.path_bits = static_cast<std::uint8_t>(packet.dlid & ((1U << port.lmc) - 1));
  agent.session->deliver(header, message);
}

void Gsi::handle_time(Instant now) {
  for (auto entry = incoming_.begin(); entry != incoming_.end();) {
    entry = entry->second.until <= now ? incoming_.erase(entry) : std::next(entry);
  }
  std::vector<TransferKey> due;
  for (auto& [key, transfer] : outgoing_) {
    if (transfer.sender.deadline() <= now) {
      transfer.sender.handle_timeout(now);
      due.push_back(key);
    }
  }
  for (const TransferKey& key : due) {
    advance(key, now);
  }
  while (!timers_.empty() && timers_.begin()->first <= now) {
    const RequestKey key = timers_.begin()->second;
    timers_.erase(timers_.begin());
    Request& request = requests_.at(key);
    if (request.tries_left > 0) {
      --request.tries_left;
      transmit(key, now);
    } else {
      give_up(key);
    }
  }
  while (const auto packet = wire_.arrive(now)) {
    receive(*packet, now);
  }
}

void Gsi::give_up(const RequestKey& key) {
  const Request& request = requests_.at(key);
  const auto session = sessions_.find(request.session);
  if (session != sessions_.end()) {
    counters_.add(session->second->port(), Counter::UmadTimeouts);
    // As the kernel does: the request's own address comes back, and the MAD header alone.
    UmadHeader header = request.header;
    header.status = ETIMEDOUT;
    session->second->deliver(header, std::span(request.data).first(kMadHeaderSize));
  }
  erase(key);
}

void Gsi::erase(const RequestKey& key) {
  const auto entry = requests_.find(key);
  if (entry != requests_.end()) {
    timers_.erase({entry->second.due, key});
    requests_.erase(entry);
  }
}

void Gsi::forget_session(std::uint64_t session) {
  std::vector<RequestKey> keys;
  for (const auto& [key, request] : requests_) {
    if (request.session == session) {
      keys.push_back(key);
    }
  }
  for (const RequestKey& key : keys) {
    erase(key);
  }
  std::erase_if(outgoing_, [session](const auto& e) { return std::get<0>(e.first) == session; });
  std::erase_if(incoming_, [session](const auto& e) { return std::get<0>(e.first) == session; });
}

std::optional<Instant> Gsi::deadline() const {
  std::optional<Instant> first = wire_.deadline();
  const auto sooner = [&first](Instant when) {
    if (!first || when < *first) {
      first = when;
    }
  };
  if (!timers_.empty()) {
    sooner(timers_.begin()->first);
  }
  for (const auto& [key, transfer] : outgoing_) {
    sooner(transfer.sender.deadline());
  }
  for (const auto& [key, transfer] : incoming_) {
    sooner(transfer.until);
  }
  return first;
}

}  // namespace softhca
