/* SPDX-License-Identifier: BSD-3-Clause */
/* The interface from C11: what can be called without a device or a PMIx server. Prints what went
 * wrong and returns 1, else 0. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wireup/wireup.h"

/* Behind wireup.h on purpose: it needs nothing of it. */
#include <infiniband/verbs.h>

static int failures = 0;

static void expect(int condition, const char* what) {
  if (!condition) {
    fprintf(stderr, "failed: %s (last error: '%s')\n", what, wireup_last_error());
    ++failures;
  }
}

static void names(void) {
  expect(wireup_version() == 1000, "version 0.1.0 is 1000");
  for (int status = 0; status <= 19; ++status) {
    expect(strncmp(wireup_status_name((wireup_status_t)status), "WIREUP_", 7) == 0, "status name");
    expect(strlen(wireup_status_str((wireup_status_t)status)) > 0, "status text");
    expect(strstr(wireup_status_str((wireup_status_t)status), "unknown") == NULL, "known status");
  }
  expect(strcmp(wireup_status_str((wireup_status_t)99), "unknown status") == 0, "status 99");
  expect(strcmp(wireup_step_str(WIREUP_STEP_READY_TO_USE), "ready-to-use") == 0, "step");
  expect(strcmp(wireup_step_str((wireup_step_t)99), "unknown") == 0, "step 99");
  expect(strcmp(wireup_path_origin_str(WIREUP_PATH_ACM_MULTICAST), "acm_multicast") == 0, "origin");
}

static void null_arguments(void) {
  const wireup_peer_t peer = {NULL, 1};
  struct ibv_qp* qp = NULL;
  wireup_event_t event = {.struct_size = sizeof event};
  wireup_stats_t stats = {.struct_size = sizeof stats};
  wireup_peer_info_t info = {.struct_size = sizeof info};
  expect(wireup_config_init(NULL, 0) == WIREUP_ERR_INVALID_ARGUMENT, "config NULL");
  expect(wireup_context_open(NULL, NULL) == WIREUP_ERR_INVALID_ARGUMENT, "open NULL");
  expect(strstr(wireup_last_error(), "wireup_context_open") != NULL, "the text names the call");
  expect(wireup_context_close(NULL, 1) == WIREUP_ERR_INVALID_ARGUMENT, "close NULL");
  expect(wireup_connect(NULL, &peer, 1) == WIREUP_ERR_INVALID_ARGUMENT, "connect NULL");
  expect(wireup_close(NULL, &peer) == WIREUP_ERR_INVALID_ARGUMENT, "close peer NULL");
  expect(wireup_progress(NULL) == WIREUP_ERR_INVALID_ARGUMENT, "progress NULL");
  expect(wireup_wait(NULL, 1) == WIREUP_ERR_INVALID_ARGUMENT, "wait NULL");
  expect(wireup_peer_qp(NULL, &peer, &qp) == WIREUP_ERR_INVALID_ARGUMENT, "qp NULL");
  expect(wireup_peer_info(NULL, &peer, &info) == WIREUP_ERR_INVALID_ARGUMENT, "info NULL");
  expect(wireup_stats(NULL, &stats) == WIREUP_ERR_INVALID_ARGUMENT, "stats NULL");
  expect(wireup_poll_event(NULL, &event) == 0, "event NULL");
  expect(wireup_fd(NULL) == -1, "fd NULL");
  expect(wireup_next_timeout_ns(NULL) == UINT64_MAX, "timeout NULL");
  expect(wireup_rank(NULL) == 0 && wireup_size(NULL) == 0, "rank and size NULL");
  expect(strcmp(wireup_nspace(NULL), "") == 0, "nspace NULL");
  expect(wireup_context_pd(NULL) == NULL && wireup_context_verbs(NULL) == NULL, "pd NULL");
  expect(wireup_context_send_cq(NULL) == NULL && wireup_context_recv_cq(NULL) == NULL, "cq NULL");
}

