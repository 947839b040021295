/*
 * The unit of interleaving is one read or one write of one chunk. Actors are the lanes of all ranks
 * and, per rank, the caller, which enters and leaves the call. A schedule decides which actor moves
 * next.
 */
#include "brute.h"

#include <stdlib.h>
#include <string.h>

#include "random.h"

#define SLOTS_MAX 8 /* slots of a FIFO, independent of the plan's depth */
#define DEPTH_MAX 4 /* of the plans that are run */
#define RUNS_MAX 16 /* partial results of a reduction, of 1, 2, 4, … operands each */

/* The contents of a chunk: `sum` identifies the contributions in it, `hash` also the expression,
 * `rounded` also where it was rounded. */
typedef struct number {
  uint64_t sum, hash, rounded;
} number_t;

typedef struct lane {
  int32_t rank, lane, step;
  int32_t phase;           /* reads and writes of the current step that are done */
  number_t runs[RUNS_MAX]; /* operands of a reduction that were read and not yet written; of a copy:
                              [0] */
  int32_t lengths[RUNS_MAX], run_count;
  bool is_backwards; /* steps process their chunks from the last to the first */
} lane_t;

typedef struct fifo {
  int32_t pushed, popped, signals;
  struct {
    int32_t count, part;
    number_t *numbers; /* [message_chunks] */
  } slots[SLOTS_MAX];
} fifo_t;

typedef enum call { CALL_OUTSIDE, CALL_INSIDE, CALL_LEFT } call_t;

struct brute {
  const plan_t *plan;
  int32_t ranks, lane_count, actor_count;
  int32_t numbers_per_pair;            /* channels, or lanes if there are more */
  size_t (*offset)[PLAN_BUFFER_COUNT]; /* of each rank's buffers in memory[] */
  size_t (*extent)[2];                 /* [ranks]: first cell and past the last */
  size_t cells;
  number_t *memory;
  call_t *calls; /* [ranks] */
  lane_t *lanes;
  fifo_t *fifos;     /* [ranks * ranks * numbers_per_pair] */
  number_t *numbers; /* storage of the FIFOs' slots */
  number_t *agreed;  /* [parts]: the allreduce result of the first rank that finished */
  bool has_agreed;
  int32_t depth;   /* FIFO depth in this run */
  uint64_t poison; /* changes from run to run */
  brute_fault_t fault;
};

static void *array(size_t count, size_t bytes) {
  void *memory = calloc(count > 0 ? count : 1, bytes);
  if (memory == NULL) abort();
  return memory;
}

/* ---- memory --------------------------------------------------------------------------------- */

/* Offset of INPUT from OUTPUT in an in-place call, by the pointers that coll.h requires; false
 * where the collective has no in-place form for this rank. */
static bool in_place_distance(const plan_t *plan, int32_t rank, int32_t *distance) {
  int32_t own = rank * plan->parts;
  bool is_root = rank == plan->shape.root;
  switch (plan->shape.collective) {
    case COLL_ALLREDUCE:
    case COLL_ALLTOALL: *distance = 0; return true;
    case COLL_REDUCE:
    case COLL_BROADCAST: *distance = 0; return is_root;
    case COLL_ALLGATHER: *distance = own; return true;
    case COLL_GATHER: *distance = own; return is_root;
    case COLL_REDUCE_SCATTER: *distance = -own; return true;
    case COLL_SCATTER: *distance = -own; return is_root;
    default: return false;
  }
}

static void lay_out(brute_t *brute) {
  const plan_t *plan = brute->plan;
  size_t next = 0;
  for (int32_t rank = 0; rank < brute->ranks; rank++) {
    size_t inputs = (size_t)plan_chunks(plan, rank, PLAN_INPUT);
    size_t outputs = (size_t)plan_chunks(plan, rank, PLAN_OUTPUT);
    int32_t distance = 0;
    size_t *offset = brute->offset[rank];
    brute->extent[rank][0] = next;
    if (plan->programs[rank].in_place && in_place_distance(plan, rank, &distance)) {
      offset[PLAN_OUTPUT] = next + (size_t)(distance < 0 ? -distance : 0);
      offset[PLAN_INPUT] = next + (size_t)(distance > 0 ? distance : 0);
      next += inputs > outputs ? inputs : outputs;
    } else {
      offset[PLAN_INPUT] = next;
      offset[PLAN_OUTPUT] = next + inputs;
      next += inputs + outputs;
    }
    offset[PLAN_SCRATCH] = next;
    next += (size_t)plan->scratch_chunks;
    brute->extent[rank][1] = next;
  }
  brute->cells = next;
}

