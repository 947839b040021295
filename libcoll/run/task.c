/*
 * A collective looks up its plan, exchanges buffer addresses if the plan accesses users' memory
 * (and looks up another plan if some of it cannot be mapped), and runs.
 *
 * An average of integers is a sum that is divided at the end. One of floats (device/average.h) is a
 * reduction of its own if the plan reduces all operands in one step (PLAN_ORDER_EXACT). Else the
 * operands are weighted before the first step, the plan sums them, and the sum is divided; narrow
 * floats, which partial sums round, have no such plans (tune_order_of).
 */
#include "run/task.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/inline.h"
#include "base/names.h"
#include "comm/plan_cache.h"
#include "device/average.h"
#include "run/coalesce.h"
#include "transport/memory.h"

/* Of an allgatherv or reduce_scatterv, whose blocks are packed if anybody asks for all of them. */
BASE_APART static size_t vector_elements(const run_call_t *call, coll_collective_t collective,
                                         plan_buffer_t buffer) {
  size_t sum = 0;
  if (plan_blocks_of(collective, buffer) == PLAN_BLOCKS_ONE) return call->blocks[call->comm->rank];
  for (int rank = 0; rank < call->comm->size; rank++) sum += call->blocks[rank];
  return sum;
}

static size_t buffer_elements(const run_call_t *call, plan_buffer_t buffer) {
  const comm_traits_t traits = comm_traits_of(call->shape);
  const plan_shape_t shape = {
      .collective = traits.collective, .size = call->comm->size, .root = traits.root};
  if (comm_has_count_arrays(&traits)) return vector_elements(call, traits.collective, buffer);
  return (size_t)plan_blocks(&shape, call->comm->rank, buffer) * call->shape.count;
}

static bool is_of_op(const run_call_t *call, coll_op_t op) {
  const comm_traits_t traits = comm_traits_of(call->shape);
  return traits.op == op && base_collective_reduces(traits.collective);
}

/* Bytes of the largest block; 0 where only pairs of ranks know sizes. */
static size_t block_bytes(const run_call_t *call) {
  const comm_traits_t traits = comm_traits_of(call->shape);
  if (base_collective_counts_by_pair(traits.collective)) return 0;
  return call->shape.count * base_dtype_bytes(traits.dtype);
}

BASE_APART static void point_at_blocks(engine_call_t *engine_call, const run_call_t *call) {
  const comm_traits_t traits = comm_traits_of(call->shape);
  const size_t *blocks = call->blocks, size = (size_t)call->comm->size;
  if (comm_has_count_arrays(&traits)) {
    engine_call->ranks = (engine_blocks_t){blocks, blocks + size};
    engine_call->has_gaps = !comm_blocks_are_packed(blocks, blocks + size, call->comm->size);
    return;
  }
  run_call_blocks(call, &engine_call->input_blocks, &engine_call->output_blocks);
}

/* Whether the plan averages, rather than sums. */
static bool averages_in_plan(const run_task_t *task) {
  const comm_traits_t traits = comm_traits_of(task->call->shape);
  return comm_averages_floats(&traits) && !task->weighted &&
         task->entry->plan->plan->order == PLAN_ORDER_EXACT;
}

/* The fast path takes the entry as it is, so not after a call with weighted operands. */
BASE_APART static void set_average(const run_task_t *task) {
  task->entry->call.op = averages_in_plan(task) ? COLL_AVG : COLL_SUM;
  if (task->weighted) task->entry->fast_traits = 0;
}

BASE_INLINE coll_status_t look_up_entry(run_task_t *task, comm_shape_t shape) {
  const run_call_t *call = task->call;
  struct coll_comm *comm = call->comm;
  COLL_TRY(comm_cache_lookup(comm, shape, &task->entry));
  engine_call_t *engine_call = &task->entry->call;
  engine_call->input = task->input;
  engine_call->output = call->recv;
  if (is_of_op(call, COLL_AVG)) set_average(task);
  if (call->blocks != NULL) point_at_blocks(engine_call, call);
  task->engine_call = engine_call;
  return COLL_OK;
}

/* Looks up a plan of at most `reach`. Scaled operands are in another buffer than the call's: the
 * plan is in place if that is the output. The call keeps its identity. */
