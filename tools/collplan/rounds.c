/* Runs every lane as far as it can go, in turn. */
#include "tools/collplan/rounds.h"

#include <stdlib.h>

#include "base/memory.h"

typedef struct lane_clock {
  size_t next;       /* step */
  int64_t ready;     /* when its last receive or wait was complete */
  int64_t send_free; /* when the ports are free */
  int64_t recv_free;
} lane_clock_t;

typedef struct clocks {
  const timeline_t *timeline;
  lane_clock_t *lanes;
  int64_t *done; /* [steps]: a send's or signal's arrival; for others, the lane's `ready` */
} clocks_t;

static int64_t later(int64_t a, int64_t b) {
  return a > b ? a : b;
}

/* The step that step `number` has to wait for, or TIMELINE_NONE. */
static int64_t awaited(const timeline_t *timeline, size_t number) {
  const timeline_step_t *step = &timeline->steps[number];
  if (step->step->kind == PLAN_RECV || step->step->kind == PLAN_WAIT) return step->partner;
  if (step->step->kind != PLAN_AFTER) return TIMELINE_NONE;
  int32_t lane = step->rank * timeline->plan->lanes + step->step->after.lane;
  return (int64_t)timeline->first[lane] + step->step->after.step;
}

static bool try_step(clocks_t *clocks, lane_clock_t *lane) {
  size_t number = lane->next;
  int64_t other = awaited(clocks->timeline, number);
  if (other != TIMELINE_NONE && clocks->done[other] == TIMELINE_NONE) return false;
  switch (clocks->timeline->steps[number].step->kind) {
    case PLAN_SEND:
      clocks->done[number] = lane->send_free = later(lane->send_free, lane->ready) + 1;
      break;
    case PLAN_RECV:
      lane->recv_free = later(clocks->done[other], lane->recv_free + 1);
      clocks->done[number] = lane->ready = lane->recv_free;
      break;
    case PLAN_SIGNAL: clocks->done[number] = lane->ready + 1; break;
    case PLAN_WAIT:
    case PLAN_AFTER:
      clocks->done[number] = lane->ready = later(lane->ready, clocks->done[other]);
      break;
    default: clocks->done[number] = lane->ready; break;
  }
  lane->next++;
  return true;
}

static int64_t run(clocks_t *clocks) {
  const timeline_t *timeline = clocks->timeline;
  size_t lanes = (size_t)(timeline->plan->shape.size * timeline->plan->lanes);
  int64_t last = 0;
  for (size_t i = 0; i < timeline->count; i++) clocks->done[i] = TIMELINE_NONE;
  for (size_t i = 0; i < lanes; i++) clocks->lanes[i].next = timeline->first[i];
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t i = 0; i < lanes; i++) {
      lane_clock_t *lane = &clocks->lanes[i];
      while (lane->next < timeline->first[i + 1] && try_step(clocks, lane)) moved = true;
      last = later(last, lane->ready);
    }
  }
  return last;
}

coll_status_t rounds_create(const plan_t *plan, rounds_t *rounds) {
  rounds_t made = {0};
  size_t lanes = (size_t)(plan->shape.size * plan->lanes);
  COLL_TRY(timeline_create(plan, (timeline_cost_t){.step = 0, .hop = 1}, &made.timeline));
  clocks_t clocks = {.timeline = &made.timeline};
  coll_status_t status = base_alloc(lanes, sizeof *clocks.lanes, "rounds", (void **)&clocks.lanes);
  if (status == COLL_OK) {
    status = base_alloc(made.timeline.count + 1, sizeof *made.done, "rounds", (void **)&made.done);
  }
  if (status == COLL_OK) {
    clocks.done = made.done;
    made.last = run(&clocks);
  }
  free(clocks.lanes);
  if (status != COLL_OK) {
    rounds_free(&made);
    return status;
  }
  *rounds = made;
  return COLL_OK;
}

void rounds_free(rounds_t *rounds) {
  timeline_free(&rounds->timeline);
  free(rounds->done);
}
