// SPDX-License-Identifier: BSD-3-Clause
//
// qp_attributes [--no-resolver]: a PMIx-only program. Every rank connects to all higher ranks and
// prints, for each of its queue pairs, one line of JSON with what ibv_query_qp() says, to be
// compared with the subnet administrator's path records, and with the event's text. With
// --no-resolver no rank resolves paths for its node.
#include <infiniband/verbs.h>
#include <unistd.h>

#include <cstring>

#include "e2e/programs/report.hpp"

namespace {

using e2e::kSecond;

void print_attributes(wireup_context_t* context, const wireup_event_t& event) {
  const std::uint32_t peer_rank = event.rank;
  const wireup_peer_t peer{nullptr, peer_rank};
  ibv_qp* qp = nullptr;
  e2e::require(wireup_peer_qp(context, &peer, &qp), "qp");
  wireup_peer_info_t info{};
  info.struct_size = sizeof info;
  e2e::require(wireup_peer_info(context, &peer, &info), "info");
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  if (ibv_query_qp(qp, &attr,
                   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                       IBV_QP_SQ_PSN,
                   &init) != 0) {
    std::fprintf(stderr, "ibv_query_qp failed\n");
    std::exit(1);
  }
  std::printf(
      "{\"rank\": %u, \"peer\": %u, \"state\": %d, \"slid\": %u, \"dlid\": %u, \"mtu\": %d, "
      "\"static_rate\": %d, \"sl\": %d, \"record_rate\": %u, \"qpn\": %u, \"dest_qpn\": %u, "
      "\"rq_psn\": %u, \"sq_psn\": %u, \"origin\": \"%s\", \"text\": %s}\n",
      wireup_rank(context), peer_rank, attr.qp_state, info.slid, attr.ah_attr.dlid, attr.path_mtu,
      attr.ah_attr.static_rate, attr.ah_attr.sl, info.rate, qp->qp_num, attr.dest_qp_num,
      attr.rq_psn, attr.sq_psn, wireup_path_origin_str(info.path_origin),
      e2e::quoted(event.text).c_str());
}

}  // namespace

int main(int argc, char** argv) {
  wireup_config_t config{};
  e2e::require(wireup_config_init(&config, sizeof config), "config");
  config.flags = WIREUP_FLAG_HELPER_THREAD;
  if (argc > 1 && std::strcmp(argv[1], "--no-resolver") == 0) {
    config.flags |= WIREUP_FLAG_NO_RESOLVER;
  }
  wireup_context_t* context = nullptr;
  e2e::require(wireup_context_open(&config, &context), "open");
  const std::uint32_t rank = wireup_rank(context);
  const std::uint32_t size = wireup_size(context);
  for (std::uint32_t peer = rank + 1; peer < size; ++peer) {
    const wireup_peer_t target{nullptr, peer};
    e2e::require(wireup_connect(context, &target, 20 * kSecond), "connect");
  }
  const e2e::Stopwatch watch;
  std::uint32_t connected = 0;
  while (connected + 1 < size && watch.milliseconds() < 30'000) {
    wireup_event_t event{};
    if (!e2e::next_event(context, kSecond / 10, event)) {
      continue;
    }
    if (event.type != WIREUP_EVENT_CONNECTED) {
      std::fprintf(stderr, "rank %u: peer %u: %s\n", rank, event.rank, event.text);
      return 1;
    }
    ++connected;
    print_attributes(context, event);
  }
  std::fflush(stdout);
  // The peers read their own ends before this rank closes the connections.
  sleep(2);
  e2e::require(wireup_context_close(context, 5 * kSecond), "close");
  return connected + 1 == size ? 0 : 1;
}
