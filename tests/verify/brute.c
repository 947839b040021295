/*
 * The unit of interleaving is one read or one write of one chunk. Actors are the lanes of all ranks
 * and, per rank, the caller, which enters and leaves the call. A schedule decides which actor moves
 * next.
 */
#include <stdlib.h>

#include "brute_state.h"
#include "random.h"

#define DEPTH_MAX 4 /* of the plans that are run */

static void *array(size_t count, size_t bytes) {
  void *memory = calloc(count > 0 ? count : 1, bytes);
  if (memory == NULL) abort();
  return memory;
}

/* ---- steps ---------------------------------------------------------------------------------- */

static const plan_step_t *step_at(const brute_t *brute, const brute_lane_t *lane) {
  const plan_lane_t *steps = &brute->plan->programs[lane->rank].lanes[lane->lane];
  return (size_t)lane->step < steps->count ? &steps->steps[lane->step] : NULL;
}

static brute_lane_t *lane_of(const brute_t *brute, int32_t rank, int32_t lane) {
  return &brute->lanes[rank * brute->plan->lanes + lane];
}

static brute_fifo_t *fifo_of(brute_t *brute, int32_t source, int32_t destination, int32_t number) {
  return &brute->fifos[(source * brute->ranks + destination) * brute->numbers_per_pair + number];
}

static void advance(brute_lane_t *lane) {
  lane->step++;
  lane->phase = 0;
}

/* The chunk of the index-th access of a step. */
static int32_t chunk_order(const brute_lane_t *lane, int32_t index, int32_t count) {
  return lane->is_backwards ? count - 1 - index : index;
}

