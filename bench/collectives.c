/* A table of properties of the collectives, and a table of functions that call them. */
#include "bench/collectives.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/status.h"

typedef struct traits {
  bool reduces, rooted, in_place, per_rank, uneven;
} traits_t;

static const traits_t traits[COLL_COLLECTIVE_COUNT] = {
    [COLL_ALLREDUCE] = {.reduces = true, .in_place = true},
    [COLL_REDUCE] = {.reduces = true, .rooted = true, .in_place = true},
    [COLL_REDUCE_SCATTER] = {.reduces = true, .in_place = true, .per_rank = true},
    [COLL_ALLGATHER] = {.in_place = true, .per_rank = true},
    [COLL_BROADCAST] = {.rooted = true, .in_place = true},
    [COLL_GATHER] = {.rooted = true, .in_place = true, .per_rank = true},
    [COLL_SCATTER] = {.rooted = true, .in_place = true, .per_rank = true},
    [COLL_ALLTOALL] = {.in_place = true, .per_rank = true},
    [COLL_ALLTOALLV] = {.per_rank = true},
    [COLL_BARRIER] = {0},
    [COLL_SENDRECV] = {0},
    [COLL_ALLGATHERV] = {.in_place = true, .per_rank = true, .uneven = true},
    [COLL_REDUCE_SCATTERV] = {.reduces = true, .in_place = true, .per_rank = true, .uneven = true},
    [COLL_GATHERV] = {.rooted = true, .in_place = true, .per_rank = true, .uneven = true},
    [COLL_SCATTERV] = {.rooted = true, .in_place = true, .per_rank = true, .uneven = true},
};

bool bench_collective_reduces(coll_collective_t collective) {
  return traits[collective].reduces;
}

bool bench_collective_is_rooted(coll_collective_t collective) {
  return traits[collective].rooted;
}

bool bench_collective_in_place(coll_collective_t collective) {
  return traits[collective].in_place;
}

bool bench_collective_has_uneven_blocks(coll_collective_t collective) {
  return traits[collective].uneven;
}

size_t bench_collective_count(coll_collective_t collective, size_t bytes, coll_dtype_t dtype,
                              int ranks) {
  if (collective == COLL_BARRIER) return 0;
  size_t elements = bytes / coll_dtype_bytes(dtype);
  return traits[collective].per_rank ? elements / (size_t)ranks : elements;
}

size_t bench_collective_bytes(coll_collective_t collective, size_t count, coll_dtype_t dtype,
                              int ranks) {
  return count * coll_dtype_bytes(dtype) * (traits[collective].per_rank ? (size_t)ranks : 1);
}

double bench_collective_bus_factor(coll_collective_t collective, int ranks) {
  double n = ranks, shares = n * (n + 1) / 2;
  switch (collective) {
    case COLL_ALLREDUCE: return 2 * (n - 1) / n;
    case COLL_REDUCE_SCATTER:
    case COLL_ALLGATHER:
    case COLL_GATHER:
    case COLL_SCATTER:
    case COLL_ALLGATHERV:
    case COLL_REDUCE_SCATTERV:
    case COLL_GATHERV:
    case COLL_SCATTERV:
    case COLL_ALLTOALL: return (n - 1) / n;
    case COLL_ALLTOALLV: return (shares - 1) / shares;
    case COLL_REDUCE:
    case COLL_BROADCAST:
    case COLL_SENDRECV: return 1;
    default: return 0;
  }
}

size_t bench_alltoallv_count(size_t count, int ranks, int from, int to) {
  size_t steps = (size_t)((to - from + ranks) % ranks);
  size_t shares = (size_t)ranks * ((size_t)ranks + 1) / 2;
  return (size_t)((double)count * ranks * (double)(steps + 1) / (double)shares);
}

size_t bench_rank_count(size_t count, int ranks, int rank, bool even) {
  return even ? count : bench_alltoallv_count(count, ranks, 0, rank);
}

coll_status_t bench_vectors_make(int ranks, bench_vectors_t *vectors) {
  size_t n = (size_t)ranks;
  void *memory;
  COLL_TRY(base_alloc(4 * n, sizeof(size_t), "the counts of an alltoallv", &memory));
  size_t *all = memory;
  *vectors = (bench_vectors_t){all, all + n, all + 2 * n, all + 3 * n};
  return COLL_OK;
}

void bench_vectors_fill(size_t count, int rank, int ranks, bench_vectors_t *vectors) {
  size_t sent = 0, received = 0;
  for (int peer = 0; peer < ranks; peer++) {
    vectors->send_counts[peer] = bench_alltoallv_count(count, ranks, rank, peer);
    vectors->recv_counts[peer] = bench_alltoallv_count(count, ranks, peer, rank);
    vectors->send_displs[peer] = sent;
    vectors->recv_displs[peer] = received;
    sent += vectors->send_counts[peer];
    received += vectors->recv_counts[peer];
  }
}

void bench_vectors_fill_uneven(size_t count, int ranks, bool even, bench_vectors_t *vectors) {
  size_t before = 0;
  for (int rank = 0; rank < ranks; rank++) {
    size_t own = bench_rank_count(count, ranks, rank, even);
    vectors->send_counts[rank] = vectors->recv_counts[rank] = own;
    vectors->send_displs[rank] = vectors->recv_displs[rank] = before;
    before += own;
  }
}

