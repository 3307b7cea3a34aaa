/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * wireup: connects the ranks of an MPI job over InfiniBand.
 *
 * A context belongs to one process and one HCA port. Opening it publishes a card with which the
 * other ranks find it. wireup_connect() starts a connection to a rank; an event tells when its RC
 * queue pair is ready to send, or at which step it failed and why. The peer needs no call of its
 * own to be connected to, except that it makes progress.
 *
 * A path can also be had alone, for UD, DC or a runtime that connects by itself: wireup_resolve()
 * gives what an address handle needs, and the path record; an event tells when it is void.
 *
 * Progress. Nothing happens behind the caller's back: wireup_progress() does what is due. Call it
 * often, or when wireup_fd() is readable or wireup_next_timeout_ns() has passed, or wait in
 * wireup_wait(). A context opened with WIREUP_FLAG_HELPER_THREAD has a thread that does it, so that
 * a rank that computes still answers.
 *
 * Threads. All functions may be called from any thread; calls on one context take turns.
 * wireup_context_close() must be the last call on its context. A context must not be used in a
 * child after fork().
 *
 * Structs. Each struct that crosses this interface begins with its size, set by the caller
 * (`{.struct_size = sizeof x}`); fields are only ever appended. Numbers of enums are never used
 * again for something else. Integers are in host byte order; GIDs are the 16 bytes of the wire.
 *
 * Errors. Every function that can fail returns a wireup_status_t, and leaves a sentence that names
 * the step, the place, the value and what to do in wireup_last_error().
 */
#ifndef WIREUP_WIREUP_H
#define WIREUP_WIREUP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define WIREUP_API __attribute__((visibility("default")))
#else
#define WIREUP_API
#endif

#define WIREUP_VERSION_MAJOR 0
#define WIREUP_VERSION_MINOR 1
#define WIREUP_VERSION_PATCH 0

/* Of <infiniband/verbs.h>, which the caller includes when it uses them. */
struct ibv_ah_attr;
struct ibv_context;
struct ibv_cq;
struct ibv_pd;
struct ibv_qp;

/** Outcome of a call, and reason of a failed connection. */
typedef enum wireup_status {
  WIREUP_OK = 0,
  WIREUP_ERR_INVALID_ARGUMENT = 1,  /**< an argument is out of its range: fix the call */
  WIREUP_ERR_INVALID_STATE = 2,     /**< not allowed now, e.g. the peer is not connected */
  WIREUP_ERR_NOT_FOUND = 3,         /**< no such peer or object */
  WIREUP_ERR_NO_DEVICE = 4,         /**< no usable RDMA device or port; the text lists them */
  WIREUP_ERR_NO_PMIX = 5,           /**< no PMIx server: start with mpirun or srun --mpi=pmix */
  WIREUP_ERR_NO_SUBNET_MANAGER = 6, /**< the port is not ACTIVE: start a subnet manager */
  WIREUP_ERR_NO_PERMISSION = 7,     /**< a privilege is missing; the text names it */
  WIREUP_ERR_NO_RESOURCES = 8,      /**< the device or the system is exhausted: use less */
  WIREUP_ERR_MEMLOCK_LIMIT = 9,     /**< raise RLIMIT_MEMLOCK; the text has both numbers */
  WIREUP_ERR_TIMEOUT = 10,          /**< the deadline passed: try again, or allow more time */
  WIREUP_ERR_MALFORMED = 11,        /**< received bytes do not follow the format */
  WIREUP_ERR_UNSUPPORTED = 12,      /**< the peer or the device cannot do this */
  WIREUP_ERR_REJECTED = 13,         /**< the peer refused the connection; the text says why */
  WIREUP_ERR_PEER_GONE = 14,        /**< the peer does not answer any more */
  WIREUP_ERR_PATH_UNRESOLVED = 15,  /**< no path to the peer's port was found */
  WIREUP_ERR_CARD_MISSING = 16,     /**< the peer has not opened a context (yet) */
  WIREUP_ERR_STALE = 17,            /**< the peer is another incarnation than the one known */
  WIREUP_ERR_BUSY = 18,             /**< temporarily out of room: try again */
  WIREUP_ERR_INTERNAL = 19          /**< a defect in wireup: please report it */
} wireup_status_t;

