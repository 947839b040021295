/*
 * A rank dies at steps of an exchange that two threads of each rank make: one of them sends, one
 * receives, and the holder of the lock runs the calls of both. All calls of the survivors end, and
 * what fails names the dead rank.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "harness/thread_call.h"
#include "watch/trap.h"

#define TIMEOUT_MS 60000

enum { RANKS = 3, MESSAGES = 3 };

/* Floats of a message: one that fits into a slot, one of several, and one that waits for room. */
static const size_t counts[MESSAGES] = {1, 3000, 100000};

typedef struct death {
  int victim;
  death_record_t *record;
} death_t;

/* ---- the exchange ---------------------------------------------------------------------------*/

/* Around the ring. */
static coll_status_t send_all(void *context) {
  const party_rank_t *self = context;
  float *data = calloc(counts[MESSAGES - 1], sizeof *data);
  coll_status_t status = COLL_OK;
  for (int i = 0; i < MESSAGES && status == COLL_OK; i++) {
    status = coll_send(data, counts[i], COLL_FLOAT32, (self->rank + 1) % RANKS, self->comm, NULL);
  }
  free(data);
  return status;
}

static coll_status_t receive_all(const party_rank_t *self) {
  float *data = calloc(counts[MESSAGES - 1], sizeof *data);
  int peer = (self->rank + RANKS - 1) % RANKS;
  coll_status_t status = COLL_OK;
  for (int i = 0; i < MESSAGES && status == COLL_OK; i++) {
    status = coll_recv(data, counts[i], COLL_FLOAT32, peer, self->comm, NULL);
  }
  free(data);
  return status;
}

/* Returns the worse status of the two threads. */
static coll_status_t exchange_at_once(party_rank_t *self) {
  thread_call_t sends;
  thread_call_start(&sends, send_all, self);
  coll_status_t received = receive_all(self), sent = thread_call_join(&sends);
  return received != COLL_OK ? received : sent;
}

/* ---- deaths ---------------------------------------------------------------------------------*/

static int check_told(const party_rank_t *self, int victim, coll_status_t status) {
  char name[32];
  const char *sentence = coll_last_error(self->comm);
  snprintf(name, sizeof name, "rank %d", victim);
  PARTY_REQUIRE(status == COLL_ERROR_RANK_LOST, "%s: %s", coll_status_string(status), sentence);
  PARTY_REQUIRE(strstr(sentence + strlen("rank 0: "), name) != NULL, "it names not %s: %s", name,
                sentence);
  return 0;
}

static int die_exchanging(party_rank_t *self) {
  const death_t *death = self->context;
  if (self->rank == death->victim) {
    trap_set(self, death->record);
    (void)exchange_at_once(self);
    self->comm = NULL; /* it exits without destroying the communicator: destroying is not dying */
    return 0;
  }
  coll_status_t status = exchange_at_once(self);
  if (status != COLL_OK) PARTY_TRY(check_told(self, death->victim, status));
  while ((status = coll_barrier(self->comm, NULL)) == COLL_OK) {
  }
  return check_told(self, death->victim, status);
}

/* Returns whether the victim has survived. */
static bool survives(death_t *death, long steps) {
  harness_result_t result;
  death->record = death_record_create(steps);
  party_processes(RANKS, TIMEOUT_MS, die_exchanging, death, &result);
  for (int rank = 0; rank < RANKS; rank++) {
    const harness_rank_t *end = &result.ranks[rank];
    if (rank == death->victim) continue;
    cr_assert(end->end == HARNESS_RETURNED && end->value == 0, "%s [victim %d, %ld steps]",
              result.text, death->victim, steps);
  }
  return result.ranks[death->victim].end == HARNESS_RETURNED;
}

static void die_at_steps(const char *transports) {
  setenv("COLL_TRANSPORTS", transports, 1);
  for (int victim = 0; victim < RANKS; victim++) {
    unsigned number = (unsigned)victim;
    death_t death = {.victim = victim};
    cr_assert(survives(&death, -1));
    const death_record_t *all = death.record;
    cr_assert(all->step_count >= 2 * MESSAGES && all->step_count <= DEATH_STEPS_MAX, "%ld steps",
              all->step_count);
    cr_assert_not(survives(&death, 0));
    for (long step = 1; step < all->step_count; step++) {
      if (death_takes(all, step, &number)) survives(&death, step);
    }
  }
}

Test(threads_death, at_steps_over_shared_memory) {
  die_at_steps("shm");
}

Test(threads_death, at_steps_over_tcp) {
  die_at_steps("tcp");
}
