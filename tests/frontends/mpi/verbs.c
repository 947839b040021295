/*
 * Every collective that the layer intercepts, compared with the MPI's own (PMPI_*): each type and
 * count, in place and not, blocking and not, on several communicators. Values are small integers,
 * so that sums are exact in any order. MPI_Reduce is compared with PMPI_Allreduce. Rank 0 prints "N
 * calls compared, M differ"; what differs is named on standard error. The result is 1 if any does.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_MAX 20000
#define RANKS_MAX 8
#define EXTENT_MAX 32 /* bytes of an element of any type below */
#define BUFFER_BYTES ((size_t)COUNT_MAX * RANKS_MAX * EXTENT_MAX)

typedef int fill_t(char *data, int value); /* writes one number; returns its bytes */

typedef struct elements {
  const char *name;
  MPI_Datatype type;
  size_t extent;
  fill_t *fill;
  int is_reduced;
} elements_t;

static char *send, *expected, *found;
static long compared, differing;
static int world_rank;
static int is_nonblocking;
static int may_pass; /* the layer does not serve all calls */

/* ---- values --------------------------------------------------------------------------------*/

#define FILL(name, type)                          \
  static int fill_##name(char *data, int value) { \
    type number = (type)value;                    \
    memcpy(data, &number, sizeof number);         \
    return (int)sizeof number;                    \
  }
FILL(int8, int8_t)
FILL(int16, int16_t)
FILL(int32, int32_t)
FILL(int64, int64_t)
FILL(float, float)
FILL(double, double)

/* A number of 1 to 3, so that products of 8 fit. The sums of two places differ mostly: so a block
 * in the wrong place is noticed. */
static int value_at(size_t place, int seed) {
  uint32_t mixed = (uint32_t)place * 2654435761u + (uint32_t)seed * 2246822519u;
  mixed = (mixed ^ mixed >> 15) * 2246822519u;
  return 1 + (int)((mixed >> 16) % 3);
}

static void fill(char *data, const elements_t *elements, int count, int seed) {
  size_t bytes = (size_t)count * elements->extent;
  for (size_t at = 0, i = 0; at < bytes; i++) {
    at += (size_t)elements->fill(data + at, value_at(i, seed));
  }
}

/* ---- calls ---------------------------------------------------------------------------------*/

/* One call, made by MPI_* or PMPI_*. */
typedef struct call {
  const elements_t *elements;
  MPI_Comm comm;
  MPI_Op op;
  int rank, size, root, count, in_place;
  int counts[RANKS_MAX], displs[RANKS_MAX];
} call_t;

/* Calls the function by one of its four names. */
#define CALL(name, lower, ...)                                \
  do {                                                        \
    MPI_Request request;                                      \
    if (is_pmpi) {                                            \
      result = PMPI_##name(__VA_ARGS__);                      \
    } else if (!is_nonblocking) {                             \
      result = MPI_##name(__VA_ARGS__);                       \
    } else {                                                  \
      result = MPI_I##lower(__VA_ARGS__, &request);           \
      if (result == MPI_SUCCESS) result = wait_for(&request); \
    }                                                         \
  } while (0)

/* In turn by each of the functions that complete a request. */
static int wait_for(MPI_Request *request) {
  static int turn;
  int done = 0, index, indices[1], result = MPI_SUCCESS;
  MPI_Status statuses[1];
  switch (turn++ % 7) {
    case 0: return MPI_Wait(request, MPI_STATUS_IGNORE);
    case 1: return MPI_Waitall(1, request, statuses);
    case 2: return MPI_Waitany(1, request, &index, MPI_STATUS_IGNORE);
    case 3: return MPI_Waitsome(1, request, &done, indices, statuses);
    case 4:
      while (!done && result == MPI_SUCCESS) result = MPI_Test(request, &done, MPI_STATUS_IGNORE);
      return result;
    case 5:
      while (!done && result == MPI_SUCCESS) {
        result = MPI_Testall(1, request, &done, statuses);
      }
      return result;
    default:
      while (!done && result == MPI_SUCCESS) {
        result = MPI_Testany(1, request, &index, &done, MPI_STATUS_IGNORE);
      }
      return result;
  }
}

#define IN_PLACE_OR(data) (c->in_place ? MPI_IN_PLACE : (data))
#define TYPE c->elements->type

static int call_allgather(const call_t *c, char *recv, int is_pmpi) {
  int result;
  CALL(Allgather, allgather, IN_PLACE_OR(send), c->count, TYPE, recv, c->count, TYPE, c->comm);
  return result;
}

