/*
 * Every core lets one of its ranks go as far as it can, then turns to the next one that can go on,
 * and so on round; cores take theirs alternately. Calls follow one another without a pause, so a
 * rank that ends one begins the next in the same turn. What a turn takes is not looked at.
 */
#include "tune/sched_sim.h"

#include <stdlib.h>

#include "base/memory.h"

#define WARMUPS 2 /* calls until turns have settled into a row */

typedef struct player {
  int call;                    /* that it is in, from 0 */
  size_t next[PLAN_LANES_MAX]; /* step */
} player_t;

typedef struct game {
  plan_t *plans[TUNE_EXECUTORS_MAX]; /* of calls, in turn */
  int executors, cores;
  player_t *players; /* [ranks] */
  int64_t *waiting;  /* per channel: messages or signals that were not yet taken */
} game_t;

static int64_t *channel_of(const game_t *game, int32_t source, int32_t destination, int lane,
                           bool is_signal) {
  int32_t size = game->plans[0]->shape.size;
  return &game->waiting[((source * size + destination) * PLAN_LANES_MAX + lane) * 2 + is_signal];
}

static bool take(int64_t *channel) {
  if (*channel == 0) return false;
  --*channel;
  return true;
}

static bool do_step(const game_t *game, int32_t rank, int lane, const plan_step_t *step) {
  const player_t *player = &game->players[rank];
  switch (step->kind) {
    case PLAN_SEND: {
      int64_t *channel = channel_of(game, rank, step->send.peer, lane, false);
      if (*channel == PLAN_DEPTH_MAX) return false;
      ++*channel;
      return true;
    }
    case PLAN_SIGNAL: ++*channel_of(game, rank, step->signal.peer, lane, true); return true;
    case PLAN_RECV: return take(channel_of(game, step->recv.peer, rank, lane, false));
    case PLAN_WAIT: return take(channel_of(game, step->wait.peer, rank, lane, true));
    case PLAN_AFTER: return player->next[step->after.lane] > (size_t)step->after.step;
    default: return true;
  }
}

static const plan_t *plan_of(const game_t *game, int call) {
  return game->plans[call % game->executors];
}

/* Whether all ranks have entered the call, where the plan counts on that. */
static bool may_begin(const game_t *game, int call) {
  const plan_t *plan = plan_of(game, call);
  if (plan->reach != PLAN_REACH_USER) return true;
  for (int32_t rank = 0; rank < plan->shape.size; rank++) {
    if (game->players[rank].call < call) return false;
  }
  return true;
}

/* As far as all lanes go in the call at hand. *ended: to its end. */
static bool go_on(const game_t *game, int32_t rank, bool *ended) {
  player_t *player = &game->players[rank];
  const plan_t *plan = plan_of(game, player->call);
  const plan_program_t *program = &plan->programs[rank];
  bool moved = false, again = may_begin(game, player->call);
  *ended = again;
  while (again) {
    again = false;
    *ended = true;
    for (int lane = 0; lane < plan->lanes; lane++) {
      const plan_lane_t *steps = &program->lanes[lane];
      while (player->next[lane] < steps->count &&
             do_step(game, rank, lane, &steps->steps[player->next[lane]])) {
        player->next[lane]++;
        moved = again = true;
      }
      *ended = *ended && player->next[lane] == steps->count;
    }
  }
  return moved;
}

/* One turn of a rank: whether it got any further. */
static bool take_turn(const game_t *game, int32_t rank, int calls) {
  player_t *player = &game->players[rank];
  bool moved = false, ended = true;
  while (player->call < calls && ended) {
    moved = go_on(game, rank, &ended) || ended || moved;
    if (!ended) break;
    *player = (player_t){.call = player->call + 1};
  }
  return moved;
}

/* The ranks of a core: those from `first` to `end`, the one that has it now, and how often it has
 * turned to another. */
typedef struct core {
  int32_t first, end, latest;
  int64_t turns;
} core_t;

