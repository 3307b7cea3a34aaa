// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/agent/relay.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "softhca/agent/log.hpp"
#include "softhca/mad/bytes.hpp"

namespace softhca {
namespace {

constexpr std::size_t kMaxTransactions = 65536;
constexpr std::chrono::milliseconds kQueueFull{1};
constexpr std::chrono::milliseconds kPatience{20};
constexpr std::uint32_t kMaxTimeoutMs = 24U * 3600 * 1000;

bool goes_through_ibsim(std::uint8_t mgmt_class) {
  return mgmt_class == kClassSmLid || mgmt_class == kClassSmDirect || mgmt_class == kClassSa ||
         mgmt_class == kClassPerf;
}

bool is_smp(std::uint8_t mgmt_class) {
  return mgmt_class == kClassSmLid || mgmt_class == kClassSmDirect;
}

std::uint32_t qp_of(std::uint8_t mgmt_class) {
  return is_smp(mgmt_class) ? 0 : 1;
}

}  // namespace

void Relay::handle_send(Session& session, std::span<const std::uint8_t> message,
                        Clock::time_point now) {
  Transaction transaction;
  if (message.size() < sizeof(UmadHeader) + kMadHeaderSize ||
      message.size() > sizeof(UmadHeader) + kMadSize) {
    return;
  }
  std::memcpy(&transaction.header, message.data(), sizeof(UmadHeader));
  const std::span<const std::uint8_t> mad = message.subspan(sizeof(UmadHeader));
  const std::uint32_t agent = transaction.header.agent_id;
  if (agent >= kMaxAgentsPerPort || !session.agents()[agent].used) {
    return;
  }
  transaction.mad_header = get_mad_header(mad);
  if (transaction.mad_header.is_response()) {
    answer_locally(session, transaction.header, transaction.mad_header, mad);
    return;
  }
  transaction.session = session.id();
  transaction.port = session.port();
  transaction.length = mad.size();
  std::copy(mad.begin(), mad.end(), transaction.mad.begin());
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
  count(transaction);
  if (transaction.answer_expected) {
    transaction.due = now + std::chrono::milliseconds(transaction.header.timeout_ms);
    timers_.emplace(transaction.due, id);
  }
  if (goes_through_ibsim(transaction.mad_header.mgmt_class)) {
    if (!transaction.queued) {
      transaction.queued = true;
      transaction.queued_at = now;
      queue_.push_back(id);
    }
    pump(now);
    return;
  }
  send_locally(id, transaction);
}

void Relay::count(const Transaction& transaction) {
  const MadHeader& header = transaction.mad_header;
  Counter counter = Counter::GmpOther;
  if (header.mgmt_class == kClassSa) {
    const bool path = header.attr_id == kAttrPathRecord &&
                      (header.method == kMethodGet || header.method == kMethodGetTable);
    counter = path ? Counter::SaPathQueries : Counter::SaOther;
  } else if (is_smp(header.mgmt_class)) {
    counter = Counter::SmpSent;
  } else if (count_cm_mad(counters_, transaction.port, transaction.mad)) {
    return;
  }
  counters_.add(transaction.port, counter);
}

void Relay::send_locally(std::uint32_t id, Transaction& transaction) {
  const std::optional<PortIndex> target =
      view_.unicast(transaction.port, ntohs(transaction.header.lid));
  if (target) {
    const std::span<const std::uint8_t> mad(transaction.mad.data(), transaction.length);
    const auto agent = find_agent(sessions_, *target, transaction.mad_header, mad);
    if (agent) {
      UmadHeader header;
      header.agent_id = agent->agent_id;
      header.qpn = htonl(1);
      const std::uint32_t lid = view_.brief(transaction.port).lid | transaction.header.path_bits;
      header.lid = htons(static_cast<std::uint16_t>(lid));
      header.sl = transaction.header.sl;
      agent->session->deliver(header, mad);
    }
  }
  if (!transaction.answer_expected) {
    erase(id);
  }
}

void Relay::answer_locally(Session& session, const UmadHeader& header, const MadHeader& mad_header,
                           std::span<const std::uint8_t> mad) {
  const std::optional<PortIndex> target = view_.unicast(session.port(), ntohs(header.lid));
  if (!target) {
    return;
  }
  const auto match = std::find_if(transactions_.begin(), transactions_.end(), [&](const auto& e) {
    const Transaction& waiting = e.second;
    return waiting.port == *target && waiting.answer_expected &&
           waiting.mad_header.tid == mad_header.tid &&
           waiting.mad_header.mgmt_class == mad_header.mgmt_class &&
           !goes_through_ibsim(mad_header.mgmt_class);
  });
  if (match == transactions_.end()) {
    return;
  }
  const auto requester = sessions_.find(match->second.session);
  if (requester != sessions_.end()) {
    UmadHeader reply;
    reply.agent_id = match->second.header.agent_id;
    reply.qpn = htonl(1);
    const std::uint32_t lid = view_.brief(session.port()).lid | header.path_bits;
    reply.lid = htons(static_cast<std::uint16_t>(lid));
    reply.sl = header.sl;
    requester->second->deliver(reply, mad);
  }
  erase(match->first);
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
    const bool directed = transaction.mad_header.mgmt_class == kClassSmDirect;
    packet.dlid = directed ? std::uint16_t{0xFFFF} : ntohs(transaction.header.lid);
    packet.slid = directed ? std::uint16_t{0xFFFF} : std::uint16_t{0};
    packet.dqp = packet.sqp = qp_of(transaction.mad_header.mgmt_class);
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
      handle_packet(packet);
    }
  }
  if (any) {
    pump(now);
  }
}

void Relay::handle_packet(const SimPacket& packet) {
  const auto id = static_cast<std::uint32_t>(get64(packet.mad, kTidOffset) & 0xFFFFFFFF);
  const auto entry = transactions_.find(id);
  if (entry == transactions_.end()) {
    return;
  }
  pool_.forget(id);
  const MadHeader header = get_mad_header(packet.mad);
  Transaction& transaction = entry->second;
  if (packet.status != 0 || !header.is_response() ||
      header.mgmt_class != transaction.mad_header.mgmt_class) {
    return;  // undeliverable: on a real fabric nobody would tell, so the timer decides
  }
  if (header.mgmt_class == kClassSa && header.attr_id == kAttrMcMemberRecord &&
      header.status == 0 && transaction.mad_header.method != kMethodGet) {
    joined_();
  }
  const auto session = sessions_.find(transaction.session);
  if (session != sessions_.end()) {
    Mad mad = packet.mad;
    put64(mad, kTidOffset, transaction.mad_header.tid);
    UmadHeader reply;
    reply.agent_id = transaction.header.agent_id;
    reply.qpn = htonl(packet.sqp);
    reply.lid = htons(packet.slid);
    const std::size_t length =
        header.mgmt_class == kClassSa ? complete_sa_answer(mad, packet.length) : kMadSize;
    const RmppHeader rmpp = get_rmpp_header(mad);
    if (header.mgmt_class == kClassSa && (rmpp.flags & kRmppFlagActive) != 0 &&
        (rmpp.flags & kRmppFlagLast) == 0) {
      log_limited("an answer of the subnet administrator was cut to its first segment");
    }
    session->second->deliver(reply, std::span(mad).first(length));
  }
  erase(id);
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