BASE_APART static coll_status_t look_up_within(run_task_t *task, plan_reach_t reach) {
  flight_call_t id = task->engine_call->id;
  uint64_t history = task->engine_call->history;
  comm_shape_t shape = task->call->shape;
  comm_traits_t traits = comm_traits_of(shape);
  traits.reach = reach;
  if (task->input != task->call->send) traits.in_place = task->input == task->call->recv;
  shape.traits = comm_traits_pack(traits);
  COLL_TRY(look_up_entry(task, shape));
  task->engine_call->id = id;
  task->engine_call->history = history;
  return COLL_OK;
}

/* Adds to the identity the membership in a group, the call that it is a part or piece of, and
 * counts that the shape does not have. */
static flight_call_t identity_of(const run_call_t *call, flight_call_t id) {
  const comm_traits_t traits = comm_traits_of(call->shape);
  bool uneven = comm_has_count_arrays(&traits) && traits.blocks == COMM_BLOCKS_UNEVEN;
  if (call->part_of == 0 && call->piece_of == 0 && !call->continues && call->coalesced == NULL &&
      !uneven) {
    return id;
  }
  flight_words_t words = flight_call_words(id);
  if (uneven) flight_words_set_counts(&words, call->blocks, 0, call->comm->size);
  if (call->part_of != 0) words.verb = call->part_of;
  if (call->piece_of != 0) words.count = call->piece_of;
  words.continues = call->continues;
  words.coalesced = call->coalesced != NULL;
  return flight_call_make(&words);
}

/* Every coalesced call has a number and is recorded. The messages carry the first call's number,
 * and the digest of all of them as count. */
BASE_APART static void begin_coalesced(run_task_t *task) {
  struct coll_comm *comm = task->call->comm;
  const struct run_coalesced *coalesced = task->call->coalesced;
  engine_call_t scratch, *engine_call = task->engine_call;
  uint64_t history = comm->history;
  flight_call_t member = task->id;
  for (size_t i = 0; i < coalesced->count; i++) {
    member.count = coalesced->members[i].bytes / engine_call->element_bytes;
    comm_collective_begin(comm, member, &scratch);
  }
  engine_call->id = (flight_call_t){flight_what_at(task->id.what, task->number), comm->history};
  engine_call->history = history;
}

/* Numbers the call. */
static void begin_collective(run_task_t *task) {
  struct coll_comm *comm = task->call->comm;
  task->id = identity_of(task->call, task->entry->id);
  if (task->call->coalesced != NULL) {
    begin_coalesced(task);
  } else {
    comm_collective_begin(comm, task->id, task->engine_call);
    task->engine_call->id.count += task->engine_call->pair_count;
  }
  task->end_number = comm->sequence;
}

static coll_status_t begin_run(run_task_t *task) {
  struct coll_comm *comm = task->call->comm;
  const plan_t *plan = task->entry->plan->plan;
  task->state = RUN_TASK_RUNNING;
  task->run = &task->entry->run;
  return engine_run_begin(task->run, &comm->world, plan, &plan->programs[comm->rank],
                          task->engine_call);
}

/* Whether calls of this shape need nothing but the run: no scaling, no division. */
static bool needs_only_run(const run_task_t *task) {
  const run_call_t *call = task->call;
  if (is_of_op(call, COMM_PREMUL)) return false;
  return !is_of_op(call, COLL_AVG) || averages_in_plan(task);
}

/* Records in the entry whether calls of this shape may take the fast path (fastpath.h). The run has
 * begun. */
static void note_fastpath(const run_task_t *task) {
  comm_cache_entry_t *entry = task->entry;
  size_t element_bytes = task->engine_call->element_bytes;
  bool is_fast = task->run->can_restart && needs_only_run(task) && !task->call->comm->near_gpu &&
                 block_bytes(task->call) <= COMM_FASTPATH_BYTES_MAX;
  entry->fast_traits = is_fast ? entry->shape.traits : 0;
  entry->send_bytes = buffer_elements(task->call, PLAN_INPUT) * element_bytes;
  entry->recv_bytes = buffer_elements(task->call, PLAN_OUTPUT) * element_bytes;
}

/* Scales this rank's operands, into the output if all of them fit there. */
static coll_status_t scale_operands(run_task_t *task, const void *scalar) {
  const run_call_t *call = task->call;
  const comm_traits_t traits = comm_traits_of(call->shape);
  size_t elements = buffer_elements(call, PLAN_INPUT);
  void *scaled = call->recv;
  if (traits.collective != COLL_ALLREDUCE) {
    size_t bytes = elements * base_dtype_bytes(traits.dtype);
    COLL_TRY(transport_memory_alloc(bytes, &task->scaled));
    scaled = task->scaled;
  }
  COLL_TRY(call->comm->world.device->scale(scaled, call->send, elements, traits.dtype, scalar));
  task->input = scaled;
  return COLL_OK;
}

