/* Calls with known results. A rank's stream allocates the buffers of a call, launches it, checks
 * and frees them. */
#include <stdio.h>
#include <stdlib.h>

#include "base/names.h"
#include "gpu/ranks.h"
#include "verify/random.h"

#define SPOILED 0xee

typedef struct series {
  ranks_t *ranks;
  const ranks_call_t *calls;
  int count;
  uint64_t seed;
  char texts[QUESTION_RANKS_MAX][RANKS_TEXT_BYTES];
  int at[QUESTION_RANKS_MAX]; /* the call of a rank */
} series_t;

typedef struct buffers {
  char *input, *output, *memory[2];
  size_t blocks[4][QUESTION_RANKS_MAX];
  bool in_place;
} buffers_t;

static bool fail(series_t *series, int rank, const char *what) {
  const ranks_call_t *call = &series->calls[series->at[rank]];
  char question[QUESTION_TEXT_BYTES];
  question_describe(&call->question, question);
  snprintf(series->texts[rank], RANKS_TEXT_BYTES,
           "%s [call %d: %s by %s, place %d, %d slices; rank %d]", what, series->at[rank], question,
           call->algo->name, (int)call->place, call->slices, rank);
  return false;
}

/* Buffers begin at any multiple of an element. */
static char *allocate(size_t elements, size_t element, uint64_t *random, char **memory) {
  size_t skew = (size_t)random_below(random, 5) * element;
  *memory = malloc(elements * element + skew + 1);
  if (*memory == NULL) abort();
  memset(*memory, SPOILED, elements * element + skew + 1);
  return *memory + skew;
}

static void make_buffers(const ranks_call_t *call, int rank, uint64_t *random, buffers_t *b) {
  const question_t *q = &call->question;
  size_t element = base_dtype_bytes(q->dtype);
  size_t in = question_input_elements(q, rank), out = question_output_elements(q, rank);
  ptrdiff_t offset = 0;
  bool wants = call->place == RANKS_IN_PLACE || (call->place == RANKS_MIXED && rank % 2 == 1);
  *b = (buffers_t){.in_place = wants && question_in_place(q, rank, &offset)};
  if (b->in_place) {
    char *all = allocate(in > out ? in : out, element, random, &b->memory[0]);
    ptrdiff_t bytes = offset * (ptrdiff_t)element;
    b->input = bytes > 0 ? all + bytes : all;
    b->output = bytes > 0 ? all : all - bytes;
  } else {
    b->input = allocate(in, element, random, &b->memory[0]);
    b->output = allocate(out, element, random, &b->memory[1]);
  }
  question_fill(q, rank, b->input);
}

static gpu_request_t request_of(const question_t *q, int rank, buffers_t *b) {
  bool averages = base_collective_reduces(q->collective) && q->op == COLL_AVG;
  gpu_request_t request = {.input = b->input,
                           .output = b->output,
                           .count = q->collective == COLL_BARRIER ? 0 : q->count,
                           .dtype = q->dtype,
                           .op = q->op,
                           .averages = averages};
  if (q->collective != COLL_ALLTOALLV) return request;
  question_layout(q, rank, b->blocks[0], b->blocks[1], b->blocks[2], b->blocks[3]);
  request.input_blocks = (gpu_blocks_t){b->blocks[0], b->blocks[1]};
  request.output_blocks = (gpu_blocks_t){b->blocks[2], b->blocks[3]};
  request.count = 0;
  for (int peer = 0; peer < q->size; peer++) {
    if (b->blocks[0][peer] > request.count) request.count = b->blocks[0][peer];
    if (b->blocks[2][peer] > request.count) request.count = b->blocks[2][peer];
  }
  return request;
}

static bool input_is_intact(const question_t *q, int rank, const buffers_t *b) {
  size_t bytes = question_input_elements(q, rank) * base_dtype_bytes(q->dtype);
  char *before = malloc(bytes + 1);
  if (before == NULL) abort();
  question_fill(q, rank, before);
  bool intact = memcmp(before, b->input, bytes) == 0;
  free(before);
  return intact;
}

static bool launch(series_t *series, int rank, gpu_program_t *program, buffers_t *b,
                   uint64_t *random) {
  const ranks_call_t *call = &series->calls[series->at[rank]];
  const question_t *q = &call->question;
  ranks_t *ranks = series->ranks;
  gpu_request_t request = request_of(q, rank, b);
  gpu_call_t launched;
  char wrong[QUESTION_TEXT_BYTES];
  if (gpu_bind_call(&ranks->room, &ranks->ranks[rank], program, program, &request, call->slices,
                    &launched) != COLL_OK) {
    return fail(series, rank, base_last_error());
  }
  virtual_launch(&ranks->device, &launched, gpu_call_blocks(program, call->slices),
                 random_next(random));
  if (ranks->failed[rank] != 0) return fail(series, rank, "the call did not end");
  if (!question_answered(q, rank, b->output, wrong)) return fail(series, rank, wrong);
  if (!b->in_place && !input_is_intact(q, rank, b)) return fail(series, rank, "input was written");
  return true;
}

static bool carry_out(series_t *series, int rank, uint64_t *random) {
  const ranks_call_t *call = &series->calls[series->at[rank]];
  const question_t *q = &call->question;
  const plan_shape_t shape = {
      .collective = q->collective, .size = q->size, .root = q->root, .layout = call->layout};
  gpu_program_t *program = NULL;
  plan_t *plan = NULL;
  buffers_t b;
  make_buffers(call, rank, random, &b);
  bool good = algo_build(call->algo, &shape, rank, b.in_place, &plan) == COLL_OK &&
              gpu_bind_program(plan, rank, &program) == COLL_OK;
  if (!good) fail(series, rank, base_last_error());
  good = good && launch(series, rank, program, &b, random);
  free(program);
  plan_free(plan);
  free(b.memory[0]);
  free(b.memory[1]);
  return good;
}

/* A rank that fails ends the others by the abort word, as a communicator does. */
static void run_rank(void *context, int rank) {
  series_t *series = context;
  uint64_t random = random_mix(series->seed + (uint64_t)rank);
  for (int i = 0; i < series->count; i++) {
    series->at[rank] = i;
    if (carry_out(series, rank, &random)) continue;
    gpu_store_relaxed(&series->ranks->abort, 1);
    return;
  }
}

bool ranks_carry_out(ranks_t *ranks, const ranks_call_t calls[], int count, uint64_t seed,
                     char text[RANKS_TEXT_BYTES]) {
  series_t series = {.ranks = ranks, .calls = calls, .count = count, .seed = seed};
  bool good = ranks_run(ranks, run_rank, &series);
  for (int rank = 0; rank < ranks->room.size; rank++) {
    if (series.texts[rank][0] == '\0') continue;
    bool is_cause = good || strstr(series.texts[rank], "did not end") == NULL;
    if (is_cause) snprintf(text, RANKS_TEXT_BYTES, "%s", series.texts[rank]);
    if (good && strstr(text, "did not end") == NULL) return false;
    good = false;
  }
  if (!good && text[0] == '\0') snprintf(text, RANKS_TEXT_BYTES, "deadlock");
  return good;
}
