/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program as they were written for libibcm 1.0.5, from the facts of its interface: every call,
 * structure, member and enumerator, without anything of ours. It runs without a device, where each
 * call must say so by -1 and errno.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <infiniband/cm.h>
#include <infiniband/cm_abi.h>

static int failures;

static void check(int good, const char* what) {
  if (!good) {
    printf("wrong: %s\n", what);
    failures++;
  }
}

static void check_enumerators(void) {
  static const int events[] = {
      IB_CM_REQ_ERROR,         IB_CM_REQ_RECEIVED,     IB_CM_REP_ERROR,    IB_CM_REP_RECEIVED,
      IB_CM_RTU_RECEIVED,      IB_CM_USER_ESTABLISHED, IB_CM_DREQ_ERROR,   IB_CM_DREQ_RECEIVED,
      IB_CM_DREP_RECEIVED,     IB_CM_TIMEWAIT_EXIT,    IB_CM_MRA_RECEIVED, IB_CM_REJ_RECEIVED,
      IB_CM_LAP_ERROR,         IB_CM_LAP_RECEIVED,     IB_CM_APR_RECEIVED, IB_CM_SIDR_REQ_ERROR,
      IB_CM_SIDR_REQ_RECEIVED, IB_CM_SIDR_REP_RECEIVED};
  static const int sizes[][2] = {{IB_CM_REQ_PRIVATE_DATA_SIZE, 92},
                                 {IB_CM_MRA_PRIVATE_DATA_SIZE, 222},
                                 {IB_CM_REJ_PRIVATE_DATA_SIZE, 148},
                                 {IB_CM_REP_PRIVATE_DATA_SIZE, 196},
                                 {IB_CM_RTU_PRIVATE_DATA_SIZE, 224},
                                 {IB_CM_DREQ_PRIVATE_DATA_SIZE, 220},
                                 {IB_CM_DREP_PRIVATE_DATA_SIZE, 224},
                                 {IB_CM_REJ_ARI_LENGTH, 72},
                                 {IB_CM_LAP_PRIVATE_DATA_SIZE, 168},
                                 {IB_CM_APR_PRIVATE_DATA_SIZE, 148},
                                 {IB_CM_APR_INFO_LENGTH, 72},
                                 {IB_CM_SIDR_REQ_PRIVATE_DATA_SIZE, 216},
                                 {IB_CM_SIDR_REP_PRIVATE_DATA_SIZE, 136},
                                 {IB_CM_SIDR_REP_INFO_LENGTH, 72}};
  static const int reasons[] = {IB_CM_REJ_NO_QP,
                                IB_CM_REJ_NO_EEC,
                                IB_CM_REJ_NO_RESOURCES,
                                IB_CM_REJ_TIMEOUT,
                                IB_CM_REJ_UNSUPPORTED,
                                IB_CM_REJ_INVALID_COMM_ID,
                                IB_CM_REJ_INVALID_COMM_INSTANCE,
                                IB_CM_REJ_INVALID_SERVICE_ID,
                                IB_CM_REJ_INVALID_TRANSPORT_TYPE,
                                IB_CM_REJ_STALE_CONN,
                                IB_CM_REJ_RDC_NOT_EXIST,
                                IB_CM_REJ_INVALID_GID,
                                IB_CM_REJ_INVALID_LID,
                                IB_CM_REJ_INVALID_SL,
                                IB_CM_REJ_INVALID_TRAFFIC_CLASS,
                                IB_CM_REJ_INVALID_HOP_LIMIT,
                                IB_CM_REJ_INVALID_PACKET_RATE,
                                IB_CM_REJ_INVALID_ALT_GID,
                                IB_CM_REJ_INVALID_ALT_LID,
                                IB_CM_REJ_INVALID_ALT_SL,
                                IB_CM_REJ_INVALID_ALT_TRAFFIC_CLASS,
                                IB_CM_REJ_INVALID_ALT_HOP_LIMIT,
                                IB_CM_REJ_INVALID_ALT_PACKET_RATE,
                                IB_CM_REJ_PORT_CM_REDIRECT,
                                IB_CM_REJ_PORT_REDIRECT,
                                IB_CM_REJ_INVALID_MTU,
                                IB_CM_REJ_INSUFFICIENT_RESP_RESOURCES,
                                IB_CM_REJ_CONSUMER_DEFINED,
                                IB_CM_REJ_INVALID_RNR_RETRY,
                                IB_CM_REJ_DUPLICATE_LOCAL_COMM_ID,
                                IB_CM_REJ_INVALID_CLASS_VERSION,
                                IB_CM_REJ_INVALID_FLOW_LABEL,
                                IB_CM_REJ_INVALID_ALT_FLOW_LABEL};
  static const int answers[] = {IB_CM_APR_SUCCESS,
                                IB_CM_APR_INVALID_COMM_ID,
                                IB_CM_APR_UNSUPPORTED,
                                IB_CM_APR_REJECT,
                                IB_CM_APR_REDIRECT,
                                IB_CM_APR_IS_CURRENT,
                                IB_CM_APR_INVALID_QPN_EECN,
                                IB_CM_APR_INVALID_LID,
                                IB_CM_APR_INVALID_GID,
                                IB_CM_APR_INVALID_FLOW_LABEL,
                                IB_CM_APR_INVALID_TCLASS,
                                IB_CM_APR_INVALID_HOP_LIMIT,
                                IB_CM_APR_INVALID_PACKET_RATE,
                                IB_CM_APR_INVALID_SL};
  static const int resolutions[] = {IB_SIDR_SUCCESS,  IB_SIDR_UNSUPPORTED,
                                    IB_SIDR_REJECT,   IB_SIDR_NO_QP,
                                    IB_SIDR_REDIRECT, IB_SIDR_UNSUPPORTED_VERSION};
  int i;

  check(sizeof events / sizeof events[0] == 18, "18 events");
  for (i = 0; i < 18; i++)
    check(events[i] == i, "the events' numbers");
  for (i = 0; i < 14; i++)
    check(sizes[i][0] == sizes[i][1], "the messages' sizes");
  for (i = 0; i < 33; i++)
    check(reasons[i] == i + 1, "the reasons' numbers");
  for (i = 0; i < 14; i++)
    check(answers[i] == i, "the numbers of APR's status");
  for (i = 0; i < 6; i++)
    check(resolutions[i] == i, "the numbers of SIDR_REP's status");
  check(IB_USER_CM_MIN_ABI_VERSION <= IB_USER_CM_MAX_ABI_VERSION, "the versions");
}

