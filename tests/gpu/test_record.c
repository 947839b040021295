/*
 * What the host can read while kernels wait: rank 2 of a ring launches its second call only when
 * the others have recorded that they wait, for whom, and in which call.
 */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "base/clock.h"
#include "gpu/ranks.h"

enum { SIZE = 3, LATE = 2, COUNT = 100, SLICES = 2, CAPACITY = 4096, POLLS_MAX = 20000 };

typedef struct waiting {
  ranks_t ranks;
  gpu_program_t *programs[SIZE];
  bool seen[SIZE];
  gpu_protocol_t protocol;
} waiting_t;

static const gpu_words_t words[2] = {{.what = 5, .count = COUNT}, {.what = 6, .count = COUNT}};

static bool waits_for(gpu_record_t *record, int peer) {
  const uint64_t *waits = gpu_record_waits(record);
  for (int i = 0; i < SLICES; i++) {
    if ((uint32_t)gpu_load_relaxed64(&waits[i]) != (uint32_t)peer + 1) return false;
  }
  return gpu_load_relaxed64(&record->begun) == 2 && gpu_load_relaxed64(&record->ended) == 1 &&
         gpu_load_relaxed64(&record->collectives) == 1 &&
         gpu_load_relaxed64(&record->collective.number) == 1 &&
         gpu_load_relaxed64(&record->collective.words.what) == words[1].what;
}

/* In a ring, a rank receives from the one before it. */
static void watch(waiting_t *waiting) {
  for (int poll = 0; poll < POLLS_MAX; poll++) {
    for (int rank = 0; rank < SIZE; rank++) {
      int before = (rank + SIZE - 1) % SIZE;
      if (rank != LATE && !waiting->seen[rank]) {
        waiting->seen[rank] = waits_for(waiting->ranks.records[rank], before);
      }
    }
    if (waiting->seen[0] && waiting->seen[1]) return;
    base_clock_sleep_ns(1000000);
  }
}

static void run_rank(void *context, int rank) {
  waiting_t *waiting = context;
  ranks_t *ranks = &waiting->ranks;
  gpu_program_t *program = waiting->programs[rank];
  int32_t input[COUNT] = {0}, output[COUNT];
  for (int i = 0; i < 2; i++) {
    const gpu_request_t request = {.input = input,
                                   .output = output,
                                   .count = COUNT,
                                   .dtype = COLL_INT32,
                                   .words = &words[i],
                                   .protocol = waiting->protocol};
    gpu_call_t call;
    if (gpu_bind_call(&ranks->room, &ranks->ranks[rank], program, program, &request, SLICES,
                      &call) != COLL_OK) {
      abort();
    }
    if (i == 1 && rank == LATE) watch(waiting);
    virtual_launch(&ranks->device, &call, gpu_call_blocks(program, SLICES),
                   (uint64_t)(i * SIZE + rank));
  }
}

static void check_record(gpu_protocol_t protocol) {
  const plan_shape_t shape = {.collective = COLL_ALLREDUCE, .size = SIZE};
  const algo_t *ring;
  waiting_t waiting = {.protocol = protocol};
  gpu_room_t room = ranks_room(SIZE);
  ranks_init(&waiting.ranks, &room, CAPACITY);
  cr_assert_eq(algo_find(COLL_ALLREDUCE, "ring", &ring), COLL_OK);
  for (int rank = 0; rank < SIZE; rank++) {
    plan_t *plan;
    cr_assert_eq(algo_build(ring, &shape, rank, false, &plan), COLL_OK);
    cr_assert_eq(gpu_bind_program(plan, rank, &waiting.programs[rank]), COLL_OK);
    cr_assert_eq(waiting.programs[rank]->lanes, 1);
    plan_free(plan);
  }
  cr_assert(ranks_run(&waiting.ranks, run_rank, &waiting), "deadlock");
  cr_assert(waiting.seen[0] && waiting.seen[1]);
  for (int rank = 0; rank < SIZE; rank++) {
    gpu_record_t *record = waiting.ranks.records[rank];
    size_t blocks = (gpu_record_bytes(&room) - sizeof *record) / sizeof(uint64_t);
    cr_assert_eq(record->begun, 2u);
    cr_assert_eq(record->ended, 2u);
    cr_assert_eq(record->collectives, 2u);
    cr_assert_eq(record->mismatch.is_found, 0u);
    for (size_t i = 0; i < blocks; i++) cr_assert_eq(gpu_record_waits(record)[i], 0u);
    free(waiting.programs[rank]);
  }
  ranks_free(&waiting.ranks);
}

Test(gpu, records_what_ranks_wait_for) {
  for (int p = GPU_PROTOCOL_SLOTS; p < GPU_PROTOCOL_COUNT; p++) check_record((gpu_protocol_t)p);
}
