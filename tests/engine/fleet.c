/*
 * Buffers are parts of one allocation per rank and call, with guard bytes around and between them,
 * at offsets that are only aligned to an element.
 */
#include "engine/fleet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "engine/exchange.h"
#include "engine/large.h"
#include "engine/run.h"
#include "harness/faults.h"
#include "transport/self/self.h"
#include "transport/shm/shm.h"
#include "verify/random.h"

#define MARGIN_BYTES 64
#define MARGIN 0xa5
#define SPOILED 0xee
#define POLLS_MAX                                                         \
  20000 /* polls per rank without progress after which the calls count as \
           deadlocked */

typedef enum rank_state { RANK_IDLE, RANK_EXCHANGING, RANK_RUNNING, RANK_DONE } rank_state_t;

/* A simulated rank. */
typedef struct sim {
  struct fleet *fleet;
  int rank, at;     /* index of its current call */
  uint64_t history; /* of its earlier calls */
  rank_state_t state;
  engine_world_t world;
  plan_t *plan;
  engine_call_t call;
  engine_exchange_t exchange;
  engine_run_t run;
  size_t blocks[6][QUESTION_RANKS_MAX];
  char *arena, *input, *output;
  size_t arena_bytes;
  bool in_place;
  uint64_t paused_until;
} rank_t;

typedef struct fleet {
  const fleet_options_t *options;
  const fleet_call_t *calls;
  int count;
  bool *fitted;
  uint64_t random;
  rank_t *ranks;
  transport_t *ends[QUESTION_RANKS_MAX];
  topo_layout_t *layout; /* NULL: all share memory */
  char *text;
} fleet_t;

static bool fail(rank_t *sim, const char *what) {
  fleet_t *fleet = sim->fleet;
  const fleet_call_t *call = &fleet->calls[sim->at];
  const fleet_options_t *options = fleet->options;
  char question[QUESTION_TEXT_BYTES];
  question_describe(&call->question, question);
  snprintf(fleet->text, FLEET_TEXT_BYTES,
           "%s [call %d: %s by %s, place %d; slots of %zu, scratch of %zu, %d%% refused, seed "
           "%llu, rank %d]",
           what, sim->at, question, call->algo->name, (int)call->place, sim->world.room.slot_bytes,
           sim->world.room.scratch_bytes, options->refuse_percent,
           (unsigned long long)options->seed, sim->rank);
  return false;
}

/* ---- a rank's buffers -----------------------------------------------------------------------*/

static void allocate_buffers(rank_t *sim, const question_t *q, bool want_in_place) {
  size_t element = base_dtype_bytes(q->dtype);
  size_t in = question_input_elements(q, sim->rank) * element;
  size_t out = question_output_elements(q, sim->rank) * element;
  size_t skew = (size_t)random_below(&sim->fleet->random, 8) * element;
  ptrdiff_t offset = 0;
  sim->in_place = want_in_place && question_in_place(q, sim->rank, &offset);
  sim->arena_bytes = in + out + 3 * MARGIN_BYTES + skew;
  sim->arena = malloc(sim->arena_bytes);
  if (sim->arena == NULL) abort();
  memset(sim->arena, MARGIN, sim->arena_bytes);
  sim->input = sim->arena + MARGIN_BYTES + skew;
  sim->output = sim->input + in + MARGIN_BYTES;
  if (sim->in_place) {
    ptrdiff_t bytes = offset * (ptrdiff_t)element;
    if (bytes > 0) sim->input += bytes;
    sim->output = sim->input - bytes;
  }
  question_fill(q, sim->rank, sim->input);
}

static bool within(const char *at, const char *base, size_t bytes) {
  return at >= base && at < base + bytes;
}

/* Whether the guard bytes are unchanged, and so is an input that is not also the output. */
static bool memory_is_intact(const rank_t *sim, const question_t *q) {
  size_t element = base_dtype_bytes(q->dtype);
  size_t in = question_input_elements(q, sim->rank) * element;
  size_t out = question_output_elements(q, sim->rank) * element;
  char *before = malloc(in + 1);
  if (before == NULL) abort();
  question_fill(q, sim->rank, before);
  bool good = true;
  for (size_t i = 0; i < sim->arena_bytes && good; i++) {
    const char *at = sim->arena + i;
    if (within(at, sim->output, out)) continue;
    if (within(at, sim->input, in)) {
      good = *at == before[at - sim->input];
    } else {
      good = (unsigned char)*at == MARGIN;
    }
  }
  free(before);
  return good;
}

