/* Looks at every port of every device. */
#include "transport/net/wire/verbs/device.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/knob.h"
#include "transport/net/wire/verbs/choose.h"
#include "transport/net/wire/verbs/state.h"
#include "transport/net/wire/verbs/verbs.h"

#define GIDS_MAX 256
#define PORTS_MAX 128 /* that are looked at on one machine */

#define INTEGER(title, otherwise, least, most, text)                                            \
  {                                                                                             \
    .name = title, .kind = BASE_KNOB_INTEGER, .fallback = otherwise, .min = least, .max = most, \
    .help = text                                                                                \
  }

static const base_knob_t knobs[] = {
    {.name = "COLL_IB_HCA",
     .kind = BASE_KNOB_TEXT,
     .fallback = "",
     .help = "RDMA devices that may be used, as mlx5_0:1,mlx5_1: prefixes of names, perhaps with a "
             "port; = before one: the whole name, ^: not this one"},
    INTEGER("COLL_IB_GID_INDEX", "-1", -1, GIDS_MAX - 1,
            "index of the RDMA port's address; -1: RoCE version 2 and IPv4 first"),
    INTEGER("COLL_IB_TC", "0", 0, 255, "traffic class of RDMA packets"),
    INTEGER("COLL_IB_SL", "0", 0, 15, "service level of RDMA packets"),
    INTEGER("COLL_IB_TIMEOUT", "18", 1, 31,
            "an RDMA packet that is not acknowledged is sent again after 4.096 us * 2^this"),
    INTEGER("COLL_IB_RETRY_CNT", "7", 0, 7, "times that it is sent again before the peer is lost"),
    INTEGER("COLL_IB_RAILS", "0", 0, TRANSPORT_RAILS,
            "RDMA ports of one rank, which share the parts of its long messages; 0: as many as "
            "each rank of the host can have for itself"),
    INTEGER("COLL_IB_QPS", "1", 1, VERBS_RAIL_QPS,
            "queue pairs per pair of ranks and RDMA port, which share the parts of a long message"),
    INTEGER("COLL_IB_FETCH_MIN", "1048576", -1, INT64_MAX,
            "bytes from which on a message of coll_send or coll_alltoallv is read from the "
            "sender's buffer by RDMA, without copies; -1: never")};

enum {
  KNOB_HCA,
  KNOB_GID_INDEX,
  KNOB_TC,
  KNOB_SL,
  KNOB_TIMEOUT,
  KNOB_RETRY_CNT,
  KNOB_RAILS,
  KNOB_QPS,
  KNOB_FETCH_MIN,
  KNOB_COUNT
};

_Static_assert(sizeof knobs / sizeof knobs[0] == KNOB_COUNT, "one name per knob");

const base_knob_t *verbs_wire_knob(int index) {
  return index >= 0 && index < KNOB_COUNT ? &knobs[index] : NULL;
}

coll_status_t verbs_settings_read(verbs_settings_t *settings) {
  COLL_TRY(base_knob_text(&knobs[KNOB_HCA], &settings->hca));
  if (!verbs_hca_is_list(settings->hca)) {
    return base_fail(COLL_ERROR_INVALID,
                     "COLL_IB_HCA is \"%s\": give names of devices, such as mlx5_0:1,^mlx5_1",
                     settings->hca);
  }
  COLL_TRY(base_knob_integer(&knobs[KNOB_GID_INDEX], &settings->gid_index));
  COLL_TRY(base_knob_integer(&knobs[KNOB_TC], &settings->traffic_class));
  COLL_TRY(base_knob_integer(&knobs[KNOB_SL], &settings->service_level));
  COLL_TRY(base_knob_integer(&knobs[KNOB_TIMEOUT], &settings->timeout));
  COLL_TRY(base_knob_integer(&knobs[KNOB_RETRY_CNT], &settings->retry_count));
  COLL_TRY(base_knob_integer(&knobs[KNOB_RAILS], &settings->rails));
  COLL_TRY(base_knob_integer(&knobs[KNOB_QPS], &settings->qps));
  return base_knob_integer(&knobs[KNOB_FETCH_MIN], &settings->fetch_min);
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
  snprintf(found->name, sizeof found->name, "%s:%d", name_of(lib, context->device), port);
  return true;
}

