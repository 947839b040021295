/*
 * Long messages beside other calls of the communicator: what one call has received in part, or
 * lent to the network, is not lost or changed when another one ends. Meant for a network
 * (COLL_TRANSPORTS=tcp), whose transports use the memory of calls for as long as these last.
 */
#include <coll.h>
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "comm/comm.h"
#include "harness/party.h"
#include "transport/net/channel/state.h"
#include "transport/net/state.h"

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

enum { AWAY_ELEMENTS = 3000000, LONG_ELEMENTS = 1 << 18, SHORT_ELEMENTS = 1 << 16 }; /* 256 KiB */
enum { GROUPED = 3 }; /* sends of a group */

/* Rank 0 sends more than its peers' sockets hold, and makes no call before they have it. */
static int leave_after_sending(party_rank_t *self) {
  int32_t *data = malloc(2 * AWAY_ELEMENTS * sizeof *data), *all = data + AWAY_ELEMENTS;
  PARTY_REQUIRE(data != NULL, "no memory");
  for (size_t at = 0; at < AWAY_ELEMENTS; at++) data[at] = element_of(self->rank, 0, at);
  if (self->rank == 0) PARTY_OK(coll_send(data, AWAY_ELEMENTS, COLL_INT32, 1, self->comm, NULL));
  if (self->rank == 1) PARTY_OK(coll_recv(all, AWAY_ELEMENTS, COLL_INT32, 0, self->comm, NULL));
  harness_barrier();
  PARTY_OK(coll_broadcast(data, all, AWAY_ELEMENTS, COLL_INT32, 0, self->comm, NULL));
  harness_barrier();
  for (size_t at = 0; at < AWAY_ELEMENTS; at++) {
    PARTY_REQUIRE(all[at] == element_of(0, 0, at), "element %zu is %d", at, (int)all[at]);
  }
  free(data);
  return 0;
}

Test(long_messages, arrive_when_the_sender_makes_no_more_calls) {
  for (int size = 2; size <= 3; size++) PARTY_RUN(size, 30000, leave_after_sending, NULL);
}

/* What is copied when a call ends, because the peer has not told yet that it has it. */
static size_t kept_for(coll_comm_t comm, int rank) {
  size_t bytes = 0;
  const net_outgoing_t *each = net_of(comm->local)->channels.peers[rank].unacked;
  for (; each != NULL; each = each->next) {
    bool counts = net_frame_is_message_of(&each->base.frame, TRANSPORT_CHANNEL_P2P);
    if (counts) bytes += each->base.frame.bytes;
  }
  return bytes;
}

static int send_and_look(party_rank_t *self) {
  int32_t *data = calloc(LONG_ELEMENTS, sizeof *data);
  PARTY_REQUIRE(data != NULL, "no memory");
  for (int round = 0; round < 20; round++) {
    if (self->rank == 0) {
      PARTY_OK(coll_send(data, LONG_ELEMENTS, COLL_INT32, 1, self->comm, NULL));
      size_t kept = kept_for(self->comm, 1);
      PARTY_REQUIRE(kept <= TRANSPORT_P2P_BYTES, "round %d: %zu bytes were copied", round, kept);
    } else {
      PARTY_OK(coll_recv(data, LONG_ELEMENTS, COLL_INT32, 0, self->comm, NULL));
    }
  }
  free(data);
  return 0;
}

Test(between_hosts, little_of_a_long_send_is_copied) {
  PARTY_RUN(2, 30000, send_and_look, NULL);
}

/* The receiver makes no call before all sends of the group have begun. */
static void *await_sends(void *context) {
  party_rank_t *self = context;
  const flight_recorder_t *flight = self->comm->local->flight;
  while (atomic_load_explicit(&flight->recorded, memory_order_relaxed) < GROUPED) sched_yield();
  harness_barrier();
  return NULL;
}

static int send_in_a_group(party_rank_t *self, int32_t *data) {
  pthread_t watcher;
  PARTY_REQUIRE(pthread_create(&watcher, NULL, await_sends, self) == 0, "no thread");
  PARTY_OK(coll_group_start());
  for (int i = 0; i < GROUPED; i++) {
    const int32_t *part = &data[i * LONG_ELEMENTS];
    PARTY_OK(coll_send(part, LONG_ELEMENTS, COLL_INT32, 1, self->comm, NULL));
  }
  PARTY_OK(coll_group_end());
  pthread_join(watcher, NULL);
  size_t kept = kept_for(self->comm, 1);
  PARTY_REQUIRE(kept <= TRANSPORT_P2P_BYTES, "%zu bytes were copied", kept);
  return 0;
}

static int receive_in_a_group(party_rank_t *self, int32_t *data) {
  memset(data, 0xff, GROUPED * LONG_ELEMENTS * sizeof *data);
  harness_barrier();
  for (int i = 0; i < GROUPED; i++) {
    PARTY_OK(coll_recv(&data[i * LONG_ELEMENTS], LONG_ELEMENTS, COLL_INT32, 0, self->comm, NULL));
  }
  for (int at = 0; at < GROUPED * LONG_ELEMENTS; at++) {
    PARTY_REQUIRE(data[at] == at, "element %d is %d", at, (int)data[at]);
  }
  return 0;
}

static int group_to_one_rank(party_rank_t *self) {
  int32_t *data = malloc(GROUPED * LONG_ELEMENTS * sizeof *data);
  PARTY_REQUIRE(data != NULL, "no memory");
  for (int at = 0; at < GROUPED * LONG_ELEMENTS; at++) data[at] = at;
  int failed = self->rank == 0 ? send_in_a_group(self, data) : receive_in_a_group(self, data);
  free(data);
  return failed;
}

