/* Runs a plan on clocks that count messages. */
#include "tools/collplan/rounds.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "tools/collplan/timeline.h"

typedef struct lane_clock {
  int64_t ready;     /* when its last receive or wait was complete */
  int64_t send_free; /* when the ports are free */
  int64_t recv_free;
} lane_clock_t;

typedef struct clocks {
  rounds_t *rounds;
  lane_clock_t *lanes;
} clocks_t;

static int64_t later(int64_t a, int64_t b) {
  return a > b ? a : b;
}

static void take_step(void *context, const sim_step_t *at) {
  clocks_t *clocks = context;
  rounds_t *rounds = clocks->rounds;
  lane_clock_t *lane = &clocks->lanes[sim_rank_lane(&rounds->sim, at->rank, at->lane)];
  int64_t *done = &rounds->done[at->number];
  switch (at->step->kind) {
    case PLAN_SEND: *done = lane->send_free = later(lane->send_free, lane->ready) + 1; break;
    case PLAN_RECV:
      lane->recv_free = later(rounds->done[at->awaited], lane->recv_free + 1);
      *done = lane->ready = lane->recv_free;
      break;
    case PLAN_SIGNAL: *done = lane->ready + 1; break;
    case PLAN_WAIT:
    case PLAN_AFTER: *done = lane->ready = later(lane->ready, rounds->done[at->awaited]); break;
    default: *done = lane->ready; break;
  }
  rounds->last = later(rounds->last, lane->ready);
}

static coll_status_t run(clocks_t *clocks, const plan_t *plan) {
  rounds_t *rounds = clocks->rounds;
  sim_t *sim = &rounds->sim;
  COLL_TRY(sim_open(plan, (size_t)plan->depth, sim));
  COLL_TRY(base_alloc(sim->lanes, sizeof *clocks->lanes, "rounds", (void **)&clocks->lanes));
  COLL_TRY(base_alloc(sim->count + 1, sizeof *rounds->done, "rounds", (void **)&rounds->done));
  return timeline_run(sim, take_step, clocks);
}

coll_status_t rounds_create(const plan_t *plan, rounds_t *rounds) {
  rounds_t made = {.last = 0};
  clocks_t clocks = {.rounds = &made};
  coll_status_t status = run(&clocks, plan);
  free(clocks.lanes);
  if (status != COLL_OK) {
    rounds_free(&made);
    return status;
  }
  *rounds = made;
  return COLL_OK;
}

void rounds_free(rounds_t *rounds) {
  sim_close(&rounds->sim);
  free(rounds->done);
}
