/* The passes of steps and of evaluation, action by action. */
#include <assert.h>
#include <string.h>

#include "libtrain/model/activations.h"
#include "libtrain/parallel/executor_state.h"

/* ---- rows ---- */

/* What an action works on. */
typedef struct pass {
  train_executor_t *executor;
  const train_action_t *action;
  train_model_t *model; /* of its chunk */
  int slot, sequences, length;
  size_t count; /* elements of the messages */
} pass_t;

static pass_t pass_of(train_executor_t *executor, const train_action_t *action, int sequences) {
  train_model_t *model = executor->models[action->chunk];
  int length = executor_pass_length(executor, action->slice);
  int micro_batch = action->micro_batch % executor->needs.slots;
  return (pass_t){.executor = executor,
                  .action = action,
                  .model = model,
                  .slot = train_model_slot(model, micro_batch, action->slice),
                  .sequences = sequences,
                  .length = length,
                  .count = train_model_stream_count(model, sequences, length)};
}

static bool embeds(const pass_t *pass) {
  return train_part_embeds(&pass->model->layout->part) && pass->action->chunk == 0;
}

static bool classifies(const pass_t *pass) {
  const train_part_t *part = &pass->model->layout->part;
  return train_part_classifies(part, pass->model->layout->config.layers) &&
         pass->action->chunk == part->chunk_count - 1;
}

/* ---- rows ---- */

/* Copies of each sequence the positions of the pass. */
static void copy_own_rows(const pass_t *pass, const int32_t *rows, int32_t *own) {
  const train_executor_t *executor = pass->executor;
  int context = executor_layout(executor)->config.context, length = pass->length;
  const train_batch_t batch =
      train_model_batch(pass->model, pass->slot, pass->sequences, pass->length);
  if (own == rows) return;
  for (int row = 0; row < pass->sequences * length; row++) {
    own[row] = rows[row / length * context + train_batch_position(&batch, row)];
  }
}

static void take_own_rows(const pass_t *pass) {
  train_executor_t *executor = pass->executor;
  copy_own_rows(pass, executor->tokens, executor->own_tokens);
  copy_own_rows(pass, executor->targets, executor->own_targets);
  executor->own_rows_of = pass->slot;
}

static void read_rows(const pass_t *pass, const train_rows_t *rows) {
  train_executor_t *executor = pass->executor;
  int micro_batch = pass->action->micro_batch;
  bool read = executor->rows_of == micro_batch;
  if (read && executor->own_rows_of == pass->slot) return;
  if (!read) rows->read(rows->context, micro_batch, executor->tokens, executor->targets);
  take_own_rows(pass);
  executor->rows_of = micro_batch;
}

/* ---- actions ---- */

/* Receives the stream, or its gradient, that the action waits for. */
static coll_status_t receive(const pass_t *pass) {
  train_executor_t *executor = pass->executor;
  train_message_t message;
  if (!train_action_receives(&executor->schedule->shape, executor->ranks->stage, pass->action,
                             &message)) {
    return COLL_OK;
  }
  bool forward = message.payload == TRAIN_ACTIVATIONS;
  train_channels_t *channels = forward ? &executor->activations : &executor->gradients;
  return train_channel_receive(
      &channels->from_previous, pass->model->exec.dtype,
      forward ? train_model_input(pass->model, pass->slot) : train_model_gradient(pass->model),
      pass->count);
}

static coll_status_t send(const pass_t *pass) {
  train_executor_t *executor = pass->executor;
  train_message_t message;
  if (!train_action_sends(&executor->schedule->shape, executor->ranks->stage, pass->action,
                          &message)) {
    return COLL_OK;
  }
  bool forward = message.payload == TRAIN_ACTIVATIONS;
  train_channels_t *channels = forward ? &executor->activations : &executor->gradients;
  return train_channel_send(
      &channels->to_next, pass->model->exec.dtype,
      forward ? train_model_output(pass->model, pass->slot) : train_model_gradient(pass->model),
      pass->count);
}

static void record_pass(const pass_t *pass, train_trace_kind_t kind, uint64_t start_ns) {
  const train_executor_t *executor = pass->executor;
  const train_schedule_shape_t *shape = &executor->schedule->shape;
  const train_trace_pass_t traced = {.micro_batch = pass->action->micro_batch,
                                     .chunk = shape->chunks > 1 ? pass->action->chunk : -1,
                                     .slice = shape->slices > 1 ? pass->action->slice : -1};
  train_trace_pass(executor->options.trace, kind, start_ns, &traced);
}