/* ---- the choice -----------------------------------------------------------------------------*/

typedef struct candidates {
  verbs_device_t ports[PORTS_MAX];
  bool is_near[PORTS_MAX];
  int count, near_count;
  const verbs_device_t *ordered[PORTS_MAX];
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
    found->ports[found->count].reads_out = attr.max_qp_init_rd_atom;
    found->ports[found->count].reads_in = attr.max_qp_rd_atom;
    int node = node_of(name_of(lib, device));
    bool is_near = node < 0 || own_node < 0 || node == own_node;
    found->is_near[found->count++] = is_near;
    found->near_count += is_near;
  }
  if (found->count == before) lib->ibv_close_device(context);
}

/* The number of this rank on its host, and how many the host has, as one launcher says; 0: not
 * known, and threads have numbers in the order in which they come here. */
static unsigned local_number(int *ranks) {
  static const char *const names[][2] = {
      {"LOCAL_RANK", "LOCAL_WORLD_SIZE"},
      {"OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
      {"MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
      {"SLURM_LOCALID", "SLURM_TASKS_PER_NODE"}};
  static _Atomic unsigned next;
  *ranks = 0;
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    const char *number = getenv(names[i][0]), *size = getenv(names[i][1]);
    if (number == NULL) continue;
    if (size != NULL) *ranks = (int)strtol(size, NULL, 10);
    return (unsigned)strtoul(number, NULL, 10);
  }
  return atomic_fetch_add_explicit(&next, 1, memory_order_relaxed);
}

/* Those nearby first. */
static void put_in_order(candidates_t *found) {
  int near = 0, far = found->near_count;
  for (int i = 0; i < found->count; i++) {
    found->ordered[found->is_near[i] ? near++ : far++] = &found->ports[i];
  }
}

/* Takes as many ports as the user wants, or as each of so many ranks can have, but then only nearby
 * ones, if there are any; all of one link layer. */
static int choose(const candidates_t *found, int wanted, verbs_device_t devices[]) {
  int ports = found->near_count > 0 ? found->near_count : found->count, ranks, count = 0;
  unsigned number = local_number(&ranks);
  int rails = wanted > 0 ? wanted : ranks > 0 ? found->count / ranks : 1;
  if (wanted > ports) ports = found->count;
  if (rails < 1) rails = 1;
  if (rails > TRANSPORT_RAILS) rails = TRANSPORT_RAILS;
  for (int i = 0; i < ports && count < rails; i++) {
    unsigned at = (number * (unsigned)rails + (unsigned)i) % (unsigned)ports;
    const verbs_device_t *port = found->ordered[at];
    if (count == 0 || port->is_ethernet == devices[0].is_ethernet) devices[count++] = *port;
  }
  return count;
}

static bool is_used(const struct ibv_context *context, const verbs_device_t devices[], int count) {
  int i = 0;
  while (i < count && devices[i].context != context) i++;
  return i < count;
}

/* Closes the devices of which no port is used. */
static void close_others(const verbs_lib_t *lib, const candidates_t *found,
                         const verbs_device_t used[], int count) {
  struct ibv_context *last = NULL;
  for (int i = 0; i < found->count; i++) {
    struct ibv_context *context = found->ports[i].context;
    if (context == last || is_used(context, used, count)) continue;
    last = context;
    lib->ibv_close_device(context);
  }
}

coll_status_t verbs_devices_open(const verbs_lib_t *lib, const verbs_settings_t *settings,
                                 verbs_device_t devices[TRANSPORT_RAILS], int *count) {
  candidates_t found = {.count = 0};
  int all = 0;
  struct ibv_device **list = lib->ibv_get_device_list(&all);
  for (int i = 0; list != NULL && i < all; i++) add_device(lib, settings, list[i], &found);
  if (list != NULL) lib->ibv_free_device_list(list);
  if (found.count == 0) {
    return base_fail(COLL_ERROR_UNSUPPORTED,
                     all == 0 ? "this machine has no RDMA device"
                              : "no RDMA device has an active port with an address that "
                                "COLL_IB_HCA and COLL_IB_GID_INDEX allow");
  }
  put_in_order(&found);
  *count = choose(&found, (int)settings->rails, devices);
  close_others(lib, &found, devices, *count);
  return COLL_OK;
}
