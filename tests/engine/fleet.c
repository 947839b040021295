/*
 * Buffers are cut from one allocation per rank and call, with a margin of known bytes around and
 * between them, at an offset that is aligned to no more than an element.
 */
#include "engine/fleet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "engine/exchange.h"
#include "engine/run.h"
#include "harness/faults.h"
#include "transport/self/self.h"
#include "transport/shm/shm.h"
#include "verify/random.h"

#define MARGIN_BYTES 64
#define MARGIN 0xa5
#define SPOILED 0xee
#define PATIENCE 20000 /* looks per rank without a step before it is called a deadlock */

typedef enum player_state {
  PLAYER_IDLE,
  PLAYER_MEETING,
  PLAYER_RUNNING,
  PLAYER_DONE
} player_state_t;

/* A rank. */
typedef struct player {
  struct fleet *fleet;
  int rank, at;     /* the call it is in */
  uint64_t history; /* of the calls before */
  player_state_t state;
  engine_world_t world;
  plan_t *plan;
  engine_call_t call;
  engine_exchange_t handshake;
  engine_run_t run;
  size_t blocks[4][QUESTION_RANKS_MAX];
  char *arena, *input, *output;
  size_t arena_bytes;
  bool in_place;
  uint64_t paused_until;
} player_t;

typedef struct fleet {
  const fleet_options_t *options;
  const fleet_call_t *calls;
  int count;
  bool *fitted;
  uint64_t random;
  player_t *players;
  transport_t *ends[QUESTION_RANKS_MAX];
  char *text;
} fleet_t;

static bool say(player_t *player, const char *what) {
  fleet_t *fleet = player->fleet;
  const fleet_call_t *call = &fleet->calls[player->at];
  const fleet_options_t *options = fleet->options;
  char question[QUESTION_TEXT_BYTES];
  question_describe(&call->question, question);
  snprintf(fleet->text, FLEET_TEXT_BYTES,
           "%s [call %d: %s by %s, place %d; slots of %zu, scratch of %zu, %d%% refused, seed "
           "%llu, rank %d]",
           what, player->at, question, call->algo->name, (int)call->place,
           player->world.room.slot_bytes, player->world.room.scratch_bytes, options->refuse_percent,
           (unsigned long long)options->seed, player->rank);
  return false;
}

/* ---- a rank's buffers -----------------------------------------------------------------------*/

static void lay_out(player_t *player, const question_t *q, bool want_in_place) {
  size_t element = base_dtype_bytes(q->dtype);
  size_t in = question_input_elements(q, player->rank) * element;
  size_t out = question_output_elements(q, player->rank) * element;
  size_t skew = (size_t)random_below(&player->fleet->random, 8) * element;
  ptrdiff_t offset = 0;
  player->in_place = want_in_place && question_in_place(q, player->rank, &offset);
  player->arena_bytes = in + out + 3 * MARGIN_BYTES + skew;
  player->arena = malloc(player->arena_bytes);
  if (player->arena == NULL) abort();
  memset(player->arena, MARGIN, player->arena_bytes);
  player->input = player->arena + MARGIN_BYTES + skew;
  player->output = player->input + in + MARGIN_BYTES;
  if (player->in_place) {
    ptrdiff_t bytes = offset * (ptrdiff_t)element;
    if (bytes > 0) player->input += bytes;
    player->output = player->input - bytes;
  }
  question_fill(q, player->rank, player->input);
}

static bool within(const char *at, const char *base, size_t bytes) {
  return at >= base && at < base + bytes;
}

/* The margins are whole, and so is an input that is not also the output. */
static bool unspoiled(const player_t *player, const question_t *q) {
  size_t element = base_dtype_bytes(q->dtype);
  size_t in = question_input_elements(q, player->rank) * element;
  size_t out = question_output_elements(q, player->rank) * element;
  char *before = malloc(in + 1);
  if (before == NULL) abort();
  question_fill(q, player->rank, before);
  bool good = true;
  for (size_t i = 0; i < player->arena_bytes && good; i++) {
    const char *at = player->arena + i;
    if (within(at, player->output, out)) continue;
    if (within(at, player->input, in)) {
      good = *at == before[at - player->input];
    } else {
      good = (unsigned char)*at == MARGIN;
    }
  }
  free(before);
  return good;
}

