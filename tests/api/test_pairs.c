/*
 * Sends, receives and groups: order, size, messages to oneself, and ranks whose calls one thread
 * makes.
 */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "harness/party.h"

static int ring_exchange(party_rank_t *self) {
  static const size_t counts[] = {1, 1000, 3000000}; /* the last fills every FIFO many times */
  int next = (self->rank + 1) % self->size, before = (self->rank + self->size - 1) % self->size;
  for (int c = 0; c < 3; c++) {
    uint32_t *in = malloc(counts[c] * sizeof *in), *out = calloc(counts[c], sizeof *out);
    for (size_t i = 0; i < counts[c]; i++) in[i] = (uint32_t)(i * 7 + (size_t)self->rank);
    PARTY_OK(coll_group_start());
    PARTY_OK(coll_send(in, counts[c], COLL_UINT32, next, self->comm, NULL));
    PARTY_OK(coll_recv(out, counts[c], COLL_UINT32, before, self->comm, NULL));
    PARTY_OK(coll_group_end());
    for (size_t i = 0; i < counts[c]; i++) {
      PARTY_REQUIRE(out[i] == (uint32_t)(i * 7 + (size_t)before), "element %zu of %zu is %u", i,
                    counts[c], out[i]);
    }
    free(in);
    free(out);
  }
  return 0;
}

Test(pairs, exchange_in_a_ring) {
  for (int size = 1; size <= 5; size += 2) PARTY_RUN(size, 30000, ring_exchange, NULL);
}

/* Many messages of growing size to one peer, which does the same. */
static int crowd(party_rank_t *self) {
  enum { MESSAGES = 60, MOST = 2000 };
  static const int repeats = 5;
  int peer = self->size - 1 - self->rank;
  int32_t(*in)[MOST] = calloc(MESSAGES, sizeof *in), (*out)[MOST] = calloc(MESSAGES, sizeof *out);
  for (int r = 0; r < repeats; r++) {
    PARTY_OK(coll_group_start());
    for (int m = 0; m < MESSAGES; m++) {
      size_t count = (size_t)(m * m % MOST);
      for (size_t i = 0; i < count; i++) in[m][i] = 1000 * m + (int32_t)i + self->rank + r;
      PARTY_OK(coll_send(in[m], count, COLL_INT32, peer, self->comm, NULL));
      PARTY_OK(coll_recv(out[m], count, COLL_INT32, peer, self->comm, NULL));
    }
    PARTY_OK(coll_group_end());
    for (int m = 0; m < MESSAGES; m++) {
      for (int i = 0; i < m * m % MOST; i++) {
        PARTY_REQUIRE(out[m][i] == 1000 * m + i + peer + r, "message %d, element %d is %d", m, i,
                      out[m][i]);
      }
    }
  }
  free(in);
  free(out);
  return 0;
}

Test(pairs, keep_many_messages_in_order) {
  for (int size = 1; size <= 4; size++) PARTY_RUN(size, 20000, crowd, NULL); /* 1: to oneself */
}

/* Every rank sends to every rank, including itself, in one group. */
static int all_pairs(party_rank_t *self) {
  double in[8], out[8];
  for (int round = 0; round < 20; round++) {
    PARTY_OK(coll_group_start());
    for (int peer = self->size - 1; peer >= 0; peer--) {
      in[peer] = 100 * self->rank + peer + round;
      PARTY_OK(coll_recv(&out[peer], 1, COLL_FLOAT64, peer, self->comm, NULL));
      PARTY_OK(coll_send(&in[peer], 1, COLL_FLOAT64, peer, self->comm, NULL));
    }
    PARTY_OK(coll_group_end());
    for (int peer = 0; peer < self->size; peer++) {
      PARTY_REQUIRE(out[peer] == 100 * peer + self->rank + round, "from %d: %g", peer, out[peer]);
    }
  }
  return 0;
}

Test(pairs, reach_everybody_in_one_group) {
  PARTY_RUN(3, 10000, all_pairs, NULL);
  PARTY_RUN(8, 20000, all_pairs, NULL);
}

/* A send may be called before its receive, and blocking calls work without a group. */
static int one_way(party_rank_t *self) {
  enum { LARGE = 500000 };
  uint8_t small[3] = {1, 2, 3}, *large = malloc(LARGE);
  if (self->rank == 0) {
    memset(large, 9, LARGE);
    PARTY_OK(coll_send(small, 3, COLL_UINT8, 1, self->comm, NULL)); /* returns before the receive */
    harness_barrier();
    PARTY_OK(coll_send(NULL, 0, COLL_UINT8, 1, self->comm, NULL));
    PARTY_OK(coll_send(large, LARGE, COLL_UINT8, 1, self->comm, NULL));
  } else {
    memset(small, 0, 3);
    memset(large, 0, LARGE);
    harness_barrier();
    PARTY_OK(coll_recv(small, 3, COLL_UINT8, 0, self->comm, NULL));
    PARTY_OK(coll_recv(NULL, 0, COLL_UINT8, 0, self->comm, NULL));
    PARTY_OK(coll_recv(large, LARGE, COLL_UINT8, 0, self->comm, NULL));
    PARTY_REQUIRE(small[0] == 1 && small[2] == 3, "the small message is wrong");
    for (int i = 0; i < LARGE; i++) PARTY_REQUIRE(large[i] == 9, "byte %d is %d", i, large[i]);
  }
  free(large);
  return 0;
}

