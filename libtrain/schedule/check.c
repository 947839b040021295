/*
 * One walk over the actions of each stage checks what a stage can see alone: ranges, order, counts
 * and versions. Then the messages are run (channels.h), which checks order between stages.
 */
#include "libtrain/schedule/check.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "libtrain/schedule/channels.h"
#include "libtrain/schedule/formula.h"

enum { FORWARD_DONE = 1, INPUT_DONE = 2, WEIGHT_DONE = 4, ALL_DONE = 7 };

typedef struct walk {
  const train_schedule_t *schedule;
  int stage, version; /* of the weights: updates so far */
  uint8_t *done;      /* [total * chunks * slices], of the stage */
  int *begun, *ended; /* [total * chunks]: slices that have begun and ended */
  int64_t *applied;   /* [steps]: passes that have ended, per update */
  int *version_of;    /* [total]: of all passes of a micro-batch on any stage; -1 unknown */
  int live;           /* now */
  int *oldest;        /* [chunks]: micro-batches before it have ended */
  int *summing;       /* [chunks]: the micro-batch of the latest backward pass */
  train_stage_report_t report;
} walk_t;

static coll_status_t fail(const walk_t *walk, const train_action_t *action, const char *rule) {
  char text[TRAIN_ACTION_TEXT_BYTES];
  return base_fail(COLL_ERROR_INVALID, "stage %d: %s %s", walk->stage,
                   train_action_text(&walk->schedule->shape, action, text), rule);
}

/* ---- places in the tables ---- */

static size_t pair_of(const walk_t *walk, int micro_batch, int chunk) {
  return (size_t)micro_batch * (size_t)walk->schedule->shape.chunks + (size_t)chunk;
}

static uint8_t *done_of(const walk_t *walk, int micro_batch, int chunk, int slice) {
  return &walk->done[pair_of(walk, micro_batch, chunk) * (size_t)walk->schedule->shape.slices +
                     (size_t)slice];
}

/* ---- one action ---- */

static coll_status_t check_range(const walk_t *walk, const train_action_t *action) {
  const train_schedule_shape_t *shape = &walk->schedule->shape;
  bool is_in = (unsigned)action->kind < TRAIN_ACTION_KIND_COUNT && action->micro_batch >= 0 &&
               action->micro_batch < train_schedule_total(shape) && action->chunk >= 0 &&
               action->chunk < shape->chunks && action->slice >= 0 && action->slice < shape->slices;
  if (is_in) return COLL_OK;
  return base_fail(
      COLL_ERROR_INVALID,
      "stage %d: an action of kind %d on micro-batch %d, chunk %d, slice %d is outside "
      "the schedule of %d micro-batches, %d chunks and %d slices",
      walk->stage, (int)action->kind, (int)action->micro_batch, (int)action->chunk,
      (int)action->slice, train_schedule_total(shape), shape->chunks, shape->slices);
}

/* All passes of a micro-batch use one version, that exists when it is used. */
static coll_status_t check_version(walk_t *walk, const train_action_t *action) {
  int *version = &walk->version_of[action->micro_batch];
  if (action->version < 0 || action->version > walk->version) {
    return fail(walk, action, "uses weights of an update that has not been made yet");
  }
  if (*version >= 0 && *version != action->version) {
    return fail(walk, action,
                "uses another version of the weights than other passes of its micro-batch");
  }
  *version = action->version;
  return COLL_OK;
}

static void begin_slice(walk_t *walk, const train_action_t *action) {
  if (walk->begun[pair_of(walk, action->micro_batch, action->chunk)]++ > 0) return;
  int *oldest = &walk->oldest[action->chunk];
  int slices = walk->schedule->shape.slices;
  while (walk->ended[pair_of(walk, *oldest, action->chunk)] == slices) ++*oldest;
  int span = action->micro_batch - *oldest + 1;
  if (++walk->live > walk->report.live) walk->report.live = walk->live;
  if (span > walk->report.slots) walk->report.slots = span;
}

static void end_slice(walk_t *walk, const train_action_t *action) {
  const train_schedule_shape_t *shape = &walk->schedule->shape;
  int *ended = &walk->ended[pair_of(walk, action->micro_batch, action->chunk)];
  walk->applied[action->micro_batch / shape->micro_batches]++;
  if (++*ended == shape->slices) walk->live--;
}

static coll_status_t visit_forward(walk_t *walk, const train_action_t *action, uint8_t *done) {
  if (*done & FORWARD_DONE) return fail(walk, action, "comes twice");
  if (action->slice > 0 && !(done[-1] & FORWARD_DONE)) {
    return fail(walk, action, "comes before that of the slice before it");
  }
  *done |= FORWARD_DONE;
  begin_slice(walk, action);
  return COLL_OK;
}

