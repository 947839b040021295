/*
 * Calls whose buffers are in windows, through coll.h, on the stand-in's GPUs: every collective and
 * algorithm, in place and not, at offsets, with ranks as threads and processes; captured calls;
 * ranks whose buffers are elsewhere.
 */
#include <stdio.h>

#include "base/clock.h"
#include "base/names.h"
#include "gpu/gpu.h"
#include "gpu/standin/functions.h"
#include "harness/party.h"
#include "harness/sample.h"

enum { BYTES = 4 << 20, HALF = BYTES / 2 };

TestSuite(window_calls, .timeout = 120 * HARNESS_BUILD_PATIENCE);

extern const int64_t coll_cuda_image[]; /* of the stand-in's kernel, which is then linked */

static int gpus; /* that ranks share */

static void begin(void) {
  cr_assert(coll_cuda_image[0] != 0);
  gpu_setting("COLL_STANDIN_GPUS", "4");
  gpu_setting("COLL_STANDIN_DELAY_US", "50");
}

/* Processes with a GPU each, then threads that share two: a process that uses CUDA cannot fork. */
static void run(int size, party_body_t body, void *context) {
  harness_result_t result;
  gpus = 4;
  cr_assert(party_processes(size, 60000, body, context, &result), "processes: %s", result.text);
  gpus = 2;
  cr_assert(party_threads(size, 60000, body, context, &result), "threads: %s", result.text);
}

/* A rank's GPU, a stream of it, and memory that is a window. */
typedef struct side {
  const cuda_driver_t *driver;
  int device;
  cuda_stream_t cuda;
  coll_stream_t stream;
  char *memory;
  coll_window_t window;
} side_t;

static int open_side(party_rank_t *self, side_t *side) {
  side->device = self->rank % gpus;
  PARTY_OK(cuda_driver_load(&side->driver));
  PARTY_OK(cuda_context_enter(side->driver, side->device));
  PARTY_REQUIRE(side->driver->cuStreamCreateWithPriority(&side->cuda, CUDA_STREAM_NON_BLOCKING,
                                                         0) == CUDA_RESULT_OK,
                "no stream");
  PARTY_OK(coll_stream_from_cuda(side->cuda, &side->stream));
  PARTY_OK(coll_mem_alloc(side->device, BYTES, (void **)&side->memory));
  PARTY_OK(coll_window_create(self->comm, side->memory, BYTES, &side->window));
  return 0;
}

/* Of a communicator that works. */
static int close_side(party_rank_t *self, side_t *side) {
  PARTY_OK(coll_window_destroy(side->window));
  PARTY_OK(coll_barrier(self->comm, NULL));
  PARTY_OK(coll_mem_free(side->memory));
  PARTY_OK(coll_stream_destroy(side->stream));
  PARTY_REQUIRE(side->driver->cuStreamDestroy(side->cuda) == CUDA_RESULT_OK, "the stream is busy");
  cuda_context_leave(side->driver, side->device);
  return 0;
}

/* ---- every collective -----------------------------------------------------------------------*/

/* The buffers are `at` bytes into their halves of the window; in place, both are in the second. */
static int ask(party_rank_t *self, side_t *side, const question_t *q, bool in_place, size_t at) {
  size_t element = base_dtype_bytes(q->dtype);
  size_t bytes = question_input_elements(q, self->rank) * element;
  char *input = side->memory + at, *output = side->memory + HALF + at, *before = malloc(bytes + 1);
  char text[QUESTION_TEXT_BYTES], question[QUESTION_TEXT_BYTES];
  ptrdiff_t offset = 0;
  question_describe(q, question);
  in_place = in_place && question_in_place(q, self->rank, &offset);
  if (in_place) {
    ptrdiff_t bytes_apart = offset * (ptrdiff_t)element;
    if (bytes_apart < 0) output -= bytes_apart;
    input = output + bytes_apart;
  }
  memset(side->memory, 0xee, BYTES);
  question_fill(q, self->rank, input);
  memcpy(before, input, bytes);
  PARTY_OK(party_call(self->comm, self->rank, q, input, output, side->stream));
  PARTY_OK(coll_stream_sync(side->stream));
  PARTY_OK(coll_comm_error(self->comm));
  PARTY_REQUIRE(question_answered(q, self->rank, output, text), "%s by %s: %s", question,
                coll_comm_algo_used(self->comm, q->collective), text);
  PARTY_REQUIRE(in_place || memcmp(before, input, bytes) == 0, "%s by %s: input was written",
                question, coll_comm_algo_used(self->comm, q->collective));
  free(before);
  return 0;
}