Test(pairs, send_without_a_group) {
  PARTY_RUN(2, 10000, one_way, NULL);
}

/* ---- groups ---------------------------------------------------------------------------------*/

Test(group, lets_one_thread_drive_all_ranks) {
  enum { SIZE = 5, COUNT = 3000 };
  coll_comm_t comms[SIZE];
  static float in[SIZE][COUNT], out[SIZE][COUNT];
  cr_assert_eq(coll_comm_create_local(SIZE, NULL, comms), COLL_OK, "%s", coll_last_error(NULL));
  const char *algo;
  for (int a = 0; (algo = coll_algo_name(COLL_ALLREDUCE, a)) != NULL; a++) {
    for (int r = 0; r < SIZE; r++) {
      cr_assert_eq(coll_comm_algo_set(comms[r], COLL_ALLREDUCE, algo), COLL_OK);
      for (int i = 0; i < COUNT; i++) in[r][i] = (float)(i % 10 + r);
    }
    coll_group_start();
    for (int r = 0; r < SIZE; r++) {
      cr_assert_eq(coll_allreduce(in[r], out[r], COUNT, COLL_FLOAT32, COLL_SUM, comms[r], NULL),
                   COLL_OK);
    }
    cr_assert_eq(coll_group_end(), COLL_OK, "%s", coll_last_error(NULL));
    for (int r = 0; r < SIZE; r++) {
      for (int i = 0; i < COUNT; i++) {
        cr_assert_eq(out[r][i], (float)(5 * (i % 10) + 10), "%s, rank %d", algo, r);
      }
    }
  }
  for (int r = 0; r < SIZE; r++) coll_comm_destroy(comms[r]);
}

/* Several collectives and pairs of one communicator in one group, nested. */
static int mixed_group(party_rank_t *self) {
  int n = self->size, next = (self->rank + 1) % n, before = (self->rank + n - 1) % n;
  for (int round = 0; round < 30; round++) {
    int32_t one = self->rank + round, sum = 0, most = 0, got = -1, all[8] = {0};
    PARTY_OK(coll_group_start());
    PARTY_OK(coll_allreduce(&one, &sum, 1, COLL_INT32, COLL_SUM, self->comm, NULL));
    PARTY_OK(coll_group_start());
    PARTY_OK(coll_send(&one, 1, COLL_INT32, next, self->comm, NULL));
    PARTY_OK(coll_allgather(&one, all, 1, COLL_INT32, self->comm, NULL));
    PARTY_OK(coll_group_end());
    PARTY_REQUIRE(sum == 0 && got == -1, "an inner end ran the group");
    PARTY_OK(coll_recv(&got, 1, COLL_INT32, before, self->comm, NULL));
    PARTY_OK(coll_allreduce(&one, &most, 1, COLL_INT32, COLL_MAX, self->comm, NULL));
    PARTY_OK(coll_group_end());
    PARTY_REQUIRE(sum == n * (n - 1) / 2 + n * round && most == n - 1 + round, "sum %d, most %d",
                  sum, most);
    PARTY_REQUIRE(got == before + round && all[before] == got, "got %d", got);
  }
  return 0;
}

Test(group, mixes_verbs_and_nests) {
  for (int size = 1; size <= 5; size += 2) PARTY_RUN(size, 10000, mixed_group, NULL);
}

/* A call with wrong arguments fails the group, and no call of the group starts. */
static int failed_group(party_rank_t *self) {
  float in = 1, out = 0;
  PARTY_OK(coll_group_start());
  PARTY_OK(coll_allreduce(&in, &out, 1, COLL_FLOAT32, COLL_SUM, self->comm, NULL));
  coll_status_t wrong = coll_broadcast(&in, &out, 1, COLL_FLOAT32, self->size, self->comm, NULL);
  PARTY_REQUIRE(wrong == COLL_ERROR_INVALID, "root %d was taken", self->size);
  PARTY_REQUIRE(strstr(coll_last_error(self->comm), "root") != NULL,
                "the communicator does not know why: '%s'", coll_last_error(self->comm));
  PARTY_REQUIRE(coll_group_end() == COLL_ERROR_INVALID, "the group did not fail");
  PARTY_REQUIRE(out == 0, "part of the group was carried out");
  PARTY_OK(coll_allreduce(&in, &out, 1, COLL_FLOAT32, COLL_SUM, self->comm, NULL));
  PARTY_REQUIRE(out == (float)self->size, "the communicator is out of step: %g", (double)out);
  PARTY_REQUIRE(coll_group_end() == COLL_ERROR_INVALID, "an end without a start");
  PARTY_OK(coll_group_start());
  PARTY_OK(coll_group_end()); /* empty */
  return 0;
}

