// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <span>
#include <variant>
#include <vector>

#include "cm/engine/engine.hpp"
#include "support/byte_source.hpp"

namespace wireup::cm {

/// Two engines under a sequence of commands, messages (lost, copied, reordered, changed) and times
/// that a string of bytes describes, and what must hold after each. For the fuzzer and for
/// properties: every string is a sequence.
///
///   engine 0 ──► flying_[1] ──deliver / change / copy / lose──► engine 1, and back
class EnginePair {
 public:
  explicit EnginePair(std::span<const std::uint8_t> bytes)
      : in_(bytes),
        config_(make_config()),
        ends_{End{Engine(config_, Rng(1)), {}, {}, {}}, End{Engine(config_, Rng(2)), {}, {}, {}}} {
    for (End& end : ends_) {
      for (std::size_t kind = 0; kind < kServices; ++kind) {
        end.engine.listen(service(kind), policy(kind));
      }
      end.engine.serve(service(0));
    }
  }

  /// The first thing that did not hold; null when all did.
  const char* run() {
    std::size_t steps = 0;
    while (failure_ == nullptr && !in_.is_empty() && ++steps < 4096) {
      step();
      look();
    }
    if (failure_ == nullptr) {
      finish();
    }
    return failure_;
  }
  /// Connections that were established on either side.
  [[nodiscard]] std::uint64_t established() const {
    return ends_[0].engine.counters().established + ends_[1].engine.counters().established;
  }

 private:
  static constexpr std::size_t kServices = 8;
  /// On which nobody listens.
  static constexpr std::size_t kMeeting = kServices;
  static constexpr std::size_t kMostFlying = 64;
  static constexpr std::size_t kMostHandles = 64;

  struct Flying {
    Address from;
    mad::Mad bytes{};
  };
  struct End {
    Engine engine;
    std::deque<Flying> arriving;
    std::vector<Handle> handles;
    std::vector<ResolutionId> resolutions;
    std::set<Handle> ended{};
  };

  Config make_config() {
    Config config;
    config.max_connections = 1 + in_.below(12);
    config.max_resolutions = 1 + in_.below(6);
    config.offer_deadline = std::chrono::seconds(1 + in_.below(30));
    config.timewait = std::chrono::milliseconds(10 * in_.next());
    config.stale_guard = std::chrono::milliseconds(10 * in_.below(50));
    if (in_.below(4) == 0) {
      config.timewait.reset();
    }
    return config;
  }
  static ServiceId service(std::size_t kind) { return ServiceId(0x1000 + kind); }
  static Policy policy(std::size_t kind) {
    Policy policy;
    policy.timers = (kind & 1U) != 0 ? Timers::Iba : Timers::Adaptive;
    policy.answers_release = (kind & 2U) == 0;
    policy.takes_alternate_paths = (kind & 4U) != 0;
    policy.patience = IbTimeout(static_cast<std::uint8_t>((kind & 4U) != 0 ? 14 : 0));
    return policy;
  }
  static Address address(std::size_t end) {
    Address address;
    address.dlid = Lid(static_cast<std::uint16_t>(10 + end));
    address.qpn = Qpn(static_cast<std::uint32_t>(0x1000 + end));
    return address;
  }
  [[nodiscard]] Qpn some_qpn() { return Qpn(static_cast<std::uint32_t>(0x500 + in_.below(6))); }
  [[nodiscard]] Instant some_deadline() {
    return now_ + std::chrono::milliseconds(in_.next() * 40);
  }
  [[nodiscard]] static mad::PathRecord path(std::size_t from) {
    mad::PathRecord path;
    path.slid = address(from).dlid;
    path.dlid = address(1 - from).dlid;
    path.mtu = 4;
    path.rate = 7;
    path.packet_lifetime = 12;
    return path;
  }

  void step() {
    const std::size_t which = in_.below(2);
    End& end = ends_[which];
    switch (in_.below(16)) {
      case 0:
      case 1:
        connect(which);
        break;
      case 2:
      case 3:
        answer(end, which);
        break;
      case 4:
        finish_one(end);
        break;
      case 5:
        alternate(end, which);
        break;
      case 6:
        sidr(end, which);
        break;
      case 7:
      case 8:
      case 9:
      case 10:
        arrive(end, 0);
        break;
      case 11:
        arrive(end, 1 + in_.below(4));
        break;
      case 12:
        noise(end, which);
        break;
      case 13:
        check(Engine(end.engine) == end.engine, "a copy is equal");
        restart(end);
        break;
      case 14:
        sleep(std::chrono::milliseconds(in_.next()));
        break;
      default:
        sleep_until_something();
        break;
    }
  }