/** Step of a connection at which it failed. */
typedef enum wireup_step {
  WIREUP_STEP_NONE = 0,
  WIREUP_STEP_CARD = 1,         /**< fetching the peer's card */
  WIREUP_STEP_PATH = 2,         /**< resolving the path to the peer's port */
  WIREUP_STEP_QP = 3,           /**< making the queue pair or moving it through its states */
  WIREUP_STEP_REQUEST = 4,      /**< our REQ was not answered, or was refused */
  WIREUP_STEP_REPLY = 5,        /**< our REP was refused, or what came as REP did not fit */
  WIREUP_STEP_READY_TO_USE = 6, /**< our REP was not answered by an RTU */
  WIREUP_STEP_DISCONNECT = 7    /**< while the connection was being closed */
} wireup_step_t;

typedef enum wireup_event_type {
  WIREUP_EVENT_NONE = 0,
  WIREUP_EVENT_CONNECTED = 1,    /**< the queue pair is in RTS and the peer's as well */
  WIREUP_EVENT_FAILED = 2,       /**< a connection that this side asked for failed */
  WIREUP_EVENT_DISCONNECTED = 3, /**< a connection ended; see wireup_event_t.reason */
  WIREUP_EVENT_RESOLVED = 4,     /**< a path is there: wireup_path_info() */
  WIREUP_EVENT_UNRESOLVED = 5,   /**< a path could not be resolved; its id is of no use any more */
  WIREUP_EVENT_PATH_CHANGED = 6  /**< a path that was resolved is void; see wireup_event_t.reason */
} wireup_event_type_t;

/** Why a connection ended, or a path is void. */
typedef enum wireup_reason {
  WIREUP_REASON_NONE = 0,
  WIREUP_REASON_LOCAL = 1,     /**< this side closed it and the peer has confirmed */
  WIREUP_REASON_PEER = 2,      /**< the peer closed it */
  WIREUP_REASON_NO_ANSWER = 3, /**< this side closed it, the peer did not confirm in time */
  WIREUP_REASON_REPLACED = 4,  /**< the peer started a new connection: it had lost this one */
  /** The path's port, LID, GID, P_Key or subnet manager changed, or another process of the node
   * keeps its paths now, which may not know this one. */
  WIREUP_REASON_FABRIC_CHANGED = 5,
  WIREUP_REASON_PATH_REPLACED = 6, /**< the node has learned another path, or dropped this one */
  WIREUP_REASON_PATH_FAILED = 7    /**< wireup_path_failed() said so */
} wireup_reason_t;

/** Where a path came from. */
typedef enum wireup_path_origin {
  WIREUP_PATH_NONE = 0,
  WIREUP_PATH_LOCAL = 1,         /**< both ends are the same port */
  WIREUP_PATH_ACM_MULTICAST = 2, /**< resolved by ACM's multicast */
  WIREUP_PATH_SA_QUERY = 3,      /**< a PathRecord of the subnet administrator */
  WIREUP_PATH_CARD = 4,          /**< put together from the two cards: verified by nobody */
  WIREUP_PATH_PRELOADED = 5,     /**< from a file: OpenSM's dump of path records */
  WIREUP_PATH_IBACM = 6,         /**< told by the node's ibacm, or `wireup serve`, at its socket */
  WIREUP_PATH_KERNEL = 7         /**< resolved by the kernel, through librdmacm */
} wireup_path_origin_t;

typedef enum wireup_path_state {
  WIREUP_PATH_STATE_NONE = 0,
  WIREUP_PATH_STATE_PENDING = 1,  /**< RESOLVED or UNRESOLVED follows */
  WIREUP_PATH_STATE_RESOLVED = 2, /**< the fields are those of the path; PATH_CHANGED may follow */
  WIREUP_PATH_STATE_VOID = 3      /**< the fields are those that the path had */
} wireup_path_state_t;

/** A thread of wireup's own makes progress, so that connects are answered while the caller
 * computes. It is called "wireup-progress", blocks all signals and ends in
 * wireup_context_close(). */
#define WIREUP_FLAG_HELPER_THREAD 0x1u
/** This process never serves the other ranks of its node as their path resolver. */
#define WIREUP_FLAG_NO_RESOLVER 0x2u