static number_t *cell(brute_t *brute, int32_t rank, plan_buffer_t buffer, int32_t chunk) {
  return &brute->memory[brute->offset[rank][buffer] + (size_t)chunk];
}

static number_t *span_cell(brute_t *brute, const plan_span_t *span, int32_t index) {
  return cell(brute, span->rank, span->buffer, span->first + index);
}

static number_t poison_of(const brute_t *brute, size_t index, call_t call) {
  uint64_t bits = random_mix(brute->poison + index * 4 + (uint64_t)call + 1);
  return (number_t){.sum = bits, .hash = ~bits, .rounded = ~bits};
}

static void poison_rank(brute_t *brute, int32_t rank, call_t call) {
  for (size_t i = brute->extent[rank][0]; i < brute->extent[rank][1]; i++) {
    brute->memory[i] = poison_of(brute, i, call);
  }
}

static void check_poison(brute_t *brute, int32_t rank, call_t call) {
  for (size_t i = brute->extent[rank][0]; i < brute->extent[rank][1]; i++) {
    number_t poison = poison_of(brute, i, call);
    if (memcmp(&brute->memory[i], &poison, sizeof poison) != 0) brute->fault = BRUTE_TRESPASS;
  }
}

static number_t leaf(int32_t rank, int32_t chunk) {
  uint64_t bits = random_mix(((uint64_t)rank << 32 | (uint64_t)chunk) + 0x1234567);
  return (number_t){.sum = bits, .hash = random_mix(bits), .rounded = random_mix(bits)};
}

static bool same(number_t a, number_t b) {
  return a.sum == b.sum && a.hash == b.hash;
}

static number_t combine(number_t a, number_t b) {
  return (number_t){.sum = a.sum + b.sum,
                    .hash = random_mix(a.hash * 3 + b.hash),
                    .rounded = random_mix(a.rounded * 3 + b.rounded)};
}

static number_t rounded(number_t number) {
  number.rounded = random_mix(number.rounded + 1);
  return number;
}

/* The value of the canonical expression over the chunk of ranks [first, first + count). */
static number_t canonical(int32_t first, int32_t count, int32_t chunk) {
  int32_t cut = 1;
  if (count == 1) return leaf(first, chunk);
  while (2 * cut < count) cut *= 2;
  return combine(canonical(first, cut, chunk), canonical(first + cut, count - cut, chunk));
}

/* ---- the caller ----------------------------------------------------------------------------- */

static void enter(brute_t *brute, int32_t rank) {
  check_poison(brute, rank, CALL_OUTSIDE);
  poison_rank(brute, rank, CALL_INSIDE);
  int32_t inputs = plan_chunks(brute->plan, rank, PLAN_INPUT);
  for (int32_t i = 0; i < inputs; i++) *cell(brute, rank, PLAN_INPUT, i) = leaf(rank, i);
  brute->calls[rank] = CALL_INSIDE;
}

/* The sum of the chunk over all ranks. */
static uint64_t total(const brute_t *brute, int32_t chunk) {
  uint64_t sum = 0;
  for (int32_t rank = 0; rank < brute->ranks; rank++) sum += leaf(rank, chunk).sum;
  return sum;
}

/* Whether the value is a reduction of all ranks' chunk in the order that the plan states. */
static bool is_in_order(const brute_t *brute, int32_t chunk, number_t got) {
  number_t asked = canonical(0, brute->ranks, chunk);
  if (brute->ranks > 1) asked = rounded(asked);
  if (got.sum != total(brute, chunk)) return false;
  if (brute->plan->order >= PLAN_ORDER_CANONICAL && got.hash != asked.hash) return false;
  return brute->plan->order < PLAN_ORDER_EXACT || got.rounded == asked.rounded;
}

