/* The knobs, and the device, its port and its address, that they and the system make a rank use. */
#ifndef TRANSPORT_NET_WIRE_VERBS_DEVICE_H
#define TRANSPORT_NET_WIRE_VERBS_DEVICE_H

#include <stdbool.h>

#include "transport/net/wire/verbs/lib.h"
#include "transport/ops.h"

typedef struct verbs_settings {
  const char *hca;
  int64_t gid_index; /* -1: chosen */
  int64_t traffic_class, service_level, timeout, retry_count;
  int64_t rails;     /* 0: by the devices and ranks of the host */
  int64_t qps;       /* queue pairs per pair of ranks and rail */
  int64_t fetch_min; /* bytes from which on a message is fetched; -1: never */
} verbs_settings_t;

/* COLL_ERROR_INVALID */
coll_status_t verbs_settings_read(verbs_settings_t *settings);

typedef struct verbs_device {
  struct ibv_context *context;
  char name[64];
  int port;
  bool is_ethernet;
  uint16_t lid;
  enum ibv_mtu mtu;
  union ibv_gid gid;
  int gid_index;
  int reads_out, reads_in; /* reads under way that a queue pair can ask for, and answer */
} verbs_device_t;

/* Opens the active ports that this rank is to use, 1 to TRANSPORT_RAILS: of those nearest to this
 * thread's core, the next ones for each rank of the host. COLL_ERROR_UNSUPPORTED: there is none.
 * Closed by the caller; ports of one device have one context. */
coll_status_t verbs_devices_open(const verbs_lib_t *lib, const verbs_settings_t *settings,
                                 verbs_device_t devices[TRANSPORT_RAILS], int *count);

#endif
