/*
 * The abort word: it ends calls that wait for a rank which never launches, and the calls behind
 * them do nothing.
 */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "base/clock.h"
#include "gpu/ranks.h"

enum { SIZE = 3, COUNT = 300, CAPACITY = 4096 };

typedef struct aborted {
  ranks_t ranks;
  gpu_program_t *programs[SIZE];
  int32_t input[SIZE][COUNT], output[SIZE][COUNT];
  char *inputs[SIZE], *outputs[SIZE];
  gpu_protocol_t protocol;
} aborted_t;

static void begin(aborted_t *a, const char *algorithm, gpu_protocol_t protocol) {
  gpu_room_t room = ranks_room(SIZE);
  memset(a, 0, sizeof *a);
  a->protocol = protocol;
  ranks_init(&a->ranks, &room, CAPACITY);
  for (int rank = 0; rank < SIZE; rank++) {
    a->programs[rank] = ranks_program(COLL_ALLREDUCE, algorithm, SIZE, rank);
    a->inputs[rank] = (char *)a->input[rank];
    a->outputs[rank] = (char *)a->output[rank];
  }
}

static void end(aborted_t *a) {
  for (int rank = 0; rank < SIZE; rank++) free(a->programs[rank]);
  ranks_free(&a->ranks);
}

/* A call of the rank, to its end. Every element of its input is `value`. */
static void launch(aborted_t *a, int rank, int32_t value, int slices) {
  const gpu_words_t words = {.what = (uint64_t)value, .count = COUNT};
  const gpu_request_t request = {.input = a->input[rank],
                                 .output = a->output[rank],
                                 .input_parts = {.at = a->inputs},
                                 .output_parts = {.at = a->outputs},
                                 .count = COUNT,
                                 .dtype = COLL_INT32,
                                 .words = &words,
                                 .protocol = a->protocol};
  uint64_t seed = (uint64_t)(value * SIZE + rank);
  for (int i = 0; i < COUNT; i++) a->input[rank][i] = value;
  if (!ranks_launch(&a->ranks, rank, a->programs[rank], &request, slices, seed)) abort();
}

/* ---- blocks that wait -----------------------------------------------------------------------*/

/* Rank 0 never launches. It sets the abort word when the others have long waited. */
static void run_or_abort(void *context, int rank) {
  aborted_t *a = context;
  if (rank == 0) {
    base_clock_sleep_ns(30000000);
    gpu_store_relaxed(&a->ranks.abort, 1);
    return;
  }
  launch(a, rank, 1, 4);
}

static void check_end(const char *algorithm, gpu_protocol_t protocol) {
  aborted_t a;
  begin(&a, algorithm, protocol);
  cr_assert(ranks_run(&a.ranks, run_or_abort, &a), "%s did not end", algorithm);
  for (int rank = 0; rank < SIZE; rank++) {
    cr_assert_eq(a.ranks.failed[rank], rank > 0 ? 1u : 0u, "%s, rank %d", algorithm, rank);
  }
  end(&a);
}

Test(gpu, abort_ends_all_blocks) {
  for (int p = GPU_PROTOCOL_SLOTS; p < GPU_PROTOCOL_COUNT; p++) {
    check_end("ring", (gpu_protocol_t)p);
    check_end("double_tree", (gpu_protocol_t)p);
  }
  check_end("staged", GPU_PROTOCOL_ANY);
  check_end("twophase_push", GPU_PROTOCOL_ANY);
}

/* ---- calls behind it ------------------------------------------------------------------------*/

/* All that ranks access of each other, and what the host reads. */
static char *keep_shared(const ranks_t *ranks) {
  size_t arena = gpu_arena_bytes(&ranks->room), record = gpu_record_bytes(&ranks->room);
  char *kept = malloc(SIZE * (arena + record)), *to = kept;
  if (kept == NULL) abort();
  for (int rank = 0; rank < SIZE; rank++, to += arena + record) {
    memcpy(to, ranks->arenas[rank], arena);
    memcpy(to + arena, ranks->records[rank], record);
  }
  return kept;
}

/* The rank's peers may be in the call that failed on it: they read what it has stored for that. */
static void check_behind(const char *algorithm, gpu_protocol_t protocol) {
  aborted_t a;
  begin(&a, algorithm, protocol);
  gpu_store_relaxed(&a.ranks.abort, 1);
  launch(&a, 1, 1, 2);
  cr_assert_eq(a.ranks.failed[1], 1u, "%s", algorithm);
  char *before = keep_shared(&a.ranks);
  for (int32_t value = 2; value < 6; value++) launch(&a, 1, value, value % 3 + 1);
  char *after = keep_shared(&a.ranks);
  size_t bytes = gpu_arena_bytes(&a.ranks.room) + gpu_record_bytes(&a.ranks.room);
  cr_assert(memcmp(before, after, SIZE * bytes) == 0, "%s stores behind a call that failed",
            algorithm);
  free(after);
  free(before);
  end(&a);
}

Test(gpu, calls_behind_one_that_failed_do_nothing) {
  for (int p = GPU_PROTOCOL_SLOTS; p < GPU_PROTOCOL_COUNT; p++) {
    check_behind("ring", (gpu_protocol_t)p);
    check_behind("double_tree", (gpu_protocol_t)p);
  }
  check_behind("staged", GPU_PROTOCOL_ANY);
  check_behind("staged_by_two", GPU_PROTOCOL_ANY);
  check_behind("twophase_push", GPU_PROTOCOL_ANY);
}
