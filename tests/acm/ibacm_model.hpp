// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <variant>
#include <vector>

#include "acm/engine/groups.hpp"
#include "acm/mixed_fabric.hpp"
#include "mad/acm.hpp"
#include "mad/rate.hpp"

/// What ibacm does on the wire, in its default mode (paths from the SA), as far as others can see
/// it: one request in flight, three tries at fixed intervals, one transaction id kept for each
/// source, everyone's requests learned from, and a source with another queue pair taken for a
/// restarted service. Written from ibacm's documented behaviour, and none of its code.
namespace wireup::acm::test {

class IbacmModel final : public MixedService {
 public:
  struct Options {
    Duration address_life = std::chrono::hours(24);
    Duration timeout = std::chrono::milliseconds(2000 + 1024);
    unsigned tries = 3;
  };
  struct Outcome {
    mad::AcmAddress address;
    std::optional<mad::PathRecord> path;
  };

  IbacmModel(MixedFabric& fabric, const PortIdentity& port, std::vector<mad::AcmAddress> locals,
             const Options& options)
      : fabric_(fabric), port_(port), locals_(std::move(locals)), options_(options) {
    id_ = fabric_.add(*this);
    join();
  }

  /// A new process on the same port: it knows nothing.
  void restart(Qpn qpn) {
    port_.qpn = qpn;
    entries_.clear();
    waiting_to_send_.clear();
    in_flight_.reset();
    sa_queue_.clear();
    ++incarnation_;
    is_asking_sa_ = false;
    is_joined_ = false;
    join();
  }

  /// A client asks. The outcome comes in `outcomes`.
  void resolve(const mad::AcmAddress& address) {
    Entry& entry = lookup(address);
    if (entry.state == State::Ready) {
      outcomes.push_back({address, entry.path});
      return;
    }
    ++entry.waiters;
    if (entry.state == State::Init) {
      entry.state = State::QueryAddress;
      waiting_to_send_.push_back(address);
      send_next();
    } else if (entry.state == State::AddressKnown) {
      ask_sa(address);
    }
  }

  void deliver(const Datagram& datagram, Instant) override {
    if (!datagram.to.dgid.is_multicast() && datagram.to.qpn != port_.qpn) {
      return;
    }
    const auto message = mad::parse_acm(datagram.bytes);
    if (!message) {
      return;
    }
    if (const auto* request = std::get_if<mad::AcmRequest>(&*message)) {
      handle_request(datagram.from, *request);
    } else {
      handle_response(datagram.from, std::get<mad::AcmResponse>(*message));
    }
  }
  void wake(Instant now) override {
    if (!in_flight_.has_value() || in_flight_->due > now) {
      return;
    }
    if (in_flight_->tries_left > 0) {
      transmit_request(now);
      return;
    }
    const mad::AcmAddress address = in_flight_->address;
    in_flight_.reset();
    if (lookup(address).state == State::QueryAddress) {
      fail(address);
    }
    send_next();
  }
  [[nodiscard]] std::optional<Instant> next_deadline() const override {
    return in_flight_.has_value() ? std::optional(in_flight_->due) : std::nullopt;
  }
  [[nodiscard]] Lid lid() const override { return port_.lid; }
  [[nodiscard]] Gid gid() const override { return port_.gid; }
  [[nodiscard]] Qpn qpn() const override { return port_.qpn; }
  [[nodiscard]] std::size_t id() const { return id_; }

  std::deque<Outcome> outcomes;
  /// By source address: how often its queue pair was another one than the one known.
  std::map<mad::AcmAddress, unsigned> flips;

 private:
  enum class State { Init, QueryAddress, AddressKnown, QueryRoute, Ready };
  struct Entry {
    State state = State::Init;
    Source peer;
    mad::PathRecord path;
    Instant expiry;
    unsigned waiters = 0;
    /// The one request of this source that is to be answered.
    std::optional<Tid> tid;
  };
  struct InFlight {
    mad::AcmAddress address;
    Tid tid;
    Instant due;
    unsigned tries_left = 0;
  };

  void join() {
    mad::McMemberRecord record;
    record.mgid = group_mgid(port_.pkey, 0, mad::kRate10, mad::kMtu2048);
    record.mtu = mad::kMtu2048;
    record.rate = mad::kRate10;
    record.pkey = port_.pkey;
    fabric_.join(id_, record, [this](const mad::McMemberRecord& joined) {
      group_ = joined;
      is_joined_ = true;
      send_next();
    });
  }

  [[nodiscard]] bool is_mine(const mad::AcmAddress& address) const {
    return std::find(locals_.begin(), locals_.end(), address) != locals_.end();
  }

  /// Expiry is noticed here, and nowhere else.
  Entry& lookup(const mad::AcmAddress& address) {
    Entry& entry = entries_[address];
    if (entry.state == State::Ready && entry.expiry <= fabric_.now()) {
      entry = {};
    }
    return entry;
  }

