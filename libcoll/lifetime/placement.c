/* Reads the file and places the ranks on its hosts, or groups ranks by their homes. */
#include "lifetime/placement.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/digest.h"
#include "comm/comm.h"
#include "lifetime/create.h"
#include "topo/cpus.h"
#include "topo/discover_cache.h"
#include "topo/fabric.h"
#include "topo/load.h"
#include "topo/place.h"
#include "topo/star.h"
#include "topo/sysfs.h"
#include "transport/paced/paced.h"

coll_status_t lifetime_placement_read(const char *file_name, topo_map_t map, int rank, int size,
                                      topo_layout_t **layout) {
  topo_graph_t *graph;
  topo_placement_t placement;
  *layout = NULL;
  if (file_name[0] == '\0') return COLL_OK;
  COLL_TRY(topo_load(file_name, TOPO_FORMAT_ANY, rank == 0 ? stderr : NULL, &graph));
  coll_status_t status = topo_place_mapped(graph, size, map, &placement);
  if (status != COLL_OK) {
    topo_graph_free(graph);
    return status;
  }
  status = topo_placement_add_fabric(&placement, graph);
  if (status == COLL_OK) {
    *layout = placement.layout;
    placement.layout = NULL;
  }
  topo_placement_free(&placement);
  return status;
}

topo_home_t lifetime_placement_home(const char *file_name) {
  if (file_name[0] != '\0') return (topo_home_t){TOPO_HOME_NONE, TOPO_HOME_NONE};
  const topo_cpus_t cpus = topo_cpus_own();
  return topo_home_of(TOPO_SYSFS, &cpus);
}

/* host_of: the lowest rank of a rank's host. Returns the number of hosts. */
static int32_t find_hosts(int size, const lifetime_record_t *records, int32_t host_of[]) {
  int32_t hosts = 0;
  for (int32_t rank = 0; rank < size; rank++) {
    int32_t first = 0;
    while (!transport_same_host(&records[first].name, &records[rank].name)) first++;
    host_of[rank] = first;
    hosts += first == rank;
  }
  return hosts;
}

/* What virtual interfaces between containers state, whatever they do. */
#define VIRTUAL_MEGABITS 10000

/* Whether all hosts are containers of one machine. */
static bool is_one_machine(int size, const lifetime_record_t *records) {
  int rank = 0;
  while (rank < size && records[rank].kernel != 0 && records[rank].kernel == records[0].kernel) {
    rank++;
  }
  return rank == size;
}

/* The links between the hosts, as far as ranks know them without measuring (network.h). */
static coll_status_t set_links(int size, const lifetime_record_t *records, const int32_t host_of[],
                               topo_layout_t *layout) {
  topo_star_link_t *links;
  bool one_machine = is_one_machine(size, records);
  COLL_TRY(base_alloc((size_t)size, sizeof *links, "links of hosts", (void **)&links));
  for (int rank = 0; rank < size; rank++) {
    uint32_t megabits = transport_name_megabits(&records[rank].name);
    bool is_known = !one_machine || megabits != VIRTUAL_MEGABITS;
    links[rank] = topo_star_assume(is_known ? (double)megabits / 8000 : 0, one_machine);
  }
  coll_status_t status = topo_star_fabric(size, host_of, links, &layout->fabric);
  free(links);
  return status;
}

static coll_status_t set_hosts(int size, const lifetime_record_t *records, const int32_t host_of[],
                               topo_layout_t **layout) {
  topo_layout_t *made;
  COLL_TRY(topo_layout_create(size, &made));
  coll_status_t status = topo_layout_add_level(made, TOPO_HOST, host_of);
  if (status == COLL_OK) status = set_links(size, records, host_of, made);
  if (status != COLL_OK) topo_layout_free(made);
  if (status == COLL_OK) *layout = made;
  return status;
}

static coll_status_t set_homes(int size, const lifetime_record_t *records, topo_layout_t **layout) {
  topo_home_t *homes;
  COLL_TRY(base_alloc((size_t)size, sizeof *homes, "homes of ranks", (void **)&homes));
  for (int rank = 0; rank < size; rank++) homes[rank] = records[rank].home;
  coll_status_t status = topo_home_layout(homes, size, layout);
  free(homes);
  return status;
}

/* domain_of: the lowest rank that shares memory with a rank, and does so in the layout too. Returns
 * whether all ranks do. */
static bool find_domains(int size, const lifetime_record_t *records, const topo_layout_t *layout,
                         int32_t domain_of[]) {
  bool all = true;
  for (int32_t rank = 0; rank < size; rank++) {
    int32_t first = 0;
    while (!topo_layout_shares_memory(layout, first, rank) ||
           !transport_share_memory(&records[first].name, &records[rank].name)) {
      first++;
    }
    domain_of[rank] = first;
    all = all && first == 0;
  }
  return all;
}

