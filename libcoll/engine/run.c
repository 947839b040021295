/* Each lane has a cursor; a step either completes or leaves everything as it was. */
#include "engine/run.h"

#include <assert.h>
#include <string.h>

#include "engine/compute.h"
#include "engine/tag.h"

#define GRAIN_BYTES 64 /* chunks begin on cache lines where a buffer does */

/* Most elements of a chunk that every message and the scratch arena have room for. */
static size_t part_most(const engine_world_t *world, const plan_t *plan, size_t element_bytes) {
  size_t most = SIZE_MAX;
  if (plan->message_chunks > 0) {
    most = world->slot_bytes / (size_t)plan->message_chunks / element_bytes;
  }
  if (plan->scratch_chunks > 0) {
    size_t in_scratch = world->scratch_bytes / (size_t)plan->scratch_chunks / element_bytes;
    if (in_scratch < most) most = in_scratch;
  }
  return most;
}

bool engine_run_fits(const engine_world_t *world, const plan_t *plan, size_t element_bytes) {
  return part_most(world, plan, element_bytes) > 0;
}

static void begin_pass(engine_run_t *run, size_t first) {
  engine_pass_t *pass = &run->place.pass;
  size_t left = run->place.call->count - first;
  pass->first = first;
  pass->count = left < run->pass_most ? left : run->pass_most;
  memset(run->next, 0, sizeof run->next);
  for (int lane = 0; lane < PLAN_LANES_MAX; lane++) run->messages[lane].resolved = false;
}

void engine_run_begin(engine_run_t *run, const engine_world_t *world, const plan_t *plan,
                      const plan_program_t *program, const engine_call_t *call) {
  size_t most = part_most(world, plan, call->element_bytes);
  size_t grain = GRAIN_BYTES / call->element_bytes;
  assert(most > 0);
  if (most >= grain) {
    most -= most == SIZE_MAX ? 0 : most % grain;
  } else {
    grain = 1;
  }
  run->place =
      (engine_place_t){.world = world, .plan = plan, .call = call, .pass = {.grain = grain}};
  run->program = program;
  run->pass_most = most > SIZE_MAX / (size_t)plan->parts ? SIZE_MAX : most * (size_t)plan->parts;
  run->opening = true;
  begin_pass(run, 0);
}

static coll_status_t do_wait(const engine_run_t *run, const plan_step_t *step, int lane,
                             bool *done) {
  const engine_place_t *place = &run->place;
  int peer = step->wait.peer;
  transport_t *route = place->world->routes[peer];
  uint64_t tag = 0;
  COLL_TRY(route->ops->wait(route, peer, place->call->channel + lane, &tag, done));
  if (*done && tag != 0 && tag != place->call->tag) {
    return engine_tag_mismatch(place->world->rank, place->call->tag, peer, tag);
  }
  return COLL_OK;
}

/* *steps: how many were done, from this one on; 0 when its peer is not ready. */
static coll_status_t do_step(engine_run_t *run, int lane, size_t *steps) {
  const engine_place_t *place = &run->place;
  const plan_lane_t *program = &run->program->lanes[lane];
  const plan_step_t *step = &program->steps[run->next[lane]];
  coll_status_t status = COLL_OK;
  bool done = true;
  *steps = 0;
  switch (step->kind) {
    case PLAN_COPY: status = engine_compute_copy(place, step); break;
    case PLAN_REDUCE:
      return engine_compute_reduce(place, run->program, program, run->next[lane], steps);
    case PLAN_SEND:
    case PLAN_RECV:
      status = engine_message_move(&run->messages[lane], place, step, lane, run->opening, &done);
      break;
    case PLAN_WAIT: status = do_wait(run, step, lane, &done); break;
    case PLAN_SIGNAL: {
      transport_t *route = place->world->routes[step->signal.peer];
      status = route->ops->signal(route, step->signal.peer, place->call->channel + lane,
                                  place->call->tag);
      break;
    }
    case PLAN_AFTER: done = run->next[step->after.lane] > (size_t)step->after.step; break;
    case PLAN_STEP_KIND_COUNT:
      return base_fail(COLL_ERROR_INTERNAL, "plan %s holds a step of unknown kind",
                       place->plan->algorithm);
  }
  *steps = done ? 1 : 0;
  return status;
}

/* One sweep: every lane as far as it goes. */
static coll_status_t sweep(engine_run_t *run, bool *moved, bool *pass_done) {
  *pass_done = true;
  for (int lane = 0; lane < run->place.plan->lanes; lane++) {
    size_t count = run->program->lanes[lane].count, steps = 1;
    while (run->next[lane] < count && steps > 0) {
      COLL_TRY(do_step(run, lane, &steps));
      run->next[lane] += steps;
      if (steps > 0) run->messages[lane].resolved = false;
      *moved = *moved || steps > 0;
    }
    *pass_done = *pass_done && run->next[lane] == count;
  }
  return COLL_OK;
}

coll_status_t engine_run_advance(engine_run_t *run, bool *moved, bool *done) {
  const engine_pass_t *pass = &run->place.pass;
  *moved = false;
  *done = false;
  for (;;) {
    bool pass_done, swept = false;
    COLL_TRY(sweep(run, &swept, &pass_done));
    *moved = *moved || swept || pass_done;
    if (pass_done && pass->first + pass->count >= run->place.call->count) {
      *done = true;
      return COLL_OK;
    }
    if (pass_done) {
      begin_pass(run, pass->first + pass->count);
      run->opening = false;
    } else if (!swept) {
      return COLL_OK;
    }
  }
}

int engine_run_waits_for(const engine_run_t *run, int peers[PLAN_LANES_MAX]) {
  int count = 0;
  for (int lane = 0; lane < run->place.plan->lanes; lane++) {
    const plan_lane_t *steps = &run->program->lanes[lane];
    if (run->next[lane] >= steps->count) continue;
    const plan_step_t *step = &steps->steps[run->next[lane]];
    switch (step->kind) {
      case PLAN_SEND: peers[count++] = step->send.peer; break;
      case PLAN_RECV: peers[count++] = step->recv.peer; break;
      case PLAN_WAIT: peers[count++] = step->wait.peer; break;
      default: break;
    }
  }
  return count;
}
