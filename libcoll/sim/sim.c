/* Cursors of lanes, and whether they may move. */
#include "sim/sim.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/names.h"
#include "sim/match.h"

/* ---- whether a step may run -----------------------------------------------------------------*/

/* No lane is ahead of its rank's pass nor, where ranks exchange addresses, of all ranks' pass: the
 * number of steps done says how many passes have ended. */
static bool pass_may_begin(const sim_t *sim, int32_t rank, size_t pass) {
  if (sim->exchanges) return sim->done >= pass * sim->count;
  size_t first = sim->first[sim_rank_lane(sim, rank, 0)];
  size_t end = sim->first[sim_rank_lane(sim, rank + 1, 0)];
  return sim->rank_done[rank] >= pass * (end - first);
}

/* Depth 0: a send needs its receive only to be next. */
static bool meets(const sim_t *sim, size_t lane, size_t index) {
  return sim->depth == 0 && sim_plan_lane(sim, lane)->steps[index].kind == PLAN_SEND;
}

static sim_state_t state_of(const sim_t *sim, size_t lane) {
  const sim_cursor_t *cursor = &sim->cursors[lane];
  if (cursor->pass == sim->passes) return SIM_ENDED;
  if (cursor->index == 0 && cursor->pass > 0 && !pass_may_begin(sim, cursor->rank, cursor->pass)) {
    return SIM_AWAITS_PASS;
  }
  const sim_link_t *link = &sim->links[sim->first[lane] + cursor->index];
  if (link->awaited == SIM_NONE || link->lag > cursor->pass) return SIM_READY;
  if (link->awaited == SIM_NEVER) return SIM_AWAITS_STEP;
  const sim_cursor_t *other = &sim->cursors[link->awaited_lane];
  size_t pass = cursor->pass - link->lag, index = link->awaited_index;
  bool is_done = other->pass > pass || (other->pass == pass && other->index > index);
  bool is_next = other->pass == pass && other->index == index;
  return is_done || (is_next && meets(sim, lane, cursor->index)) ? SIM_READY : SIM_AWAITS_STEP;
}

static size_t awaited_number(const sim_t *sim, const sim_link_t *link, size_t pass) {
  if (link->awaited == SIM_NEVER) return SIM_NEVER;
  if (link->awaited == SIM_NONE || link->lag > pass) return SIM_NONE;
  return (pass - link->lag) * sim->count + link->awaited;
}

static sim_step_t step_of(const sim_t *sim, size_t lane) {
  const sim_cursor_t *cursor = &sim->cursors[lane];
  int32_t rank = cursor->rank, rank_lane = (int32_t)(lane - sim_rank_lane(sim, rank, 0));
  size_t number = sim->first[lane] + cursor->index;
  const sim_link_t *link = &sim->links[number];
  return (sim_step_t){.step = &sim->plan->programs[rank].lanes[rank_lane].steps[cursor->index],
                      .link = link,
                      .rank = rank,
                      .lane = rank_lane,
                      .pass = cursor->pass,
                      .index = cursor->index,
                      .number = cursor->pass * sim->count + number,
                      .awaited = awaited_number(sim, link, cursor->pass)};
}

sim_state_t sim_look(const sim_t *sim, size_t lane, sim_step_t *at) {
  sim_state_t state = state_of(sim, lane);
  if (state != SIM_ENDED) *at = step_of(sim, lane);
  return state;
}

/* ---- a run ----------------------------------------------------------------------------------*/

void sim_begin(sim_t *sim, size_t passes, bool exchanges) {
  sim->passes = passes;
  sim->exchanges = exchanges;
  sim->done = 0;
  memset(sim->rank_done, 0, (size_t)sim->plan->shape.size * sizeof *sim->rank_done);
  for (size_t lane = 0; lane < sim->lanes; lane++) {
    sim_cursor_t *cursor = &sim->cursors[lane];
    cursor->pass = sim_lane_steps(sim, lane) > 0 ? 0 : passes;
    cursor->index = 0;
  }
}

void sim_advance(sim_t *sim, size_t lane) {
  sim_cursor_t *cursor = &sim->cursors[lane];
  if (++cursor->index == sim_lane_steps(sim, lane)) {
    cursor->index = 0;
    cursor->pass++;
  }
  sim->rank_done[cursor->rank]++;
  sim->done++;
}

bool sim_run_lane(sim_t *sim, size_t lane, sim_take_t *take, void *context) {
  bool moved = false;
  for (; state_of(sim, lane) == SIM_READY; moved = true) {
    if (take != NULL) {
      const sim_step_t at = step_of(sim, lane);
      take(context, &at);
    }
    sim_advance(sim, lane);
  }
  return moved;
}

void sim_run(sim_t *sim, sim_take_t *take, void *context) {
  for (bool moved = true; moved && !sim_has_ended(sim);) {
    moved = false;
    for (size_t lane = 0; lane < sim->lanes; lane++) {
      moved = sim_run_lane(sim, lane, take, context) || moved;
    }
  }
}

coll_status_t sim_check_ended(const sim_t *sim) {
  if (sim_has_ended(sim)) return COLL_OK;
  return base_fail(COLL_ERROR_INTERNAL, "plan %s of %s deadlocks", sim->plan->algorithm,
                   base_collective_name(sim->plan->shape.collective));
}

/* ---- creation -------------------------------------------------------------------------------*/

coll_status_t sim_open(const plan_t *plan, size_t depth, sim_t *sim) {
  static const char what[] = "a simulation";
  size_t ranks = (size_t)plan->shape.size;
  *sim = (sim_t){.plan = plan, .depth = depth, .lanes = ranks * (size_t)plan->lanes};
  COLL_TRY(base_alloc(sim->lanes + 1, sizeof *sim->first, what, (void **)&sim->first));
  COLL_TRY(base_alloc(sim->lanes, sizeof *sim->cursors, what, (void **)&sim->cursors));
  for (size_t lane = 0; lane < sim->lanes; lane++) {
    sim->first[lane + 1] = sim->first[lane] + sim_plan_lane(sim, lane)->count;
    sim->cursors[lane].rank = (int32_t)(lane / (size_t)plan->lanes);
  }
  sim->count = sim->first[sim->lanes];
  COLL_TRY(base_alloc(sim->count + 1, sizeof *sim->links, what, (void **)&sim->links));
  COLL_TRY(base_alloc(ranks, sizeof *sim->rank_done, what, (void **)&sim->rank_done));
  return sim_match(sim);
}

void sim_close(sim_t *sim) {
  free(sim->rank_done);
  free(sim->cursors);
  free(sim->links);
  free(sim->first);
}
