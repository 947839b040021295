/*
 * The bytes that coll_comm_bytes_sent counts: closed formulas where an algorithm has one, and for
 * every algorithm at least what any has to move. Ranks are threads and processes, messages go
 * through shared memory or TCP, and buffers are mapped or not.
 */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "harness/party.h"

#define TIMEOUT_MS 60000
#define LARGE 150000 /* floats of a block: several passes, and more than messages wait for */

#define PARTS_MAX 16384
#define EVEN 1024 /* floats of a part: whole cache lines, so that ranks share multiples evenly */

typedef struct buffers {
  float *input, *output; /* blocks for all ranks */
  bool mapped;
} buffers_t;

static int open_buffers(buffers_t *b, size_t floats, bool mapped) {
  size_t bytes = (floats + 1) * sizeof(float);
  *b = (buffers_t){.mapped = mapped};
  if (mapped) {
    PARTY_OK(coll_mem_alloc(COLL_DEVICE_HOST, bytes, (void **)&b->input));
    PARTY_OK(coll_mem_alloc(COLL_DEVICE_HOST, bytes, (void **)&b->output));
  } else {
    b->input = malloc(bytes);
    b->output = malloc(bytes);
  }
  memset(b->input, 0, bytes);
  memset(b->output, 0, bytes);
  return 0;
}

static void close_buffers(buffers_t *b) {
  if (b->mapped) {
    coll_mem_free(b->input);
    coll_mem_free(b->output);
  } else {
    free(b->input);
    free(b->output);
  }
}

static coll_status_t call(coll_comm_t comm, coll_collective_t collective, const buffers_t *b,
                          size_t count) {
  const float *in = b->input;
  switch (collective) {
    case COLL_ALLREDUCE:
      return coll_allreduce(in, b->output, count, COLL_FLOAT32, COLL_SUM, comm, NULL);
    case COLL_REDUCE:
      return coll_reduce(in, b->output, count, COLL_FLOAT32, COLL_SUM, 0, comm, NULL);
    case COLL_BROADCAST: return coll_broadcast(in, b->output, count, COLL_FLOAT32, 0, comm, NULL);
    case COLL_ALLGATHER: return coll_allgather(in, b->output, count, COLL_FLOAT32, comm, NULL);
    case COLL_REDUCE_SCATTER:
      return coll_reduce_scatter(in, b->output, count, COLL_FLOAT32, COLL_SUM, comm, NULL);
    case COLL_ALLTOALL: return coll_alltoall(in, b->output, count, COLL_FLOAT32, comm, NULL);
    case COLL_GATHER: return coll_gather(in, b->output, count, COLL_FLOAT32, 0, comm, NULL);
    case COLL_SCATTER: return coll_scatter(in, b->output, count, COLL_FLOAT32, 0, comm, NULL);
    default: return COLL_OK;
  }
}

static int sent_since(party_rank_t *self, uint64_t *before, uint64_t *sent) {
  uint64_t now;
  PARTY_OK(coll_comm_bytes_sent(self->comm, &now));
  *sent = now - *before;
  *before = now;
  return 0;
}

/* *sum: of the ranks' values. Its own call is not counted. */
static int sum_over_ranks(party_rank_t *self, uint64_t value, uint64_t *before, uint64_t *sum) {
  *sum = value;
  PARTY_OK(coll_allreduce(sum, sum, 1, COLL_UINT64, COLL_SUM, self->comm, NULL));
  PARTY_OK(coll_comm_bytes_sent(self->comm, before));
  return 0;
}

/* ---- formulas -----------------------------------------------------------------------------*/

/* Floats that a rank sends in a call of p ranks with `count` floats. */
typedef struct formula {
  coll_collective_t collective;
  const char *algo;
  uint64_t (*floats)(int rank, uint64_t p, uint64_t count);
} formula_t;

static uint64_t two_shares(int rank, uint64_t p, uint64_t count) {
  (void)rank;
  return 2 * count * (p - 1) / p;
}

static uint64_t to_all(int rank, uint64_t p, uint64_t count) {
  (void)rank;
  return count * (p - 1);
}

