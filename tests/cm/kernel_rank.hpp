// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <vector>

#include "cm/driver/kernel_carrier.hpp"
#include "cm/engine/derived_psn.hpp"
#include "cm/engine/engine.hpp"
#include "rdmacm/fake_rdma_cm.hpp"

namespace wireup::cm {

/// An engine over a kernel carrier, with a consumer that does the usual: accepts what is offered,
/// establishes what is accepted.
class KernelRank {
 public:
  KernelRank(Medium medium, std::uint8_t number)
      : medium_(medium), number_(number), engine_(config(), Rng(number)) {
    auto opened = KernelCarrier::open(options(medium, number), &test::FakeRdmaCm::ops());
    EXPECT_TRUE(opened.has_value()) << opened.error().what();
    carrier_.emplace(std::move(*opened));
  }

  [[nodiscard]] static Gid gid_of(Medium medium, std::uint8_t number) {
    if (medium == Medium::Infiniband) {
      return Gid::make(0xFE80000000000000, Guid(0x0002C90300000000U + number));
    }
    return Gid({0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 10, 9, 0, number});
  }
  [[nodiscard]] static KernelCarrier::Options options(Medium medium, std::uint8_t number) {
    KernelCarrier::Options options;
    options.medium = medium;
    options.gid = gid_of(medium, number);
    options.pkey = PKey(0x8001);
    options.device = "/dev/null";
    return options;
  }
  [[nodiscard]] static Config config() {
    Config config;
    config.timewait = std::chrono::milliseconds(200);
    return config;
  }

  [[nodiscard]] Gid gid() const { return gid_of(medium_, number_); }
  void listen() {
    const auto service = carrier_->listen(number_);
    ASSERT_TRUE(service.has_value()) << service.error().what();
    engine_.listen(*service);
  }

  [[nodiscard]] static BoundedBytes<mad::Req::kPrivateSize> request_data() {
    return *BoundedBytes<mad::Req::kPrivateSize>::make(std::array<std::uint8_t, 3>{7, 8, 9});
  }
  [[nodiscard]] ConnectParams connect_params(const Gid& to, std::uint16_t lid, ServiceId service,
                                             std::uint32_t qpn, Instant deadline) const {
    ConnectParams params;
    params.to.qpn = Qpn(1);
    params.to.has_grh = true;
    params.to.dgid = to;
    params.service_id = service;
    params.local_ca_guid = Guid(0xCA00U + number_);
    params.qpn = Qpn(qpn);
    params.path.sgid = gid();
    params.path.dgid = to;
    if (medium_ == Medium::Infiniband) {
      params.to.dlid = Lid(lid);
      params.path.dlid = Lid(lid);
      params.path.slid = Lid(number_);
    }
    params.path.pkey = medium_ == Medium::Infiniband ? PKey(0x8001) : PKey(0xFFFF);
    params.path.mtu = 4;
    params.path.rate = 16;
    params.path.sl = Sl(medium_ == Medium::Infiniband ? 5 : 0);
    params.path.packet_lifetime = 18;
    params.path.hop_limit = medium_ == Medium::Infiniband ? 1 : 64;
    params.path.flow_label = FlowLabel(0x12345);
    params.path.traffic_class = 0x21;
    params.responder_resources = 3;
    params.initiator_depth = 5;
    params.retry_count = mad::RetryCount(6);
    params.rnr_retry_count = mad::RnrRetryCount(2);
    params.srq = true;
    params.private_data = request_data();
    params.starting_psn = derived_psn(params.qpn, params.private_data.span());
    params.deadline = deadline;
    return params;
  }
  Handle connect(const KernelRank& peer, std::uint32_t qpn, Instant now,
                 Duration limit = std::chrono::seconds(30)) {
    return connect(connect_params(peer.gid(), peer.number_,
                                  peer.carrier().service_id().value_or(ServiceId(0x01060007)), qpn,
                                  now + limit),
                   now);
  }
  Handle connect(const ConnectParams& params, Instant now) {
    const auto handle = engine_.connect(params, now);
    EXPECT_TRUE(handle.has_value());
    return handle.value_or(Handle{});
  }

  [[nodiscard]] AcceptParams accept_params(std::uint32_t qpn) const {
    AcceptParams params;
    params.local_ca_guid = Guid(0xCA00U + number_);
    params.qpn = Qpn(qpn);
    params.responder_resources = 4;
    params.initiator_depth = 2;
    params.rnr_retry_count = mad::RnrRetryCount(1);
    params.private_data = *decltype(params.private_data)::make(std::array<std::uint8_t, 2>{5, 6});
    params.starting_psn = derived_psn(params.qpn, params.private_data.span());
    return params;
  }

  /// Does what there is to do; false: nothing.
  bool turn(Instant now) {
    bool any = false;
    engine_.handle_timeout(now);
    while (const auto transmit = engine_.poll_transmit()) {
      any = true;
      if (auto sent = carrier_->send(*transmit, now); !sent) {
        send_errors.push_back(sent.error());
      }
    }
    const auto count = carrier_->poll(
        [&](const Address& from, std::span<const std::uint8_t> bytes) {
          engine_.handle_mad(from, bytes, now);
        },
        64, now);
    if (count) {
      any = any || *count > 0;
    } else {
      poll_errors.push_back(count.error());
      any = true;
    }
    while (const auto event = engine_.poll_event()) {
      any = true;
      events.push_back(*event);
      if (!on_event || !on_event(*event)) {
        usual(*event, now);
      }
    }
    return any;
  }
  [[nodiscard]] std::optional<Instant> next_deadline() const {
    const auto a = engine_.poll_timeout();
    const auto b = carrier_->poll_timeout();
    return a.has_value() && b.has_value() ? std::min(a, b) : a.has_value() ? a : b;
  }

  template <typename T>
  [[nodiscard]] std::vector<T> all() const {
    std::vector<T> found;
    for (const Event& event : events) {
      if (const T* e = std::get_if<T>(&event)) {
        found.push_back(*e);
      }
    }
    return found;
  }
  [[nodiscard]] Engine& engine() { return engine_; }
  [[nodiscard]] KernelCarrier& carrier() { return *carrier_; }
  [[nodiscard]] const KernelCarrier& carrier() const { return *carrier_; }
  void close() { carrier_.reset(); }

  std::vector<Event> events;
  std::vector<Error> send_errors;
  std::vector<Error> poll_errors;
  /// Sees each event first; true = dealt with.
  std::function<bool(const Event&)> on_event;

 private:
  void usual(const Event& event, Instant now) {
    if (const auto* req = std::get_if<ReqReceived>(&event)) {
      EXPECT_TRUE(engine_.accept(req->handle, accept_params(next_qpn_++), now).has_value());
    } else if (const auto* rep = std::get_if<RepReceived>(&event)) {
      EXPECT_TRUE(engine_.establish(rep->handle, {}, now).has_value());
    }
  }

  Medium medium_;
  std::uint8_t number_;
  Engine engine_;
  std::optional<KernelCarrier> carrier_;
  std::uint32_t next_qpn_ = 0x800000;
};

}  // namespace wireup::cm
