/*
 * Programs that coll.h defines as matching though the ranks' calls differ in order: messages that
 * are received only after a collective, messages grouped differently by sender and receiver, and
 * calls of 0 elements. All must succeed, with every element correct.
 */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "harness/party.h"

#define LIMIT_MS 60000
#define MESSAGES_MAX 64               /* messages of a pair for which a send never waits */
#define BYTES_MAX ((size_t)256 << 10) /* and their bytes in total */
#define LARGE 200000

typedef size_t message_bytes_t(int index);

static size_t four_bytes(int index) {
  (void)index;
  return 4;
}

static size_t no_bytes(int index) {
  (void)index;
  return 0;
}

static size_t equal_shares(int index) {
  (void)index;
  return BYTES_MAX / MESSAGES_MAX;
}

static size_t all_bytes(int index) {
  (void)index;
  return BYTES_MAX;
}

/* 0, 1, 2 … 61 bytes, then two that fill the limit. */
static size_t mixed(int index) {
  size_t rest = BYTES_MAX - 61 * 62 / 2;
  return index < 62 ? (size_t)index : index == 62 ? rest / 3 : rest - rest / 3;
}

typedef struct traffic {
  int messages;
  message_bytes_t *bytes;
  size_t collective_count; /* elements of the allreduce between sends and receives */
  bool on_stream;
  int send_group, recv_group; /* calls per group; 0: no groups */
} traffic_t;

static uint8_t value_at(int from, int to, int message, size_t at) {
  return (uint8_t)(from * 89 + to * 31 + message * 7 + (int)(at % 251));
}

/* One side's messages with one peer, all in one allocation. */
typedef struct mailbox {
  uint8_t *bytes;
  size_t starts[MESSAGES_MAX + 1];
} mailbox_t;

static mailbox_t make_mailbox(const traffic_t *traffic) {
  mailbox_t box = {0};
  for (int i = 0; i < traffic->messages; i++) {
    box.starts[i + 1] = box.starts[i] + traffic->bytes(i);
  }
  box.bytes = calloc(box.starts[traffic->messages] + 1, 1);
  if (box.bytes == NULL) abort();
  return box;
}

static void fill_mailbox(mailbox_t *box, const traffic_t *traffic, int from, int to) {
  for (int i = 0; i < traffic->messages; i++) {
    for (size_t at = 0; at < box->starts[i + 1] - box->starts[i]; at++) {
      box->bytes[box->starts[i] + at] = value_at(from, to, i, at);
    }
  }
}

static int check_mailbox(const mailbox_t *box, const traffic_t *traffic, int from, int to) {
  for (int i = 0; i < traffic->messages; i++) {
    for (size_t at = 0; at < box->starts[i + 1] - box->starts[i]; at++) {
      PARTY_REQUIRE(box->bytes[box->starts[i] + at] == value_at(from, to, i, at),
                    "byte %zu of message %d from rank %d is wrong", at, i, from);
    }
  }
  return 0;
}

static int carry(party_rank_t *self, const traffic_t *traffic, const mailbox_t *box, int peer,
                 bool sends, coll_stream_t stream) {
  int group = sends ? traffic->send_group : traffic->recv_group;
  for (int i = 0; i < traffic->messages; i++) {
    uint8_t *at = box->bytes + box->starts[i];
    size_t bytes = box->starts[i + 1] - box->starts[i];
    if (group > 0 && i % group == 0) PARTY_OK(coll_group_start());
    if (sends) {
      PARTY_OK(coll_send(at, bytes, COLL_UINT8, peer, self->comm, stream));
    } else {
      PARTY_OK(coll_recv(at, bytes, COLL_UINT8, peer, self->comm, stream));
    }
    if (group > 0 && (i % group == group - 1 || i == traffic->messages - 1)) {
      PARTY_OK(coll_group_end());
    }
  }
  return 0;
}

static int add_up(party_rank_t *self, const int32_t *in, int32_t *out, size_t count,
                  coll_stream_t stream) {
  PARTY_OK(coll_allreduce(in, out, count, COLL_INT32, COLL_SUM, self->comm, stream));
  return 0;
}