static uint64_t along_chain(int rank, uint64_t p, uint64_t count) {
  return rank + 1 < (int)p ? count : 0;
}

static uint64_t to_all_from_root(int rank, uint64_t p, uint64_t count) {
  return rank == 0 ? count * (p - 1) : 0;
}

static uint64_t to_root(int rank, uint64_t p, uint64_t count) {
  (void)p;
  return rank == 0 ? 0 : count;
}

/* The pulling ones run only where memory is mapped; otherwise the library chooses another. */
static const formula_t formulas[] = {
    {COLL_ALLREDUCE, "ring", two_shares},
    {COLL_ALLREDUCE, "allpairs", to_all},
    {COLL_ALLREDUCE, "twophase_pull", two_shares},
    {COLL_ALLREDUCE, "oneshot", to_all},
    {COLL_ALLGATHER, "ring", to_all},
    {COLL_ALLGATHER, "allpairs", to_all},
    {COLL_ALLGATHER, "mapped", to_all},
    {COLL_REDUCE_SCATTER, "ring", to_all},
    {COLL_REDUCE_SCATTER, "allpairs", to_all},
    {COLL_REDUCE_SCATTER, "mapped", to_all},
    {COLL_ALLTOALL, "pairwise", to_all},
    {COLL_ALLTOALL, "allpairs", to_all},
    {COLL_ALLTOALL, "mapped", to_all},
    {COLL_BROADCAST, "chain", along_chain},
    {COLL_BROADCAST, "linear", to_all_from_root},
    {COLL_BROADCAST, "mapped", to_root},
    {COLL_GATHER, "linear", to_root},
    {COLL_SCATTER, "linear", to_all_from_root},
};

/* Sums are exact for every count, each rank's value where the ranks share evenly. */
static int check_formula(party_rank_t *self, const formula_t *formula, const buffers_t *b,
                         size_t count, uint64_t *before) {
  coll_collective_t collective = formula->collective;
  uint64_t p = (uint64_t)self->size, sum, all = 0, sent = 0;
  bool is_even = count % (p * EVEN) == 0;
  PARTY_OK(coll_comm_algo_set(self->comm, collective, formula->algo));
  for (int rank = 0; rank < self->size; rank++) {
    all += formula->floats(rank, p, count) * sizeof(float);
  }
  for (int times = 0; times < 3; times++) { /* also on the fast path */
    PARTY_OK(call(self->comm, collective, b, count));
    PARTY_TRY(sent_since(self, before, &sent));
    if (strcmp(coll_comm_algo_used(self->comm, collective), formula->algo) != 0) break;
    uint64_t own = formula->floats(self->rank, p, count) * sizeof(float);
    PARTY_REQUIRE(!is_even || sent == own,
                  "%s by %s, %zu floats, mapped %d: %" PRIu64 " bytes, not %" PRIu64,
                  coll_collective_name(collective), formula->algo, count, b->mapped, sent, own);
    PARTY_TRY(sum_over_ranks(self, sent, before, &sum));
    PARTY_REQUIRE(sum == all,
                  "%s by %s, %zu floats, mapped %d: %" PRIu64 " bytes in all, not %" PRIu64,
                  coll_collective_name(collective), formula->algo, count, b->mapped, sum, all);
  }
  PARTY_OK(coll_comm_algo_set(self->comm, collective, NULL));
  return 0;
}

static int check_formulas(party_rank_t *self) {
  static const size_t counts[] = {1, 100, 1024, PARTS_MAX};
  for (int mapped = 0; mapped < 2; mapped++) {
    buffers_t b;
    uint64_t before;
    PARTY_TRY(open_buffers(&b, (size_t)(PARTS_MAX * self->size * self->size), mapped));
    PARTY_OK(coll_comm_bytes_sent(self->comm, &before));
    for (size_t i = 0; i < sizeof formulas / sizeof formulas[0]; i++) {
      for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        size_t count = counts[c] * (size_t)self->size; /* divisible */
        PARTY_TRY(check_formula(self, &formulas[i], &b, count, &before));
      }
    }
    close_buffers(&b);
  }
  return 0;
}