/* Gradients of keys and values of all slices are summed in one place (model/slice_attention.h). */
static coll_status_t check_summing(walk_t *walk, const train_action_t *action) {
  const train_schedule_shape_t *shape = &walk->schedule->shape;
  int *summing = &walk->summing[action->chunk];
  bool begins = action->slice == shape->slices - 1;
  if (shape->slices > 1 && !begins && *summing != action->micro_batch) {
    return fail(walk, action, "comes after a backward pass of another micro-batch");
  }
  *summing = action->micro_batch;
  return COLL_OK;
}

/* Keys and values of a slice get gradients from all later slices. */
static coll_status_t visit_input(walk_t *walk, const train_action_t *action, uint8_t *done) {
  if (*done & INPUT_DONE) return fail(walk, action, "comes twice");
  if (!(*done & FORWARD_DONE)) return fail(walk, action, "comes before the forward pass");
  if (action->slice < walk->schedule->shape.slices - 1 && !(done[1] & INPUT_DONE)) {
    return fail(walk, action, "comes before that of the slice after it");
  }
  *done |= INPUT_DONE;
  return check_summing(walk, action);
}

static coll_status_t visit_weight(walk_t *walk, const train_action_t *action, uint8_t *done) {
  if (*done & WEIGHT_DONE) return fail(walk, action, "comes twice");
  if (!(*done & INPUT_DONE)) return fail(walk, action, "comes before the gradient of the input");
  *done |= WEIGHT_DONE;
  end_slice(walk, action);
  return COLL_OK;
}

static coll_status_t visit_update(walk_t *walk, const train_action_t *action) {
  const train_schedule_shape_t *shape = &walk->schedule->shape;
  int update = action->micro_batch / shape->micro_batches;
  bool is_last = (action->micro_batch + 1) % shape->micro_batches == 0;
  if (!is_last || action->chunk != 0 || action->slice != 0 || action->version != update + 1) {
    return fail(walk, action, "does not end a batch of micro-batches");
  }
  if (update != walk->version) return fail(walk, action, "is not the next update");
  int64_t passes = (int64_t)shape->micro_batches * shape->chunks * shape->slices;
  if (walk->applied[update] < passes) {
    return fail(walk, action, "comes before some of its gradients are there");
  }
  walk->version++;
  return COLL_OK;
}

static coll_status_t visit(walk_t *walk, const train_action_t *action) {
  COLL_TRY(check_range(walk, action));
  if (action->kind == TRAIN_UPDATE) return visit_update(walk, action);
  uint8_t *done = done_of(walk, action->micro_batch, action->chunk, action->slice);
  COLL_TRY(check_version(walk, action));
  switch (action->kind) {
    case TRAIN_FORWARD: return visit_forward(walk, action, done);
    case TRAIN_BACKWARD_INPUT: return visit_input(walk, action, done);
    case TRAIN_BACKWARD_WEIGHT: return visit_weight(walk, action, done);
    default: COLL_TRY(visit_input(walk, action, done)); return visit_weight(walk, action, done);
  }
}

/* ---- one stage ---- */

/* Every pass has run; names the first that has not. */
static coll_status_t check_complete(const walk_t *walk) {
  const train_schedule_shape_t *shape = &walk->schedule->shape;
  for (int i = 0; i < train_schedule_total(shape); i++) {
    for (int chunk = 0; chunk < shape->chunks; chunk++) {
      for (int slice = 0; slice < shape->slices; slice++) {
        uint8_t done = *done_of(walk, i, chunk, slice);
        if (done == ALL_DONE) continue;
        train_action_t missing = {.micro_batch = i, .chunk = chunk, .slice = slice};
        missing.kind = !(done & FORWARD_DONE) ? TRAIN_FORWARD
                       : !(done & INPUT_DONE) ? TRAIN_BACKWARD
                                              : TRAIN_BACKWARD_WEIGHT;
        return fail(walk, &missing, "is missing");
      }
    }
  }
  if (walk->version == shape->steps) return COLL_OK;
  int last = (walk->version + 1) * shape->micro_batches - 1;
  return fail(walk, &(train_action_t){.kind = TRAIN_UPDATE, .micro_batch = last}, "is missing");
}

/* Versions from the oldest that is still used to the newest. */
static void count_versions(walk_t *walk) {
  size_t count;
  const train_action_t *program = train_schedule_program(walk->schedule, walk->stage, &count);
  int newest = walk->version, oldest = walk->version;
  for (size_t i = count; i-- > 0;) {
    if (program[i].kind == TRAIN_UPDATE) {
      newest--;
    } else if (program[i].version < oldest) {
      oldest = program[i].version;
    }
    int held = newest - (oldest < newest ? oldest : newest) + 1;
    if (held > walk->report.versions) walk->report.versions = held;
  }
}

