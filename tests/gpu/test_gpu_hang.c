/*
 * What is known of a call on GPUs that one rank does not make: a report on standard error, the
 * table of coll_comm_dump, and the text of a call that has timed out.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "gpu/gpu.h"
#include "harness/party.h"
#include "harness/virtual_time.h"

#define COUNT 1000
#define MS UINT64_C(1000000)
#define POLL_NS 10000000
#define POLLS_MAX (1000 * HARNESS_PATIENCE)
#define TEXT_BYTES 4096

TestSuite(gpu_hang, .timeout = 120 * HARNESS_BUILD_PATIENCE);

static void begin(const char *limit, const char *ms) {
  gpu_setting("COLL_STANDIN_GPUS", "2");
  gpu_setting(limit, ms);
}

typedef struct side {
  const cuda_driver_t *driver;
  cuda_stream_t cuda;
  coll_stream_t stream;
  float *data;
} side_t;

static int open_side(const party_rank_t *self, side_t *side) {
  PARTY_OK(cuda_driver_load(&side->driver));
  PARTY_OK(cuda_context_enter(side->driver, self->rank));
  PARTY_REQUIRE(side->driver->cuStreamCreateWithPriority(&side->cuda, CUDA_STREAM_NON_BLOCKING,
                                                         0) == CUDA_RESULT_OK,
                "no stream");
  PARTY_OK(coll_stream_from_cuda(side->cuda, &side->stream));
  PARTY_OK(coll_mem_alloc(self->rank, COUNT * sizeof(float), (void **)&side->data));
  PARTY_OK(
      coll_allreduce(side->data, side->data, 7, COLL_FLOAT32, COLL_SUM, self->comm, side->stream));
  PARTY_OK(coll_stream_sync(side->stream)); /* or it may be the call that is reported */
  return 0;
}

static int close_side(party_rank_t *self, side_t *side) {
  PARTY_OK(coll_mem_free(side->data));
  PARTY_OK(coll_stream_destroy(side->stream));
  PARTY_REQUIRE(side->driver->cuStreamDestroy(side->cuda) == CUDA_RESULT_OK, "the stream is busy");
  cuda_context_leave(side->driver, self->rank);
  return 0;
}

static int call(party_rank_t *self, side_t *side) {
  PARTY_OK(coll_allreduce(side->data, side->data, COUNT, COLL_FLOAT32, COLL_SUM, self->comm,
                          side->stream));
  return 0;
}

static void read_text(const char *path, char text[TEXT_BYTES]) {
  FILE *file = fopen(path, "r");
  size_t got = file != NULL ? fread(text, 1, TEXT_BYTES - 1, file) : 0;
  text[got] = '\0';
  if (file != NULL) fclose(file);
}

/* Waits until the file contains the words. */
static int await(const char *path, const char *words, char text[TEXT_BYTES]) {
  for (int poll = 0; poll < POLLS_MAX; poll++) {
    read_text(path, text);
    if (strstr(text, words) != NULL) return 0;
    base_clock_sleep_ns(POLL_NS);
  }
  return harness_fail("'%s' is not in '%s'", words, text);
}

static int check_report(const side_t *side, const char *text) {
  char stream[64];
  snprintf(stream, sizeof stream, "on stream %#llx,", (unsigned long long)(uintptr_t)side->cuda);
  const char *who = getenv("COLL_CUDA_ENGINE") != NULL ? "its copy engines on GPU 0 have"
                                                       : "its kernel on GPU 0 has";
  char words[128];
  snprintf(words, sizeof words,
           "rank 0: %s been in call 3, allreduce(float32, sum, count 1000) on GPUs", who);
  PARTY_REQUIRE(strstr(text, words), "%s", text);
  PARTY_REQUIRE(strstr(text, stream), "%s", text);
  PARTY_REQUIRE(strstr(text, " wait for rank 1; rank 1 (pid"), "%s", text);
  PARTY_REQUIRE(strstr(text, "its last call was 2, allreduce(float32, sum, count 7)"), "%s", text);
  return 0;
}

