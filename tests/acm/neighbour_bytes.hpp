// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace wireup::acm::test {

using Bytes = std::vector<std::uint8_t>;

template <typename T>
void append(Bytes& to, T value) {
  const std::size_t at = to.size();
  to.resize(at + sizeof(T));
  std::memcpy(to.data() + at, &value, sizeof(T));
}

inline void append_padded(Bytes& to, const Bytes& bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
  to.resize((to.size() + 3) / 4 * 4);
}

/// An rtattr.
inline Bytes attribute(std::uint16_t type, const Bytes& value) {
  Bytes bytes;
  append(bytes, static_cast<std::uint16_t>(4 + value.size()));
  append(bytes, type);
  bytes.insert(bytes.end(), value.begin(), value.end());
  return bytes;
}

/// An nlmsghdr with its payload.
inline Bytes netlink_message(std::uint16_t type, std::uint32_t sequence, const Bytes& payload) {
  Bytes bytes;
  append(bytes, static_cast<std::uint32_t>(16 + payload.size()));
  append(bytes, type);
  append(bytes, std::uint16_t{2});  // NLM_F_MULTI
  append(bytes, sequence);
  append(bytes, std::uint32_t{0});
  append_padded(bytes, payload);
  return bytes;
}

/// The hardware address of an IPoIB interface, of the port fe80::`last`.
inline Bytes ipoib_address(std::uint8_t last) {
  Bytes bytes = {0x80, 0x00, 0x04, 0x57, 0xFE, 0x80, 0, 0, 0, 0, 0, 0};
  bytes.resize(19);
  bytes.push_back(last);
  return bytes;
}

constexpr std::uint16_t kReachable = 0x02;

/// RTM_NEWNEIGH with an address and a hardware address.
inline Bytes neighbour(std::uint32_t sequence, std::uint8_t family, const Bytes& address,
                       const Bytes& hardware, std::uint16_t state = kReachable) {
  Bytes payload;
  append(payload, family);
  append(payload, std::uint8_t{0});
  append(payload, std::uint16_t{0});
  append(payload, std::int32_t{3});  // the interface
  append(payload, state);
  append(payload, std::uint8_t{0});
  append(payload, std::uint8_t{1});
  append_padded(payload, attribute(1, address));
  append_padded(payload, attribute(2, hardware));
  append_padded(payload, attribute(3, Bytes(16)));  // NDA_CACHEINFO
  return netlink_message(28, sequence, payload);
}

inline Bytes end_of_table(std::uint32_t sequence) {
  return netlink_message(3, sequence, Bytes(4));
}

inline Bytes joined(const std::vector<Bytes>& parts) {
  Bytes all;
  for (const Bytes& part : parts) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

}  // namespace wireup::acm::test
