/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libibcm: IBA's connection management (IBTA vol 1, chapter 12) for C programs; the interface of
 * libibcm 1.0.5, as far as programs see it. Link with -libcm. Pages: ib_cm_open_device(3) and those
 * that it names.
 *
 * Values are in host byte order where their type does not say otherwise: service ids, masks, GUIDs,
 * communication ids, and what a struct ibv_sa_path_rec holds as __be are in network byte order.
 *
 * Calls return 0, or -1 and errno. Any thread may make any call at any time.
 */
#ifndef WIREUP_INFINIBAND_CM_H
#define WIREUP_INFINIBAND_CM_H

#include <asm/byteorder.h>
#include <endian.h>
#include <infiniband/sa.h>
#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What an event tells. The errors mean that the message was repeated in vain. */
enum ib_cm_event_type {
  IB_CM_REQ_ERROR,
  IB_CM_REQ_RECEIVED, /**< brings a cm_id of its own */
  IB_CM_REP_ERROR,
  IB_CM_REP_RECEIVED,
  IB_CM_RTU_RECEIVED,
  IB_CM_USER_ESTABLISHED, /**< by ib_cm_notify(IBV_EVENT_COMM_EST) */
  IB_CM_DREQ_ERROR,
  IB_CM_DREQ_RECEIVED,
  IB_CM_DREP_RECEIVED,
  IB_CM_TIMEWAIT_EXIT, /**< the queue pair may be used again towards this peer */
  IB_CM_MRA_RECEIVED,
  IB_CM_REJ_RECEIVED,
  IB_CM_LAP_ERROR,
  IB_CM_LAP_RECEIVED,
  IB_CM_APR_RECEIVED,
  IB_CM_SIDR_REQ_ERROR,
  IB_CM_SIDR_REQ_RECEIVED, /**< brings a cm_id of its own */
  IB_CM_SIDR_REP_RECEIVED
};

/** Bytes that the messages have for private data and additional information. */
enum ib_cm_data_size {
  IB_CM_REQ_PRIVATE_DATA_SIZE = 92,
  IB_CM_MRA_PRIVATE_DATA_SIZE = 222,
  IB_CM_REJ_PRIVATE_DATA_SIZE = 148,
  IB_CM_REP_PRIVATE_DATA_SIZE = 196,
  IB_CM_RTU_PRIVATE_DATA_SIZE = 224,
  IB_CM_DREQ_PRIVATE_DATA_SIZE = 220,
  IB_CM_DREP_PRIVATE_DATA_SIZE = 224,
  IB_CM_REJ_ARI_LENGTH = 72,
  IB_CM_LAP_PRIVATE_DATA_SIZE = 168,
  IB_CM_APR_PRIVATE_DATA_SIZE = 148,
  IB_CM_APR_INFO_LENGTH = 72,
  IB_CM_SIDR_REQ_PRIVATE_DATA_SIZE = 216,
  IB_CM_SIDR_REP_PRIVATE_DATA_SIZE = 136,
  IB_CM_SIDR_REP_INFO_LENGTH = 72
};

/** fd is readable while an event waits; O_NONBLOCK on it rules ib_cm_get_event(). */
struct ib_cm_device {
  struct ibv_context* device_context;
  int fd;
};

/** A listener, a connection or a service id resolution. The context is the program's. */
struct ib_cm_id {
  void* context;
  struct ib_cm_device* device;
  uint32_t handle;
};

/**
 * Resources, depths, timeouts and paths as they look from here: what the peer calls its initiator
 * depth is our responder resources, its local CM response timeout our remote one.
 */
