/*
 * Plans are built once per (algorithm, root, in place) and kept; a call like the one before it
 * finds its plan without asking anybody.
 */
#include <stdlib.h>

#include "base/memory.h"
#include "base/names.h"
#include "comm/comm.h"
#include "engine/run.h"
#include "tune/tune.h"

static comm_plan_t *find_plan(struct coll_comm *comm, const algo_t *algo, int root, bool in_place) {
  for (size_t i = 0; i < comm->plan_count; i++) {
    comm_plan_t *each = comm->plans[i];
    if (each->algo == algo && each->root == root && each->in_place == in_place) return each;
  }
  return NULL;
}

/* From the cache or freshly built. */
static coll_status_t get_plan(struct coll_comm *comm, const algo_t *algo, int root, bool in_place,
                              const comm_plan_t **plan) {
  comm_plan_t *found = find_plan(comm, algo, root, in_place);
  if (found != NULL) {
    *plan = found;
    return COLL_OK;
  }
  COLL_TRY(base_grow((void **)&comm->plans, &comm->plan_capacity, comm->plan_count + 1,
                     sizeof(comm_plan_t *), "the cache of plans"));
  COLL_TRY(base_alloc(1, sizeof *found, "a cached plan", (void **)&found));
  plan_shape_t shape = {.collective = algo->collective, .size = comm->size, .root = root};
  coll_status_t status = algo_build(algo, &shape, comm->rank, in_place, &found->plan);
  if (status != COLL_OK) {
    free(found);
    return status;
  }
  found->algo = algo;
  found->root = root;
  found->in_place = in_place;
  for (size_t bytes = 1; bytes <= 8; bytes *= 2) {
    found->fits[bytes] = engine_run_fits(&comm->world, found->plan, bytes);
  }
  comm->plans[comm->plan_count++] = found;
  *plan = found;
  return COLL_OK;
}

void comm_plans_free(struct coll_comm *comm) {
  for (size_t i = 0; i < comm->plan_count; i++) {
    plan_free(comm->plans[i]->plan);
    free(comm->plans[i]);
  }
  free(comm->plans);
}

static coll_status_t choose_afresh(struct coll_comm *comm, const tune_query_t *query,
                                   size_t element_bytes, int root, bool in_place,
                                   const comm_plan_t **plan) {
  const algo_t *algo;
  for (int index = 0; (algo = tune_candidate(query, index)) != NULL; index++) {
    const comm_plan_t *candidate;
    COLL_TRY(get_plan(comm, algo, root, in_place, &candidate));
    if (candidate->plan->reach <= query->reach && candidate->fits[element_bytes]) {
      *plan = candidate;
      return COLL_OK;
    }
  }
  return base_fail(COLL_ERROR_UNSUPPORTED,
                   "rank %d: no algorithm for %s among %d ranks fits its message slots", comm->rank,
                   base_collective_name(query->collective), comm->size);
}

coll_status_t comm_choose(struct coll_comm *comm, coll_collective_t collective, size_t bytes,
                          size_t element_bytes, int root, bool in_place, plan_reach_t reach,
                          const comm_plan_t **plan) {
  comm_choice_t *last = &comm->choices[collective][reach];
  if (last->plan != NULL && last->bytes == bytes && last->element_bytes == element_bytes &&
      last->root == root && last->in_place == in_place) {
    *plan = last->plan;
    return COLL_OK;
  }
  tune_query_t query = {.collective = collective,
                        .bytes = bytes,
                        .size = comm->size,
                        .reach = reach,
                        .forced = comm->forced[collective]};
  COLL_TRY(choose_afresh(comm, &query, element_bytes, root, in_place, plan));
  *last = (comm_choice_t){.bytes = bytes,
                          .element_bytes = element_bytes,
                          .root = root,
                          .in_place = in_place,
                          .plan = *plan};
  return COLL_OK;
}
