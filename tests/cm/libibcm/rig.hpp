// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "wire.hpp"

namespace wireup::cm::ibcm {

inline constexpr std::uint64_t kService = 0x1000;
/// Never reached, but by what is broken.
inline constexpr int kPatienceMs = 60'000;

struct Acknowledge {
  void operator()(ib_cm_event* event) const { EXPECT_EQ(ib_cm_ack_event(event), 0); }
};
using OwnedEvent = std::unique_ptr<ib_cm_event, Acknowledge>;

/// The event that must come next.
inline OwnedEvent next(ib_cm_device* device, ib_cm_event_type type) {
  pollfd readable{device->fd, POLLIN, 0};
  ib_cm_event* event = nullptr;
  if (::poll(&readable, 1, kPatienceMs) != 1 || ib_cm_get_event(device, &event) != 0) {
    ADD_FAILURE() << "event " << type << " does not come";
    throw std::runtime_error("no event");
  }
  EXPECT_EQ(event->event, type);
  return OwnedEvent(event);
}

inline bool is_quiet(ib_cm_device* device) {
  pollfd readable{device->fd, POLLIN, 0};
  return ::poll(&readable, 1, 0) == 0;
}

inline std::string text_of(const OwnedEvent& event) {
  return static_cast<const char*>(event->private_data);
}

inline void put_gid(ibv_gid& to, const Gid& gid) {
  std::memcpy(to.raw, gid.bytes().data(), sizeof(to.raw));
}

/// From one host to another; `bits` is which of the two LIDs at both ends.
inline ibv_sa_path_rec path_between(std::uint8_t here, std::uint8_t there, unsigned bits = 0) {
  ibv_sa_path_rec path{};
  put_gid(path.sgid, Wire::gid_of(here));
  put_gid(path.dgid, Wire::gid_of(there));
  path.slid = htobe16(static_cast<std::uint16_t>(Wire::lid_of(here).value() + bits));
  path.dlid = htobe16(static_cast<std::uint16_t>(Wire::lid_of(there).value() + bits));
  path.pkey = 0xFFFF;
  path.reversible = 1;
  path.sl = 2;
  path.mtu = IBV_MTU_2048;
  path.rate = IBV_RATE_10_GBPS;
  path.packet_life_time = 8;
  return path;
}

/// Two hosts with a device each, 1 and 2; 2 listens.
class Hosts : public testing::Test {
 protected:
  Hosts() {
    Wire::instance().set_filter({});
    a = ib_cm_open_device(Wire::context_of(1));
    b = ib_cm_open_device(Wire::context_of(2));
    listener = listen(b, kService);
  }
  ~Hosts() override {
    if (listener != nullptr) {
      EXPECT_EQ(ib_cm_destroy_id(listener), 0);
    }
    ib_cm_close_device(a);
    ib_cm_close_device(b);
  }

  static ib_cm_id* create(ib_cm_device* device, void* context = nullptr) {
    ib_cm_id* id = nullptr;
    EXPECT_EQ(ib_cm_create_id(device, &id, context), 0);
    return id;
  }
  static ib_cm_id* listen(ib_cm_device* device, std::uint64_t service, void* context = nullptr) {
    ib_cm_id* id = create(device, context);
    EXPECT_EQ(ib_cm_listen(id, htobe64(service), 0), 0);
    return id;
  }

  /// As a program fills it in; the paths stay with the fixture.
  ib_cm_req_param req_param(std::uint32_t qpn = 0x111) {
    primary = path_between(1, 2);
    ib_cm_req_param param{};
    param.primary_path = &primary;
    param.service_id = htobe64(kService);
    param.qp_num = qpn;
    param.qp_type = IBV_QPT_RC;
    param.starting_psn = 0x1234;
    param.private_data = text;
    param.private_data_len = 6;
    param.responder_resources = 4;
    param.initiator_depth = 2;
    param.remote_cm_response_timeout = 18;
    param.local_cm_response_timeout = 17;
    param.flow_control = 1;
    param.retry_count = 6;
    param.rnr_retry_count = 5;
    param.max_cm_retries = 15;
    return param;
  }
  ib_cm_rep_param rep_param(std::uint32_t qpn = 0x222) {
    ib_cm_rep_param param{};
    param.qp_num = qpn;
    param.starting_psn = 0x5678;
    param.private_data = text;
    param.private_data_len = 6;
    param.responder_resources = 2;
    param.initiator_depth = 3;
    param.target_ack_delay = 7;
    param.failover_accepted = 1;
    param.flow_control = 1;
    param.rnr_retry_count = 4;
    param.srq = 1;
    return param;
  }
  /// REQ_SENT here and REQ_RCVD there.
  void request() {
    ours = create(a);
    ib_cm_req_param param = req_param();
    ASSERT_EQ(ib_cm_send_req(ours, &param), 0) << ib_cm_last_error();
    theirs = next(b, IB_CM_REQ_RECEIVED)->cm_id;
  }
  /// REP_RCVD here and REP_SENT there.
  void reply() {
    request();
    ib_cm_rep_param param = rep_param();
    ASSERT_EQ(ib_cm_send_rep(theirs, &param), 0) << ib_cm_last_error();
    next(a, IB_CM_REP_RECEIVED);
  }
  void establish() {
    reply();
    ASSERT_EQ(ib_cm_send_rtu(ours, text, 6), 0) << ib_cm_last_error();
    next(b, IB_CM_RTU_RECEIVED);
  }
  void destroy_both() {
    EXPECT_EQ(ib_cm_destroy_id(ours), 0);
    EXPECT_EQ(ib_cm_destroy_id(theirs), 0);
  }
  static int fails_with(int status) { return status == -1 ? errno : 0; }

  char text[8] = "hello";
  ibv_sa_path_rec primary{};
  ib_cm_device* a = nullptr;
  ib_cm_device* b = nullptr;
  ib_cm_id* listener = nullptr;
  ib_cm_id* ours = nullptr;
  ib_cm_id* theirs = nullptr;
};

}  // namespace wireup::cm::ibcm
