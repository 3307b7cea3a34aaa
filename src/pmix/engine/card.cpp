// SPDX-License-Identifier: BSD-3-Clause
#include "pmix/engine/card.hpp"

#include <algorithm>

#include "base/bytes.hpp"

namespace wireup::pmix {
namespace {

// Offsets in the header.
constexpr std::size_t kAtMagic = 0;
constexpr std::size_t kAtVersion = 4;
constexpr std::size_t kAtPortCount = 5;
constexpr std::size_t kAtLength = 6;
constexpr std::size_t kAtIncarnation = 8;
constexpr std::size_t kAtJob = 16;
constexpr std::size_t kAtRank = 24;
constexpr std::size_t kAtQKey = 28;
static_assert(kAtQKey + 4 == Card::kHeaderSize);

// Offsets in a port record.
constexpr std::size_t kAtNodeGuid = 0;
constexpr std::size_t kAtPortGuid = 8;
constexpr std::size_t kAtGid = 16;
constexpr std::size_t kAtLid = 32;
constexpr std::size_t kAtPKey = 34;
constexpr std::size_t kAtQpn = 36;  // 8 bits zero, 24 bits QPN
constexpr std::size_t kAtNumber = 40;
constexpr std::size_t kAtLmc = 41;
constexpr std::size_t kAtMtu = 42;
constexpr std::size_t kAtRate = 43;
constexpr std::size_t kAtSl = 44;
constexpr std::size_t kAtReserved = 45;
static_assert(kAtReserved + 3 == Card::kPortSize);

constexpr std::uint8_t kNoSl = 0xFF;
constexpr std::uint16_t kMaxUnicastLid = 0xBFFF;
constexpr std::uint8_t kMaxLmc = 7;
constexpr std::uint8_t kMaxMtu = 5;
constexpr std::uint8_t kMaxRate = 63;
/// QP1 may carry CM messages of a whole port; QP0 is the subnet management's.
constexpr std::uint32_t kFirstCmQpn = 1;

/// CRC-32 of IEEE 802.3, reflected, as in zlib.
std::uint32_t crc32(std::span<const std::uint8_t> bytes) noexcept {
  std::uint32_t crc = 0xFFFFFFFFU;
  for (const std::uint8_t byte : bytes) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? 0xEDB88320U : 0U);
    }
  }
  return ~crc;
}

/// The first rule that `port` breaks, or nullptr. One list for both directions, so that nothing is
/// published that a peer would refuse.
const char* broken_rule(const CardPort& port) noexcept {
  if (port.node_guid.is_zero() || port.port_guid.is_zero()) {
    return "a GUID is zero";
  }
  if (port.gid.is_zero() || port.gid.is_multicast()) {
    return "the GID is not a unicast GID";
  }
  if (port.lid.value() > kMaxUnicastLid) {
    return "the LID is above 49151, the last unicast LID";
  }
  if (port.pkey.partition() == 0) {
    return "the P_Key names no partition";
  }
  if (port.cm_qpn.value() < kFirstCmQpn) {
    return "the CM QPN is that of the subnet management";
  }
  if (port.number == 0) {
    return "the port number is 0";
  }
  if (port.lmc > kMaxLmc) {
    return "the LMC is above 7";
  }
  if (port.mtu == 0 || port.mtu > kMaxMtu) {
    return "the MTU code is not 1 to 5";
  }
  if (port.rate == 0 || port.rate > kMaxRate) {
    return "the rate code is not 1 to 63";
  }
  return nullptr;
}

void write_port(const CardPort& port, std::span<std::uint8_t> to) noexcept {
  store_be(to, kAtNodeGuid, 8, port.node_guid.value());
  store_be(to, kAtPortGuid, 8, port.port_guid.value());
  std::copy(port.gid.bytes().begin(), port.gid.bytes().end(), to.begin() + kAtGid);
  store_be(to, kAtLid, 2, port.lid.value());
  store_be(to, kAtPKey, 2, port.pkey.value());
  store_be(to, kAtQpn, 4, port.cm_qpn.value());
  to[kAtNumber] = port.number;
  to[kAtLmc] = port.lmc;
  to[kAtMtu] = port.mtu;
  to[kAtRate] = port.rate;
  to[kAtSl] = port.sl ? port.sl->value() : kNoSl;
}

Result<CardPort> read_port(std::span<const std::uint8_t> from, unsigned index) {
  CardPort port;
  port.node_guid = Guid(load_be(from, kAtNodeGuid, 8));
  port.port_guid = Guid(load_be(from, kAtPortGuid, 8));
  Gid::Bytes gid{};
  std::copy_n(from.begin() + kAtGid, Gid::kSize, gid.begin());
  port.gid = Gid(gid);
  port.lid = Lid(static_cast<std::uint16_t>(load_be(from, kAtLid, 2)));
  port.pkey = PKey(static_cast<std::uint16_t>(load_be(from, kAtPKey, 2)));
  const auto qpn = Qpn::make(load_be(from, kAtQpn, 4));
  if (!qpn) {
    return fail(Error::make(Errc::Malformed, "card: port %u: byte %zu, reserved, is %u and not 0",
                            index, kAtQpn, from[kAtQpn]));
  }
  port.cm_qpn = *qpn;
  port.number = from[kAtNumber];
  port.lmc = from[kAtLmc];
  port.mtu = from[kAtMtu];
  port.rate = from[kAtRate];
  if (from[kAtSl] != kNoSl) {
    port.sl = Sl::make(from[kAtSl]);
    if (!port.sl) {
      return fail(
          Error::make(Errc::Malformed, "card: port %u: SL %u is above 15", index, from[kAtSl]));
    }
  }
  if (load_be(from, kAtReserved, 3) != 0) {
    return fail(Error::make(Errc::Malformed, "card: port %u: a reserved byte is not 0", index));
  }
  if (const char* rule = broken_rule(port)) {
    return fail(Error::make(Errc::Malformed, "card: port %u: %s", index, rule));
  }
  return port;
}

}  // namespace

