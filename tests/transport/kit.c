/* The runners: connect the ranks, run the case on each, wait for all, and destroy the remaining
 * ends. */
#include "transport/kit.h"

#include <stdlib.h>

#include "harness/harness.h"
#include "harness/sample.h"
#include "transport/kit_steps.h"

coll_status_t transport_kit_private_alloc(size_t bytes, void **ptr) {
  *ptr = calloc(1, bytes);
  return *ptr != NULL ? COLL_OK : COLL_ERROR_MEMORY;
}

coll_status_t transport_kit_private_release(void *ptr) {
  free(ptr);
  return COLL_OK;
}

/* Arguments of the cases of one run; every process has its own copy. */
typedef struct job {
  const transport_fixture_t *fixture;
  transport_case_t body;
  transport_t **ends; /* NULL: join */
} job_t;

static int run_case(int rank, int size, void *context) {
  const job_t *job = context;
  transport_t *end = NULL;
  char *board = (char *)harness_board() + HARNESS_BOARD_BYTES / 2; /* cases use the first half */
  if (job->ends != NULL) {
    end = job->ends[rank];
  } else if (job->fixture->join(rank, size, board, &end) != COLL_OK) {
    return harness_fail("cannot join: %s", base_last_error());
  }
  if (end->rank != rank || end->size != size || end->slot_bytes == 0) {
    return harness_fail("says it is rank %d of %d with slots of %zu bytes", end->rank, end->size,
                        end->slot_bytes);
  }
  int code = job->body(job->fixture, &end);
  if (code != 0) return code;
  if (end != NULL) {
    kit_barrier(end); /* everything sent is received before any rank leaves */
    end->ops->destroy(end);
  }
  return 0;
}

/* Longer than a sleep that nothing ends, so that the case itself says what it missed. */
static int timeout_ms(void) {
  return (int)(3 * kit_limit_ns / 1000000);
}

void transport_kit_threads(const transport_fixture_t *fixture, int size, transport_case_t body) {
  transport_t *ends[HARNESS_RANKS_MAX] = {NULL};
  harness_result_t result;
  if (size > fixture->size_max) size = fixture->size_max;
  cr_assert_eq(fixture->make(size, ends), COLL_OK, "%s", base_last_error());
  job_t job = {fixture, body, ends};
  cr_assert(harness_run_threads(size, timeout_ms(), run_case, &job, &result), "%s", result.text);
}

void transport_kit_processes(const transport_fixture_t *fixture, int size, transport_case_t body) {
  harness_result_t result;
  job_t job = {fixture, body, NULL};
  if (HARNESS_BUILD == HARNESS_THREAD && fixture->has_threads) cr_skip_test("threads are enough");
  bool good = HARNESS_BUILD == HARNESS_THREAD
                  ? harness_run_threads(size, timeout_ms(), run_case, &job, &result)
                  : harness_run(size, timeout_ms(), run_case, &job, &result);
  cr_assert(good, "%s", result.text);
}

void transport_kit_with_death(const transport_fixture_t *fixture, int size, transport_case_t body) {
  harness_result_t result;
  job_t job = {fixture, body, NULL};
  cr_assert_not(harness_run(size, timeout_ms(), run_case, &job, &result));
  cr_assert_str_eq(result.text, "rank 0 was killed by signal 9");
}
