/* Calls with known results. A rank's stream fills the input of a call, launches it, checks its
 * buffers and frees them. */
#include <stdio.h>
#include <stdlib.h>

#include "base/names.h"
#include "gpu/ranks.h"
#include "verify/random.h"

typedef struct series {
  ranks_t *ranks;
  const ranks_call_t *const *calls; /* of each rank */
  int count;
  uint64_t seed;
  char texts[QUESTION_RANKS_MAX][RANKS_TEXT_BYTES];
  int at[QUESTION_RANKS_MAX]; /* the call of a rank */
  ranks_buffers_t *buffers;   /* [count][ranks] */
  char **parts[2];            /* the same of inputs and outputs, for peers */
} series_t;

static size_t index_of(const series_t *series, int call, int rank) {
  return (size_t)call * (size_t)series->ranks->room.size + (size_t)rank;
}

static void allocate_rank(series_t *series, int rank) {
  uint64_t random = random_mix(series->seed + (uint64_t)rank);
  for (int i = 0; i < series->count; i++) {
    size_t index = index_of(series, i, rank);
    ranks_buffers_t *b = &series->buffers[index];
    ranks_buffers_allocate(&series->calls[rank][i], rank, &random, b);
    series->parts[0][index] = b->input;
    series->parts[1][index] = b->output;
  }
}

static void open_series(series_t *series) {
  size_t count = index_of(series, series->count, 0);
  series->buffers = calloc(count, sizeof *series->buffers);
  for (int i = 0; i < 2; i++) series->parts[i] = calloc(count, sizeof *series->parts[i]);
  if (series->buffers == NULL || series->parts[0] == NULL || series->parts[1] == NULL) abort();
}

/* Frees also what calls that were not made have. */
static void close_series(series_t *series) {
  size_t count = index_of(series, series->count, 0);
  for (size_t i = 0; i < count; i++) ranks_buffers_free(&series->buffers[i]);
  for (int i = 0; i < 2; i++) free(series->parts[i]);
  free(series->buffers);
}

static bool fail(series_t *series, int rank, const char *what) {
  const ranks_call_t *call = &series->calls[rank][series->at[rank]];
  char question[QUESTION_TEXT_BYTES];
  question_describe(&call->question, question);
  snprintf(series->texts[rank], RANKS_TEXT_BYTES,
           "%s [call %d: %s by %s, place %d, %d slices, protocol %d; rank %d]", what,
           series->at[rank], question, call->algo->name, (int)call->place, call->slices,
           (int)call->protocol, rank);
  return false;
}

gpu_words_t ranks_words(const ranks_call_t *call) {
  const question_t *q = &call->question;
  gpu_words_t words = {.count = q->count};
  const int fields[] = {(int)q->collective, (int)q->dtype, (int)q->op, q->root};
  for (int i = 0; i < 4; i++) words.what = words.what << 8 | (uint64_t)fields[i];
  for (const char *c = call->algo->name; *c != '\0'; c++) {
    words.what = words.what * 31 + (uint64_t)*c;
  }
  return words;
}

static gpu_request_t request_of(const question_t *q, const ranks_buffers_t *b) {
  gpu_request_t request = {.input = b->input,
                           .output = b->output,
                           .count = b->count,
                           .dtype = q->dtype,
                           .op = base_collective_reduces(q->collective) ? q->op : COLL_SUM};
  if (q->collective != COLL_ALLTOALLV) return request;
  request.input_blocks = (gpu_blocks_t){b->blocks[0], b->blocks[1]};
  request.output_blocks = (gpu_blocks_t){b->blocks[2], b->blocks[3]};
  return request;
}

static bool launch(series_t *series, int rank, gpu_program_t *program, ranks_buffers_t *b,
                   uint64_t *random) {
  const ranks_call_t *call = &series->calls[rank][series->at[rank]];
  const question_t *q = &call->question;
  ranks_t *ranks = series->ranks;
  gpu_request_t request = request_of(q, b);
  const gpu_words_t words = ranks_words(call);
  char wrong[QUESTION_TEXT_BYTES];
  request.words = &words;
  request.protocol = call->protocol;
  size_t first = index_of(series, series->at[rank], 0);
  request.input_parts = (gpu_parts_t){.at = &series->parts[0][first]};
  request.output_parts = (gpu_parts_t){.at = &series->parts[1][first]};
  if (!ranks_launch(ranks, rank, program, &request, call->slices, random_next(random))) {
    return fail(series, rank, base_last_error());
  }
  if (ranks->failed[rank] != 0) return fail(series, rank, "the call did not end");
  if (!ranks_buffers_check(q, rank, b, wrong)) return fail(series, rank, wrong);
  return true;
}

