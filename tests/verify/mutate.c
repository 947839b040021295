/* Every mutation selects a random step among those that it applies to. */
#include "mutate.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "random.h"

enum { LANES = 2 }; /* of mutants */

/* ---- copies --------------------------------------------------------------------------------- */

static void *copy_of(const void *array, size_t count, size_t bytes, size_t spare) {
  void *copy = calloc(count + spare, bytes);
  if (copy == NULL) abort();
  if (count > 0) memcpy(copy, array, count * bytes);
  return copy;
}

plan_t *mutate_clone(const plan_t *plan) {
  plan_t *clone = copy_of(plan, 1, sizeof *plan, 0);
  size_t ranks = (size_t)plan->shape.size, lanes = (size_t)plan->lanes;
  clone->programs = copy_of(plan->programs, ranks, sizeof *plan->programs, 0);
  plan_lane_t *all = copy_of(plan->programs[0].lanes, ranks * lanes, sizeof *all, 0);
  for (size_t rank = 0; rank < ranks; rank++) {
    plan_program_t *program = &clone->programs[rank];
    program->lanes = &all[rank * lanes];
    for (int i = 0; i < plan->lanes; i++) {
      plan_lane_t *lane = &program->lanes[i];
      lane->capacity = lane->count + 8;
      lane->steps = copy_of(lane->steps, lane->count, sizeof *lane->steps, 8);
    }
    program->source_capacity = program->source_count + 64;
    program->sources =
        copy_of(program->sources, program->source_count, sizeof *program->sources, 64);
  }
  return clone;
}

/* ---- picking -------------------------------------------------------------------------------- */

typedef struct victim {
  plan_program_t *program;
  int32_t rank;
  int lane;
  size_t index;
  plan_step_t *step;
} victim_t;

typedef bool (*is_victim_t)(const plan_step_t *step);

static bool is_any(const plan_step_t *step) {
  return step != NULL;
}

static bool is_order(const plan_step_t *step) {
  return step->kind == PLAN_SIGNAL || step->kind == PLAN_WAIT || step->kind == PLAN_AFTER;
}

static bool is_after(const plan_step_t *step) {
  return step->kind == PLAN_AFTER;
}

static bool is_reduce(const plan_step_t *step) {
  return step->kind == PLAN_REDUCE;
}

static bool has_span(const plan_step_t *step) {
  return !is_order(step);
}

static bool has_peer(const plan_step_t *step) {
  return step->kind == PLAN_SEND || step->kind == PLAN_RECV || step->kind == PLAN_SIGNAL ||
         step->kind == PLAN_WAIT;
}

/* Visits all steps that qualify; stops at the skip-th. Returns how many were visited before it. */
static int32_t visit(plan_t *plan, is_victim_t qualifies, int32_t skip, victim_t *victim) {
  int32_t found = 0;
  for (int32_t rank = 0; rank < plan->shape.size; rank++) {
    for (int lane = 0; lane < plan->lanes; lane++) {
      plan_lane_t *steps = &plan->programs[rank].lanes[lane];
      for (size_t i = 0; i < steps->count; i++) {
        if (!qualifies(&steps->steps[i]) || found++ != skip) continue;
        *victim = (victim_t){&plan->programs[rank], rank, lane, i, &steps->steps[i]};
        return found;
      }
    }
  }
  return found;
}

static bool pick(plan_t *plan, is_victim_t qualifies, uint64_t *random, victim_t *victim) {
  *victim = (victim_t){.step = NULL};
  int32_t count = visit(plan, qualifies, -1, victim);
  if (count == 0) return false;
  visit(plan, qualifies, random_below(random, count), victim);
  return true;
}

/* One of the step's spans. */
static plan_span_t *pick_span(const victim_t *victim, uint64_t *random) {
  plan_step_t *step = victim->step;
  int32_t which;
  switch (step->kind) {
    case PLAN_COPY: return random_below(random, 2) == 0 ? &step->copy.dst : &step->copy.src;
    case PLAN_REDUCE:
      which = random_below(random, step->reduce.source_count + 1);
      return which == 0 ? &step->reduce.dst
                        : &victim->program->sources[step->reduce.first_source + which - 1];
    case PLAN_SEND: return &step->send.src;
    default: return &step->recv.dst;
  }
}

static int32_t other_rank(const plan_t *plan, int32_t rank, uint64_t *random) {
  return (rank + 1 + random_below(random, plan->shape.size - 1)) % plan->shape.size;
}

/* ---- lists of steps ------------------------------------------------------------------------- */