static int check_sum(const party_rank_t *self, const int32_t *out, size_t count) {
  for (size_t i = 0; i < count; i++) {
    PARTY_REQUIRE(out[i] == self->size * (int32_t)(i % 1000), "element %zu of the sum is %d", i,
                  (int)out[i]);
  }
  return 0;
}

/* A rank's buffers for the messages of all peers and for the collective. */
typedef struct exchange {
  const traffic_t *traffic;
  mailbox_t sent[HARNESS_RANKS_MAX], received[HARNESS_RANKS_MAX];
  int32_t *in, *out;
  coll_stream_t stream;
} exchange_t;

static int send_reduce_receive(party_rank_t *self, exchange_t *x) {
  const traffic_t *traffic = x->traffic;
  for (int peer = 0; peer < self->size; peer++) {
    if (peer == self->rank) continue;
    PARTY_TRY(carry(self, traffic, &x->sent[peer], peer, true, x->stream));
  }
  PARTY_TRY(add_up(self, x->in, x->out, traffic->collective_count, x->stream));
  for (int peer = 0; peer < self->size; peer++) {
    if (peer == self->rank) continue;
    PARTY_TRY(carry(self, traffic, &x->received[peer], peer, false, x->stream));
  }
  if (x->stream != NULL) PARTY_OK(coll_stream_sync(x->stream));
  for (int peer = 0; peer < self->size; peer++) {
    if (peer == self->rank) continue;
    PARTY_TRY(check_mailbox(&x->received[peer], traffic, peer, self->rank));
  }
  return check_sum(self, x->out, traffic->collective_count);
}

/* Every rank sends to all others, then all reduce, then every rank receives. */
static int send_reduce_receive_body(party_rank_t *self) {
  exchange_t x = {.traffic = self->context};
  size_t count = x.traffic->collective_count;
  x.in = malloc(count * sizeof *x.in);
  x.out = calloc(count, sizeof *x.out);
  if (x.in == NULL || x.out == NULL) abort();
  for (size_t i = 0; i < count; i++) x.in[i] = (int32_t)(i % 1000);
  for (int peer = 0; peer < self->size; peer++) {
    x.sent[peer] = make_mailbox(x.traffic);
    x.received[peer] = make_mailbox(x.traffic);
    fill_mailbox(&x.sent[peer], x.traffic, self->rank, peer);
  }
  if (x.traffic->on_stream) PARTY_OK(coll_stream_create(&x.stream));
  for (int round = 0; round < 2; round++) PARTY_TRY(send_reduce_receive(self, &x));
  if (x.stream != NULL) PARTY_OK(coll_stream_destroy(x.stream));
  for (int peer = 0; peer < self->size; peer++) {
    free(x.sent[peer].bytes);
    free(x.received[peer].bytes);
  }
  free(x.in);
  free(x.out);
  return 0;
}

static void exchange(traffic_t traffic) {
  const size_t counts[] = {1, LARGE};
  for (int c = 0; c < 2; c++) {
    traffic.collective_count = counts[c];
    for (int size = 2; size <= 4; size += 2) {
      PARTY_RUN(size, LIMIT_MS, send_reduce_receive_body, &traffic);
    }
  }
}

Test(legal, one_send_before_a_collective) {
  exchange((traffic_t){.messages = 1, .bytes = four_bytes});
}

Test(legal, one_send_before_a_collective_on_a_stream) {
  exchange((traffic_t){.messages = 1, .bytes = four_bytes, .on_stream = true});
}

Test(legal, most_sends_before_a_collective) {
  exchange((traffic_t){.messages = MESSAGES_MAX, .bytes = four_bytes});
}

Test(legal, most_sends_before_a_collective_on_a_stream) {
  exchange((traffic_t){.messages = MESSAGES_MAX, .bytes = mixed, .on_stream = true});
}

Test(legal, sends_of_nothing_before_a_collective) {
  exchange((traffic_t){.messages = MESSAGES_MAX, .bytes = no_bytes});
}