/* ---- a rank's calls -------------------------------------------------------------------------*/

/* Whether the plan averages, as one of exact order does for floats; else an average is a sum that
 * the engine does not divide. */
static bool averages(const rank_t *sim) {
  const question_t *q = &sim->fleet->calls[sim->at].question;
  return sim->plan->order == PLAN_ORDER_EXACT && !base_dtype_is_integer(q->dtype);
}

/* Blocks of different sizes. */
static void describe_blocks(rank_t *sim, const question_t *q) {
  engine_call_t *call = &sim->call;
  bool is_root = sim->rank == q->root;
  size_t(*blocks)[QUESTION_RANKS_MAX] = sim->blocks;
  question_layout(q, sim->rank, blocks[0], blocks[1], blocks[2], blocks[3]);
  const engine_blocks_t sent = {blocks[0], blocks[1]}, received = {blocks[2], blocks[3]};
  const engine_blocks_t own = {blocks[4], blocks[5]}, none = {0};
  call->count_per_pair = base_collective_counts_by_pair(q->collective);
  if (!call->count_per_pair) {
    call->ranks = q->collective == COLL_REDUCE_SCATTERV ? sent : received;
    return; /* plans that may run read peers' inputs alone, wherever outputs have gaps */
  }
  blocks[4][0] = question_rank_count(q, sim->rank);
  blocks[5][0] = 0;
  call->input_blocks = q->collective == COLL_GATHERV ? own : sent;
  call->output_blocks = q->collective == COLL_SCATTERV ? own : received;
  if (q->collective == COLL_SCATTERV && !is_root) call->input_blocks = none;
  if (q->collective == COLL_GATHERV && !is_root) call->output_blocks = none;
  call->count = q->collective == COLL_ALLTOALLV ? 0 : blocks[4][0];
  for (int peer = 0; peer < q->size; peer++) {
    if (q->collective != COLL_ALLTOALLV && !is_root) break;
    bool sends = q->collective != COLL_GATHERV, receives = q->collective != COLL_SCATTERV;
    if (sends && blocks[0][peer] > call->count) call->count = blocks[0][peer];
    if (receives && blocks[2][peer] > call->count) call->count = blocks[2][peer];
  }
}

static void describe_call(rank_t *sim, const question_t *q) {
  engine_call_t *call = &sim->call;
  bool by_pair = base_collective_counts_by_pair(q->collective);
  bool by_rank = base_collective_counts_by_rank(q->collective);
  const flight_words_t words = {
      .verb = q->collective,
      .dtype = q->dtype,
      .op = base_collective_reduces(q->collective) ? (int)q->op : FLIGHT_OP_NONE,
      .root = q->root,
      .count = by_pair ? 0 : q->count};
  const flight_call_t id = flight_call_make(&words);
  *call =
      (engine_call_t){.input = question_input_elements(q, sim->rank) > 0 ? sim->input : NULL,
                      .output = question_output_elements(q, sim->rank) > 0 ? sim->output : NULL,
                      .count = q->collective == COLL_BARRIER ? 0 : q->count,
                      .dtype = q->dtype,
                      .op = q->op == COLL_AVG && !averages(sim) ? COLL_SUM : q->op,
                      .element_bytes = base_dtype_bytes(q->dtype),
                      .id = {flight_what_at(id.what, (uint64_t)sim->at), id.count + sim->history},
                      .history = sim->history};
  sim->history = flight_history_add(sim->history, id);
  if (by_pair || by_rank) describe_blocks(sim, q);
}

static bool wants_in_place(const rank_t *sim, const fleet_call_t *call) {
  if (call->place != FLEET_MIXED) return call->place == FLEET_IN_PLACE;
  return random_mix(call->question.seed + (uint64_t)sim->rank) % 2 == 0;
}

static bool begin_run(rank_t *sim) {
  sim->state = RANK_RUNNING;
  sim->run.bound.plan = NULL; /* plans are freed and allocated at the same addresses */
  coll_status_t status = engine_run_begin(&sim->run, &sim->world, sim->plan,
                                          &sim->plan->programs[sim->rank], &sim->call);
  return status == COLL_OK || fail(sim, base_last_error());
}

