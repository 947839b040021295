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
#include "comm/coalesce.h"
#include "transport/shm/memory.h"

static size_t buffer_elements(const comm_call_t *call, plan_buffer_t buffer) {
  const comm_traits_t traits = comm_traits_of(call->shape);
  const plan_shape_t shape = {
      .collective = traits.collective, .size = call->comm->size, .root = traits.root};
  return (size_t)plan_blocks(&shape, call->comm->rank, buffer) * call->shape.count;
}

static bool is_of_op(const comm_call_t *call, coll_op_t op) {
  const comm_traits_t traits = comm_traits_of(call->shape);
  return traits.op == op && base_collective_reduces(traits.collective);
}

/* Of a block; 0 where only pairs of ranks know. */
static size_t common_bytes(const comm_call_t *call) {
  size_t element_bytes = base_dtype_bytes(comm_traits_of(call->shape).dtype);
  return call->blocks != NULL ? 0 : call->shape.count * element_bytes;
}

BASE_APART static void point_at_blocks(engine_call_t *engine_call, const size_t *blocks,
                                       size_t size) {
  engine_call->input_blocks = (engine_blocks_t){blocks, blocks + size};
  engine_call->output_blocks = (engine_blocks_t){blocks + 2 * size, blocks + 3 * size};
}

BASE_INLINE coll_status_t prepare(comm_task_t *task, comm_shape_t shape) {
  const comm_call_t *call = task->call;
  struct coll_comm *comm = call->comm;
  int lead = comm->executors > 1 ? (int)(task->number % (unsigned)comm->executors) : 0;
  COLL_TRY(comm_cache_lookup(comm, shape, lead, &task->entry));
  engine_call_t *engine_call = &task->entry->call;
  engine_call->input = task->scaled != NULL ? task->scaled : call->send;
  engine_call->output = call->recv;
  if (call->blocks != NULL) point_at_blocks(engine_call, call->blocks, (size_t)comm->size);
  task->engine_call = engine_call;
  return COLL_OK;
}

/* As far as `reach`; what was scaled has a buffer of its own. The call keeps its identity. */
BASE_APART static coll_status_t prepare_within(comm_task_t *task, plan_reach_t reach) {
  flight_call_t id = task->engine_call->id;
  uint64_t history = task->engine_call->history;
  comm_shape_t shape = task->call->shape;
  comm_traits_t traits = comm_traits_of(shape);
  traits.reach = reach;
  traits.in_place = traits.in_place && task->scaled == NULL;
  shape.traits = comm_traits_pack(traits);
  COLL_TRY(prepare(task, shape));
  task->engine_call->id = id;
  task->engine_call->history = history;
  return COLL_OK;
}

/* What tells the call from one that is alike but for the group it is in, or is no split. */
static flight_call_t identity_of(const comm_call_t *call, flight_call_t id) {
  if (!call->splits && !call->continues && call->coalesced == NULL) return id;
  flight_words_t words = flight_call_words(id);
  if (call->splits) words.verb = FLIGHT_SPLIT;
  words.continues = call->continues;
  words.coalesced = call->coalesced != NULL;
  return flight_call_make(&words);
}

/* Every member of a coalesced group has a number and is recorded. They travel under the first
 * one's number, with the digest of all of them for a count. */
BASE_APART static void begin_coalesced(comm_task_t *task) {
  struct coll_comm *comm = task->call->comm;
  const struct comm_coalesced *coalesced = task->call->coalesced;
  engine_call_t scratch, *engine_call = task->engine_call;
  uint64_t history = comm->history;
  flight_call_t member = task->id;
  for (size_t i = 0; i < coalesced->count; i++) {
    member.count = coalesced->pieces[i].bytes / engine_call->element_bytes;
    comm_collective_begin(comm, member, &scratch);
  }
  engine_call->id = (flight_call_t){flight_what_at(task->id.what, task->number), comm->history};
  engine_call->history = history;
}

/* The call takes its number. */
static void begin_collective(comm_task_t *task) {
  struct coll_comm *comm = task->call->comm;
  task->id = identity_of(task->call, task->entry->id);
  if (task->call->coalesced != NULL) {
    begin_coalesced(task);
  } else {
    comm_collective_begin(comm, task->id, task->engine_call);
  }
  task->end_number = comm->sequence;
}

static coll_status_t begin_run(comm_task_t *task) {
  struct coll_comm *comm = task->call->comm;
  const plan_t *plan = task->entry->plan->plan;
  task->state = COMM_TASK_RUNNING;
  task->run = &task->entry->run;
  return engine_run_begin(task->run, &comm->world, plan, &plan->programs[comm->rank],
                          task->engine_call);
}