#define WIREUP_MAX_NSPACE 255
#define WIREUP_MAX_TEXT 255
/** Bytes of a path record on the wire. */
#define WIREUP_PATH_RECORD_SIZE 64
/** In place of a rank: the path was asked for by an address. */
#define WIREUP_NO_RANK UINT32_MAX

/** Names a path of a context that was asked for; 0 is none. Never used twice in a context. */
typedef uint64_t wireup_path_id_t;

typedef struct wireup_context wireup_context_t;

/** How to open a context. Fill it with wireup_config_init(), then change what you want. */
typedef struct wireup_config {
  size_t struct_size;
  /** "name" or "name:port"; NULL or "": the setting `device` (WIREUP_DEVICE, wireup.conf), else the
   * nearest ACTIVE port. */
  const char* device;
  uint32_t flags; /**< WIREUP_FLAG_... */
  /** Partition to use; 0: the setting `pkey`, else the first of the port's table that has full
   * membership, else its first. */
  uint16_t pkey;
  /** Transport retries of the queue pairs, 0 to 7; 7 for RNR means without end. */
  uint8_t retry_count;
  uint8_t rnr_retry_count;
  /** Depths of each queue pair in work requests, its scatter entries, and inline bytes. */
  uint32_t send_depth;
  uint32_t receive_depth;
  uint32_t max_sge;
  uint32_t inline_size;
  /** Entries of each of the two completion queues; 0: enough for every rank of the job at full
   * depth, within the device's limit and 65,536. */
  uint32_t cq_entries;
  /** Queue pairs made ahead of need. */
  uint32_t spare_qps;
  /** Bound of wireup_context_open(). */
  uint64_t open_timeout_ns;
  /** Bound of the answer to a connection that the peer started. */
  uint64_t accept_timeout_ns;
} wireup_config_t;

/** A rank of a PMIx namespace; `nspace` NULL or "" is the caller's own job. */
typedef struct wireup_peer {
  const char* nspace;
  uint32_t rank;
} wireup_peer_t;

/** What is asked of a path. With all but struct_size zero: whatever the fabric says. */
typedef struct wireup_resolve_options {
  size_t struct_size;
  uint64_t service_id; /**< for this service; 0: for none in particular */
  /** Partition; 0: the context's. It must be in the port's table. */
  uint16_t pkey;
  /** With has_sl 1 the service level, 0 to 15, is a demand: no path is given that has another one.
   * With has_sl 0 the fabric chooses it, and `sl` is not read. */
  uint8_t has_sl;
  uint8_t sl;
} wireup_resolve_options_t;

/** A path of the outgoing direction. wireup_path_ah_attr() makes an address handle's attributes
 * of it. The queue pair number and Q_Key of the other end are the caller's to know. */
typedef struct wireup_path {
  size_t struct_size;
  wireup_path_id_t id;
  wireup_path_state_t state;
  uint32_t rank; /**< WIREUP_NO_RANK when it was asked for by an address */
  wireup_path_origin_t origin;
  uint32_t generation; /**< grows when all of the node's paths had become void */
  uint64_t age_ns;     /**< since the node learned it */
  /* The address vector, as struct ibv_ah_attr has it. */
  uint8_t dgid[16];
  uint32_t flow_label;
  uint16_t dlid;
  uint8_t sl;
  uint8_t src_path_bits;
  uint8_t static_rate; /**< IBA rate code: 2 = 2.5 Gb/s, 3 = 10, 7 = 40, ... */
  uint8_t is_global;   /**< 1: a router lies on the way, a GRH is needed */
  uint8_t sgid_index;
  uint8_t hop_limit;
  uint8_t traffic_class;
  uint8_t port;
  /* What a queue pair that uses it has to be made with. */
  uint16_t pkey;
  uint16_t pkey_index;
  uint16_t mtu_bytes; /**< of the record or of the port, whichever is smaller */
  /** The SA's PathRecord as on the wire, in network byte order: struct ibv_path_record of
   * <infiniband/sa.h>. */
  uint8_t record[WIREUP_PATH_RECORD_SIZE];
} wireup_path_t;