/* Adjusts the `after` steps of the rank when a step is inserted (+1) or removed (-1). */
static void renumber(plan_t *plan, plan_program_t *program, int lane, size_t index, int by) {
  for (int other = 0; other < plan->lanes; other++) {
    for (size_t i = 0; i < program->lanes[other].count; i++) {
      plan_step_t *step = &program->lanes[other].steps[i];
      if (step->kind != PLAN_AFTER || step->after.lane != lane) continue;
      if ((size_t)step->after.step >= index && step->after.step + by >= 0) step->after.step += by;
    }
  }
}

static void remove_step(plan_t *plan, plan_program_t *program, int lane, size_t index) {
  plan_lane_t *steps = &program->lanes[lane];
  memmove(&steps->steps[index], &steps->steps[index + 1],
          (--steps->count - index) * sizeof *steps->steps);
  renumber(plan, program, lane, index, -1);
}

static void insert_step(plan_t *plan, plan_program_t *program, int lane, size_t index,
                        plan_step_t step) {
  plan_lane_t *steps = &program->lanes[lane];
  if (base_grow((void **)&steps->steps, &steps->capacity, steps->count + 1, sizeof step, "steps") !=
      COLL_OK) {
    abort();
  }
  renumber(plan, program, lane, index, +1);
  memmove(&steps->steps[index + 1], &steps->steps[index],
          (steps->count++ - index) * sizeof *steps->steps);
  steps->steps[index] = step;
}

static bool drop(plan_t *plan, is_victim_t qualifies, uint64_t *random) {
  victim_t victim;
  if (!pick(plan, qualifies, random, &victim)) return false;
  remove_step(plan, victim.program, victim.lane, victim.index);
  return true;
}

static bool duplicate(plan_t *plan, uint64_t *random) {
  victim_t victim;
  if (!pick(plan, is_any, random, &victim)) return false;
  insert_step(plan, victim.program, victim.lane, victim.index, *victim.step);
  return true;
}

/* Moves the step by `distance` lanes. */
static bool relocate(plan_t *plan, int distance, uint64_t *random) {
  victim_t victim;
  if (!pick(plan, is_any, random, &victim)) return false;
  plan_step_t step = *victim.step;
  int lane = (victim.lane + distance) % LANES;
  if (distance != 0 && plan->lanes < LANES && plan_set_lanes(plan, LANES) != COLL_OK) abort();
  if (distance != 0 && step.kind == PLAN_SEND) step.send.channel = lane;
  if (distance != 0 && step.kind == PLAN_RECV) step.recv.channel = lane;
  remove_step(plan, victim.program, victim.lane, victim.index);
  size_t index = (size_t)random_below(random, (int32_t)victim.program->lanes[lane].count + 1);
  insert_step(plan, victim.program, lane, index, step);
  return true;
}

static bool swap(plan_t *plan, uint64_t *random) {
  victim_t victim;
  if (!pick(plan, is_any, random, &victim)) return false;
  if (victim.index + 1 == victim.program->lanes[victim.lane].count) return false;
  plan_step_t step = victim.step[0];
  victim.step[0] = victim.step[1];
  victim.step[1] = step;
  return true;
}

/* ---- what a step says ----------------------------------------------------------------------- */

static bool change_peer(plan_t *plan, uint64_t *random) {
  victim_t victim;
  if (plan->shape.size < 3 || !pick(plan, has_peer, random, &victim)) return false;
  plan_step_t *step = victim.step;
  int32_t *peer = step->kind == PLAN_SEND     ? &step->send.peer
                  : step->kind == PLAN_RECV   ? &step->recv.peer
                  : step->kind == PLAN_SIGNAL ? &step->signal.peer
                                              : &step->wait.peer;
  do {
    *peer = other_rank(plan, *peer, random);
  } while (*peer == victim.rank);
  return true;
}

/* Shifts by one chunk, or by whole blocks, which keeps the parts congruent. */
static bool shift(plan_t *plan, uint64_t *random) {
  victim_t victim;
  if (!pick(plan, has_span, random, &victim)) return false;
  int32_t by = random_below(random, 2) == 0 ? 1 : plan->parts;
  pick_span(&victim, random)->first += random_below(random, 2) == 0 ? by : -by;
  return true;
}

