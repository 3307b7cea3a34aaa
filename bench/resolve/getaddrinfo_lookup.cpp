// SPDX-License-Identifier: BSD-3-Clause
// getaddrinfo_lookup SOURCE DESTINATION LOOKUPS: asks librdmacm for the way between two IPv4
// addresses again and again; it asks the host's ibacm, which answers from its cache. Prints
// {"ns": …}: median time of one call.
#include <arpa/inet.h>
#include <infiniband/sa.h>
#include <rdma/rdma_cma.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "figures.hpp"

namespace {

constexpr int kPatience = 100;
constexpr long kPauseMicroseconds = 50'000;

/// One call; false when it came back without a route.
bool look_up(const char* destination, sockaddr_in& source) {
  rdma_addrinfo hints = {};
  hints.ai_family = AF_INET;
  hints.ai_flags = RAI_NUMERICHOST;
  hints.ai_port_space = RDMA_PS_TCP;
  hints.ai_src_addr = static_cast<sockaddr*>(static_cast<void*>(&source));
  hints.ai_src_len = sizeof source;
  rdma_addrinfo* found = nullptr;
  if (rdma_getaddrinfo(destination, "7000", &hints, &found) != 0) {
    return false;
  }
  const bool has_route = found->ai_route_len >= sizeof(ibv_path_data);
  rdma_freeaddrinfo(found);
  return has_route;
}

}  // namespace

int main(int argc, char** argv) {
  const int lookups = argc == 4 ? std::atoi(argv[3]) : 0;
  sockaddr_in source = {};
  source.sin_family = AF_INET;
  if (lookups < 1 || inet_pton(AF_INET, argv[1], &source.sin_addr) != 1) {
    std::fputs("usage: getaddrinfo_lookup SOURCE DESTINATION LOOKUPS\n", stderr);
    return 2;
  }
  // The first calls only make ibacm look: a numeric address is answered from the cache or not.
  int tries = 0;
  while (!look_up(argv[2], source)) {
    if (++tries > kPatience) {
      std::fputs("getaddrinfo_lookup: ibacm gives no route\n", stderr);
      return 1;
    }
    const timespec pause{0, kPauseMicroseconds * 1000};
    nanosleep(&pause, nullptr);
  }
  std::vector<double> times;
  for (int i = 0; i < lookups; ++i) {
    const auto start = bench::Clock::now();
    if (!look_up(argv[2], source)) {
      std::fputs("getaddrinfo_lookup: a route that was there is gone\n", stderr);
      return 1;
    }
    times.push_back(bench::microseconds_since(start) * 1000);
  }
  std::printf("{\"ns\": %.1f}\n", bench::quantile(times, 0.5));
  return 0;
}