static coll_status_t forward(const pass_t *pass) {
  const train_executor_t *executor = pass->executor;
  COLL_TRY(receive(pass));
  uint64_t start_ns = train_trace_now(executor->options.trace);
  COLL_TRY(train_model_forward(pass->model, &executor->provider, pass->slot, executor->own_tokens,
                               pass->sequences, pass->length));
  record_pass(pass, TRAIN_TRACE_FORWARD, start_ns);
  return send(pass);
}

/* The whole backward pass, or its first part. */
static coll_status_t backward(const pass_t *pass, float scale, double *loss) {
  const train_executor_t *executor = pass->executor;
  bool whole = pass->action->kind == TRAIN_BACKWARD;
  COLL_TRY(receive(pass));
  uint64_t start_ns = train_trace_now(executor->options.trace);
  COLL_TRY((whole ? train_model_backward : train_model_backward_input)(
      pass->model, &executor->provider, pass->slot, executor->own_targets, scale, loss));
  record_pass(pass, whole ? TRAIN_TRACE_BACKWARD : TRAIN_TRACE_BACKWARD_INPUT, start_ns);
  return send(pass);
}

static coll_status_t backward_weight(const pass_t *pass) {
  const train_executor_t *executor = pass->executor;
  uint64_t start_ns = train_trace_now(executor->options.trace);
  COLL_TRY(train_model_backward_weight(pass->model, &executor->provider, pass->slot));
  record_pass(pass, TRAIN_TRACE_BACKWARD_WEIGHT, start_ns);
  return COLL_OK;
}

static coll_status_t run_action(const pass_t *pass, const train_rows_t *rows, float scale,
                                double *loss) {
  switch (pass->action->kind) {
    case TRAIN_FORWARD:
      if (embeds(pass)) read_rows(pass, rows);
      return forward(pass);
    case TRAIN_BACKWARD:
    case TRAIN_BACKWARD_INPUT:
      if (classifies(pass)) read_rows(pass, rows);
      return backward(pass, scale, loss);
    case TRAIN_BACKWARD_WEIGHT: return backward_weight(pass);
    default: return COLL_OK; /* an update is the caller's */
  }
}

/* Of the tensor ranks, which all compute the same loss, the first one counts it. */
static double counted(const train_executor_t *executor, double loss) {
  return executor_layout(executor)->part.tensor_rank == 0 ? loss : 0;
}

/* Begins the passes of an update. */
static void begin_cycle(train_executor_t *executor) {
  int passes = executor_passes(executor);
  const train_traffic_sources_t counters = train_executor_counters(executor);
  train_store_begin(executor->store, passes);
  train_traffic_reset(&counters);
  train_gradient_sync_begin(&executor->sync, passes);
  executor->rows_of = executor->own_rows_of = -1;
  for (int chunk = 0; chunk < executor_layout(executor)->part.chunk_count; chunk++) {
    executor->models[chunk]->routed = (train_router_result_t){0};
  }
}

coll_status_t train_executor_gradients(train_executor_t *executor, const train_rows_t *rows,
                                       float scale, double *loss) {
  size_t count;
  const train_action_t *program =
      train_schedule_program(executor->schedule, executor->ranks->stage, &count);
  double sum = 0;
  assert(!train_schedule_is_asynchronous(executor->schedule->shape.kind));
  begin_cycle(executor);
  for (size_t i = 0; i < count; i++) {
    const pass_t pass = pass_of(executor, &program[i], executor->options.model.sequences);
    double part = 0;
    COLL_TRY(run_action(&pass, rows, scale, &part));
    sum += part;
  }
  *loss = counted(executor, sum);
  return train_gradient_sync_finish(&executor->sync);
}

/* ---- steps without emptying the pipeline ---- */

/* Schedules of other spans than the longest need no more than it does. */
static coll_status_t schedule_steps(train_executor_t *executor, int steps) {
  train_schedule_t *schedule = NULL;
  executor_needs_t needs;
  if (executor->schedule->shape.steps == steps) return COLL_OK;
  assert(steps <= executor->options.steps);
  coll_status_t status = executor_create_schedule(executor_layout(executor), executor->ranks,
                                                  &executor->options, steps, &schedule, &needs);
  if (status != COLL_OK) {
    train_schedule_destroy(schedule);
    return status;
  }
  assert(needs.slots <= executor->needs.slots && needs.copies <= executor->needs.copies &&
         needs.window <= executor->needs.window);
  train_schedule_destroy(executor->schedule);
  executor->schedule = schedule;
  return COLL_OK;
}