/* Whether a call of the shape that is prepared comes to no more than its run. */
static bool is_all_run(const comm_task_t *task) {
  const comm_call_t *call = task->call;
  bool in_turns = call->comm->executors > 1 && task->entry->plan->algo->by_executor;
  return !in_turns && !is_of_op(call, COMM_PREMUL) && !is_of_op(call, COLL_AVG);
}

/* Whether calls like this one, which has begun its run, take the short way (repeat.h). */
static void note_repeats(const comm_task_t *task) {
  comm_cache_entry_t *prepared = task->entry;
  size_t element_bytes = task->engine_call->element_bytes;
  prepared->repeats = task->run->can_restart && is_all_run(task) &&
                      common_bytes(task->call) <= COMM_FASTPATH_BYTES_MAX;
  prepared->send_bytes = buffer_elements(task->call, PLAN_INPUT) * element_bytes;
  prepared->recv_bytes = buffer_elements(task->call, PLAN_OUTPUT) * element_bytes;
}

/* Every rank's premul-sum is a plain sum of buffers that the scalar went over first. */
BASE_COLD static coll_status_t scale_and_prepare(comm_task_t *task) {
  const comm_call_t *call = task->call;
  coll_dtype_t dtype = comm_traits_of(call->shape).dtype;
  size_t elements = buffer_elements(call, PLAN_INPUT);
  COLL_TRY(shm_memory_alloc(elements * base_dtype_bytes(dtype), &task->scaled));
  COLL_TRY(
      call->comm->world.device->scale(task->scaled, call->send, elements, dtype, &call->scalar));
  return prepare_within(task, PLAN_REACH_USER);
}

/* The meeting found, or is going to find, that not all memory can be mapped. */
static coll_status_t choose_unmapped(comm_task_t *task) {
  comm_note_unmappable(task->call->comm, comm_traits_of(task->call->shape).collective,
                       common_bytes(task->call));
  return prepare_within(task, PLAN_REACH_SCRATCH);
}

/* A rank whose own memory cannot be mapped knows how the meeting ends. It says so and goes on at
 * once by way of scratch, unless that takes messages, which would get in front of the offers. */
static coll_status_t forestall_meeting(comm_task_t *task) {
  bool moved, done, mappable;
  COLL_TRY(choose_unmapped(task));
  if (task->entry->plan->plan->message_chunks > 0) return COLL_OK;
  COLL_TRY(engine_exchange_advance(&task->handshake, &moved, &done, &mappable));
  if (task->handshake.sent < task->call->comm->size - 1) return COLL_OK;
  task->offers_due = !done;
  return begin_run(task);
}

/* The plan reaches into users' memory, if that can be mapped. */
BASE_APART static coll_status_t begin_meeting(comm_task_t *task) {
  const comm_call_t *call = task->call;
  coll_collective_t collective = comm_traits_of(call->shape).collective;
  if (comm_exchange_is_skipped(call->comm, collective, common_bytes(call))) {
    COLL_TRY(prepare_within(task, PLAN_REACH_SCRATCH));
    return begin_run(task);
  }
  size_t bytes = task->engine_call->element_bytes;
  COLL_TRY(engine_exchange_begin(&task->handshake, &call->comm->world, task->engine_call,
                                 buffer_elements(call, PLAN_INPUT) * bytes,
                                 buffer_elements(call, PLAN_OUTPUT) * bytes));
  task->state = COMM_TASK_EXCHANGING;
  return task->handshake.own_mappable ? COLL_OK : forestall_meeting(task);
}

static coll_status_t start_collective(comm_task_t *task) {
  const comm_call_t *call = task->call;
  task->number = call->comm->sequence;
  if (call->coalesced != NULL) comm_coalesced_gather(call);
  COLL_TRY(prepare(task, call->shape));
  begin_collective(task);
  if (call->shape.count > 0 && is_of_op(call, COMM_PREMUL)) COLL_TRY(scale_and_prepare(task));
  if (task->entry->plan->plan->reach == PLAN_REACH_USER) return begin_meeting(task);
  COLL_TRY(begin_run(task));
  note_repeats(task);
  return COLL_OK;
}

/* Both sides of a pair give their messages the same identity, and are recorded under their own. */
static void identify_pair(comm_task_t *task, const comm_traits_t *traits,
                          engine_call_t *engine_call, uint64_t number) {
  const comm_call_t *call = task->call;
  flight_words_t words = {.verb = COLL_SENDRECV,
                          .dtype = traits->dtype,
                          .op = FLIGHT_OP_NONE,
                          .count = call->shape.count};
  flight_call_t wire = flight_call_make(&words);
  words.verb = call->kind == COMM_SEND ? FLIGHT_SEND : FLIGHT_RECV;
  words.root = traits->root;
  task->id = flight_call_make(&words);
  task->number = number;
  engine_call->id = (flight_call_t){flight_what_at(wire.what, number), wire.count};
  flight_record(call->comm->local->flight, number, task->id.what, task->id.count);
}