static bool is_right(brute_t *brute, int32_t rank, int32_t chunk, number_t got) {
  const plan_shape_t *shape = &brute->plan->shape;
  int32_t parts = brute->plan->parts, block = chunk / parts, part = chunk % parts;
  switch (shape->collective) {
    case COLL_ALLREDUCE:
      if (!brute->has_agreed) brute->agreed[chunk] = got;
      return is_in_order(brute, chunk, got) && got.rounded == brute->agreed[chunk].rounded;
    case COLL_REDUCE: return is_in_order(brute, chunk, got);
    case COLL_REDUCE_SCATTER: return is_in_order(brute, rank * parts + chunk, got);
    case COLL_BROADCAST: return same(got, leaf(shape->root, chunk));
    case COLL_SCATTER: return same(got, leaf(shape->root, rank * parts + chunk));
    case COLL_ALLGATHER:
    case COLL_GATHER: return same(got, leaf(block, part));
    case COLL_ALLTOALL:
    case COLL_ALLTOALLV: return same(got, leaf(block, rank * parts + part));
    case COLL_SENDRECV: return same(got, leaf(rank > 0 ? rank - 1 : brute->ranks - 1, chunk));
    case COLL_BARRIER:
    case COLL_COLLECTIVE_COUNT: break;
  }
  return true;
}

static void check_output(brute_t *brute, int32_t rank) {
  int32_t outputs = plan_chunks(brute->plan, rank, PLAN_OUTPUT);
  for (int32_t i = 0; i < outputs; i++) {
    if (!is_right(brute, rank, i, *cell(brute, rank, PLAN_OUTPUT, i))) brute->fault = BRUTE_RESULT;
  }
  brute->has_agreed = true;
  if (brute->plan->shape.collective != COLL_BARRIER) return;
  for (int32_t other = 0; other < brute->ranks; other++) {
    if (brute->calls[other] == CALL_OUTSIDE) brute->fault = BRUTE_RESULT;
  }
}

/* INPUT that is not also OUTPUT belongs to the caller at all times. */
static void check_input(brute_t *brute, int32_t rank) {
  int32_t inputs = plan_chunks(brute->plan, rank, PLAN_INPUT);
  size_t first = brute->offset[rank][PLAN_OUTPUT];
  size_t last = first + (size_t)plan_chunks(brute->plan, rank, PLAN_OUTPUT);
  for (int32_t i = 0; i < inputs; i++) {
    size_t at = brute->offset[rank][PLAN_INPUT] + (size_t)i;
    bool is_output = at >= first && at < last;
    if (!is_output && !same(brute->memory[at], leaf(rank, i))) brute->fault = BRUTE_INPUT;
  }
}

static void leave(brute_t *brute, int32_t rank) {
  check_output(brute, rank);
  check_input(brute, rank);
  poison_rank(brute, rank, CALL_LEFT);
  brute->calls[rank] = CALL_LEFT;
}

/* ---- steps ---------------------------------------------------------------------------------- */

static const plan_step_t *step_at(const brute_t *brute, const lane_t *lane) {
  const plan_lane_t *steps = &brute->plan->programs[lane->rank].lanes[lane->lane];
  return (size_t)lane->step < steps->count ? &steps->steps[lane->step] : NULL;
}

static lane_t *lane_of(const brute_t *brute, int32_t rank, int32_t lane) {
  return &brute->lanes[rank * brute->plan->lanes + lane];
}

static fifo_t *fifo_of(brute_t *brute, int32_t source, int32_t destination, int32_t number) {
  return &brute->fifos[(source * brute->ranks + destination) * brute->numbers_per_pair + number];
}

static void advance(lane_t *lane) {
  lane->step++;
  lane->phase = 0;
}

/* The chunk of the index-th access of a step. */
static int32_t chunk_order(const lane_t *lane, int32_t index, int32_t count) {
  return lane->is_backwards ? count - 1 - index : index;
}

/* Depth 0: the sender's lane, if its next step is the matching send. */
static lane_t *meeting_sender(const brute_t *brute, const lane_t *lane, const plan_step_t *recv) {
  int32_t peer = recv->recv.peer;
  for (int32_t number = 0; number < brute->plan->lanes; number++) {
    lane_t *sender = lane_of(brute, peer, number);
    const plan_step_t *step = step_at(brute, sender);
    bool is_there = brute->calls[peer] == CALL_INSIDE && step != NULL && step->kind == PLAN_SEND &&
                    step->send.peer == lane->rank && step->send.channel == recv->recv.channel;
    if (is_there) return sender;
  }
  return NULL;
}