static void run(party_body_t body) {
  for (int size = 1; size <= 4; size++) PARTY_RUN(size, TIMEOUT_MS, body, NULL);
}

Test(traffic, formulas) {
  run(check_formulas);
}

Test(traffic, formulas_over_tcp) {
  setenv("COLL_TRANSPORTS", "tcp", 1);
  run(check_formulas);
}

/* ---- every algorithm ------------------------------------------------------------------------*/

/* Blocks that the ranks have to move together. */
static uint64_t least_blocks(coll_collective_t collective, uint64_t p) {
  switch (collective) {
    case COLL_ALLREDUCE: return 2 * (p - 1);
    case COLL_ALLGATHER:
    case COLL_REDUCE_SCATTER:
    case COLL_ALLTOALL: return p * (p - 1);
    case COLL_REDUCE:
    case COLL_BROADCAST:
    case COLL_GATHER:
    case COLL_SCATTER: return p - 1;
    default: return 0;
  }
}

static int check_least(party_rank_t *self, const buffers_t *b, coll_collective_t collective,
                       const char *algo, size_t count) {
  uint64_t before, sent = 0, sum;
  PARTY_OK(coll_comm_algo_set(self->comm, collective, algo));
  PARTY_OK(coll_comm_bytes_sent(self->comm, &before));
  PARTY_OK(call(self->comm, collective, b, count));
  PARTY_TRY(sent_since(self, &before, &sent));
  PARTY_OK(coll_comm_algo_set(self->comm, collective, NULL));
  PARTY_TRY(sum_over_ranks(self, sent, &before, &sum));
  uint64_t least = least_blocks(collective, (uint64_t)self->size) * count * sizeof(float);
  PARTY_REQUIRE(sum >= least, "%s by %s, mapped %d: %" PRIu64 " bytes in all, fewer than %" PRIu64,
                coll_collective_name(collective), algo, b->mapped, sum, least);
  return 0;
}

static int check_algorithms(party_rank_t *self) {
  static const coll_collective_t collectives[] = {COLL_ALLREDUCE, COLL_REDUCE,  COLL_BROADCAST,
                                                  COLL_ALLGATHER, COLL_GATHER,  COLL_REDUCE_SCATTER,
                                                  COLL_SCATTER,   COLL_ALLTOALL};
  for (int mapped = 0; mapped < 2; mapped++) {
    buffers_t b;
    PARTY_TRY(open_buffers(&b, (size_t)self->size * 1200, mapped));
    for (size_t i = 0; i < sizeof collectives / sizeof collectives[0]; i++) {
      const char *algo;
      for (int a = 0; (algo = coll_algo_name(collectives[i], a)) != NULL; a++) {
        PARTY_TRY(check_least(self, &b, collectives[i], algo, 1200));
      }
    }
    close_buffers(&b);
  }
  return 0;
}

Test(traffic, every_algorithm) {
  run(check_algorithms);
}

/* ---- pairs ------------------------------------------------------------------------------------*/

/* Rank 0 sends to all others, twice. */
static int check_pairs(party_rank_t *self) {
  static const size_t counts[] = {0, 1, 1000, LARGE};
  for (size_t i = 0; i < 2 * sizeof counts / sizeof counts[0]; i++) {
    size_t count = counts[i / 2], peers = (size_t)self->size - 1;
    uint64_t before, sent = 0;
    buffers_t b;
    PARTY_TRY(open_buffers(&b, count, i % 2 == 1));
    PARTY_OK(coll_comm_bytes_sent(self->comm, &before));
    for (int peer = 1; peer < self->size; peer++) {
      for (int times = 0; times < 2; times++) {
        if (self->rank == 0) {
          PARTY_OK(coll_send(b.input, count, COLL_FLOAT32, peer, self->comm, NULL));
        } else if (self->rank == peer) {
          PARTY_OK(coll_recv(b.output, count, COLL_FLOAT32, 0, self->comm, NULL));
        }
      }
    }
    PARTY_TRY(sent_since(self, &before, &sent));
    uint64_t expected = self->rank == 0 ? 2 * peers * count * sizeof(float) : 0;
    PARTY_REQUIRE(sent == expected, "%zu floats: %" PRIu64 " bytes, not %" PRIu64, count, sent,
                  expected);
    PARTY_OK(coll_barrier(self->comm, NULL)); /* large messages are read from the buffers */
    close_buffers(&b);
  }
  return 0;
}