typedef struct wireup_event {
  size_t struct_size;
  wireup_event_type_t type;
  uint32_t rank; /**< WIREUP_NO_RANK for a path that was asked for by an address */
  /** The queue pair. After DISCONNECTED it is in the error state, and is destroyed by the first
   * wireup_poll_event() that follows the one which delivered the event. NULL after FAILED. */
  struct ibv_qp* qp;
  wireup_step_t step;     /**< FAILED, UNRESOLVED */
  wireup_status_t status; /**< FAILED, UNRESOLVED: the kind of failure */
  wireup_reason_t reason; /**< DISCONNECTED, PATH_CHANGED */
  uint32_t attempts;      /**< FAILED: messages sent in vain at that step */
  char nspace[WIREUP_MAX_NSPACE + 1];
  /** FAILED, UNRESOLVED: a sentence with the place and what to do. CONNECTED: empty, or why the
   * path was made from the peer's card (WIREUP_PATH_CARD), unverified. */
  char text[WIREUP_MAX_TEXT + 1];
  /** RESOLVED, UNRESOLVED, PATH_CHANGED: which one. */
  wireup_path_id_t path;
} wireup_event_t;

/** What is known of a connected peer. */
typedef struct wireup_peer_info_data {
  size_t struct_size;
  wireup_path_origin_t path_origin;
  uint8_t sgid[16];
  uint8_t dgid[16];
  uint16_t slid;
  uint16_t dlid;
  uint16_t pkey;
  uint16_t mtu_bytes; /**< path MTU in use: the smaller of the two directions' */
  uint8_t rate;       /**< IBA rate code of our direction: 2 = 2.5 Gb/s, 3 = 10, 7 = 40, ... */
  uint8_t sl;         /**< service level of our direction */
  uint8_t passive;    /**< 1 when the peer's request made the connection */
  uint8_t hop_limit;
  uint32_t local_qpn;
  uint32_t peer_qpn;
  uint32_t epoch;             /**< counts the connections of this pair */
  uint32_t retransmits;       /**< CM messages of this connection that were sent again */
  uint64_t connect_time_ns;   /**< from the start of the connection at this end to its readiness */
  uint64_t card_time_ns;      /**< of it: until the card was here */
  uint64_t path_time_ns;      /**< of it: until the path was here, counted from the card */
  uint64_t handshake_time_ns; /**< of it: the rest */
} wireup_peer_info_t;

/** Counters since the context was opened. */
typedef struct wireup_stats_data {
  size_t struct_size;
  uint64_t cm_sent;          /**< CM messages sent, retransmissions included */
  uint64_t cm_received;      /**< CM messages received and understood */
  uint64_t cm_retransmitted; /**< of those sent */
  uint64_t cm_dropped;       /**< received and not used: malformed, unknown or duplicate */
  uint64_t connected;        /**< connections that became ready */
  uint64_t failed;           /**< connection attempts that failed, at either end */
  uint64_t disconnected;
  uint64_t crossed;         /**< connects from both sides at once that were merged into one */
  uint64_t rejected;        /**< requests of others that this side refused */
  uint64_t paths_cached;    /**< paths that were in the node's cache */
  uint64_t paths_requested; /**< paths that the node's resolver was asked for */
  uint64_t cards_requested;
  uint32_t queue_pairs; /**< that exist now, spare ones included */
  uint32_t peers;       /**< that have a ready connection now */
} wireup_stats_t;

/** Version of the library that runs: major * 1,000,000 + minor * 1,000 + patch. */
WIREUP_API uint32_t wireup_version(void);

/** The name of a status ("WIREUP_ERR_TIMEOUT") and what it means; never NULL. */
WIREUP_API const char* wireup_status_name(wireup_status_t status);
WIREUP_API const char* wireup_status_str(wireup_status_t status);
/** "card", "path", "qp", "request", "reply", "ready-to-use", "disconnect"; never NULL. */
WIREUP_API const char* wireup_step_str(wireup_step_t step);
/** A sentence without a full stop: "the peer closed it"; never NULL. */
WIREUP_API const char* wireup_reason_str(wireup_reason_t reason);
/** "local", "acm_multicast", "sa_query", "card", "preloaded", "ibacm", "kernel", or "none"; never
 * NULL. */
WIREUP_API const char* wireup_path_origin_str(wireup_path_origin_t origin);

/** What went wrong in the last call of this thread that failed; "" before the first. Valid until
 * the next call of this thread. */