static bool begin_call(rank_t *sim) {
  fleet_t *fleet = sim->fleet;
  const fleet_call_t *call = &fleet->calls[sim->at];
  const question_t *q = &call->question;
  plan_shape_t shape = {.collective = q->collective, .size = q->size, .root = q->root};
  allocate_buffers(sim, q, wants_in_place(sim, call));
  if (algo_build(call->algo, &shape, sim->rank, sim->in_place, &sim->plan) != COLL_OK) {
    return fail(sim, base_last_error());
  }
  bool fits = engine_run_fits(&sim->world, sim->plan, base_dtype_bytes(q->dtype));
  fleet->fitted[sim->at] = fits;
  describe_call(sim, q);
  if (!fits) {
    sim->state = RANK_DONE;
    return true;
  }
  if (!plan_reach_exchanges(sim->plan->reach)) {
    faults_hide_memory(fleet->ends[sim->rank], random_below(&fleet->random, 2) == 0);
    return begin_run(sim);
  }
  size_t element = base_dtype_bytes(q->dtype);
  sim->state = RANK_EXCHANGING;
  bool pulls = sim->plan->reach == PLAN_REACH_READ;
  faults_hide_memory(fleet->ends[sim->rank], pulls && random_below(&fleet->random, 2) == 0);
  coll_status_t status = engine_exchange_begin(&sim->exchange, &sim->world, &sim->call,
                                               question_input_elements(q, sim->rank) * element,
                                               question_output_elements(q, sim->rank) * element);
  return status == COLL_OK || fail(sim, base_last_error());
}

static unsigned long stores;

unsigned long fleet_stores(void) {
  return stores;
}

static void count_stores(const rank_t *sim) {
  if (!engine_call_may_be_large(&sim->call, sim->plan)) return;
  for (int peer = 0; peer < sim->world.size; peer++) {
    stores += (sim->run.large[peer].flags & ENGINE_LARGE_STORED) != 0;
  }
}

static bool end_call(rank_t *sim) {
  const question_t *q = &sim->fleet->calls[sim->at].question;
  char wrong[QUESTION_TEXT_BYTES];
  if (sim->fleet->fitted[sim->at]) {
    bool compare = q->op != COLL_AVG || !base_collective_reduces(q->collective) || averages(sim);
    if (compare && !question_answered(q, sim->rank, sim->output, wrong)) {
      return fail(sim, wrong);
    }
    if (!memory_is_intact(sim, q)) return fail(sim, "memory that is not the output was written");
    count_stores(sim);
  }
  memset(sim->arena, SPOILED, sim->arena_bytes);
  free(sim->arena);
  plan_free(sim->plan);
  sim->arena = NULL;
  sim->plan = NULL;
  sim->at++;
  sim->state = RANK_IDLE;
  return true;
}

/* Advances a rank by one call of the engine. *moved: it made progress. */
static bool advance(rank_t *sim, bool *moved) {
  bool done = false;
  plan_reach_t reach;
  *moved = true;
  switch (sim->state) {
    case RANK_IDLE: return begin_call(sim);
    case RANK_EXCHANGING:
      if (engine_exchange_advance(&sim->exchange, moved, &done, &reach) != COLL_OK) {
        return fail(sim, base_last_error());
      }
      if (done && reach < sim->plan->reach) return fail(sim, "a buffer cannot be accessed");
      return !done || begin_run(sim);
    case RANK_RUNNING:
      if (engine_run_advance(&sim->run, moved, &done) != COLL_OK) {
        return fail(sim, base_last_error());
      }
      if (done) sim->state = RANK_DONE;
      return true;
    case RANK_DONE: return end_call(sim);
  }
  return false;
}

/* ---- all ranks ------------------------------------------------------------------------------*/

/* Picks a random rank. Sometimes suspends it for a while. */
static rank_t *pick_rank(fleet_t *fleet, uint64_t tick) {
  rank_t *sim = &fleet->ranks[random_below(&fleet->random, fleet->options->size)];
  if (random_below(&fleet->random, 200) == 0) {
    sim->paused_until = tick + (uint64_t)random_below(&fleet->random, 2000);
  }
  return sim;
}