/* An event handler that looks at everything. */
static unsigned long handle(struct ib_cm_event* event, struct ib_cm_id** id) {
  unsigned long sum = 0;

  *id = event->cm_id;
  switch (event->event) {
    case IB_CM_REQ_RECEIVED: {
      struct ib_cm_req_event_param* req = &event->param.req_rcvd;
      struct ibv_sa_path_rec* path = req->primary_path;

      sum = req->port + req->remote_qkey + req->remote_qpn + req->qp_type + req->starting_psn +
            req->responder_resources + req->initiator_depth + req->local_cm_response_timeout +
            req->flow_control + req->remote_cm_response_timeout + req->retry_count +
            req->rnr_retry_count + req->srq + (unsigned long)req->remote_ca_guid;
      if (path)
        sum += path->sl + path->dlid;
      if (req->alternate_path)
        sum += req->alternate_path->mtu;
      if (req->listen_id->context == (*id)->context)
        sum++;
      break;
    }
    case IB_CM_REP_RECEIVED: {
      struct ib_cm_rep_event_param* rep = &event->param.rep_rcvd;

      sum = rep->remote_qkey + rep->remote_qpn + rep->starting_psn + rep->responder_resources +
            rep->initiator_depth + rep->target_ack_delay + rep->failover_accepted +
            rep->flow_control + rep->rnr_retry_count + rep->srq +
            (unsigned long)rep->remote_ca_guid;
      break;
    }
    case IB_CM_REJ_RECEIVED: {
      struct ib_cm_rej_event_param* rej = &event->param.rej_rcvd;

      sum = rej->reason + rej->ari_length + ((unsigned char*)rej->ari)[0];
      break;
    }
    case IB_CM_MRA_RECEIVED: {
      struct ib_cm_mra_event_param* mra = &event->param.mra_rcvd;

      sum = mra->service_timeout;
      break;
    }
    case IB_CM_LAP_RECEIVED: {
      struct ib_cm_lap_event_param* lap = &event->param.lap_rcvd;

      sum = lap->alternate_path->slid;
      break;
    }
    case IB_CM_APR_RECEIVED: {
      struct ib_cm_apr_event_param* apr = &event->param.apr_rcvd;

      sum = apr->ap_status + apr->info_len + ((unsigned char*)apr->apr_info)[0];
      break;
    }
    case IB_CM_SIDR_REQ_RECEIVED: {
      struct ib_cm_sidr_req_event_param* req = &event->param.sidr_req_rcvd;

      sum = req->port + req->pkey + req->listen_id->handle;
      break;
    }
    case IB_CM_SIDR_REP_RECEIVED: {
      struct ib_cm_sidr_rep_event_param* rep = &event->param.sidr_rep_rcvd;

      sum = rep->status + rep->qkey + rep->qpn + rep->info_len + ((unsigned char*)rep->info)[0];
      break;
    }
    case IB_CM_REQ_ERROR:
    case IB_CM_REP_ERROR:
    case IB_CM_DREQ_ERROR:
    case IB_CM_LAP_ERROR:
    case IB_CM_SIDR_REQ_ERROR:
      sum = event->param.send_status;
      break;
    case IB_CM_RTU_RECEIVED:
    case IB_CM_DREQ_RECEIVED:
    case IB_CM_DREP_RECEIVED:
      sum = ((unsigned char*)event->private_data)[0];
      break;
    case IB_CM_USER_ESTABLISHED:
    case IB_CM_TIMEWAIT_EXIT:
      break;
  }
  return sum;
}

