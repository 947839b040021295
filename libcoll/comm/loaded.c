/* A rank keeps the plan twice, for calls in place and for others. */
#include "comm/loaded.h"

#include <stdlib.h>

#include "base/names.h"
#include "comm/comm.h"

void comm_loaded_discard(comm_loaded_t *loaded) {
  for (int i = 0; i < COMM_VERSION_COUNT; i++) plan_free(loaded->plans[i].plan);
  free(loaded);
}

const comm_plan_t *comm_loaded_for(const comm_loaded_t *loaded, bool in_place) {
  const comm_plan_t *plans = loaded->plans;
  if (in_place) return &plans[COMM_IN_PLACE];
  return plans[COMM_OUT_OF_PLACE].plan != NULL ? &plans[COMM_OUT_OF_PLACE] : &plans[COMM_COPYING];
}

static coll_status_t fail_in_place(const struct coll_comm *comm, const comm_loaded_t *loaded,
                                   bool in_place) {
  return base_fail(
      COLL_ERROR_UNSUPPORTED, "rank %d: the loaded plan %s is right for %s only, and this %s is %s",
      comm->rank, loaded->algo.name, in_place ? "calls out of place" : "calls in place",
      base_collective_name(loaded->algo.collective), in_place ? "in place" : "out of place");
}

/* A rank without INPUT or OUTPUT never calls in place. */
static bool can_be_in_place(const struct coll_comm *comm, const comm_traits_t *traits) {
  bool at_root = comm->rank == traits->root;
  return plan_has_blocks(traits->collective, at_root, PLAN_INPUT) &&
         plan_has_blocks(traits->collective, at_root, PLAN_OUTPUT);
}

coll_status_t comm_loaded_find(const struct coll_comm *comm, const comm_traits_t *traits,
                               const comm_plan_t **plan) {
  const comm_loaded_t *loaded = comm->plans.loaded[traits->collective];
  *plan = NULL;
  if (loaded == NULL) return COLL_OK;
  const comm_plan_t *found = comm_loaded_for(loaded, traits->in_place);
  if (base_collective_is_rooted(traits->collective) && loaded->root != traits->root) return COLL_OK;
  if (found->plan == NULL && !can_be_in_place(comm, traits)) found = comm_loaded_for(loaded, true);
  if (found->plan == NULL) return fail_in_place(comm, loaded, traits->in_place);
  *plan = found;
  return COLL_OK;
}

void comm_loaded_free(struct coll_comm *comm) {
  while (comm->plans.all_loaded != NULL) {
    comm_loaded_t *next = comm->plans.all_loaded->next;
    comm_loaded_discard(comm->plans.all_loaded);
    comm->plans.all_loaded = next;
  }
}
