/*
 * Messages of flagged lines between ends: every algorithm, threads that share GPUs and processes
 * with one each; where lines do not arrive as a whole; graphs; ranks that ask for other protocols.
 */
#include "device/cuda/end_state.h"
#include "gpu/ends.h"
#include "verify/random.h"

#define LINES (CUDA_PROTOCOL_SIMPLE | CUDA_PROTOCOL_LL128)

TestSuite(end_lines, .timeout = 120 * HARNESS_BUILD_PATIENCE);

static void set_gpus(const char *gpus) {
  gpu_setting("COLL_STANDIN_GPUS", gpus);
  gpu_setting("COLL_STANDIN_STRICT", "1");
}

/* ---- algorithms ------------------------------------------------------------------------------*/

static ends_series_t all_algorithms(int size, int gpus, uint32_t protocols,
                                    ranks_call_t row[RANKS_ROW_MAX]) {
  uint64_t random = (uint64_t)(100 * size + gpus);
  const plan_shape_t shape = {.size = size};
  int count = ranks_row(&random, &shape, row);
  return (ends_series_t){.ends = {.gpus = gpus, .protocols = protocols},
                         .calls = row,
                         .call_count = count,
                         .launches = count,
                         .window = 8,
                         .streams = 2,
                         .seed = random};
}

Test(end_lines, threads_that_share_gpus) {
  ranks_call_t row[RANKS_ROW_MAX];
  set_gpus("2");
  for (int size = 2; size <= 4; size++) {
    ends_series_t series = all_algorithms(size, 2, LINES, row);
    ends_run_threads(size, ends_run_series, &series);
  }
}

Test(end_lines, processes) {
  ranks_call_t row[RANKS_ROW_MAX];
  set_gpus("3");
  ends_series_t series = all_algorithms(3, 3, LINES, row);
  ends_run_processes(3, ends_run_series, &series.ends, &series);
}

/* ---- where there are lines -------------------------------------------------------------------*/

typedef struct lines {
  ends_t ends;
  size_t count;
  bool are_offered, are_used; /* wanted */
} lines_t;

static uint64_t sent_lines(const ends_rank_t *rank) {
  const cuda_end_t *end = rank->end;
  char *arena = (char *)(uintptr_t)end->arena->memory.address;
  uint64_t sent = 0;
  gpu_fifo_t *fifos = gpu_arena_fifo(&end->room, arena, 0, 0);
  for (size_t i = 0; i < gpu_arena_fifos(&end->room); i++) {
    sent += fifos[i].own_flagged[GPU_FLAGGED_LINES].sent;
  }
  return sent;
}

/* An allreduce by rings of `count` elements. */
static int reduce(ends_rank_t *rank, size_t count) {
  const plan_shape_t shape = {.collective = COLL_ALLREDUCE, .size = rank->size};
  const cuda_program_t *program;
  const algo_t *algo;
  plan_t *plan;
  int32_t *data = malloc(count * sizeof *data);
  if (data == NULL) abort();
  for (size_t i = 0; i < count; i++) data[i] = (int32_t)i + rank->rank;
  ENDS_TRY(algo_find(COLL_ALLREDUCE, "ring", &algo));
  ENDS_TRY(algo_build(algo, &shape, rank->rank, true, &plan));
  ENDS_TRY(cuda_end_program(rank->end, plan, &program));
  const cuda_request_t request = {
      .input = data, .output = data, .count = count, .dtype = COLL_INT32};
  ENDS_TRY(cuda_end_launch(rank->end, program, &request, rank->streams[0]));
  ENDS_TRY(cuda_end_synchronize(rank->end));
  for (size_t i = 0; i < count; i++) {
    ENDS_EXPECT(data[i] == (int32_t)i * rank->size + rank->size * (rank->size - 1) / 2);
  }
  free(data);
  plan_free(plan);
  return 0;
}

static int use_lines(int rank_number, int size, void *context) {
  const lines_t *lines = context;
  ends_rank_t rank;
  if (ends_open(&lines->ends, rank_number, size, &rank) != 0) return 1;
  ENDS_EXPECT((cuda_end_offer(rank.end).lines != 0) == lines->are_offered);
  if (reduce(&rank, lines->count) != 0) return 1;
  ENDS_EXPECT((sent_lines(&rank) > 0) == lines->are_used);
  return ends_close(&rank);
}

static void check_use(int gpus, uint32_t protocols, size_t count, bool are_offered, bool are_used) {
  lines_t lines = {{.gpus = gpus, .protocols = protocols}, count, are_offered, are_used};
  ends_run_threads(2, use_lines, &lines);
}

/* Two ranks have slots of 64 KiB, so words of 8 KiB of data and lines of 30 KiB. */
Test(end_lines, are_used_for_calls_of_middle_size) {
  const uint32_t all = LINES | CUDA_PROTOCOL_LL;
  set_gpus("2");
  check_use(2, all, 3000, true, false);
  check_use(2, all, 7000, true, true);
  check_use(2, LINES, 3000, true, true);
  check_use(2, 0, 7000, false, false);
  check_use(2, CUDA_PROTOCOL_SIMPLE, 10, false, false);
}

Test(end_lines, are_not_used_over_pcie) {
  set_gpus("2");
  gpu_setting("COLL_STANDIN_NVLINK", "0");
  check_use(2, LINES, 3000, false, false);
  check_use(1, LINES, 3000, true, true);
}

/* A rank that can send lines to all does not, if another cannot. */
static int agree(int rank_number, int size, void *context) {
  const lines_t *lines = context;
  ends_rank_t rank;
  if (ends_open(&lines->ends, rank_number, size, &rank) != 0) return 1;
  cuda_offer_t offer = cuda_end_offer(rank.end);
  ENDS_EXPECT(offer.lines != 0);
  offer.lines = 0;
  cuda_end_agree(rank.end, offer);
  if (reduce(&rank, lines->count) != 0) return 1;
  ENDS_EXPECT(sent_lines(&rank) == 0);
  return ends_close(&rank);
}

Test(end_lines, are_used_by_all_or_none) {
  lines_t lines = {.ends = {.gpus = 2, .protocols = LINES}, .count = 3000};
  set_gpus("2");
  ends_run_threads(2, agree, &lines);
}

Test(end_lines, refuse_ranks_that_ask_for_others) {
  const cuda_end_config_t config = {.size = 2, .process = 1, .protocols = LINES};
  cuda_record_t records[2];
  cuda_end_t *end = NULL;
  set_gpus("1");
  GPU_OK(cuda_end_create(gpu_driver(), &config, &end));
  cuda_end_describe(end, &records[0]);
  records[1] = records[0];
  records[1].protocols = CUDA_PROTOCOLS_DEFAULT;
  GPU_FAILS(COLL_ERROR_INVALID, "ranks 0 and 1 have different COLL_CUDA_PROTOCOLS",
            cuda_end_connect(end, records, NULL));
  GPU_OK(cuda_end_destroy(end));
  gpu_expect_clean();
}