static void paths(void) {
  const wireup_peer_t peer = {NULL, 1};
  wireup_path_t path = {.struct_size = sizeof path};
  struct ibv_ah_attr attributes;
  /* Looked at as a context only once the other arguments are good. */
  wireup_context_t* never_used = (wireup_context_t*)&path;
  expect(wireup_resolve(NULL, &peer, NULL, 1, &path) == WIREUP_ERR_INVALID_ARGUMENT,
         "resolve NULL");
  expect(wireup_resolve(never_used, NULL, NULL, 1, &path) == WIREUP_ERR_INVALID_ARGUMENT,
         "resolve without a peer");
  expect(wireup_resolve(never_used, &peer, NULL, 1, NULL) == WIREUP_ERR_INVALID_ARGUMENT,
         "resolve without a path");
  expect(wireup_resolve_address(NULL, "gid:::1", NULL, 1, &path) == WIREUP_ERR_INVALID_ARGUMENT,
         "resolve_address NULL");
  expect(wireup_resolve_address(never_used, NULL, NULL, 1, &path) == WIREUP_ERR_INVALID_ARGUMENT,
         "resolve_address without an address");
  expect(wireup_path_info(NULL, 1, &path) == WIREUP_ERR_INVALID_ARGUMENT, "path_info NULL");
  expect(wireup_path_failed(NULL, 1) == WIREUP_ERR_INVALID_ARGUMENT, "path_failed NULL");
  expect(wireup_unresolve(NULL, 1) == WIREUP_ERR_INVALID_ARGUMENT, "unresolve NULL");
  expect(strstr(wireup_last_error(), "wireup_unresolve") != NULL, "the text names the call");
  expect(wireup_path_ah_attr(NULL, &attributes) == WIREUP_ERR_INVALID_ARGUMENT, "ah_attr NULL");

  const struct {
    const char* what;
    wireup_resolve_options_t options;
  } wrong[] = {
      {"options without a size", {.struct_size = 0}},
      {"SL 16", {.struct_size = sizeof(wireup_resolve_options_t), .has_sl = 1, .sl = 16}},
      {"has_sl 2", {.struct_size = sizeof(wireup_resolve_options_t), .has_sl = 2}},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; ++i) {
    expect(wireup_resolve(never_used, &peer, &wrong[i].options, 1, &path) ==
               WIREUP_ERR_INVALID_ARGUMENT,
           wrong[i].what);
  }
  for (const char* const* text =
           (const char* const[]){
               "", "node7", "gid:", "gid:fe80", "gid:fe80::1%eth0", "gid:fe80::1::2",
               "gid:::", "gid:ff12::1", "lid:", "lid:0", "lid:49152", "lid:65536", "lid:1x",
               "ip:10.0.0.256", "ip:", "name:",
               "name:longer-than-sixty-four-bytes-longer-than-sixty-four-bytes-longer-than", NULL};
       *text != NULL; ++text) {
    expect(wireup_resolve_address(never_used, *text, NULL, 1, &path) == WIREUP_ERR_INVALID_ARGUMENT,
           *text);
    expect(strlen(wireup_last_error()) > 0, "a text after an error");
  }

  path.state = WIREUP_PATH_STATE_PENDING;
  expect(wireup_path_ah_attr(&path, &attributes) == WIREUP_ERR_INVALID_STATE, "a pending path");
  path.state = WIREUP_PATH_STATE_VOID;
  expect(wireup_path_ah_attr(&path, &attributes) == WIREUP_ERR_INVALID_STATE, "a void path");
  path.state = WIREUP_PATH_STATE_RESOLVED;
  path.struct_size = 8;
  expect(wireup_path_ah_attr(&path, &attributes) == WIREUP_ERR_INVALID_ARGUMENT, "a small path");
  expect(wireup_resolve(never_used, &peer, NULL, 1, &path) == WIREUP_ERR_INVALID_ARGUMENT,
         "resolve into a small path");
  expect(wireup_path_info(never_used, 1, &path) == WIREUP_ERR_INVALID_ARGUMENT,
         "path_info into a small path");
  path = (wireup_path_t){.struct_size = sizeof path,
                         .state = WIREUP_PATH_STATE_RESOLVED,
                         .dgid = {0xFE, 0x80, [15] = 9},
                         .flow_label = 0xABCDE,
                         .dlid = 0x1234,
                         .sl = 5,
                         .src_path_bits = 1,
                         .static_rate = 7,
                         .is_global = 1,
                         .sgid_index = 2,
                         .hop_limit = 64,
                         .traffic_class = 3,
                         .port = 2};
  memset(&attributes, 0xA5, sizeof attributes);
  expect(wireup_path_ah_attr(&path, &attributes) == WIREUP_OK, "a resolved path");
  expect(attributes.dlid == 0x1234 && attributes.sl == 5 && attributes.src_path_bits == 1 &&
             attributes.static_rate == 7 && attributes.is_global == 1 && attributes.port_num == 2,
         "the address vector");
  expect(attributes.grh.flow_label == 0xABCDE && attributes.grh.sgid_index == 2 &&
             attributes.grh.hop_limit == 64 && attributes.grh.traffic_class == 3 &&
             attributes.grh.dgid.raw[0] == 0xFE && attributes.grh.dgid.raw[15] == 9,
         "its GRH");
  expect(sizeof path.record == 64, "a path record has 64 bytes");
  expect(strlen(wireup_reason_str(WIREUP_REASON_PATH_FAILED)) > 0, "reason");
  expect(strcmp(wireup_reason_str((wireup_reason_t)99), "unknown") == 0, "reason 99");
}

