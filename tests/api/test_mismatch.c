/*
 * Ranks whose calls do not match: the rank that detects it names both calls, no rank hangs, and the
 * communicator fails on all ranks.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "harness/party.h"

#define COUNT_MAX 60000

/* The call of rank 0, and the call of all others. */
typedef struct clash {
  question_t first, others;
  const char *first_words, *others_words; /* parts of the error text */
  bool coll_memory;
} clash_t;

/* Zeros, which the end of the process frees. */
static void allocate(bool coll_memory, size_t bytes, void **in, void **out) {
  *in = *out = NULL;
  if (!coll_memory) {
    *in = calloc(1, bytes);
    *out = calloc(1, bytes);
  } else if (coll_mem_alloc(COLL_DEVICE_HOST, bytes, in) != COLL_OK ||
             coll_mem_alloc(COLL_DEVICE_HOST, bytes, out) != COLL_OK) {
    abort();
  }
}

static int clash_body(party_rank_t *self) {
  clash_t *clash = self->context;
  question_t q = self->rank == 0 ? clash->first : clash->others;
  void *in, *out;
  size_t bytes = (size_t)self->size * COUNT_MAX * 8;
  q.size = self->size;
  allocate(clash->coll_memory, bytes, &in, &out);
  coll_status_t status = party_call(self->comm, self->rank, &q, in, out, NULL);
  /* A call that needs nothing from the others cannot detect the mismatch; the next call does. */
  for (int next = 0; next < 2 && status == COLL_OK; next++) {
    int32_t one = 1, sum;
    status = coll_allreduce(&one, &sum, 1, COLL_INT32, COLL_SUM, self->comm, NULL);
  }
  PARTY_REQUIRE(status == COLL_ERROR_MISMATCH, "status %s: %s", coll_status_string(status),
                coll_last_error(self->comm));
  coll_status_t *board = harness_board();
  char(*texts)[HARNESS_SENTENCE_BYTES] = (void *)(board + HARNESS_RANKS_MAX);
  board[self->rank] = status;
  snprintf(texts[self->rank], sizeof *texts, "%s", coll_last_error(self->comm));
  harness_barrier();
  int mismatches = 0, complete = 0;
  for (int rank = 0; rank < self->size; rank++) {
    if (board[rank] != COLL_ERROR_MISMATCH) continue;
    mismatches++;
    complete += strstr(texts[rank], clash->first_words) != NULL &&
                strstr(texts[rank], clash->others_words) != NULL;
  }
  harness_barrier();
  PARTY_REQUIRE(mismatches > 0, "nobody says that the calls differ: %s", texts[self->rank]);
  PARTY_REQUIRE(complete > 0 || board[self->rank] != COLL_ERROR_MISMATCH, "it names not both: %s",
                texts[self->rank]);
  PARTY_REQUIRE(coll_barrier(self->comm, NULL) == status, "the communicator went on");
  return 0; /* the memory is freed by the end of the process */
}

/* With the built-in costs, so that the plans are the same on every machine: unreceived messages are
 * detected by a later call that sends messages, not by one that only signals. */
static void clash(clash_t clash) {
  if (!harness_takes_processes()) cr_skip_test("ThreadSanitizer does not see other processes");
  setenv("COLL_TUNE", "builtin", 1);
  for (int memory = 0; memory < 2; memory++) {
    for (int size = 2; size <= 4; size += 2) {
      harness_result_t result;
      clash.coll_memory = memory == 1;
      cr_assert(party_processes(size, 5000, clash_body, &clash, &result), "%s", result.text);
    }
  }
}

#define CALL(which, n, type, o, r) \
  ((question_t){.collective = which, .count = n, .dtype = type, .op = o, .root = r})

Test(mismatch, of_verbs) {
  clash((clash_t){CALL(COLL_ALLREDUCE, 10, COLL_FLOAT32, COLL_SUM, 0),
                  CALL(COLL_ALLGATHER, 10, COLL_FLOAT32, COLL_SUM, 0),
                  "allreduce(float32, sum, count 10)", "allgather(float32, count 10)", false});
}

Test(mismatch, of_large_verbs) {
  clash((clash_t){CALL(COLL_REDUCE_SCATTER, COUNT_MAX, COLL_FLOAT32, COLL_SUM, 0),
                  CALL(COLL_ALLTOALL, COUNT_MAX, COLL_FLOAT32, COLL_SUM, 0),
                  "reduce_scatter(float32, sum, count 60000)", "alltoall(float32, count 60000)",
                  false});
}

