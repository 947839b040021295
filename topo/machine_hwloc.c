/* Uses hwloc. The topology is restricted to the thread's own CPU binding, so all counts are of
 * usable resources. */
#include "topo/machine.h"

#include <assert.h>
#include <hwloc.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "topo/cpus.h"

struct topo_machine {
  hwloc_topology_t topology;
  topo_facts_t facts;
};

static size_t cache_bytes(hwloc_topology_t topology, hwloc_obj_type_t level) {
  hwloc_obj_t cache = hwloc_get_obj_by_type(topology, level, 0);
  return cache != NULL ? (size_t)cache->attr->cache.size : 0;
}

static int count_of(hwloc_topology_t topology, hwloc_obj_type_t type) {
  int count = hwloc_get_nbobjs_by_type(topology, type);
  return count > 0 ? count : 1;
}

/* Some virtual machines and sandboxes show hardware threads but no cores. */
static hwloc_obj_type_t core_type(hwloc_topology_t topology) {
  return hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE) > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
}

static topo_facts_t gather_facts(hwloc_topology_t topology) {
  return (topo_facts_t){.cores = count_of(topology, core_type(topology)),
                        .threads = count_of(topology, HWLOC_OBJ_PU),
                        .numa_nodes = count_of(topology, HWLOC_OBJ_NUMANODE),
                        .l3_bytes = cache_bytes(topology, HWLOC_OBJ_L3CACHE)};
}

/* Removes what the calling thread may not run on. hwloc's own flag for this uses the binding of the
 * whole process, which is undefined once one thread is bound separately. */
static bool restrict_to_binding(hwloc_topology_t topology) {
  hwloc_bitmap_t set = hwloc_bitmap_alloc();
  if (set == NULL) return false;
  bool done = hwloc_get_cpubind(topology, set, HWLOC_CPUBIND_THREAD) == 0 &&
              hwloc_topology_restrict(topology, set, HWLOC_RESTRICT_FLAG_REMOVE_CPULESS) == 0;
  hwloc_bitmap_free(set);
  return done;
}

coll_status_t topo_machine_create(topo_machine_t **machine) {
  hwloc_topology_t topology;
  if (!topo_cpus_are_known()) {
    return base_fail_errno(COLL_ERROR_SYSTEM, "cannot read which processors this thread may use");
  }
  /* In a container without /sys hwloc prints a warning to standard error, between the ranks'
   * output; it then falls back to what the scheduler reports. This hides the warning. */
  setenv("HWLOC_HIDE_ERRORS", "2", 0);
  if (hwloc_topology_init(&topology) != 0) {
    return base_fail_errno(COLL_ERROR_SYSTEM, "hwloc cannot start");
  }
  if (hwloc_topology_load(topology) != 0 || !restrict_to_binding(topology)) {
    hwloc_topology_destroy(topology);
    return base_fail_errno(COLL_ERROR_SYSTEM, "hwloc cannot read this machine's topology");
  }
  void *created;
  coll_status_t status = base_alloc(1, sizeof(topo_machine_t), "the machine's topology", &created);
  if (status != COLL_OK) {
    hwloc_topology_destroy(topology);
    return status;
  }
  topo_machine_t *found = created;
  *found = (topo_machine_t){.topology = topology, .facts = gather_facts(topology)};
  *machine = found;
  return COLL_OK;
}

void topo_machine_destroy(topo_machine_t *machine) {
  if (machine == NULL) return;
  hwloc_topology_destroy(machine->topology);
  free(machine);
}

topo_facts_t topo_machine_facts(const topo_machine_t *machine) {
  return machine->facts;
}

coll_status_t topo_machine_bind(const topo_machine_t *machine, topo_share_t share) {
  assert(share.first >= 0 && share.first + share.count <= machine->facts.cores);
  if (share.count == 0) return COLL_OK;
  hwloc_bitmap_t set = hwloc_bitmap_alloc();
  if (set == NULL) return base_fail(COLL_ERROR_MEMORY, "out of memory for a set of cores");
  for (int i = share.first; i < share.first + share.count; i++) {
    hwloc_obj_t core =
        hwloc_get_obj_by_type(machine->topology, core_type(machine->topology), (unsigned)i);
    if (core != NULL) hwloc_bitmap_or(set, set, core->cpuset);
  }
  int failed = hwloc_set_cpubind(machine->topology, set, HWLOC_CPUBIND_THREAD);
  hwloc_bitmap_free(set);
  if (failed) {
    return base_fail_errno(COLL_ERROR_SYSTEM, "cannot bind to cores %d to %d", share.first,
                           share.first + share.count - 1);
  }
  return COLL_OK;
}