static coll_status_t check_stage(walk_t *walk, int stage) {
  const train_schedule_shape_t *shape = &walk->schedule->shape;
  size_t count, pairs = (size_t)train_schedule_total(shape) * (size_t)shape->chunks;
  const train_action_t *program = train_schedule_program(walk->schedule, stage, &count);
  walk->stage = stage;
  walk->version = walk->live = 0;
  walk->report = (train_stage_report_t){0};
  memset(walk->done, 0, pairs * (size_t)shape->slices);
  memset(walk->begun, 0, pairs * sizeof walk->begun[0]);
  memset(walk->ended, 0, pairs * sizeof walk->ended[0]);
  memset(walk->applied, 0, (size_t)shape->steps * sizeof walk->applied[0]);
  memset(walk->oldest, 0, (size_t)shape->chunks * sizeof walk->oldest[0]);
  memset(walk->summing, -1, (size_t)shape->chunks * sizeof walk->summing[0]);
  for (size_t i = 0; i < count; i++) COLL_TRY(visit(walk, &program[i]));
  COLL_TRY(check_complete(walk));
  count_versions(walk);
  int limit = train_schedule_live_limit(shape, stage);
  if (walk->report.live <= limit) return COLL_OK;
  return base_fail(
      COLL_ERROR_INVALID,
      "stage %d holds the activations of %d micro-batches at a time; schedule %s needs "
      "at most %d there",
      stage, walk->report.live, train_schedule_names[shape->kind], limit);
}

/* ---- all stages ---- */

static coll_status_t check_staleness(const walk_t *walk, int *staleness) {
  const train_schedule_shape_t *shape = &walk->schedule->shape;
  int limit = train_schedule_staleness_limit(shape);
  *staleness = 0;
  for (int i = 0; i < train_schedule_total(shape); i++) {
    int stale = i / shape->micro_batches - walk->version_of[i];
    if (stale > *staleness) *staleness = stale;
    if (stale <= limit) continue;
    return base_fail(COLL_ERROR_INVALID,
                     "micro-batch %d uses weights that are %d updates old; with schedule %s they "
                     "are at most %d",
                     i, stale, train_schedule_names[shape->kind], limit);
  }
  return COLL_OK;
}

static coll_status_t allocate(walk_t *walk, train_schedule_report_t *report) {
  const train_schedule_shape_t *shape = &walk->schedule->shape;
  size_t total = (size_t)train_schedule_total(shape), pairs = total * (size_t)shape->chunks;
  static const char what[] = "the check of a schedule";
  COLL_TRY(base_alloc(pairs * (size_t)shape->slices, 1, what, (void **)&walk->done));
  COLL_TRY(base_alloc(pairs, sizeof *walk->begun, what, (void **)&walk->begun));
  COLL_TRY(base_alloc(pairs, sizeof *walk->ended, what, (void **)&walk->ended));
  COLL_TRY(base_alloc((size_t)shape->steps, sizeof *walk->applied, what, (void **)&walk->applied));
  COLL_TRY(base_alloc((size_t)shape->chunks, sizeof *walk->oldest, what, (void **)&walk->oldest));
  COLL_TRY(base_alloc((size_t)shape->chunks, sizeof *walk->summing, what, (void **)&walk->summing));
  COLL_TRY(base_alloc(total, sizeof *walk->version_of, what, (void **)&walk->version_of));
  COLL_TRY(
      base_alloc((size_t)shape->stages, sizeof *report->stages, what, (void **)&report->stages));
  memset(walk->version_of, -1, total * sizeof walk->version_of[0]);
  return COLL_OK;
}

static coll_status_t check(walk_t *walk, train_schedule_report_t *report) {
  COLL_TRY(allocate(walk, report));
  for (int stage = 0; stage < walk->schedule->shape.stages; stage++) {
    COLL_TRY(check_stage(walk, stage));
    report->stages[stage] = walk->report;
  }
  COLL_TRY(check_staleness(walk, &report->staleness));
  return train_channels_check(walk->schedule, &report->window);
}

coll_status_t train_schedule_check(const train_schedule_t *schedule,
                                   train_schedule_report_t *report) {
  walk_t walk = {.schedule = schedule};
  *report = (train_schedule_report_t){0};
  coll_status_t status = check(&walk, report);
  free(walk.done);
  free(walk.begun);
  free(walk.ended);
  free(walk.applied);
  free(walk.oldest);
  free(walk.summing);
  free(walk.version_of);
  if (status != COLL_OK) train_schedule_report_free(report);
  return status;
}

void train_schedule_report_free(train_schedule_report_t *report) {
  free(report->stages);
  report->stages = NULL;
}
