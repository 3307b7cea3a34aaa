/* SPDX-License-Identifier: BSD-3-Clause */
/* Every rank sends a datagram to the next one from a UD queue pair of its own, along the path that
 * wireup_resolve() gives. MPI carries the queue pair numbers; there is no connection. */
#include <err.h>
#include <infiniband/verbs.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <wireup/wireup.h>

#define LIMIT_NS UINT64_C(30000000000)
#define QKEY 0x1234
#define GRH_SIZE 40
#define CHECK(good, text) ((good) ? (void)0 : errx(1, "%s", text))

/* The path to `peer`, waited for where it is not known at once. After PATH_CHANGED for path.id, its
 * address handles are to be destroyed and this is to be called again. */
static wireup_path_t resolve(wireup_context_t* context, const wireup_peer_t* peer) {
  wireup_path_t path = {.struct_size = sizeof path};
  CHECK(wireup_resolve(context, peer, NULL, LIMIT_NS, &path) == WIREUP_OK, wireup_last_error());
  while (path.state != WIREUP_PATH_STATE_RESOLVED) {
    wireup_event_t event = {.struct_size = sizeof event};
    CHECK(wireup_wait(context, LIMIT_NS) == WIREUP_OK, wireup_last_error());
    CHECK(!wireup_poll_event(context, &event) || event.type != WIREUP_EVENT_UNRESOLVED, event.text);
    CHECK(wireup_path_info(context, path.id, &path) == WIREUP_OK, wireup_last_error());
  }
  return path;
}

/* A UD queue pair that can send and receive on the port and partition of `path`. */
static struct ibv_qp* open_qp(struct ibv_pd* pd, struct ibv_cq* cq, const wireup_path_t* path) {
  struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UD};
  init.cap = (struct ibv_qp_cap){.max_send_wr = 1, .max_recv_wr = 1, 1, 1, 0};
  struct ibv_qp* qp = ibv_create_qp(pd, &init);
  CHECK(qp != NULL, "making the queue pair failed");
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .qkey = QKEY};
  attr.port_num = path->port;
  attr.pkey_index = path->pkey_index;
  int mask = IBV_QP_STATE | IBV_QP_QKEY | IBV_QP_PORT | IBV_QP_PKEY_INDEX;
  CHECK(ibv_modify_qp(qp, &attr, mask) == 0, "INIT failed");
  attr.qp_state = IBV_QPS_RTR;
  CHECK(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0, "RTR failed");
  attr.qp_state = IBV_QPS_RTS;
  CHECK(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0, "RTS failed");
  return qp;
}

int main(int argc, char** argv) {
  alarm(120); /* nothing here waits longer */
  MPI_Init(&argc, &argv);
  wireup_context_t* context = NULL;
  CHECK(wireup_context_open(NULL, &context) == WIREUP_OK, wireup_last_error());
  uint32_t rank = wireup_rank(context), size = wireup_size(context);
  wireup_peer_t next = {.rank = (rank + 1) % size};
  wireup_path_t path = resolve(context, &next);

  struct ibv_pd* pd = wireup_context_pd(context);
  struct ibv_cq* cq = ibv_create_cq(wireup_context_verbs(context), 2, NULL, NULL, 0);
  CHECK(cq != NULL, "making the completion queue failed");
  struct ibv_qp* qp = open_qp(pd, cq, &path);
  struct {
    uint8_t grh[GRH_SIZE];
    uint32_t value;
  } in = {0};
  uint32_t out = rank;
  struct ibv_mr* in_mr = ibv_reg_mr(pd, &in, sizeof in, IBV_ACCESS_LOCAL_WRITE);
  struct ibv_mr* out_mr = ibv_reg_mr(pd, &out, sizeof out, 0);
  CHECK(in_mr != NULL && out_mr != NULL, "registering memory failed");
  struct ibv_sge in_sge = {(uintptr_t)&in, sizeof in, in_mr->lkey};
  struct ibv_sge out_sge = {(uintptr_t)&out, sizeof out, out_mr->lkey};
  struct ibv_recv_wr receive = {.sg_list = &in_sge, .num_sge = 1}, *bad_receive;
  CHECK(ibv_post_recv(qp, &receive, &bad_receive) == 0, "posting the receive failed");

  /* Also tells that every rank has posted its receive. */
  uint32_t* qpns = calloc(size, sizeof *qpns);
  CHECK(qpns != NULL, "out of memory");
  MPI_Allgather(&qp->qp_num, 1, MPI_UINT32_T, qpns, 1, MPI_UINT32_T, MPI_COMM_WORLD);

  struct ibv_ah_attr attributes;
  CHECK(wireup_path_ah_attr(&path, &attributes) == WIREUP_OK, wireup_last_error());
  struct ibv_ah* ah = ibv_create_ah(pd, &attributes);
  CHECK(ah != NULL, "making the address handle failed");
  struct ibv_send_wr send = {.sg_list = &out_sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad_send;
  send.send_flags = IBV_SEND_SIGNALED;
  send.wr.ud.ah = ah;
  send.wr.ud.remote_qpn = qpns[next.rank];
  send.wr.ud.remote_qkey = QKEY;
  CHECK(ibv_post_send(qp, &send, &bad_send) == 0, "posting the send failed");
  for (int done = 0; done < 2;) {
    struct ibv_wc wc = {0};
    done += ibv_poll_cq(cq, 1, &wc);
    CHECK(wc.status == IBV_WC_SUCCESS, ibv_wc_status_str(wc.status));
  }
  CHECK(in.value == (rank + size - 1) % size, "a datagram of another rank");
  printf("rank %u: LID %u, SL %u, %u bytes, from %s; rank %u has written\n", rank, path.dlid,
         path.sl, path.mtu_bytes, wireup_path_origin_str(path.origin), in.value);

  free(qpns);
  ibv_destroy_ah(ah);
  ibv_destroy_qp(qp);
  ibv_dereg_mr(in_mr);
  ibv_dereg_mr(out_mr);
  ibv_destroy_cq(cq);
  CHECK(wireup_context_close(context, LIMIT_NS) == WIREUP_OK, wireup_last_error());
  MPI_Finalize();
}