  void connect(std::size_t which) {
    End& end = ends_[which];
    ConnectParams params;
    params.to = address(1 - which);
    const std::size_t kind = in_.below(kServices + 2);
    params.service_id = service(kind);
    params.peer_to_peer = kind == kMeeting;
    params.policy = policy(in_.below(kServices));
    params.local_ca_guid = Guid(0xA0 + which);
    params.qpn = some_qpn();
    params.path = path(which);
    params.deadline = some_deadline();
    params.remote_cm_response_timeout = IbTimeout(static_cast<std::uint8_t>(in_.below(32)));
    params.local_cm_response_timeout = IbTimeout(static_cast<std::uint8_t>(in_.below(32)));
    params.max_cm_retries = mad::CmRetryCount(static_cast<std::uint8_t>(in_.below(16)));
    if (in_.below(8) == 0) {
      params.transport_service = mad::TransportService::Extended;
      params.extended_transport = mad::ExtendedTransport(1);
    }
    if (const auto handle = end.engine.connect(params, now_)) {
      remember(end, *handle);
    }
  }
  void answer(End& end, std::size_t which) {
    const auto handle = some_handle(end);
    switch (in_.below(8)) {
      case 0:
      case 1:
      case 2: {
        AcceptParams params;
        params.local_ca_guid = Guid(0xA0 + which);
        params.qpn = some_qpn();
        if (in_.below(2) == 0) {
          params.deadline = some_deadline();
        }
        forget_result(end.engine.accept(handle, params, now_));
        break;
      }
      case 3:
      case 4:
      case 5:
        forget_result(end.engine.establish(handle, {}, now_));
        break;
      case 6:
        forget_result(end.engine.reject(handle, static_cast<mad::RejReason>(1 + in_.below(35)), {},
                                        {}, now_));
        break;
      default:
        forget_result(end.engine.delay(handle, IbTimeout(static_cast<std::uint8_t>(in_.below(32))),
                                       {}, now_));
        break;
    }
  }
  void finish_one(End& end) {
    const auto handle = some_handle(end);
    switch (in_.below(5)) {
      case 0:
        forget_result(end.engine.notify_established(handle, now_));
        break;
      case 1:
        end.engine.abandon(handle, now_);
        break;
      case 2:
        forget_result(end.engine.release(handle, {}, now_));
        break;
      default:
        forget_result(end.engine.disconnect(handle, {}, now_));
        break;
    }
  }
  void alternate(End& end, std::size_t which) {
    const auto handle = some_handle(end);
    switch (in_.below(4)) {
      case 0: {
        AprParams params;
        params.status = static_cast<mad::AprStatus>(in_.below(14));
        forget_result(end.engine.answer_alternate(handle, params, now_));
        break;
      }
      case 1: {
        Address to = address(1 - which);
        to.qpn = Qpn(static_cast<std::uint32_t>(to.qpn.value() + 0x100 * in_.below(2)));
        forget_result(end.engine.migrated(handle, to, now_));
        break;
      }
      default: {
        LapParams params;
        params.path = path(which);
        params.deadline = some_deadline();
        forget_result(end.engine.load_alternate(handle, params, now_));
        break;
      }
    }
  }
  void sidr(End& end, std::size_t which) {
    switch (in_.below(4)) {
      case 0:
        if (!end.resolutions.empty()) {
          const auto id = end.resolutions[in_.below(end.resolutions.size())];
          forget_result(end.engine.answer_service(id, {}, now_));
        }
        break;
      case 1:
        if (!end.resolutions.empty()) {
          end.engine.abandon(end.resolutions[in_.below(end.resolutions.size())]);
        }
        break;
      default: {
        SidrParams params;
        params.to = address(1 - which);
        params.service_id = service(in_.below(2));
        params.deadline = some_deadline();
        params.timers = in_.below(2) == 0 ? Timers::Iba : Timers::Adaptive;
        params.iba_interval = std::chrono::milliseconds(in_.next());
        params.max_cm_retries = in_.next();
        if (const auto id = end.engine.resolve_service(params, now_)) {
          end.resolutions.push_back(*id);
        }
        break;
      }
    }
  }
  /// The next datagram, or another one, or its copy; with some of its bytes changed.
  void arrive(End& end, std::size_t changes) {
    if (end.arriving.empty()) {
      return;
    }
    const auto how = in_.below(8);
    const std::size_t at = how < 5 ? 0 : in_.below(end.arriving.size());
    Flying flying = end.arriving[at];
    if (how != 7) {
      end.arriving.erase(end.arriving.begin() + static_cast<std::ptrdiff_t>(at));
    }
    if (how == 6) {
      return;  // lost
    }
    for (; changes > 0; --changes) {
      flying.bytes[in_.below(128)] = in_.next();
    }
    end.engine.handle_mad(flying.from, flying.bytes, now_);
  }
  void noise(End& end, std::size_t which) {
    mad::Mad bytes{};
    bytes[0] = 1;
    bytes[1] = 0x07;
    bytes[2] = 2;
    bytes[3] = static_cast<std::uint8_t>(in_.below(4) == 0 ? in_.next() : 3);
    bytes[17] = static_cast<std::uint8_t>(0x0F + in_.below(13));
    for (std::size_t count = in_.below(24); count > 0; --count) {
      bytes[24 + in_.below(232)] = in_.next();
    }
    Address from = address(1 - which);
    from.has_grh = in_.below(2) == 0;
    from.dlid = Lid(static_cast<std::uint16_t>(from.dlid.value() + in_.below(2)));
    const std::size_t size = in_.below(8) == 0 ? in_.next() : bytes.size();
    end.engine.handle_mad(from, std::span(bytes).first(size), now_);
  }
  /// The process is gone; what it knew its handles by means nothing to the next.
  void restart(End& end) {
    if (in_.below(8) != 0) {
      return;
    }
    Engine next(config_, Rng(3 + in_.next()));
    for (std::size_t kind = 0; kind < kServices; ++kind) {
      next.listen(service(kind), policy(kind));
    }
    end.engine = next;
    end.handles.clear();
    end.resolutions.clear();
    end.ended.clear();
  }
  void sleep(Duration duration) {
    now_ += duration;
    for (End& end : ends_) {
      end.engine.handle_timeout(now_);
      check(!end.engine.poll_timeout().has_value() || *end.engine.poll_timeout() > now_,
            "handle_timeout() leaves nothing due");
    }
  }
  void sleep_until_something() {
    std::optional<Instant> next;
    for (const End& end : ends_) {
      const auto deadline = end.engine.poll_timeout();
      if (deadline.has_value() && (!next.has_value() || *deadline < *next)) {
        next = deadline;
      }
    }
    if (next.has_value()) {
      sleep(std::max(*next - now_, Duration::zero()));
    }
  }