/* From the file's layout, if there is one, or the hosts or homes of the ranks. */
static coll_status_t place(int size, const lifetime_record_t *records, int32_t scratch[],
                           topo_layout_t **layout) {
  if (*layout == NULL) {
    bool is_one_host = find_hosts(size, records, scratch) == 1;
    COLL_TRY(is_one_host ? set_homes(size, records, layout)
                         : set_hosts(size, records, scratch, layout));
  }
  if (find_domains(size, records, *layout, scratch)) return COLL_OK;
  if (*layout == NULL) COLL_TRY(topo_layout_create(size, layout));
  return topo_layout_set_domains(*layout, scratch);
}

coll_status_t lifetime_placement_of_records(int size, const lifetime_record_t *records,
                                            topo_layout_t **layout) {
  int32_t *scratch;
  if (size == 1) return COLL_OK;
  COLL_TRY(base_alloc((size_t)size, sizeof *scratch, "groups of ranks", (void **)&scratch));
  coll_status_t status = place(size, records, scratch, layout);
  free(scratch);
  return status;
}

/* Groups of the layout's levels, such as "2 packages, 4 numas". */
static void describe(const topo_layout_t *layout, char *text, size_t bytes) {
  size_t length =
      (size_t)snprintf(text, bytes, "%s", layout == NULL || layout->levels == 0 ? "one group" : "");
  for (int32_t i = 0; layout != NULL && i < layout->levels && length < bytes; i++) {
    length += (size_t)snprintf(text + length, bytes - length, "%s%d of %s", i > 0 ? ", " : "",
                               layout->level[i].groups, topo_kind_name(layout->level[i].kind));
  }
}

void lifetime_placement_report(const struct coll_comm *comm) {
  topo_graph_t *graph;
  bool was_cached;
  char machine[TOPO_SUMMARY_BYTES], groups[128];
  if (!comm->access.reports || comm->rank != 0) return;
  describe(comm->layout, groups, sizeof groups);
  if (topo_discover_cached(&graph, &was_cached) != COLL_OK) {
    fprintf(stderr, "libcoll: %s\n", base_last_error());
    return;
  }
  fprintf(stderr, "libcoll: this machine (%s): %s; groups of the %d ranks: %s\n",
          was_cached ? "cached" : "discovered", topo_graph_summary(graph, machine), comm->size,
          groups);
  topo_graph_free(graph);
}

static coll_status_t pace(struct coll_comm *comm) {
  topo_fabric_t *fabric = comm->layout != NULL ? comm->layout->fabric : NULL;
  transport_t *paced;
  if (fabric == NULL) {
    return base_fail(COLL_ERROR_INVALID,
                     "rank %d: COLL_TOPO_PACED is 1, but there are no links to pace: set "
                     "COLL_TOPO_FILE to a file with links between the ranks' hosts or GPUs",
                     comm->rank);
  }
  COLL_TRY(transport_paced_create(comm->local, fabric, &paced));
  for (int rank = 0; rank < comm->size; rank++) {
    if (comm->world.routes[rank] == comm->local) comm->world.routes[rank] = paced;
  }
  comm->local = paced;
  comm->paced = true;
  comm->world.room.mcast_bytes = 0;
  comm->world.room.scratch_bytes -= transport_paced_bytes(comm->size, fabric);
  return COLL_OK;
}

/* Each rank is a mapping domain of its own. */
static coll_status_t set_unmapped(int size, topo_layout_t **layout) {
  int32_t *domain_of;
  if (*layout == NULL) COLL_TRY(topo_layout_create(size, layout));
  COLL_TRY(base_alloc((size_t)size, sizeof *domain_of, "mapping domains", (void **)&domain_of));
  for (int32_t rank = 0; rank < size; rank++) domain_of[rank] = rank;
  coll_status_t status = topo_layout_set_domains(*layout, domain_of);
  free(domain_of);
  return status;
}

coll_status_t lifetime_placement_set(struct coll_comm *comm, topo_layout_t *layout, bool paced) {
  coll_status_t status = COLL_OK;
  if (!comm->local->maps && comm->size > 1) status = set_unmapped(comm->size, &layout);
  comm->layout = layout;
  if (status != COLL_OK) return status;
  comm->world.layout = layout;
  if (!topo_layout_is_mapped(layout)) comm->world.room.mcast_bytes = 0; /* is in shared memory */
  return paced && comm->size > 1 ? pace(comm) : COLL_OK;
}

uint64_t lifetime_placement_digest(const topo_layout_t *layout, bool paced) {
  uint64_t digest = topo_layout_digest(layout);
  return paced ? base_digest_fold(digest, 1) : digest;
}
