// SPDX-License-Identifier: BSD-3-Clause
#include "conn/driver/qp_table.hpp"

#include <utility>

namespace wireup::conn {

Result<verbs::Qp> QpTable::make() const {
  auto qp = verbs::open_rc_qp(*pd_, options_.qp, send_cq_, receive_cq_);
  if (!qp) {
    return qp;
  }
  if (auto done = verbs::to_init(*qp, options_.port, options_.pkey_index); !done) {
    return fail(done.error());
  }
  return qp;
}

Result<Qpn> QpTable::create(ConnectionId id) {
  if (spare_.empty()) {
    auto qp = make();
    if (!qp) {
      return fail(qp.error());
    }
    spare_.push_back(std::move(*qp));
  }
  Entry& entry = entries_[id];
  entry.qp = std::move(spare_.back());
  spare_.pop_back();
  return entry.qp.qpn();
}

Result<> QpTable::connect(ConnectionId id, const QpAttributes& attributes) {
  const auto entry = entries_.find(id);
  if (entry == entries_.end()) {
    return fail(Error::make(Errc::Internal, "no queue pair to connect"));
  }
  const QpAttributes& a = attributes;
  verbs::RcAttributes rc;
  rc.port = options_.port;
  rc.pkey_index = options_.pkey_index;
  rc.to.dlid = a.dlid;
  rc.to.qpn = a.peer_qpn;
  rc.to.sl = a.sl;
  rc.to.static_rate = a.static_rate;
  rc.to.path_bits = a.path_bits;
  rc.to.global = a.has_grh;
  rc.to.dgid = a.dgid;
  rc.to.flow_label = a.flow_label;
  rc.to.hop_limit = a.hop_limit;
  rc.to.traffic_class = a.traffic_class;
  rc.path_mtu = a.mtu;
  rc.receive_psn = a.receive_psn;
  rc.send_psn = a.send_psn;
  rc.responder_resources = a.responder_resources;
  rc.initiator_depth = a.initiator_depth;
  rc.ack_timeout = a.ack_timeout;
  rc.retry_count = a.retry_count;
  rc.rnr_retry_count = a.rnr_retry_count;
  if (auto done = verbs::to_rtr(entry->second.qp, rc); !done) {
    return done;
  }
  return verbs::to_rts(entry->second.qp, rc);
}

void QpTable::break_off(ConnectionId id) {
  if (const auto entry = entries_.find(id); entry != entries_.end()) {
    // A queue pair that cannot be moved to the error state is of a device that is gone.
    static_cast<void>(verbs::to_error(entry->second.qp));
  }
}

void QpTable::release(ConnectionId id) {
  if (const auto entry = entries_.find(id); entry != entries_.end()) {
    entry->second.released = true;
    erase_if_unused(entry);
  }
}

void QpTable::lend(ConnectionId id) {
  if (const auto entry = entries_.find(id); entry != entries_.end()) {
    entry->second.lent = true;
  }
}

void QpTable::take_back(ConnectionId id) {
  if (const auto entry = entries_.find(id); entry != entries_.end()) {
    entry->second.lent = false;
    erase_if_unused(entry);
  }
}

ibv_qp* QpTable::find(ConnectionId id) const noexcept {
  const auto entry = entries_.find(id);
  return entry != entries_.end() ? entry->second.qp.raw() : nullptr;
}

ConnectionId QpTable::owner(const ibv_qp* qp) const noexcept {
  for (const auto& [id, entry] : entries_) {
    if (entry.qp.raw() == qp) {
      return id;
    }
  }
  return {};
}

bool QpTable::make_spare() {
  if (spare_.size() >= options_.spare) {
    return false;
  }
  auto qp = make();
  if (!qp) {
    options_.spare = 0;
    return false;
  }
  spare_.push_back(std::move(*qp));
  return true;
}

void QpTable::erase_if_unused(Entries::iterator entry) {
  if (entry->second.released && !entry->second.lent) {
    entries_.erase(entry);
  }
}

}  // namespace wireup::conn