static bool run_all(fleet_t *fleet) {
  int size = fleet->options->size, idle = 0;
  for (uint64_t tick = 0;; tick++) {
    rank_t *sim = pick_rank(fleet, tick);
    int finished = 0;
    for (int rank = 0; rank < size; rank++) finished += fleet->ranks[rank].at == fleet->count;
    if (finished == size) return true;
    if (sim->at == fleet->count || sim->paused_until > tick) continue;
    bool moved;
    if (!advance(sim, &moved)) return false;
    idle = moved ? 0 : idle + 1;
    if (idle > POLLS_MAX * size) return fail(sim, "no rank makes progress");
  }
}

static bool create_rank(fleet_t *fleet, int rank) {
  const fleet_options_t *options = fleet->options;
  rank_t *sim = &fleet->ranks[rank];
  transport_t *end = fleet->ends[rank], *self;
  engine_world_t *world = &sim->world;
  size_t size = (size_t)options->size;
  sim->fleet = fleet;
  sim->rank = rank;
  if (transport_self_create(rank, options->size, end->slot_bytes, &self) != COLL_OK) return false;
  *world = (engine_world_t){.rank = rank,
                            .size = options->size,
                            .layout = fleet->layout,
                            .gets = true,
                            .device = &device_host_portable};
  world->room.slot_bytes = options->slot_bytes > 0 ? options->slot_bytes : end->slot_bytes;
  world->room.mcast_bytes = end->mcast_bytes;
  if (end->mcast_bytes > 0 && options->slot_bytes > 0)
    world->room.mcast_bytes = options->slot_bytes;
  world->routes = calloc(size, sizeof(transport_t *));
  world->views = calloc(size, sizeof *world->views);
  world->packing = malloc(world->room.slot_bytes + world->room.mcast_bytes);
  if (world->routes == NULL || world->views == NULL || world->packing == NULL) abort();
  for (int peer = 0; peer < options->size; peer++) {
    void *scratch;
    world->routes[peer] = end;
    end->ops->scratch(end, peer, &scratch, &world->room.scratch_bytes);
    world->views[peer].buffers[PLAN_SCRATCH] = scratch;
  }
  world->routes[rank] = faults_wrap(self, options->seed + 100 + (uint64_t)rank, 10);
  if (options->scratch_bytes > 0) world->room.scratch_bytes = options->scratch_bytes;
  return true;
}

static void free_rank(rank_t *sim) {
  engine_world_t *world = &sim->world;
  if (world->routes != NULL) {
    transport_t *self = world->routes[sim->rank];
    self->ops->destroy(self);
  }
  plan_free(sim->plan);
  engine_run_free(&sim->run);
  free(sim->arena);
  free(world->packing);
  free(world->views);
  free(world->routes);
}

static topo_layout_t *layout_of_hosts(int size) {
  int32_t host_of[QUESTION_RANKS_MAX];
  topo_layout_t *layout;
  for (int rank = 0; rank < size; rank++) host_of[rank] = rank;
  if (topo_layout_create(size, &layout) != COLL_OK) abort();
  if (topo_layout_set_domains(layout, host_of) != COLL_OK) abort();
  return layout;
}

bool fleet_run(const fleet_options_t *options, const fleet_call_t calls[], int count, bool fitted[],
               char text[FLEET_TEXT_BYTES]) {
  fleet_t fleet = {.options = options, .calls = calls, .count = count, .text = text};
  fleet.random = options->seed;
  fleet.ranks = calloc((size_t)options->size, sizeof *fleet.ranks);
  fleet.fitted = calloc((size_t)count, sizeof *fleet.fitted);
  if (fleet.ranks == NULL || fleet.fitted == NULL) abort();
  if (options->on_hosts) fleet.layout = layout_of_hosts(options->size);
  bool good = transport_shm_create_local(options->size, fleet.ends) == COLL_OK;
  if (!good) snprintf(text, FLEET_TEXT_BYTES, "%s", base_last_error());
  int made = 0;
  for (; good && made < options->size; made++) {
    fleet.ends[made] =
        faults_wrap(fleet.ends[made], options->seed + (uint64_t)made, options->refuse_percent);
    good = create_rank(&fleet, made);
  }
  good = good && run_all(&fleet);
  for (int rank = 0; rank < made; rank++) {
    free_rank(&fleet.ranks[rank]);
    fleet.ends[rank]->ops->destroy(fleet.ends[rank]);
  }
  if (fitted != NULL) memcpy(fitted, fleet.fitted, (size_t)count * sizeof *fitted);
  topo_layout_free(fleet.layout);
  free(fleet.fitted);
  free(fleet.ranks);
  return good;
}