static void configs(void) {
  wireup_config_t config;
  wireup_context_t* context = NULL;
  memset(&config, 0xA5, sizeof config);
  expect(wireup_config_init(&config, sizeof config) == WIREUP_OK, "config_init");
  expect(config.struct_size == sizeof config && config.device == NULL, "defaults");
  expect(config.send_depth == 64 && config.receive_depth == 64 && config.inline_size == 64,
         "default depths");
  expect(wireup_config_init(&config, 8) == WIREUP_ERR_INVALID_ARGUMENT, "a size too small");

  /* A later version's larger struct: what we do not know is zeroed. */
  struct {
    wireup_config_t config;
    uint64_t later;
  } larger;
  memset(&larger, 0xA5, sizeof larger);
  expect(wireup_config_init(&larger.config, sizeof larger) == WIREUP_OK, "a larger struct");
  expect(larger.later == 0 && larger.config.struct_size == sizeof larger, "its new fields are 0");

  const struct {
    const char* what;
    const char* device;
    uint32_t flags;
    uint8_t retry_count;
    uint32_t send_depth;
  } wrong[] = {
      {"an unknown flag", NULL, 0x80, 7, 64},
      {"retry count 8", NULL, 0, 8, 64},
      {"depth 0", NULL, 0, 7, 0},
      {"a device without port number", "softhca0:", 0, 7, 64},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; ++i) {
    (void)wireup_config_init(&config, sizeof config);
    config.device = wrong[i].device;
    config.flags = wrong[i].flags;
    config.retry_count = wrong[i].retry_count;
    config.send_depth = wrong[i].send_depth;
    context = (wireup_context_t*)&config;
    expect(wireup_context_open(&config, &context) == WIREUP_ERR_INVALID_ARGUMENT, wrong[i].what);
    expect(context == NULL, "no context after an error");
    expect(strlen(wireup_last_error()) > 0, "a text after an error");
  }
  config.struct_size = 8;
  expect(wireup_context_open(&config, &context) == WIREUP_ERR_INVALID_ARGUMENT, "small struct");
}

static void no_device(void) {
  wireup_context_t* context = NULL;
  expect(wireup_context_open(NULL, &context) == WIREUP_ERR_NO_DEVICE, "open without a device");
  expect(context == NULL, "no context without a device");
  expect(strstr(wireup_last_error(), "no RDMA device") != NULL, "the text says so");
}

int main(int argc, char** argv) {
  names();
  null_arguments();
  paths();
  configs();
  if (argc > 1 && strcmp(argv[1], "--no-device") == 0) {
    no_device();
  }
  return failures == 0 ? 0 : 1;
}
