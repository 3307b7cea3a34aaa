/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two programs that connect through libibcm and play ping-pong over the queue pairs which
 * ib_cm_init_qp_attr() moved: nothing but libibcm and verbs.
 *
 *   ibcm_pair server [ROUNDS]             says its LID and GID, serves one client, ends
 *   ibcm_pair client LID GID [ROUNDS]     asks by SIDR whether the service is there, connects
 *
 * The path between them is written by hand, as for a fabric whose SL is 0 everywhere; programs that
 * want the subnet administrator's take it from ib_acm_resolve_path().
 */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/cm.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { kService = 0x77697265, kPort = 1, kRounds = 100, kPatienceMs = 60000 };

struct pair {
  struct ibv_context* verbs;
  struct ib_cm_device* cm;
  struct ibv_pd* pd;
  struct ibv_cq* cq;
  struct ibv_qp* qp;
  struct ibv_mr* mr;
  struct ib_cm_id* id;
  union ibv_gid gid;
  uint16_t lid;
  unsigned ball;
};

static void die(const char* what) {
  fprintf(stderr, "ibcm_pair: %s: %s (%s)\n", what, strerror(errno), ib_cm_last_error());
  exit(1);
}

static void must(int status, const char* what) {
  if (status != 0) {
    die(what);
  }
}

static void open_all(struct pair* pair) {
  struct ibv_device** devices = ibv_get_device_list(NULL);
  struct ibv_qp_init_attr init;
  struct ibv_port_attr port;
  if (devices == NULL || devices[0] == NULL) {
    die("there is no device");
  }
  pair->verbs = ibv_open_device(devices[0]);
  ibv_free_device_list(devices);
  if (pair->verbs == NULL || ibv_query_port(pair->verbs, kPort, &port) != 0 ||
      ibv_query_gid(pair->verbs, kPort, 0, &pair->gid) != 0) {
    die("opening the device");
  }
  pair->lid = port.lid;
  pair->cm = ib_cm_open_device(pair->verbs);
  if (pair->cm == NULL) {
    die("opening its connection manager");
  }
  pair->pd = ibv_alloc_pd(pair->verbs);
  pair->cq = ibv_create_cq(pair->verbs, 8, NULL, NULL, 0);
  memset(&init, 0, sizeof init);
  init.send_cq = pair->cq;
  init.recv_cq = pair->cq;
  init.qp_type = IBV_QPT_RC;
  init.cap.max_send_wr = init.cap.max_recv_wr = 4;
  init.cap.max_send_sge = init.cap.max_recv_sge = 1;
  pair->qp = pair->pd != NULL && pair->cq != NULL ? ibv_create_qp(pair->pd, &init) : NULL;
  pair->mr = pair->qp != NULL
                 ? ibv_reg_mr(pair->pd, &pair->ball, sizeof pair->ball, IBV_ACCESS_LOCAL_WRITE)
                 : NULL;
  if (pair->mr == NULL) {
    die("making a queue pair");
  }
}

static void close_all(struct pair* pair) {
  must(ib_cm_destroy_id(pair->id), "destroying the connection");
  ibv_destroy_qp(pair->qp);
  ibv_dereg_mr(pair->mr);
  ibv_destroy_cq(pair->cq);
  ibv_dealloc_pd(pair->pd);
  ib_cm_close_device(pair->cm);
  ibv_close_device(pair->verbs);
}

/* The next event, which must be of this type. The caller acknowledges it. */
static struct ib_cm_event* next(struct pair* pair, enum ib_cm_event_type type) {
  struct pollfd readable = {pair->cm->fd, POLLIN, 0};
  struct ib_cm_event* event;
  errno = ETIMEDOUT;
  if (poll(&readable, 1, kPatienceMs) != 1) {
    die("waiting for an event");
  }
  must(ib_cm_get_event(pair->cm, &event), "getting an event");
  if (event->event != type) {
    fprintf(stderr, "ibcm_pair: event %d came, %d was expected\n", (int)event->event, (int)type);
    exit(1);
  }
  return event;
}

static void expect(struct pair* pair, enum ib_cm_event_type type) {
  must(ib_cm_ack_event(next(pair, type)), "acknowledging an event");
}

