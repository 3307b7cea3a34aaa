// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/ids.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "cm/driver/kernel_links.hpp"
#include "cm/driver/kernel_messages.hpp"
#include "cm/engine/types.hpp"
#include "mad/cm.hpp"
#include "rdmacm/kernel_cm.hpp"

namespace wireup::cm {

/// Counts since open.
struct KernelCarrierCounters {
  /// Connections that a call, an event or a deadline ended before they were established.
  std::uint64_t failed = 0;
  /// Refusals of ours whose reason became 28 (consumer): the kernel lets no other pass.
  std::uint64_t reasons_lost = 0;
  /// Messages whose private data the kernel has no room for (RTU, DREQ, DREP).
  std::uint64_t private_data_lost = 0;
  /// Requests of ours that the peer abandoned for a crossing one.
  std::uint64_t abandoned = 0;
  friend bool operator==(const KernelCarrierCounters&,
                         const KernelCarrierCounters&) noexcept = default;
};

/// Carries the engine's connections over the kernel's connection manager instead of its messages:
/// what the engine sends becomes calls of librdmacm, and the kernel's events become the messages
/// that they stand for. The queue pairs are the caller's. Retransmission is the kernel's business:
/// a message that the engine repeats is taken once.
///
/// On InfiniBand connections go by AF_IB addresses, on RoCE by IP ones; both are given the REQ's
/// primary path, so that neither the SA nor the neighbour tables are asked.
///
/// What differs from a carrier of messages:
/// - the communication ids of peers are made up here, and their CA GUID is the interface id of
///   their port's GID: neither comes with an event;
/// - starting PSNs do not travel: they have to be derived_psn();
/// - a REQ holds request_private_limit() bytes of private data; RTU, DREQ and DREP hold none, and
///   reasons of refusals arrive as 28 or 35;
/// - what the engine abandons has to be forgotten here too (forget()).
///
/// Not thread-safe. Never blocks.
class KernelCarrier {
 public:
  struct Options {
    Medium medium = Medium::Infiniband;
    /// What listen() binds to: the port, on RoCE its IP address, and on InfiniBand a partition.
    Gid gid;
    PKey pkey{0xFFFF};
    /// RoCE: the interface of link-local addresses.
    std::uint32_t scope_id = 0;
    /// The port's active MTU, for a REQ whose route the kernel does not tell.
    mad::CmMtu mtu{3};
    /// REQs that the kernel keeps for us.
    int backlog = 1024;
    /// How long the kernel may take for an address, and for a route.
    Duration resolve_limit = std::chrono::seconds(10);
    /// How long a REP or RTU may take. The engine's own deadlines are usually shorter.
    Duration answer_limit = std::chrono::seconds(120);
    /// How long an offered REQ or REP waits for the engine's answer; an MRA makes it longer.
    Duration offer_limit = std::chrono::seconds(60);
    /// How long a release may take, and the kernel's TIMEWAIT.
    Duration release_limit = std::chrono::seconds(10);
    Duration rest_limit = std::chrono::seconds(60);
    std::string device = rdmacm::kKernelCm;
  };

  /// Errors as rdmacm::KernelCm::open. `ops` nullptr: the library itself.
  [[nodiscard]] static Result<KernelCarrier> open(const Options& options,
                                                  const rdmacm::Ops* ops = nullptr);

  /// Takes REQs from now on. On InfiniBand the service id is the kernel's IB port space with a port
  /// made of `number` (the rank's within its node, say), or one of the kernel's choice where that
  /// is taken; on RoCE the TCP port space with a port of the kernel's choice. It is what the engine
  /// listens to and what peers have to be told. Twice is fine.
  [[nodiscard]] Result<ServiceId> listen(std::uint32_t number);
  /// Nothing before listen(), and again when the device was removed.
  [[nodiscard]] std::optional<ServiceId> service_id() const noexcept { return service_id_; }
  /// Ports below the range of those that the kernel gives by itself.
  [[nodiscard]] static constexpr std::uint16_t preferred_port(std::uint32_t number) noexcept {
    return static_cast<std::uint16_t>(0x2000U + number % 0x5000U);
  }

  /// Makes of the engine's message what it stands for. Errors are of messages that the kernel
  /// cannot carry (kernel_messages.hpp, check()); the engine is told of them by a REJ too. What the
  /// kernel refuses is no error: poll() brings a REJ, and poll_failure() the text.
  [[nodiscard]] Result<> send(const Transmit& transmit, Instant now);