static void check_handler(void) {
  struct ib_cm_event event;
  struct ib_cm_device device;
  struct ib_cm_id id;
  struct ib_cm_id* seen = NULL;
  unsigned char bytes[8] = {7};
  int type;

  memset(&device, 0, sizeof device);
  check(device.device_context == NULL && device.fd == 0, "the device");
  memset(&id, 0, sizeof id);
  id.device = &device;
  for (type = IB_CM_REQ_ERROR; type <= IB_CM_SIDR_REP_RECEIVED; type++) {
    struct ibv_sa_path_rec path;

    memset(&path, 0, sizeof path);
    memset(&event, 0, sizeof event);
    event.cm_id = &id;
    event.event = (enum ib_cm_event_type)type;
    event.private_data = bytes;
    if (type == IB_CM_REQ_RECEIVED)
      event.param.req_rcvd.listen_id = &id;
    if (type == IB_CM_SIDR_REQ_RECEIVED)
      event.param.sidr_req_rcvd.listen_id = &id;
    if (type == IB_CM_REJ_RECEIVED)
      event.param.rej_rcvd.ari = bytes;
    if (type == IB_CM_LAP_RECEIVED)
      event.param.lap_rcvd.alternate_path = &path;
    if (type == IB_CM_APR_RECEIVED)
      event.param.apr_rcvd.apr_info = bytes;
    if (type == IB_CM_SIDR_REP_RECEIVED)
      event.param.sidr_rep_rcvd.info = bytes;
    if (type == IB_CM_DREQ_RECEIVED)
      check(handle(&event, &seen) == 7, "the handler");
    else
      handle(&event, &seen);
    check(seen == &id, "the event's id");
  }
}

static void refused(int status, const char* what) {
  check(status == -1 && errno == EINVAL, what);
  errno = 0;
}

