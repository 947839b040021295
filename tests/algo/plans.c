/* Iterates over the builders, rank counts and roots for the tests of this folder, and counts what a
 * plan moves. */
#include "plans.h"

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/names.h"

/* ---- plans -----------------------------------------------------------------------------------*/

static plan_t *build(const algo_t *algo, const plan_shape_t *shape, bool in_place) {
  plan_t *plan = NULL;
  coll_status_t status = algo_build(algo, shape, ALGO_ALL_RANKS, in_place, &plan);
  cr_assert_eq(status, COLL_OK, "%s of %d, root %d: %s", algo->name, shape->size, shape->root,
               base_last_error());
  return plan;
}

plan_t *test_plan_shape(const algo_t *algo, const plan_shape_t *shape, test_mode_t mode) {
  plan_t *plan = build(algo, shape, mode == TEST_IN_PLACE);
  if (mode != TEST_MIXED) return plan;
  plan_t *in_place = build(algo, shape, true);
  for (int rank = 0; rank < shape->size; rank += 2) plan_exchange(plan, in_place, rank);
  plan_free(in_place);
  return plan;
}

plan_t *test_plan_build(const algo_t *algo, int size, int root, test_mode_t mode) {
  const plan_shape_t shape = {.collective = algo->collective, .size = size, .root = root};
  return test_plan_shape(algo, &shape, mode);
}

plan_t *test_plan_named(coll_collective_t collective, const char *name, int size, int root,
                        test_mode_t mode) {
  const algo_t *algo = NULL;
  cr_assert_eq(algo_find(collective, name, &algo), COLL_OK, "%s", base_last_error());
  return test_plan_build(algo, size, root, mode);
}

void test_each_algo(coll_collective_t collective, void (*visit)(const algo_t *algo)) {
  for (int i = 0; algo_at(collective, i) != NULL; i++) visit(algo_at(collective, i));
}

static int next_of(int size, int all_up_to, int root) {
  int next = root + 1;
  if (size > all_up_to && next > 1 && next < size - 1) next = size - 1;
  return next < size ? next : -1;
}

int test_next_root(coll_collective_t collective, int size, int all_up_to, int root) {
  if (root >= 0 && !base_collective_is_rooted(collective)) return -1;
  return next_of(size, all_up_to, root);
}

int test_next_lead(const algo_t *algo, int size, int all_up_to, int root) {
  if (root >= 0 && !algo_has_root(algo)) return -1;
  return next_of(size, all_up_to, root);
}

int test_log2_up(int size) {
  int rounds = 0;
  while ((1 << rounds) < size) rounds++;
  return rounds;
}

/* ---- text ------------------------------------------------------------------------------------*/

typedef struct writer {
  char *text;
  size_t bytes, used;
  int rank;
  bool seen_only;
} writer_t;