WIREUP_API const char* wireup_last_error(void);

/** Fills `config` with the defaults for its struct_size, which wireup_config_init sets.
 * `struct_size` is sizeof(wireup_config_t) as the caller was compiled. */
WIREUP_API wireup_status_t wireup_config_init(wireup_config_t* config, size_t struct_size);

/** Opens the device and the PMIx exchange and publishes the card of this process. Every rank of the
 * job has to open a context, in any order; none waits for the others here.
 * `config` may be NULL for the defaults; it is not kept.
 * Errors: INVALID_ARGUMENT, NO_DEVICE, NO_SUBNET_MANAGER, NO_PMIX, NO_PERMISSION, NO_RESOURCES,
 * MEMLOCK_LIMIT, TIMEOUT. Nothing is left open after an error. */
WIREUP_API wireup_status_t wireup_context_open(const wireup_config_t* config,
                                               wireup_context_t** context);

/** Disconnects all peers, leaves the exchange and frees the context with all its queue pairs. The
 * user's own objects made from wireup_context_pd() must be gone before. Takes at most about
 * `timeout_ns`, also when peers do not answer; then it returns TIMEOUT, and the context is freed
 * all the same. */
WIREUP_API wireup_status_t wireup_context_close(wireup_context_t* context, uint64_t timeout_ns);

/** This process's rank in its job, the number of ranks, and the job's namespace; 0 and "" when
 * `context` is NULL. The namespace lives as long as the context. */
WIREUP_API uint32_t wireup_rank(const wireup_context_t* context);
WIREUP_API uint32_t wireup_size(const wireup_context_t* context);
WIREUP_API const char* wireup_nspace(const wireup_context_t* context);

/** Starts a connection; CONNECTED or FAILED follows, no later than `timeout_ns` from now plus a
 * turn of progress. OK without a further event when the peer is connected already, and when a
 * connection to it is under way (its deadline is extended). To a peer that is being disconnected
 * the connection starts when that is over. A connection to oneself is allowed.
 * Errors: INVALID_ARGUMENT (rank outside the job, timeout 0), INVALID_STATE (closing). */
WIREUP_API wireup_status_t wireup_connect(wireup_context_t* context, const wireup_peer_t* peer,
                                          uint64_t timeout_ns);

/** Ends the connection to a peer; DISCONNECTED follows. Finish your work on the queue pair before:
 * what is still posted is flushed with an error. A connection that is still being made is given up.
 * Errors: INVALID_STATE when there is no connection to it. */
WIREUP_API wireup_status_t wireup_close(wireup_context_t* context, const wireup_peer_t* peer);

/** Finds the path to a rank, without a connection or a queue pair. `options` may be NULL for the
 * defaults; it is not kept. The caller sets path->struct_size.
 *
 * OK with path->state RESOLVED: the path is known, and here; no event follows. OK with PENDING:
 * RESOLVED or UNRESOLVED follows no later than `timeout_ns` from now plus a turn of progress, with
 * path->id in it; wireup_path_info() then gives the path. Asked again with the same options while
 * it is pending, the id is the same and the deadline is extended.
 *
 * From then on the path is watched: PATH_CHANGED comes once when it is void, about a second after
 * the node has learned of that at the latest, if progress is made. Then destroy the address handles
 * that were made from it and call wireup_resolve() again, which gives the same id. The watch ends
 * with wireup_unresolve(), UNRESOLVED, or the context.
 *
 * Errors: INVALID_ARGUMENT (rank outside the job, timeout 0, P_Key not in the port's table, an SL
 * above 15), UNSUPPORTED (another namespace), and what is known at once of why there is no path. */
WIREUP_API wireup_status_t wireup_resolve(wireup_context_t* context, const wireup_peer_t* peer,
                                          const wireup_resolve_options_t* options,
                                          uint64_t timeout_ns, wireup_path_t* path);

/** The same for a port of the fabric, whoever uses it. `address` is "name:node7", "ip:10.0.0.7" (or
 * IPv6), "gid:fe80::2:c903:0:1" or "lid:12".
 * Errors: as wireup_resolve(); INVALID_ARGUMENT also for a text that is no address. */
