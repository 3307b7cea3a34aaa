// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/agent/relay.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "softhca/agent/log.hpp"
#include "softhca/mad/bytes.hpp"
#include "softhca/mad/smp.hpp"

namespace softhca {
namespace {

constexpr std::size_t kMaxTransactions = 65536;
constexpr std::chrono::milliseconds kQueueFull{1};
constexpr std::chrono::milliseconds kPatience{20};
constexpr std::uint32_t kMaxTimeoutMs = 24U * 3600 * 1000;
constexpr std::size_t kAttrModOffset = 20;
constexpr std::uint16_t kSmpStatusMask = 0x7FFF;  // the top bit is a directed route's direction

bool is_smp(std::uint8_t mgmt_class) {
  return mgmt_class == kClassSmLid || mgmt_class == kClassSmDirect;
}

std::uint32_t qp_of(std::uint8_t mgmt_class) {
  return is_smp(mgmt_class) ? 0 : 1;
}

void address(SimPacket& packet, const MadHeader& header, std::uint16_t lid) {
  const bool directed = header.mgmt_class == kClassSmDirect;
  packet.dlid = directed ? std::uint16_t{0xFFFF} : lid;
  packet.slid = directed ? std::uint16_t{0xFFFF} : std::uint16_t{0};
  packet.dqp = packet.sqp = qp_of(header.mgmt_class);
}

/// A slot is attached to port 1 of its node, and PortInfo of port 0 is that of the port where the
/// request came in. From another port the request names it.
void name_own_port(Mad& mad, const MadHeader& header, std::uint8_t port_num) {
  const bool to_itself = header.mgmt_class == kClassSmDirect && (header.class_specific & 0xFF) == 0;
  if (to_itself && header.attr_id == kAttrPortInfo && header.attr_mod == 0 && port_num != 1) {
    put32(mad, kAttrModOffset, port_num);
  }
}

/// The emulated HCAs know ClientReregister although ibsim's ports do not; subnet managers use it
/// with ports that say so. Port 0 is a switch's own.
void complete_port_info(Mad& mad, const MadHeader& header) {
  if (is_smp(header.mgmt_class) && header.attr_id == kAttrPortInfo && header.attr_mod != 0) {
    constexpr std::size_t kCapMaskOffset = kSmpDataOffset + 20;
    put32(mad, kCapMaskOffset, get32(mad, kCapMaskOffset) | kCapClientReregister);
  }
}

}  // namespace

bool goes_through_ibsim(std::uint8_t mgmt_class) {
  return is_smp(mgmt_class) || mgmt_class == kClassPerf;
}

void Relay::handle_send(Session& session, const UmadHeader& header,
                        std::span<const std::uint8_t> mad, Clock::time_point now) {
  if (mad.size() < kMadHeaderSize || mad.size() > kMadSize ||
      header.agent_id >= kMaxAgentsPerPort || !session.agents()[header.agent_id].used) {
    return;
  }
  Transaction transaction;
  transaction.header = header;
  transaction.mad_header = get_mad_header(mad);
  if (transaction.mad_header.is_response()) {
    answer(session, header, transaction.mad_header, mad);
    return;
  }
  // Answers carry the agent's own upper half, as in the kernel.
  const std::uint64_t high = session.agents()[header.agent_id].tid_high;
  transaction.mad_header.tid = high << 32 | (transaction.mad_header.tid & 0xFFFFFFFF);
  transaction.session = session.id();
  transaction.port = session.port();
  transaction.length = mad.size();
  std::copy(mad.begin(), mad.end(), transaction.mad.begin());
  put64(transaction.mad, kTidOffset, transaction.mad_header.tid);
  transaction.answer_expected = transaction.header.timeout_ms != 0;
  transaction.header.timeout_ms = std::min(transaction.header.timeout_ms, kMaxTimeoutMs);
  transaction.tries_left = transaction.answer_expected ? transaction.header.retries : 0;
  if (transactions_.size() >= kMaxTransactions) {
    if (transaction.answer_expected) {
      give_up(transaction);
    }
    return;
  }
  while (next_id_ == 0 || transactions_.count(next_id_) != 0) {
    ++next_id_;
  }
  const std::uint32_t id = next_id_++;
  transactions_.emplace(id, transaction);
  send(id, now);
}

void Relay::send(std::uint32_t id, Clock::time_point now) {
  Transaction& transaction = transactions_.at(id);
  counters_.add(transaction.port,
                is_smp(transaction.mad_header.mgmt_class) ? Counter::SmpSent : Counter::GmpOther);
  if (transaction.answer_expected) {
    transaction.due = now + std::chrono::milliseconds(transaction.header.timeout_ms);
    timers_.emplace(transaction.due, id);
  }
  if (!transaction.queued) {
    transaction.queued = true;
    transaction.queued_at = now;
    queue_.push_back(id);
  }
  pump(now);
}

void Relay::answer(const Session& session, const UmadHeader& header, const MadHeader& mad_header,
                   std::span<const std::uint8_t> mad) {
  SlotPool::Slot* slot = pool_.own_slot(view_, session.port());
  if (slot == nullptr || mad_header.method == kMethodTrapRepress) {
    return;  // ibsim sends each trap once and takes no TrapRepress
  }
  SimPacket packet;
  std::copy(mad.begin(), mad.end(), packet.mad.begin());
  address(packet, mad_header, ntohs(header.lid));
  // Lost when ibsim's queue is full: who asked asks again.
  static_cast<void>(slot->link->send(packet));
}

void Relay::pump(Clock::time_point now) {
  pump_at_.reset();
  // In order, except that a request may overtake others when a slot is at its node already and the
  // first in the queue has not waited long: that saves moving slots to and fro.
  std::deque<std::uint32_t> waiting;
  bool overtaking = false;
  while (!queue_.empty()) {
    const std::uint32_t id = queue_.front();
    const auto entry = transactions_.find(id);
    if (entry != transactions_.end() && entry->second.queued &&
        !place(id, entry->second, now, !overtaking)) {
      if (!overtaking && now - entry->second.queued_at > kPatience) {
        break;
      }
      overtaking = true;
      waiting.push_back(id);
    }
    queue_.pop_front();
  }
  queue_.insert(queue_.begin(), waiting.begin(), waiting.end());
}

bool Relay::place(std::uint32_t id, Transaction& transaction, Clock::time_point now,
                  bool may_move) {
  bool wait = false;
  SlotPool::Slot* slot = pool_.acquire(view_, transaction.port, now, may_move, wait);
  if (slot == nullptr && wait) {
    pump_at_ = now + SlotPool::kHold;
    return false;
  }
  if (slot != nullptr) {
    SimPacket packet;
    packet.mad = transaction.mad;
    address(packet, transaction.mad_header, ntohs(transaction.header.lid));
    name_own_port(packet.mad, transaction.mad_header, view_.port(transaction.port).port_num);
    put64(packet.mad, kTidOffset, id);
    if (!slot->link->send(packet)) {
      if (errno == EAGAIN || errno == ENOBUFS) {
        pump_at_ = now + kQueueFull;
        return false;
      }
      slot->link.reset();  // ibsim has gone; the requester's timer runs on
    } else if (transaction.answer_expected) {
      slot->awaited[id] = now;
    }
  }
  transaction.queued = false;
  if (!transaction.answer_expected) {
    transactions_.erase(id);
  }
  return true;
}

void Relay::handle_slots(Clock::time_point now) {
  bool any = false;
  for (SlotPool::Slot& slot : pool_.slots()) {
    SimPacket packet;
    while (slot.link != nullptr && slot.link->attached() && slot.link->receive(packet)) {
      any = true;
      handle_packet(slot, packet);
    }
  }
  if (any) {
    pump(now);
  }
}

void Relay::handle_packet(const SlotPool::Slot& slot, const SimPacket& packet) {
  const MadHeader header = get_mad_header(packet.mad);
  if (packet.status == 0 && !header.is_response()) {
    handle_request(slot, header, packet);
    return;
  }
  const auto id = static_cast<std::uint32_t>(header.tid & 0xFFFFFFFF);
  const auto entry = transactions_.find(id);
  if (entry == transactions_.end()) {
    return;
  }
  pool_.forget(id);
  Transaction& transaction = entry->second;
  if (packet.status != 0 || !header.is_response() ||
      header.mgmt_class != transaction.mad_header.mgmt_class) {
    return;  // undeliverable: on a real fabric nobody would tell, so the timer decides
  }
  const bool reregister = is_smp(header.mgmt_class) && header.attr_id == kAttrPortInfo &&
                          transaction.mad_header.method == kMethodSet &&
                          (header.status & kSmpStatusMask) == 0;
  const std::span<const std::uint8_t, kSmpDataSize> data(transaction.mad.begin() + kSmpDataOffset,
                                                         kSmpDataSize);
  if (reregister && get_port_info(data).client_reregister != 0) {
    reregister_(get_port_info(data).lid);
  }
  const auto session = sessions_.find(transaction.session);
  if (session != sessions_.end()) {
    Mad mad = packet.mad;
    put64(mad, kTidOffset, transaction.mad_header.tid);
    complete_port_info(mad, header);
    UmadHeader reply;
    reply.agent_id = transaction.header.agent_id;
    reply.qpn = htonl(packet.sqp);
    reply.lid = htons(packet.slid);
    session->second->deliver(reply, mad);
  }
  erase(id);
}

void Relay::handle_request(const SlotPool::Slot& slot, const MadHeader& header,
                           const SimPacket& packet) {
  const auto agent = find_agent(sessions_, slot.owner, header, packet.mad);
  if (agent) {
    UmadHeader arrived;
    arrived.agent_id = agent->agent_id;
    arrived.qpn = htonl(packet.sqp);
    arrived.lid = htons(packet.slid);
    agent->session->deliver(arrived, packet.mad);
  }
}

void Relay::handle_time(Clock::time_point now) {
  while (!timers_.empty() && timers_.begin()->first <= now) {
    const std::uint32_t id = timers_.begin()->second;
    timers_.erase(timers_.begin());
    Transaction& transaction = transactions_.at(id);
    pool_.forget(id);
    if (transaction.tries_left > 0) {
      --transaction.tries_left;
      send(id, now);
    } else {
      give_up(transaction);
      erase(id);
    }
  }
  pump(now);
}

void Relay::give_up(const Transaction& transaction) {
  counters_.add(transaction.port, Counter::UmadTimeouts);
  const auto session = sessions_.find(transaction.session);
  if (session != sessions_.end()) {
    // As the kernel does: the request's own header comes back, and the MAD header alone.
    UmadHeader header = transaction.header;
    header.status = ETIMEDOUT;
    session->second->deliver(header, std::span(transaction.mad).first(kMadHeaderSize));
  }
}

void Relay::erase(std::uint32_t id) {
  const auto entry = transactions_.find(id);
  if (entry == transactions_.end()) {
    return;
  }
  if (entry->second.answer_expected) {
    timers_.erase({entry->second.due, id});
    pool_.forget(id);
  }
  transactions_.erase(entry);
}

void Relay::forget_session(std::uint64_t session) {
  std::vector<std::uint32_t> ids;
  for (const auto& [id, transaction] : transactions_) {
    if (transaction.session == session) {
      ids.push_back(id);
    }
  }
  for (const std::uint32_t id : ids) {
    erase(id);
  }
}

std::optional<Clock::time_point> Relay::deadline() const {
  std::optional<Clock::time_point> first = pump_at_;
  if (!timers_.empty() && (!first || timers_.begin()->first < *first)) {
    first = timers_.begin()->first;
  }
  return first;
}

}  // namespace softhca
