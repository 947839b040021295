/*
 * Small collectives of one group are coalesced: each still gets its own result.
 */
#include <coll.h>
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "harness/party.h"

enum { CALLS = 400, MOST = 3000 };

/* Call i's count: mostly small, sometimes too large to be coalesced. */
static size_t count_of(int i) {
  return i % 37 == 5 ? MOST : (size_t)(1 + i * 7 % 13);
}

static float value_of(int rank, int i, size_t at) {
  return (float)(rank * 3 + i + (int)(at % 11));
}

static float sum_of(int size, int i, size_t at) {
  float sum = 0;
  for (int rank = 0; rank < size; rank++) sum += value_of(rank, i, at);
  return sum;
}

static coll_status_t call_number(int i, const float *in, float *out, party_rank_t *self) {
  int root = i / 100 % self->size;
  switch (i % 50 / 10) {
    case 0: return coll_broadcast(in, out, count_of(i), COLL_FLOAT32, root, self->comm, NULL);
    case 1:
      return coll_reduce(in, out, count_of(i), COLL_FLOAT32, COLL_SUM, root, self->comm, NULL);
    case 2: return coll_allreduce(in, out, count_of(i), COLL_FLOAT32, COLL_AVG, self->comm, NULL);
    default: return coll_allreduce(in, out, count_of(i), COLL_FLOAT32, COLL_SUM, self->comm, NULL);
  }
}

static float expected(int i, size_t at, const party_rank_t *self) {
  int root = i / 100 % self->size;
  switch (i % 50 / 10) {
    case 0: return value_of(root, i, at);
    case 1: return self->rank == root ? sum_of(self->size, i, at) : -1;
    case 2: return sum_of(self->size, i, at) / (float)self->size;
    default: return sum_of(self->size, i, at);
  }
}

static int many_at_once(party_rank_t *self) {
  float(*in)[MOST] = calloc(CALLS, sizeof *in), (*out)[MOST] = calloc(CALLS, sizeof *out);
  PARTY_REQUIRE(in != NULL && out != NULL, "no memory");
  for (int i = 0; i < CALLS; i++) {
    for (size_t at = 0; at < count_of(i); at++) {
      in[i][at] = value_of(self->rank, i, at);
      out[i][at] = -1;
    }
  }
  /* Some calls are in place, differently on every rank, and sends and receives lie in between. */
  int next = (self->rank + 1) % self->size;
  int32_t sent = self->rank, got = -1;
  PARTY_OK(coll_group_start());
  for (int i = 0; i < CALLS; i++) {
    bool in_place = (i + self->rank) % 3 == 0 && i % 50 / 10 >= 2;
    if (in_place) memcpy(out[i], in[i], sizeof in[i]);
    PARTY_OK(call_number(i, in_place ? out[i] : in[i], out[i], self));
    if (i == 60) PARTY_OK(coll_send(&sent, 1, COLL_INT32, next, self->comm, NULL));
    if (i == 61) {
      PARTY_OK(coll_recv(&got, 1, COLL_INT32, (self->rank + self->size - 1) % self->size,
                         self->comm, NULL));
    }
  }
  PARTY_OK(coll_group_end());
  for (int i = 0; i < CALLS; i++) {
    for (size_t at = 0; at < count_of(i); at++) {
      float wanted = expected(i, at, self);
      PARTY_REQUIRE(out[i][at] == wanted, "call %d, element %zu: %g, not %g", i, at,
                    (double)out[i][at], (double)wanted);
    }
  }
  free(in);
  free(out);
  PARTY_REQUIRE(got == (self->rank + self->size - 1) % self->size, "the pair got %d", (int)got);
  return 0;
}

Test(groups, give_each_of_many_small_calls_its_own_result) {
  for (int size = 1; size <= 4; size++) PARTY_RUN(size, 20000, many_at_once, NULL);
}

/* One thread may make the calls of several ranks, interleaved. */
Test(groups, coalesce_interleaved_calls) {
  enum { SIZE = 3, EACH = 20 };
  coll_comm_t comms[SIZE];
  int32_t in[SIZE][EACH], out[SIZE][EACH];
  cr_assert_eq(coll_comm_create_local(SIZE, NULL, comms), COLL_OK, "%s", coll_last_error(NULL));
  coll_group_start();
  for (int i = 0; i < EACH; i++) {
    for (int r = 0; r < SIZE; r++) {
      int rank = (r + i) % SIZE;
      in[rank][i] = rank * 100 + i;
      cr_assert_eq(
          coll_allreduce(&in[rank][i], &out[rank][i], 1, COLL_INT32, COLL_SUM, comms[rank], NULL),
          COLL_OK);
    }
  }
  cr_assert_eq(coll_group_end(), COLL_OK, "%s", coll_last_error(NULL));
  for (int rank = 0; rank < SIZE; rank++) {
    for (int i = 0; i < EACH; i++) cr_assert_eq(out[rank][i], 300 + 3 * i);
    coll_comm_destroy(comms[rank]);
  }
}