static int call_allgatherv(const call_t *c, char *recv, int is_pmpi) {
  int result;
  CALL(Allgatherv, allgatherv, IN_PLACE_OR(send), c->counts[c->rank], TYPE, recv, c->counts,
       c->displs, TYPE, c->comm);
  return result;
}

/* Blocks of one size behind a gap: side by side, or in another order. */
static int call_allgatherv_even(const call_t *c, char *recv, int is_pmpi) {
  int result, counts[RANKS_MAX], displs[RANKS_MAX];
  for (int i = 0; i < c->size; i++) {
    counts[i] = c->count - 1;
    displs[i] = 1 + (is_nonblocking ? c->size - 1 - i : i) * counts[i];
  }
  CALL(Allgatherv, allgatherv, IN_PLACE_OR(send), counts[c->rank], TYPE, recv, counts, displs, TYPE,
       c->comm);
  return result;
}

static int call_allreduce(const call_t *c, char *recv, int is_pmpi) {
  int result;
  CALL(Allreduce, allreduce, IN_PLACE_OR(send), recv, c->count, TYPE, c->op, c->comm);
  return result;
}

static int call_alltoall(const call_t *c, char *recv, int is_pmpi) {
  int result;
  CALL(Alltoall, alltoall, IN_PLACE_OR(send), c->count, TYPE, recv, c->count, TYPE, c->comm);
  return result;
}

/* Every pair of ranks exchanges what both have as the other's count: symmetric for in place. */
static int call_alltoallv(const call_t *c, char *recv, int is_pmpi) {
  int result, counts[RANKS_MAX];
  for (int i = 0; i < c->size; i++) counts[i] = c->count * ((i + c->rank) % 3) / 3;
  CALL(Alltoallv, alltoallv, IN_PLACE_OR(send), counts, c->displs, TYPE, recv, counts, c->displs,
       TYPE, c->comm);
  return result;
}

static int call_barrier(const call_t *c, char *recv, int is_pmpi) {
  int result;
  (void)recv;
  CALL(Barrier, barrier, c->comm);
  return result;
}

static int call_bcast(const call_t *c, char *recv, int is_pmpi) {
  int result;
  CALL(Bcast, bcast, recv, c->count, TYPE, c->root, c->comm);
  return result;
}

static int call_gather(const call_t *c, char *recv, int is_pmpi) {
  int result;
  const void *from = c->in_place && c->rank == c->root ? MPI_IN_PLACE : send;
  CALL(Gather, gather, from, c->count, TYPE, recv, c->count, TYPE, c->root, c->comm);
  return result;
}

static int call_gatherv(const call_t *c, char *recv, int is_pmpi) {
  int result;
  const void *from = c->in_place && c->rank == c->root ? MPI_IN_PLACE : send;
  CALL(Gatherv, gatherv, from, c->counts[c->rank], TYPE, recv, c->counts, c->displs, TYPE, c->root,
       c->comm);
  return result;
}

static int call_reduce(const call_t *c, char *recv, int is_pmpi) {
  int result;
  const void *from = c->in_place && c->rank == c->root ? MPI_IN_PLACE : send;
  /* MPICH 4.0.2 crashes in this call in place, and large sums between hosts are wrong. */
  if ((is_pmpi || may_pass) && from == MPI_IN_PLACE) {
    memcpy(send, recv, (size_t)c->count * c->elements->extent);
    from = send;
  }
  if (is_pmpi) return PMPI_Allreduce(from, recv, c->count, TYPE, c->op, c->comm);
  CALL(Reduce, reduce, from, recv, c->count, TYPE, c->op, c->root, c->comm);
  return result;
}

static int call_reduce_scatter(const call_t *c, char *recv, int is_pmpi) {
  int result, counts[RANKS_MAX];
  for (int i = 0; i < c->size; i++) counts[i] = c->count;
  CALL(Reduce_scatter, reduce_scatter, IN_PLACE_OR(send), recv, counts, TYPE, c->op, c->comm);
  return result;
}

/* As large a block for each rank as its count says. */
static int call_reduce_scatter_uneven(const call_t *c, char *recv, int is_pmpi) {
  int result;
  CALL(Reduce_scatter, reduce_scatter, IN_PLACE_OR(send), recv, c->counts, TYPE, c->op, c->comm);
  return result;
}

static int call_reduce_scatter_block(const call_t *c, char *recv, int is_pmpi) {
  int result;
  CALL(Reduce_scatter_block, reduce_scatter_block, IN_PLACE_OR(send), recv, c->count, TYPE, c->op,
       c->comm);
  return result;
}

