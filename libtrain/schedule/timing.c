/* The stages advance in turn as far as the messages that they need have been sent. */
#include "libtrain/schedule/timing.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"

typedef struct simulation {
  const train_schedule_t *schedule;
  const train_schedule_costs_t *costs;
  train_timing_t *timing;
  double *sent[TRAIN_PAYLOAD_COUNT]; /* [virtual stages * micro-batches * slices]: the time at which
                                      * the message for it leaves; NAN: not yet */
  size_t *next;                      /* [stages]: action */
  double *now;                       /* [stages]: end of the action before */
} simulation_t;

static double duration_of(const simulation_t *simulation, int stage, const train_action_t *action) {
  const train_schedule_costs_t *costs = simulation->costs;
  const train_schedule_shape_t *shape = &simulation->schedule->shape;
  int virtual_stage = action->chunk * shape->stages + stage;
  double part = costs->virtual_stage_parts != NULL ? costs->virtual_stage_parts[virtual_stage]
                                                   : 1.0 / shape->chunks;
  part *= costs->slice_parts != NULL ? costs->slice_parts[action->slice] : 1.0 / shape->slices;
  switch (action->kind) {
    case TRAIN_FORWARD: return costs->forward * part;
    case TRAIN_BACKWARD: return (costs->input + costs->weight) * part;
    case TRAIN_BACKWARD_INPUT: return costs->input * part;
    case TRAIN_BACKWARD_WEIGHT: return costs->weight * part;
    default: return costs->update;
  }
}

static double *sent_at(const simulation_t *simulation, const train_message_t *message) {
  const train_schedule_shape_t *shape = &simulation->schedule->shape;
  size_t total = (size_t)train_schedule_total(shape), slices = (size_t)shape->slices;
  size_t at = (size_t)message->virtual_stage * total + (size_t)message->micro_batch;
  return &simulation->sent[message->payload][at * slices + (size_t)message->slice];
}

/* False: the stage has ended, or a message is not sent yet. */
static bool advance(simulation_t *simulation, int stage) {
  const train_schedule_t *schedule = simulation->schedule;
  size_t at = schedule->first[stage] + simulation->next[stage];
  if (at == schedule->first[stage + 1]) return false;
  const train_action_t *action = &schedule->actions[at];
  train_message_t message;
  double start = simulation->now[stage];
  if (train_action_receives(&schedule->shape, stage, action, &message)) {
    double sent = *sent_at(simulation, &message);
    if (isnan(sent)) return false;
    double latency = message.from == message.to ? 0 : simulation->costs->latency;
    start = fmax(start, sent + latency);
  }
  double duration = duration_of(simulation, stage, action), end = start + duration;
  if (train_action_sends(&schedule->shape, stage, action, &message)) {
    *sent_at(simulation, &message) = end;
  }
  simulation->timing->spans[at] = (train_span_t){start, end};
  simulation->timing->busy[stage] += duration;
  simulation->now[stage] = end;
  simulation->next[stage]++;
  return true;
}

static coll_status_t run(simulation_t *simulation) {
  const train_schedule_t *schedule = simulation->schedule;
  int stages = schedule->shape.stages;
  for (bool any = true; any;) {
    any = false;
    for (int stage = 0; stage < stages; stage++) {
      while (advance(simulation, stage)) any = true;
    }
  }
  train_timing_t *timing = simulation->timing;
  double busy = 0;
  for (int stage = 0; stage < stages; stage++) {
    if (schedule->first[stage] + simulation->next[stage] < schedule->first[stage + 1]) {
      return base_fail(COLL_ERROR_INVALID,
                       "stage %d waits for a message for ever: the schedule has no time", stage);
    }
    timing->end = fmax(timing->end, simulation->now[stage]);
    busy += timing->busy[stage];
  }
  timing->bubble = timing->end > 0 ? fmax(1 - busy / (stages * timing->end), 0) : 0;
  return COLL_OK;
}

static coll_status_t allocate(simulation_t *simulation) {
  const train_schedule_shape_t *shape = &simulation->schedule->shape;
  size_t stages = (size_t)shape->stages;
  size_t messages =
      stages * (size_t)shape->chunks * (size_t)train_schedule_total(shape) * (size_t)shape->slices;
  train_timing_t *timing = simulation->timing;
  static const char what[] = "the timing of a schedule";
  COLL_TRY(base_alloc(simulation->schedule->first[stages], sizeof *timing->spans, what,
                      (void **)&timing->spans));
  COLL_TRY(base_alloc(stages, sizeof(double), what, (void **)&timing->busy));
  COLL_TRY(base_alloc(stages, sizeof(size_t), what, (void **)&simulation->next));
  COLL_TRY(base_alloc(stages, sizeof(double), what, (void **)&simulation->now));
  for (int payload = 0; payload < TRAIN_PAYLOAD_COUNT; payload++) {
    double **sent = &simulation->sent[payload];
    COLL_TRY(base_alloc(messages, sizeof **sent, what, (void **)sent));
    for (size_t i = 0; i < messages; i++) (*sent)[i] = NAN;
  }
  return COLL_OK;
}

coll_status_t train_schedule_time(const train_schedule_t *schedule,
                                  const train_schedule_costs_t *costs, train_timing_t *timing) {
  simulation_t simulation = {.schedule = schedule, .costs = costs, .timing = timing};
  *timing = (train_timing_t){0};
  coll_status_t status = allocate(&simulation);
  if (status == COLL_OK) status = run(&simulation);
  for (int payload = 0; payload < TRAIN_PAYLOAD_COUNT; payload++) free(simulation.sent[payload]);
  free(simulation.next);
  free(simulation.now);
  if (status != COLL_OK) train_timing_free(timing);
  return status;
}

void train_timing_free(train_timing_t *timing) {
  free(timing->spans);
  free(timing->busy);
  *timing = (train_timing_t){0};
}