static int ask_with_counts(party_rank_t *self, side_t *side, coll_collective_t collective) {
  static const size_t counts[] = {1, 3, 1000, 60001};
  for (size_t i = 0; i < 2 * sizeof counts / sizeof counts[0]; i++) {
    question_t q = {.collective = collective,
                    .size = self->size,
                    .root = self->size - 1,
                    .count = counts[i / 2],
                    .dtype = i % 3 == 0 ? COLL_FLOAT32 : COLL_INT32,
                    .op = i % 3 == 0 ? COLL_AVG : COLL_SUM,
                    .seed = i + 7};
    PARTY_TRY(ask(self, side, &q, i % 2 == 1, 4 * i));
  }
  return 0;
}

static int call_all(party_rank_t *self) {
  side_t side;
  PARTY_TRY(open_side(self, &side));
  for (int c = 0; c < COLL_COLLECTIVE_COUNT; c++) {
    coll_collective_t collective = (coll_collective_t)c;
    if (c == COLL_BARRIER || c == COLL_ALLTOALLV || c == COLL_SENDRECV) continue;
    if (!base_collective_is_on_gpus(collective)) continue;
    PARTY_TRY(ask_with_counts(self, &side, collective));
  }
  return close_side(self, &side);
}

Test(window_calls, of_every_collective) {
  begin();
  run(4, call_all, NULL);
  gpu_expect_clean();
}

static int force_all(party_rank_t *self) {
  side_t side;
  PARTY_TRY(open_side(self, &side));
  for (int c = 0; c < COLL_COLLECTIVE_COUNT; c++) {
    coll_collective_t collective = (coll_collective_t)c;
    if (c == COLL_BARRIER || c == COLL_ALLTOALLV || c == COLL_SENDRECV) continue;
    if (!base_collective_is_on_gpus(collective)) continue;
    for (int i = 0; coll_algo_name(collective, i) != NULL; i++) {
      const char *name = coll_algo_name(collective, i);
      question_t q = {.collective = collective,
                      .size = self->size,
                      .count = 5001,
                      .dtype = COLL_INT32,
                      .seed = 11};
      PARTY_OK(coll_comm_algo_set(self->comm, collective, name));
      PARTY_TRY(ask(self, &side, &q, i % 2 == 0, 64));
      PARTY_TRY(ask(self, &side, &q, i % 2 == 1, 128));
    }
    PARTY_OK(coll_comm_algo_set(self->comm, collective, NULL));
  }
  return close_side(self, &side);
}

Test(window_calls, by_every_algorithm) {
  begin();
  run(3, force_all, NULL);
  gpu_expect_clean();
}

/* Algorithms that access buffers of peers, where they are all in windows, else others. */
static const struct {
  coll_collective_t collective;
  const char *algorithm;
} reaching[] = {
    {COLL_ALLREDUCE, "oneshot"},
    {COLL_ALLREDUCE, "twophase_push"},
    {COLL_ALLREDUCE, "twophase_pull"},
    {COLL_REDUCE_SCATTER, "mapped"},
    {COLL_ALLGATHER, "mapped"},
    {COLL_ALLGATHER, "mapped_push"},
    {COLL_ALLTOALL, "mapped"},
    {COLL_BROADCAST, "mapped_push"},
    {COLL_BROADCAST, "mapped_push_shares"},
};