Test(group, starts_nothing_after_a_failed_check) {
  PARTY_RUN(2, 10000, failed_group, NULL);
}

/* ---- alltoallv ------------------------------------------------------------------------------*/

/* One pair exchanges most of it, some none. */
static int uneven(party_rank_t *self) {
  enum { MOST = 300000 };
  size_t counts[2][8] = {{0}}, displs[8] = {0};
  int n = self->size;
  uint16_t *in = calloc(MOST, sizeof *in), *out = calloc(MOST, sizeof *out);
  for (int pass = 0; pass < 3;
       pass++) { /* one rank only sends, then only receives, then no rank does anything */
    for (int peer = 0; peer < n; peer++) {
      counts[0][peer] = pass == 0 && self->rank == 0 && peer == n - 1 ? MOST : 0;
      counts[1][peer] = pass == 0 && self->rank == n - 1 && peer == 0 ? MOST : 0;
      if (pass == 1) counts[0][peer] = counts[1][peer] = (size_t)(self->rank == peer ? 5 : 0);
    }
    for (int i = 0; i < MOST; i++) in[i] = (uint16_t)(i + pass);
    PARTY_OK(coll_alltoallv(in, counts[0], displs, out, counts[1], displs, COLL_BFLOAT16,
                            self->comm, NULL));
    for (size_t i = 0; i < counts[1][pass == 1 ? self->rank : 0]; i++) {
      PARTY_REQUIRE(out[i] == (uint16_t)(i + (size_t)pass), "pass %d, element %zu", pass, i);
    }
  }
  free(in);
  free(out);
  return 0;
}

Test(alltoallv, takes_very_uneven_counts) {
  for (int size = 2; size <= 5; size++) PARTY_RUN(size, 10000, uneven, NULL);
}

/* ---- gatherv and scatterv -------------------------------------------------------------------*/

enum { LARGE_COUNT = 100000, GAP = 3 }; /* int32: more than a send may leave unreceived */

/* Element `index` of the block of a rank. */
static int32_t element(int rank, size_t index) {
  return (int32_t)(1000003 * (rank + 1) + (int)index);
}

static void fill_block(int32_t *block, int rank, size_t count) {
  for (size_t i = 0; i < count; i++) block[i] = element(rank, i);
}

static int check_block(const int32_t *block, int rank, size_t count, const char *verb) {
  for (size_t i = 0; i < count; i++) {
    PARTY_REQUIRE(block[i] == element(rank, i), "%s: element %zu of rank %d's block", verb, i,
                  rank);
  }
  return 0;
}

/* Large messages to and from a root that calls in place. Ranks other than it describe their calls
 * alike whether its blocks are of equal size, have gaps, or differ in size. */
static int large_in_place(party_rank_t *self) {
  size_t counts[8], displs[8], all = 0;
  int n = self->size;
  int32_t *own = calloc(2 * LARGE_COUNT, sizeof *own);
  int32_t *blocks = calloc((size_t)n * (2 * LARGE_COUNT + GAP), sizeof *blocks);
  PARTY_REQUIRE(own != NULL && blocks != NULL, "no memory");
  for (int i = 0; i < 3 * n; i++, all = 0) {
    int root = i % n, kind = i / n;
    for (int r = 0; r < n; r++) {
      counts[r] = LARGE_COUNT + (kind == 2 ? (size_t)r : 0);
      displs[r] = all;
      all += counts[r] + (kind == 1 ? GAP : 0);
    }
    bool is_root = self->rank == root;
    size_t count = counts[self->rank];
    int32_t *mine = is_root ? blocks + displs[root] : own;
    memset(blocks, 0, all * sizeof *blocks);
    fill_block(mine, self->rank, count);
    PARTY_OK(coll_gatherv(mine, count, blocks, is_root ? counts : NULL, is_root ? displs : NULL,
                          COLL_INT32, root, self->comm, NULL));
    for (int r = 0; is_root && r < n; r++) {
      PARTY_TRY(check_block(blocks + displs[r], r, counts[r], "gatherv"));
    }
    if (!is_root) memset(own, 0, count * sizeof *own);
    PARTY_OK(coll_scatterv(blocks, is_root ? counts : NULL, is_root ? displs : NULL, mine, count,
                           COLL_INT32, root, self->comm, NULL));
    PARTY_TRY(check_block(mine, self->rank, count, "scatterv"));
  }
  free(own);
  free(blocks);
  return 0;
}

Test(rooted_vectors, are_large_and_in_place_at_the_root) {
  for (int size = 2; size <= 3; size++) PARTY_RUN(size, 20000, large_in_place, NULL);
}