void bench_vectors_free(bench_vectors_t *vectors) {
  free(vectors->send_counts);
  *vectors = (bench_vectors_t){0};
}

coll_status_t bench_take_error(coll_comm_t comm, coll_status_t status) {
  return status == COLL_OK ? COLL_OK : base_fail(status, "%s", coll_last_error(comm));
}

static coll_status_t ring_shift(const bench_call_t *call, const void *send, void *recv) {
  int next = (call->rank + 1) % call->ranks;
  int previous = (call->rank + call->ranks - 1) % call->ranks;
  COLL_TRY(coll_group_start());
  coll_status_t sent = coll_send(send, call->count, call->dtype, next, call->comm, call->stream);
  coll_status_t received =
      coll_recv(recv, call->count, call->dtype, previous, call->comm, call->stream);
  coll_status_t ended = coll_group_end();
  return sent != COLL_OK ? sent : received != COLL_OK ? received : ended;
}

static coll_status_t allreduce(const bench_call_t *call, const void *send, void *recv) {
  return coll_allreduce(send, recv, call->count, call->dtype, call->op, call->comm, call->stream);
}

static coll_status_t reduce(const bench_call_t *call, const void *send, void *recv) {
  return coll_reduce(send, recv, call->count, call->dtype, call->op, call->root, call->comm,
                     call->stream);
}

static coll_status_t reduce_scatter(const bench_call_t *call, const void *send, void *recv) {
  return coll_reduce_scatter(send, recv, call->count, call->dtype, call->op, call->comm,
                             call->stream);
}

static coll_status_t allgather(const bench_call_t *call, const void *send, void *recv) {
  return coll_allgather(send, recv, call->count, call->dtype, call->comm, call->stream);
}

static coll_status_t broadcast(const bench_call_t *call, const void *send, void *recv) {
  return coll_broadcast(send, recv, call->count, call->dtype, call->root, call->comm, call->stream);
}

static coll_status_t gather(const bench_call_t *call, const void *send, void *recv) {
  return coll_gather(send, recv, call->count, call->dtype, call->root, call->comm, call->stream);
}

static coll_status_t scatter(const bench_call_t *call, const void *send, void *recv) {
  return coll_scatter(send, recv, call->count, call->dtype, call->root, call->comm, call->stream);
}

static coll_status_t alltoall(const bench_call_t *call, const void *send, void *recv) {
  return coll_alltoall(send, recv, call->count, call->dtype, call->comm, call->stream);
}

static coll_status_t alltoallv(const bench_call_t *call, const void *send, void *recv) {
  const bench_vectors_t *v = call->vectors;
  return coll_alltoallv(send, v->send_counts, v->send_displs, recv, v->recv_counts, v->recv_displs,
                        call->dtype, call->comm, call->stream);
}

static coll_status_t allgatherv(const bench_call_t *call, const void *send, void *recv) {
  const bench_vectors_t *v = call->vectors;
  return coll_allgatherv(send, recv, v->recv_counts, v->recv_displs, call->dtype, call->comm,
                         call->stream);
}

static coll_status_t reduce_scatterv(const bench_call_t *call, const void *send, void *recv) {
  return coll_reduce_scatterv(send, recv, call->vectors->send_counts, call->dtype, call->op,
                              call->comm, call->stream);
}

static coll_status_t gatherv(const bench_call_t *call, const void *send, void *recv) {
  const bench_vectors_t *v = call->vectors;
  return coll_gatherv(send, v->send_counts[call->rank], recv, v->recv_counts, v->recv_displs,
                      call->dtype, call->root, call->comm, call->stream);
}

static coll_status_t scatterv(const bench_call_t *call, const void *send, void *recv) {
  const bench_vectors_t *v = call->vectors;
  return coll_scatterv(send, v->send_counts, v->send_displs, recv, v->recv_counts[call->rank],
                       call->dtype, call->root, call->comm, call->stream);
}

static coll_status_t barrier(const bench_call_t *call, const void *send, void *recv) {
  (void)send;
  (void)recv;
  return coll_barrier(call->comm, call->stream);
}

typedef coll_status_t verb_t(const bench_call_t *call, const void *send, void *recv);

static verb_t *const verbs[COLL_COLLECTIVE_COUNT] = {
    [COLL_ALLREDUCE] = allreduce,
    [COLL_REDUCE] = reduce,
    [COLL_REDUCE_SCATTER] = reduce_scatter,
    [COLL_ALLGATHER] = allgather,
    [COLL_BROADCAST] = broadcast,
    [COLL_GATHER] = gather,
    [COLL_SCATTER] = scatter,
    [COLL_ALLTOALL] = alltoall,
    [COLL_ALLTOALLV] = alltoallv,
    [COLL_SENDRECV] = ring_shift,
    [COLL_BARRIER] = barrier,
    [COLL_ALLGATHERV] = allgatherv,
    [COLL_REDUCE_SCATTERV] = reduce_scatterv,
    [COLL_GATHERV] = gatherv,
    [COLL_SCATTERV] = scatterv,
};

coll_status_t bench_call_make(const bench_call_t *call, const void *send, void *recv) {
  return bench_take_error(call->comm, verbs[call->collective](call, send, recv));
}