static int take_reaching(party_rank_t *self) {
  side_t side;
  PARTY_TRY(open_side(self, &side));
  for (int has_window = 1; has_window >= 0; has_window--) {
    for (size_t i = 0; i < sizeof reaching / sizeof reaching[0]; i++) {
      coll_collective_t collective = reaching[i].collective;
      const char *name = reaching[i].algorithm;
      question_t q = {
          .collective = collective, .size = self->size, .count = 500, .dtype = COLL_INT32};
      PARTY_OK(coll_comm_algo_set(self->comm, collective, name));
      PARTY_TRY(ask(self, &side, &q, i % 2 == 1, 256));
      const char *used = coll_comm_algo_used(self->comm, collective);
      PARTY_REQUIRE((strcmp(used, name) == 0) == (has_window == 1), "%s instead of %s, %d windows",
                    used, name, has_window);
      PARTY_OK(coll_comm_algo_set(self->comm, collective, NULL));
    }
    if (has_window == 1) PARTY_OK(coll_window_destroy(side.window));
  }
  PARTY_OK(coll_window_create(self->comm, side.memory, BYTES, &side.window));
  return close_side(self, &side);
}

Test(window_calls, take_plans_that_access_buffers_of_peers) {
  begin();
  run(3, take_reaching, NULL);
  gpu_expect_clean();
}

/* ---- captured calls --------------------------------------------------------------------------*/

#define REPLAYS (harness_full() ? 1000 : 100)

