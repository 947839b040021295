/*
 * Two caches: plans, built once per (algorithm, root, in place), and entries, one per shape of
 * calls. The tuner's choice is cached per size class. A call of a known shape finds its plan chosen
 * and its program bound. Whether a rank calls in place does not change the choice, so all ranks
 * choose the same plan.
 */
#include "comm/plan_cache.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/inline.h"
#include "base/names.h"
#include "comm/loaded.h"
#include "engine/run.h"
#include "tune/sched_sim.h"

static comm_plan_t *find_plan(struct coll_comm *comm, const algo_t *algo, int root, bool in_place) {
  for (size_t i = 0; i < comm->plans.count; i++) {
    comm_plan_t *each = comm->plans.list[i];
    if (each->algo == algo && each->root == root && each->in_place == in_place) return each;
  }
  return NULL;
}

coll_status_t comm_plan_get(struct coll_comm *comm, const algo_t *algo, int root, bool in_place,
                            const comm_plan_t **plan) {
  comm_plan_t *found = find_plan(comm, algo, root, in_place);
  if (found != NULL) {
    *plan = found;
    return COLL_OK;
  }
  COLL_TRY(base_grow((void **)&comm->plans.list, &comm->plans.capacity, comm->plans.count + 1,
                     sizeof(comm_plan_t *), "the cache of plans"));
  COLL_TRY(base_alloc(1, sizeof *found, "a cached plan", (void **)&found));
  plan_shape_t shape = {
      .collective = algo->collective, .size = comm->size, .root = root, .layout = comm->layout};
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
  comm->plans.list[comm->plans.count++] = found;
  *plan = found;
  return COLL_OK;
}

void comm_plans_free(struct coll_comm *comm) {
  for (size_t i = 0; i < comm->plans.count; i++) {
    plan_free(comm->plans.list[i]->plan);
    free(comm->plans.list[i]);
  }
  free(comm->plans.list);
  comm_loaded_free(comm);
  for (int i = 0; i < COLL_COLLECTIVE_COUNT; i++) free(comm->plans.tunings[i].profiles);
  for (size_t i = 0; i < COMM_CACHE_ENTRIES; i++) engine_run_free(&comm->plans.cache[i].run);
}

/* ---- choosing -------------------------------------------------------------------------------*/

static bool has_links(const struct coll_comm *comm) {
  return comm->layout != NULL && comm->layout->fabric != NULL;
}

static coll_status_t make_profiles(struct coll_comm *comm, coll_collective_t collective) {
  comm_tuning_t *tuning = &comm->plans.tunings[collective];
  if (tuning->profiles != NULL) return COLL_OK;
  tune_profile_t *profiles = NULL;
  int count = 0;
  while (algo_at(collective, count) != NULL) count++;
  COLL_TRY(base_alloc((size_t)count, sizeof *profiles, "profiles", (void **)&profiles));
  for (int i = 0; i < count; i++) {
    coll_status_t status = tune_profile_make(algo_at(collective, i), comm->size, comm->layout,
                                             &plan_host_capabilities, &profiles[i]);
    if (status == COLL_OK && comm->size > comm->cores && !has_links(comm)) {
      status = tune_sched_sim(&profiles[i], comm->size, comm->cores);
    }
    if (status != COLL_OK) {
      free(profiles);
      return status;
    }
  }
  tuning->profiles = profiles;
  tuning->count = count;
  return COLL_OK;
}

static tune_call_t tune_call_of(const struct coll_comm *comm, const comm_traits_t *traits,
                                size_t bytes) {
  return (tune_call_t){
      .collective = traits->collective,
      .bytes = bytes,
      .element_bytes = base_dtype_bytes(traits->dtype),
      .size = comm->size,
      .cores = comm->cores,
      .bound = comm->bound,
      .reach = traits->reach,
      .order = tune_order_of(traits->collective, traits->dtype, traits->op, comm->reproducible),
      .room = comm->world.room};
}

/* The size for which the algorithm of all sizes of a class is best: its smallest, a power of two or
 * half as much again, as most calls have. Over links, times of algorithms differ by more within a
 * class, so that classes are finer there. */
static size_t class_bytes(const struct coll_comm *comm, size_t bytes) {
  return has_links(comm) ? tune_fine_class_bytes(bytes) : tune_class_bytes(tune_class_of(bytes));
}

