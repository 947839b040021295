/*
 * Communicators on the copy engines whose calls do not match, or whose ranks abort or die, also
 * while a launch blocks.
 */
#include <pthread.h>

#include "base/clock.h"
#include "gpu/comm_copy.h"

TestSuite(gpu_comm_copy_failures, .timeout = 120 * HARNESS_BUILD_PATIENCE);

/* ---- calls that do not match ----------------------------------------------------------------*/

/* The last rank makes another call. It is not the messages that tell, but the recorders. */
static int other_call(party_rank_t *self) {
  side_t side;
  float *data;
  size_t count = self->rank == self->size - 1 ? 6 : 5;
  PARTY_TRY(open_side(self, &side));
  PARTY_OK(coll_mem_alloc(side.device, 4096, (void **)&data));
  coll_status_t status =
      coll_allreduce(data, data, 7, COLL_FLOAT32, COLL_SUM, self->comm, side.streams[0]);
  if (status == COLL_OK) { /* else the others are ahead, and this rank hears of it here */
    status = coll_allreduce(data, data, count, COLL_FLOAT32, COLL_SUM, self->comm, side.streams[0]);
  }
  PARTY_OK(coll_stream_sync(side.streams[0]));
  while (status == COLL_OK) {
    status = coll_comm_error(self->comm);
    base_clock_sleep_ns(1000000);
  }
  PARTY_REQUIRE(status == COLL_ERROR_MISMATCH, "status %d: %s", (int)status, coll_last_error(NULL));
  const char *text = coll_last_error(NULL);
  PARTY_REQUIRE(strstr(text, "allreduce(float32, sum, count 5)") != NULL &&
                    strstr(text, "allreduce(float32, sum, count 6)") != NULL,
                "%s", text);
  coll_comm_destroy(self->comm);
  self->comm = NULL;
  PARTY_OK(coll_mem_free(data));
  return close_side(&side);
}

/* Streams are slow, so the call before is still under way on some ranks. */
Test(gpu_comm_copy_failures, collectives_that_do_not_match_are_named) {
  gpu_setting("COLL_STANDIN_DELAY_US", "3000");
  run(3, other_call);
}

/* Rank 0 makes one call more than the others, which destroy the communicator. */
static int one_call_more(party_rank_t *self) {
  side_t side;
  float *data;
  PARTY_TRY(open_side(self, &side));
  PARTY_OK(coll_mem_alloc(side.device, 4096, (void **)&data));
  for (int i = 0; i < (self->rank == 0 ? 2 : 1); i++) {
    PARTY_OK(coll_allreduce(data, data, 7, COLL_FLOAT32, COLL_SUM, self->comm, side.streams[0]));
  }
  coll_status_t status = coll_comm_destroy(self->comm);
  self->comm = NULL;
  PARTY_REQUIRE(status == (self->rank == 0 ? COLL_ERROR_MISMATCH : COLL_OK), "status %d: %s",
                (int)status, coll_last_error(NULL));
  PARTY_REQUIRE(self->rank != 0 || strstr(coll_last_error(NULL), "destroy") != NULL, "%s",
                coll_last_error(NULL));
  PARTY_OK(coll_mem_free(data));
  return close_side(&side);
}

Test(gpu_comm_copy_failures, a_call_that_waits_for_a_rank_that_has_left_fails) {
  run(2, one_call_more);
}

/* ---- failures -------------------------------------------------------------------------------*/

typedef enum ending { ENDING_ABORT, ENDING_KILL, ENDING_OWN_ABORT } ending_t;

static int expect_lost(party_rank_t *self, side_t *side, coll_status_t status, int culprit) {
  PARTY_REQUIRE(status == COLL_OK || status == COLL_ERROR_RANK_LOST, "status %d", (int)status);
  PARTY_OK(coll_stream_sync(side->streams[0]));
  PARTY_REQUIRE(coll_comm_error(self->comm) == COLL_ERROR_RANK_LOST, "no error");
  char name[24];
  snprintf(name, sizeof name, "rank %d", culprit);
  PARTY_REQUIRE(strstr(coll_last_error(NULL), name) != NULL, "%s", coll_last_error(NULL));
  return 0;
}