static void move_qp(struct pair* pair, enum ibv_qp_state state) {
  struct ibv_qp_attr attr;
  int mask;
  memset(&attr, 0, sizeof attr);
  attr.qp_state = state;
  must(ib_cm_init_qp_attr(pair->id, &attr, &mask), "asking for the queue pair's attributes");
  if (state == IBV_QPS_RTR) {
    attr.min_rnr_timer = 12; /* 0.64 ms; what the call says is 655 */
  }
  errno = ibv_modify_qp(pair->qp, &attr, mask);
  must(errno, "moving the queue pair");
}

static void post_receive(struct pair* pair) {
  struct ibv_sge piece = {(uintptr_t)&pair->ball, sizeof pair->ball, pair->mr->lkey};
  struct ibv_recv_wr work;
  struct ibv_recv_wr* bad;
  memset(&work, 0, sizeof work);
  work.sg_list = &piece;
  work.num_sge = 1;
  errno = ibv_post_recv(pair->qp, &work, &bad);
  must(errno, "posting a receive");
}

static void post_send(struct pair* pair) {
  struct ibv_sge piece = {(uintptr_t)&pair->ball, sizeof pair->ball, pair->mr->lkey};
  struct ibv_send_wr work;
  struct ibv_send_wr* bad;
  memset(&work, 0, sizeof work);
  work.sg_list = &piece;
  work.num_sge = 1;
  work.opcode = IBV_WR_SEND;
  work.send_flags = IBV_SEND_SIGNALED;
  errno = ibv_post_send(pair->qp, &work, &bad);
  must(errno, "posting a send");
}

static void complete(struct pair* pair, enum ibv_wc_opcode opcode) {
  const time_t until = time(NULL) + kPatienceMs / 1000;
  struct ibv_wc done;
  int count = 0;
  while (count == 0 && time(NULL) < until) {
    count = ibv_poll_cq(pair->cq, 1, &done);
  }
  if (count != 1 || done.status != IBV_WC_SUCCESS || done.opcode != opcode) {
    fprintf(stderr, "ibcm_pair: a message failed: %s\n",
            count == 1 ? ibv_wc_status_str(done.status) : "nothing came");
    exit(1);
  }
}

/* The client throws first; each one that throws adds one. */
static void play(struct pair* pair, int rounds, int throws) {
  int i;
  for (i = 0; i < 2 * rounds; ++i) {
    if (throws) {
      ++pair->ball;
      post_send(pair);
      complete(pair, IBV_WC_SEND);
      post_receive(pair);
    } else {
      complete(pair, IBV_WC_RECV);
    }
    throws = !throws;
  }
  printf("%u throws\n", pair->ball);
}

static int serve(int rounds) {
  struct pair pair;
  struct ib_cm_id* listener;
  struct ib_cm_event* event;
  struct ib_cm_sidr_rep_param found;
  struct ib_cm_rep_param rep;
  char gid[INET6_ADDRSTRLEN];
  memset(&pair, 0, sizeof pair);
  open_all(&pair);
  must(ib_cm_create_id(pair.cm, &listener, NULL), "making an id");
  must(ib_cm_listen(listener, htobe64(kService), 0), "listening");
  printf("lid %u gid %s\n", pair.lid, inet_ntop(AF_INET6, pair.gid.raw, gid, sizeof gid));
  fflush(stdout);

  event = next(&pair, IB_CM_SIDR_REQ_RECEIVED);
  memset(&found, 0, sizeof found);
  found.qp_num = pair.qp->qp_num;
  found.status = IB_SIDR_SUCCESS;
  must(ib_cm_send_sidr_rep(event->cm_id, &found), "answering the question for the service");
  must(ib_cm_destroy_id(event->cm_id), "destroying the question");
  must(ib_cm_ack_event(event), "acknowledging an event");

  event = next(&pair, IB_CM_REQ_RECEIVED);
  pair.id = event->cm_id;
  memset(&rep, 0, sizeof rep);
  rep.qp_num = pair.qp->qp_num;
  rep.starting_psn = 0x200;
  rep.responder_resources = event->param.req_rcvd.responder_resources;
  rep.initiator_depth = event->param.req_rcvd.initiator_depth;
  rep.target_ack_delay = 15;
  rep.rnr_retry_count = event->param.req_rcvd.rnr_retry_count;
  must(ib_cm_ack_event(event), "acknowledging an event");
  /* RTR needs the PSN of our REP, which is not sent before there are receives. */
  move_qp(&pair, IBV_QPS_INIT);
  post_receive(&pair);
  must(ib_cm_send_rep(pair.id, &rep), "accepting");
  move_qp(&pair, IBV_QPS_RTR);
  move_qp(&pair, IBV_QPS_RTS);
  expect(&pair, IB_CM_RTU_RECEIVED);
  play(&pair, rounds, 0);

  expect(&pair, IB_CM_DREQ_RECEIVED);
  must(ib_cm_send_drep(pair.id, NULL, 0), "answering the release");
  expect(&pair, IB_CM_TIMEWAIT_EXIT);
  must(ib_cm_destroy_id(listener), "destroying the listener");
  close_all(&pair);
  return 0;
}