struct ib_cm_req_event_param {
  struct ib_cm_id* listen_id; /**< the cm_id itself for one that called peer-to-peer */
  uint8_t port;
  struct ibv_sa_path_rec* primary_path;
  struct ibv_sa_path_rec* alternate_path; /**< or NULL */
  uint64_t remote_ca_guid;
  uint32_t remote_qkey;
  uint32_t remote_qpn;
  enum ibv_qp_type qp_type;
  uint32_t starting_psn;
  uint8_t responder_resources;
  uint8_t initiator_depth;
  unsigned int local_cm_response_timeout : 5;
  unsigned int flow_control : 1;
  unsigned int remote_cm_response_timeout : 5;
  unsigned int retry_count : 3;
  unsigned int rnr_retry_count : 3;
  unsigned int srq : 1;
};

/** Resources and depths as in struct ib_cm_req_event_param. */
struct ib_cm_rep_event_param {
  uint64_t remote_ca_guid;
  uint32_t remote_qkey;
  uint32_t remote_qpn;
  uint32_t starting_psn;
  uint8_t responder_resources;
  uint8_t initiator_depth;
  unsigned int target_ack_delay : 5;
  unsigned int failover_accepted : 2;
  unsigned int flow_control : 1;
  unsigned int rnr_retry_count : 3;
  unsigned int srq : 1;
};

enum ib_cm_rej_reason {
  IB_CM_REJ_NO_QP = 1,
  IB_CM_REJ_NO_EEC = 2,
  IB_CM_REJ_NO_RESOURCES = 3,
  IB_CM_REJ_TIMEOUT = 4,
  IB_CM_REJ_UNSUPPORTED = 5,
  IB_CM_REJ_INVALID_COMM_ID = 6,
  IB_CM_REJ_INVALID_COMM_INSTANCE = 7,
  IB_CM_REJ_INVALID_SERVICE_ID = 8,
  IB_CM_REJ_INVALID_TRANSPORT_TYPE = 9,
  IB_CM_REJ_STALE_CONN = 10,
  IB_CM_REJ_RDC_NOT_EXIST = 11,
  IB_CM_REJ_INVALID_GID = 12,
  IB_CM_REJ_INVALID_LID = 13,
  IB_CM_REJ_INVALID_SL = 14,
  IB_CM_REJ_INVALID_TRAFFIC_CLASS = 15,
  IB_CM_REJ_INVALID_HOP_LIMIT = 16,
  IB_CM_REJ_INVALID_PACKET_RATE = 17,
  IB_CM_REJ_INVALID_ALT_GID = 18,
  IB_CM_REJ_INVALID_ALT_LID = 19,
  IB_CM_REJ_INVALID_ALT_SL = 20,
  IB_CM_REJ_INVALID_ALT_TRAFFIC_CLASS = 21,
  IB_CM_REJ_INVALID_ALT_HOP_LIMIT = 22,
  IB_CM_REJ_INVALID_ALT_PACKET_RATE = 23,
  IB_CM_REJ_PORT_CM_REDIRECT = 24,
  IB_CM_REJ_PORT_REDIRECT = 25,
  IB_CM_REJ_INVALID_MTU = 26,
  IB_CM_REJ_INSUFFICIENT_RESP_RESOURCES = 27,
  IB_CM_REJ_CONSUMER_DEFINED = 28,
  IB_CM_REJ_INVALID_RNR_RETRY = 29,
  IB_CM_REJ_DUPLICATE_LOCAL_COMM_ID = 30,
  IB_CM_REJ_INVALID_CLASS_VERSION = 31,
  IB_CM_REJ_INVALID_FLOW_LABEL = 32,
  IB_CM_REJ_INVALID_ALT_FLOW_LABEL = 33
};

struct ib_cm_rej_event_param {
  enum ib_cm_rej_reason reason; /**< peers may send others than those above */
  void* ari;                    /**< additional rejection information */
  uint8_t ari_length;           /**< its bytes; 1.0.5 left this 0 */
};

struct ib_cm_mra_event_param {
  uint8_t service_timeout; /**< exponent of 4.096 us */
};

struct ib_cm_lap_event_param {
  struct ibv_sa_path_rec* alternate_path; /**< from here to the peer */
};