/* The caller's update, after which the next passes of the span begin another one. */
static coll_status_t update(train_executor_t *executor, const train_action_t *action,
                            const train_updates_t *updates, double loss) {
  COLL_TRY(train_gradient_sync_finish(&executor->sync));
  COLL_TRY(train_versions_keep(&executor->versions));
  COLL_TRY(updates->update(updates->context, action->version - 1, counted(executor, loss)));
  begin_cycle(executor);
  return COLL_OK;
}

coll_status_t train_executor_steps(train_executor_t *executor, int steps, const train_rows_t *rows,
                                   float scale, const train_updates_t *updates) {
  size_t count;
  double sum = 0;
  COLL_TRY(schedule_steps(executor, steps));
  const train_action_t *program =
      train_schedule_program(executor->schedule, executor->ranks->stage, &count);
  begin_cycle(executor);
  train_versions_begin(&executor->versions);
  for (size_t i = 0; i < count; i++) {
    const pass_t pass = pass_of(executor, &program[i], executor->options.model.sequences);
    double part = 0;
    if (program[i].kind == TRAIN_UPDATE) {
      COLL_TRY(update(executor, &program[i], updates, sum));
      sum = 0;
      continue;
    }
    train_versions_use(&executor->versions, program[i].version);
    COLL_TRY(run_action(&pass, rows, scale, &part));
    sum += part;
  }
  train_versions_use(&executor->versions, executor->versions.newest);
  return COLL_OK;
}

/* Tensor ranks route alike. */
train_router_result_t train_executor_routed(const train_executor_t *executor) {
  const train_part_t *part = &executor_layout(executor)->part;
  train_router_result_t sum = {0};
  for (int chunk = 0; chunk < part->chunk_count && part->tensor_rank == 0; chunk++) {
    const train_router_result_t *routed = &executor->models[chunk]->routed;
    sum.balance += routed->balance;
    sum.z += routed->z;
    sum.kept += routed->kept;
    sum.dropped += routed->dropped;
  }
  return sum;
}

/* ---- loss ---- */

coll_status_t train_executor_loss(train_executor_t *executor, const int32_t *tokens,
                                  const int32_t *targets, int sequences, double *loss) {
  size_t bytes =
      (size_t)sequences * (size_t)executor_layout(executor)->config.context * sizeof *tokens;
  double sum = 0;
  memcpy(executor->tokens, tokens, bytes);
  memcpy(executor->targets, targets, bytes);
  for (int chunk = 0; chunk < executor_layout(executor)->part.chunk_count; chunk++) {
    for (int slice = 0; slice < executor->schedule->shape.slices; slice++) {
      const train_action_t action = {.kind = TRAIN_FORWARD, .chunk = chunk, .slice = slice};
      const pass_t pass = pass_of(executor, &action, sequences);
      double part;
      take_own_rows(&pass);
      COLL_TRY(forward(&pass));
      if (!classifies(&pass)) continue;
      COLL_TRY(train_model_classify(pass.model, &executor->provider, pass.slot,
                                    executor->own_targets, &part));
      sum += part;
    }
  }
  *loss = counted(executor, sum);
  return COLL_OK;
}

coll_status_t train_executor_extend(train_executor_t *executor, const int32_t *tokens, int first,
                                    int count, float *logits) {
  const train_action_t action = {.kind = TRAIN_FORWARD};
  const train_ranks_t *ranks = executor->ranks;
  pass_t pass = pass_of(executor, &action, 1);
  assert(executor->layout->part.chunk_count == 1);
  pass.count = train_model_stream_count(pass.model, 1, count);
  COLL_TRY(receive(&pass));
  COLL_TRY(train_model_extend(pass.model, &executor->provider, tokens, first, count, logits));
  COLL_TRY(send(&pass));
  if (ranks->stages == 1) return COLL_OK;
  return train_group_broadcast_floats(
      &ranks->pipeline, logits, (size_t)executor->layout->config.vocabulary, ranks->stages - 1);
}