Test(legal, most_bytes_in_one_send_before_a_collective) {
  exchange((traffic_t){.messages = 1, .bytes = all_bytes});
}

Test(legal, most_bytes_in_most_sends_before_a_collective) {
  exchange((traffic_t){.messages = MESSAGES_MAX, .bytes = equal_shares});
}

Test(legal, sends_of_all_sizes_before_a_collective) {
  exchange((traffic_t){.messages = MESSAGES_MAX, .bytes = mixed});
}

Test(legal, sends_in_one_group_received_alone) {
  exchange((traffic_t){.messages = MESSAGES_MAX, .bytes = mixed, .send_group = MESSAGES_MAX});
}

Test(legal, sends_alone_received_in_one_group) {
  exchange((traffic_t){.messages = MESSAGES_MAX, .bytes = mixed, .recv_group = MESSAGES_MAX});
}

Test(legal, sends_in_groups_of_3_received_in_groups_of_7) {
  exchange((traffic_t){.messages = MESSAGES_MAX, .bytes = mixed, .send_group = 3, .recv_group = 7});
}

/* ---- messages and collectives in one group --------------------------------------------------*/

/* The even ranks group a send with an allreduce, the odd ones make the calls one by one. */
static int group_on_one_side_body(party_rank_t *self) {
  int peer = self->rank ^ 1;
  for (int round = 0; round < 20; round++) {
    int32_t sent = 100 * self->rank + round, got = -1, one = 1, sum = 0;
    bool even = self->rank % 2 == 0;
    if (even) PARTY_OK(coll_group_start());
    if (even) PARTY_OK(coll_send(&sent, 1, COLL_INT32, peer, self->comm, NULL));
    PARTY_OK(coll_allreduce(&one, &sum, 1, COLL_INT32, COLL_SUM, self->comm, NULL));
    if (even) PARTY_OK(coll_group_end());
    if (!even) PARTY_OK(coll_recv(&got, 1, COLL_INT32, peer, self->comm, NULL));
    PARTY_REQUIRE(sum == self->size, "round %d: sum %d", round, (int)sum);
    PARTY_REQUIRE(even || got == 100 * peer + round, "round %d: got %d", round, (int)got);
  }
  return 0;
}

Test(legal, group_of_a_collective_and_a_send_on_one_side) {
  for (int size = 2; size <= 4; size += 2) PARTY_RUN(size, LIMIT_MS, group_on_one_side_body, NULL);
}

/* The even ranks send and receive in a group, the odd ones send, then receive. */
static int exchange_grouped_on_one_side_body(party_rank_t *self) {
  int peer = self->rank ^ 1;
  for (int round = 0; round < 20; round++) {
    int32_t sent = 100 * self->rank + round, got = -1;
    bool even = self->rank % 2 == 0;
    if (even) PARTY_OK(coll_group_start());
    PARTY_OK(coll_send(&sent, 1, COLL_INT32, peer, self->comm, NULL));
    PARTY_OK(coll_recv(&got, 1, COLL_INT32, peer, self->comm, NULL));
    if (even) PARTY_OK(coll_group_end());
    PARTY_REQUIRE(got == 100 * peer + round, "round %d: got %d", round, (int)got);
  }
  return 0;
}

Test(legal, exchange_in_a_group_on_one_side) {
  for (int size = 2; size <= 4; size += 2) {
    PARTY_RUN(size, LIMIT_MS, exchange_grouped_on_one_side_body, NULL);
  }
}

/* One rank puts its only collective into a group, and an empty group before it. */
static int group_of_one_body(party_rank_t *self) {
  for (int round = 0; round < 20; round++) {
    int32_t one = 1, sum = 0;
    bool grouped = round % self->size == self->rank;
    if (grouped) PARTY_OK(coll_group_start());
    if (grouped) PARTY_OK(coll_group_end());
    if (grouped) PARTY_OK(coll_group_start());
    PARTY_OK(coll_allreduce(&one, &sum, 1, COLL_INT32, COLL_SUM, self->comm, NULL));
    if (grouped) PARTY_OK(coll_group_end());
    PARTY_REQUIRE(sum == self->size, "round %d: sum %d", round, (int)sum);
  }
  return 0;
}