enum ib_cm_apr_status {
  IB_CM_APR_SUCCESS,
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
  IB_CM_APR_INVALID_SL
};

struct ib_cm_apr_event_param {
  enum ib_cm_apr_status ap_status;
  void* apr_info;
  uint8_t info_len; /**< bytes; 1.0.5 left this 0 */
};

struct ib_cm_sidr_req_event_param {
  struct ib_cm_id* listen_id;
  uint8_t port;
  uint16_t pkey;
};

enum ib_cm_sidr_status {
  IB_SIDR_SUCCESS,
  IB_SIDR_UNSUPPORTED,
  IB_SIDR_REJECT,
  IB_SIDR_NO_QP,
  IB_SIDR_REDIRECT,
  IB_SIDR_UNSUPPORTED_VERSION
};

struct ib_cm_sidr_rep_event_param {
  enum ib_cm_sidr_status status;
  uint32_t qkey;
  uint32_t qpn;
  void* info;
  uint8_t info_len; /**< bytes; 1.0.5 left this 0 */
};

/** Everything that it points to lives until ib_cm_ack_event(). */
struct ib_cm_event {
  struct ib_cm_id* cm_id;
  enum ib_cm_event_type event;
  union {
    struct ib_cm_req_event_param req_rcvd;
    struct ib_cm_rep_event_param rep_rcvd;
    struct ib_cm_rej_event_param rej_rcvd;
    struct ib_cm_mra_event_param mra_rcvd;
    struct ib_cm_lap_event_param lap_rcvd;
    struct ib_cm_apr_event_param apr_rcvd;
    struct ib_cm_sidr_req_event_param sidr_req_rcvd;
    struct ib_cm_sidr_rep_event_param sidr_rep_rcvd;
    enum ibv_wc_status send_status; /**< of the errors */
  } param;
  /** Of the message, its whole field (enum ib_cm_data_size); NULL where there was no message. */
  void* private_data;
};

struct ib_cm_attr_param {
  uint64_t service_id;
  uint64_t service_mask;
  uint32_t local_id;
  uint32_t remote_id;
};

/** Listening on this service id takes a free one; ib_cm_attr_id() tells which. */
#define IB_CM_ASSIGN_SERVICE_ID_MASK __cpu_to_be64(0xFF00000000000000ULL)
#define IB_CM_ASSIGN_SERVICE_ID __cpu_to_be64(0x0200000000000000ULL)

struct ib_cm_req_param {
  struct ibv_sa_path_rec* primary_path;
  struct ibv_sa_path_rec* alternate_path; /**< or NULL */
  uint64_t service_id;
  uint32_t qp_num;
  enum ibv_qp_type qp_type;
  uint32_t starting_psn; /**< what the peer shall send first */
  void* private_data;
  uint8_t private_data_len;
  uint8_t peer_to_peer; /**< both ends call each other and get one connection */
  uint8_t responder_resources;
  uint8_t initiator_depth;
  uint8_t remote_cm_response_timeout; /**< exponent of 4.096 us */
  uint8_t flow_control;
  uint8_t local_cm_response_timeout; /**< exponent of 4.096 us */
  uint8_t retry_count;
  uint8_t rnr_retry_count;
  uint8_t max_cm_retries;
  uint8_t srq;
};

struct ib_cm_rep_param {
  uint32_t qp_num;
  uint32_t starting_psn; /**< what the peer shall send first */
  void* private_data;
  uint8_t private_data_len;
  uint8_t responder_resources;
  uint8_t initiator_depth;
  uint8_t target_ack_delay; /**< exponent of 4.096 us */
  uint8_t failover_accepted;
  uint8_t flow_control;
  uint8_t rnr_retry_count;
  uint8_t srq;
};