/* Each is sent behind the one before, of which the receiver has nothing. */
Test(between_hosts, sends_of_a_group_wait_together) {
  PARTY_RUN(2, 30000, group_to_one_rank, NULL);
}

/* The end of the long send, and all of the short one, are not acknowledged. */
enum { TAILED_ELEMENTS = 500 << 8, BEHIND_ELEMENTS = 230 << 8 };

/* Rank 1 makes no call between the two receives before rank 0's group has ended. */
static int send_a_short_one_behind(party_rank_t *self) {
  int32_t *data = calloc(TAILED_ELEMENTS + BEHIND_ELEMENTS, sizeof *data);
  int32_t *behind = data + TAILED_ELEMENTS;
  PARTY_REQUIRE(data != NULL, "no memory");
  if (self->rank == 0) {
    PARTY_OK(coll_group_start());
    PARTY_OK(coll_send(data, TAILED_ELEMENTS, COLL_INT32, 1, self->comm, NULL));
    PARTY_OK(coll_send(behind, BEHIND_ELEMENTS, COLL_INT32, 1, self->comm, NULL));
    PARTY_OK(coll_group_end());
    harness_barrier();
  } else {
    PARTY_OK(coll_recv(data, TAILED_ELEMENTS, COLL_INT32, 0, self->comm, NULL));
    harness_barrier();
    PARTY_OK(coll_recv(behind, BEHIND_ELEMENTS, COLL_INT32, 0, self->comm, NULL));
  }
  free(data);
  return 0;
}

Test(between_hosts, a_short_send_behind_a_long_one_waits_for_nobody) {
  PARTY_RUN(2, 30000, send_a_short_one_behind, NULL);
}

/* Rank 0's broadcast and send of 256 KiB return while the others make no calls. */
static int send_to_absent(party_rank_t *self) {
  int32_t *data = malloc(3 * SHORT_ELEMENTS * sizeof *data);
  int32_t *all = data + SHORT_ELEMENTS, *got = all + SHORT_ELEMENTS;
  PARTY_REQUIRE(data != NULL, "no memory");
  for (size_t at = 0; at < SHORT_ELEMENTS; at++) data[at] = element_of(self->rank, 1, at);
  if (self->rank != 0) harness_barrier();
  PARTY_OK(coll_broadcast(data, all, SHORT_ELEMENTS, COLL_INT32, 0, self->comm, NULL));
  if (self->rank == 0) PARTY_OK(coll_send(data, SHORT_ELEMENTS, COLL_INT32, 1, self->comm, NULL));
  if (self->rank == 0) harness_barrier();
  if (self->rank == 1) PARTY_OK(coll_recv(got, SHORT_ELEMENTS, COLL_INT32, 0, self->comm, NULL));
  PARTY_OK(coll_barrier(self->comm, NULL));
  for (size_t at = 0; at < SHORT_ELEMENTS; at++) {
    PARTY_REQUIRE(all[at] == element_of(0, 1, at), "element %zu is %d", at, (int)all[at]);
    PARTY_REQUIRE(self->rank != 1 || got[at] == all[at], "got %zu is %d", at, (int)got[at]);
  }
  free(data);
  return 0;
}

/* Of ranks of one host, most broadcasts wait for the others. */
Test(between_hosts, a_send_and_a_broadcast_of_256_kib_wait_for_nobody) {
  for (int size = 2; size <= 3; size++) PARTY_RUN(size, 30000, send_to_absent, NULL);
}

static void *send_long(void *context) {
  party_rank_t *self = context;
  int32_t *data = calloc(AWAY_ELEMENTS, sizeof *data);
  coll_status_t status = data == NULL
                             ? COLL_ERROR_MEMORY
                             : coll_send(data, AWAY_ELEMENTS, COLL_INT32, 1, self->comm, NULL);
  if (status != COLL_OK) harness_fail("send: %s", coll_last_error(NULL));
  free(data);
  return status == COLL_OK ? NULL : self;
}

/* Rank 1 receives rank 0's long message only when rank 2 has had rank 0's answer. */
static int answer_beside_a_long_send(party_rank_t *self, int32_t *all) {
  int32_t word = 7;
  pthread_t sender;
  void *failed = NULL;
  if (self->rank == 0) {
    PARTY_REQUIRE(pthread_create(&sender, NULL, send_long, self) == 0, "no thread");
    PARTY_OK(coll_recv(&word, 1, COLL_INT32, 2, self->comm, NULL));
    PARTY_OK(coll_send(&word, 1, COLL_INT32, 2, self->comm, NULL));
    pthread_join(sender, &failed);
  }
  if (self->rank == 2) {
    PARTY_OK(coll_send(&word, 1, COLL_INT32, 0, self->comm, NULL));
    PARTY_OK(coll_recv(&word, 1, COLL_INT32, 0, self->comm, NULL));
    PARTY_OK(coll_send(&word, 1, COLL_INT32, 1, self->comm, NULL));
  }
  if (self->rank == 1) {
    PARTY_OK(coll_recv(&word, 1, COLL_INT32, 2, self->comm, NULL));
    PARTY_OK(coll_recv(all, AWAY_ELEMENTS, COLL_INT32, 0, self->comm, NULL));
  }
  return failed != NULL;
}

static int answer_many_times(party_rank_t *self) {
  int32_t *all = malloc(AWAY_ELEMENTS * sizeof *all);
  int failed = all == NULL;
  for (int round = 0; round < 5 && !failed; round++) {
    failed = answer_beside_a_long_send(self, all);
  }
  free(all);
  return failed;
}

Test(long_messages, hold_up_no_other_call) {
  PARTY_RUN(3, 30000, answer_many_times, NULL);
}