Test(legal, group_of_one_collective) {
  for (int size = 2; size <= 4; size += 2) PARTY_RUN(size, LIMIT_MS, group_of_one_body, NULL);
}

/* A rank sends to itself as many messages as may be unreceived, in one group with a collective. */
static int to_itself_body(party_rank_t *self) {
  traffic_t traffic = {.messages = MESSAGES_MAX, .bytes = mixed};
  mailbox_t sent = make_mailbox(&traffic), received = make_mailbox(&traffic);
  int32_t one = 1, sum = 0;
  fill_mailbox(&sent, &traffic, self->rank, self->rank);
  PARTY_OK(coll_group_start());
  PARTY_TRY(carry(self, &traffic, &sent, self->rank, true, NULL));
  PARTY_TRY(add_up(self, &one, &sum, 1, NULL));
  PARTY_TRY(carry(self, &traffic, &received, self->rank, false, NULL));
  PARTY_OK(coll_group_end());
  PARTY_REQUIRE(sum == self->size, "sum %d", (int)sum);
  PARTY_TRY(check_mailbox(&received, &traffic, self->rank, self->rank));
  free(sent.bytes);
  free(received.bytes);
  return 0;
}

Test(legal, messages_to_itself_in_a_group) {
  for (int size = 2; size <= 4; size += 2) PARTY_RUN(size, LIMIT_MS, to_itself_body, NULL);
}

/* ---- calls of no elements -------------------------------------------------------------------*/

/* All verbs with 0 elements and no buffers, between collectives that synchronize the ranks. */
static int zero_counts_body(party_rank_t *self) {
  for (int verb = 0; verb < COLL_COLLECTIVE_COUNT; verb++) {
    for (int root = 0; root < self->size; root++) {
      question_t q = {.collective = (coll_collective_t)verb,
                      .size = self->size,
                      .root = root,
                      .dtype = COLL_FLOAT32,
                      .op = COLL_SUM};
      int32_t one = 1, sum = 0;
      PARTY_OK(party_call(self->comm, self->rank, &q, NULL, NULL, NULL));
      PARTY_TRY(add_up(self, &one, &sum, 1, NULL));
      PARTY_REQUIRE(sum == self->size, "after %s of 0: sum %d",
                    coll_collective_name((coll_collective_t)verb), (int)sum);
    }
  }
  return 0;
}

Test(legal, collectives_of_no_elements) {
  for (int size = 1; size <= 4; size++) PARTY_RUN(size, LIMIT_MS, zero_counts_body, NULL);
}

/* The same verbs in one group, and queued on a stream. */
static int zero_counts_together_body(party_rank_t *self) {
  coll_stream_t stream;
  PARTY_OK(coll_stream_create(&stream));
  for (int on_stream = 0; on_stream < 2; on_stream++) {
    int32_t one = 1, sum = 0;
    if (!on_stream) PARTY_OK(coll_group_start());
    for (int verb = 0; verb < COLL_SENDRECV;
         verb++) { /* coll_comm_split is not a call of a group */
      question_t q = {.collective = (coll_collective_t)verb,
                      .size = self->size,
                      .dtype = COLL_INT32,
                      .op = COLL_SUM};
      PARTY_OK(party_call(self->comm, self->rank, &q, NULL, NULL, on_stream ? stream : NULL));
    }
    PARTY_TRY(add_up(self, &one, &sum, 1, on_stream ? stream : NULL));
    if (on_stream) {
      PARTY_OK(coll_stream_sync(stream));
    } else {
      PARTY_OK(coll_group_end());
    }
    PARTY_REQUIRE(sum == self->size, "sum %d", (int)sum);
  }
  PARTY_OK(coll_stream_destroy(stream));
  return 0;
}

Test(legal, collectives_of_no_elements_in_a_group_and_on_a_stream) {
  for (int size = 2; size <= 4; size += 2) {
    PARTY_RUN(size, LIMIT_MS, zero_counts_together_body, NULL);
  }
}