struct ib_cm_sidr_req_param {
  struct ibv_sa_path_rec* path;
  uint64_t service_id;
  int timeout_ms; /**< between repetitions */
  void* private_data;
  uint8_t private_data_len;
  uint8_t max_cm_retries;
};

struct ib_cm_sidr_rep_param {
  uint32_t qp_num;
  uint32_t qkey;
  enum ib_cm_sidr_status status;
  void* info;
  uint8_t info_length;
  void* private_data;
  uint8_t private_data_len;
};

/* ib_cm_open_device(3) */
struct ib_cm_device* ib_cm_open_device(struct ibv_context* device_context);
void ib_cm_close_device(struct ib_cm_device* device);

/* ib_cm_get_event(3) */
int ib_cm_get_event(struct ib_cm_device* device, struct ib_cm_event** event);
int ib_cm_ack_event(struct ib_cm_event* event);

/* ib_cm_create_id(3) */
int ib_cm_create_id(struct ib_cm_device* device, struct ib_cm_id** cm_id, void* context);
int ib_cm_destroy_id(struct ib_cm_id* cm_id);
int ib_cm_attr_id(struct ib_cm_id* cm_id, struct ib_cm_attr_param* param);

/* ib_cm_listen(3) */
int ib_cm_listen(struct ib_cm_id* cm_id, uint64_t service_id, uint64_t service_mask);

/* ib_cm_send_req(3) */
int ib_cm_send_req(struct ib_cm_id* cm_id, struct ib_cm_req_param* param);
int ib_cm_send_rep(struct ib_cm_id* cm_id, struct ib_cm_rep_param* param);
int ib_cm_send_rtu(struct ib_cm_id* cm_id, void* private_data, uint8_t private_data_len);
int ib_cm_send_dreq(struct ib_cm_id* cm_id, void* private_data, uint8_t private_data_len);
int ib_cm_send_drep(struct ib_cm_id* cm_id, void* private_data, uint8_t private_data_len);
int ib_cm_send_rej(struct ib_cm_id* cm_id, enum ib_cm_rej_reason reason, void* ari,
                   uint8_t ari_length, void* private_data, uint8_t private_data_len);
int ib_cm_send_mra(struct ib_cm_id* cm_id, uint8_t service_timeout, void* private_data,
                   uint8_t private_data_len);
int ib_cm_notify(struct ib_cm_id* cm_id, enum ibv_event_type event);

/* ib_cm_init_qp_attr(3) */
int ib_cm_init_qp_attr(struct ib_cm_id* cm_id, struct ibv_qp_attr* qp_attr, int* qp_attr_mask);

/* ib_cm_send_lap(3) */
int ib_cm_send_lap(struct ib_cm_id* cm_id, struct ibv_sa_path_rec* alternate_path,
                   void* private_data, uint8_t private_data_len);
int ib_cm_send_apr(struct ib_cm_id* cm_id, enum ib_cm_apr_status status, void* info,
                   uint8_t info_length, void* private_data, uint8_t private_data_len);

/* ib_cm_send_sidr_req(3) */
int ib_cm_send_sidr_req(struct ib_cm_id* cm_id, struct ib_cm_sidr_req_param* param);
int ib_cm_send_sidr_rep(struct ib_cm_id* cm_id, struct ib_cm_sidr_rep_param* param);

/* Beyond libibcm 1.0.5; WIREUP_IBCM says that they are there. */
#define WIREUP_IBCM 1

/**
 * The bytes of an event's private data field: 0 where the event has none. The format does not carry
 * how many of them the peer gave; *used (unless NULL) gets their number without the zeros at the
 * end, which is what the peer gave when its last byte was not zero.
 */
size_t ib_cm_event_private_data_len(const struct ib_cm_event* event, size_t* used);

/**
 * Why the last call of this thread that failed did so: a sentence that names step, place and value.
 * Valid until the thread's next failing call; empty when none has failed.
 */
const char* ib_cm_last_error(void);

#ifdef __cplusplus
}
#endif

#endif
