/* Looks at every port of every device. */
#include "transport/verbs/device.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/knob.h"
#include "transport/verbs/choose.h"
#include "transport/verbs/verbs.h"

#define GIDS_MAX 256
#define PORTS_MAX 128 /* that are looked at on one machine */

static const base_knob_t knobs[] = {
    {.name = "COLL_IB_HCA",
     .kind = BASE_KNOB_TEXT,
     .fallback = "",
     .help = "RDMA devices that may be used, as mlx5_0:1,mlx5_1: prefixes of names, perhaps with a "
             "port; = before one: the whole name, ^: not this one"},
    {.name = "COLL_IB_GID_INDEX",
     .kind = BASE_KNOB_INTEGER,
     .fallback = "-1",
     .min = -1,
     .max = GIDS_MAX - 1,
     .help = "index of the RDMA port's address; -1: RoCE version 2 and IPv4 first"},
    {.name = "COLL_IB_TC",
     .kind = BASE_KNOB_INTEGER,
     .fallback = "0",
     .min = 0,
     .max = 255,
     .help = "traffic class of RDMA packets"},
    {.name = "COLL_IB_SL",
     .kind = BASE_KNOB_INTEGER,
     .fallback = "0",
     .min = 0,
     .max = 15,
     .help = "service level of RDMA packets"},
    {.name = "COLL_IB_TIMEOUT",
     .kind = BASE_KNOB_INTEGER,
     .fallback = "18",
     .min = 1,
     .max = 31,
     .help = "an RDMA packet that is not acknowledged is sent again after 4.096 us * 2^this"},
    {.name = "COLL_IB_RETRY_CNT",
     .kind = BASE_KNOB_INTEGER,
     .fallback = "7",
     .min = 0,
     .max = 7,
     .help = "times that it is sent again before the peer is lost"}};

enum { KNOB_HCA, KNOB_GID_INDEX, KNOB_TC, KNOB_SL, KNOB_TIMEOUT, KNOB_RETRY_CNT, KNOB_COUNT };

_Static_assert(sizeof knobs / sizeof knobs[0] == KNOB_COUNT, "one name per knob");

const base_knob_t *transport_verbs_knob(int index) {
  return index >= 0 && index < KNOB_COUNT ? &knobs[index] : NULL;
}

coll_status_t verbs_settings_read(verbs_settings_t *settings) {
  settings->hca = base_knob_text(&knobs[KNOB_HCA]);
  if (!verbs_hca_is_list(settings->hca)) {
    return base_fail(COLL_ERROR_INVALID,
                     "COLL_IB_HCA is \"%s\": give names of devices separated by commas, such as "
                     "mlx5_0:1,^mlx5_1",
                     settings->hca);
  }
  COLL_TRY(base_knob_integer(&knobs[KNOB_GID_INDEX], &settings->gid_index));
  COLL_TRY(base_knob_integer(&knobs[KNOB_TC], &settings->traffic_class));
  COLL_TRY(base_knob_integer(&knobs[KNOB_SL], &settings->service_level));
  COLL_TRY(base_knob_integer(&knobs[KNOB_TIMEOUT], &settings->timeout));
  return base_knob_integer(&knobs[KNOB_RETRY_CNT], &settings->retry_count);
}

/* ---- ports ----------------------------------------------------------------------------------*/

static const char *name_of(const verbs_lib_t *lib, struct ibv_device *device) {
  const char *name = lib->ibv_get_device_name(device);
  return name != NULL ? name : "";
}

/* In place of the library's own, whose result is shorter in old versions. */
static bool query_port(struct ibv_context *context, int port, struct ibv_port_attr *attr) {
  struct verbs_context *verbs = verbs_get_ctx_op(context, query_port);
  memset(attr, 0, sizeof *attr);
  return verbs != NULL && verbs->query_port(context, (uint8_t)port, attr, sizeof *attr) == 0;
}

/* The index of the port's address; -1: it has none. */
static int choose_gid(const verbs_lib_t *lib, const verbs_settings_t *settings,
                      struct ibv_context *context, int port, const struct ibv_port_attr *attr) {
  verbs_gid_t gids[GIDS_MAX];
  bool is_ethernet = attr->link_layer == IBV_LINK_LAYER_ETHERNET;
  int count = attr->gid_tbl_len < GIDS_MAX ? attr->gid_tbl_len : GIDS_MAX;
  if (settings->gid_index >= 0) return (int)settings->gid_index;
  if (!is_ethernet) return 0;
  for (int i = 0; i < count; i++) {
    struct ibv_gid_entry entry = {0};
    gids[i] = (verbs_gid_t){0};
    if (lib->_ibv_query_gid_ex(context, (uint32_t)port, (uint32_t)i, &entry, 0, sizeof entry) != 0)
      continue;
    memcpy(gids[i].bytes, entry.gid.raw, sizeof gids[i].bytes);
    gids[i].is_v2 = entry.gid_type == IBV_GID_TYPE_ROCE_V2;
  }
  return verbs_gid_choose(gids, count);
}

