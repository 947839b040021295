/* Queues the operations of an action: what kernel.c does, in the same order. */
#include "device/cuda/copy_parts.h"

static copy_counters_t *counters_of(const copy_lane_t *lane, const gpu_action_t *action) {
  const gpu_room_t *room = &lane->copy->rank.room;
  return &lane->copy->counters[action->peer * room->channels + action->channel];
}

static cuda_ptr_t pointer(const void *address) {
  return (cuda_ptr_t)(uintptr_t)address;
}

static void begin_copies(const copy_lane_t *lane, cuda_copies_t *copies) {
  const cuda_copy_t *copy = lane->copy;
  cuda_copies_begin(copy->driver, copy->device, lane->queue->stream, false, copies);
}

static coll_status_t add_copy(copy_lane_t *lane, cuda_copies_t *copies, char *dst, const char *src,
                              size_t bytes) {
  if (bytes == 0 || dst == src) return COLL_OK;
  lane->queue->operations++;
  return cuda_copies_add(copies, dst, src, bytes);
}

/* A fence of the system precedes the store, so peers that see it see the copies before it. */
static coll_status_t store_flag(copy_lane_t *lane, const uint64_t *flag, uint64_t value) {
  lane->queue->operations++;
  return COPY_CALL(lane->copy, cuStreamWriteValue64, lane->queue->stream, pointer(flag), value, 0);
}

static coll_status_t wait_for_flag(copy_lane_t *lane, const uint64_t *flag, uint64_t value) {
  lane->queue->operations++;
  return COPY_CALL(lane->copy, cuStreamWaitValue64, lane->queue->stream, pointer(flag), value,
                   CUDA_WAIT_GEQ);
}

/* ---- messages -------------------------------------------------------------------------------*/

static coll_status_t move_message(copy_lane_t *lane, const gpu_action_t *action, char *slot,
                                  bool sends) {
  cuda_copies_t copies;
  begin_copies(lane, &copies);
  for (int32_t i = 0; i < action->piece_count; i++) {
    gpu_range_t range = gpu_range_of(&lane->run, &lane->run.pieces[action->pieces + (uint32_t)i]);
    char *dst = sends ? slot : range.at, *src = sends ? range.at : slot;
    COLL_TRY(add_copy(lane, &copies, dst, src, range.bytes));
    slot += range.bytes;
  }
  return cuda_copies_queue(&copies);
}

static coll_status_t send_message(copy_lane_t *lane, const gpu_action_t *action) {
  const gpu_run_t *run = &lane->run;
  copy_counters_t *counters = counters_of(lane, action);
  uint64_t number = copy_count(&counters->sent), depth = (uint64_t)run->room->depth, digest;
  if (!gpu_message_digest(run, action, &digest)) return COLL_OK;
  if (number >= depth) {
    COLL_TRY(wait_for_flag(lane, &gpu_own_fifo(run, action)->taken, number - depth + 1));
  }
  char *arena = lane->copy->arenas[action->peer];
  char *slot = gpu_arena_slot(run->room, arena, run->program->rank, action->channel, number);
  COLL_TRY(move_message(lane, action, slot, true));
  copy_set_count(&counters->sent, number + 1);
  return store_flag(lane, gpu_peer_fifo(run, action)->sent, number + 1);
}

static coll_status_t receive_message(copy_lane_t *lane, const gpu_action_t *action) {
  const gpu_run_t *run = &lane->run;
  copy_counters_t *counters = counters_of(lane, action);
  uint64_t number = copy_count(&counters->taken), digest;
  if (!gpu_message_digest(run, action, &digest)) return COLL_OK;
  COLL_TRY(wait_for_flag(lane, gpu_own_fifo(run, action)->sent, number + 1));
  char *slot = gpu_arena_slot(run->room, run->arena, action->peer, action->channel, number);
  COLL_TRY(move_message(lane, action, slot, false));
  copy_set_count(&counters->taken, number + 1);
  return store_flag(lane, &gpu_peer_fifo(run, action)->taken, number + 1);
}

/* ---- signals --------------------------------------------------------------------------------*/

static coll_status_t add_signal(copy_lane_t *lane, const gpu_action_t *action,
                                cuda_values_t *values) {
  copy_counters_t *counters = counters_of(lane, action);
  uint64_t number = copy_count(&counters->signals) + 1;
  copy_set_count(&counters->signals, number);
  return cuda_values_store(values, gpu_peer_fifo(&lane->run, action)->signals, number);
}

static coll_status_t add_wait(copy_lane_t *lane, const gpu_action_t *action,
                              cuda_values_t *values) {
  copy_counters_t *counters = counters_of(lane, action);
  uint64_t number = copy_count(&counters->waits) + 1;
  copy_set_count(&counters->waits, number);
  return cuda_values_wait(values, gpu_own_fifo(&lane->run, action)->signals, number);
}

static bool is_signal(const gpu_action_t *action) {
  return action->kind == GPU_SIGNAL || action->kind == GPU_WAIT;
}

static coll_status_t queue_signals(copy_lane_t *lane, const gpu_action_t actions[],
                                   uint32_t count) {
  cuda_values_t values;
  cuda_values_begin(lane->copy->driver, lane->copy->device, lane->queue->stream, &values);
  for (uint32_t i = 0; i < count; i++) {
    bool waits = actions[i].kind == GPU_WAIT;
    COLL_TRY(waits ? add_wait(lane, &actions[i], &values) : add_signal(lane, &actions[i], &values));
  }
  lane->queue->operations += count;
  return cuda_values_queue(&values);
}

