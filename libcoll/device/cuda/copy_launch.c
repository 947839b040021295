/* Queues a call: its lanes in turn, an action of each at a time, or signals and waits together, so
 * that no lane's stream is full of operations that wait while another's would let them go on. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "device/cuda/copy_parts.h"

#define PAUSE_NS 20000 /* between two looks at streams that are full */

typedef struct copy_call {
  cuda_copy_t *copy;
  const gpu_program_t *program;
  gpu_call_t call;
  copy_lane_t *lanes; /* [program->lanes] */
} copy_call_t;

/* ---- events ---------------------------------------------------------------------------------*/

static coll_status_t wait_for_event(const cuda_copy_t *copy, cuda_stream_t stream,
                                    cuda_event_t event) {
  return COPY_CALL(copy, cuStreamWaitEvent, stream, event, 0);
}

/* Space for an event of each action. */
static coll_status_t reserve_steps(cuda_copy_t *copy, size_t actions) {
  cuda_event_t *steps;
  if (actions <= copy->step_count) return COLL_OK;
  COLL_TRY(base_alloc(actions, sizeof(cuda_event_t), "events of steps", (void **)&steps));
  if (copy->step_count > 0) memcpy(steps, copy->steps, copy->step_count * sizeof(cuda_event_t));
  free(copy->steps);
  copy->steps = steps;
  copy->step_count = actions;
  return COLL_OK;
}

/* Other lanes wait for what the lane has queued so far. Waits that were queued keep waiting for
 * what the event meant then. */
static coll_status_t record_step(const copy_lane_t *lane, uint32_t action) {
  cuda_copy_t *copy = lane->copy;
  if (copy->steps[action] == NULL) {
    COLL_TRY(COPY_CALL(copy, cuEventCreate, &copy->steps[action], CUDA_EVENT_NO_TIMING));
  }
  return COPY_CALL(copy, cuEventRecord, copy->steps[action], lane->queue->stream);
}

/* ---- the lanes of a pass --------------------------------------------------------------------*/

/* Whether the stream takes more operations: it has passed its older mark. */
static coll_status_t has_room(const cuda_copy_t *copy, copy_queue_t *queue, bool *has) {
  *has = true;
  if (queue->operations < COPY_OPERATIONS) return COLL_OK;
  cuda_result_t result = copy->driver->cuEventQuery(queue->marks[queue->older]);
  *has = result != CUDA_RESULT_NOT_READY;
  if (!*has) return COLL_OK;
  COLL_TRY(cuda_driver_check(copy->driver, result, "cuEventQuery", copy->device));
  queue->operations = 0;
  COLL_TRY(COPY_CALL(copy, cuEventRecord, queue->marks[queue->older], queue->stream));
  queue->older = 1 - queue->older;
  return COLL_OK;
}

/* An event can be waited for when it has been recorded. */
static bool is_queued(const copy_call_t *c, const gpu_action_t *after) {
  const copy_lane_t *other = &c->lanes[after->peer];
  return other->next > other->begin + (uint32_t)after->channel;
}

static coll_status_t queue_action(copy_call_t *c, copy_lane_t *lane, bool *moved) {
  const gpu_action_t *action = &gpu_program_actions(c->program)[lane->next];
  bool has = true;
  if (lane->next == lane->end) return COLL_OK;
  if (action->kind == GPU_AFTER && !is_queued(c, action)) return COLL_OK;
  COLL_TRY(has_room(c->copy, lane->queue, &has));
  if (!has) return COLL_OK;
  *moved = true;
  uint32_t count = copy_together(action, lane->end - lane->next);
  COLL_TRY(copy_act(lane, action, count));
  lane->next += count - 1;
  action += count - 1;
  if (action->watched) COLL_TRY(record_step(lane, lane->next));
  if (!gpu_next_window(&lane->run, action)) lane->next++;
  return COLL_OK;
}

static void pause_launch(const cuda_copy_t *copy) {
  const cuda_copy_config_t *config = &copy->config;
  base_clock_sleep_ns(PAUSE_NS);
  if (config->waits != NULL) config->waits(config->context);
}

static coll_status_t queue_lanes(copy_call_t *c) {
  bool ended = false;
  while (!ended) {
    bool moved = false;
    ended = true;
    for (int32_t i = 0; i < c->program->lanes; i++) {
      COLL_TRY(queue_action(c, &c->lanes[i], &moved));
      ended = ended && c->lanes[i].next == c->lanes[i].end;
    }
    if (atomic_load(&c->copy->aborted)) {
      return base_fail(COLL_ERROR_RANK_LOST, "the communicator was aborted");
    }
    if (!moved && !ended) pause_launch(c->copy);
  }
  return COLL_OK;
}

/* ---- a pass ---------------------------------------------------------------------------------*/

/* All lanes wait for what lane 0 has queued. */
static coll_status_t follow_first(copy_call_t *c) {
  cuda_copy_t *copy = c->copy;
  if (c->program->lanes == 1) return COLL_OK;
  COLL_TRY(COPY_CALL(copy, cuEventRecord, copy->queues[0].ended, copy->queues[0].stream));
  for (int32_t i = 1; i < c->program->lanes; i++) {
    COLL_TRY(wait_for_event(copy, copy->queues[i].stream, copy->queues[0].ended));
  }
  return COLL_OK;
}

/* Lane 0 waits for all lanes. */
static coll_status_t join_lanes(copy_call_t *c) {
  cuda_copy_t *copy = c->copy;
  for (int32_t i = 1; i < c->program->lanes; i++) {
    COLL_TRY(COPY_CALL(copy, cuEventRecord, copy->queues[i].ended, copy->queues[i].stream));
    COLL_TRY(wait_for_event(copy, copy->queues[0].stream, copy->queues[i].ended));
  }
  return COLL_OK;
}

