/*
 * A collective chooses its plan, meets the others if the plan reaches into users' memory (and
 * chooses again if that turns out not to be mappable), runs, and turns a sum into an average.
 */
#include "comm/task.h"

#include <assert.h>
#include <string.h>

#include "base/inline.h"
#include "base/memory.h"
#include "base/names.h"
#include "comm/bundle.h"
#include "engine/tag.h"
#include "transport/shm/memory.h"

void comm_task_init(comm_task_t *task, const comm_call_t *call) {
  task->call = call;
  task->state = COMM_TASK_WAITING;
  task->offers_due = false;
  task->ran = false;
  task->prepared = NULL;
  task->scaled = NULL;
}

static plan_shape_t shape_of(const comm_call_t *call) {
  return (plan_shape_t){
      .collective = call->collective, .size = call->comm->size, .root = call->root};
}

static size_t buffer_elements(const comm_call_t *call, plan_buffer_t buffer) {
  plan_shape_t shape = shape_of(call);
  return (size_t)plan_blocks(&shape, call->comm->rank, buffer) * call->count;
}

static bool is_premul(const comm_call_t *call) {
  return call->op >= COLL_OP_BUILTIN_COUNT && base_collective_reduces(call->collective);
}

/* Of a block; 0 where only pairs of ranks know. */
static size_t common_bytes(const comm_call_t *call) {
  return call->blocks != NULL ? 0 : call->count * base_dtype_bytes(call->dtype);
}

BASE_APART static void point_at_blocks(engine_call_t *engine_call, const size_t *blocks,
                                       size_t size) {
  engine_call->input_blocks = (engine_blocks_t){blocks, blocks + size};
  engine_call->output_blocks = (engine_blocks_t){blocks + 2 * size, blocks + 3 * size};
}

static coll_status_t prepare(comm_task_t *task, plan_reach_t reach) {
  const comm_call_t *call = task->call;
  struct coll_comm *comm = call->comm;
  const comm_shape_t shape = {.collective = call->collective,
                              .reach = reach,
                              .root = call->root,
                              .dtype = call->dtype,
                              .op = call->op,
                              .in_place = call->in_place && task->scaled == NULL,
                              .count = call->count};
  int lead = comm->leads > 1 ? (int)(task->number % (unsigned)comm->leads) : 0;
  COLL_TRY(comm_prepare(comm, &shape, lead, &task->prepared));
  engine_call_t *engine_call = &task->prepared->call;
  engine_call->input = task->scaled != NULL ? task->scaled : call->send;
  engine_call->output = call->recv;
  engine_call->tag = engine_tag_of_call(task->prepared->tag, task->number);
  if (call->blocks != NULL) point_at_blocks(engine_call, call->blocks, (size_t)comm->size);
  task->engine_call = engine_call;
  return COLL_OK;
}

static coll_status_t begin_run(comm_task_t *task) {
  struct coll_comm *comm = task->call->comm;
  const plan_t *plan = task->prepared->plan->plan;
  task->state = COMM_TASK_RUNNING;
  return engine_run_begin(&task->run, &task->prepared->bound, &comm->world, plan,
                          &plan->programs[comm->rank], task->engine_call);
}

/* Every rank's premul-sum is a plain sum of buffers that the scalar went over first. */
BASE_COLD static coll_status_t scale_input(comm_task_t *task) {
  const comm_call_t *call = task->call;
  size_t elements = buffer_elements(call, PLAN_INPUT);
  COLL_TRY(shm_memory_alloc(elements * base_dtype_bytes(call->dtype), &task->scaled));
  return call->comm->world.device->scale(task->scaled, call->send, elements, call->dtype,
                                         &call->scalar);
}

static void complete_collective(comm_task_t *task) {
  transport_t *local = task->call->comm->local;
  local->ops->complete(local, task->number + 1);
  task->state = COMM_TASK_DONE;
}

/* The meeting found, or is going to find, that not all memory can be mapped. */
static coll_status_t choose_unmapped(comm_task_t *task) {
  comm_note_unmapped(task->call->comm, task->call->collective, common_bytes(task->call));
  return prepare(task, PLAN_REACH_SCRATCH);
}

/* A rank whose own memory cannot be mapped knows how the meeting ends. It says so and goes on at
 * once by way of scratch, unless that takes messages, which would get in front of the offers. */
static coll_status_t forestall_meeting(comm_task_t *task) {
  bool moved, done, mappable;
  COLL_TRY(choose_unmapped(task));
  if (task->prepared->plan->plan->message_chunks > 0) return COLL_OK;
  COLL_TRY(engine_handshake_advance(&task->handshake, &moved, &done, &mappable));
  if (task->handshake.sent < task->call->comm->size - 1) return COLL_OK;
  task->offers_due = !done;
  return begin_run(task);
}

/* The plan reaches into users' memory, if that can be mapped. */
BASE_APART static coll_status_t begin_meeting(comm_task_t *task) {
  const comm_call_t *call = task->call;
  if (comm_spares_meeting(call->comm, call->collective, common_bytes(call))) {
    COLL_TRY(prepare(task, PLAN_REACH_SCRATCH));
    return begin_run(task);
  }
  size_t bytes = task->engine_call->element_bytes;
  COLL_TRY(engine_handshake_begin(&task->handshake, &call->comm->world, task->engine_call,
                                  buffer_elements(call, PLAN_INPUT) * bytes,
                                  buffer_elements(call, PLAN_OUTPUT) * bytes));
  task->state = COMM_TASK_MEETING;
  return task->handshake.own_mappable ? COLL_OK : forestall_meeting(task);
}

