// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/agent/gsi_wire.hpp"

#include <algorithm>

#include "softhca/mad/bytes.hpp"

namespace softhca {
namespace {

constexpr std::uint16_t kStatusBusy = 0x0001;

std::uint8_t answer_method(std::uint8_t method) {
  return method == kMethodSet ? kMethodGet | kMethodResponse : method | kMethodResponse;
}

}  // namespace

void GsiWire::put(const GsiPacket& packet, Instant when, Instant now) {
  if (when <= now) {
    ready_.push_back(packet);
  } else {
    later_.emplace(when, packet);
  }
}

void GsiWire::release(std::size_t rule, Instant now) {
  const auto [first, last] = held_.equal_range(rule);
  for (auto entry = first; entry != last; ++entry) {
    put(entry->second.packet, now, now);
  }
  held_.erase(first, last);
}

void GsiWire::send(const GsiPacket& packet, Instant now) {
  const PortIndex to = view_.unicast(packet.from, packet.dlid).value_or(kNoPort);
  const MadHeader header = get_mad_header(packet.mad);
  const GsiFate fate = faults_.judge(packet.from, to, header, now);
  if (fate.busy && !fate.drop && to != kNoPort) {
    answer_busy(packet, to, now + fate.delay);
  }
  if (!fate.drop && !fate.busy) {
    GsiPacket sent = packet;
    if (fate.corrupted_bit) {
      sent.mad[kMadHeaderSize + *fate.corrupted_bit / 8] ^=
          static_cast<std::uint8_t>(1U << *fate.corrupted_bit % 8);
    }
    for (std::uint32_t i = 0; i < fate.copies; ++i) {
      if (fate.hold) {
        const auto longest = faults_.entries()[*fate.hold].rule.delay;
        held_.emplace(*fate.hold, Held{sent, now + longest});
      } else {
        put(sent, now + fate.delay, now);
      }
    }
  }
  for (const std::size_t rule : fate.passed) {
    release(rule, now);
  }
}

void GsiWire::answer_busy(const GsiPacket& packet, PortIndex to, Instant when) {
  GsiPacket answer = packet;
  answer.from = to;
  answer.slid = packet.dlid;
  answer.dlid = packet.slid;
  answer.has_grh = false;
  answer.mad[3] = answer_method(packet.mad[3]);
  put16(answer.mad, 4, kStatusBusy);
  later_.emplace(when, answer);
}

std::optional<GsiPacket> GsiWire::arrive(Instant now) {
  for (auto entry = held_.begin(); entry != held_.end();) {
    if (entry->second.until <= now) {
      ready_.push_back(entry->second.packet);
      entry = held_.erase(entry);
    } else {
      ++entry;
    }
  }
  while (!later_.empty() && later_.begin()->first <= now) {
    ready_.push_back(later_.begin()->second);
    later_.erase(later_.begin());
  }
  while (!ready_.empty()) {
    GsiPacket packet = ready_.front();
    ready_.pop_front();
    if (reaches(packet)) {
      return packet;
    }
  }
  return std::nullopt;
}

bool GsiWire::reaches(GsiPacket& packet) const {
  const auto to = view_.unicast(packet.from, packet.dlid);
  if (!to) {
    return false;
  }
  packet.to = *to;
  const PortAttr port = view_.port(*to);
  if (packet.has_grh) {
    const auto* const gids = port.gids.begin();
    const auto* const end = gids + std::min<std::size_t>(port.gid_count, port.gids.size());
    const auto* const named = std::find(gids, end, packet.dgid);
    if (named == end) {
      return false;
    }
    packet.gid_index = static_cast<std::uint8_t>(named - gids);
  }
  const auto* const first = port.pkeys.begin();
  const auto* const last = first + std::min<std::size_t>(port.pkey_count, port.pkeys.size());
  const auto* const found =
      std::find_if(first, last, [&](std::uint16_t pkey) { return pkeys_agree(pkey, packet.pkey); });
  packet.pkey_index = static_cast<std::uint16_t>(found - first);
  return found != last;
}

std::optional<Instant> GsiWire::deadline() const {
  std::optional<Instant> first;
  if (!ready_.empty()) {
    first = Instant{};
  }
  if (!later_.empty() && (!first || later_.begin()->first < *first)) {
    first = later_.begin()->first;
  }
  for (const auto& [rule, held] : held_) {
    if (!first || held.until < *first) {
      first = held.until;
    }
  }
  return first;
}

}  // namespace softhca