static void begin_pass(copy_call_t *c, uint32_t pass) {
  const uint32_t *ends = gpu_program_lane_ends(c->program);
  for (int32_t i = 0; i < c->program->lanes; i++) {
    copy_lane_t *lane = &c->lanes[i];
    lane->begin = i == 0 ? 0 : ends[i - 1];
    lane->end = ends[i];
    lane->next = lane->begin;
    gpu_set_pass(&lane->run, pass);
  }
}

static coll_status_t queue_pass(copy_call_t *c, uint32_t pass) {
  begin_pass(c, pass);
  if (c->call.scaled != NULL) {
    COLL_TRY(copy_scale_input(&c->lanes[0]));
    COLL_TRY(follow_first(c));
  }
  COLL_TRY(queue_lanes(c));
  COLL_TRY(join_lanes(c));
  if (c->call.divisor > 1) COLL_TRY(copy_divide_output(&c->lanes[0]));
  return pass + 1 < c->call.passes ? follow_first(c) : COLL_OK;
}

/* ---- a call ---------------------------------------------------------------------------------*/

static void prepare_lane(copy_call_t *c, int32_t i) {
  cuda_copy_t *copy = c->copy;
  const gpu_call_t *call = &c->call;
  c->lanes[i] = (copy_lane_t){.copy = copy,
                              .queue = &copy->queues[i],
                              .run = {.call = call,
                                      .rank = &copy->rank,
                                      .program = c->program,
                                      .room = &copy->rank.room,
                                      .pieces = gpu_program_pieces(c->program),
                                      .arena = copy->arenas[copy->rank.rank],
                                      .input = call->scaled != NULL ? call->scaled : call->input,
                                      .lane = i}};
}

static coll_status_t store_number(const cuda_copy_t *copy, cuda_ptr_t address) {
  if (address == 0) return COLL_OK;
  return COPY_CALL(copy, cuStreamWriteValue64, copy->queues[0].stream, address, copy->calls, 0);
}

/* Lanes begin behind the stream and the call before, in which other lanes may have been longer. */
static coll_status_t queue_call(copy_call_t *c, cuda_stream_t stream) {
  cuda_copy_t *copy = c->copy;
  COLL_TRY(wait_for_event(copy, stream, copy->done));
  COLL_TRY(COPY_CALL(copy, cuEventRecord, copy->begun, stream));
  for (int32_t i = 0; i < c->program->lanes; i++) {
    prepare_lane(c, i);
    COLL_TRY(wait_for_event(copy, copy->queues[i].stream, copy->begun));
  }
  copy->calls++;
  COLL_TRY(store_number(copy, copy->config.begun));
  for (uint32_t pass = 0; pass < c->call.passes; pass++) COLL_TRY(queue_pass(c, pass));
  COLL_TRY(COPY_CALL(copy, cuEventRecord, copy->done, copy->queues[0].stream));
  COLL_TRY(wait_for_event(copy, stream, copy->done));
  return store_number(copy, copy->config.ended);
}

static coll_status_t check_stream(const cuda_copy_t *copy, cuda_stream_t stream) {
  cuda_capture_status_t capture = CUDA_CAPTURE_NONE;
  COLL_TRY(COPY_CALL(copy, cuStreamIsCapturing, stream, &capture));
  if (capture == CUDA_CAPTURE_NONE) return COLL_OK;
  return base_fail(COLL_ERROR_UNSUPPORTED,
                   "calls of the copy engines cannot be captured into a graph; "
                   "COLL_CUDA_ENGINE=kernel has those that can");
}

static coll_status_t check_program(const cuda_copy_t *copy, const gpu_program_t *program) {
  if (program->lanes <= copy->config.lanes) return COLL_OK;
  return base_fail(COLL_ERROR_UNSUPPORTED, "a plan has %d lanes; the copy engines serve up to %d",
                   program->lanes, copy->config.lanes);
}

/* With the context. Until queue_call, nothing has changed. */
static coll_status_t launch(copy_call_t *c, cuda_stream_t stream) {
  cuda_copy_t *copy = c->copy;
  const uint32_t *ends = gpu_program_lane_ends(c->program);
  COLL_TRY(check_stream(copy, stream));
  COLL_TRY(copy_reserve_queues(copy, c->program->lanes));
  COLL_TRY(reserve_steps(copy, ends[c->program->lanes - 1]));
  COLL_TRY(base_alloc((size_t)c->program->lanes, sizeof *c->lanes, "lanes of a call",
                      (void **)&c->lanes));
  coll_status_t status = queue_call(c, stream);
  copy->failed = status != COLL_OK;
  free(c->lanes);
  return status;
}

coll_status_t cuda_copy_launch(cuda_copy_t *copy, const gpu_program_t *program,
                               const gpu_request_t *request, cuda_stream_t stream) {
  copy_call_t c = {.copy = copy, .program = program};
  gpu_request_t anonymous = *request;
  anonymous.words = NULL;
  anonymous.protocol = GPU_PROTOCOL_SLOTS;
  if (atomic_load(&copy->aborted)) {
    return base_fail(COLL_ERROR_RANK_LOST, "the communicator was aborted");
  }
  if (copy->failed) {
    return base_fail(COLL_ERROR_SYSTEM, "an earlier call could not be queued completely");
  }
  COLL_TRY(check_program(copy, program));
  COLL_TRY(gpu_bind_call(&copy->rank.room, &copy->rank, program, program, &anonymous, 1, &c.call));
  COLL_TRY(cuda_context_enter(copy->driver, copy->device));
  coll_status_t status = launch(&c, stream);
  cuda_context_leave(copy->driver, copy->device);
  return status;
}
