/* Batches whose tickets cross: each is first on one communicator and second on the other. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>

#include "comm/batch.h"
#include "comm/lock.h"
#include "harness/harness.h"

typedef struct crossing {
  struct coll_comm *comms[2];
  comm_batch_t batches[2];
} crossing_t;

/* A batch of one barrier on each communicator, without its tickets. */
static comm_batch_t empty_batch(const crossing_t *crossing) {
  comm_batch_t batch = {.calls = calloc(2, sizeof *batch.calls),
                        .call_count = 2,
                        .tickets = calloc(2, sizeof *batch.tickets),
                        .ticket_count = 2};
  if (batch.calls == NULL || batch.tickets == NULL) abort();
  for (int c = 0; c < 2; c++) {
    const comm_traits_t traits = {
        .collective = COLL_BARRIER, .dtype = COLL_UINT8, .reach = PLAN_REACH_USER};
    batch.calls[c] = (comm_call_t){
        .kind = COMM_COLLECTIVE, .comm = crossing->comms[c], .shape = comm_shape_make(traits, 0)};
    batch.tickets[c] = (comm_ticket_t){.comm = crossing->comms[c]};
  }
  return batch;
}

static int run_batch(int rank, int size, void *context) {
  (void)size;
  crossing_t *crossing = context;
  if (comm_batch_run(&crossing->batches[rank], false) == COLL_OK) return 0;
  return harness_fail("batch %d: %s", rank, base_last_error());
}

Test(turn, is_passed_on_by_batches_that_cross) {
  crossing_t crossing;
  harness_result_t result;
  for (int c = 0; c < 2; c++) {
    cr_assert_eq(coll_comm_create_local(1, &crossing.comms[c]), COLL_OK, "%s", base_last_error());
  }
  for (int round = 0; round < 20; round++) {
    for (int b = 0; b < 2; b++) crossing.batches[b] = empty_batch(&crossing);
    for (int nth = 0; nth < 2; nth++) {
      for (int b = 0; b < 2; b++) {
        int c = (b + nth) % 2;
        crossing.batches[b].tickets[c].number = comm_lock_ticket(crossing.comms[c]);
      }
    }
    cr_assert(harness_run_threads(2, 2000, run_batch, &crossing, &result), "%s", result.text);
    for (int c = 0; c < 2; c++) { /* every ticket was passed, and none twice */
      cr_assert_eq(atomic_load(&crossing.comms[c]->turn), 2u * (unsigned)(round + 1));
    }
  }
  for (int c = 0; c < 2; c++) coll_comm_destroy(crossing.comms[c]);
}
