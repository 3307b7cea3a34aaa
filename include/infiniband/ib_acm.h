/* SPDX-License-Identifier: BSD-3-Clause */
/* The five calls of libibacm as of September 2009: addresses and paths of an InfiniBand fabric by
 * ACM. Link with -libacm. Manual pages: ib_acm_resolve_name(3), ib_acm_resolve_path(3),
 * ib_acm_convert_to_path(3).
 *
 * Later generations of this interface gave two of the names other arguments; this header and
 * libibacm.so.1 are the first one.
 *
 * Every call returns 0, or -1 with errno: EINVAL (an argument), ENODEV (no such port here),
 * EADDRNOTAVAIL (the source is not this node's, or the destination is invalid), ETIMEDOUT (nobody
 * answers for the destination, or the service does not answer), ENODATA (there is no path), EPROTO
 * (the service broke its protocol), EACCES (a privilege is missing). All are thread-safe and block,
 * for 10 seconds at most (IB_ACM_TIMEOUT in the environment: another number of milliseconds).
 *
 * They ask the node's service (`wireup serve` or ibacm) at /run/ibacm-unix.sock (IB_ACM_SOCKET in
 * the environment: another path). Where none answers, the process asks the fabric itself, for which
 * it needs the service's privileges. */
#ifndef INFINIBAND_IB_ACM_H
#define INFINIBAND_IB_ACM_H

#include <infiniband/verbs.h>
#include <stdint.h>
#include <sys/socket.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A local port. */
struct ib_acm_dev_addr {
  uint64_t guid; /* as ibv_get_device_guid(): big-endian */
  uint16_t pkey_index;
  uint8_t port_num;
  uint8_t reserved[5];
};

/* What a connection needs besides the address vector. */
struct ib_acm_resolve_data {
  uint32_t reserved1;
  uint8_t init_depth;      /* reads and atomics that this port may have outstanding */
  uint8_t resp_resources;  /* … and that it can serve */
  uint8_t packet_lifetime; /* exponent of 4.096 us */
  uint8_t mtu;             /* enum ibv_mtu */
  uint8_t reserved2[8];
};

/* Bit of reversible_numpath. */
#define IB_PATH_RECORD_REVERSIBLE 0x80

/* SA PathRecord as on the wire, all fields big-endian (IBTA vol 1, 15.2.5.16). mtu, rate and
 * packetlifetime have their selector in the upper two bits. */
struct ib_path_record {
  uint64_t service_id;
  union ibv_gid dgid;
  union ibv_gid sgid;
  uint16_t dlid;
  uint16_t slid;
  uint32_t flowlabel_hoplimit; /* flow label << 8 | hop limit */
  uint8_t tclass;
  uint8_t reversible_numpath;
  uint16_t pkey;
  uint16_t qosclass_sl; /* QoS class << 4 | SL */
  uint8_t mtu;
  uint8_t rate;
  uint8_t packetlifetime;
  uint8_t preference;
  uint8_t reserved[6];
};

/* Resolves names. `src` may be NULL: a local name is chosen. */
int ib_acm_resolve_name(char* src, char* dest, struct ib_acm_dev_addr* dev_addr,
                        struct ibv_ah_attr* ah, struct ib_acm_resolve_data* data);

/* Resolves IPv4 or IPv6 addresses of one family. `src` may be NULL: the address that the system's
 * routes give is taken. */
int ib_acm_resolve_ip(struct sockaddr* src, struct sockaddr* dest, struct ib_acm_dev_addr* dev_addr,
                      struct ibv_ah_attr* ah, struct ib_acm_resolve_data* data);

/* Completes a path record that names a destination (DGID, or else DLID) and a source (SGID, or else
 * SLID). It may come from a cache. */
int ib_acm_resolve_path(struct ib_path_record* path);

/* As ib_acm_resolve_path(), always asked of the subnet administrator. */
int ib_acm_query_path(struct ib_path_record* path);

/* Makes a path record of what ib_acm_resolve_name() or ib_acm_resolve_ip() gave, without asking
 * anybody. Fields that these do not tell stay as they are. */
int ib_acm_convert_to_path(struct ib_acm_dev_addr* dev_addr, struct ibv_ah_attr* ah,
                           struct ib_acm_resolve_data* data, struct ib_path_record* path);

#ifdef __cplusplus
}
#endif

#endif