#define CUDA_DONE(call)                                                  \
  do {                                                                   \
    cuda_result_t cuda_result = (call);                                  \
    if (cuda_result != CUDA_RESULT_OK) {                                 \
      return harness_fail("%s: CUDA error %d", #call, (int)cuda_result); \
    }                                                                    \
  } while (0)

/* In place, so each launch multiplies by the number of ranks, modulo 2^64. */
static int replay_by(party_rank_t *self, side_t *side, const char *algorithm) {
  enum { COUNT = 700 };
  uint64_t *data = (uint64_t *)(void *)(side->memory + 4096), expected = 1;
  cuda_graph_t graph;
  cuda_graph_exec_t executable;
  PARTY_OK(coll_comm_algo_set(self->comm, COLL_ALLREDUCE, algorithm));
  for (int i = 0; i < COUNT; i++) data[i] = 1;
  CUDA_DONE(cuStreamBeginCapture_v2(side->cuda, CUDA_CAPTURE_THREAD_LOCAL));
  PARTY_OK(coll_allreduce(data, data, COUNT, COLL_UINT64, COLL_SUM, self->comm, side->stream));
  CUDA_DONE(cuStreamEndCapture(side->cuda, &graph));
  CUDA_DONE(cuGraphInstantiateWithFlags(&executable, graph, 0));
  for (int i = 0; i < REPLAYS; i++) {
    CUDA_DONE(cuGraphLaunch(executable, side->cuda));
    expected *= (uint64_t)self->size;
    if (i % 100 != 50) continue;
    PARTY_OK(coll_allreduce(data, data, COUNT, COLL_UINT64, COLL_SUM, self->comm, side->stream));
    PARTY_OK(coll_stream_sync(side->stream));
    expected *= (uint64_t)self->size;
  }
  PARTY_OK(coll_stream_sync(side->stream));
  PARTY_OK(coll_comm_error(self->comm));
  for (int i = 0; i < COUNT; i++) {
    PARTY_REQUIRE(data[i] == expected, "%s: element %d is %llu instead of %llu", algorithm, i,
                  (unsigned long long)data[i], (unsigned long long)expected);
  }
  CUDA_DONE(cuGraphExecDestroy(executable));
  CUDA_DONE(cuGraphDestroy(graph));
  return 0;
}

static int replay(party_rank_t *self) {
  side_t side;
  PARTY_TRY(open_side(self, &side));
  PARTY_TRY(replay_by(self, &side, "twophase_push"));
  PARTY_TRY(replay_by(self, &side, "oneshot"));
  return close_side(self, &side);
}

Test(window_calls, that_are_captured) {
  begin();
  run(3, replay, NULL);
  gpu_expect_clean();
}

/* ---- buffers elsewhere -----------------------------------------------------------------------*/

typedef struct elsewhere {
  coll_collective_t collective;
  const char *algorithm; /* NULL: the chosen one */
  bool in_place;         /* the last rank calls in place */
  int64_t at;            /* of the last rank's buffers in its window; -1: they are in none */
  bool second;           /* in another window, which overlaps the first */
  const char *text;      /* where that is */
} elsewhere_t;

/* All ranks get the same text. The communicator cannot be used then. */
static int differ(party_rank_t *self) {
  enum { COUNT = 60000 };
  const elsewhere_t *e = self->context;
  bool is_last = self->rank == self->size - 1;
  side_t side;
  coll_window_t other = NULL;
  char *outside, *input, *output;
  PARTY_TRY(open_side(self, &side));
  PARTY_OK(coll_mem_alloc(side.device, BYTES, (void **)&outside));
  PARTY_OK(coll_window_create(self->comm, side.memory, BYTES, &other));
  if (!e->second || !is_last) PARTY_OK(coll_window_destroy(other));
  input = is_last && e->at >= 0 ? side.memory + e->at : side.memory;
  if (is_last && e->at < 0) input = outside;
  output = input + HALF;
  if (is_last && e->in_place) input = output + (size_t)self->rank * COUNT * sizeof(float);
  PARTY_OK(coll_comm_algo_set(self->comm, e->collective, e->algorithm));
  question_t q = {.collective = e->collective,
                  .size = self->size,
                  .count = COUNT,
                  .dtype = COLL_FLOAT32,
                  .op = COLL_SUM};
  coll_status_t status = party_call(self->comm, self->rank, &q, input, output, side.stream);
  PARTY_OK(coll_stream_sync(side.stream));
  while (status == COLL_OK) {
    status = coll_comm_error(self->comm);
    base_clock_sleep_ns(1000000);
  }
  PARTY_REQUIRE(status == COLL_ERROR_MISMATCH, "status %d: %s", (int)status, coll_last_error(NULL));
  PARTY_REQUIRE(strstr(coll_last_error(NULL), e->text) != NULL, "'%s' is not in '%s'", e->text,
                coll_last_error(NULL));
  coll_comm_destroy(self->comm);
  self->comm = NULL;
  PARTY_OK(coll_mem_free(outside));
  PARTY_OK(coll_mem_free(side.memory));
  PARTY_OK(coll_stream_destroy(side.stream));
  CUDA_DONE(side.driver->cuStreamDestroy(side.cuda));
  cuda_context_leave(side.driver, side.device);
  return 0;
}

#define COUNT_OF(list) (sizeof(list) / sizeof(list)[0])

/* Processes first, as in run. */
static void run_all(elsewhere_t all[], size_t count) {
  harness_result_t result;
  gpus = 4;
  for (size_t i = 0; i < 2 * count; i++) {
    elsewhere_t *e = &all[i % count];
    if (i == count) gpus = 2;
    bool good = i < count ? party_processes(3, 60000, differ, e, &result)
                          : party_threads(3, 60000, differ, e, &result);
    cr_assert(good, "%s, expecting '%s': %s", i < count ? "processes" : "threads", e->text,
              result.text);
  }
}

Test(window_calls, at_other_places_do_not_match) {
  elsewhere_t all[] = {
      {COLL_ALLREDUCE, "twophase_push", .at = 64, .text = "at offset 64 of window 0"},
      {COLL_ALLREDUCE, "oneshot", .at = 64, .text = "the send buffer is at offset"},
      {COLL_ALLGATHER, "mapped_push", .at = 4096, .text = "the receive buffer is at offset"},
      {COLL_ALLREDUCE, "twophase_push", .second = true, .text = "at offset 0 of window 1"},
      {COLL_ALLGATHER, "mapped", .in_place = true, .text = "in place behind those of lower ranks"},
  };
  begin();
  run_all(all, COUNT_OF(all));
}

/* The ranks choose different plans. */
Test(window_calls, in_no_window_do_not_match) {
  elsewhere_t all[] = {
      {COLL_ALLREDUCE, "twophase_push", .at = -1, .text = "in no window"},
      {COLL_REDUCE_SCATTER, NULL, .at = -1, .text = "in no window"},
      {COLL_ALLGATHER, "mapped", .at = -1, .text = "in no window"},
  };
  begin();
  run_all(all, COUNT_OF(all));
}