Test(mismatch, of_counts) {
  clash((clash_t){CALL(COLL_ALLREDUCE, 10, COLL_INT64, COLL_SUM, 0),
                  CALL(COLL_ALLREDUCE, 11, COLL_INT64, COLL_SUM, 0),
                  "allreduce(int64, sum, count 10)", "allreduce(int64, sum, count 11)", false});
}

Test(mismatch, of_counts_small_and_large) {
  clash((clash_t){CALL(COLL_ALLREDUCE, 10, COLL_INT64, COLL_SUM, 0),
                  CALL(COLL_ALLREDUCE, COUNT_MAX, COLL_INT64, COLL_SUM, 0),
                  "allreduce(int64, sum, count 10)", "allreduce(int64, sum, count 60000)", false});
}

Test(mismatch, of_counts_both_large) {
  clash((clash_t){CALL(COLL_ALLREDUCE, COUNT_MAX - 1, COLL_INT64, COLL_SUM, 0),
                  CALL(COLL_ALLREDUCE, COUNT_MAX, COLL_INT64, COLL_SUM, 0),
                  "allreduce(int64, sum, count 59999)", "allreduce(int64, sum, count 60000)",
                  false});
}

Test(mismatch, of_dtypes) {
  clash((clash_t){CALL(COLL_ALLREDUCE, 10, COLL_INT32, COLL_SUM, 0),
                  CALL(COLL_ALLREDUCE, 10, COLL_FLOAT32, COLL_SUM, 0),
                  "allreduce(int32, sum, count 10)", "allreduce(float32, sum, count 10)", false});
}

Test(mismatch, of_ops) {
  clash((clash_t){CALL(COLL_ALLREDUCE, 10, COLL_INT32, COLL_SUM, 0),
                  CALL(COLL_ALLREDUCE, 10, COLL_INT32, COLL_MAX, 0),
                  "allreduce(int32, sum, count 10)", "allreduce(int32, max, count 10)", false});
}

Test(mismatch, of_roots_that_both_send) {
  clash((clash_t){CALL(COLL_BROADCAST, 10, COLL_INT32, COLL_SUM, 0),
                  CALL(COLL_BROADCAST, 10, COLL_INT32, COLL_SUM, 1),
                  "broadcast(int32, count 10, root 0)", "broadcast(int32, count 10, root 1)",
                  false});
}

Test(mismatch, of_roots_that_both_receive) {
  clash((clash_t){CALL(COLL_BROADCAST, 10, COLL_INT32, COLL_SUM, 1),
                  CALL(COLL_BROADCAST, 10, COLL_INT32, COLL_SUM, 0),
                  "broadcast(int32, count 10, root 1)", "broadcast(int32, count 10, root 0)",
                  false});
}

Test(mismatch, of_verbs_that_both_receive) {
  clash((clash_t){CALL(COLL_REDUCE, 10, COLL_INT32, COLL_SUM, 0),
                  CALL(COLL_BROADCAST, 10, COLL_INT32, COLL_SUM, 0),
                  "reduce(int32, sum, count 10, root 0)", "broadcast(int32, count 10, root 0)",
                  false});
}

Test(mismatch, of_a_large_broadcast_and_a_barrier) {
  clash((clash_t){CALL(COLL_BROADCAST, COUNT_MAX, COLL_INT64, COLL_SUM, 0),
                  CALL(COLL_BARRIER, 0, COLL_UINT8, COLL_SUM, 0),
                  "broadcast(int64, count 60000, root 0)", "barrier()", false});
}

Test(mismatch, of_messages_and_signals) {
  clash((clash_t){CALL(COLL_BARRIER, 0, COLL_UINT8, COLL_SUM, 0),
                  CALL(COLL_ALLREDUCE, 10, COLL_INT32, COLL_SUM, 0), "barrier()",
                  "allreduce(int32, sum, count 10)", false});
}

Test(mismatch, of_a_large_gatherv_and_a_barrier) {
  clash((clash_t){CALL(COLL_BARRIER, 0, COLL_UINT8, COLL_SUM, 0),
                  CALL(COLL_GATHERV, COUNT_MAX, COLL_INT64, COLL_SUM, 0), "barrier()",
                  "gatherv(int64", false});
}

/* ---- pairs ----------------------------------------------------------------------------------*/

typedef struct pair_clash {
  size_t send_count, recv_count;
  coll_dtype_t send_dtype, recv_dtype;
} pair_clash_t;

