/*
 * Every collective, dtype and operation through coll.h, on memory of cuMemAlloc, of which libcoll
 * knows nothing, and of coll_mem_alloc: 1, 2, 4 and 8 GPUs, threads and processes; processes that
 * share a GPU.
 */
#include "base/names.h"
#include "gpu/comm_copy.h"

#define COUNT 301
#define MEMORY_BYTES ((size_t)256 << 10)
#define TIMEOUT_MS 600000

TestSuite(gpu_matrix, .timeout = 1200);

extern const int64_t coll_cuda_image[]; /* of the stand-in's kernel, which is then linked */

/* A rank's GPU and memory, and which of the calls is next. */
typedef struct matrix {
  side_t side;
  cuda_ptr_t memory;
  unsigned next;
} matrix_t;

/* Both memories, and in place and not, in turn. */
static int ask(party_rank_t *self, matrix_t *matrix, coll_collective_t collective, int dtype,
               int op) {
  unsigned number = matrix->next++;
  if (number % harness_stride(HARNESS_VALUES) != 0) return 0;
  question_t q = {.collective = collective,
                  .size = self->size,
                  .root = (int)number % self->size,
                  .count = collective == COLL_BARRIER ? 0 : COUNT,
                  .dtype = (coll_dtype_t)dtype,
                  .op = (coll_op_t)op,
                  .seed = number};
  for (int turn = 0; turn < 4; turn++) {
    party_style_t style = {.gpus = *(const int *)self->context,
                           .in_place = turn % 2 == 1,
                           .stream = matrix->side.streams[turn / 2]};
    if (turn >= 2) style.memory = (char *)(uintptr_t)matrix->memory;
    style.memory_bytes = MEMORY_BYTES;
    PARTY_TRY(party_ask(self, &q, &style));
  }
  return 0;
}

static int ask_ops(party_rank_t *self, matrix_t *matrix, coll_collective_t collective, int dtype) {
  bool reduces = collective == COLL_ALLREDUCE || collective == COLL_REDUCE ||
                 collective == COLL_REDUCE_SCATTER;
  bool is_float = dtype >= COLL_FLOAT16 && dtype <= COLL_FLOAT8_E5M2;
  int ops = !reduces ? 1 : is_float ? COLL_BAND : COLL_OP_BUILTIN_COUNT;
  for (int op = 0; op < ops; op++) PARTY_TRY(ask(self, matrix, collective, dtype, op));
  return 0;
}

static int ask_all(party_rank_t *self) {
  matrix_t matrix = {.next = 0};
  PARTY_TRY(open_side(self, &matrix.side));
  PARTY_REQUIRE(matrix.side.driver->cuMemAlloc(&matrix.memory, MEMORY_BYTES) == CUDA_RESULT_OK,
                "no memory");
  for (int c = 0; c < COLL_COLLECTIVE_COUNT; c++) {
    if (!base_collective_is_on_gpus((coll_collective_t)c)) continue;
    for (int dtype = 0; dtype < COLL_DTYPE_COUNT; dtype++) {
      PARTY_TRY(ask_ops(self, &matrix, (coll_collective_t)c, dtype));
    }
  }
  PARTY_OK(coll_comm_destroy(self->comm));
  self->comm = NULL;
  PARTY_REQUIRE(matrix.side.driver->cuMemFree(matrix.memory) == CUDA_RESULT_OK, "not freed");
  return close_side(&matrix.side);
}

/* A process that uses CUDA cannot fork, so processes come first. */
static void on_gpus(int size, int gpus, bool with_threads) {
  harness_result_t result;
  cr_assert(coll_cuda_image[0] != 0);
  copy_begin(gpus);
  if (HARNESS_BUILD != HARNESS_THREAD) {
    cr_assert(party_processes(size, TIMEOUT_MS, ask_all, &gpus, &result), "%d processes: %s", size,
              result.text);
  }
  if (!with_threads) return;
  cr_assert(party_threads(size, TIMEOUT_MS, ask_all, &gpus, &result), "%d threads: %s", size,
            result.text);
  gpu_expect_clean();
}

Test(gpu_matrix, of_two_gpus) {
  on_gpus(2, 2, true);
}

Test(gpu_matrix, of_processes_that_share_a_gpu) {
  on_gpus(2, 1, false);
}

#define IN_SOAK(name, size, gpus, with_threads)                                      \
  Test(gpu_matrix, name) {                                                           \
    if (!harness_full()) cr_skip_test("COLL_TEST_FULL=1 runs 1, 4 and 8 GPUs, too"); \
    on_gpus(size, gpus, with_threads);                                               \
  }
IN_SOAK(of_one_gpu, 1, 1, true)
IN_SOAK(of_four_gpus, 4, 4, true)
IN_SOAK(of_eight_gpus, 8, 8, true)
IN_SOAK(of_four_processes_that_share_a_gpu, 4, 1, false)