/* A premul-sum is a plain sum of operands that each rank has scaled before. */
BASE_COLD static coll_status_t scale_premul(run_task_t *task, plan_reach_t reach) {
  const run_call_t *call = task->call;
  size_t bytes = base_dtype_bytes(comm_traits_of(call->shape).dtype);
  uint64_t scalar = call->scalar.value;
  if (call->scalar.address != NULL) memcpy(&scalar, call->scalar.address, bytes);
  COLL_TRY(scale_operands(task, &scalar));
  return look_up_within(task, reach);
}

/* Weighs the operands of an average, float32 or float64, if the plan does not. Then looks up
 * another plan, of at most `reach`, as they are in another buffer. */
BASE_APART static coll_status_t weigh_within(run_task_t *task, plan_reach_t reach) {
  const comm_traits_t traits = comm_traits_of(task->call->shape);
  if (!comm_averages_floats(&traits) || averages_in_plan(task) || task->weighted) return COLL_OK;
  float weight = device_average_of(task->call->comm->size).weight;
  double wide = (double)weight;
  task->weighted = true;
  COLL_TRY(scale_operands(task, traits.dtype == COLL_FLOAT64 ? (const void *)&wide : &weight));
  return look_up_within(task, reach);
}

/* The address exchange found, or will find, that the buffers allow no further reach than this:
 * looks up a plan within it. */
static coll_status_t choose_within(run_task_t *task, plan_reach_t reach) {
  comm_note_reach(task->call->comm, comm_traits_of(task->call->shape).collective,
                  block_bytes(task->call), reach);
  COLL_TRY(look_up_within(task, reach));
  /* peers know the addresses of operands that are not weighted */
  return weigh_within(task, PLAN_REACH_SCRATCH);
}

/* Whether the exchange will find that users' memory cannot be accessed: this rank's cannot be
 * mapped, and it cannot get from its peers. */
static bool is_futile(const run_task_t *task) {
  return !task->exchange.own_mapped && !task->call->comm->world.gets;
}

/* Before an exchange that is futile: sends this rank's addresses and runs a plan without access to
 * users' memory at once, unless that plan uses messages, which would be received in place of the
 * addresses. */
static coll_status_t skip_futile_exchange(run_task_t *task) {
  bool moved, done;
  plan_reach_t reach;
  COLL_TRY(choose_within(task, PLAN_REACH_SCRATCH));
  if (task->entry->plan->plan->message_chunks > 0) return COLL_OK;
  COLL_TRY(engine_exchange_advance(&task->exchange, &moved, &done, &reach));
  if (task->exchange.sent < task->call->comm->size - 1) return COLL_OK;
  task->addresses_due = !done;
  return begin_run(task);
}

/* For a plan that accesses users' memory. */
BASE_APART static coll_status_t begin_exchange(run_task_t *task) {
  const run_call_t *call = task->call;
  size_t bytes = task->engine_call->element_bytes;
  COLL_TRY(engine_exchange_begin(&task->exchange, &call->comm->world, task->engine_call,
                                 buffer_elements(call, PLAN_INPUT) * bytes,
                                 buffer_elements(call, PLAN_OUTPUT) * bytes));
  task->state = RUN_TASK_EXCHANGING;
  return is_futile(task) ? skip_futile_exchange(task) : COLL_OK;
}

/* The shape of the call within the reach that its memory is expected to have. */
static comm_shape_t expected_shape(const run_call_t *call) {
  comm_traits_t traits = comm_traits_of(call->shape);
  plan_reach_t reach = comm_expected_reach(call->comm, traits.collective, block_bytes(call));
  if (reach >= traits.reach) return call->shape;
  traits.reach = reach;
  return comm_shape_make(traits, call->shape.count);
}

static coll_status_t start_collective(run_task_t *task) {
  const run_call_t *call = task->call;
  task->number = call->comm->sequence;
  if (call->coalesced != NULL) run_coalesced_gather(call);
  COLL_TRY(look_up_entry(task, expected_shape(call)));
  begin_collective(task);
  plan_reach_t reach = comm_traits_of(task->entry->shape).reach;
  if (call->shape.count > 0 && is_of_op(call, COMM_PREMUL)) COLL_TRY(scale_premul(task, reach));
  if (call->shape.count > 0 && is_of_op(call, COLL_AVG)) COLL_TRY(weigh_within(task, reach));
  if (plan_reach_exchanges(task->entry->plan->plan->reach)) return begin_exchange(task);
  COLL_TRY(begin_run(task));
  note_fastpath(task);
  return COLL_OK;
}