static int pair_body(party_rank_t *self) {
  const pair_clash_t *clash = self->context;
  static char data[400000];
  coll_status_t status;
  if (self->rank == 0) {
    status = coll_send(data, clash->send_count, clash->send_dtype, 1, self->comm, NULL);
    if (status == COLL_OK) status = coll_barrier(self->comm, NULL);
    PARTY_REQUIRE(status == COLL_ERROR_MISMATCH, "the sender: %s", coll_last_error(self->comm));
    return 0;
  }
  status = coll_recv(data, clash->recv_count, clash->recv_dtype, 0, self->comm, NULL);
  PARTY_REQUIRE(status == COLL_ERROR_MISMATCH, "the receiver: %s", coll_last_error(self->comm));
  char words[64];
  const char *sentence = coll_last_error(self->comm);
  snprintf(words, sizeof words, "rank 1 is in recv(%s, count %zu, from rank 0)",
           coll_dtype_name(clash->recv_dtype), clash->recv_count);
  PARTY_REQUIRE(strstr(sentence, words) != NULL, "%s", sentence);
  snprintf(words, sizeof words, "rank 0 is in send(%s, count %zu, to rank 1)",
           coll_dtype_name(clash->send_dtype), clash->send_count);
  PARTY_REQUIRE(strstr(sentence, words) != NULL, "%s", sentence);
  return 0;
}

Test(mismatch, of_a_send_and_its_receive) {
  pair_clash_t clashes[] = {{10, 11, COLL_INT32, COLL_INT32},   {10, 10, COLL_INT32, COLL_FLOAT32},
                            {0, 1, COLL_INT8, COLL_INT8},       {1, 0, COLL_INT8, COLL_INT8},
                            {90000, 3, COLL_INT32, COLL_INT32}, {3, 90000, COLL_INT32, COLL_INT32},
                            {90000, 0, COLL_INT32, COLL_INT32}, {0, 90000, COLL_INT32, COLL_INT32}};
  for (size_t i = 0; i < sizeof clashes / sizeof *clashes; i++) {
    PARTY_RUN(2, 5000, pair_body, &clashes[i]);
  }
}

/* alltoallv: what one rank sends is not what the other expects. */
static int uneven_body(party_rank_t *self) {
  size_t sends[3] = {2, 2, 2}, receives[3] = {2, 2, 2}, displs[3] = {0, 2, 4};
  int32_t in[6] = {0}, out[6];
  if (self->rank == 1) sends[2] = 1;
  coll_status_t status =
      coll_alltoallv(in, sends, displs, out, receives, displs, COLL_INT32, self->comm, NULL);
  if (status == COLL_OK) status = coll_barrier(self->comm, NULL);
  PARTY_REQUIRE(status == COLL_ERROR_MISMATCH, "rank %d: %s: %s", self->rank,
                coll_status_string(status), coll_last_error(self->comm));
  PARTY_REQUIRE(
      strstr(coll_last_error(self->comm), "rank 1 is in alltoallv(int32, count 1)") != NULL, "%s",
      coll_last_error(self->comm));
  return 0;
}

Test(mismatch, of_counts_between_a_pair) {
  PARTY_RUN(3, 5000, uneven_body, NULL);
}

/* gatherv or scatterv: rank 1 has a block of another size than the root, rank 0, thinks. */
typedef struct rooted_clash {
  coll_collective_t verb;
  size_t counts[2]; /* of the root for rank 1, and of rank 1 */
  bool coll_memory;
} rooted_clash_t;

static coll_status_t rooted_call(party_rank_t *self, const rooted_clash_t *clash, char *in,
                                 char *out) {
  const size_t counts[3] = {1, clash->counts[0], 1};
  size_t own = self->rank == 1 ? clash->counts[1] : counts[self->rank];
  return clash->verb == COLL_GATHERV
             ? coll_gatherv(in, own, out, counts, NULL, COLL_INT64, 0, self->comm, NULL)
             : coll_scatterv(in, counts, NULL, out, own, COLL_INT64, 0, self->comm, NULL);
}