/* Rank r sends (r + 1) (peer + 1) blocks to a peer; what it keeps does not count. */
static int check_alltoallv(party_rank_t *self) {
  enum { BLOCK = 900, RANKS = 4 };
  size_t send[RANKS], recv[RANKS], from[RANKS], to[RANKS], sends = 0, recvs = 0;
  uint64_t before, sent = 0, expected = 0;
  buffers_t b;
  for (int r = 0; r < self->size; r++) {
    send[r] = recv[r] = (size_t)((self->rank + 1) * (r + 1)) * BLOCK;
    from[r] = sends;
    to[r] = recvs;
    sends += send[r];
    recvs += recv[r];
    if (r != self->rank) expected += send[r] * sizeof(float);
  }
  PARTY_TRY(open_buffers(&b, sends, false));
  PARTY_OK(coll_comm_bytes_sent(self->comm, &before));
  PARTY_OK(coll_alltoallv(b.input, send, from, b.output, recv, to, COLL_FLOAT32, self->comm, NULL));
  PARTY_TRY(sent_since(self, &before, &sent));
  PARTY_REQUIRE(sent == expected, "alltoallv: %" PRIu64 " bytes, not %" PRIu64, sent, expected);
  close_buffers(&b);
  return 0;
}

/* ---- blocks of equal size ---------------------------------------------------------------------*/

enum { RANKS_MAX = 8 };

/* One call of a collective of equal blocks, and of its vector variant with as many elements for
 * each rank: by the same algorithm, as many bytes. */
static int check_even_call(party_rank_t *self, const buffers_t *b, size_t count, bool gathers) {
  coll_collective_t even = gathers ? COLL_ALLGATHER : COLL_REDUCE_SCATTER;
  coll_collective_t vector = gathers ? COLL_ALLGATHERV : COLL_REDUCE_SCATTERV;
  uint64_t before, sent = 0, of_even = 0;
  size_t counts[RANKS_MAX];
  for (int r = 0; r < self->size; r++) counts[r] = count;
  PARTY_OK(coll_comm_bytes_sent(self->comm, &before));
  PARTY_OK(call(self->comm, even, b, count));
  PARTY_TRY(sent_since(self, &before, &of_even));
  for (int times = 0; times < 3; times++) { /* the later ones by the fast path */
    PARTY_OK(
        gathers ? coll_allgatherv(b->input, b->output, counts, NULL, COLL_FLOAT32, self->comm, NULL)
                : coll_reduce_scatterv(b->input, b->output, counts, COLL_FLOAT32, COLL_SUM,
                                       self->comm, NULL));
    PARTY_TRY(sent_since(self, &before, &sent));
    PARTY_REQUIRE(sent == of_even, "%zu floats by %s: %" PRIu64 " bytes, not %" PRIu64, count,
                  coll_comm_algo_used(self->comm, vector), sent, of_even);
  }
  PARTY_REQUIRE(
      strcmp(coll_comm_algo_used(self->comm, even), coll_comm_algo_used(self->comm, vector)) == 0,
      "%zu floats: %s, and %s for blocks that may differ", count,
      coll_comm_algo_used(self->comm, even), coll_comm_algo_used(self->comm, vector));
  return 0;
}

static int check_even(party_rank_t *self) {
  static const size_t counts[] = {0, 1, 40, 1200, LARGE};
  for (size_t i = 0; i < 2 * sizeof counts / sizeof counts[0]; i++) {
    size_t count = counts[i / 2];
    buffers_t b;
    PARTY_TRY(open_buffers(&b, count * (size_t)self->size, i % 2 == 1));
    PARTY_TRY(check_even_call(self, &b, count, true));
    PARTY_TRY(check_even_call(self, &b, count, false));
    PARTY_OK(coll_barrier(self->comm, NULL));
    close_buffers(&b);
  }
  return 0;
}