/* ---- a rank's calls -------------------------------------------------------------------------*/

static void describe_call(player_t *player, const question_t *q) {
  engine_call_t *call = &player->call;
  bool uneven = q->collective == COLL_ALLTOALLV;
  const flight_words_t words = {
      .verb = q->collective,
      .dtype = q->dtype,
      .op = base_collective_reduces(q->collective) ? (int)q->op : FLIGHT_OP_NONE,
      .root = q->root,
      .count = uneven ? 0 : q->count};
  const flight_call_t id = flight_call_make(&words);
  *call = (engine_call_t){
      .input = question_input_elements(q, player->rank) > 0 ? player->input : NULL,
      .output = question_output_elements(q, player->rank) > 0 ? player->output : NULL,
      .count = q->collective == COLL_BARRIER ? 0 : q->count,
      .dtype = q->dtype,
      .op = q->op == COLL_AVG ? COLL_SUM : q->op,
      .element_bytes = base_dtype_bytes(q->dtype),
      .id = {flight_what_at(id.what, (uint64_t)player->at), id.count + player->history},
      .history = player->history};
  player->history = flight_history_add(player->history, id);
  if (!uneven) return;
  question_layout(q, player->rank, player->blocks[0], player->blocks[1], player->blocks[2],
                  player->blocks[3]);
  call->input_blocks = (engine_blocks_t){player->blocks[0], player->blocks[1]};
  call->output_blocks = (engine_blocks_t){player->blocks[2], player->blocks[3]};
  call->count = 0;
  for (int peer = 0; peer < q->size; peer++) {
    if (player->blocks[0][peer] > call->count) call->count = player->blocks[0][peer];
    if (player->blocks[2][peer] > call->count) call->count = player->blocks[2][peer];
  }
  call->count_per_pair = true;
}

static bool wants_in_place(const player_t *player, const fleet_call_t *call) {
  if (call->place != FLEET_MIXED) return call->place == FLEET_IN_PLACE;
  return random_mix(call->question.seed + (uint64_t)player->rank) % 2 == 0;
}

static bool begin_run(player_t *player) {
  player->state = PLAYER_RUNNING;
  player->run.bound.plan = NULL; /* plans come and go, at the same addresses */
  coll_status_t status = engine_run_begin(&player->run, &player->world, player->plan,
                                          &player->plan->programs[player->rank], &player->call);
  return status == COLL_OK || say(player, base_last_error());
}

static bool begin_call(player_t *player) {
  fleet_t *fleet = player->fleet;
  const fleet_call_t *call = &fleet->calls[player->at];
  const question_t *q = &call->question;
  plan_shape_t shape = {.collective = q->collective, .size = q->size, .root = q->root};
  lay_out(player, q, wants_in_place(player, call));
  if (algo_build(call->algo, &shape, player->rank, player->in_place, &player->plan) != COLL_OK) {
    return say(player, base_last_error());
  }
  bool fits = engine_run_fits(&player->world, player->plan, base_dtype_bytes(q->dtype));
  fleet->fitted[player->at] = fits;
  describe_call(player, q);
  if (!fits) {
    player->state = PLAYER_DONE;
    return true;
  }
  if (player->plan->reach != PLAN_REACH_USER) {
    return begin_run(player);
  }
  size_t element = base_dtype_bytes(q->dtype);
  player->state = PLAYER_MEETING;
  coll_status_t status = engine_exchange_begin(&player->handshake, &player->world, &player->call,
                                               question_input_elements(q, player->rank) * element,
                                               question_output_elements(q, player->rank) * element);
  return status == COLL_OK || say(player, base_last_error());
}

static bool end_call(player_t *player) {
  const question_t *q = &player->fleet->calls[player->at].question;
  char wrong[QUESTION_TEXT_BYTES];
  if (player->fleet->fitted[player->at]) {
    /* AVG is a sum here: dividing it is not the engine's work */
    bool compare = !(q->op == COLL_AVG && base_collective_reduces(q->collective));
    if (compare && !question_answered(q, player->rank, player->output, wrong)) {
      return say(player, wrong);
    }
    if (!unspoiled(player, q)) return say(player, "memory that is not the output was written");
  }
  memset(player->arena, SPOILED, player->arena_bytes);
  free(player->arena);
  plan_free(player->plan);
  player->arena = NULL;
  player->plan = NULL;
  player->at++;
  player->state = PLAYER_IDLE;
  return true;
}