/* Rank 0's standard error is a file meanwhile. */
static int look(party_rank_t *self, const side_t *side, const char *path) {
  char text[TEXT_BYTES], dump[] = "/tmp/libcoll-dump-XXXXXX";
  PARTY_TRY(await(path, " wait for rank 1; ", text));
  PARTY_TRY(check_report(side, text));
  int fd = mkstemp(dump);
  PARTY_REQUIRE(fd >= 0, "no file");
  coll_status_t status = coll_comm_dump(self->comm, dump);
  read_text(dump, text);
  close(fd);
  unlink(dump);
  PARTY_OK(status);
  PARTY_REQUIRE(strstr(text, "in 3, allreduce(float32, sum, count 1000) on GPUs") != NULL &&
                    strstr(text, "s for rank 1\n") != NULL &&
                    strstr(text, "last 2, allreduce(float32, sum, count 7) on GPUs") != NULL,
                "%s", text);
  return 0;
}

static int look_at_errors(party_rank_t *self, const side_t *side) {
  char path[] = "/tmp/libcoll-hang-XXXXXX";
  int fd = mkstemp(path), kept = dup(STDERR_FILENO);
  PARTY_REQUIRE(fd >= 0 && kept >= 0 && dup2(fd, STDERR_FILENO) >= 0, "no file");
  int failed = look(self, side, path);
  dup2(kept, STDERR_FILENO);
  close(kept);
  close(fd);
  unlink(path);
  return failed;
}

/* Rank 1 makes the call when rank 0 has been reported to wait. */
static int one_is_late(party_rank_t *self) {
  side_t side;
  PARTY_TRY(open_side(self, &side));
  if (self->rank == 0) {
    PARTY_TRY(call(self, &side));
    PARTY_TRY(look_at_errors(self, &side));
  }
  harness_barrier();
  if (self->rank == 1) PARTY_TRY(call(self, &side));
  PARTY_OK(coll_stream_sync(side.stream));
  return close_side(self, &side);
}

Test(gpu_hang, is_reported_and_dumped) {
  harness_result_t result;
  begin("COLL_HANG_MS", "200");
  cr_assert(party_threads(2, 60000, one_is_late, NULL, &result), "%s", result.text);
  gpu_expect_clean();
}

Test(gpu_hang, of_copy_engines_is_reported_and_dumped) {
  harness_result_t result;
  begin("COLL_HANG_MS", "200");
  gpu_setting("COLL_CUDA_ENGINE", "copy");
  cr_assert(party_threads(2, 60000, one_is_late, NULL, &result), "%s", result.text);
  gpu_expect_clean();
}

static int one_never_calls(party_rank_t *self) {
  side_t side;
  virtual_time_freeze();
  PARTY_TRY(open_side(self, &side));
  harness_barrier();
  if (self->rank == 0) PARTY_TRY(call(self, &side));
  coll_status_t status = coll_comm_error(self->comm);
  while (status == COLL_OK) {
    if (self->rank == 1) virtual_time_advance(5 * MS);
    base_clock_sleep_ns(MS);
    status = coll_comm_error(self->comm);
  }
  PARTY_OK(coll_stream_sync(side.stream));
  PARTY_REQUIRE(status == COLL_ERROR_TIMEOUT, "status %d", (int)status);
  const char *text = coll_last_error(NULL);
  PARTY_REQUIRE(strstr(text, "in call 3, allreduce(float32, sum, count 1000)") != NULL &&
                    strstr(text, "wait for rank 1") != NULL,
                "%s", text);
  coll_comm_destroy(self->comm);
  self->comm = NULL;
  return close_side(self, &side);
}

Test(gpu_hang, a_time_limit_names_the_call) {
  harness_result_t result;
  begin("COLL_CALL_TIMEOUT_MS", "3000");
  virtual_time_begin();
  cr_assert(party_threads(2, 60000, one_never_calls, NULL, &result), "%s", result.text);
}

Test(gpu_hang, a_time_limit_names_the_call_of_copy_engines) {
  harness_result_t result;
  begin("COLL_CALL_TIMEOUT_MS", "3000");
  virtual_time_begin();
  gpu_setting("COLL_CUDA_ENGINE", "copy");
  cr_assert(party_threads(2, 60000, one_never_calls, NULL, &result), "%s", result.text);
}
