/*
 * Long messages beside other calls of the communicator: what one call has received in part, or
 * lent to the network, is not lost or changed when another one ends. Meant for a network
 * (COLL_TRANSPORTS=tcp), whose transports use the memory of calls for as long as these last.
 */
#include <coll.h>
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "harness/party.h"

enum { ROUNDS = 40, ELEMENTS = 60000, SUMMED = 20000 };

static int32_t element_of(int rank, int round, size_t at) {
  return (int32_t)(rank * 1000003 + round * 7 + (int)at);
}

static void fill(int32_t *data, int rank, int round) {
  for (size_t at = 0; at < ELEMENTS; at++) data[at] = element_of(rank, round, at);
}

static int check(const int32_t *data, int rank, int round) {
  for (size_t at = 0; at < ELEMENTS; at++) {
    PARTY_REQUIRE(data[at] == element_of(rank, round, at), "round %d, element %zu: %d, not %d",
                  round, at, (int)data[at], (int)element_of(rank, round, at));
  }
  return 0;
}

typedef struct buffers {
  int32_t sent[ELEMENTS], got[ELEMENTS];
  float in[SUMMED], out[SUMMED];
} buffers_t;

static int exchange_beside_a_sum(party_rank_t *self, buffers_t *b, int round) {
  int next = (self->rank + 1) % self->size, before = (self->rank + self->size - 1) % self->size;
  fill(b->sent, self->rank, round);
  memset(b->got, 0xff, sizeof b->got);
  for (size_t at = 0; at < SUMMED; at++) b->in[at] = (float)(round + self->rank);
  PARTY_OK(coll_group_start());
  PARTY_OK(coll_recv(b->got, ELEMENTS, COLL_INT32, before, self->comm, NULL));
  PARTY_OK(coll_allreduce(b->in, b->out, SUMMED, COLL_FLOAT32, COLL_SUM, self->comm, NULL));
  PARTY_OK(coll_send(b->sent, ELEMENTS, COLL_INT32, next, self->comm, NULL));
  PARTY_OK(coll_group_end());
  memset(b->sent, 0x55, sizeof b->sent);
  float sum = (float)(self->size * round + self->size * (self->size - 1) / 2);
  for (size_t at = 0; at < SUMMED; at++) {
    PARTY_REQUIRE(b->out[at] == sum, "round %d, sum %zu: %g", round, at, (double)b->out[at]);
  }
  return check(b->got, before, round);
}

static int exchange_beside_sums(party_rank_t *self) {
  buffers_t *b = malloc(sizeof *b);
  int failed = b == NULL;
  for (int round = 0; round < ROUNDS && !failed; round++) {
    failed = exchange_beside_a_sum(self, b, round);
  }
  free(b);
  return failed;
}

Test(long_messages, beside_a_collective_of_the_group) {
  for (int size = 2; size <= 3; size++) PARTY_RUN(size, 30000, exchange_beside_sums, NULL);
}

static void *receive_all(void *context) {
  party_rank_t *self = context;
  int before = (self->rank + self->size - 1) % self->size, failed = 0;
  int32_t *got = malloc(ELEMENTS * sizeof *got);
  for (int round = 0; round < ROUNDS && !failed; round++) {
    memset(got, 0xff, ELEMENTS * sizeof *got);
    failed = coll_recv(got, ELEMENTS, COLL_INT32, before, self->comm, NULL) != COLL_OK;
    if (failed) harness_fail("round %d: %s", round, coll_last_error(NULL));
    if (!failed) failed = check(got, before, round);
  }
  free(got);
  return failed ? self : NULL;
}

static int send_all(party_rank_t *self) {
  int next = (self->rank + 1) % self->size;
  int32_t *sent = malloc(ELEMENTS * sizeof *sent);
  PARTY_REQUIRE(sent != NULL, "no memory");
  for (int round = 0; round < ROUNDS; round++) {
    fill(sent, self->rank, round);
    PARTY_OK(coll_send(sent, ELEMENTS, COLL_INT32, next, self->comm, NULL));
    memset(sent, 0x55, ELEMENTS * sizeof *sent);
  }
  free(sent);
  return 0;
}

static int send_and_receive(party_rank_t *self) {
  pthread_t receiver;
  void *failed = NULL;
  PARTY_REQUIRE(pthread_create(&receiver, NULL, receive_all, self) == 0, "no thread");
  int code = send_all(self);
  pthread_join(receiver, &failed);
  return code != 0 || failed != NULL;
}

Test(long_messages, of_two_threads) {
  PARTY_RUN(2, 30000, send_and_receive, NULL);
}