/* One look. *moved: it got further. */
static bool advance(player_t *player, bool *moved) {
  bool done = false, mappable;
  *moved = true;
  switch (player->state) {
    case PLAYER_IDLE: return begin_call(player);
    case PLAYER_MEETING:
      if (engine_exchange_advance(&player->handshake, moved, &done, &mappable) != COLL_OK) {
        return say(player, base_last_error());
      }
      if (done && !mappable) return say(player, "memory of threads cannot be mapped");
      return !done || begin_run(player);
    case PLAYER_RUNNING:
      if (engine_run_advance(&player->run, moved, &done) != COLL_OK) {
        return say(player, base_last_error());
      }
      if (done) player->state = PLAYER_DONE;
      return true;
    case PLAYER_DONE: return end_call(player);
  }
  return false;
}

/* ---- all ranks ------------------------------------------------------------------------------*/

/* Now and then somebody is not looked at for a long while. */
static player_t *pick(fleet_t *fleet, uint64_t tick) {
  player_t *player = &fleet->players[random_below(&fleet->random, fleet->options->size)];
  if (random_below(&fleet->random, 200) == 0) {
    player->paused_until = tick + (uint64_t)random_below(&fleet->random, 2000);
  }
  return player;
}

static bool play(fleet_t *fleet) {
  int size = fleet->options->size, idle = 0;
  for (uint64_t tick = 0;; tick++) {
    player_t *player = pick(fleet, tick);
    int finished = 0;
    for (int rank = 0; rank < size; rank++) finished += fleet->players[rank].at == fleet->count;
    if (finished == size) return true;
    if (player->at == fleet->count || player->paused_until > tick) continue;
    bool moved;
    if (!advance(player, &moved)) return false;
    idle = moved ? 0 : idle + 1;
    if (idle > PATIENCE * size) return say(player, "nobody gets any further");
  }
}

static bool make_player(fleet_t *fleet, int rank) {
  const fleet_options_t *options = fleet->options;
  player_t *player = &fleet->players[rank];
  transport_t *end = fleet->ends[rank], *self;
  engine_world_t *world = &player->world;
  size_t size = (size_t)options->size;
  player->fleet = fleet;
  player->rank = rank;
  if (transport_self_create(rank, options->size, end->slot_bytes, &self) != COLL_OK) return false;
  *world = (engine_world_t){.rank = rank, .size = options->size, .device = &device_host_portable};
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

static void free_player(player_t *player) {
  engine_world_t *world = &player->world;
  if (world->routes != NULL) {
    transport_t *self = world->routes[player->rank];
    self->ops->destroy(self);
  }
  plan_free(player->plan);
  engine_run_free(&player->run);
  free(player->arena);
  free(world->packing);
  free(world->views);
  free(world->routes);
}

bool fleet_run(const fleet_options_t *options, const fleet_call_t calls[], int count, bool fitted[],
               char text[FLEET_TEXT_BYTES]) {
  fleet_t fleet = {.options = options, .calls = calls, .count = count, .text = text};
  fleet.random = options->seed;
  fleet.players = calloc((size_t)options->size, sizeof *fleet.players);
  fleet.fitted = calloc((size_t)count, sizeof *fleet.fitted);
  if (fleet.players == NULL || fleet.fitted == NULL) abort();
  bool good = transport_shm_create_local(options->size, fleet.ends) == COLL_OK;
  if (!good) snprintf(text, FLEET_TEXT_BYTES, "%s", base_last_error());
  int made = 0;
  for (; good && made < options->size; made++) {
    fleet.ends[made] =
        faults_wrap(fleet.ends[made], options->seed + (uint64_t)made, options->refuse_percent);
    good = make_player(&fleet, made);
  }
  good = good && play(&fleet);
  for (int rank = 0; rank < made; rank++) {
    free_player(&fleet.players[rank]);
    fleet.ends[rank]->ops->destroy(fleet.ends[rank]);
  }
  if (fitted != NULL) memcpy(fitted, fleet.fitted, (size_t)count * sizeof *fitted);
  free(fleet.fitted);
  free(fleet.players);
  return good;
}