static bool all_inside(const brute_t *brute) {
  for (int32_t rank = 0; rank < brute->ranks; rank++) {
    if (brute->calls[rank] == CALL_OUTSIDE) return false;
  }
  return true;
}

static bool lane_can_move(brute_t *brute, const lane_t *lane) {
  const plan_step_t *step = step_at(brute, lane);
  if (step == NULL || brute->calls[lane->rank] != CALL_INSIDE) return false;
  if (plan_reach_exchanges(brute->plan->reach) && !all_inside(brute)) return false;
  if (lane->phase > 0) return true;
  const fifo_t *fifo;
  switch (step->kind) {
    case PLAN_SEND:
      fifo = fifo_of(brute, lane->rank, step->send.peer, step->send.channel);
      return fifo->pushed - fifo->popped < brute->depth;
    case PLAN_RECV:
      if (brute->depth == 0) return meeting_sender(brute, lane, step) != NULL;
      fifo = fifo_of(brute, step->recv.peer, lane->rank, step->recv.channel);
      return fifo->pushed > fifo->popped;
    case PLAN_WAIT: return fifo_of(brute, step->wait.peer, lane->rank, lane->lane)->signals > 0;
    case PLAN_AFTER: return lane_of(brute, lane->rank, step->after.lane)->step > step->after.step;
    default: return true;
  }
}

static void move_copy(brute_t *brute, lane_t *lane, const plan_span_t *dst,
                      const plan_span_t *src) {
  int32_t index = chunk_order(lane, lane->phase / 2, dst->count);
  if (lane->phase % 2 == 0) {
    lane->runs[0] = *span_cell(brute, src, index);
  } else {
    *span_cell(brute, dst, index) = lane->runs[0];
  }
  lane->phase++;
}

/* Adds the next operand: the stack algorithm of plan.h. */
static void push_operand(lane_t *lane, number_t operand) {
  int32_t top = lane->run_count++;
  if (top >= RUNS_MAX) abort();
  lane->runs[top] = operand;
  lane->lengths[top] = 1;
  for (; top > 0 && lane->lengths[top - 1] == lane->lengths[top]; top--) {
    lane->runs[top - 1] = combine(lane->runs[top - 1], lane->runs[top]);
    lane->lengths[top - 1] *= 2;
  }
  lane->run_count = top + 1;
}

static number_t take_result(lane_t *lane, int32_t operands) {
  number_t result = lane->runs[--lane->run_count];
  while (lane->run_count > 0) result = combine(lane->runs[--lane->run_count], result);
  return operands > 1 ? rounded(result) : result;
}

static void move_reduce(brute_t *brute, lane_t *lane, const plan_step_t *step) {
  const plan_span_t *dst = &step->reduce.dst;
  const plan_span_t *sources =
      &brute->plan->programs[lane->rank].sources[step->reduce.first_source];
  int32_t accesses = step->reduce.source_count + 1, source = lane->phase % accesses;
  int32_t index = chunk_order(lane, lane->phase / accesses, dst->count);
  if (source == step->reduce.source_count) {
    *span_cell(brute, dst, index) = take_result(lane, step->reduce.source_count);
  } else {
    push_operand(lane, *span_cell(brute, &sources[source], index));
  }
  if (++lane->phase == accesses * dst->count) advance(lane);
}

static void move_send(brute_t *brute, lane_t *lane, const plan_step_t *step) {
  const plan_span_t *src = &step->send.src;
  fifo_t *fifo = fifo_of(brute, lane->rank, step->send.peer, step->send.channel);
  int32_t slot = fifo->pushed % SLOTS_MAX;
  int32_t index = chunk_order(lane, lane->phase, src->count);
  fifo->slots[slot].numbers[index] = *span_cell(brute, src, index);
  if (++lane->phase < src->count) return;
  fifo->slots[slot].count = src->count;
  fifo->slots[slot].part = src->first % brute->plan->parts;
  fifo->pushed++;
  advance(lane);
}