/* The buffers of a coalesced call are freed with it, so peers must not map them. */
static int coalesce_unmapped_buffers(party_rank_t *self) {
  int32_t in[2] = {1, 2}, out[2] = {0};
  PARTY_OK(coll_comm_algo_set(self->comm, COLL_ALLREDUCE, "oneshot"));
  PARTY_OK(coll_group_start());
  for (int i = 0; i < 2; i++) {
    PARTY_OK(coll_allreduce(&in[i], &out[i], 1, COLL_INT32, COLL_SUM, self->comm, NULL));
  }
  PARTY_OK(coll_group_end());
  PARTY_REQUIRE(out[0] == self->size && out[1] == 2 * self->size, "%d, %d", out[0], out[1]);
  PARTY_REQUIRE(strcmp(coll_comm_algo_used(self->comm, COLL_ALLREDUCE), "oneshot") != 0,
                "peers reached into it");
  return 0;
}

Test(groups, do_not_let_peers_map_coalesced_buffers) {
  PARTY_RUN(3, 10000, coalesce_unmapped_buffers, NULL);
}

/* A refused group affects neither earlier queued calls nor later ones. */
static int one_uses_what_another_writes(party_rank_t *self) {
  float first = 1, between = 0, last = 0, queued[2] = {0};
  coll_stream_t stream;
  PARTY_OK(coll_stream_create(&stream));
  for (int on_stream = 0; on_stream < 2; on_stream++) {
    coll_stream_t where = on_stream ? stream : NULL;
    if (self->rank > 0) harness_barrier(); /* rank 0's calls stay in its queue until later */
    for (int i = 0; i < 2; i++) {
      PARTY_OK(coll_allreduce(&first, &queued[i], 1, COLL_FLOAT32, COLL_SUM, self->comm, stream));
    }
    PARTY_OK(coll_group_start());
    PARTY_OK(coll_allreduce(&first, &between, 1, COLL_FLOAT32, COLL_SUM, self->comm, where));
    PARTY_OK(coll_allreduce(&between, &last, 1, COLL_FLOAT32, COLL_SUM, self->comm, where));
    PARTY_REQUIRE(coll_group_end() == COLL_ERROR_INVALID, "it was not noticed");
    PARTY_REQUIRE(strstr(coll_last_error(NULL), "same memory") != NULL, "it says '%s'",
                  coll_last_error(NULL));
    PARTY_REQUIRE(strstr(coll_last_error(self->comm), "same memory") != NULL,
                  "the communicator says '%s'", coll_last_error(self->comm));
    if (self->rank == 0) harness_barrier();
    PARTY_OK(coll_stream_sync(stream));
    PARTY_REQUIRE(queued[0] == (float)self->size && between == 0, "%g, %g", (double)queued[0],
                  (double)between);
  }
  PARTY_OK(coll_stream_destroy(stream));
  PARTY_OK(coll_barrier(self->comm, NULL));
  return 0;
}

Test(groups, refuse_calls_that_need_an_order) {
  PARTY_RUN(2, 10000, one_uses_what_another_writes, NULL);
}

/* Neither earlier calls nor later ones are affected, and no rank waits for the cancelled ones. */
static int cancel_calls(party_rank_t *self) {
  float one = 1, sum = 0, none = -1, last = 0;
  if (self->rank == 0) {
    PARTY_OK(coll_group_start());
    PARTY_OK(coll_group_start());
    PARTY_OK(coll_allreduce(&one, &none, 1, COLL_FLOAT32, COLL_SUM, self->comm, NULL));
    PARTY_OK(coll_group_cancel());
    PARTY_REQUIRE(coll_group_end() == COLL_ERROR_INVALID, "a level of the group was left");
    PARTY_REQUIRE(coll_group_cancel() == COLL_ERROR_INVALID, "there was a group to cancel");
    PARTY_REQUIRE(strstr(coll_last_error(NULL), "coll_group_cancel without") != NULL,
                  "it says '%s'", coll_last_error(NULL));
  }
  PARTY_OK(coll_allreduce(&one, &sum, 1, COLL_FLOAT32, COLL_SUM, self->comm, NULL));
  PARTY_REQUIRE(sum == (float)self->size && none == -1, "%g, %g", (double)sum, (double)none);
  PARTY_OK(coll_group_start()); /* it has its own calls only */
  PARTY_OK(coll_allreduce(&sum, &last, 1, COLL_FLOAT32, COLL_SUM, self->comm, NULL));
  PARTY_OK(coll_group_end());
  PARTY_REQUIRE(last == sum * (float)self->size && none == -1, "%g, %g", (double)last,
                (double)none);
  return 0;
}

Test(groups, that_are_cancelled_run_nothing) {
  PARTY_RUN(2, 10000, cancel_calls, NULL);
}
