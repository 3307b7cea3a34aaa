// SPDX-License-Identifier: BSD-3-Clause
// rdma_lookup SOURCE DESTINATION: asks librdmacm for the way between two IPv4 addresses and prints
// the LIDs of the route that it was given. librdmacm asks the host's ibacm.
#include <arpa/inet.h>
#include <infiniband/sa.h>
#include <rdma/rdma_cma.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: rdma_lookup SOURCE DESTINATION\n", stderr);
    return 2;
  }
  sockaddr_in source = {};
  source.sin_family = AF_INET;
  if (inet_pton(AF_INET, argv[1], &source.sin_addr) != 1) {
    return 2;
  }
  rdma_addrinfo hints = {};
  hints.ai_family = AF_INET;
  hints.ai_port_space = RDMA_PS_TCP;
  hints.ai_src_addr = static_cast<sockaddr*>(static_cast<void*>(&source));
  hints.ai_src_len = sizeof source;
  rdma_addrinfo* found = nullptr;
  if (rdma_getaddrinfo(argv[2], "7000", &hints, &found) != 0) {
    std::fprintf(stderr, "rdma_lookup: %s\n", std::strerror(errno));
    return 1;
  }
  if (found->ai_route_len < sizeof(ibv_path_data)) {
    std::puts("no route");
  } else {
    const auto& path = *static_cast<const ibv_path_data*>(found->ai_route);
    std::printf("slid %u dlid %u\n", ntohs(path.path.slid), ntohs(path.path.dlid));
  }
  rdma_freeaddrinfo(found);
  return 0;
}