static bool fits(brute_t *brute, const plan_span_t *dst, int32_t count, int32_t part) {
  if (dst->count == count && dst->first % brute->plan->parts == part) return true;
  brute->fault = BRUTE_SIZE;
  return false;
}

/* Depth 0: copies the data directly from the sender's to the receiver's memory. */
static void move_meeting(brute_t *brute, lane_t *lane, const plan_step_t *step) {
  lane_t *sender = meeting_sender(brute, lane, step);
  const plan_span_t *src = &step_at(brute, sender)->send.src;
  if (!fits(brute, &step->recv.dst, src->count, src->first % brute->plan->parts)) return;
  move_copy(brute, lane, &step->recv.dst, src);
  if (lane->phase < 2 * src->count) return;
  advance(lane);
  advance(sender);
}

static void move_recv(brute_t *brute, lane_t *lane, const plan_step_t *step) {
  const plan_span_t *dst = &step->recv.dst;
  fifo_t *fifo = fifo_of(brute, step->recv.peer, lane->rank, step->recv.channel);
  int32_t slot = fifo->popped % SLOTS_MAX;
  if (!fits(brute, dst, fifo->slots[slot].count, fifo->slots[slot].part)) return;
  int32_t index = chunk_order(lane, lane->phase, dst->count);
  *span_cell(brute, dst, index) = fifo->slots[slot].numbers[index];
  if (++lane->phase < dst->count) return;
  fifo->popped++;
  advance(lane);
}

static void lane_move(brute_t *brute, lane_t *lane) {
  const plan_step_t *step = step_at(brute, lane);
  switch (step->kind) {
    case PLAN_COPY:
      move_copy(brute, lane, &step->copy.dst, &step->copy.src);
      if (lane->phase == 2 * step->copy.dst.count) advance(lane);
      break;
    case PLAN_REDUCE: move_reduce(brute, lane, step); break;
    case PLAN_SEND: move_send(brute, lane, step); break;
    case PLAN_RECV:
      if (brute->depth == 0) {
        move_meeting(brute, lane, step);
      } else {
        move_recv(brute, lane, step);
      }
      break;
    case PLAN_SIGNAL:
      fifo_of(brute, lane->rank, step->signal.peer, lane->lane)->signals++;
      advance(lane);
      break;
    case PLAN_WAIT:
      fifo_of(brute, step->wait.peer, lane->rank, lane->lane)->signals--;
      advance(lane);
      break;
    default: advance(lane); break;
  }
}

/* ---- actors: lanes first, then callers ------------------------------------------------------- */

static bool lanes_done(const brute_t *brute, int32_t rank) {
  for (int32_t lane = 0; lane < brute->plan->lanes; lane++) {
    if (step_at(brute, lane_of(brute, rank, lane)) != NULL) return false;
  }
  return true;
}

bool brute_can_move(brute_t *brute, int32_t actor) {
  if (actor < brute->lane_count) return lane_can_move(brute, &brute->lanes[actor]);
  int32_t rank = actor - brute->lane_count;
  if (brute->calls[rank] == CALL_OUTSIDE) return true;
  bool may_leave = !plan_reach_exchanges(brute->plan->reach) || all_inside(brute);
  return brute->calls[rank] == CALL_INSIDE && may_leave && lanes_done(brute, rank);
}

void brute_move(brute_t *brute, int32_t actor) {
  if (actor < brute->lane_count) {
    lane_move(brute, &brute->lanes[actor]);
    return;
  }
  int32_t rank = actor - brute->lane_count;
  if (brute->calls[rank] == CALL_OUTSIDE) {
    enter(brute, rank);
  } else {
    leave(brute, rank);
  }
}

void brute_reset(brute_t *brute, uint64_t seed) {
  uint64_t state = seed;
  int32_t more = random_below(&state, 4);
  brute->depth = brute->plan->depth + (more == 3 ? SLOTS_MAX - DEPTH_MAX : more);
  if (seed % 2 == 0) brute->depth = brute->plan->depth;
  brute->poison = random_next(&state);
  brute->fault = BRUTE_RIGHT;
  brute->has_agreed = false;
  for (int32_t i = 0; i < brute->lane_count; i++) {
    lane_t *lane = &brute->lanes[i];
    *lane = (lane_t){.rank = i / brute->plan->lanes, .lane = i % brute->plan->lanes};
    lane->is_backwards = random_next(&state) % 2 == 1;
  }
  for (int32_t i = 0; i < brute->ranks * brute->ranks * brute->numbers_per_pair; i++) {
    fifo_t *fifo = &brute->fifos[i];
    fifo->pushed = fifo->popped = fifo->signals = 0;
  }
  for (int32_t rank = 0; rank < brute->ranks; rank++) {
    brute->calls[rank] = CALL_OUTSIDE;
    poison_rank(brute, rank, CALL_OUTSIDE);
  }
}