  /// Calls `on_message(const Address& from, std::span<const std::uint8_t> bytes)` for at most `max`
  /// messages that events stand for, and does what is due. The callback may call send(). Returns
  /// the number of messages. An error is the event channel's.
  template <typename F>
  [[nodiscard]] Result<std::size_t> poll(F&& on_message, std::size_t max, Instant now) {
    handle_timeout(now);
    std::size_t count = 0;
    std::size_t events = 0;
    while (count < max) {
      if (arrived_.empty()) {
        // Some events stand for no message; they shall not keep us here.
        if (++events > 4 * max) {
          break;
        }
        const auto any = take_event(now);
        if (!any) {
          return fail(any.error());
        }
        if (!*any) {
          break;
        }
        continue;
      }
      const Message message = arrived_.front();
      arrived_.pop_front();
      on_message(message.from, std::span<const std::uint8_t>(message.bytes));
      ++count;
    }
    return count;
  }
  /// Gives up what has waited too long.
  void handle_timeout(Instant now);
  /// When to call poll() although fd() is not readable; nothing: no need to.
  [[nodiscard]] std::optional<Instant> poll_timeout() const noexcept;

  /// What Engine::abandon() is to the engine: ends the connection whose peer's messages have
  /// `theirs` as their local communication id. A REQ that was only offered is refused in a way that
  /// the peer's carrier does not tell its engine, as an abandoned message gets no answer.
  void forget(CommId theirs);
  /// Data of an accepted connection came before the RTU (IBV_EVENT_COMM_EST): tells the kernel, who
  /// need not repeat the REP then. No-op when it was not waiting for the RTU.
  [[nodiscard]] Result<> notify_established(CommId theirs);

  /// Why a REJ that poll() brought came from here and not from the peer: the failed call or event
  /// with its reason. At most kMaxFailures are kept, the latest.
  struct Failure {
    Address peer;
    /// Zero when it was a REQ of the peer that failed.
    Qpn local_qpn;
    Error error;
  };
  static constexpr std::size_t kMaxFailures = 256;
  [[nodiscard]] std::optional<Failure> poll_failure();

  /// fd() needs no arming: it is readable as long as there are events.
  [[nodiscard]] Result<> arm() { return {}; }
  [[nodiscard]] int fd() const noexcept { return kernel_.fd(); }
  [[nodiscard]] Qpn qpn() const noexcept { return kKernelCmQpn; }
  [[nodiscard]] const KernelCarrierCounters& counters() const noexcept { return counters_; }
  /// Events that made no sense and were dropped.
  [[nodiscard]] std::uint64_t odd_events() const noexcept { return kernel_.odd_events(); }
  /// Connections that the kernel has an id for.
  [[nodiscard]] std::size_t connections() const noexcept { return links_.size(); }

 private:
  struct Message {
    Address from;
    mad::Mad bytes{};
  };

  KernelCarrier(rdmacm::KernelCm kernel, const Options& options)
      : options_(options), kernel_(std::move(kernel)) {}

  // Messages of the engine (kernel_calls.cpp).
  [[nodiscard]] Result<> take(const Address& to, const mad::Req& req, Instant now);
  [[nodiscard]] Result<> take(const mad::Rep& rep, Instant now);
  void take(const mad::Rtu& rtu);
  void take(const mad::Rej& rej);
  void take(const mad::Mra& mra, Instant now);
  void take(const Address& to, const mad::Dreq& dreq, Instant now);
  void take(const mad::Drep& drep, Instant now);
  void refuse(const Address& to, const mad::Req& req, const Error& error);

  // Events of the kernel (kernel_events.cpp).
  /// False when there is none.
  [[nodiscard]] Result<bool> take_event(Instant now);
  void handle(const rdmacm::CmEvent& event, Instant now);
  void on_request(const rdmacm::CmEvent& event, Instant now);
  void on_resolved(Link& link, const rdmacm::CmEvent& event, Instant now);
  void on_reply(Link& link, const rdmacm::CmEvent& event, Instant now);
  void on_rejected(Link& link, const rdmacm::CmEvent& event);
  void on_established(Link& link);
  void on_disconnected(Link& link, const rdmacm::CmEvent& event, Instant now);
  void on_error(Link& link, const rdmacm::CmEvent& event);
  void on_listener(const rdmacm::CmEvent& event);

  void enter(Link& link, LinkPhase phase, std::optional<Instant> deadline);
  /// Destroys the id without a word to the engine.
  void end(Link& link);
  /// The same with a REJ to the engine.
  void fail_link(Link& link, const Error& error);
  [[nodiscard]] mad::Rej rej_for(const Link& link, std::uint16_t reason) const noexcept;
  void deliver(const Address& from, const mad::Mad& bytes);
  void note(const Address& peer, Qpn local_qpn, const Error& error);
  [[nodiscard]] Tid next_tid() noexcept { return Tid(++last_tid_); }

  Options options_;
  rdmacm::KernelCm kernel_;
  LinkTable links_;
  std::deque<Message> arrived_;
  std::deque<Failure> failures_;
  rdmacm::IdNumber listener_ = 0;
  std::optional<ServiceId> service_id_;
  std::uint64_t last_tid_ = 0;
  KernelCarrierCounters counters_;
};

}  // namespace wireup::cm