static void put(writer_t *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(writer_t *w, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int count = vsnprintf(w->text + w->used, w->bytes - w->used, format, arguments);
  va_end(arguments);
  w->used += (size_t)count;
  cr_assert_lt(w->used, w->bytes, "the text of a program does not fit");
}

static void put_span(writer_t *w, const plan_span_t *span) {
  bool own = span->rank == w->rank;
  if (own && w->seen_only) {
    put(w, "own+%d", span->count);
    return;
  }
  if (!own) put(w, "r%d.", span->rank);
  put(w, "%s[%d", plan_buffer_name(span->buffer), span->first);
  if (span->count > 1) put(w, "+%d", span->count);
  put(w, "]");
}

static bool is_local(const writer_t *w, const plan_program_t *program, const plan_step_t *step) {
  if (step->kind == PLAN_COPY) {
    return step->copy.dst.rank == w->rank && step->copy.src.rank == w->rank;
  }
  if (step->kind != PLAN_REDUCE) return step->kind == PLAN_AFTER;
  bool local = step->reduce.dst.rank == w->rank;
  for (int32_t i = 0; i < step->reduce.source_count; i++) {
    local = local && program->sources[step->reduce.first_source + i].rank == w->rank;
  }
  return local;
}

static void put_step(writer_t *w, const plan_program_t *program, const plan_step_t *step) {
  if (w->used > 0) put(w, "; ");
  put(w, "%s ", plan_step_kind_name(step->kind));
  switch (step->kind) {
    case PLAN_COPY:
      put_span(w, &step->copy.dst);
      put(w, " = ");
      put_span(w, &step->copy.src);
      break;
    case PLAN_REDUCE:
      put_span(w, &step->reduce.dst);
      put(w, " =");
      for (int32_t i = 0; i < step->reduce.source_count; i++) {
        put(w, " ");
        put_span(w, &program->sources[step->reduce.first_source + i]);
      }
      break;
    case PLAN_SEND:
      put(w, "%d ", step->send.peer);
      put_span(w, &step->send.src);
      break;
    case PLAN_RECV:
      put(w, "%d ", step->recv.peer);
      put_span(w, &step->recv.dst);
      break;
    case PLAN_SIGNAL: put(w, "%d", step->signal.peer); break;
    case PLAN_WAIT: put(w, "%d", step->wait.peer); break;
    case PLAN_AFTER: put(w, "%d.%d", step->after.lane, step->after.step); break;
    default: cr_assert_fail("no builder here emits step kind %d", (int)step->kind);
  }
}

static const char *write_program(const plan_t *plan, writer_t *w) {
  const plan_program_t *program = &plan->programs[w->rank];
  w->text[0] = '\0';
  for (int lane = 0; lane < plan->lanes; lane++) {
    if (lane > 0) put(w, "%slane %d", w->used > 0 ? "; " : "", lane);
    for (size_t i = 0; i < program->lanes[lane].count; i++) {
      const plan_step_t *step = &program->lanes[lane].steps[i];
      if (!w->seen_only || !is_local(w, program, step)) put_step(w, program, step);
    }
  }
  return w->text;
}

const char *test_program_text(const plan_t *plan, int rank, char *text, size_t bytes) {
  return write_program(plan, &(writer_t){.text = text, .bytes = bytes, .rank = rank});
}

const char *test_program_seen(const plan_t *plan, int rank, char *text, size_t bytes) {
  return write_program(plan,
                       &(writer_t){.text = text, .bytes = bytes, .rank = rank, .seen_only = true});
}

/* ---- traffic ---------------------------------------------------------------------------------*/

static void count_span(test_traffic_t *t, const plan_span_t *span, int rank, bool is_store) {
  bool own = span->rank == rank;
  int *counter = own ? (is_store ? &t->local_stores : &t->local_loads)
                     : (is_store ? &t->remote_stores : &t->remote_loads);
  *counter += span->count;
}

static void count_scratch(test_traffic_t *t, const plan_span_t *span) {
  int end = span->first + span->count;
  if (span->buffer == PLAN_SCRATCH && end > t->scratch) t->scratch = end;
}

static void count_message(test_traffic_t *t, const plan_span_t *span) {
  t->messages++;
  t->chunks += span->count;
  if (span->count > t->longest) t->longest = span->count;
}

static void count_step(test_traffic_t *t, const plan_program_t *program, const plan_step_t *step,
                       int rank) {
  if (step->kind == PLAN_SIGNAL) t->signals++;
  if (step->kind == PLAN_SEND) {
    count_message(t, &step->send.src);
    count_scratch(t, &step->send.src);
  }
  if (step->kind == PLAN_RECV) count_scratch(t, &step->recv.dst);
  if (step->kind == PLAN_COPY) {
    count_span(t, &step->copy.dst, rank, true);
    count_span(t, &step->copy.src, rank, false);
    count_scratch(t, &step->copy.dst);
    count_scratch(t, &step->copy.src);
  }
  if (step->kind == PLAN_REDUCE) {
    count_span(t, &step->reduce.dst, rank, true);
    count_scratch(t, &step->reduce.dst);
    for (int32_t i = 0; i < step->reduce.source_count; i++) {
      count_span(t, &program->sources[step->reduce.first_source + i], rank, false);
      count_scratch(t, &program->sources[step->reduce.first_source + i]);
    }
  }
}

test_traffic_t test_traffic_rank(const plan_t *plan, int rank) {
  const plan_program_t *program = &plan->programs[rank];
  test_traffic_t t = {0};
  for (int lane = 0; lane < plan->lanes; lane++) {
    for (size_t i = 0; i < program->lanes[lane].count; i++) {
      count_step(&t, program, &program->lanes[lane].steps[i], rank);
    }
  }
  return t;
}

/* Combines every field over all ranks: the maximum of each if `is_max`, else the sum. */
static test_traffic_t combine(const plan_t *plan, bool is_max) {
  test_traffic_t all = {0};
  enum { FIELDS = sizeof all / sizeof(int) };
  for (int rank = 0; rank < plan->shape.size; rank++) {
    test_traffic_t one = test_traffic_rank(plan, rank);
    for (int i = 0; i < FIELDS; i++) {
      int *sum = (int *)&all + i, value = ((const int *)&one)[i];
      bool is_maximum = is_max || sum == &all.longest || sum == &all.scratch;
      *sum = is_maximum ? (value > *sum ? value : *sum) : *sum + value;
    }
  }
  return all;
}

test_traffic_t test_traffic_all(const plan_t *plan) {
  return combine(plan, false);
}

test_traffic_t test_traffic_max(const plan_t *plan) {
  return combine(plan, true);
}

/* ---- rounds ----------------------------------------------------------------------------------*/

typedef struct clock_of_rank {
  size_t next;                 /* step */
  int ready;                   /* time at which its last receive completed */
  int send_free, receive_free; /* times at which its ports are free */
} clock_of_rank_t;

/* arrivals[source * size + destination] lists the arrival times of the messages sent so far. */
typedef struct arrivals {
  int *times;
  size_t count, capacity, taken;
} arrivals_t;

static int later(int a, int b) {
  return a > b ? a : b;
}

static void send_at(arrivals_t *channel, clock_of_rank_t *clock) {
  clock->send_free = later(clock->send_free, clock->ready) + 1;
  if (channel->count == channel->capacity) {
    channel->capacity = channel->capacity * 2 + 4;
    channel->times = realloc(channel->times, channel->capacity * sizeof(int));
    cr_assert_not_null(channel->times);
  }
  channel->times[channel->count++] = clock->send_free;
}

/* Runs the rank until it has to wait for a message; returns whether any step ran. */
static bool advance(const plan_t *plan, int rank, clock_of_rank_t *clock, arrivals_t *channels) {
  const plan_lane_t *lane = &plan->programs[rank].lanes[0];
  size_t before = clock->next;
  for (; clock->next < lane->count; clock->next++) {
    const plan_step_t *step = &lane->steps[clock->next];
    if (step->kind == PLAN_SEND) {
      send_at(&channels[rank * plan->shape.size + step->send.peer], clock);
    } else if (step->kind == PLAN_RECV) {
      arrivals_t *channel = &channels[step->recv.peer * plan->shape.size + rank];
      if (channel->taken == channel->count) break;
      clock->receive_free = later(channel->times[channel->taken++], clock->receive_free + 1);
      clock->ready = clock->receive_free;
    }
  }
  return clock->next > before;
}

int test_rounds(const plan_t *plan) {
  size_t size = (size_t)plan->shape.size;
  clock_of_rank_t *clocks = calloc(size, sizeof *clocks);
  arrivals_t *channels = calloc(size * size, sizeof *channels);
  cr_assert(clocks != NULL && channels != NULL);
  int rounds = 0;
  for (bool moved = true; moved;) {
    moved = false;
    for (int rank = 0; rank < plan->shape.size; rank++) {
      moved = advance(plan, rank, &clocks[rank], channels) || moved;
    }
  }
  for (int rank = 0; rank < plan->shape.size; rank++) {
    cr_assert_eq(clocks[rank].next, plan->programs[rank].lanes[0].count, "rank %d is stuck", rank);
    rounds = later(rounds, clocks[rank].ready);
  }
  for (size_t i = 0; i < size * size; i++) free(channels[i].times);
  free(channels);
  free(clocks);
  return rounds;
}
