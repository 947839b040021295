/*
 * The ticket lock: batches that hold tickets on two communicators in opposite orders; communicators
 * that failed with calls under way.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"
#include "comm/lock.h"
#include "harness/harness.h"
#include "run/batch.h"

typedef struct crossed {
  struct coll_comm *comms[2];
  run_batch_t batches[2];
} crossed_t;

/* A batch of one barrier on each communicator, without tickets. */
static run_batch_t empty_batch(const crossed_t *crossed) {
  run_batch_t batch = {.calls = calloc(2, sizeof *batch.calls),
                       .call_count = 2,
                       .tickets = calloc(2, sizeof *batch.tickets),
                       .ticket_count = 2};
  if (batch.calls == NULL || batch.tickets == NULL) abort();
  for (int c = 0; c < 2; c++) {
    const comm_traits_t traits = {
        .collective = COLL_BARRIER, .dtype = COLL_UINT8, .reach = PLAN_REACH_USER};
    batch.calls[c] = (run_call_t){
        .kind = RUN_COLLECTIVE, .comm = crossed->comms[c], .shape = comm_shape_make(traits, 0)};
    batch.tickets[c] = (comm_ticket_t){.comm = crossed->comms[c]};
  }
  return batch;
}

static int run_batch(int rank, int size, void *context) {
  (void)size;
  crossed_t *crossed = context;
  if (run_batch_run(&crossed->batches[rank], false) == COLL_OK) return 0;
  return harness_fail("batch %d: %s", rank, base_last_error());
}

Test(lock, serves_batches_with_crossed_tickets) {
  crossed_t crossed;
  harness_result_t result;
  for (int c = 0; c < 2; c++) {
    cr_assert_eq(coll_comm_create_local(1, NULL, &crossed.comms[c]), COLL_OK, "%s",
                 base_last_error());
  }
  for (int round = 0; round < 20; round++) {
    for (int b = 0; b < 2; b++) crossed.batches[b] = empty_batch(&crossed);
    for (int nth = 0; nth < 2; nth++) {
      for (int b = 0; b < 2; b++) {
        int c = (b + nth) % 2;
        crossed.batches[b].tickets[c].number = comm_lock_ticket(crossed.comms[c]);
      }
    }
    cr_assert(harness_run_threads(2, 20000, run_batch, &crossed, &result), "%s", result.text);
    for (int c = 0; c < 2; c++) { /* every ticket was served, and none twice */
      cr_assert_eq(atomic_load(&crossed.comms[c]->order.now_serving), 2u * (unsigned)(round + 1));
    }
  }
  for (int c = 0; c < 2; c++) coll_comm_destroy(crossed.comms[c]);
}

static void *create_another(void *done) {
  coll_unique_id_t id;
  coll_comm_t comm;
  cr_assert_eq(coll_unique_id_create(NULL, &id), COLL_OK, "%s", base_last_error());
  cr_assert_eq(coll_comm_create(&id, 0, 1, NULL, &comm), COLL_OK, "%s", base_last_error());
  atomic_store((_Atomic int *)done, 1);
  coll_comm_destroy(comm);
  return NULL;
}

/* Until then the call may store to memory of peers. */
Test(lock, creation_waits_for_calls_of_failed_communicators) {
  coll_comm_t failed;
  pthread_t creator;
  _Atomic int done = 0;
  cr_assert_eq(coll_comm_create_local(1, NULL, &failed), COLL_OK, "%s", base_last_error());
  comm_lock_take(failed, comm_lock_ticket(failed));
  coll_comm_abort(failed);
  cr_assert_eq(pthread_create(&creator, NULL, create_another, &done), 0);
  base_clock_sleep_ns(200000000u);
  cr_assert_eq(atomic_load(&done), 0, "it did not wait");
  comm_lock_release(failed);
  pthread_join(creator, NULL);
  cr_assert_eq(atomic_load(&done), 1);
  coll_comm_destroy(failed);
}