static int call_scatter(const call_t *c, char *recv, int is_pmpi) {
  int result;
  void *to = c->in_place && c->rank == c->root ? MPI_IN_PLACE : recv;
  CALL(Scatter, scatter, send, c->count, TYPE, to, c->count, TYPE, c->root, c->comm);
  return result;
}

static int call_scatterv(const call_t *c, char *recv, int is_pmpi) {
  int result;
  void *to = c->in_place && c->rank == c->root ? MPI_IN_PLACE : recv;
  CALL(Scatterv, scatterv, send, c->counts, c->displs, TYPE, to, c->counts[c->rank], TYPE, c->root,
       c->comm);
  return result;
}

typedef struct verb {
  const char *name;
  int (*call)(const call_t *c, char *recv, int is_pmpi);
  int is_reduction, has_root;
} verb_t;

static const verb_t verbs[] = {
    {"Allgather", call_allgather, 0, 0},
    {"Allgatherv", call_allgatherv, 0, 0},
    {"Allgatherv", call_allgatherv_even, 0, 0},
    {"Allreduce", call_allreduce, 1, 0},
    {"Alltoall", call_alltoall, 0, 0},
    {"Alltoallv", call_alltoallv, 0, 0},
    {"Barrier", call_barrier, 0, 0},
    {"Bcast", call_bcast, 0, 1},
    {"Gather", call_gather, 0, 1},
    {"Gatherv", call_gatherv, 0, 1},
    {"Reduce", call_reduce, 1, 1},
    {"Reduce_scatter", call_reduce_scatter, 1, 0},
    {"Reduce_scatter", call_reduce_scatter_uneven, 1, 0},
    {"Reduce_scatter_block", call_reduce_scatter_block, 1, 0},
    {"Scatter", call_scatter, 0, 1},
    {"Scatterv", call_scatterv, 0, 1},
};
#define VERB_COUNT (sizeof verbs / sizeof verbs[0])

/* ---- comparing -----------------------------------------------------------------------------*/

static int result_of(const verb_t *verb, const call_t *c, char *recv, int is_pmpi) {
  fill(send, c->elements, c->count * c->size, c->rank);
  fill(recv, c->elements, c->count * c->size, c->rank + 10);
  return verb->call(c, recv, is_pmpi);
}

static void compare(const verb_t *verb, const call_t *c, const char *comm_name) {
  size_t bytes = (size_t)c->count * (size_t)c->size * c->elements->extent;
  int first = result_of(verb, c, expected, 1), second = result_of(verb, c, found, 0);
  compared++;
  /* Of a reduction in place, the rest of the buffer is not defined. Else it is left alone. */
  if (c->in_place &&
      (verb->call == call_reduce_scatter || verb->call == call_reduce_scatter_block)) {
    bytes /= (size_t)c->size;
  }
  if (c->in_place && verb->call == call_reduce_scatter_uneven) {
    bytes = (size_t)c->counts[c->rank] * c->elements->extent;
  }
  if (verb->call == call_reduce && c->rank != c->root) bytes = 0;
  if (first == second && memcmp(expected, found, bytes) == 0) return;
  if (differing++ > 20) return;
  size_t at = 0;
  while (at < bytes && expected[at] == found[at]) at++;
  fprintf(stderr,
          "rank %d: MPI_%s%s of %d %s on %s%s, root %d: result %d, not %d, byte %zu of %zu\n",
          world_rank, is_nonblocking ? "I" : "", verb->name, c->count, c->elements->name, comm_name,
          c->in_place ? " in place" : "", c->root, second, first, at, bytes);
}

static void compare_verb(const verb_t *verb, call_t *c, const char *comm_name) {
  const MPI_Op ops[] = {MPI_SUM, MPI_MAX, MPI_MIN, MPI_PROD};
  if (verb->is_reduction && !c->elements->is_reduced) return;
  for (c->in_place = 0; c->in_place < 2; c->in_place++) {
    for (c->root = 0; c->root < (verb->has_root ? c->size : 1); c->root++) {
      for (int op = 0; op < (verb->is_reduction ? c->elements->is_reduced : 1); op++) {
        c->op = ops[op];
        compare(verb, c, comm_name);
      }
    }
  }
}