/* Both ranks of a pair use the same identity on the wire; the recorders show send and receive. */
static void identify_pair(run_task_t *task, const comm_traits_t *traits, engine_call_t *engine_call,
                          uint64_t number) {
  const run_call_t *call = task->call;
  flight_words_t words = {.verb = COLL_SENDRECV,
                          .dtype = traits->dtype,
                          .op = FLIGHT_OP_NONE,
                          .count = call->shape.count};
  flight_call_t wire = flight_call_make(&words);
  words.verb = call->kind == RUN_SEND ? FLIGHT_SEND : FLIGHT_RECV;
  words.root = traits->root;
  task->id = flight_call_make(&words);
  task->number = number;
  engine_call->id = (flight_call_t){flight_what_at(wire.what, number), wire.count};
  flight_record(call->comm->local->flight, number, task->id.what, task->id.count);
}

/* Sends and receives of a pair are numbered, so that each rank can compare its call with the
 * peer's. */
static coll_status_t start_pair(run_task_t *task) {
  const run_call_t *call = task->call;
  const comm_traits_t traits = comm_traits_of(call->shape);
  struct coll_comm *comm = call->comm;
  comm_pair_t *pair;
  COLL_TRY(comm_pair_of(comm, call->kind == RUN_SEND, traits.root, &pair));
  engine_call_t *engine_call = &pair->call;
  engine_call->input = call->send;
  engine_call->output = call->recv;
  engine_call->count = call->shape.count;
  engine_call->dtype = traits.dtype;
  engine_call->element_bytes = base_dtype_bytes(traits.dtype);
  identify_pair(task, &traits, engine_call, pair->calls++);
  task->engine_call = engine_call;
  task->state = RUN_TASK_RUNNING;
  task->run = &pair->run;
  return engine_run_begin(task->run, &comm->world, &pair->plan, &pair->program, engine_call);
}

static bool must_follow(const run_call_t *later, const run_call_t *earlier) {
  if (later->comm != earlier->comm || later->kind != earlier->kind) return false;
  return later->kind == RUN_COLLECTIVE ||
         comm_traits_of(later->shape).root == comm_traits_of(earlier->shape).root;
}

/* The task that this one follows; NULL: none. *is_grouped: of the same batch. */
static run_task_t *followed_by(const run_task_t *task, bool *is_grouped) {
  run_task_t *earlier = task->previous;
  *is_grouped = task->is_grouped;
  while (earlier != NULL && !must_follow(task->call, earlier->call)) {
    *is_grouped = *is_grouped && earlier->is_grouped;
    earlier = earlier->previous;
  }
  return earlier;
}

/* Whether the call is a send that waits at its end for what its receiver has (drain.h). */
static bool is_long_send(const run_call_t *call) {
  size_t element_bytes = base_dtype_bytes(comm_traits_of(call->shape).dtype);
  return call->kind == RUN_SEND && call->shape.count > TRANSPORT_P2P_BYTES / element_bytes;
}

/* A shorter send waits for nobody at its end, and another thread's call not for what this one sends
 * behind it. */
bool run_task_may_start(const run_task_t *task) {
  bool is_grouped;
  const run_task_t *earlier = followed_by(task, &is_grouped);
  if (earlier == NULL || earlier->state == RUN_TASK_DONE) return true;
  return is_grouped && earlier->ran && is_long_send(task->call);
}

/* The run of a pair is reused while the receiver does not have what it has sent: this task waits
 * for that in place of the earlier one. */
static void take_over(run_task_t *task) {
  bool is_grouped;
  run_task_t *earlier = followed_by(task, &is_grouped);
  if (earlier == NULL || earlier->state == RUN_TASK_DONE) return;
  task->receiver = earlier->receiver;
  earlier->state = RUN_TASK_DONE;
}

coll_status_t run_task_start(run_task_t *task) {
  assert(task->state == RUN_TASK_WAITING);
  COLL_TRY(comm_failure(task->call->comm));
  if (task->call->kind == RUN_COLLECTIVE) return start_collective(task);
  take_over(task);
  return start_pair(task);
}

