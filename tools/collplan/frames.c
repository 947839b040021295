/* Adds up the spans that move, along the paths of the fabric. */
#include "tools/collplan/frames.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "plan/transfers.h"
#include "tools/collplan/rounds.h"

typedef struct counter {
  const plan_t *plan;
  topo_fabric_t *fabric;
  frames_t *frames;
  double chunk;  /* in sizes of the largest buffer */
  int64_t round; /* of the step that is visited, from 1 on */
} counter_t;

static coll_status_t count(void *context, const plan_transfer_t *transfer) {
  const counter_t *counter = context;
  const int32_t *wires;
  int32_t hops;
  COLL_TRY(topo_fabric_path(counter->fabric, transfer->from, transfer->to, &wires, &hops));
  double *load = &counter->frames->load[(counter->round - 1) * counter->frames->wires];
  for (int32_t i = 0; i < hops; i++) load[wires[i]] += transfer->chunks * counter->chunk;
  return COLL_OK;
}

/* GB/s of a wire. */
static double rate_of(const frames_t *frames, int32_t wire) {
  return 1024e3 / (double)topo_fabric_wire(frames->fabric, wire).kib_ps;
}

static void find_busiest(frames_t *frames) {
  int32_t used = 0;
  for (int32_t round = 0; round < frames->count; round++) {
    double most = 0;
    for (int32_t wire = 0; wire < frames->wires; wire++) {
      double time = frames->load[round * frames->wires + wire] / rate_of(frames, wire);
      most = time > most ? time : most;
    }
    frames->total += most;
    frames->busiest = most > frames->busiest ? most : frames->busiest;
    if (most > 0) used = round + 1;
  }
  frames->count = used;
}

static coll_status_t fill(counter_t *counter, const rounds_t *rounds) {
  const sim_t *sim = &rounds->sim;
  for (size_t i = 0; i < sim->count; i++) {
    const plan_step_t *step = sim_plan_step(sim, i);
    counter->round = rounds->done[i] + (step->kind != PLAN_SEND);
    COLL_TRY(plan_visit_step(counter->plan, sim_rank_of(sim, i), step, count, counter));
  }
  return COLL_OK;
}

coll_status_t frames_create(const plan_t *plan, topo_fabric_t *fabric, frames_t *frames) {
  rounds_t rounds;
  *frames = (frames_t){.fabric = fabric, .wires = topo_fabric_wire_count(fabric)};
  COLL_TRY(rounds_create(plan, &rounds));
  frames->count = (int32_t)rounds.last + 1; /* loads may follow the last receive */
  size_t cells = (size_t)frames->count * (size_t)(frames->wires + 1);
  int32_t chunks = plan_chunks_max(plan);
  counter_t counter = {
      .plan = plan, .fabric = fabric, .frames = frames, .chunk = 1.0 / (chunks > 0 ? chunks : 1)};
  coll_status_t status =
      base_alloc(cells, sizeof *frames->load, "a picture", (void **)&frames->load);
  if (status == COLL_OK) status = fill(&counter, &rounds);
  rounds_free(&rounds);
  if (status != COLL_OK) {
    frames_free(frames);
    return status;
  }
  find_busiest(frames);
  return COLL_OK;
}

void frames_free(frames_t *frames) {
  free(frames->load);
  frames->load = NULL;
}

double frames_total(const frames_t *frames, int32_t round, topo_class_t link_class) {
  double total = 0;
  int32_t first = round < 0 ? 0 : round, last = round < 0 ? frames->count - 1 : round;
  for (int32_t r = first; r <= last; r++) {
    for (int32_t wire = 0; wire < frames->wires; wire++) {
      if (topo_fabric_wire(frames->fabric, wire).link_class != link_class) continue;
      total += frames->load[r * frames->wires + wire];
    }
  }
  return total;
}