static bool carry_out(series_t *series, int rank, uint64_t *random) {
  const ranks_call_t *call = &series->calls[rank][series->at[rank]];
  const question_t *q = &call->question;
  const plan_shape_t shape = {
      .collective = q->collective, .size = q->size, .root = q->root, .layout = call->layout};
  gpu_program_t *program = NULL;
  plan_t *plan = NULL;
  ranks_buffers_t *b = &series->buffers[index_of(series, series->at[rank], rank)];
  question_fill(q, rank, b->input);
  bool good = algo_build(call->algo, &shape, rank, b->in_place, &plan) == COLL_OK &&
              gpu_bind_program(plan, rank, &program) == COLL_OK;
  if (!good) fail(series, rank, base_last_error());
  good = good && launch(series, rank, program, b, random);
  free(program);
  plan_free(plan);
  if (good) ranks_buffers_free(b);
  return good;
}

/* A rank that fails ends the others by the abort word, as a communicator does. */
static void run_rank(void *context, int rank) {
  series_t *series = context;
  uint64_t random = random_mix(series->seed + 100 + (uint64_t)rank);
  for (int i = 0; i < series->count; i++) {
    series->at[rank] = i;
    if (carry_out(series, rank, &random)) continue;
    gpu_store_relaxed(&series->ranks->abort, 1);
    return;
  }
}

/* The first sentence that is not about a call that others ended. */
static bool find_cause(const series_t *series, char text[RANKS_TEXT_BYTES]) {
  bool good = true;
  for (int rank = 0; rank < series->ranks->room.size; rank++) {
    const char *found = series->texts[rank];
    if (found[0] == '\0') continue;
    good = false;
    snprintf(text, RANKS_TEXT_BYTES, "%s", found);
    if (strstr(found, "did not end") == NULL) return false;
  }
  return good;
}

bool ranks_carry_out_each(ranks_t *ranks, const ranks_call_t *const calls[], int count,
                          uint64_t seed, char text[RANKS_TEXT_BYTES]) {
  series_t series = {.ranks = ranks, .calls = calls, .count = count, .seed = seed};
  open_series(&series);
  for (int rank = 0; rank < ranks->room.size; rank++) allocate_rank(&series, rank);
  bool in_time = ranks_run(ranks, run_rank, &series);
  close_series(&series);
  if (!in_time) {
    find_cause(&series, text);
    if (text[0] == '\0') snprintf(text, RANKS_TEXT_BYTES, "deadlock");
    return false;
  }
  return find_cause(&series, text) || strstr(text, "did not end") != NULL;
}

bool ranks_carry_out(ranks_t *ranks, const ranks_call_t calls[], int count, uint64_t seed,
                     char text[RANKS_TEXT_BYTES]) {
  const ranks_call_t *same[QUESTION_RANKS_MAX];
  for (int rank = 0; rank < ranks->room.size; rank++) same[rank] = calls;
  text[0] = '\0';
  return ranks_carry_out_each(ranks, same, count, seed, text) && text[0] == '\0';
}

bool ranks_carry_out_rank(ranks_t *ranks, int rank, const ranks_call_t calls[], int count,
                          uint64_t seed, char text[RANKS_TEXT_BYTES]) {
  const ranks_call_t *same[QUESTION_RANKS_MAX];
  for (int i = 0; i < ranks->room.size; i++) same[i] = calls;
  series_t series = {.ranks = ranks, .calls = same, .count = count, .seed = seed};
  open_series(&series);
  allocate_rank(&series, rank);
  run_rank(&series, rank);
  close_series(&series);
  snprintf(text, RANKS_TEXT_BYTES, "%s", series.texts[rank]);
  return text[0] == '\0';
}