/* Whether any of its ranks got further; the one that has the core comes last. */
static bool turn(const game_t *game, core_t *core, int calls) {
  for (int32_t i = 1; i <= core->end - core->first; i++) {
    int32_t rank = core->first + (core->latest - core->first + i) % (core->end - core->first);
    if (!take_turn(game, rank, calls)) continue;
    core->turns += rank != core->latest;
    core->latest = rank;
    return true;
  }
  return false;
}

/* Those that have the cores wait a little for one another before they give them up. */
static void settle(const game_t *game, const core_t cores[], int calls) {
  for (bool moved = true; moved;) {
    moved = false;
    for (int i = 0; i < game->cores; i++) moved = take_turn(game, cores[i].latest, calls) || moved;
  }
}

/* Until all ranks have made so many calls. */
static coll_status_t play_calls(const game_t *game, core_t cores[], int calls) {
  for (bool moved = true; moved;) {
    moved = false;
    for (int i = 0; i < game->cores; i++) {
      moved = turn(game, &cores[i], calls) || moved;
      settle(game, cores, calls);
    }
  }
  const plan_t *plan = game->plans[0];
  for (int32_t rank = 0; rank < plan->shape.size; rank++) {
    if (game->players[rank].call == calls) continue;
    return base_fail(COLL_ERROR_INTERNAL, "plan %s deadlocks", plan->algorithm);
  }
  return COLL_OK;
}

static int64_t most_turns(const core_t cores[], int count) {
  int64_t most = 0;
  for (int i = 0; i < count; i++) {
    if (cores[i].turns > most) most = cores[i].turns;
  }
  return most;
}

/* Of the core with the most of them, in so many calls. */
static coll_status_t turns_of(const game_t *game, core_t cores[], int calls, int64_t *turns) {
  int64_t size = game->plans[0]->shape.size;
  for (int i = 0; i < game->cores; i++) {
    cores[i] = (core_t){.first = (int32_t)(size * i / game->cores),
                        .end = (int32_t)(size * (i + 1) / game->cores)};
    cores[i].latest = cores[i].end - 1;
  }
  COLL_TRY(play_calls(game, cores, calls));
  *turns = most_turns(cores, game->cores);
  return COLL_OK;
}

/* From the beginning, with nobody ahead. */
static coll_status_t play(game_t *game, int calls, int64_t *turns) {
  core_t *places = NULL;
  size_t size = (size_t)game->plans[0]->shape.size;
  coll_status_t status = base_alloc(size, sizeof *game->players, "turns", (void **)&game->players);
  if (status == COLL_OK) {
    status = base_alloc(size * size * PLAN_LANES_MAX * 2, sizeof *game->waiting, "turns",
                        (void **)&game->waiting);
  }
  if (status == COLL_OK) {
    status = base_alloc((size_t)game->cores, sizeof *places, "turns", (void **)&places);
  }
  if (status == COLL_OK) status = turns_of(game, places, calls, turns);
  free(places);
  free(game->waiting);
  free(game->players);
  game->waiting = NULL; /* the game is played more than once */
  game->players = NULL;
  return status;
}

/* Chunks that a program moves. */
static int64_t work_of(const plan_program_t *program) {
  int64_t work = 0;
  for (int lane = 0; lane < PLAN_LANES_MAX; lane++) {
    for (size_t i = 0; i < program->lanes[lane].count; i++) {
      const plan_step_t *step = &program->lanes[lane].steps[i];
      if (step->kind == PLAN_COPY) work += 2 * step->copy.dst.count;
      if (step->kind == PLAN_REDUCE) {
        work += (1 + step->reduce.source_count) * step->reduce.dst.count;
      }
      if (step->kind == PLAN_SEND) work += 2 * step->send.src.count;
      if (step->kind == PLAN_RECV) work += 2 * step->recv.dst.count;
    }
  }
  return work;
}

