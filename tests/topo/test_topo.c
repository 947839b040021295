/* Compares the machine with what the kernel reports by other means, and tests the assignment of
 * cores to ranks. */
#include <criterion/criterion.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "topo/cpus.h"
#include "topo/host.h"
#include "topo/machine.h"

static int allowed_threads(void) {
  cpu_set_t set;
  cr_assert_eq(sched_getaffinity(0, sizeof set, &set), 0);
  return CPU_COUNT(&set);
}

Test(machine, counts_what_this_process_may_use) {
  topo_machine_t *machine;
  cr_assert_eq(topo_machine_create(&machine), COLL_OK, "%s", base_last_error());
  topo_facts_t facts = topo_machine_facts(machine);
  cr_assert_eq(facts.threads, allowed_threads());
  cr_assert(facts.cores >= 1 && facts.cores <= facts.threads);
  cr_assert_geq(facts.numa_nodes, 1);
  topo_machine_destroy(machine);
}

Test(machine, binding_restricts_the_affinity_mask_and_later_discovery) {
  topo_machine_t *machine;
  cr_assert_eq(topo_machine_create(&machine), COLL_OK, "%s", base_last_error());
  topo_facts_t facts = topo_machine_facts(machine);
  cr_assert_eq(topo_machine_bind(machine, topo_share_of(facts.cores, facts.cores - 1, facts.cores)),
               COLL_OK, "%s", base_last_error());
  topo_machine_destroy(machine);
  cr_assert_leq(allowed_threads(), facts.threads - facts.cores + 1);
  cr_assert_eq(topo_machine_create(&machine), COLL_OK, "%s", base_last_error());
  cr_assert_eq(topo_machine_facts(machine).cores, 1);
  cr_assert_eq(topo_machine_facts(machine).threads, allowed_threads());
  topo_machine_destroy(machine);
}

Test(cpus, are_read_from_a_list_of_any_length) {
  char path[] = "/tmp/cpus-XXXXXX";
  FILE *file = fdopen(mkstemp(path), "w");
  cr_assert_not_null(file);
  for (int i = 0; i < 4094; i += 2) fputs("2,", file);
  fputs("17\n", file);
  fclose(file);
  topo_cpus_t cpus;
  cr_expect(topo_cpus_read(path, &cpus));
  cr_expect(topo_cpus_have(&cpus, 17));
  cr_expect_eq(topo_cpus_count(&cpus), 2, "a list that is cut has another cpu");
  remove(path);
}

Test(cpus, match_the_affinity_mask_of_the_kernel) {
  topo_cpus_t own = topo_cpus_own(), all = {.words = {5, [15] = 2}};
  const topo_cpus_t more = {.words = {6}};
  cr_assert_eq(topo_cpus_count(&own), allowed_threads());
  topo_cpus_add(&all, &more);
  cr_assert_eq(topo_cpus_count(&all), 4, "0, 1, 2 and 961");
}

Test(machine, an_empty_share_changes_no_binding) {
  topo_machine_t *machine;
  cr_assert_eq(topo_machine_create(&machine), COLL_OK, "%s", base_last_error());
  int before = allowed_threads();
  cr_assert_eq(topo_machine_bind(machine, (topo_share_t){0, 0}), COLL_OK);
  cr_assert_eq(allowed_threads(), before);
  topo_machine_destroy(machine);
}

Test(share, blocks_cover_every_core_once_and_evenly) {
  for (int cores = 1; cores <= 40; cores++) {
    for (int size = 1; size <= cores; size++) {
      int next = 0;
      for (int rank = 0; rank < size; rank++) {
        topo_share_t share = topo_share_of(cores, rank, size);
        cr_assert_eq(share.first, next, "%d cores, rank %d of %d", cores, rank, size);
        cr_assert(share.count == cores / size || share.count == cores / size + 1);
        next = share.first + share.count;
      }
      cr_assert_eq(next, cores);
    }
  }
}

Test(share, more_ranks_than_cores_share_them_evenly_or_get_none) {
  for (int rank = 0; rank < 5; rank++) cr_assert_eq(topo_share_of(4, rank, 5).count, 0);
  for (int rank = 0; rank < 12; rank++) {
    topo_share_t share = topo_share_of(4, rank, 12);
    cr_assert(share.first == rank / 3 && share.count == 1, "rank %d of 12", rank);
  }
}

Test(host, identity_is_equal_in_another_process) {
  char mine[TOPO_HOST_BYTES];
  cr_assert_eq(topo_host_identity(mine), COLL_OK, "%s", base_last_error());
  cr_assert_gt(strlen(mine), 8);
  cr_assert_null(strchr(mine, '\n'));
  pid_t child = fork();
  if (child == 0) {
    char theirs[TOPO_HOST_BYTES];
    _exit(topo_host_identity(theirs) == COLL_OK && strcmp(mine, theirs) == 0 ? 0 : 1);
  }
  int state;
  cr_assert_eq(waitpid(child, &state, 0), child);
  cr_assert(WIFEXITED(state) && WEXITSTATUS(state) == 0);
}