/* Depth 0: the sender's lane, if its next step is the matching send. */
static brute_lane_t *meeting_sender(const brute_t *brute, const brute_lane_t *lane,
                                    const plan_step_t *recv) {
  int32_t peer = recv->recv.peer;
  for (int32_t number = 0; number < brute->plan->lanes; number++) {
    brute_lane_t *sender = lane_of(brute, peer, number);
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

static bool lane_can_move(brute_t *brute, const brute_lane_t *lane) {
  const plan_step_t *step = step_at(brute, lane);
  if (step == NULL || brute->calls[lane->rank] != CALL_INSIDE) return false;
  if (plan_reach_exchanges(brute->plan->reach) && !all_inside(brute)) return false;
  if (lane->phase > 0) return true;
  const brute_fifo_t *fifo;
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

static void move_copy(brute_t *brute, brute_lane_t *lane, const plan_span_t *dst,
                      const plan_span_t *src) {
  int32_t index = chunk_order(lane, lane->phase / 2, dst->count);
  if (lane->phase % 2 == 0) {
    lane->runs[0] = *brute_span_cell(brute, src, index);
  } else {
    *brute_span_cell(brute, dst, index) = lane->runs[0];
  }
  lane->phase++;
}

/* Adds the next operand: the stack algorithm of plan.h. */
static void push_operand(brute_lane_t *lane, brute_number_t operand) {
  int32_t top = lane->run_count++;
  if (top >= BRUTE_RUNS_MAX) abort();
  lane->runs[top] = operand;
  lane->lengths[top] = 1;
  for (; top > 0 && lane->lengths[top - 1] == lane->lengths[top]; top--) {
    lane->runs[top - 1] = brute_combine(lane->runs[top - 1], lane->runs[top]);
    lane->lengths[top - 1] *= 2;
  }
  lane->run_count = top + 1;
}

static brute_number_t take_result(brute_lane_t *lane, int32_t operands) {
  brute_number_t result = lane->runs[--lane->run_count];
  while (lane->run_count > 0) result = brute_combine(lane->runs[--lane->run_count], result);
  return operands > 1 ? brute_rounded(result) : result;
}

static void move_reduce(brute_t *brute, brute_lane_t *lane, const plan_step_t *step) {
  const plan_span_t *dst = &step->reduce.dst;
  const plan_span_t *sources =
      &brute->plan->programs[lane->rank].sources[step->reduce.first_source];
  int32_t accesses = step->reduce.source_count + 1, source = lane->phase % accesses;
  int32_t index = chunk_order(lane, lane->phase / accesses, dst->count);
  if (source == step->reduce.source_count) {
    *brute_span_cell(brute, dst, index) = take_result(lane, step->reduce.source_count);
  } else {
    push_operand(lane, *brute_span_cell(brute, &sources[source], index));
  }
  if (++lane->phase == accesses * dst->count) advance(lane);
}

static void move_send(brute_t *brute, brute_lane_t *lane, const plan_step_t *step) {
  const plan_span_t *src = &step->send.src;
  brute_fifo_t *fifo = fifo_of(brute, lane->rank, step->send.peer, step->send.channel);
  int32_t slot = fifo->pushed % BRUTE_SLOTS_MAX;
  int32_t index = chunk_order(lane, lane->phase, src->count);
  fifo->slots[slot].numbers[index] = *brute_span_cell(brute, src, index);
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
static void move_meeting(brute_t *brute, brute_lane_t *lane, const plan_step_t *step) {
  brute_lane_t *sender = meeting_sender(brute, lane, step);
  const plan_span_t *src = &step_at(brute, sender)->send.src;
  if (!fits(brute, &step->recv.dst, src->count, src->first % brute->plan->parts)) return;
  move_copy(brute, lane, &step->recv.dst, src);
  if (lane->phase < 2 * src->count) return;
  advance(lane);
  advance(sender);
}

static void move_recv(brute_t *brute, brute_lane_t *lane, const plan_step_t *step) {
  const plan_span_t *dst = &step->recv.dst;
  brute_fifo_t *fifo = fifo_of(brute, step->recv.peer, lane->rank, step->recv.channel);
  int32_t slot = fifo->popped % BRUTE_SLOTS_MAX;
  if (!fits(brute, dst, fifo->slots[slot].count, fifo->slots[slot].part)) return;
  int32_t index = chunk_order(lane, lane->phase, dst->count);
  *brute_span_cell(brute, dst, index) = fifo->slots[slot].numbers[index];
  if (++lane->phase < dst->count) return;
  fifo->popped++;
  advance(lane);
}

static void lane_move(brute_t *brute, brute_lane_t *lane) {
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
    brute_enter(brute, rank);
  } else {
    brute_leave(brute, rank);
  }
}

void brute_reset(brute_t *brute, uint64_t seed) {
  uint64_t state = seed;
  int32_t more = random_below(&state, 4);
  brute->depth = brute->plan->depth + (more == 3 ? BRUTE_SLOTS_MAX - DEPTH_MAX : more);
  if (seed % 2 == 0) brute->depth = brute->plan->depth;
  brute->poison = random_next(&state);
  brute->fault = BRUTE_RIGHT;
  brute->has_agreed = false;
  for (int32_t i = 0; i < brute->lane_count; i++) {
    brute_lane_t *lane = &brute->lanes[i];
    *lane = (brute_lane_t){.rank = i / brute->plan->lanes, .lane = i % brute->plan->lanes};
    lane->is_backwards = random_next(&state) % 2 == 1;
  }
  for (int32_t i = 0; i < brute->ranks * brute->ranks * brute->numbers_per_pair; i++) {
    brute_fifo_t *fifo = &brute->fifos[i];
    fifo->pushed = fifo->popped = fifo->signals = 0;
  }
  for (int32_t rank = 0; rank < brute->ranks; rank++) {
    brute->calls[rank] = CALL_OUTSIDE;
    brute_poison_rank(brute, rank, CALL_OUTSIDE);
  }
}

brute_fault_t brute_judge(brute_t *brute) {
  if (brute->fault != BRUTE_RIGHT) return brute->fault;
  for (int32_t rank = 0; rank < brute->ranks; rank++) {
    if (brute->calls[rank] != CALL_LEFT) return BRUTE_HANG;
    brute_check_poison(brute, rank, CALL_LEFT);
  }
  for (int32_t i = 0; i < brute->ranks * brute->ranks * brute->numbers_per_pair; i++) {
    const brute_fifo_t *fifo = &brute->fifos[i];
    if (fifo->pushed != fifo->popped || fifo->signals != 0) return BRUTE_LEFTOVER;
  }
  return brute->fault;
}

/* ---- create, free -----------------------------------------------------------------------------*/

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
  brute_lay_out(brute);
  brute->memory = array(brute->cells, sizeof *brute->memory);
  brute->calls = array(ranks, sizeof *brute->calls);
  brute->lanes = array((size_t)brute->lane_count, sizeof *brute->lanes);
  brute->agreed = array((size_t)plan->parts, sizeof *brute->agreed);
  brute->fifos = array(fifos, sizeof *brute->fifos);
  brute->numbers = array(fifos * BRUTE_SLOTS_MAX * message, sizeof *brute->numbers);
  for (size_t i = 0; i < fifos * BRUTE_SLOTS_MAX; i++) {
    brute->fifos[i / BRUTE_SLOTS_MAX].slots[i % BRUTE_SLOTS_MAX].numbers =
        &brute->numbers[i * message];
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