Test(traffic, of_equal_blocks_is_that_of_the_collective_of_equal_blocks) {
  run(check_even);
}

/* Rank r's block has (r + 1) blocks; a ring moves all but one of them. */
static int check_vector(party_rank_t *self) {
  enum { BLOCK = 900 };
  size_t counts[RANKS_MAX], all = 0;
  int n = self->size, next = (self->rank + 1) % n;
  for (int r = 0; r < n; r++) all += counts[r] = (size_t)(r + 1) * BLOCK;
  buffers_t b;
  uint64_t before, sent = 0, expected = (all - counts[next]) * sizeof(float);
  PARTY_TRY(open_buffers(&b, all, false));
  PARTY_OK(coll_comm_algo_set(self->comm, COLL_ALLGATHERV, "ring"));
  PARTY_OK(coll_comm_algo_set(self->comm, COLL_REDUCE_SCATTERV, "ring"));
  PARTY_OK(coll_comm_bytes_sent(self->comm, &before));
  PARTY_OK(coll_allgatherv(b.input, b.output, counts, NULL, COLL_FLOAT32, self->comm, NULL));
  PARTY_TRY(sent_since(self, &before, &sent));
  PARTY_REQUIRE(sent == expected, "allgatherv: %" PRIu64 " bytes, not %" PRIu64, sent, expected);
  expected = (all - counts[self->rank]) * sizeof(float);
  PARTY_OK(
      coll_reduce_scatterv(b.input, b.output, counts, COLL_FLOAT32, COLL_SUM, self->comm, NULL));
  PARTY_TRY(sent_since(self, &before, &sent));
  PARTY_REQUIRE(sent == expected, "reduce_scatterv: %" PRIu64 " bytes, not %" PRIu64, sent,
                expected);
  close_buffers(&b);
  return 0;
}

Test(traffic, of_uneven_blocks) {
  run(check_vector);
}

Test(traffic, pairs) {
  run(check_pairs);
  run(check_alltoallv);
}

Test(traffic, pairs_over_tcp) {
  setenv("COLL_TRANSPORTS", "tcp", 1);
  run(check_pairs);
  run(check_alltoallv);
}

/* ---- the counter ------------------------------------------------------------------------------*/

/* Barriers have no payload. A communicator that is split off counts by itself. */
static int check_counter(party_rank_t *self) {
  uint64_t before, bytes = 0;
  float value = 1;
  coll_comm_t half;
  PARTY_OK(coll_comm_bytes_sent(self->comm, &before));
  PARTY_OK(coll_barrier(self->comm, NULL));
  PARTY_TRY(sent_since(self, &before, &bytes));
  PARTY_REQUIRE(bytes == 0, "a barrier has sent %" PRIu64 " bytes", bytes);
  PARTY_OK(coll_comm_split(self->comm, 0, self->rank, NULL, &half));
  PARTY_OK(coll_comm_bytes_sent(half, &bytes));
  PARTY_REQUIRE(bytes == 0, "a new communicator has sent %" PRIu64 " bytes", bytes);
  PARTY_OK(coll_comm_bytes_sent(self->comm, &before));
  PARTY_OK(coll_comm_algo_set(half, COLL_ALLREDUCE, "allpairs"));
  PARTY_OK(coll_allreduce(&value, &value, 1, COLL_FLOAT32, COLL_SUM, half, NULL));
  PARTY_OK(coll_comm_bytes_sent(half, &bytes));
  PARTY_REQUIRE(bytes == sizeof value * (size_t)(self->size - 1), "%" PRIu64 " bytes", bytes);
  PARTY_TRY(sent_since(self, &before, &bytes));
  PARTY_REQUIRE(bytes == 0, "%" PRIu64 " bytes of another communicator are counted", bytes);
  PARTY_REQUIRE(coll_comm_bytes_sent(half, NULL) == COLL_ERROR_INVALID, "NULL is accepted");
  PARTY_OK(coll_comm_destroy(half));
  return 0;
}

Test(traffic, counter) {
  run(check_counter);
}
