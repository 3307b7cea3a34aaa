// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <infiniband/cm.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/unique_fd.hpp"
#include "cm/libibcm/port.hpp"

namespace wireup::cm::ibcm {

/// What libibcm takes for the devices of a fabric: ports with two LIDs each, joined in memory.
/// Thread-safe, since devices have threads.
class Wire {
 public:
  /// True: the message is lost.
  using Filter = std::function<bool(std::uint8_t from_host, mad::CmKind kind)>;

  static Wire& instance() {
    static Wire wire;
    return wire;
  }
  void set_filter(Filter filter) {
    const std::lock_guard lock(mutex_);
    filter_ = std::move(filter);
    copies_.clear();
  }
  /// How many messages of a kind a host has sent since the filter was set.
  unsigned sent(std::uint8_t host, mad::CmKind kind) {
    const std::lock_guard lock(mutex_);
    return copies_[{host, kind}];
  }

  // Hosts are numbers from 1; these are what is known of them.
  static ibv_context* context_of(std::uint8_t host) {
    static std::array<ibv_context, 8> contexts{};
    return &contexts.at(host);
  }
  static std::uint8_t host_of(const ibv_context* context) {
    return static_cast<std::uint8_t>(context - context_of(0));
  }
  static Lid lid_of(std::uint8_t host) { return Lid(static_cast<std::uint16_t>(host * 0x10)); }
  static Guid guid_of(std::uint8_t host) { return Guid(0xA000 + host); }
  static Gid gid_of(std::uint8_t host) { return Gid::make(0xFE80000000000000ULL, guid_of(host)); }

  void join(std::uint8_t host, int wake) {
    const std::lock_guard lock(mutex_);
    inboxes_[host] = Inbox{wake, {}};
  }
  void leave(std::uint8_t host) {
    const std::lock_guard lock(mutex_);
    inboxes_.erase(host);
  }
  void send(std::uint8_t from_host, const Transmit& transmit) {
    const std::lock_guard lock(mutex_);
    const auto to_host = static_cast<std::uint8_t>(transmit.to.dlid.value() / 0x10);
    const auto kind = transmit.kind.value_or(mad::CmKind::Req);
    ++copies_[{from_host, kind}];
    const auto inbox = inboxes_.find(to_host);
    if ((filter_ && filter_(from_host, kind)) || inbox == inboxes_.end()) {
      return;
    }
    Address from;
    from.dlid = Lid(static_cast<std::uint16_t>(lid_of(from_host).value() + transmit.to.path_bits));
    from.qpn = Qpn(1);
    from.sl = transmit.to.sl;
    inbox->second.messages.emplace_back(from, transmit.bytes);
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t put = ::write(inbox->second.wake, &one, sizeof(one));
  }
  std::deque<std::pair<Address, mad::Mad>> take(std::uint8_t host) {
    const std::lock_guard lock(mutex_);
    return std::exchange(inboxes_[host].messages, {});
  }

 private:
  struct Inbox {
    int wake = -1;
    std::deque<std::pair<Address, mad::Mad>> messages;
  };
  std::mutex mutex_;
  Filter filter_;
  std::map<std::uint8_t, Inbox> inboxes_;
  std::map<std::pair<std::uint8_t, mad::CmKind>, unsigned> copies_;
};

class WirePort final : public Port {
 public:
  explicit WirePort(std::uint8_t host)
      : host_(host), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    Wire::instance().join(host_, wake_.value());
  }
  ~WirePort() override { Wire::instance().leave(host_); }

  void send(const Transmit& transmit) override { Wire::instance().send(host_, transmit); }
  void poll(const OnMessage& on_message, std::size_t) override {
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t got = ::read(wake_.value(), &count, sizeof(count));
    for (const auto& [from, bytes] : Wire::instance().take(host_)) {
      on_message(from, bytes);
    }
  }
  [[nodiscard]] int fd() const noexcept override { return wake_.value(); }
  [[nodiscard]] std::uint8_t number() const noexcept override { return 1; }
  [[nodiscard]] Guid node_guid() const noexcept override { return Wire::guid_of(host_); }
  [[nodiscard]] IbTimeout ack_delay() const noexcept override { return IbTimeout(6); }
  [[nodiscard]] std::optional<std::uint8_t> gid_index(const Gid& gid) const override {
    return gid == Wire::gid_of(host_) ? std::optional<std::uint8_t>(0) : std::nullopt;
  }
  [[nodiscard]] std::optional<std::uint16_t> pkey_index(PKey pkey) const override {
    return pkey == PKey(0xFFFF) ? std::optional<std::uint16_t>(3) : std::nullopt;
  }
  [[nodiscard]] std::optional<std::uint8_t> path_bits(Lid lid) const override {
    const int bits = lid.value() - Wire::lid_of(host_).value();
    return bits == 0 || bits == 1 ? std::optional(static_cast<std::uint8_t>(bits)) : std::nullopt;
  }

 private:
  std::uint8_t host_;
  UniqueFd wake_;
};

}  // namespace wireup::cm::ibcm
