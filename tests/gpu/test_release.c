/*
 * How soon ranks are released that wait on their GPUs for one that launches nothing: it aborts, or
 * is killed, while the only thread of each other process, or of each other rank, is in
 * cuStreamSynchronize. By the kernel, by the copy engines, and staged.
 */
#include <stdatomic.h>

#include "base/clock.h"
#include "gpu/comm_copy.h"

#define PROMISE_MS 2000
#define COUNT 1024

TestSuite(timing_gpu_release, .timeout = 120);

/* For all ranks. */
typedef struct board {
  atomic_int waiting;         /* ranks that are about to synchronise, or do */
  _Atomic(uint64_t) ended_ns; /* when the last rank was killed, or has aborted */
} board_t;

/* Of the ranks: begins with what open_side reads. */
typedef struct release {
  int gpus;
  bool is_killed;
  const char *how;
} release_t;

static int wait_on_gpu(party_rank_t *self, const side_t *side, board_t *board) {
  const release_t *release = self->context;
  atomic_fetch_add(&board->waiting, 1);
  PARTY_REQUIRE(side->driver->cuStreamSynchronize(side->cuda[0]) == CUDA_RESULT_OK,
                "not synchronised");
  uint64_t now_ns = base_clock_now_ns(), ended_ns = atomic_load(&board->ended_ns);
  PARTY_REQUIRE(ended_ns != 0, "the call has ended without the last rank");
  unsigned ms = (unsigned)((now_ns - ended_ns) / 1000000);
  if (self->rank == 0)
    printf("%s: streams go on after %u ms / %u ms\n", release->how, ms, PROMISE_MS);
  PARTY_REQUIRE(ms < PROMISE_MS, "%s: it took %u ms", release->how, ms);
  coll_status_t status = coll_comm_error(self->comm);
  PARTY_REQUIRE(status == COLL_ERROR_RANK_LOST, "status %d", (int)status);
  return 0;
}

/* The last rank, which launches nothing. */
static int end(party_rank_t *self, board_t *board) {
  while (atomic_load(&board->waiting) < self->size - 1) base_clock_sleep_ns(1000000);
  base_clock_sleep_ns(50000000); /* most are in the driver by then */
  atomic_store(&board->ended_ns, base_clock_now_ns());
  if (((const release_t *)self->context)->is_killed) harness_kill(self->rank);
  PARTY_OK(coll_comm_abort(self->comm));
  return 0;
}

static int body(party_rank_t *self) {
  board_t *board = harness_board();
  side_t side;
  float *data;
  PARTY_TRY(open_side(self, &side));
  PARTY_OK(coll_mem_alloc(side.device, COUNT * sizeof *data, (void **)&data));
  PARTY_OK(coll_allreduce(data, data, COUNT, COLL_FLOAT32, COLL_SUM, self->comm, side.streams[0]));
  PARTY_OK(coll_stream_sync(side.streams[0]));
  harness_barrier();
  if (self->rank == self->size - 1) {
    PARTY_TRY(end(self, board));
  } else {
    PARTY_OK(
        coll_allreduce(data, data, COUNT, COLL_FLOAT32, COLL_SUM, self->comm, side.streams[0]));
    PARTY_TRY(wait_on_gpu(self, &side, board));
  }
  coll_comm_destroy(self->comm);
  self->comm = NULL;
  PARTY_OK(coll_mem_free(data));
  return close_side(&side);
}

static void release_processes(int gpus, bool is_killed, const char *how) {
  release_t release = {gpus, is_killed, how};
  harness_result_t result;
  bool good = party_processes(3, 60000, body, &release, &result);
  if (is_killed) {
    good = result.ranks[2].end == HARNESS_KILLED;
    for (int rank = 0; rank < 2; rank++) {
      good = good && result.ranks[rank].end == HARNESS_RETURNED && result.ranks[rank].value == 0;
    }
  }
  cr_assert(good, "%s", result.text);
}

static void release_threads(int gpus, const char *how) {
  release_t release = {gpus, false, how};
  harness_result_t result;
  cr_assert(party_threads(3, 60000, body, &release, &result), "%s", result.text);
}

Test(timing_gpu_release, of_kernels) {
  copy_begin(3);
  release_processes(3, true, "kernels, a process is killed");
  release_processes(3, false, "kernels, a process aborts");
  release_threads(3, "kernels, a thread aborts");
}

Test(timing_gpu_release, of_copy_engines) {
  copy_begin(1);
  release_processes(1, true, "copy engines, a process is killed");
  release_processes(1, false, "copy engines, a process aborts");
  gpu_setting("COLL_CUDA_ENGINE", "copy");
  release_threads(1, "copy engines, a thread aborts");
}

Test(timing_gpu_release, of_staged_calls) {
  copy_begin(3);
  gpu_setting("COLL_STANDIN_PEERS", "0-2");
  release_processes(3, true, "staged, a process is killed");
  release_processes(3, false, "staged, a process aborts");
  release_threads(3, "staged, a thread aborts");
}
