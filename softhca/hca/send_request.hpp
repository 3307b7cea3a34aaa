// SPDX-License-Identifier: BSD-3-Clause
// A work request of a send queue, while it is executed and while it waits.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "softhca/hca/layout.hpp"
#include "softhca/hca/port_cache.hpp"

namespace softhca::hca {

/// An address vector with what the emulator remembers about it. One per address handle; a UD send
/// refers to it through wr.ud.ah.
struct AddressVector {
  ibv_ah_attr attr{};
  std::uint32_t pd = 0;
  mutable RouteCache route;
};

/// An address handle as the program holds it; `base` comes first, so that the two convert.
struct AddressHandle {
  ibv_ah base{};
  AddressVector av;
};

/// What the executing code sees of a work request. The spans point to the program's list or into a
/// StoredRequest.
struct SendRequest {
  std::uint64_t wr_id = 0;
  std::uint32_t counter = 0;  // place in the send queue
  ibv_wr_opcode opcode = IBV_WR_SEND;
  unsigned flags = 0;
  std::uint32_t imm_data = 0;
  std::span<const ibv_sge> sges;
  std::uint64_t remote_addr = 0;
  std::uint32_t rkey = 0;
  std::uint64_t compare_add = 0;
  std::uint64_t swap = 0;
  const AddressVector* av = nullptr;
  std::uint32_t remote_qpn = 0;
  std::uint32_t remote_qkey = 0;

  [[nodiscard]] bool inline_data() const { return (flags & IBV_SEND_INLINE) != 0; }
  [[nodiscard]] std::uint64_t length() const {
    std::uint64_t total = 0;
    for (const ibv_sge& sge : sges) {
      total += sge.length;
    }
    return total;
  }
};

/// A request with a copy of everything that the program may reuse after posting.
class StoredRequest {
 public:
  explicit StoredRequest(const SendRequest& request);
  StoredRequest(const StoredRequest&) = delete;
  StoredRequest& operator=(const StoredRequest&) = delete;

  [[nodiscard]] const SendRequest& request() const { return request_; }

 private:
  SendRequest request_;
  std::vector<ibv_sge> sges_;
  std::vector<std::uint8_t> inline_data_;
  AddressVector av_;
};

/// How long a request has been tried.
struct RetryState {
  std::uint64_t unanswered_since = 0;  // 0: it was answered last time
  std::uint64_t backoff_ns = 0;
  std::uint32_t rnr_used = 0;
  bool judged = false;  // rules about errors were asked
  /// The peer has done it, but its acknowledgement was lost.
  bool answer_lost = false;
  ibv_wc_status answer = IBV_WC_SUCCESS;
  std::uint32_t answer_bytes = 0;
};

/// Where the sends of a connected QP go.
struct SendPath {
  RouteCache there;
  RouteCache back;
  PortIndex back_from = kNoPort;
  std::uint32_t next_psn = 0;
};

}  // namespace softhca::hca
