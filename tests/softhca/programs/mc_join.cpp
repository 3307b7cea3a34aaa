// SPDX-License-Identifier: BSD-3-Clause
// Joins or leaves a multicast group through the subnet administrator, by libibumad alone:
//   mc_join [--leave] MGID RATE_CODE MTU_CODE [P_KEY]
// MGID is 32 hexadecimal digits. Prints the MAD status and, when it is 0, the group's MLID, rate
// and MTU codes. Exit status 0 granted, 3 refused, 4 no answer, 1 anything else.
#include <arpa/inet.h>
#include <endian.h>
#include <infiniband/umad.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

using Mad = std::array<std::uint8_t, 256>;

void put(Mad& mad, std::size_t at, std::uint64_t value, std::size_t bytes) {
  for (std::size_t i = bytes; i-- > 0; value >>= 8) {
    mad[at + i] = static_cast<std::uint8_t>(value & 0xFF);
  }
}

unsigned get16(const std::uint8_t* bytes) {
  return static_cast<unsigned>(bytes[0] << 8 | bytes[1]);
}

bool put_gid(Mad& mad, std::size_t at, const std::string& hex) {
  if (hex.size() != 32) {
    return false;
  }
  for (std::size_t i = 0; i < 16; ++i) {
    char* end = nullptr;
    const std::string byte = hex.substr(2 * i, 2);
    mad[at + i] = static_cast<std::uint8_t>(std::strtoul(byte.c_str(), &end, 16));
    if (*end != '\0') {
      return false;
    }
  }
  return true;
}

int fail(const char* what) {
  std::fprintf(stderr, "mc_join: %s: %s\n", what, std::strerror(errno));
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  const bool leave = argc > 1 && std::strcmp(argv[1], "--leave") == 0;
  char** arg = argv + (leave ? 2 : 1);
  const int count = argc - (leave ? 2 : 1);
  if (count < 3 || count > 4) {
    std::fputs("usage: mc_join [--leave] MGID RATE_CODE MTU_CODE [P_KEY]\n", stderr);
    return 1;
  }
  constexpr std::size_t kRecord = 56;
  Mad mad{};
  put(mad, 0, 0x01030200U | (leave ? 0x15U : 0x02U), 4);  // base 1, class 3, version 2, method
  put(mad, 8, 0x0000000012345678, 8);
  put(mad, 16, 0x0038, 2);
  // All of a create-or-join request; a leave names the group, the port and the state.
  put(mad, 48, leave ? 0x00010003U : 0x0001B3F7U, 8);
  umad_port_t port;
  if (!put_gid(mad, kRecord, arg[0]) || umad_get_port(nullptr, 0, &port) != 0) {
    return fail("no port, or a malformed MGID");
  }
  put(mad, kRecord + 16, be64toh(port.gid_prefix), 8);
  put(mad, kRecord + 24, be64toh(port.port_guid), 8);
  put(mad, kRecord + 32, 0x80010000, 4);
  const unsigned rate = static_cast<unsigned>(std::strtoul(arg[1], nullptr, 0));
  const unsigned mtu = static_cast<unsigned>(std::strtoul(arg[2], nullptr, 0));
  put(mad, kRecord + 38, 0x80U | mtu, 1);
  put(mad, kRecord + 40, count == 4 ? std::strtoul(arg[3], nullptr, 0) : 0xFFFF, 2);
  put(mad, kRecord + 42, 0x80U | rate, 1);
  put(mad, kRecord + 48, 0x51, 1);

  const int fd = umad_open_port(nullptr, 0);
  const int agent = fd < 0 ? -1 : umad_register(fd, 3, 2, 1, nullptr);
  if (agent < 0) {
    return fail("cannot open the port or register");
  }
  auto* umad = static_cast<ib_user_mad*>(umad_alloc(1, umad_size() + mad.size()));
  umad_set_addr(umad, static_cast<int>(port.sm_lid), 1, static_cast<int>(port.sm_sl),
                static_cast<int>(0x80010000));
  std::memcpy(umad_get_mad(umad), mad.data(), mad.size());
  if (umad_send(fd, agent, umad, 256, 1000, 3) != 0) {
    return fail("umad_send");
  }
  int length = 256;
  const int from = umad_recv(fd, umad, &length, 10000);
  int result = 0;
  if (from != agent || umad_status(umad) != 0) {
    std::fprintf(stderr, "mc_join: no answer: agent %d status %d\n", from, umad_status(umad));
    result = 4;
  } else {
    const auto* answer = static_cast<const std::uint8_t*>(umad_get_mad(umad));
    const unsigned status = get16(answer + 4);
    std::printf("status 0x%04x", status);
    if (status == 0) {
      std::printf(" mlid 0x%04x mtu 0x%02x rate 0x%02x", get16(answer + kRecord + 36),
                  answer[kRecord + 38], answer[kRecord + 42]);
    }
    std::putchar('\n');
    result = status == 0 ? 0 : 3;
  }
  umad_free(umad);
  umad_unregister(fd, agent);
  umad_close_port(fd);
  umad_release_port(&port);
  return result;
}
