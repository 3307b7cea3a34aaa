// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/agent/smp_client.hpp"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>

#include "softhca/mad/bytes.hpp"

namespace softhca {
namespace {

// A Linux datagram queue holds 10 packets by default, and ibsim spins while ours is full.
constexpr std::size_t kWindow = 8;
constexpr int kTries = 6;
constexpr int kSilenceMs = 200;
constexpr int kMaxSilences = 5;

}  // namespace

std::vector<SmpReply> SmpClient::exchange(const std::vector<SmpRequest>& requests) {
  struct Flight {
    std::size_t index = 0;
    std::uint32_t tid = 0;
    int tries = 0;
  };
  std::vector<SmpReply> replies(requests.size());
  std::vector<Flight> flights;
  std::vector<std::size_t> again;  // sent before, to be sent once more
  std::vector<int> tries(requests.size(), 0);
  std::size_t next = 0;
  int silences = 0;

  while (alive_ && (next < requests.size() || !again.empty() || !flights.empty())) {
    while (flights.size() < kWindow && (next < requests.size() || !again.empty())) {
      const std::size_t index = again.empty() ? next : again.back();
      const SmpRequest& request = requests[index];
      SimPacket packet;
      packet.dlid = 0xFFFF;
      packet.slid = 0xFFFF;
      const std::uint32_t tid = next_tid_;
      packet.mad = request.content
                       ? make_directed_set(request.path, request.attr_id, request.attr_mod, tid,
                                           *request.content)
                       : make_directed_get(request.path, request.attr_id, request.attr_mod, tid);
      if (!slot_.send(packet)) {
        if (errno != EAGAIN && errno != ENOBUFS) {
          alive_ = false;  // ibsim has gone
        }
        break;
      }
      ++next_tid_;
      ++sent_;
      flights.push_back({index, tid, ++tries[index]});
      if (again.empty()) {
        ++next;
      } else {
        again.pop_back();
      }
    }
    if (!alive_) {
      break;
    }
    SimPacket packet;
    bool any = false;
    while (slot_.receive(packet)) {
      const auto tid = static_cast<std::uint32_t>(get64(packet.mad, kTidOffset) & 0xFFFFFFFF);
      const auto flight = std::find_if(flights.begin(), flights.end(),
                                       [tid](const Flight& f) { return f.tid == tid; });
      if (flight == flights.end()) {
        continue;  // the late answer to an earlier try
      }
      any = true;
      const MadHeader header = get_mad_header(packet.mad);
      if (packet.status != 0 || (header.method & kMethodResponse) == 0) {
        // Given back undelivered: no such way, or ibsim was told to drop some.
        if (flight->tries < kTries) {
          again.push_back(flight->index);
        }
      } else {
        SmpReply& reply = replies[flight->index];
        reply.ok = (header.status & 0x7FFF) == 0;
        std::copy_n(packet.mad.begin() + kSmpDataOffset, kSmpDataSize, reply.data.begin());
      }
      flights.erase(flight);
    }
    if (any) {
      silences = 0;
      continue;
    }
    pollfd wait = {slot_.fd(), POLLIN, 0};
    if (poll(&wait, 1, flights.empty() ? 1 : kSilenceMs) == 0 && !flights.empty()) {
      if (++silences == kMaxSilences) {
        alive_ = false;
      }
      for (const Flight& flight : flights) {
        if (flight.tries < kTries) {
          again.push_back(flight.index);
        }
      }
      flights.clear();
    }
  }
  return replies;
}

SmpReply SmpClient::get(const DirectedPath& path, std::uint16_t attr_id, std::uint32_t attr_mod) {
  return exchange({{path, attr_id, attr_mod}}).front();
}

}  // namespace softhca
