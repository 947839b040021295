/*
 * Plans are built once per (algorithm, root, in place) and kept, and so is what the tuner chose for
 * a class of sizes. A call like an earlier one finds its plan without asking anybody, and its
 * program bound. Ranks that call in place choose as the others do.
 */
#include <stdlib.h>

#include "base/inline.h"
#include "base/memory.h"
#include "base/names.h"
#include "comm/comm.h"
#include "engine/run.h"
#include "engine/tag.h"
#include "tune/turns.h"

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
  for (int i = 0; i < COLL_COLLECTIVE_COUNT; i++) free(comm->tunings[i].profiles);
  for (size_t i = 0; i < COMM_PREPARED; i++) engine_bound_free(&comm->prepared[i].bound);
}

/* ---- choosing -------------------------------------------------------------------------------*/

static coll_status_t make_profiles(struct coll_comm *comm, coll_collective_t collective) {
  comm_tuning_t *tuning = &comm->tunings[collective];
  if (tuning->profiles != NULL) return COLL_OK;
  tune_profile_t *profiles = NULL;
  int count = 0;
  while (algo_at(collective, count) != NULL) count++;
  COLL_TRY(base_alloc((size_t)count, sizeof *profiles, "profiles", (void **)&profiles));
  for (int i = 0; i < count; i++) {
    coll_status_t status = tune_profile_make(algo_at(collective, i), comm->size, &profiles[i]);
    if (status == COLL_OK && comm->size > comm->cores) {
      status = tune_turns_count(&profiles[i], comm->size, comm->cores);
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

static tune_call_t describe(const struct coll_comm *comm, coll_collective_t collective,
                            size_t bytes, size_t element_bytes, plan_reach_t reach) {
  return (tune_call_t){.collective = collective,
                       .bytes = bytes,
                       .element_bytes = element_bytes,
                       .size = comm->size,
                       .cores = comm->cores,
                       .bound = comm->bound,
                       .reach = reach,
                       .room = comm->world.room};
}

/* All sizes of a class are served alike, as its least one is best. */
static coll_status_t tuned(struct coll_comm *comm, coll_collective_t collective, size_t bytes,
                           size_t element_bytes, plan_reach_t reach, const algo_t **algo) {
  comm_tuning_t *tuning = &comm->tunings[collective];
  int class = tune_class_of(bytes), log = __builtin_ctz((unsigned)element_bytes);
  uint8_t *chosen = &tuning->chosen[reach][log][class];
  if (*chosen == 0) {
    COLL_TRY(make_profiles(comm, collective));
    tune_call_t call = describe(comm, collective, tune_class_bytes(class), element_bytes, reach);
    int best = tune_choose(&comm->costs, tuning->profiles, tuning->count, &call);
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
                            size_t element_bytes, plan_reach_t reach, int index,
                            tune_estimate_t *estimate, bool *chosen) {
  const algo_t *algo;
  COLL_TRY(tuned(comm, collective, bytes, element_bytes, reach, &algo));
  const comm_tuning_t *tuning = &comm->tunings[collective];
  if (index < 0 || index >= tuning->count) {
    return base_fail(COLL_ERROR_INVALID, "%s has %d algorithms", base_collective_name(collective),
                     tuning->count);
  }
  tune_call_t call = describe(comm, collective, bytes, element_bytes, reach);
  *estimate = tune_estimate(&comm->costs, &tuning->profiles[index], &call);
  *chosen = tuning->profiles[index].algo == algo;
  return COLL_OK;
}

/* A meeting in vain costs as much as a small call; and memory that can be mapped, where it comes to
 * be used, should not wait for long. */
#define UNMET_CALLS 15

bool comm_spares_meeting(struct coll_comm *comm, coll_collective_t collective, size_t bytes) {
  uint8_t *unmet = &comm->tunings[collective].unmet[tune_class_of(bytes)];
  if (*unmet == 0 || comm->forced[collective] != NULL) return false;
  --*unmet;
  return true;
}

void comm_note_unmapped(struct coll_comm *comm, coll_collective_t collective, size_t bytes) {
  comm->tunings[collective].unmet[tune_class_of(bytes)] = UNMET_CALLS;
}

/* What is insisted on where it can serve, else what the tuner takes. bytes: of a block. */
static coll_status_t choose(struct coll_comm *comm, const comm_shape_t *shape, size_t bytes,
                            const comm_plan_t **plan) {
  coll_collective_t collective = shape->collective;
  size_t element_bytes = base_dtype_bytes(shape->dtype);
  const algo_t *algo;
  if (comm->forced[collective] != NULL) {
    const comm_plan_t *forced;
    COLL_TRY(algo_find(collective, comm->forced[collective], &algo));
    COLL_TRY(get_plan(comm, algo, shape->root, shape->in_place, &forced));
    if (forced->plan->reach <= shape->reach && forced->fits[element_bytes]) {
      *plan = forced;
      return COLL_OK;
    }
  }
  COLL_TRY(tuned(comm, collective, bytes, element_bytes, shape->reach, &algo));
  return get_plan(comm, algo, shape->root, shape->in_place, plan);
}

/* ---- prepared calls -------------------------------------------------------------------------*/

static bool same_shape(const comm_shape_t *a, const comm_shape_t *b) {
  return a->count == b->count && a->collective == b->collective && a->reach == b->reach &&
         a->root == b->root && a->dtype == b->dtype && a->op == b->op && a->in_place == b->in_place;
}

/* Fibonacci hashing, of what differs most. */
static comm_prepared_t *place_of(struct coll_comm *comm, const comm_shape_t *shape) {
  uint64_t what = (unsigned)shape->root * 64 + (unsigned)shape->collective * 4 + shape->reach;
  uint64_t mixed = (shape->count * 64 + what) * 0x9e3779b97f4a7c15u;
  return &comm->prepared[(mixed >> 32) * COMM_PREPARED >> 32];
}

static int tag_op(const comm_shape_t *shape) {
  if (!base_collective_reduces(shape->collective)) return ENGINE_OP_NONE;
  return shape->op < COLL_OP_BUILTIN_COUNT ? (int)shape->op : ENGINE_OP_PREMUL;
}

/* Of blocks that differ in size ranks know but their own, so the tag leaves them out. */
static uint64_t tag_of(const comm_shape_t *shape) {
  size_t count = shape->collective == COLL_ALLTOALLV ? 0 : shape->count;
  return engine_tag_make(0, shape->collective, shape->dtype, tag_op(shape), count, shape->root);
}

/* To the engine, which gets premul-sums scaled and leaves averages to be divided, both are sums. */
static engine_call_t describe_call(const comm_shape_t *shape) {
  bool plain = shape->op < COLL_OP_BUILTIN_COUNT && shape->op != COLL_AVG;
  bool uneven = shape->collective == COLL_ALLTOALLV;
  return (engine_call_t){.count = shape->count,
                         .dtype = shape->dtype,
                         .op = plain ? shape->op : COLL_SUM,
                         .element_bytes = base_dtype_bytes(shape->dtype),
                         .count_per_pair = uneven};
}

BASE_COLD static coll_status_t prepare_anew(struct coll_comm *comm, const comm_shape_t *shape,
                                            comm_prepared_t *place) {
  engine_call_t call = describe_call(shape);
  size_t bytes = call.count_per_pair ? 0 : shape->count * call.element_bytes;
  place->plan = NULL;
  COLL_TRY(choose(comm, shape, bytes, &place->plan));
  place->shape = *shape;
  place->tag = tag_of(shape);
  place->call = call;
  return COLL_OK;
}

static coll_status_t prepare(struct coll_comm *comm, const comm_shape_t *shape,
                             comm_prepared_t **prepared) {
  comm_prepared_t *place = place_of(comm, shape);
  *prepared = place;
  if (place->plan != NULL && same_shape(&place->shape, shape)) return COLL_OK;
  return prepare_anew(comm, shape, place);
}

coll_status_t comm_prepare(struct coll_comm *comm, const comm_shape_t *shape, int lead,
                           comm_prepared_t **prepared) {
  comm_prepared_t *place;
  COLL_TRY(prepare(comm, shape, &place));
  if (lead != 0 && place->plan->algo->led) {
    comm_shape_t led = *shape;
    led.root = lead;
    COLL_TRY(prepare(comm, &led, &place));
  }
  comm->used[shape->collective] = place->plan->algo;
  *prepared = place;
  return COLL_OK;
}

void comm_force(struct coll_comm *comm, coll_collective_t collective, const char *algo) {
  comm->forced[collective] = algo;
  for (size_t i = 0; i < COMM_PREPARED; i++) {
    comm_prepared_t *each = &comm->prepared[i];
    if (each->shape.collective == collective) each->plan = NULL;
  }
}