static void *abort_later(void *comm) {
  base_clock_sleep_ns(100000000);
  coll_comm_abort(comm);
  return NULL;
}

#define BYTES 64
#define SHORT 1   /* messages */
#define LONG 1000 /* which are more operations than streams hold, so the launch blocks */

static coll_status_t launch(party_rank_t *self, side_t *side, char *data, int messages) {
  int last = self->size - 1;
  coll_status_t status = coll_group_start();
  for (int i = 0; i < messages && status == COLL_OK; i++) {
    status = self->rank == 0 && messages > 1
                 ? coll_send(data, BYTES, COLL_UINT8, last, self->comm, side->streams[0])
                 : coll_recv(data, BYTES, COLL_UINT8, last, self->comm, side->streams[0]);
  }
  return status == COLL_OK ? coll_group_end() : status;
}

/* The last rank makes its first call, and no other. The others wait for it. */
static int with_one_missing(party_rank_t *self, int messages, ending_t ending) {
  side_t side;
  char *data;
  pthread_t thread;
  int last = self->size - 1;
  PARTY_TRY(open_side(self, &side));
  PARTY_OK(coll_mem_alloc(side.device, BYTES, (void **)&data));
  PARTY_OK(coll_allreduce(data, data, 8, COLL_INT8, COLL_SUM, self->comm, side.streams[0]));
  PARTY_OK(coll_stream_sync(side.streams[0]));
  harness_barrier();
  if (self->rank == last) {
    base_clock_sleep_ns(100000000); /* the others are in their calls */
    if (ending == ENDING_KILL) harness_kill(self->rank);
    if (ending == ENDING_ABORT) PARTY_OK(coll_comm_abort(self->comm));
    if (ending == ENDING_OWN_ABORT) harness_barrier();
  } else {
    if (ending == ENDING_OWN_ABORT) pthread_create(&thread, NULL, abort_later, self->comm);
    coll_status_t status = launch(self, &side, data, messages);
    PARTY_REQUIRE(messages == SHORT || status != COLL_OK, "the launch did not block");
    PARTY_TRY(expect_lost(self, &side, status, ending == ENDING_OWN_ABORT ? 0 : last));
    if (ending == ENDING_OWN_ABORT) pthread_join(thread, NULL);
    if (ending == ENDING_OWN_ABORT) harness_barrier();
  }
  coll_comm_destroy(self->comm);
  self->comm = NULL;
  PARTY_OK(coll_mem_free(data));
  return close_side(&side);
}

static int abort_short(party_rank_t *self) {
  return with_one_missing(self, SHORT, ENDING_ABORT);
}

static int abort_long(party_rank_t *self) {
  return with_one_missing(self, LONG, ENDING_ABORT);
}

static int abort_own(party_rank_t *self) {
  return with_one_missing(self, LONG, ENDING_OWN_ABORT);
}

static int kill_short(party_rank_t *self) {
  return with_one_missing(self, SHORT, ENDING_KILL);
}

static int kill_long(party_rank_t *self) {
  return with_one_missing(self, LONG, ENDING_KILL);
}

Test(gpu_comm_copy_failures, an_abort_ends_calls_that_wait) {
  run(3, abort_short);
}

Test(gpu_comm_copy_failures, an_abort_ends_a_launch_that_blocks) {
  run(2, abort_long);
}

Test(gpu_comm_copy_failures, an_abort_by_another_thread_ends_a_launch_that_blocks) {
  run(2, abort_own);
}

static void check_death(int size, party_body_t body) {
  int gpus = 1;
  harness_result_t result;
  copy_begin(1);
  party_processes(size, 60000, body, &gpus, &result);
  for (int rank = 0; rank < size - 1; rank++) {
    cr_assert(result.ranks[rank].end == HARNESS_RETURNED && result.ranks[rank].value == 0, "%s",
              result.text);
  }
  cr_assert(result.ranks[size - 1].end == HARNESS_KILLED);
}

Test(gpu_comm_copy_failures, the_death_of_a_rank_ends_calls_that_wait) {
  check_death(3, kill_short);
}

Test(gpu_comm_copy_failures, the_death_of_a_rank_ends_a_launch_that_blocks) {
  check_death(3, kill_long);
}
