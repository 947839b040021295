/*
 * The algorithm of a call on GPUs: the forced one, else the cheapest by the model of the engine
 * (tune_machine_gpu, tune_machine_copy) that it can run. What it depends on is the same on all
 * ranks.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "comm/plan_cache.h"
#include "offload/state.h"

static coll_status_t make_profiles(struct coll_comm *comm, offload_t *gpu,
                                   coll_collective_t collective) {
  tune_profile_t *profiles = NULL;
  int count = 0;
  if (gpu->profiles[collective] != NULL) return COLL_OK;
  while (algo_at(collective, count) != NULL) count++;
  COLL_TRY(base_alloc((size_t)count, sizeof *profiles, "profiles", (void **)&profiles));
  for (int i = 0; i < count; i++) {
    coll_status_t status = tune_profile_make(algo_at(collective, i), comm->size, comm->layout,
                                             &plan_gpu_capabilities, &profiles[i]);
    if (status == COLL_OK) continue;
    free(profiles);
    return status;
  }
  gpu->profiles[collective] = profiles;
  gpu->profile_count[collective] = count;
  return COLL_OK;
}

/* Whether all that the plan accesses of peers is in windows. */
static bool is_reached(const tune_profile_t *profile, const bool in_window[2]) {
  for (int i = 0; i < 2; i++) {
    if (profile->reaches[i] && !in_window[i]) return false;
  }
  return true;
}

/* Whether the plan accesses buffers of peers, but its profile does not say which, as the algorithm
 * does not suit where the ranks are: it is forced. */
static bool is_unprofiled(const plan_t *plan, const tune_profile_t *profile) {
  return plan_reach_exchanges(plan->reach) && !profile->reaches[0] && !profile->reaches[1];
}

/* The program of the plan. *possible: the engine can run it. */
static coll_status_t find_program(struct coll_comm *comm, const tune_profile_t *profile,
                                  const comm_traits_t *traits, offload_choice_t *choice,
                                  bool *possible) {
  const comm_plan_t *plan;
  COLL_TRY(comm_plan_get(comm, profile->algo, traits->root, traits->in_place, &plan));
  *possible = !plan->plan->multicast && !is_unprofiled(plan->plan, profile);
  if (!*possible) return COLL_OK;
  coll_status_t status = cuda_end_program(offload_of(comm)->end, plan->plan, &choice->program);
  *possible = status == COLL_OK;
  if (*possible) comm->plans.used[traits->collective] = profile->algo;
  for (int i = 0; i < 2; i++) choice->reaches[i] = profile->reaches[i];
  return status == COLL_ERROR_UNSUPPORTED ? COLL_OK : status;
}

static coll_status_t fail_none(const struct coll_comm *comm, coll_collective_t collective) {
  return base_fail(COLL_ERROR_UNSUPPORTED,
                   "rank %d: no algorithm for %s among %d ranks can run on this GPU", comm->rank,
                   base_collective_name(collective), comm->size);
}

/* Tries the algorithms in the order of their estimated times. */
static coll_status_t try_all(struct coll_comm *comm, const comm_traits_t *traits,
                             const tune_call_t *call, const bool in_window[2],
                             tune_estimate_t estimates[], offload_choice_t *choice,
                             uint8_t *chosen) {
  const offload_t *gpu = offload_of(comm);
  const tune_profile_t *profiles = gpu->profiles[traits->collective];
  int count = gpu->profile_count[traits->collective];
  for (int i = 0; i < count; i++) {
    COLL_TRY(tune_estimate(gpu->machine, &profiles[i], call, &estimates[i]));
    if (profiles[i].algo->by_executor) estimates[i].verdict = TUNE_UNSUITED;
    if (!is_reached(&profiles[i], in_window)) estimates[i].verdict = TUNE_TOO_FAR;
  }
  for (;;) {
    bool possible;
    int best = tune_choose_of(profiles, estimates, count, call);
    if (best < 0) return fail_none(comm, traits->collective);
    COLL_TRY(find_program(comm, &profiles[best], traits, choice, &possible));
    if (possible) {
      *chosen = (uint8_t)(best + 1);
      return COLL_OK;
    }
    estimates[best].verdict = TUNE_TOO_FAR;
  }
}