Result<std::vector<std::uint8_t>> serialize(const Card& card) {
  if (card.ports.empty() || card.ports.size() > Card::kMaxPorts) {
    return fail(Error::make(Errc::InvalidArgument, "card: %zu ports, allowed are 1 to %zu",
                            card.ports.size(), Card::kMaxPorts));
  }
  if (card.incarnation == 0) {
    return fail(Error::make(Errc::InvalidArgument, "card: the incarnation is 0"));
  }
  const std::size_t size = Card::kHeaderSize + card.ports.size() * Card::kPortSize + Card::kCrcSize;
  std::vector<std::uint8_t> bytes(size, 0);
  const std::span<std::uint8_t> all(bytes);
  store_be(all, kAtMagic, 4, Card::kMagic);
  all[kAtVersion] = Card::kVersion;
  all[kAtPortCount] = static_cast<std::uint8_t>(card.ports.size());
  store_be(all, kAtLength, 2, size);
  store_be(all, kAtIncarnation, 8, card.incarnation);
  store_be(all, kAtJob, 8, card.owner.job);
  store_be(all, kAtRank, 4, card.owner.rank);
  store_be(all, kAtQKey, 4, card.cm_qkey.value());
  for (std::size_t i = 0; i < card.ports.size(); ++i) {
    if (const char* rule = broken_rule(card.ports[i])) {
      return fail(Error::make(Errc::InvalidArgument, "card: port %zu: %s", i, rule));
    }
    write_port(card.ports[i],
               all.subspan(Card::kHeaderSize + i * Card::kPortSize, Card::kPortSize));
  }
  store_be(all, size - Card::kCrcSize, 4, crc32(all.first(size - Card::kCrcSize)));
  return bytes;
}

Result<Card> parse_card(std::span<const std::uint8_t> bytes) {
  if (bytes.size() < Card::kHeaderSize + Card::kPortSize + Card::kCrcSize ||
      bytes.size() > Card::kMaxSize) {
    return fail(Error::make(Errc::Malformed, "card: %zu bytes, expected %zu to %zu", bytes.size(),
                            Card::kHeaderSize + Card::kPortSize + Card::kCrcSize, Card::kMaxSize));
  }
  if (load_be(bytes, kAtMagic, 4) != Card::kMagic) {
    return fail(Error::make(Errc::Malformed, "card: the first bytes are %08llx, not a wireup card",
                            static_cast<unsigned long long>(load_be(bytes, kAtMagic, 4))));
  }
  if (bytes[kAtVersion] != Card::kVersion) {
    return fail(
        Error::make(Errc::Unsupported,
                    "card: version %u, this wireup knows version %u: use the same wireup on "
                    "all nodes of a job",
                    bytes[kAtVersion], Card::kVersion));
  }
  const std::size_t count = bytes[kAtPortCount];
  const std::size_t expected = Card::kHeaderSize + count * Card::kPortSize + Card::kCrcSize;
  if (count == 0 || count > Card::kMaxPorts || expected != bytes.size() ||
      load_be(bytes, kAtLength, 2) != bytes.size()) {
    return fail(Error::make(
        Errc::Malformed, "card: %zu ports and length field %llu do not fit its %zu bytes", count,
        static_cast<unsigned long long>(load_be(bytes, kAtLength, 2)), bytes.size()));
  }
  const std::size_t covered = bytes.size() - Card::kCrcSize;
  if (load_be(bytes, covered, 4) != crc32(bytes.first(covered))) {
    return fail(Error::make(Errc::Malformed, "card: the checksum does not match"));
  }
  Card card;
  card.incarnation = load_be(bytes, kAtIncarnation, 8);
  if (card.incarnation == 0) {
    return fail(Error::make(Errc::Malformed, "card: the incarnation is 0"));
  }
  card.owner.job = load_be(bytes, kAtJob, 8);
  card.owner.rank = static_cast<std::uint32_t>(load_be(bytes, kAtRank, 4));
  card.cm_qkey = QKey(static_cast<std::uint32_t>(load_be(bytes, kAtQKey, 4)));
  card.ports.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    auto port = read_port(bytes.subspan(Card::kHeaderSize + i * Card::kPortSize, Card::kPortSize),
                          static_cast<unsigned>(i));
    if (!port) {
      return fail(port.error());
    }
    card.ports.push_back(*port);
  }
  return card;
}

}  // namespace wireup::pmix