  void send_next() {
    while (is_joined_ && !in_flight_.has_value() && !waiting_to_send_.empty()) {
      const mad::AcmAddress address = waiting_to_send_.front();
      waiting_to_send_.pop_front();
      if (lookup(address).state != State::QueryAddress) {
        continue;
      }
      in_flight_ = InFlight{address, Tid(next_tid_++), {}, options_.tries};
      transmit_request(fabric_.now());
    }
  }

  void transmit_request(Instant now) {
    --in_flight_->tries_left;
    in_flight_->due = now + options_.timeout;
    mad::AcmRequest request{in_flight_->tid, in_flight_->address, locals_.front(), {}};
    request.groups.gids[0] = group_.mgid;
    request.groups.count = 1;
    Destination to;
    to.dlid = group_.mlid;
    to.qpn = Qpn(0xFFFFFF);
    to.dgid = group_.mgid;
    mad::Mad bytes{};
    mad::serialize(request, bytes);
    fabric_.transmit(id_, to, bytes);
  }

  void handle_request(const Source& from, const mad::AcmRequest& request) {
    if (is_mine(request.source)) {
      return;  // its own, come back: the entry of itself absorbs it
    }
    Entry& entry = lookup(request.source);
    const bool is_for_me = is_mine(request.destination);
    if (is_for_me) {
      entry.tid = request.tid;
    }
    if (entry.state == State::Ready && entry.peer.qpn == from.qpn) {
      if (is_for_me) {
        answer(entry);
      }
      return;
    }
    if (entry.state == State::QueryRoute) {
      return;
    }
    if (entry.state == State::Ready) {
      ++flips[request.source];
    }
    if (entry.state != State::AddressKnown) {
      const auto groups = request.groups.span();
      if (std::find(groups.begin(), groups.end(), group_.mgid) == groups.end()) {
        entry.state = State::Init;
        return;
      }
      entry.state = State::AddressKnown;
    }
    entry.peer = from;
    if (is_for_me || entry.waiters > 0) {
      ask_sa(request.source);
    }
  }

  void handle_response(const Source& from, const mad::AcmResponse& response) {
    if (!in_flight_.has_value() || in_flight_->tid != response.tid) {
      return;
    }
    const mad::AcmAddress address = in_flight_->address;
    in_flight_.reset();
    Entry& entry = lookup(address);
    if (entry.state == State::QueryAddress) {
      if (response.status != 0) {
        fail(address);
      } else {
        entry.peer = from;
        entry.state = State::AddressKnown;
        ask_sa(address);
      }
    }
    send_next();
  }

  void answer(Entry& entry) {
    Destination to;
    to.dlid = entry.peer.slid;
    to.qpn = entry.peer.qpn;
    to.dgid = entry.peer.sgid;
    mad::Mad bytes{};
    mad::serialize(mad::AcmResponse{*entry.tid, 0, group_.mgid}, bytes);
    fabric_.transmit(id_, to, bytes);
    entry.tid.reset();
  }

  /// One query in flight for the port.
  void ask_sa(const mad::AcmAddress& address) {
    entries_[address].state = State::QueryRoute;
    sa_queue_.push_back(address);
    ask_next();
  }
  void ask_next() {
    if (is_asking_sa_ || sa_queue_.empty()) {
      return;
    }
    is_asking_sa_ = true;
    const mad::AcmAddress address = sa_queue_.front();
    sa_queue_.pop_front();
    mad::PathRecord record;
    record.sgid = port_.gid;
    record.dgid = entries_[address].peer.sgid;
    record.pkey = port_.pkey;
    fabric_.query(id_, record, [this, address, asked_by = incarnation_](const auto& path) {
      if (asked_by == incarnation_) {
        is_asking_sa_ = false;
        handle_path(address, path);
        ask_next();
      }
    });
  }

  void handle_path(const mad::AcmAddress& address, const std::optional<mad::PathRecord>& path) {
    Entry& entry = entries_[address];
    if (!path.has_value()) {
      fail(address);
      return;
    }
    entry.state = State::Ready;
    entry.path = *path;
    entry.expiry = fabric_.now() + options_.address_life;
    for (; entry.waiters > 0; --entry.waiters) {
      outcomes.push_back({address, entry.path});
    }
    if (entry.tid.has_value()) {
      answer(entry);
    }
  }

  void fail(const mad::AcmAddress& address) {
    Entry& entry = entries_[address];
    for (; entry.waiters > 0; --entry.waiters) {
      outcomes.push_back({address, std::nullopt});
    }
    entry = {};
  }

  MixedFabric& fabric_;
  PortIdentity port_;
  std::vector<mad::AcmAddress> locals_;
  Options options_;
  std::size_t id_ = 0;
  unsigned incarnation_ = 0;
  mad::McMemberRecord group_;
  bool is_joined_ = false;
  std::map<mad::AcmAddress, Entry> entries_;
  std::uint32_t next_tid_ = 1;
  std::deque<mad::AcmAddress> waiting_to_send_;
  std::optional<InFlight> in_flight_;
  std::deque<mad::AcmAddress> sa_queue_;
  bool is_asking_sa_ = false;
};

}  // namespace wireup::acm::test