uint32_t copy_together(const gpu_action_t actions[], uint32_t most) {
  uint32_t count = 1;
  if (most > CUDA_VALUES_MAX) most = CUDA_VALUES_MAX;
  if (!is_signal(&actions[0])) return 1;
  while (count < most && is_signal(&actions[count]) && !actions[count - 1].watched) count++;
  return count;
}

/* ---- local ----------------------------------------------------------------------------------*/

/* Also a reduction of one operand. */
static coll_status_t copy_pieces(copy_lane_t *lane, const gpu_action_t *action) {
  const gpu_run_t *run = &lane->run;
  cuda_copies_t copies;
  begin_copies(lane, &copies);
  for (int32_t i = 0; i < action->piece_count; i++) {
    const gpu_piece_t *piece = &run->pieces[action->pieces + 2 * (uint32_t)i];
    gpu_range_t dst = gpu_range_of(run, &piece[0]), src = gpu_range_of(run, &piece[1]);
    COLL_TRY(add_copy(lane, &copies, dst.at, src.at, dst.bytes));
  }
  return cuda_copies_queue(&copies);
}

static coll_status_t compute(copy_lane_t *lane, gpu_compute_t *work) {
  size_t bytes = work->elements * work->element_bytes;
  size_t blocks = (bytes + GPU_COMPUTE_BLOCK_BYTES - 1) / GPU_COMPUTE_BLOCK_BYTES;
  if (work->elements == 0) return COLL_OK;
  if (blocks > GPU_COMPUTE_BLOCKS_MAX) blocks = GPU_COMPUTE_BLOCKS_MAX;
  cuda_function_t kernel = lane->copy->config.code->compute[work->dtype][gpu_ops_of(work->op)];
  lane->queue->operations++;
  return cuda_launch(&lane->copy->launcher, kernel, (uint32_t)blocks, GPU_THREADS_MAX, work,
                     lane->queue->stream);
}

static coll_status_t reduce_pieces(copy_lane_t *lane, const gpu_action_t *action) {
  const gpu_run_t *run = &lane->run;
  const gpu_call_t *call = run->call;
  int32_t count = action->operands - 1;
  if (count == 1) return copy_pieces(lane, action);
  for (int32_t i = 0; i < action->piece_count; i++) {
    const gpu_piece_t *piece = &run->pieces[action->pieces + (uint32_t)i * action->operands];
    gpu_range_t dst = gpu_range_of(run, piece);
    gpu_compute_t work = {.kind = GPU_COMPUTE_REDUCE,
                          .dtype = call->dtype,
                          .op = call->op,
                          .count = count,
                          .element_bytes = call->element_bytes,
                          .elements = dst.bytes / call->element_bytes,
                          .dst = dst.at};
    for (int32_t k = 0; k < count; k++) work.sources[k] = gpu_range_of(run, &piece[1 + k]).at;
    COLL_TRY(compute(lane, &work));
  }
  return COLL_OK;
}

/* The step was queued before: copy_launch.c sees to that. */
static coll_status_t wait_for_step(copy_lane_t *lane, const gpu_action_t *action) {
  const uint32_t *ends = gpu_program_lane_ends(lane->run.program);
  uint32_t begin = action->peer == 0 ? 0 : ends[action->peer - 1];
  lane->queue->operations++;
  return COPY_CALL(lane->copy, cuStreamWaitEvent, lane->queue->stream,
                   lane->copy->steps[begin + (uint32_t)action->channel], 0);
}

coll_status_t copy_act(copy_lane_t *lane, const gpu_action_t actions[], uint32_t count) {
  const gpu_action_t *action = &actions[0];
  switch (action->kind) {
    case GPU_COPY: return copy_pieces(lane, action);
    case GPU_REDUCE: return reduce_pieces(lane, action);
    case GPU_SEND: return send_message(lane, action);
    case GPU_RECV: return receive_message(lane, action);
    case GPU_SIGNAL:
    case GPU_WAIT: return queue_signals(lane, actions, count);
    default: return wait_for_step(lane, action);
  }
}

/* ---- before and after -----------------------------------------------------------------------*/

coll_status_t copy_scale_input(copy_lane_t *lane) {
  const gpu_call_t *call = lane->run.call;
  for (int32_t block = 0; block < lane->run.program->input_blocks; block++) {
    gpu_cut_t window;
    size_t first = gpu_block_window(&lane->run, GPU_BASE_INPUT, block, &window);
    size_t begin = first * call->element_bytes;
    gpu_compute_t work = {.kind = GPU_COMPUTE_SCALE,
                          .dtype = call->dtype,
                          .count = 1,
                          .element_bytes = call->element_bytes,
                          .scalar = call->scalar,
                          .elements = window.count,
                          .dst = call->scaled + begin,
                          .sources = {call->input + begin}};
    COLL_TRY(compute(lane, &work));
  }
  return COLL_OK;
}

coll_status_t copy_divide_output(copy_lane_t *lane) {
  const gpu_call_t *call = lane->run.call;
  for (int32_t block = 0; block < lane->run.program->output_blocks; block++) {
    gpu_cut_t window;
    size_t first = gpu_block_window(&lane->run, GPU_BASE_OUTPUT, block, &window);
    gpu_compute_t work = {.kind = GPU_COMPUTE_DIVIDE,
                          .dtype = call->dtype,
                          .divisor = call->divisor,
                          .element_bytes = call->element_bytes,
                          .elements = window.count,
                          .dst = call->output + first * call->element_bytes};
    COLL_TRY(compute(lane, &work));
  }
  return COLL_OK;
}
