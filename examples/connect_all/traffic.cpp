// SPDX-License-Identifier: BSD-3-Clause
#include "connect_all/traffic.hpp"

#include <array>
#include <cstdio>
#include <cstring>

namespace {

struct Header {
  std::uint32_t from;
  std::uint32_t to;
  std::uint64_t checksum;
};
constexpr std::size_t kPayload = Traffic::kMessageSize - sizeof(Header);

/// 64-bit FNV-1a.
std::uint64_t checksum(const std::uint8_t* bytes, std::size_t size) noexcept {
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  for (std::size_t i = 0; i < size; ++i) {
    hash = (hash ^ bytes[i]) * 0x100000001B3ULL;
  }
  return hash;
}

/// Different for every pair and direction, so that a message in the wrong place is noticed.
void compose(std::uint8_t* message, std::uint32_t from, std::uint32_t to) noexcept {
  std::uint8_t* payload = message + sizeof(Header);
  std::uint64_t state = std::uint64_t{from} << 32U | to;
  for (std::size_t i = 0; i < kPayload; ++i) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    payload[i] = static_cast<std::uint8_t>(state >> 56U);
  }
  const Header header{from, to, checksum(payload, kPayload)};
  std::memcpy(message, &header, sizeof header);
}

bool is_good(const std::uint8_t* message, std::uint32_t from, std::uint32_t to) noexcept {
  Header header{};
  std::memcpy(&header, message, sizeof header);
  if (header.from != from || header.to != to ||
      header.checksum != checksum(message + sizeof header, kPayload)) {
    return false;
  }
  std::array<std::uint8_t, Traffic::kMessageSize> expected{};
  compose(expected.data(), from, to);
  return std::memcmp(expected.data(), message, expected.size()) == 0;
}

}  // namespace

Traffic::Traffic(ibv_pd* pd, std::uint32_t rank, std::uint32_t size)
    : rank_(rank),
      buffer_(std::size_t{size} * 2 * kMessageSize),
      sent_(size, State::None),
      received_(size, State::None),
      mr_(ibv_reg_mr(pd, buffer_.data(), buffer_.size(), IBV_ACCESS_LOCAL_WRITE)) {}

Traffic::~Traffic() {
  if (mr_ != nullptr) {
    ibv_dereg_mr(mr_);
  }
}

std::uint8_t* Traffic::outgoing(std::uint32_t peer) noexcept {
  return buffer_.data() + std::size_t{peer} * 2 * kMessageSize;
}

std::uint8_t* Traffic::incoming(std::uint32_t peer) noexcept {
  return outgoing(peer) + kMessageSize;
}

bool Traffic::start(std::uint32_t peer, ibv_qp* qp) {
  ibv_sge in{reinterpret_cast<std::uintptr_t>(incoming(peer)), kMessageSize, mr_->lkey};
  ibv_recv_wr receive{};
  receive.wr_id = peer;
  receive.sg_list = &in;
  receive.num_sge = 1;
  ibv_recv_wr* bad_receive = nullptr;

  compose(outgoing(peer), rank_, peer);
  ibv_sge out{reinterpret_cast<std::uintptr_t>(outgoing(peer)), kMessageSize, mr_->lkey};
  ibv_send_wr send{};
  send.wr_id = peer;
  send.sg_list = &out;
  send.num_sge = 1;
  send.opcode = IBV_WR_SEND;
  send.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* bad_send = nullptr;

  sent_[peer] = received_[peer] = State::Posted;
  if (ibv_post_recv(qp, &receive, &bad_receive) != 0) {
    sent_[peer] = received_[peer] = State::Bad;
    return false;
  }
  if (ibv_post_send(qp, &send, &bad_send) != 0) {
    sent_[peer] = State::Bad;
    return false;
  }
  return true;
}

bool Traffic::poll(ibv_cq* send_cq, ibv_cq* receive_cq) {
  bool any = false;
  std::array<ibv_wc, 16> completions;
  for (ibv_cq* cq : {send_cq, receive_cq}) {
    const bool is_receive = cq == receive_cq;
    const int count = ibv_poll_cq(cq, static_cast<int>(completions.size()), completions.data());
    for (int i = 0; i < count; ++i) {
      take(completions[static_cast<std::size_t>(i)], is_receive ? received_ : sent_, is_receive);
      any = true;
    }
  }
  return any;
}

void Traffic::take(const ibv_wc& completion, std::vector<State>& states, bool is_receive) {
  const auto peer = static_cast<std::uint32_t>(completion.wr_id);
  bool good = completion.status == IBV_WC_SUCCESS;
  if (!good && completion.status != IBV_WC_WR_FLUSH_ERR) {
    std::fprintf(stderr, "rank %u: message %s rank %u: %s\n", rank_, is_receive ? "from" : "to",
                 peer, ibv_wc_status_str(completion.status));
  }
  if (good && is_receive) {
    good = completion.byte_len == kMessageSize && is_good(incoming(peer), peer, rank_);
    if (!good) {
      std::fprintf(stderr, "rank %u: the message from rank %u is damaged\n", rank_, peer);
    }
  }
  if (states[peer] == State::Posted) {
    states[peer] = good ? State::Good : State::Bad;
  }
}

bool Traffic::is_verified(std::uint32_t peer) const noexcept {
  return sent_[peer] == State::Good && received_[peer] == State::Good;
}

bool Traffic::is_over(std::uint32_t peer) const noexcept {
  return sent_[peer] >= State::Good && received_[peer] >= State::Good;
}