/* The tuner's choice. */
static coll_status_t tune_algorithm(struct coll_comm *comm, const comm_traits_t *traits,
                                    size_t bytes, const algo_t **algo) {
  coll_collective_t collective = traits->collective;
  comm_tuning_t *tuning = &comm->plans.tunings[collective];
  tune_call_t call = tune_call_of(comm, traits, class_bytes(comm, bytes));
  int class = tune_fine_class_of(call.bytes);
  int log = __builtin_ctz((unsigned)call.element_bytes);
  uint8_t *chosen = &tuning->chosen[call.order][call.reach][log][class];
  if (*chosen == 0) {
    COLL_TRY(make_profiles(comm, collective));
    int best;
    COLL_TRY(tune_choose(&comm->plans.costs, tuning->profiles, tuning->count, &call, &best));
    if (best < 0) {
      return base_fail(COLL_ERROR_UNSUPPORTED,
                       "rank %d: no algorithm for %s among %d ranks fits its message slots",
                       comm->rank, base_collective_name(collective), comm->size);
    }
    *chosen = (uint8_t)(best + 1);
  }
  *algo = tuning->profiles[*chosen - 1].algo;
  return COLL_OK;
}

coll_status_t comm_estimate(struct coll_comm *comm, coll_collective_t collective, size_t bytes,
                            coll_dtype_t dtype, plan_reach_t reach, int index,
                            tune_estimate_t *estimate, bool *chosen) {
  const comm_traits_t traits = {
      .collective = collective, .dtype = dtype, .op = COLL_SUM, .reach = reach};
  const algo_t *algo;
  COLL_TRY(tune_algorithm(comm, &traits, bytes, &algo));
  const comm_tuning_t *tuning = &comm->plans.tunings[collective];
  if (index < 0 || index >= tuning->count) {
    return base_fail(COLL_ERROR_INVALID, "%s has %d algorithms", base_collective_name(collective),
                     tuning->count);
  }
  tune_call_t call = tune_call_of(comm, &traits, bytes);
  COLL_TRY(tune_estimate(&comm->plans.costs, &tuning->profiles[index], &call, estimate));
  *chosen = tuning->profiles[index].algo == algo;
  return COLL_OK;
}

/* An address exchange whose result is not used costs as much as a small call, so its result is
 * expected of this many more calls. The number is small, so that memory that can be mapped is soon
 * used as such. */
#define EXPECTED_CALLS 15

plan_reach_t comm_expected_reach(struct coll_comm *comm, coll_collective_t collective,
                                 size_t bytes) {
  comm_expectation_t *expected = &comm->plans.tunings[collective].expected[tune_class_of(bytes)];
  bool forced = comm->plans.forced[collective] != NULL || comm->plans.loaded[collective] != NULL;
  if (expected->calls == 0 || forced) return PLAN_REACH_USER;
  expected->calls--;
  return (plan_reach_t)expected->reach;
}

void comm_note_reach(struct coll_comm *comm, coll_collective_t collective, size_t bytes,
                     plan_reach_t reach) {
  comm->plans.tunings[collective].expected[tune_class_of(bytes)] =
      (comm_expectation_t){.calls = EXPECTED_CALLS, .reach = (uint8_t)reach};
}

/* *plan: of the forced algorithm, if that is legal; else NULL. */
static coll_status_t forced_plan(struct coll_comm *comm, const comm_traits_t *traits,
                                 const comm_plan_t **plan) {
  coll_collective_t collective = traits->collective;
  const algo_t *algo;
  bool legal;
  *plan = NULL;
  if (comm->plans.forced[collective] == NULL) return COLL_OK;
  COLL_TRY(algo_find(collective, comm->plans.forced[collective], &algo));
  const plan_shape_t shape = {
      .collective = collective, .size = comm->size, .root = traits->root, .layout = comm->layout};
  COLL_TRY(algo_is_legal(algo, &shape, &legal));
  /* for another algorithm, the root of an allreduce is the executor rank */
  int root = algo_has_root(algo) ? traits->root : 0;
  return legal ? comm_plan_get(comm, algo, root, traits->in_place, plan) : COLL_OK;
}

static bool supports(const struct coll_comm *comm, const comm_plan_t *cached,
                     const comm_traits_t *traits) {
  tune_order_t order =
      tune_order_of(traits->collective, traits->dtype, traits->op, comm->reproducible);
  return cached->plan->reach <= traits->reach && cached->fits[base_dtype_bytes(traits->dtype)] &&
         tune_order_allows(order, cached->plan->order);
}

/* Blocks of equal size: the plan of the collective of equal blocks. What is forced or loaded is so
 * for its own verb. */
static bool takes_even_plan(const struct coll_comm *comm, const comm_traits_t *traits) {
  return base_collective_counts_by_rank(traits->collective) &&
         traits->blocks != COMM_BLOCKS_UNEVEN && comm->plans.forced[traits->collective] == NULL;
}