static struct ibv_sa_path_rec path_to(const struct pair* pair, uint16_t lid,
                                      const union ibv_gid* gid) {
  struct ibv_sa_path_rec path;
  memset(&path, 0, sizeof path);
  path.sgid = pair->gid;
  path.dgid = *gid;
  path.slid = htobe16(pair->lid);
  path.dlid = htobe16(lid);
  path.reversible = 1;
  path.pkey = htobe16(0xFFFF);
  path.mtu = IBV_MTU_2048;
  path.rate = IBV_RATE_10_GBPS;
  path.packet_life_time = 14;
  return path;
}

static int call(uint16_t lid, const union ibv_gid* gid, int rounds) {
  struct pair pair;
  struct ibv_sa_path_rec path;
  struct ib_cm_sidr_req_param question;
  struct ib_cm_req_param req;
  struct ib_cm_event* event;
  struct ib_cm_id* asker;
  memset(&pair, 0, sizeof pair);
  open_all(&pair);
  path = path_to(&pair, lid, gid);

  must(ib_cm_create_id(pair.cm, &asker, NULL), "making an id");
  memset(&question, 0, sizeof question);
  question.path = &path;
  question.service_id = htobe64(kService);
  question.timeout_ms = 1000;
  question.max_cm_retries = 15;
  must(ib_cm_send_sidr_req(asker, &question), "asking for the service");
  event = next(&pair, IB_CM_SIDR_REP_RECEIVED);
  if (event->param.sidr_rep_rcvd.status != IB_SIDR_SUCCESS) {
    fprintf(stderr, "ibcm_pair: there is no such service\n");
    exit(1);
  }
  printf("service at queue pair 0x%06x\n", event->param.sidr_rep_rcvd.qpn);
  must(ib_cm_ack_event(event), "acknowledging an event");
  must(ib_cm_destroy_id(asker), "destroying the question");

  must(ib_cm_create_id(pair.cm, &pair.id, NULL), "making an id");
  memset(&req, 0, sizeof req);
  req.primary_path = &path;
  req.service_id = htobe64(kService);
  req.qp_num = pair.qp->qp_num;
  req.qp_type = IBV_QPT_RC;
  req.starting_psn = 0x100;
  req.responder_resources = req.initiator_depth = 1;
  req.remote_cm_response_timeout = req.local_cm_response_timeout = 18;
  req.retry_count = req.rnr_retry_count = 7;
  req.max_cm_retries = 15;
  must(ib_cm_send_req(pair.id, &req), "connecting");
  expect(&pair, IB_CM_REP_RECEIVED);
  move_qp(&pair, IBV_QPS_INIT);
  move_qp(&pair, IBV_QPS_RTR);
  move_qp(&pair, IBV_QPS_RTS);
  must(ib_cm_send_rtu(pair.id, NULL, 0), "telling that we are ready");
  play(&pair, rounds, 1);

  must(ib_cm_send_dreq(pair.id, NULL, 0), "releasing");
  expect(&pair, IB_CM_DREP_RECEIVED);
  expect(&pair, IB_CM_TIMEWAIT_EXIT);
  close_all(&pair);
  return 0;
}

int main(int argc, char** argv) {
  union ibv_gid gid;
  if (argc >= 2 && strcmp(argv[1], "server") == 0) {
    return serve(argc > 2 ? atoi(argv[2]) : kRounds);
  }
  if (argc >= 4 && strcmp(argv[1], "client") == 0 && inet_pton(AF_INET6, argv[3], gid.raw) == 1) {
    return call((uint16_t)atoi(argv[2]), &gid, argc > 4 ? atoi(argv[4]) : kRounds);
  }
  fprintf(stderr, "usage: ibcm_pair server [ROUNDS] | client LID GID [ROUNDS]\n");
  return 2;
}