brute_fault_t brute_judge(brute_t *brute) {
  if (brute->fault != BRUTE_RIGHT) return brute->fault;
  for (int32_t rank = 0; rank < brute->ranks; rank++) {
    if (brute->calls[rank] != CALL_LEFT) return BRUTE_HANG;
    check_poison(brute, rank, CALL_LEFT);
  }
  for (int32_t i = 0; i < brute->ranks * brute->ranks * brute->numbers_per_pair; i++) {
    const fifo_t *fifo = &brute->fifos[i];
    if (fifo->pushed != fifo->popped || fifo->signals != 0) return BRUTE_LEFTOVER;
  }
  return brute->fault;
}

/* ---- create, free
 * ----------------------------------------------------------------------------------- */

static int32_t numbers_per_pair(const plan_t *plan) {
  int32_t most = plan->lanes;
  for (int32_t i = 0; i < plan->shape.size * plan->lanes; i++) {
    const plan_lane_t *lane = &plan->programs[i / plan->lanes].lanes[i % plan->lanes];
    for (size_t at = 0; at < lane->count; at++) {
      const plan_step_t *step = &lane->steps[at];
      int32_t channel = step->kind == PLAN_SEND   ? step->send.channel
                        : step->kind == PLAN_RECV ? step->recv.channel
                                                  : 0;
      if (channel >= most) most = channel + 1;
    }
  }
  return most;
}

brute_t *brute_create(const plan_t *plan) {
  brute_t *brute = array(1, sizeof *brute);
  size_t ranks = (size_t)plan->shape.size;
  brute->numbers_per_pair = numbers_per_pair(plan);
  size_t fifos = ranks * ranks * (size_t)brute->numbers_per_pair;
  size_t message = (size_t)plan->message_chunks;
  brute->plan = plan;
  brute->ranks = plan->shape.size;
  brute->lane_count = plan->shape.size * plan->lanes;
  brute->actor_count = brute->lane_count + brute->ranks;
  brute->offset = array(ranks, sizeof *brute->offset);
  brute->extent = array(ranks, sizeof *brute->extent);
  lay_out(brute);
  brute->memory = array(brute->cells, sizeof *brute->memory);
  brute->calls = array(ranks, sizeof *brute->calls);
  brute->lanes = array((size_t)brute->lane_count, sizeof *brute->lanes);
  brute->agreed = array((size_t)plan->parts, sizeof *brute->agreed);
  brute->fifos = array(fifos, sizeof *brute->fifos);
  brute->numbers = array(fifos * SLOTS_MAX * message, sizeof *brute->numbers);
  for (size_t i = 0; i < fifos * SLOTS_MAX; i++) {
    brute->fifos[i / SLOTS_MAX].slots[i % SLOTS_MAX].numbers = &brute->numbers[i * message];
  }
  return brute;
}

bool brute_has_failed(const brute_t *brute) {
  return brute->fault != BRUTE_RIGHT;
}

int32_t brute_actor_count(const brute_t *brute) {
  return brute->actor_count;
}

int32_t brute_actor_rank(const brute_t *brute, int32_t actor) {
  return actor < brute->lane_count ? brute->lanes[actor].rank : actor - brute->lane_count;
}

void brute_free(brute_t *brute) {
  free(brute->offset);
  free(brute->extent);
  free(brute->memory);
  free(brute->calls);
  free(brute->lanes);
  free(brute->agreed);
  free(brute->fifos);
  free(brute->numbers);
  free(brute);
}

const char *brute_fault_name(brute_fault_t fault) {
  static const char *const names[BRUTE_FAULT_COUNT] = {
      "right", "hang", "leftover", "size", "result", "input changed", "trespass"};
  return names[fault];
}