static bool has_nothing_to_do(const comm_call_t *call) {
  return call->count == 0 && call->blocks == NULL && call->collective != COLL_BARRIER;
}

/* A bundle's buffers are freed with the call, also when it fails, so no peer reaches into them. */
static coll_status_t start_collective(comm_task_t *task) {
  const comm_call_t *call = task->call;
  plan_reach_t reach = call->bundle != NULL ? PLAN_REACH_SCRATCH : PLAN_REACH_USER;
  task->number = call->comm->sequence++;
  if (call->bundle != NULL) comm_bundle_gather(call);
  if (has_nothing_to_do(call)) {
    complete_collective(task);
    return COLL_OK;
  }
  if (is_premul(call)) COLL_TRY(scale_input(task));
  COLL_TRY(prepare(task, reach));
  bool reaches_user = task->prepared->plan->plan->reach == PLAN_REACH_USER;
  return reaches_user ? begin_meeting(task) : begin_run(task);
}

/* Sends and receives of a pair are numbered, so that each side knows which the other is in. */
static coll_status_t start_pair(comm_task_t *task) {
  const comm_call_t *call = task->call;
  struct coll_comm *comm = call->comm;
  comm_pair_t *pair;
  COLL_TRY(comm_pair_of(comm, call->kind == COMM_SEND, call->root, &pair));
  engine_call_t *engine_call = &pair->call;
  engine_call->input = call->send;
  engine_call->output = call->recv;
  engine_call->count = call->count;
  engine_call->dtype = call->dtype;
  engine_call->element_bytes = base_dtype_bytes(call->dtype);
  engine_call->tag =
      engine_tag_make(pair->calls++, COLL_SENDRECV, call->dtype, ENGINE_OP_NONE, call->count, 0);
  task->engine_call = engine_call;
  task->state = COMM_TASK_RUNNING;
  return engine_run_begin(&task->run, &pair->bound, &comm->world, &pair->plan, &pair->program,
                          engine_call);
}

coll_status_t comm_task_start(comm_task_t *task) {
  assert(task->state == COMM_TASK_WAITING);
  COLL_TRY(comm_failure(task->call->comm));
  return task->call->kind == COMM_COLLECTIVE ? start_collective(task) : start_pair(task);
}

BASE_APART static coll_status_t meet(comm_task_t *task, bool *moved) {
  bool done, mappable;
  COLL_TRY(engine_handshake_advance(&task->handshake, moved, &done, &mappable));
  if (!done) return COLL_OK;
  *moved = true;
  if (!mappable) COLL_TRY(choose_unmapped(task));
  return begin_run(task);
}

/* The peers' offers are still to be taken, so that the next call does not find them. */
BASE_APART static coll_status_t hear_the_rest(comm_task_t *task, bool *moved) {
  bool heard, done, mappable;
  COLL_TRY(engine_handshake_advance(&task->handshake, &heard, &done, &mappable));
  *moved = *moved || heard;
  task->offers_due = !done;
  return COLL_OK;
}

BASE_APART static coll_status_t divide_output(const comm_call_t *call) {
  size_t elements = buffer_elements(call, PLAN_OUTPUT);
  return call->comm->world.device->divide(call->recv, elements, call->dtype, call->comm->size);
}

static coll_status_t finish(comm_task_t *task) {
  const comm_call_t *call = task->call;
  if (call->kind != COMM_COLLECTIVE) {
    task->state = COMM_TASK_DONE;
    return COLL_OK;
  }
  if (call->op == COLL_AVG && base_collective_reduces(call->collective)) {
    COLL_TRY(divide_output(call));
  }
  if (call->bundle != NULL) comm_bundle_spread(call);
  complete_collective(task);
  return COLL_OK;
}

coll_status_t comm_task_advance(comm_task_t *task, bool *moved) {
  *moved = false;
  if (task->state == COMM_TASK_MEETING) COLL_TRY(meet(task, moved));
  if (task->state != COMM_TASK_RUNNING) return COLL_OK;
  bool ran = false, done = task->ran;
  if (!done) COLL_TRY(engine_run_advance(&task->run, &ran, &done));
  *moved = *moved || ran;
  task->ran = done;
  if (done && task->offers_due) COLL_TRY(hear_the_rest(task, moved));
  return done && !task->offers_due ? finish(task) : COLL_OK;
}

int comm_task_waits_for(const comm_task_t *task, int peers[PLAN_LANES_MAX]) {
  switch (task->state) {
    case COMM_TASK_MEETING: peers[0] = engine_handshake_waits_for(&task->handshake); return 1;
    case COMM_TASK_RUNNING:
      if (!task->ran) return engine_run_waits_for(&task->run, peers);
      peers[0] = engine_handshake_waits_for(&task->handshake);
      return 1;
    case COMM_TASK_WAITING:
    case COMM_TASK_DONE: break;
  }
  return 0;
}

bool comm_task_standstill(const comm_task_t *task, uint64_t *place, uint64_t *missing) {
  uint32_t within = 0;
  if (task->call->kind != COMM_COLLECTIVE) return false;
  if (task->state == COMM_TASK_RUNNING && !task->ran) {
    engine_run_standstill(&task->run, &within, missing);
  } else {
    *missing = engine_handshake_missing(&task->handshake);
  }
  *place = (task->number + 1) << 32 | within;
  return true;
}

void comm_task_close(comm_task_t *task) {
  if (task->scaled == NULL) return;
  if (task->state == COMM_TASK_DONE) {
    shm_memory_free(task->scaled);
  } else { /* peers that are threads of this process may still be reading it */
    task->call->comm->orphan = task->scaled;
  }
  task->scaled = NULL;
}
