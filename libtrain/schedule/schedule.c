/* The table of kinds, memory of schedules, and messages of actions. */
#include "libtrain/schedule/schedule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "libtrain/schedule/builders.h"

typedef struct kind_row {
  train_build_t *build;
  train_accept_t *accept; /* NULL: every shape */
  bool asynchronous;      /* its updates do not wait until the pipeline is empty */
  bool splits_backward;
  bool has_chunks, has_slices; /* more than one */
} kind_row_t;

static const kind_row_t kinds[TRAIN_SCHEDULE_KIND_COUNT] = {
    [TRAIN_SCHEDULE_NAIVE] = {.build = train_build_naive},
    [TRAIN_SCHEDULE_GPIPE] = {.build = train_build_gpipe},
    [TRAIN_SCHEDULE_1F1B] = {.build = train_build_1f1b},
    [TRAIN_SCHEDULE_INTERLEAVED] = {.build = train_build_interleaved,
                                    .accept = train_accept_interleaved,
                                    .has_chunks = true},
    [TRAIN_SCHEDULE_ZB_H1] = {.build = train_build_zb_h1, .splits_backward = true},
    [TRAIN_SCHEDULE_PIPEDREAM] = {.build = train_build_pipedream, .asynchronous = true},
    [TRAIN_SCHEDULE_PIPEDREAM_2BW] = {.build = train_build_pipedream_2bw, .asynchronous = true},
    [TRAIN_SCHEDULE_TERAPIPE] = {.build = train_build_terapipe, .has_slices = true},
};

const char *const train_schedule_names[TRAIN_SCHEDULE_KIND_COUNT + 1] = {
    [TRAIN_SCHEDULE_NAIVE] = "naive",
    [TRAIN_SCHEDULE_GPIPE] = "gpipe",
    [TRAIN_SCHEDULE_1F1B] = "1f1b",
    [TRAIN_SCHEDULE_INTERLEAVED] = "interleaved",
    [TRAIN_SCHEDULE_ZB_H1] = "zb-h1",
    [TRAIN_SCHEDULE_PIPEDREAM] = "pipedream",
    [TRAIN_SCHEDULE_PIPEDREAM_2BW] = "pipedream-2bw",
    [TRAIN_SCHEDULE_TERAPIPE] = "terapipe",
};

bool train_schedule_is_asynchronous(train_schedule_kind_t kind) {
  return kinds[kind].asynchronous;
}

/* ---- shapes ---- */

static coll_status_t check_range(const char *what, int value, int limit) {
  if (value >= 1 && value <= limit) return COLL_OK;
  return base_fail(COLL_ERROR_INVALID, "a schedule has 1 to %d %s, not %d", limit, what, value);
}

static coll_status_t check_shape(const train_schedule_shape_t *shape) {
  const kind_row_t *kind = &kinds[shape->kind];
  COLL_TRY(check_range("stages", shape->stages, TRAIN_SCHEDULE_MAX_STAGES));
  COLL_TRY(check_range("virtual stages per stage", shape->chunks, TRAIN_SCHEDULE_MAX_CHUNKS));
  COLL_TRY(check_range("token slices", shape->slices, TRAIN_SCHEDULE_MAX_SLICES));
  COLL_TRY(check_range("micro-batches", shape->micro_batches, 1 << 24));
  COLL_TRY(check_range("updates", shape->steps, 1 << 24));
  if (shape->chunks > 1 && !kind->has_chunks) {
    return base_fail(COLL_ERROR_INVALID,
                     "schedule %s has one virtual stage per stage, not %d; use interleaved",
                     train_schedule_names[shape->kind], shape->chunks);
  }
  if (shape->slices > 1 && !kind->has_slices) {
    return base_fail(COLL_ERROR_INVALID,
                     "schedule %s does not cut sequences into slices (%d); use terapipe",
                     train_schedule_names[shape->kind], shape->slices);
  }
  int64_t actions = (int64_t)shape->micro_batches * shape->steps;
  if (actions <= TRAIN_SCHEDULE_MAX_ACTIONS) actions *= (int64_t)shape->chunks * shape->slices;
  if (actions <= TRAIN_SCHEDULE_MAX_ACTIONS) actions *= 3 * (int64_t)shape->stages;
  if (actions > TRAIN_SCHEDULE_MAX_ACTIONS) {
    return base_fail(COLL_ERROR_INVALID,
                     "a schedule of %d stages, %d x %d micro-batches, %d virtual stages and %d "
                     "slices has more than 2^26 actions",
                     shape->stages, shape->steps, shape->micro_batches, shape->chunks,
                     shape->slices);
  }
  return kind->accept != NULL ? kind->accept(shape) : COLL_OK;
}

/* ---- memory ---- */

static size_t actions_of_stage(const train_schedule_shape_t *shape) {
  size_t passes = kinds[shape->kind].splits_backward ? 3 : 2;
  return (size_t)train_schedule_total(shape) * (size_t)shape->chunks * (size_t)shape->slices *
             passes +
         (size_t)shape->steps;
}