static bool is_uneven(const plan_t *plan) {
  int64_t most = 0, sum = 0;
  for (int32_t rank = 0; rank < plan->shape.size; rank++) {
    int64_t work = work_of(&plan->programs[rank]);
    sum += work;
    if (work > most) most = work;
  }
  return most * plan->shape.size > sum + sum / 2;
}

/* ---- what ranks of a core find in its cache -------------------------------------------------*/

typedef struct seen {
  const plan_t *plan;
  int cores;
  bool *chunks; /* of each rank's scratch, for each core: loaded by one of its ranks */
  int64_t again;
} seen_t;

static void see(seen_t *seen, int32_t rank, const plan_span_t *span) {
  const plan_t *plan = seen->plan;
  int32_t core = ((rank + 1) * seen->cores - 1) / plan->shape.size;
  if (span->buffer != PLAN_SCRATCH || span->rank == rank) return;
  size_t row = (size_t)(core * plan->shape.size + span->rank);
  bool *chunks = &seen->chunks[row * (size_t)plan->scratch_chunks];
  for (int32_t i = span->first; i < span->first + span->count; i++) {
    seen->again += chunks[i];
    chunks[i] = true;
  }
}

static void see_program(seen_t *seen, int32_t rank) {
  const plan_program_t *program = &seen->plan->programs[rank];
  for (int lane = 0; lane < seen->plan->lanes; lane++) {
    for (size_t i = 0; i < program->lanes[lane].count; i++) {
      const plan_step_t *step = &program->lanes[lane].steps[i];
      if (step->kind == PLAN_COPY) see(seen, rank, &step->copy.src);
      for (int32_t k = 0; step->kind == PLAN_REDUCE && k < step->reduce.source_count; k++) {
        see(seen, rank, &program->sources[step->reduce.first_source + k]);
      }
    }
  }
}

/* Of what ranks load from peers' scratch, what another rank of their core has loaded before. */
static coll_status_t count_again(const plan_t *plan, int cores, int64_t *again) {
  seen_t seen = {.plan = plan, .cores = cores};
  size_t count = (size_t)(cores * plan->shape.size) * (size_t)plan->scratch_chunks;
  COLL_TRY(base_alloc(count + 1, sizeof(bool), "turns", (void **)&seen.chunks));
  for (int32_t rank = 0; rank < plan->shape.size; rank++) see_program(&seen, rank);
  free(seen.chunks);
  *again = seen.again;
  return COLL_OK;
}

int tune_executors(int size, int cores) {
  return cores == 2 && size == 2 * cores ? TUNE_EXECUTORS_MAX : 1;
}

coll_status_t tune_sched_sim(tune_profile_t *profile, int size, int cores) {
  game_t game = {.executors = profile->algo->by_executor ? tune_executors(size, cores) : 1,
                 .cores = cores};
  int64_t before = 0, turns = 0, again = 0;
  coll_status_t status = COLL_OK;
  if (size > TUNE_WHOLE) return COLL_OK;
  for (int lead = 0; lead < game.executors && status == COLL_OK; lead++) {
    plan_shape_t shape = {.collective = profile->algo->collective, .size = size, .root = lead};
    status = algo_build(profile->algo, &shape, ALGO_ALL_RANKS, false, &game.plans[lead]);
  }
  /* The first calls and the last ones, where ranks have nothing more to do, are not like others. */
  if (status == COLL_OK) status = play(&game, WARMUPS, &before);
  if (status == COLL_OK) status = play(&game, WARMUPS + TUNE_SIM_CALLS, &turns);
  if (status == COLL_OK) status = count_again(game.plans[0], cores, &again);
  if (status == COLL_OK) {
    profile->turns = turns > before ? turns - before : 1;
    profile->uneven = is_uneven(game.plans[0]);
    profile->all.chunks[TUNE_PULL] -= again;
    profile->all.chunks[TUNE_NEAR] += again;
  }
  for (int lead = 0; lead < game.executors; lead++) plan_free(game.plans[lead]);
  return status;
}