static void compare_comm(const elements_t *elements, int type_count, MPI_Comm comm,
                         const char *name) {
  static const int counts[] = {300, 1, COUNT_MAX}; /* the first one for all types */
  call_t c = {.comm = comm};
  MPI_Comm_rank(comm, &c.rank);
  MPI_Comm_size(comm, &c.size);
  for (int type = 0; type < type_count; type++) {
    for (size_t i = 0; i < (type == 0 ? sizeof counts / sizeof counts[0] : 1); i++) {
      c.elements = &elements[type];
      c.count = counts[i];
      for (int j = 0; j < c.size; j++) {
        c.counts[j] = j == 1 ? 0 : c.count - j % c.count;
        c.displs[j] = (c.size - 1 - j) * c.count;
      }
      for (size_t v = 0; v < VERB_COUNT; v++) {
        for (is_nonblocking = 0; is_nonblocking < 2; is_nonblocking++) {
          compare_verb(&verbs[v], &c, name);
        }
      }
    }
  }
}

/* ---- types and communicators ---------------------------------------------------------------*/

static MPI_Datatype commit(MPI_Datatype type) {
  MPI_Type_commit(&type);
  return type;
}

/* Two ints, the second one first: no holes, but another order. */
static MPI_Datatype make_swapped(void) {
  MPI_Datatype type;
  const int lengths[] = {1, 1}, displs[] = {1, 0};
  MPI_Type_indexed(2, lengths, displs, MPI_INT, &type);
  return commit(type);
}

static MPI_Datatype make_strided(void) {
  MPI_Datatype type, resized;
  MPI_Type_vector(2, 1, 3, MPI_INT, &type);
  MPI_Type_create_resized(type, 0, 20, &resized);
  MPI_Type_free(&type);
  return commit(resized);
}

static MPI_Datatype make_contiguous(void) {
  MPI_Datatype inner, type;
  MPI_Type_contiguous(2, MPI_DOUBLE, &inner);
  MPI_Type_dup(inner, &type);
  MPI_Type_free(&inner);
  return commit(type);
}

/* ---- ops -----------------------------------------------------------------------------------*/

enum { OP_COUNT = 100 };

typedef struct operand {
  MPI_Datatype type;
  int bytes, is_signed;
  fill_t *fill; /* small numbers, for sums and products */
} operand_t;

/* Any bits, unless they are to be small numbers. */
static void fill_operand(char *data, const operand_t *operand, int is_small, int seed) {
  size_t bytes = (size_t)OP_COUNT * (size_t)operand->bytes;
  for (size_t at = 0, i = 0; at < bytes; i++) {
    int value = value_at(i, seed);
    data[at] = (char)(value * 85 + value_at(i + 5, seed));
    at += is_small ? (size_t)operand->fill(data + at, value) : 1;
  }
}

static int is_less(const char *a, const char *b, const operand_t *operand) {
  uint64_t x = 0, y = 0;
  memcpy(&x, a, (size_t)operand->bytes);
  memcpy(&y, b, (size_t)operand->bytes);
  uint64_t sign = operand->is_signed ? (uint64_t)1 << (8 * operand->bytes - 1) : 0;
  return (x ^ sign) < (y ^ sign);
}

/* The largest or the smallest of all ranks' integers. MPICH 4.0, and Open MPI 4.1 with
 * MPI_UNSIGNED_LONG, take unsigned ones for signed. */
static void find_extremes(const operand_t *operand, int is_largest, int ranks) {
  fill_operand(expected, operand, 0, 0);
  for (int rank = 1; rank < ranks; rank++) {
    fill_operand(found, operand, 0, rank);
    for (int at = 0; at < OP_COUNT * operand->bytes; at += operand->bytes) {
      int is_found_less = is_less(found + at, expected + at, operand);
      if (is_found_less == is_largest) continue;
      memcpy(expected + at, found + at, (size_t)operand->bytes);
    }
  }
}

static void compare_op(const operand_t *operand, MPI_Op op, int is_small) {
  char name[MPI_MAX_OBJECT_NAME];
  int length, ranks, is_extreme = (op == MPI_MAX || op == MPI_MIN) && !is_small;
  size_t bytes = (size_t)OP_COUNT * (size_t)operand->bytes;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  fill_operand(send, operand, is_small, world_rank);
  if (is_extreme) find_extremes(operand, op == MPI_MAX, ranks);
  if (!is_extreme) PMPI_Allreduce(send, expected, OP_COUNT, operand->type, op, MPI_COMM_WORLD);
  if (may_pass && is_extreme) return;
  MPI_Allreduce(send, found, OP_COUNT, operand->type, op, MPI_COMM_WORLD);
  compared++;
  if (memcmp(expected, found, bytes) == 0) return;
  differing++;
  MPI_Type_get_name(operand->type, name, &length);
  fprintf(stderr, "rank %d: MPI_Allreduce of %s by an op\n", world_rank, name);
}

