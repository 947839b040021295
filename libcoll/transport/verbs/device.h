/* The knobs, and the device, its port and its address, that they and the system make a rank use. */
#ifndef TRANSPORT_VERBS_DEVICE_H
#define TRANSPORT_VERBS_DEVICE_H

#include <stdbool.h>

#include "transport/verbs/lib.h"

typedef struct verbs_settings {
  const char *hca;
  int64_t gid_index; /* -1: chosen */
  int64_t traffic_class, service_level, timeout, retry_count;
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
} verbs_device_t;

/* Opens one of the active ports that may be used: of those nearest to this thread's core, one by
 * the rank's number on its host, so that such ranks use different ones. COLL_ERROR_UNSUPPORTED:
 * there is none. Closed by the caller. */
coll_status_t verbs_device_open(const verbs_lib_t *lib, const verbs_settings_t *settings,
                                verbs_device_t *device);

#endif
