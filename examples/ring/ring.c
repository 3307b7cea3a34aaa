/* SPDX-License-Identifier: BSD-3-Clause */
/* A number travels once around all ranks, over RC queue pairs that wireup connects. No MPI. */
#include <err.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <unistd.h>
#include <wireup/wireup.h>

#define LIMIT_NS UINT64_C(30000000000)
#define CHECK(good, text) ((good) ? (void)0 : errx(1, "%s", text))

/* Waits until `peer` is connected, whichever side asked for it. */
static struct ibv_qp* connected_qp(wireup_context_t* context, const wireup_peer_t* peer) {
  struct ibv_qp* qp = NULL;
  while (wireup_peer_qp(context, peer, &qp) != WIREUP_OK) {
    wireup_event_t event = {.struct_size = sizeof event};
    CHECK(wireup_wait(context, LIMIT_NS) == WIREUP_OK, wireup_last_error());
    CHECK(!wireup_poll_event(context, &event) || event.type != WIREUP_EVENT_FAILED, event.text);
  }
  return qp;
}

static void await_completion(wireup_context_t* context, struct ibv_cq* cq) {
  struct ibv_wc wc = {0};
  while (ibv_poll_cq(cq, 1, &wc) == 0)
    CHECK(wireup_progress(context) == WIREUP_OK, wireup_last_error());
  CHECK(wc.status == IBV_WC_SUCCESS, ibv_wc_status_str(wc.status));
}

int main(void) {
  alarm(60); /* nothing here waits longer */
  wireup_context_t* context = NULL;
  CHECK(wireup_context_open(NULL, &context) == WIREUP_OK, wireup_last_error());
  uint32_t rank = wireup_rank(context), size = wireup_size(context);
  wireup_peer_t next = {.rank = (rank + 1) % size}, previous = {.rank = (rank + size - 1) % size};
  CHECK(wireup_connect(context, &next, LIMIT_NS) == WIREUP_OK, wireup_last_error());
  struct ibv_qp *to = connected_qp(context, &next), *from = connected_qp(context, &previous);

  uint64_t sum = 0;
  struct ibv_mr* mr = ibv_reg_mr(wireup_context_pd(context), &sum, 8, IBV_ACCESS_LOCAL_WRITE);
  CHECK(mr != NULL, "registering memory failed");
  struct ibv_sge sge = {(uintptr_t)&sum, 8, mr->lkey};
  struct ibv_recv_wr receive = {.sg_list = &sge, .num_sge = 1}, *bad_receive;
  struct ibv_send_wr send = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad_send;
  send.send_flags = IBV_SEND_SIGNALED;
  CHECK(ibv_post_recv(from, &receive, &bad_receive) == 0, "posting the receive failed");
  if (rank != 0)
    await_completion(context, wireup_context_recv_cq(context));
  sum += rank;
  CHECK(ibv_post_send(to, &send, &bad_send) == 0, "posting the send failed");
  await_completion(context, wireup_context_send_cq(context));
  if (rank == 0) {
    await_completion(context, wireup_context_recv_cq(context));
    printf("ranks 0 to %u add up to %llu\n", size - 1, (unsigned long long)sum);
  }
  ibv_dereg_mr(mr);
  CHECK(wireup_context_close(context, LIMIT_NS) == WIREUP_OK, wireup_last_error());
}