static coll_status_t allocate(const train_schedule_shape_t *shape, size_t actions,
                              train_schedule_t **result) {
  train_schedule_t *schedule;
  COLL_TRY(base_alloc(1, sizeof *schedule, "a schedule", (void **)&schedule));
  schedule->shape = *shape;
  coll_status_t status = base_alloc(actions, sizeof *schedule->actions, "actions of a schedule",
                                    (void **)&schedule->actions);
  if (status == COLL_OK) {
    status = base_alloc((size_t)shape->stages + 1, sizeof *schedule->first, "stages of a schedule",
                        (void **)&schedule->first);
  }
  if (status != COLL_OK) {
    train_schedule_destroy(schedule);
    return status;
  }
  *result = schedule;
  return COLL_OK;
}

void train_schedule_destroy(train_schedule_t *schedule) {
  if (schedule == NULL) return;
  free(schedule->actions);
  free(schedule->first);
  free(schedule);
}

coll_status_t train_schedule_copy(const train_schedule_t *schedule, train_schedule_t **copy) {
  size_t stages = (size_t)schedule->shape.stages, count = schedule->first[stages];
  COLL_TRY(allocate(&schedule->shape, count, copy));
  memcpy((*copy)->actions, schedule->actions, count * sizeof schedule->actions[0]);
  memcpy((*copy)->first, schedule->first, (stages + 1) * sizeof schedule->first[0]);
  return COLL_OK;
}

/* ---- building ---- */

static void build_stage(train_builder_t *builder) {
  const train_schedule_shape_t *shape = builder->shape;
  const kind_row_t *kind = &kinds[shape->kind];
  int calls = kind->asynchronous ? 1 : shape->steps;
  builder->count = train_schedule_total(shape) / calls;
  for (int step = 0; step < calls; step++) {
    builder->first = step * builder->count;
    builder->version = step;
    kind->build(builder);
  }
}

coll_status_t train_schedule_create(const train_schedule_shape_t *wanted,
                                    train_schedule_t **result) {
  train_schedule_t *schedule;
  COLL_TRY(check_shape(wanted));
  train_schedule_shape_t normal = *wanted, *shape = &normal;
  if (normal.kind == TRAIN_SCHEDULE_PIPEDREAM) {
    normal.steps *= normal.micro_batches;
    normal.micro_batches = 1;
  }
  size_t each = actions_of_stage(shape);
  COLL_TRY(allocate(shape, each * (size_t)shape->stages, &schedule));
  for (int stage = 0; stage < shape->stages; stage++) {
    train_builder_t builder = {.shape = &schedule->shape,
                               .stage = stage,
                               .actions = &schedule->actions[schedule->first[stage]]};
    build_stage(&builder);
    schedule->first[stage + 1] = schedule->first[stage] + builder.appended;
  }
  *result = schedule;
  return COLL_OK;
}

/* ---- actions ---- */

/* The message between a virtual stage and the one before (activations) or after it (gradients),
 * received by `to`; false outside the model. */
static bool message_between(const train_schedule_shape_t *shape, const train_action_t *action,
                            train_payload_t payload, int from, int to, train_message_t *message) {
  int last = shape->stages * shape->chunks - 1;
  if (from < 0 || to < 0 || from > last || to > last) return false;
  *message = (train_message_t){.payload = payload,
                               .from = from % shape->stages,
                               .to = to % shape->stages,
                               .virtual_stage = to,
                               .micro_batch = action->micro_batch,
                               .slice = action->slice};
  return true;
}

bool train_action_receives(const train_schedule_shape_t *shape, int stage,
                           const train_action_t *action, train_message_t *message) {
  int here = action->chunk * shape->stages + stage;
  switch (action->kind) {
    case TRAIN_FORWARD:
      return message_between(shape, action, TRAIN_ACTIVATIONS, here - 1, here, message);
    case TRAIN_BACKWARD:
    case TRAIN_BACKWARD_INPUT:
      return message_between(shape, action, TRAIN_GRADIENTS, here + 1, here, message);
    default: return false;
  }
}

bool train_action_sends(const train_schedule_shape_t *shape, int stage,
                        const train_action_t *action, train_message_t *message) {
  int here = action->chunk * shape->stages + stage;
  switch (action->kind) {
    case TRAIN_FORWARD:
      return message_between(shape, action, TRAIN_ACTIVATIONS, here, here + 1, message);
    case TRAIN_BACKWARD:
    case TRAIN_BACKWARD_INPUT:
      return message_between(shape, action, TRAIN_GRADIENTS, here, here - 1, message);
    default: return false;
  }
}

const char *train_action_text(const train_schedule_shape_t *shape, const train_action_t *action,
                              char text[TRAIN_ACTION_TEXT_BYTES]) {
  static const char *const names[TRAIN_ACTION_KIND_COUNT] = {
      "forward", "backward", "backward (input)", "backward (weights)", "update"};
  if (action->kind == TRAIN_UPDATE) {
    snprintf(text, TRAIN_ACTION_TEXT_BYTES, "update after micro-batch %d", action->micro_batch);
    return text;
  }
  int length = snprintf(text, TRAIN_ACTION_TEXT_BYTES, "%s of micro-batch %d", names[action->kind],
                        action->micro_batch);
  if (shape->chunks > 1) {
    length += snprintf(text + length, TRAIN_ACTION_TEXT_BYTES - (size_t)length, ", chunk %d",
                       action->chunk);
  }
  if (shape->slices > 1) {
    snprintf(text + length, TRAIN_ACTION_TEXT_BYTES - (size_t)length, ", slice %d", action->slice);
  }
  return text;
}