/* Whether the port works, and where it is. */
static bool look_at_port(const verbs_lib_t *lib, const verbs_settings_t *settings,
                         struct ibv_context *context, int port, verbs_device_t *found) {
  struct ibv_port_attr attr;
  struct ibv_gid_entry entry = {0};
  if (!query_port(context, port, &attr) || attr.state != IBV_PORT_ACTIVE) return false;
  int gid = choose_gid(lib, settings, context, port, &attr);
  if (gid < 0 || lib->_ibv_query_gid_ex(context, (uint32_t)port, (uint32_t)gid, &entry, 0,
                                        sizeof entry) != 0) {
    return false;
  }
  *found = (verbs_device_t){.context = context,
                            .port = port,
                            .is_ethernet = attr.link_layer == IBV_LINK_LAYER_ETHERNET,
                            .lid = attr.lid,
                            .mtu = attr.active_mtu,
                            .gid = entry.gid,
                            .gid_index = gid};
  snprintf(found->name, sizeof found->name, "%s", name_of(lib, context->device));
  return true;
}

/* ---- the choice -----------------------------------------------------------------------------*/

typedef struct candidates {
  verbs_device_t ports[PORTS_MAX];
  bool is_near[PORTS_MAX];
  int count, near_count;
} candidates_t;

/* The NUMA node of a device, or of this thread's core if NULL; -1: not known. */
static int node_of(const char *device) {
  char path[128];
  int node = -1;
  if (device == NULL) {
    unsigned cpu, own;
    return getcpu(&cpu, &own) == 0 ? (int)own : -1;
  }
  snprintf(path, sizeof path, "/sys/class/infiniband/%s/device/numa_node", device);
  FILE *file = fopen(path, "re");
  if (file == NULL) return -1;
  char line[16] = "";
  if (fgets(line, sizeof line, file) != NULL) node = (int)strtol(line, NULL, 10);
  fclose(file);
  return node;
}

/* Adds the device's ports; closes it if it has none that may be used. */
static void add_device(const verbs_lib_t *lib, const verbs_settings_t *settings,
                       struct ibv_device *device, candidates_t *found) {
  struct ibv_device_attr attr;
  int before = found->count, own_node = node_of(NULL);
  struct ibv_context *context;
  if (device->transport_type != IBV_TRANSPORT_IB) return;
  context = lib->ibv_open_device(device);
  if (context == NULL) return;
  if (lib->ibv_query_device(context, &attr) != 0 || attr.max_srq == 0) attr.phys_port_cnt = 0;
  for (int port = 1; port <= attr.phys_port_cnt && found->count < PORTS_MAX; port++) {
    if (!verbs_hca_allows(settings->hca, name_of(lib, device), port)) continue;
    if (!look_at_port(lib, settings, context, port, &found->ports[found->count])) continue;
    int node = node_of(name_of(lib, device));
    bool is_near = node < 0 || own_node < 0 || node == own_node;
    found->is_near[found->count++] = is_near;
    found->near_count += is_near;
  }
  if (found->count == before) lib->ibv_close_device(context);
}

/* The number of this rank on its host, as the launcher says; of threads, in the order in which they
 * come here. */
static unsigned local_number(void) {
  static const char *const names[] = {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
                                      "SLURM_LOCALID"};
  static _Atomic unsigned next;
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    const char *text = getenv(names[i]);
    if (text != NULL) return (unsigned)strtoul(text, NULL, 10);
  }
  return atomic_fetch_add_explicit(&next, 1, memory_order_relaxed);
}

static int choose(const candidates_t *found) {
  bool any_near = found->near_count > 0;
  int count = any_near ? found->near_count : found->count;
  int number = (int)(local_number() % (unsigned)count);
  for (int i = 0; i < found->count; i++) {
    if (any_near && !found->is_near[i]) continue;
    if (number-- == 0) return i;
  }
  return 0;
}

/* Closes the devices but that of one port. */
static void close_others(const verbs_lib_t *lib, const candidates_t *found, int chosen) {
  struct ibv_context *last = NULL;
  for (int i = 0; i < found->count; i++) {
    struct ibv_context *context = found->ports[i].context;
    if (context == last || context == found->ports[chosen].context) continue;
    last = context;
    lib->ibv_close_device(context);
  }
}

coll_status_t verbs_device_open(const verbs_lib_t *lib, const verbs_settings_t *settings,
                                verbs_device_t *device) {
  candidates_t found = {.count = 0};
  int count = 0;
  struct ibv_device **list = lib->ibv_get_device_list(&count);
  for (int i = 0; list != NULL && i < count; i++) add_device(lib, settings, list[i], &found);
  if (list != NULL) lib->ibv_free_device_list(list);
  if (found.count == 0) {
    return base_fail(COLL_ERROR_UNSUPPORTED,
                     count == 0 ? "this machine has no RDMA device"
                                : "no RDMA device has an active port with an address that "
                                  "COLL_IB_HCA and COLL_IB_GID_INDEX allow");
  }
  int chosen = choose(&found);
  close_others(lib, &found, chosen);
  *device = found.ports[chosen];
  return COLL_OK;
}
