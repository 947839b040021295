/*
 * Bound programs, kept so that a call like an earlier one need not work out its spans again, nor
 * any call allocate.
 */
#include <stdlib.h>

#include "base/memory.h"
#include "comm/comm.h"

engine_bound_t *comm_bound_of(struct coll_comm *comm, const plan_t *plan, size_t count) {
  uint64_t key = (uint64_t)(uintptr_t)plan / sizeof(plan_t) + count * 0x9e3779b97f4a7c15u;
  return &comm->bounds[(key ^ key >> 29) % COMM_BOUNDS];
}

engine_bound_t comm_bound_borrow(struct coll_comm *comm) {
  if (comm->spare_count == 0) return (engine_bound_t){0};
  return comm->spares[--comm->spare_count];
}

void comm_bound_return(struct coll_comm *comm, engine_bound_t *bound) {
  coll_status_t status = base_grow((void **)&comm->spares, &comm->spare_capacity,
                                   comm->spare_count + 1, sizeof *bound, "spare programs");
  if (status != COLL_OK) {
    engine_bound_free(bound);
    return;
  }
  comm->spares[comm->spare_count++] = *bound;
  *bound = (engine_bound_t){0};
}

void comm_bounds_free(struct coll_comm *comm) {
  for (size_t i = 0; i < COMM_BOUNDS; i++) engine_bound_free(&comm->bounds[i]);
  for (size_t i = 0; i < comm->spare_count; i++) engine_bound_free(&comm->spares[i]);
  free(comm->spares);
}