BASE_APART static coll_status_t advance_exchange(run_task_t *task, bool *moved) {
  bool done;
  plan_reach_t reach;
  COLL_TRY(engine_exchange_advance(&task->exchange, moved, &done, &reach));
  if (!done) return COLL_OK;
  *moved = true;
  if (reach < comm_traits_of(task->entry->shape).reach) COLL_TRY(choose_within(task, reach));
  return begin_run(task);
}

/* Receives the remaining addresses, so that the next call does not receive them. */
BASE_APART static coll_status_t take_remaining_addresses(run_task_t *task, bool *moved) {
  bool received, done;
  plan_reach_t reach;
  COLL_TRY(engine_exchange_advance(&task->exchange, &received, &done, &reach));
  *moved = *moved || received;
  task->addresses_due = !done;
  return COLL_OK;
}

/* The division that an average still needs: if its operands are weighted, and as many as a power of
 * two, by 1. */
BASE_APART static coll_status_t divide_output(const run_task_t *task) {
  const run_call_t *call = task->call;
  size_t elements = buffer_elements(call, PLAN_OUTPUT);
  int size = call->comm->size;
  if (task->weighted && (size & (size - 1)) == 0) return COLL_OK;
  return call->comm->world.device->divide(call->recv, elements, comm_traits_of(call->shape).dtype,
                                          size);
}

static coll_status_t complete(run_task_t *task) {
  const run_call_t *call = task->call;
  if (call->kind != RUN_COLLECTIVE) {
    task->state = RUN_TASK_DONE;
    return COLL_OK;
  }
  engine_world_end_loans(&call->comm->world);
  if (is_of_op(call, COLL_AVG) && !averages_in_plan(task)) COLL_TRY(divide_output(task));
  if (call->coalesced != NULL) run_coalesced_scatter(call);
  flight_complete(call->comm->local->flight, task->end_number);
  task->state = RUN_TASK_DONE;
  return COLL_OK;
}

static void note_receiver(run_task_t *task) {
  bool waits = task->call->kind == RUN_SEND && task->run->drain_count > 0;
  if (waits) task->receiver = task->run->drains[0].peer;
}

static bool is_drained(const run_task_t *task) {
  if (!task->call->comm->local->delays) return true;
  if (task->call->kind == RUN_COLLECTIVE) return engine_drain_is_over(task->run);
  return task->receiver.port == NULL || engine_drain_is_over_for(&task->receiver);
}

coll_status_t run_task_advance(run_task_t *task, bool *moved) {
  *moved = false;
  if (task->state == RUN_TASK_EXCHANGING) COLL_TRY(advance_exchange(task, moved));
  if (task->state != RUN_TASK_RUNNING) return COLL_OK;
  if (!task->ran) {
    bool ran;
    COLL_TRY(engine_run_advance(task->run, &ran, &task->ran));
    *moved = *moved || ran;
    if (!task->ran) return COLL_OK;
    note_receiver(task);
    if (run_task_is_ending(task)) return COLL_OK;
  }
  if (task->addresses_due) COLL_TRY(take_remaining_addresses(task, moved));
  if (task->addresses_due || !is_drained(task)) return COLL_OK;
  *moved = true;
  return complete(task);
}

void run_task_waits_for(const run_task_t *task, base_ranks_t *ranks) {
  if (task->state == RUN_TASK_RUNNING && !task->ran) {
    engine_run_waits_for(task->run, ranks);
  } else if (run_task_is_exchanging(task)) {
    engine_exchange_waits_for(&task->exchange, ranks);
  } else if (task->state == RUN_TASK_RUNNING && task->call->kind == RUN_COLLECTIVE) {
    engine_drain_waits_for(task->run, ranks);
  } else if (task->state == RUN_TASK_RUNNING && task->receiver.port != NULL) {
    base_ranks_add(ranks, task->receiver.rank);
  }
}

bool run_task_progress(const run_task_t *task, uint64_t *progress, uint64_t *missing) {
  uint32_t within = 0;
  if (task->call->kind != RUN_COLLECTIVE) return false;
  *missing = 0;
  if (task->state == RUN_TASK_RUNNING && !task->ran) {
    engine_run_standstill(task->run, &within, missing);
  } else if (run_task_is_exchanging(task)) {
    *missing = engine_exchange_missing(&task->exchange);
  }
  *progress = (task->number + 1) << 32 | within;
  return true;
}

void run_task_free_scaled(run_task_t *task) {
  if (task->state == RUN_TASK_DONE) {
    transport_memory_free(task->scaled);
  } else { /* peers in this process may still be reading it */
    task->call->comm->retained_memory = task->scaled;
  }
  task->scaled = NULL;
}