static coll_status_t choose_even_plan(struct coll_comm *comm, comm_traits_t traits, size_t bytes,
                                      const comm_plan_t **plan) {
  const algo_t *algo;
  traits.collective = base_collective_even(traits.collective);
  COLL_TRY(tune_algorithm(comm, &traits, bytes, &algo));
  return comm_plan_get(comm, algo, traits.root, traits.in_place, plan);
}

/* The loaded plan, or that of the forced algorithm, if it supports the call, else the tuner's
 * choice. bytes: per block. */
static coll_status_t choose_plan(struct coll_comm *comm, const comm_traits_t *traits, size_t bytes,
                                 const comm_plan_t **plan) {
  /* without memory to map there are no addresses to exchange */
  comm_traits_t within = *traits;
  if (bytes == 0 && plan_reach_exchanges(within.reach)) within.reach = PLAN_REACH_SCRATCH;
  const algo_t *algo;
  if (takes_even_plan(comm, &within)) return choose_even_plan(comm, within, bytes, plan);
  COLL_TRY(comm_loaded_find(comm, &within, plan));
  if (*plan == NULL) COLL_TRY(forced_plan(comm, &within, plan));
  if (*plan != NULL && supports(comm, *plan, &within)) return COLL_OK;
  COLL_TRY(tune_algorithm(comm, &within, bytes, &algo));
  return comm_plan_get(comm, algo, traits->root, traits->in_place, plan);
}

/* ---- entry calls -------------------------------------------------------------------------*/

static int identity_op(const comm_traits_t *traits) {
  if (!base_collective_reduces(traits->collective)) return FLIGHT_OP_NONE;
  return traits->op == COMM_PREMUL ? FLIGHT_OP_PREMUL : (int)traits->op;
}

/* flight_words_t.algo. */
static int forced_index(const struct coll_comm *comm, coll_collective_t collective) {
  const char *forced = comm->plans.forced[collective];
  int index = 0;
  if (comm->plans.loaded[collective] != NULL) return FLIGHT_ALGO_LOADED;
  while (forced != NULL && algo_at(collective, index)->name != forced) index++;
  return forced != NULL ? index + 1 : 0;
}

/* The identity of a call. If pairs of ranks know the sizes of blocks, it omits the count. */
flight_call_t comm_identity_of(const struct coll_comm *comm, const comm_traits_t *traits,
                               size_t count) {
  bool rooted = base_collective_is_rooted(traits->collective);
  flight_words_t words = {.verb = (int)traits->collective,
                          .dtype = traits->dtype,
                          .op = identity_op(traits),
                          .root = rooted ? traits->root : 0,
                          .count = base_collective_counts_by_pair(traits->collective) ? 0 : count,
                          .algo = forced_index(comm, traits->collective)};
  if (base_collective_counts_by_rank(traits->collective)) {
    flight_words_set_counts(&words, NULL, count, comm->size);
  }
  return flight_call_make(&words);
}

/* The engine's description of a call. A premul-sum (input is scaled before) is a sum, and so is an
 * average, unless the task leaves it to the plan (task.c). */
static engine_call_t engine_call_of(const comm_traits_t *traits, size_t count) {
  bool plain = traits->op != COMM_PREMUL && traits->op != COLL_AVG;
  bool by_pair = base_collective_counts_by_pair(traits->collective);
  bool equal = base_collective_is_rooted(traits->collective) && traits->blocks == COMM_BLOCKS_EVEN;
  return (engine_call_t){.count = count,
                         .dtype = traits->dtype,
                         .op = plain ? traits->op : COLL_SUM,
                         .element_bytes = base_dtype_bytes(traits->dtype),
                         .count_per_pair = by_pair,
                         .pair_count = by_pair && equal ? count : 0};
}

static void empty(comm_cache_entry_t *entry) {
  entry->shape = (comm_shape_t){0};
  entry->fast_traits = 0;
}

coll_status_t comm_cache_miss(struct coll_comm *comm, comm_shape_t shape,
                              comm_cache_entry_t *slot) {
  const comm_traits_t traits = comm_traits_of(shape);
  engine_call_t call = engine_call_of(&traits, shape.count);
  size_t bytes = call.count_per_pair ? 0 : shape.count * call.element_bytes;
  empty(slot);
  COLL_TRY(choose_plan(comm, &traits, bytes, &slot->plan));
  slot->shape = shape;
  slot->id = comm_identity_of(comm, &traits, shape.count);
  slot->call = call;
  return COLL_OK;
}

void comm_force(struct coll_comm *comm, coll_collective_t collective, const char *algo) {
  comm->plans.forced[collective] = algo;
  comm->plans.loaded[collective] = NULL;
  for (size_t i = 0; i < COMM_CACHE_ENTRIES; i++) empty(&comm->plans.cache[i]);
}
