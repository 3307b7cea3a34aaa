// SPDX-License-Identifier: BSD-3-Clause
// Executing one work request of a send queue, once.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

#include "softhca/hca/layout.hpp"
#include "softhca/hca/send_request.hpp"

namespace softhca::hca {

class Runtime;

/// What a transport needs to know of the sending QP. The caller holds its send mutex.
struct Sender {
  Runtime& runtime;
  std::uint32_t slot;
  QpRecord& record;
  const ibv_qp_attr& attr;
  SendPath& path;
};

struct Outcome {
  enum class Kind {
    Done,      // with `status` and `byte_len`
    NotReady,  // the responder has no receive posted: RNR NAK with `rnr_timer`
    NoAnswer,  // nothing came back: no path, no such QP, wrong addressing, peer dead
  };
  Kind kind = Kind::Done;
  ibv_wc_status status = IBV_WC_SUCCESS;
  std::uint32_t byte_len = 0;
  std::uint8_t rnr_timer = 0;

  static Outcome done(ibv_wc_status status, std::uint32_t byte_len = 0) {
    return {Kind::Done, status, byte_len, 0};
  }
  static Outcome no_answer() { return {Kind::NoAnswer, IBV_WC_SUCCESS, 0, 0}; }
  static Outcome not_ready(std::uint8_t timer) {
    return {Kind::NotReady, IBV_WC_SUCCESS, 0, timer};
  }
};

/// RC and UC. A UC request that gets no answer or finds no receive is Done with success: it is
/// lost.
Outcome execute_connected(const Sender& sender, const SendRequest& request);

/// UD: always Done.
Outcome execute_datagram(const Sender& sender, const SendRequest& request);

/// IBTA vol 1 table 45: the RNR NAK timer code in nanoseconds.
std::uint64_t rnr_timer_ns(std::uint8_t code);

}  // namespace softhca::hca
