/* The cores of the hardware threads that the calling thread may use, from sysfs. */
#include <assert.h>
#include <sched.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "topo/machine.h"
#include "topo/sysfs.h"
#include "topo/sysfs_cpus.h"

struct topo_machine {
  topo_facts_t facts;
  topo_sysfs_cpu_t *cpus; /* [threads], cores after each other */
};

/* Some virtual machines and sandboxes show hardware threads but no cores. */
static bool is_same_core(const topo_sysfs_cpu_t *a, const topo_sysfs_cpu_t *b) {
  return a->core == b->core && a->core != TOPO_SYSFS_CPU_NONE;
}

static topo_facts_t gather_facts(const topo_sysfs_cpu_t *cpus, size_t count) {
  topo_facts_t facts = {.threads = (int)count};
  topo_cpus_t nodes = {0};
  for (size_t i = 0; i < count; i++) {
    if (i == 0 || !is_same_core(&cpus[i], &cpus[i - 1])) facts.cores++;
    if (cpus[i].numa >= 0) topo_cpus_set(&nodes, cpus[i].numa);
  }
  int numa_nodes = topo_cpus_count(&nodes);
  facts.numa_nodes = numa_nodes > 0 ? numa_nodes : 1;
  facts.l3_bytes = topo_sysfs_l3_bytes(TOPO_SYSFS, cpus[0].number);
  return facts;
}

coll_status_t topo_machine_create(topo_machine_t **machine) {
  topo_machine_t *made;
  const topo_cpus_t own = topo_cpus_own();
  size_t count;
  if (topo_cpus_count(&own) == 0) {
    return base_fail_errno(COLL_ERROR_SYSTEM, "cannot read which processors this thread may use");
  }
  COLL_TRY(base_alloc(1, sizeof *made, "the machine's topology", (void **)&made));
  coll_status_t status = topo_sysfs_cpus(TOPO_SYSFS, &own, &made->cpus, &count);
  if (status != COLL_OK) {
    free(made);
    return status;
  }
  made->facts = gather_facts(made->cpus, count);
  *machine = made;
  return COLL_OK;
}

void topo_machine_destroy(topo_machine_t *machine) {
  if (machine == NULL) return;
  free(machine->cpus);
  free(machine);
}

topo_facts_t topo_machine_facts(const topo_machine_t *machine) {
  return machine->facts;
}

coll_status_t topo_machine_bind(const topo_machine_t *machine, topo_share_t share) {
  assert(share.first >= 0 && share.first + share.count <= machine->facts.cores);
  if (share.count == 0) return COLL_OK;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int i = 0, core = -1; i < machine->facts.threads; i++) {
    const topo_sysfs_cpu_t *cpu = &machine->cpus[i];
    if (i == 0 || !is_same_core(cpu, cpu - 1)) core++;
    if (core >= share.first && core < share.first + share.count) CPU_SET((size_t)cpu->number, &set);
  }
  if (sched_setaffinity(0, sizeof set, &set) == 0) return COLL_OK;
  return base_fail_errno(COLL_ERROR_SYSTEM, "cannot bind to cores %d to %d", share.first,
                         share.first + share.count - 1);
}