WIREUP_API wireup_status_t wireup_resolve_address(wireup_context_t* context, const char* address,
                                                  const wireup_resolve_options_t* options,
                                                  uint64_t timeout_ns, wireup_path_t* path);

/** A path that was asked for, as it stands. The caller sets path->struct_size.
 * Errors: NOT_FOUND when the id is none, or of no use any more. */
WIREUP_API wireup_status_t wireup_path_info(wireup_context_t* context, wireup_path_id_t id,
                                            wireup_path_t* path);

/** Tells that a resolved path did not work. It is void: the node's other processes are told as
 * well, and PATH_CHANGED follows here too. The next wireup_resolve() asks the fabric again.
 * OK without effect when it is void already.
 * Errors: NOT_FOUND, INVALID_STATE while it is pending. */
WIREUP_API wireup_status_t wireup_path_failed(wireup_context_t* context, wireup_path_id_t id);

/** Ends the watch of a path, or gives up a pending one. No event with this id is given out any
 * more. Errors: NOT_FOUND. */
WIREUP_API wireup_status_t wireup_unresolve(wireup_context_t* context, wireup_path_id_t id);

/** Fills the attributes for ibv_create_ah() or ibv_modify_qp(). Needs no context.
 * Errors: INVALID_STATE when the path was not resolved. */
WIREUP_API wireup_status_t wireup_path_ah_attr(const wireup_path_t* path,
                                               struct ibv_ah_attr* attributes);

/** Does what is due, without waiting. Errors are those of the device; the context is of no use
 * after one and should be closed. */
WIREUP_API wireup_status_t wireup_progress(wireup_context_t* context);

/** Makes progress until an event is there or `timeout_ns` passed (OK in the first case, TIMEOUT in
 * the second). */
WIREUP_API wireup_status_t wireup_wait(wireup_context_t* context, uint64_t timeout_ns);

/** A descriptor for poll(2), readable when wireup_progress() has something to do; with the helper
 * thread when an event is there. Take the events that there are before waiting on it. Owned by the
 * context; only wait on it. -1 when `context` is NULL. */
WIREUP_API int wireup_fd(const wireup_context_t* context);

/** Nanoseconds until wireup_progress() must be called although wireup_fd() is not readable; 0: now,
 * or an event is there; UINT64_MAX: no need. wireup_fd() becomes readable at that time as well. */
WIREUP_API uint64_t wireup_next_timeout_ns(wireup_context_t* context);

/** Takes the oldest event: 1 and the event, or 0 when there is none (or an argument is NULL).
 * The caller sets event->struct_size. */
WIREUP_API int wireup_poll_event(wireup_context_t* context, wireup_event_t* event);

/** The queue pair of a connected peer; valid until its DISCONNECTED event is polled and for one
 * more wireup_poll_event(). Errors: INVALID_STATE when it is not connected. */
WIREUP_API wireup_status_t wireup_peer_qp(wireup_context_t* context, const wireup_peer_t* peer,
                                          struct ibv_qp** qp);
/** Errors: INVALID_STATE when it is not connected. */
WIREUP_API wireup_status_t wireup_peer_info(wireup_context_t* context, const wireup_peer_t* peer,
                                            wireup_peer_info_t* info);

/** What carries the connection manager's messages, and why it was chosen: "ud: a UD queue pair of
 * our own (0x000123), the first choice: it needs no privilege". For people; owned by the context,
 * "" when it is NULL. WIREUP_CM_CARRIER forces another one. */
WIREUP_API const char* wireup_context_carrier(const wireup_context_t* context);

/** Objects that all queue pairs of the context share; owned by it, NULL when `context` is NULL. The
 * completion queues are for the user alone: wireup never polls them. */
WIREUP_API struct ibv_context* wireup_context_verbs(const wireup_context_t* context);
WIREUP_API struct ibv_pd* wireup_context_pd(const wireup_context_t* context);
WIREUP_API struct ibv_cq* wireup_context_send_cq(const wireup_context_t* context);
WIREUP_API struct ibv_cq* wireup_context_recv_cq(const wireup_context_t* context);

WIREUP_API wireup_status_t wireup_stats(wireup_context_t* context, wireup_stats_t* stats);

#ifdef __cplusplus
}
#endif

#endif /* WIREUP_WIREUP_H */