static void compare_ops(void) {
  const MPI_Op bits[] = {MPI_BAND, MPI_BOR, MPI_BXOR};
  const operand_t byte = {MPI_BYTE, 1, 0, fill_int8};
  const operand_t complex = {MPI_C_FLOAT_COMPLEX, 8, 1, fill_float};
  const operand_t integers[] = {
      {MPI_SIGNED_CHAR, 1, 1, fill_int8}, {MPI_UNSIGNED_CHAR, 1, 0, fill_int8},
      {MPI_SHORT, 2, 1, fill_int16},      {MPI_UNSIGNED_SHORT, 2, 0, fill_int16},
      {MPI_INT, 4, 1, fill_int32},        {MPI_UNSIGNED, 4, 0, fill_int32},
      {MPI_LONG, 8, 1, fill_int64},       {MPI_UNSIGNED_LONG, 8, 0, fill_int64},
      {MPI_LONG_LONG, 8, 1, fill_int64},  {MPI_UNSIGNED_LONG_LONG, 8, 0, fill_int64},
      {MPI_INT16_T, 2, 1, fill_int16},    {MPI_UINT64_T, 8, 0, fill_int64},
  };
  for (size_t i = 0; i < sizeof integers / sizeof integers[0]; i++) {
    for (int j = 0; j < 3; j++) compare_op(&integers[i], bits[j], 0);
    compare_op(&integers[i], MPI_MAX, 0);
    compare_op(&integers[i], MPI_MIN, 0);
    compare_op(&integers[i], MPI_SUM, 1);
    compare_op(&integers[i], MPI_PROD, 1);
  }
  for (int j = 0; j < 3; j++) compare_op(&byte, bits[j], 0);
  compare_op(&complex, MPI_SUM, 1);
  compare_op(&complex, MPI_PROD, 1);
}

static void compare_all(void) {
  int rank, size;
  MPI_Comm dup, half, reversed;
  const elements_t elements[] = {
      {"int", MPI_INT, 4, fill_int32, 4},
      {"signed char", MPI_SIGNED_CHAR, 1, fill_int8, 3},
      {"short", MPI_SHORT, 2, fill_int16, 4},
      {"unsigned long", MPI_UNSIGNED_LONG, 8, fill_int64, 4},
      {"float", MPI_FLOAT, 4, fill_float, 4},
      {"double", MPI_DOUBLE, 8, fill_double, 4},
      {"double complex", MPI_C_DOUBLE_COMPLEX, 16, fill_double, 1},
      {"byte", MPI_BYTE, 1, fill_int8, 0},
      {"swapped", make_swapped(), 8, fill_int32, 0},
      {"strided", make_strided(), 20, fill_int32, 0},
      {"contiguous", make_contiguous(), 16, fill_double, 0},
  };
  const int type_count = (int)(sizeof elements / sizeof elements[0]);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  compare_comm(elements, type_count, MPI_COMM_WORLD, "MPI_COMM_WORLD");
  MPI_Comm_dup(MPI_COMM_WORLD, &dup);
  compare_comm(elements, 1, dup, "a copy");
  MPI_Comm_free(&dup);
  MPI_Comm_split(MPI_COMM_WORLD, 0, size - rank, &reversed);
  compare_comm(elements, 1, reversed, "the reverse");
  MPI_Comm_free(&reversed);
  for (int i = 0; i < 3; i++) {
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    compare_comm(elements, 1, half, "every other rank");
    MPI_Comm_free(&half);
  }
}

int main(int argc, char **argv) {
  long counts[2];
  const char *mode = getenv("COLL_MPI_SERVE");
  may_pass = mode == NULL || strcmp(mode, "always") != 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  send = malloc(BUFFER_BYTES);
  expected = malloc(BUFFER_BYTES);
  found = malloc(BUFFER_BYTES);
  if (send == NULL || expected == NULL || found == NULL) return 1;
  compare_all();
  compare_ops();
  counts[0] = compared;
  counts[1] = differing;
  PMPI_Allreduce(MPI_IN_PLACE, counts, 2, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  if (world_rank == 0) printf("%ld calls compared, %ld differ\n", counts[0], counts[1]);
  MPI_Finalize();
  return counts[1] > 0;
}
