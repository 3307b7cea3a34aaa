/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls of libibacm, as a C program makes them:
 *   libibacm_caller name DEST [SRC]
 *   libibacm_caller ip DEST [SRC]          IPv4 or IPv6
 *   libibacm_caller path DLID SLID         resolve_path
 *   libibacm_caller query DLID SLID        query_path
 *   libibacm_caller gids DGID SGID         resolve_path by GIDs
 * Prints what was found, of name and ip also converted to a path record; "failed ERRNO" else. */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <infiniband/ib_acm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failed(const char* call) {
  printf("failed %s: %s\n", call, strerror(errno));
  return 1;
}

static void print_path(const struct ib_path_record* path) {
  char dgid[INET6_ADDRSTRLEN], sgid[INET6_ADDRSTRLEN];
  inet_ntop(AF_INET6, path->dgid.raw, dgid, sizeof dgid);
  inet_ntop(AF_INET6, path->sgid.raw, sgid, sizeof sgid);
  printf(
      "path dgid %s sgid %s dlid %d slid %d pkey 0x%04x sl %d mtu 0x%02x rate 0x%02x life 0x%02x "
      "reversible 0x%02x\n",
      dgid, sgid, be16toh(path->dlid), be16toh(path->slid), be16toh(path->pkey),
      be16toh(path->qosclass_sl) & 0xF, path->mtu, path->rate, path->packetlifetime,
      path->reversible_numpath);
}

static int resolved(int status, struct ib_acm_dev_addr* dev, struct ibv_ah_attr* ah,
                    struct ib_acm_resolve_data* data) {
  struct ib_path_record path;
  if (status != 0) {
    return failed("resolving");
  }
  printf("device 0x%016llx port %d pkey_index %d\n", (unsigned long long)be64toh(dev->guid),
         dev->port_num, dev->pkey_index);
  printf("address dlid %d sl %d bits %d rate %d global %d port %d depth %d resources %d\n",
         ah->dlid, ah->sl, ah->src_path_bits, ah->static_rate, ah->is_global, ah->port_num,
         data->init_depth, data->resp_resources);
  memset(&path, 0, sizeof path);
  path.service_id = htobe64(77);
  if (ib_acm_convert_to_path(dev, ah, data, &path) != 0) {
    return failed("convert");
  }
  if (path.service_id != htobe64(77)) {
    printf("failed convert: a field that it does not know was changed\n");
    return 1;
  }
  print_path(&path);
  return 0;
}

static int parse_ip(const char* text, struct sockaddr_storage* address) {
  struct sockaddr_in* ipv4 = (struct sockaddr_in*)address;
  struct sockaddr_in6* ipv6 = (struct sockaddr_in6*)address;
  memset(address, 0, sizeof *address);
  if (inet_pton(AF_INET, text, &ipv4->sin_addr) == 1) {
    address->ss_family = AF_INET;
    return 0;
  }
  address->ss_family = AF_INET6;
  return inet_pton(AF_INET6, text, &ipv6->sin6_addr) == 1 ? 0 : -1;
}

int main(int argc, char** argv) {
  struct ib_acm_dev_addr dev;
  struct ibv_ah_attr ah;
  struct ib_acm_resolve_data data;
  struct sockaddr_storage dest, src;
  struct ib_path_record path;
  const char* kind = argc > 2 ? argv[1] : "";
  char* source = argc > 3 ? argv[3] : NULL;
  int status;
  if (strcmp(kind, "name") == 0) {
    return resolved(ib_acm_resolve_name(source, argv[2], &dev, &ah, &data), &dev, &ah, &data);
  }
  if (strcmp(kind, "ip") == 0 && parse_ip(argv[2], &dest) == 0 &&
      (source == NULL || parse_ip(source, &src) == 0)) {
    status = ib_acm_resolve_ip(source != NULL ? (struct sockaddr*)&src : NULL,
                               (struct sockaddr*)&dest, &dev, &ah, &data);
    return resolved(status, &dev, &ah, &data);
  }
  if (source == NULL) {
    fprintf(stderr, "usage: libibacm_caller name|ip|path|query|gids DEST [SRC]\n");
    return 2;
  }
  memset(&path, 0, sizeof path);
  if (strcmp(kind, "gids") == 0) {
    inet_pton(AF_INET6, argv[2], path.dgid.raw);
    inet_pton(AF_INET6, source, path.sgid.raw);
  } else {
    path.dlid = htobe16((uint16_t)atoi(argv[2]));
    path.slid = htobe16((uint16_t)atoi(source));
  }
  status = strcmp(kind, "query") == 0 ? ib_acm_query_path(&path) : ib_acm_resolve_path(&path);
  if (status != 0) {
    return failed(kind);
  }
  print_path(&path);
  return 0;
}
