/* Runs a plan whose FIFOs are as deep as it says. */
#include "tools/collplan/timeline.h"

#include <stdlib.h>

#include "base/alloc.h"

typedef struct clocks {
  timeline_t *timeline;
  timeline_cost_t cost;
  sim_t sim;
} clocks_t;

static int64_t later(int64_t a, int64_t b) {
  return a > b ? a : b;
}

/* When the step before this one in its lane has ended. */
static int64_t end_before(const clocks_t *clocks, size_t number) {
  bool is_first = number == clocks->sim.first[clocks->sim.links[number].lane];
  return is_first ? 0 : clocks->timeline->steps[number - 1].end;
}

/* When what the step waits for is there. Depth 0: a send and its receive start when both ranks have
 * come to them. */
static int64_t arrival(const clocks_t *clocks, const sim_step_t *at) {
  const timeline_step_t *awaited = &clocks->timeline->steps[at->awaited];
  bool meets = clocks->sim.depth == 0;
  switch (at->step->kind) {
    case PLAN_SEND: return meets ? end_before(clocks, at->awaited) : awaited->end;
    case PLAN_RECV: return (meets ? awaited->start : awaited->end) + clocks->cost.hop;
    case PLAN_WAIT: return awaited->end + clocks->cost.hop;
    default: return awaited->end;
  }
}

static void take_step(void *context, const sim_step_t *at) {
  clocks_t *clocks = context;
  timeline_t *timeline = clocks->timeline;
  int64_t start = end_before(clocks, at->number);
  if (at->awaited != SIM_NONE) start = later(start, arrival(clocks, at));
  timeline->steps[at->number] = (timeline_step_t){.step = at->step,
                                                  .rank = at->rank,
                                                  .lane = at->lane,
                                                  .index = (int32_t)at->index,
                                                  .start = start,
                                                  .end = start + clocks->cost.step,
                                                  .partner = at->link->partner};
  timeline->end = later(timeline->end, start + clocks->cost.step);
}

coll_status_t timeline_run(sim_t *sim, sim_take_t *take, void *context) {
  sim_begin(sim, 1, false);
  sim_run(sim, take, context);
  if (sim_has_ended(sim)) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID,
                   "the plan deadlocks after %zu of its %zu steps; collplan verify says where",
                   sim->done, sim->count);
}

static coll_status_t run(clocks_t *clocks) {
  timeline_t *timeline = clocks->timeline;
  COLL_TRY(sim_open(timeline->plan, (size_t)timeline->plan->depth, &clocks->sim));
  timeline->count = clocks->sim.count;
  COLL_TRY(base_alloc(timeline->count, sizeof *timeline->steps, "a timeline",
                      (void **)&timeline->steps));
  return timeline_run(&clocks->sim, take_step, clocks);
}

coll_status_t timeline_create(const plan_t *plan, timeline_cost_t cost, timeline_t *timeline) {
  timeline_t made = {.plan = plan};
  clocks_t clocks = {.timeline = &made, .cost = cost};
  coll_status_t status = run(&clocks);
  sim_close(&clocks.sim);
  if (status != COLL_OK) {
    timeline_free(&made);
    return status;
  }
  *timeline = made;
  return COLL_OK;
}

void timeline_free(timeline_t *timeline) {
  free(timeline->steps);
}