/* Averages of floats are reductions of their own on GPUs, without a pass before or after. */
static tune_order_t order_of(const struct coll_comm *comm, const comm_traits_t *traits) {
  if (comm_averages_floats(traits)) return TUNE_ORDER_EXACT;
  return tune_order_of(traits->collective, traits->dtype, traits->op, comm->reproducible);
}

static coll_status_t tune(struct coll_comm *comm, const comm_traits_t *traits, size_t bytes,
                          const bool in_window[2], offload_choice_t *choice) {
  offload_t *gpu = offload_of(comm);
  int class = tune_class_of(bytes), windows = (in_window[0] ? 1 : 0) | (in_window[1] ? 2 : 0);
  size_t element_bytes = base_dtype_bytes(traits->dtype);
  const tune_call_t call = {.collective = traits->collective,
                            .bytes = tune_class_bytes(class),
                            .element_bytes = element_bytes,
                            .size = comm->size,
                            .cores = gpu->cores,
                            .reach = windows != 0 ? PLAN_REACH_USER : PLAN_REACH_SCRATCH,
                            .order = order_of(comm, traits),
                            .room = cuda_end_plan_room(gpu->end),
                            .slices = cuda_end_slices(gpu->end, tune_class_bytes(class))};
  int log = __builtin_ctz((unsigned)element_bytes);
  uint8_t *chosen = &gpu->chosen[traits->collective][call.order][windows][log][class];
  const tune_profile_t *profiles = gpu->profiles[traits->collective];
  if (*chosen != 0) {
    bool possible;
    COLL_TRY(find_program(comm, &profiles[*chosen - 1], traits, choice, &possible));
    if (possible) return COLL_OK; /* else not with this root */
  }
  tune_estimate_t *estimates;
  COLL_TRY(base_alloc((size_t)gpu->profile_count[traits->collective], sizeof *estimates,
                      "estimates", (void **)&estimates));
  coll_status_t status = try_all(comm, traits, &call, in_window, estimates, choice, chosen);
  free(estimates);
  return status;
}

static const tune_profile_t *find_profile(const offload_t *gpu, coll_collective_t collective,
                                          const char *name) {
  int i = 0;
  while (strcmp(gpu->profiles[collective][i].algo->name, name) != 0) i++;
  return &gpu->profiles[collective][i];
}

/* *possible: the forced algorithm supports the call. Its profile is that of another root, but no
 * algorithm accesses other buffers of peers with another. */
static coll_status_t find_forced(struct coll_comm *comm, const comm_traits_t *traits,
                                 const bool in_window[2], offload_choice_t *choice,
                                 bool *possible) {
  const char *forced = comm->plans.forced[traits->collective];
  const algo_t *algo;
  *possible = false;
  if (forced == NULL) return COLL_OK;
  COLL_TRY(algo_find(traits->collective, forced, &algo));
  const tune_profile_t *profile = find_profile(offload_of(comm), traits->collective, algo->name);
  const plan_shape_t shape = {.collective = traits->collective,
                              .size = comm->size,
                              .root = traits->root,
                              .layout = comm->layout};
  COLL_TRY(algo_is_legal(algo, &shape, possible));
  *possible = *possible &&
              tune_order_allows(order_of(comm, traits), algo_order(algo, comm->size)) &&
              is_reached(profile, in_window);
  return *possible ? find_program(comm, profile, traits, choice, possible) : COLL_OK;
}

coll_status_t offload_choose(struct coll_comm *comm, const comm_traits_t *traits, size_t bytes,
                             const bool in_window[2], offload_choice_t *choice) {
  bool possible;
  COLL_TRY(make_profiles(comm, offload_of(comm), traits->collective));
  COLL_TRY(find_forced(comm, traits, in_window, choice, &possible));
  return possible ? COLL_OK : tune(comm, traits, bytes, in_window, choice);
}