  static void forget_result(const Result<>&) {}
  void remember(End& end, Handle handle) {
    if (std::find(end.handles.begin(), end.handles.end(), handle) == end.handles.end()) {
      end.handles.push_back(handle);
    }
    if (end.handles.size() > kMostHandles) {
      // Who forgets a handle gives it up.
      end.engine.abandon(end.handles.front(), now_);
      end.handles.erase(end.handles.begin());
    }
  }
  Handle some_handle(const End& end) {
    // The latest one every other time: it is alive.
    const std::size_t at = in_.next();
    if (end.handles.empty()) {
      return {};
    }
    return at % 2 == 0 ? end.handles.back() : end.handles[at / 2 % end.handles.size()];
  }

  void look() {
    for (std::size_t which = 0; which < ends_.size(); ++which) {
      drain(which);
      const Engine& engine = ends_[which].engine;
      check(engine.connections() <= config_.max_connections, "connections are bounded");
      check(engine.resolutions() <= config_.max_resolutions, "resolutions are bounded");
      check(engine.connections() + engine.resolutions() > 0 || !engine.poll_timeout().has_value(),
            "who has nothing waits for nothing");
    }
  }
  void drain(std::size_t which) {
    End& end = ends_[which];
    while (const auto transmit = end.engine.poll_transmit()) {
      const auto message = mad::parse_cm(transmit->bytes);
      check(message.has_value() == transmit->kind.has_value(), "what is sent is of the format");
      check(!message.has_value() || mad::kind_of(*message) == *transmit->kind,
            "what is sent is what it says");
      if (transmit->to == address(which) || ends_[1 - which].arriving.size() >= kMostFlying) {
        continue;
      }
      ends_[1 - which].arriving.push_back({address(which), transmit->bytes});
    }
    while (const auto event = end.engine.poll_event()) {
      handle(end, *event);
    }
    while (const auto event = end.engine.poll_sidr_event()) {
      if (const auto* req = std::get_if<SidrReqReceived>(&*event)) {
        end.resolutions.push_back(req->id);
      }
    }
  }
  void handle(End& end, const Event& event) {
    const Handle of = handle_of(event);
    if (std::holds_alternative<ReqReceived>(event)) {
      remember(end, of);
    } else if (std::holds_alternative<Rejected>(event) || std::holds_alternative<Failed>(event) ||
               std::holds_alternative<Disconnected>(event)) {
      check(end.ended.insert(of).second, "a connection ends once");
    } else if (std::holds_alternative<TimewaitExit>(event)) {
      check(!end.engine.state(of).has_value(), "after TIMEWAIT the handle is not valid any more");
    }
  }
  /// Everything given up and every datagram lost: the time brings both engines to rest.
  void finish() {
    for (End& end : ends_) {
      end.arriving.clear();
      for (const Handle handle : end.handles) {
        end.engine.abandon(handle, now_);
      }
    }
    for (int i = 0; i < 10000 && failure_ == nullptr; ++i) {
      sleep_until_something();
      look();
      for (End& end : ends_) {
        end.arriving.clear();
      }
    }
    for (const End& end : ends_) {
      check(end.engine.connections() == 0, "no connection is left");
      check(end.engine.resolutions() == 0, "no resolution is left");
      check(!end.engine.poll_timeout().has_value(), "no timer is left");
    }
  }
  void check(bool holds, const char* what) {
    if (!holds && failure_ == nullptr) {
      failure_ = what;
    }
  }

  test::ByteSource in_;
  Config config_;
  std::array<End, 2> ends_;
  Instant now_{std::chrono::seconds(1)};
  const char* failure_ = nullptr;
};

}  // namespace wireup::cm