static bool resize(plan_t *plan, uint64_t *random) {
  victim_t victim;
  if (!pick(plan, has_span, random, &victim)) return false;
  plan_step_t *step = victim.step;
  int32_t by = random_below(random, 2) == 0 ? 1 : -1;
  switch (step->kind) {
    case PLAN_COPY:
      step->copy.dst.count += by;
      step->copy.src.count += by;
      break;
    case PLAN_REDUCE:
      step->reduce.dst.count += by;
      for (int32_t i = 0; i < step->reduce.source_count; i++) {
        victim.program->sources[step->reduce.first_source + i].count += by;
      }
      break;
    case PLAN_SEND: step->send.src.count += by; break;
    default: step->recv.dst.count += by; break;
  }
  return true;
}

static bool change_buffer(plan_t *plan, uint64_t *random) {
  victim_t victim;
  if (!pick(plan, has_span, random, &victim)) return false;
  plan_span_t *span = pick_span(&victim, random);
  span->buffer =
      (plan_buffer_t)(((int32_t)span->buffer + 1 + random_below(random, 2)) % PLAN_BUFFER_COUNT);
  return true;
}

static bool change_rank(plan_t *plan, uint64_t *random) {
  victim_t victim;
  if (plan->shape.size < 2 || !pick(plan, has_span, random, &victim)) return false;
  plan_span_t *span = pick_span(&victim, random);
  span->rank = other_rank(plan, span->rank, random);
  return true;
}

static bool change_sources(plan_t *plan, uint64_t *random) {
  victim_t victim;
  if (!pick(plan, is_reduce, random, &victim)) return false;
  plan_step_t *step = victim.step;
  plan_program_t *program = victim.program;
  int32_t count = step->reduce.source_count, first = (int32_t)program->source_count;
  if ((size_t)(first + count + 1) > program->source_capacity) return false;
  memcpy(&program->sources[first], &program->sources[step->reduce.first_source],
         (size_t)count * sizeof *program->sources);
  plan_span_t *sources = &program->sources[first];
  int32_t which = random_below(random, count), other = random_below(random, count);
  plan_span_t source = sources[which];
  switch (random_below(random, 3)) {
    case 0: /* one fewer */
      if (count < 2) return false;
      sources[which] = sources[--count];
      break;
    case 1: /* one twice */ sources[count++] = source; break;
    default:
      sources[which] = sources[other];
      sources[other] = source;
      break;
  }
  program->source_count += (size_t)count;
  step->reduce.first_source = first;
  step->reduce.source_count = count;
  return true;
}

static bool change_after(plan_t *plan, uint64_t *random) {
  victim_t victim;
  if (!pick(plan, is_after, random, &victim)) return false;
  victim.step->after.step += random_below(random, 2) == 0 ? 1 : -1;
  return true;
}

static bool change_depth(plan_t *plan, uint64_t *random) {
  if (plan->depth == 0) return false;
  plan->depth = random_below(random, plan->depth);
  return true;
}

static bool change_claim(plan_t *plan) {
  if (plan->order == PLAN_ORDER_EXACT || plan->shape.size == 1) return false;
  plan->order = (plan_order_t)(plan->order + 1);
  return true;
}

bool mutate(plan_t *plan, mutation_t mutation, uint64_t *random) {
  switch (mutation) {
    case MUTATION_DROP: return drop(plan, is_any, random);
    case MUTATION_DROP_ORDER: return drop(plan, is_order, random);
    case MUTATION_DUPLICATE: return duplicate(plan, random);
    case MUTATION_SWAP: return swap(plan, random);
    case MUTATION_MOVE: return relocate(plan, 0, random);
    case MUTATION_OTHER_LANE: return relocate(plan, 1, random);
    case MUTATION_PEER: return change_peer(plan, random);
    case MUTATION_SHIFT: return shift(plan, random);
    case MUTATION_RESIZE: return resize(plan, random);
    case MUTATION_BUFFER: return change_buffer(plan, random);
    case MUTATION_RANK: return change_rank(plan, random);
    case MUTATION_SOURCES: return change_sources(plan, random);
    case MUTATION_AFTER: return change_after(plan, random);
    case MUTATION_DEPTH: return change_depth(plan, random);
    case MUTATION_CLAIM: return change_claim(plan);
    case MUTATION_KIND_COUNT: break;
  }
  return false;
}

const char *mutation_name(mutation_t mutation) {
  static const char *const names[MUTATION_KIND_COUNT] = {
      "drop a step",  "drop signal/wait/after", "do a step twice", "swap neighbours",
      "move in lane", "move to other lane",     "other peer",      "shift a span",
      "resize spans", "other buffer",           "other rank",      "other sources",
      "other after",  "shallower FIFO",         "order claimed"};
  return names[mutation];
}