static void check_calls(void) {
  struct ib_cm_req_param req;
  struct ib_cm_rep_param rep;
  struct ib_cm_sidr_req_param sidr_req;
  struct ib_cm_sidr_rep_param sidr_rep;
  struct ib_cm_attr_param attr;
  struct ibv_sa_path_rec path;
  struct ibv_qp_attr qp_attr;
  struct ib_cm_event* event = NULL;
  struct ib_cm_id* id = NULL;
  uint64_t service = IB_CM_ASSIGN_SERVICE_ID & IB_CM_ASSIGN_SERVICE_ID_MASK;
  int mask = 0;

  memset(&path, 0, sizeof path);
  memset(&req, 0, sizeof req);
  req.primary_path = &path;
  req.alternate_path = NULL;
  req.service_id = service;
  req.qp_num = 1;
  req.qp_type = IBV_QPT_RC;
  req.starting_psn = 1;
  req.private_data = &path;
  req.private_data_len = 4;
  req.peer_to_peer = 0;
  req.responder_resources = req.initiator_depth = 4;
  req.remote_cm_response_timeout = req.local_cm_response_timeout = 20;
  req.flow_control = 1;
  req.retry_count = req.rnr_retry_count = 5;
  req.max_cm_retries = 5;
  req.srq = 0;
  memset(&rep, 0, sizeof rep);
  rep.qp_num = rep.starting_psn = 1;
  rep.private_data = &path;
  rep.private_data_len = 4;
  rep.responder_resources = rep.initiator_depth = 4;
  rep.target_ack_delay = 20;
  rep.failover_accepted = rep.flow_control = rep.srq = 0;
  rep.rnr_retry_count = 5;
  memset(&sidr_req, 0, sizeof sidr_req);
  sidr_req.path = &path;
  sidr_req.service_id = service;
  sidr_req.timeout_ms = 100;
  sidr_req.private_data = &path;
  sidr_req.private_data_len = 4;
  sidr_req.max_cm_retries = 5;
  memset(&sidr_rep, 0, sizeof sidr_rep);
  sidr_rep.qp_num = sidr_rep.qkey = 1;
  sidr_rep.status = IB_SIDR_SUCCESS;
  sidr_rep.info = &path;
  sidr_rep.info_length = 4;
  sidr_rep.private_data = &path;
  sidr_rep.private_data_len = 4;
  memset(&attr, 0, sizeof attr);
  attr.service_id = attr.service_mask = service;
  attr.local_id = attr.remote_id = 0;
  memset(&qp_attr, 0, sizeof qp_attr);
  qp_attr.qp_state = IBV_QPS_INIT;

  check(((unsigned char*)&service)[0] == 2, "the assigned service id's first byte");
  check(ib_cm_open_device(NULL) == NULL && errno == EINVAL, "ib_cm_open_device");
  ib_cm_close_device(NULL);
  refused(ib_cm_get_event(NULL, &event), "ib_cm_get_event");
  refused(ib_cm_ack_event(event), "ib_cm_ack_event");
  refused(ib_cm_create_id(NULL, &id, NULL), "ib_cm_create_id");
  refused(ib_cm_attr_id(id, &attr), "ib_cm_attr_id");
  refused(ib_cm_listen(id, service, 0), "ib_cm_listen");
  refused(ib_cm_send_req(id, &req), "ib_cm_send_req");
  refused(ib_cm_send_rep(id, &rep), "ib_cm_send_rep");
  refused(ib_cm_send_rtu(id, NULL, 0), "ib_cm_send_rtu");
  refused(ib_cm_send_dreq(id, NULL, 0), "ib_cm_send_dreq");
  refused(ib_cm_send_drep(id, NULL, 0), "ib_cm_send_drep");
  refused(ib_cm_notify(id, IBV_EVENT_COMM_EST), "ib_cm_notify");
  refused(ib_cm_send_rej(id, IB_CM_REJ_NO_QP, NULL, 0, NULL, 0), "ib_cm_send_rej");
  refused(ib_cm_send_mra(id, 20, NULL, 0), "ib_cm_send_mra");
  refused(ib_cm_send_lap(id, &path, NULL, 0), "ib_cm_send_lap");
  refused(ib_cm_send_apr(id, IB_CM_APR_SUCCESS, NULL, 0, NULL, 0), "ib_cm_send_apr");
  refused(ib_cm_init_qp_attr(id, &qp_attr, &mask), "ib_cm_init_qp_attr");
  refused(ib_cm_send_sidr_req(id, &sidr_req), "ib_cm_send_sidr_req");
  refused(ib_cm_send_sidr_rep(id, &sidr_rep), "ib_cm_send_sidr_rep");
  refused(ib_cm_destroy_id(id), "ib_cm_destroy_id");
}

int main(void) {
  check_enumerators();
  check_handler();
  check_calls();
  printf("%s\n", failures ? "wrong" : "21 calls, 18 events");
  return failures != 0;
}