static int rooted_body(party_rank_t *self) {
  const rooted_clash_t *clash = self->context;
  size_t bytes = (COUNT_MAX + 2) * 8;
  void *in, *out;
  char words[80];
  allocate(clash->coll_memory, bytes, &in, &out);
  coll_status_t status = rooted_call(self, clash, in, out);
  if (status == COLL_OK) status = coll_barrier(self->comm, NULL);
  const char *text = coll_last_error(self->comm), *verb = coll_collective_name(clash->verb);
  PARTY_REQUIRE(status == COLL_ERROR_MISMATCH, "rank %d: %s: %s", self->rank,
                coll_status_string(status), text);
  for (int i = 0; i < 2; i++) {
    char count[32] = "";
    if (clash->counts[i] > 0) snprintf(count, sizeof count, "count %zu, ", clash->counts[i]);
    snprintf(words, sizeof words, "rank %d is in %s(int64, %sroot 0)", i, verb, count);
    PARTY_REQUIRE(strstr(text, words) != NULL, "it does not say '%s': %s", words, text);
  }
  return 0; /* the memory is freed by the end of the process */
}

Test(mismatch, of_counts_between_a_root_and_a_rank) {
  static const size_t counts[][2] = {{COUNT_MAX, COUNT_MAX - 1},
                                     {COUNT_MAX, 3},
                                     {3, COUNT_MAX},
                                     {COUNT_MAX, 0},
                                     {0, COUNT_MAX},
                                     {1000, 1001},
                                     {3, 1000},
                                     {1000, 3}};
  if (!harness_takes_processes()) cr_skip_test("ThreadSanitizer does not see other processes");
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
    for (int variant = 0; variant < 4; variant++) {
      rooted_clash_t clash = {.verb = variant % 2 == 0 ? COLL_GATHERV : COLL_SCATTERV,
                              .counts = {counts[i][0], counts[i][1]},
                              .coll_memory = variant > 1};
      harness_result_t result;
      cr_assert(party_processes(3, 5000, rooted_body, &clash, &result), "%s", result.text);
    }
  }
}

/* One rank has the counts in another order, so that their sum is the same; *context: the verb. */
static int vector_body(party_rank_t *self) {
  const coll_collective_t *verb = self->context;
  size_t counts[3] = {1, 2, 3};
  int32_t in[6] = {0}, out[6];
  if (self->rank == 1) {
    counts[0] = 2;
    counts[1] = 1;
  }
  coll_status_t status =
      *verb == COLL_ALLGATHERV
          ? coll_allgatherv(in, out, counts, NULL, COLL_INT32, self->comm, NULL)
          : coll_reduce_scatterv(in, out, counts, COLL_INT32, COLL_MAX, self->comm, NULL);
  if (status == COLL_OK) status = coll_barrier(self->comm, NULL);
  PARTY_REQUIRE(status == COLL_ERROR_MISMATCH, "rank %d: %s: %s", self->rank,
                coll_status_string(status), coll_last_error(self->comm));
  const char *text = *verb == COLL_ALLGATHERV
                         ? "rank 1 is in allgatherv(int32, 6 elements, counts #"
                         : "rank 1 is in reduce_scatterv(int32, max, 6 elements, counts #";
  PARTY_REQUIRE(strstr(coll_last_error(self->comm), text) != NULL, "%s",
                coll_last_error(self->comm));
  return 0;
}

Test(mismatch, of_counts_of_all_ranks) {
  coll_collective_t verbs[] = {COLL_ALLGATHERV, COLL_REDUCE_SCATTERV};
  for (int i = 0; i < 2; i++) PARTY_RUN(3, 5000, vector_body, &verbs[i]);
}

/* Ranks whose memory cannot be mapped know that the address exchange fails, and run another plan
 * than ranks that still wait for the last rank: the call is the same. */
static int late_body(party_rank_t *self) {
  const uint64_t late_ns = 900 * UINT64_C(1000000);
  float own[2] = {1, 0}, *in = own;
  PARTY_OK(coll_comm_algo_set(self->comm, COLL_ALLREDUCE, "mapped_by_two"));
  if (self->rank > 0) PARTY_OK(coll_mem_alloc(COLL_DEVICE_HOST, sizeof own, (void **)&in));
  for (int call = 0; call < 2; call++) {
    in[0] = 1;
    if (self->rank == self->size - 1) base_clock_sleep_ns(late_ns);
    PARTY_OK(coll_allreduce(in, in + 1, 1, COLL_FLOAT32, COLL_SUM, self->comm, NULL));
    PARTY_REQUIRE(in[1] == (float)self->size, "call %d: %g", call, (double)in[1]);
  }
  if (self->rank > 0) PARTY_OK(coll_mem_free(in));
  return 0;
}

Test(mismatch, is_not_what_a_late_rank_leads_to) {
  harness_result_t result;
  if (!harness_takes_processes()) cr_skip_test("ThreadSanitizer does not see other processes");
  cr_assert(party_processes(4, 20000, late_body, NULL, &result), "%s", result.text);
}
