/*
 * What the tests of launchers start: makes communicators from the launcher's environment, one after
 * the other, and adds the ranks up in each. Rank 0 prints "N ranks, 3 communicators".
 */
#include <coll.h>

#include <stdint.h>
#include <stdio.h>

#define COMMUNICATORS 3

static int fail(const char *what) {
  fprintf(stderr, "again: %s: %s\n", what, coll_last_error(NULL));
  return 1;
}

int main(void) {
  int rank = -1, size = 0;
  for (int i = 0; i < COMMUNICATORS; i++) {
    coll_comm_t comm;
    int64_t sum = 0;
    if (coll_comm_create_env(NULL, &comm) != COLL_OK) return fail("coll_comm_create_env");
    if (coll_comm_rank(comm, &rank) != COLL_OK || coll_comm_size(comm, &size) != COLL_OK) {
      return fail("rank and size");
    }
    int64_t own = rank;
    if (coll_allreduce(&own, &sum, 1, COLL_INT64, COLL_SUM, comm, NULL) != COLL_OK) {
      return fail("coll_allreduce");
    }
    if (sum != (int64_t)size * (size - 1) / 2) return fail("the sum is wrong");
    if (coll_comm_destroy(comm) != COLL_OK) return fail("coll_comm_destroy");
  }
  if (rank == 0) printf("%d ranks, %d communicators\n", size, COMMUNICATORS);
  return 0;
}