/* Sends and receives of a pair are numbered, so that each side knows which the other is in. */
static coll_status_t start_pair(comm_task_t *task) {
  const comm_call_t *call = task->call;
  const comm_traits_t traits = comm_traits_of(call->shape);
  struct coll_comm *comm = call->comm;
  comm_pair_t *pair;
  COLL_TRY(comm_pair_of(comm, call->kind == COMM_SEND, traits.root, &pair));
  engine_call_t *engine_call = &pair->call;
  engine_call->input = call->send;
  engine_call->output = call->recv;
  engine_call->count = call->shape.count;
  engine_call->dtype = traits.dtype;
  engine_call->element_bytes = base_dtype_bytes(traits.dtype);
  identify_pair(task, &traits, engine_call, pair->calls++);
  task->engine_call = engine_call;
  task->state = COMM_TASK_RUNNING;
  task->run = &pair->run;
  return engine_run_begin(task->run, &comm->world, &pair->plan, &pair->program, engine_call);
}

coll_status_t comm_task_start(comm_task_t *task) {
  assert(task->state == COMM_TASK_WAITING);
  COLL_TRY(comm_failure(task->call->comm));
  return task->call->kind == COMM_COLLECTIVE ? start_collective(task) : start_pair(task);
}

BASE_APART static coll_status_t meet(comm_task_t *task, bool *moved) {
  bool done, mappable;
  COLL_TRY(engine_exchange_advance(&task->handshake, moved, &done, &mappable));
  if (!done) return COLL_OK;
  *moved = true;
  if (!mappable) COLL_TRY(choose_unmapped(task));
  return begin_run(task);
}

/* The peers' offers are still to be taken, so that the next call does not find them. */
BASE_APART static coll_status_t hear_the_rest(comm_task_t *task, bool *moved) {
  bool heard, done, mappable;
  COLL_TRY(engine_exchange_advance(&task->handshake, &heard, &done, &mappable));
  *moved = *moved || heard;
  task->offers_due = !done;
  return COLL_OK;
}

BASE_APART static coll_status_t divide_output(const comm_call_t *call) {
  size_t elements = buffer_elements(call, PLAN_OUTPUT);
  return call->comm->world.device->divide(call->recv, elements, comm_traits_of(call->shape).dtype,
                                          call->comm->size);
}

static coll_status_t finish(comm_task_t *task) {
  const comm_call_t *call = task->call;
  if (call->kind != COMM_COLLECTIVE) {
    task->state = COMM_TASK_DONE;
    return COLL_OK;
  }
  if (is_of_op(call, COLL_AVG)) COLL_TRY(divide_output(call));
  if (call->coalesced != NULL) comm_coalesced_scatter(call);
  flight_complete(call->comm->local->flight, task->end_number);
  task->state = COMM_TASK_DONE;
  return COLL_OK;
}

coll_status_t comm_task_advance(comm_task_t *task, bool *moved) {
  *moved = false;
  if (task->state == COMM_TASK_EXCHANGING) COLL_TRY(meet(task, moved));
  if (task->state != COMM_TASK_RUNNING) return COLL_OK;
  if (!task->ran) {
    bool ran;
    COLL_TRY(engine_run_advance(task->run, &ran, &task->ran));
    *moved = *moved || ran;
    if (!task->ran) return COLL_OK;
  }
  if (task->offers_due) COLL_TRY(hear_the_rest(task, moved));
  return task->offers_due ? COLL_OK : finish(task);
}

void comm_task_waits_for(const comm_task_t *task, base_ranks_t *ranks) {
  if (task->state == COMM_TASK_RUNNING && !task->ran) {
    engine_run_waits_for(task->run, ranks);
  } else if (comm_task_is_under_way(task)) {
    engine_exchange_waits_for(&task->handshake, ranks);
  }
}

bool comm_task_standstill(const comm_task_t *task, uint64_t *place, uint64_t *missing) {
  uint32_t within = 0;
  if (task->call->kind != COMM_COLLECTIVE) return false;
  if (task->state == COMM_TASK_RUNNING && !task->ran) {
    engine_run_standstill(task->run, &within, missing);
  } else {
    *missing = engine_exchange_missing(&task->handshake);
  }
  *place = (task->number + 1) << 32 | within;
  return true;
}

void comm_task_free_scaled(comm_task_t *task) {
  if (task->state == COMM_TASK_DONE) {
    shm_memory_free(task->scaled);
  } else { /* peers that are threads of this process may still be reading it */
    task->call->comm->retained_memory = task->scaled;
  }
  task->scaled = NULL;
}
