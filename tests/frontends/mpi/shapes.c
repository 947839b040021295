/*
 * Ranks describe the data of one call in different ways: by other datatypes and counts on each
 * rank and side; nothing as no elements of any type, also of one with more than 2 GiB; irregular
 * blocks with gaps, in reversed order; a root in place; and arguments that count at the root alone
 * are wrong elsewhere. Whether a call is served must not depend on any of it. Received buffers are
 * compared as a whole, gaps included. (Elements without data are left out: Open MPI hangs if one
 * rank of an MPI_Alltoallv has them.) Usage: shapes CALLS; prints "shapes ends".
 *
 * shapes large: elements of more than 2 GiB are broadcast and gathered, which takes 9 GiB of
 * memory. Prints "large shapes end".
 */
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "checks.h"

#define RANKS_MAX 4
#define UNITS_MAX 40 /* of a block; a unit is two ints */
#define GAP_MAX 3
#define INTS (RANKS_MAX * (UNITS_MAX + GAP_MAX) * 4)

/* How a unit lies in memory, and what counts it. */
typedef struct shape {
  MPI_Datatype type;
  int elements; /* in a unit */
  int ints;     /* from one unit to the next */
  int at[2];    /* where its two ints lie */
} shape_t;

enum { INTEGERS, PAIRS, STRIDED, SWAPPED, SHAPE_COUNT };
static shape_t shapes[SHAPE_COUNT];
static MPI_Datatype huge; /* more than 2 GiB */

/* One side of a call: blocks of one shape. */
typedef struct side {
  const shape_t *shape;
  MPI_Datatype type;
  int data[INTS];
  int units[RANKS_MAX], first[RANKS_MAX];   /* of each block, in units */
  int counts[RANKS_MAX], displs[RANKS_MAX]; /* the same, in elements of the type */
} side_t;

static side_t sent, received;
static int wanted[INTS];
static int call_number;

static MPI_Datatype commit(MPI_Datatype type) {
  MPI_Type_commit(&type);
  return type;
}

static void make_shapes(void) {
  MPI_Datatype pair, strided, resized, swapped;
  const int lengths[] = {1, 1}, displs[] = {1, 0};
  MPI_Type_contiguous(2, MPI_INT, &pair);
  MPI_Type_vector(2, 1, 2, MPI_INT, &strided);
  MPI_Type_create_resized(strided, 0, 4 * sizeof(int), &resized);
  MPI_Type_indexed(2, lengths, displs, MPI_INT, &swapped);
  shapes[INTEGERS] = (shape_t){MPI_INT, 2, 2, {0, 1}};
  shapes[PAIRS] = (shape_t){commit(pair), 1, 2, {0, 1}};
  shapes[STRIDED] = (shape_t){commit(resized), 1, 4, {0, 2}};
  shapes[SWAPPED] = (shape_t){commit(swapped), 1, 2, {1, 0}};
  MPI_Type_free(&strided);
  MPI_Type_contiguous(INT_MAX, MPI_INT, &huge);
  commit(huge);
}

static uint32_t mix(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t mixed = a * 2654435761u + b * 2246822519u + c * 3266489917u + 374761393u;
  mixed = (mixed ^ mixed >> 15) * 2246822519u;
  mixed = (mixed ^ mixed >> 13) * 3266489917u;
  return mixed ^ mixed >> 16;
}

/* The same on all ranks: a number below `end` for this call. */
static int pick(int what, int whose, int end) {
  return (int)(mix((uint32_t)call_number, (uint32_t)what, (uint32_t)whose) % (uint32_t)end);
}

/* ---- blocks --------------------------------------------------------------------------------*/

static int value_of(int from, int to, int unit, int part) {
  return (int)(mix((uint32_t)call_number, (uint32_t)(from * 16 + to), (uint32_t)(2 * unit + part)) %
               1000000);
}

static void put(int *data, const side_t *side, int block, int from, int to) {
  for (int unit = 0; unit < side->units[block]; unit++) {
    for (int part = 0; part < 2; part++) {
      data[(side->first[block] + unit) * side->shape->ints + side->shape->at[part]] =
          value_of(from, to, unit, part);
    }
  }
}

/* Blocks side by side. */
static void lay_evenly(side_t *side, int units) {
  for (int i = 0; i < size; i++) {
    side->units[i] = units;
    side->first[i] = i * units;
  }
}

/* Blocks with gaps, every other time in reversed order. */
static void lay_apart(side_t *side, int what) {
  int first = 0;
  for (int i = 0; i < size; i++) {
    int block = pick(what, 0, 2) ? size - 1 - i : i;
    first += pick(what, i + 1, GAP_MAX + 1);
    side->first[block] = first;
    first += side->units[block];
  }
}

/* Chooses the shape of this rank, and how it says that it has no data. */
static void dress(side_t *side, int what) {
  int all = 0;
  side->shape = &shapes[pick(what, rank, SHAPE_COUNT)];
  side->type = side->shape->type;
  for (int i = 0; i < size; i++) all += side->units[i];
  if (all == 0 && pick(what + 1, rank, 2)) side->type = huge;
  for (int i = 0; i < size; i++) {
    side->counts[i] = side->units[i] * side->shape->elements;
    side->displs[i] = all == 0 ? 0 : side->first[i] * side->shape->elements;
  }
  for (int i = 0; i < INTS; i++) side->data[i] = -1;
}

/* The one block of a side. */
static void lay_one(side_t *side, int units) {
  memset(side->units, 0, sizeof side->units);
  side->units[0] = units;
  side->first[0] = 0;
}

static void check(const char *verb) {
  if (memcmp(wanted, received.data, sizeof wanted) == 0) return;
  fprintf(stderr, "rank %d: wrong: %s, call %d\n", rank, verb, call_number);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static void expect_blocks(const int *from_of, const int *to_of) {
  memcpy(wanted, received.data, sizeof wanted);
  for (int i = 0; i < size; i++) put(wanted, &received, i, from_of[i], to_of[i]);
}

static int everyone[RANKS_MAX], me[RANKS_MAX]; /* {0, 1, ...}, {rank, rank, ...} */
static const int nobody[RANKS_MAX];

/* Every other call is the non-blocking one. */
#define CALL(name, lower, ...)              \
  do {                                      \
    MPI_Request request = MPI_REQUEST_NULL; \
    if (call_number % 2) {                  \
      MPI_##name(__VA_ARGS__);              \
    } else {                                \
      MPI_I##lower(__VA_ARGS__, &request);  \
    }                                       \
    MPI_Wait(&request, MPI_STATUS_IGNORE);  \
    check("MPI_" #name);                    \
  } while (0)

/* What is passed for arguments that count at the root alone. */
#define WRONG NULL, -1, MPI_DATATYPE_NULL
#define WRONG_V NULL, NULL, NULL, MPI_DATATYPE_NULL

static int root_of_call(void) {
  return pick(0, 0, size);
}

/* Of a block, the same on all ranks; now and then nothing. */
static int units_of_call(void) {
  return pick(1, 0, 5) == 0 ? 0 : 1 + pick(2, 0, UNITS_MAX);
}

/* ---- verbs ---------------------------------------------------------------------------------*/

static void bcast(MPI_Comm comm) {
  int root = root_of_call();
  lay_one(&received, units_of_call());
  dress(&received, 10);
  if (rank == root) put(received.data, &received, 0, root, 0);
  const int from[RANKS_MAX] = {root};
  expect_blocks(from, nobody);
  CALL(Bcast, bcast, received.data, received.counts[0], received.type, root, comm);
}

static void allgather(MPI_Comm comm) {
  int units = units_of_call();
  lay_one(&sent, units);
  dress(&sent, 10);
  put(sent.data, &sent, 0, rank, 0);
  lay_evenly(&received, units);
  dress(&received, 12);
  expect_blocks(everyone, nobody);
  CALL(Allgather, allgather, sent.data, sent.counts[0], sent.type, received.data,
       received.counts[0], received.type, comm);
}

static void alltoall(MPI_Comm comm) {
  int units = units_of_call();
  lay_evenly(&sent, units);
  dress(&sent, 10);
  for (int i = 0; i < size; i++) put(sent.data, &sent, i, rank, i);
  lay_evenly(&received, units);
  dress(&received, 12);
  expect_blocks(everyone, me);
  CALL(Alltoall, alltoall, sent.data, sent.counts[0], sent.type, received.data, received.counts[0],
       received.type, comm);
}

/* The units that a rank sends to another one: of some ranks nothing at all. */
static int units_between(int from, int to) {
  if (pick(20, from, 3) == 0 || pick(21, to, 4) == 0) return 0;
  return pick(22 + from, to, 3) == 0 ? 0 : pick(40 + from, to, UNITS_MAX);
}

static void allgatherv(MPI_Comm comm) {
  for (int i = 0; i < size; i++) received.units[i] = units_between(i, 0);
  lay_one(&sent, received.units[rank]);
  dress(&sent, 10);
  put(sent.data, &sent, 0, rank, 0);
  lay_apart(&received, 50 + rank);
  dress(&received, 12);
  expect_blocks(everyone, nobody);
  CALL(Allgatherv, allgatherv, sent.data, sent.counts[0], sent.type, received.data, received.counts,
       received.displs, received.type, comm);
}

static void alltoallv(MPI_Comm comm) {
  for (int i = 0; i < size; i++) {
    sent.units[i] = units_between(rank, i);
    received.units[i] = units_between(i, rank);
  }
  lay_apart(&sent, 50 + rank);
  dress(&sent, 10);
  for (int i = 0; i < size; i++) put(sent.data, &sent, i, rank, i);
  lay_apart(&received, 60 + rank);
  dress(&received, 12);
  expect_blocks(everyone, me);
  CALL(Alltoallv, alltoallv, sent.data, sent.counts, sent.displs, sent.type, received.data,
       received.counts, received.displs, received.type, comm);
}

/* Gathers the blocks that are laid out in received. */
static void gather_blocks(MPI_Comm comm, int root, int is_irregular) {
  int in_place = pick(3, 0, 2);
  const int units = received.units[rank];
  dress(&received, 12);
  if (rank == root) {
    expect_blocks(everyone, nobody);
    if (in_place) put(received.data, &received, rank, rank, 0);
  } else {
    memcpy(wanted, received.data, sizeof wanted);
  }
  lay_one(&sent, units);
  dress(&sent, 10);
  put(sent.data, &sent, 0, rank, 0);
  if (rank != root && is_irregular) {
    CALL(Gatherv, gatherv, sent.data, sent.counts[0], sent.type, WRONG_V, root, comm);
  } else if (rank != root) {
    CALL(Gather, gather, sent.data, sent.counts[0], sent.type, WRONG, root, comm);
  } else if (is_irregular) {
    CALL(Gatherv, gatherv, in_place ? MPI_IN_PLACE : sent.data, in_place ? -1 : sent.counts[0],
         in_place ? MPI_DATATYPE_NULL : sent.type, received.data, received.counts, received.displs,
         received.type, root, comm);
  } else {
    CALL(Gather, gather, in_place ? MPI_IN_PLACE : sent.data, in_place ? -1 : sent.counts[0],
         in_place ? MPI_DATATYPE_NULL : sent.type, received.data, received.counts[0], received.type,
         root, comm);
  }
}

static void gather(MPI_Comm comm) {
  lay_evenly(&received, units_of_call());
  gather_blocks(comm, root_of_call(), 0);
}

static void gatherv(MPI_Comm comm) {
  for (int i = 0; i < size; i++) received.units[i] = units_between(i, 0);
  lay_apart(&received, 50);
  gather_blocks(comm, root_of_call(), 1);
}

/* Scatters the blocks that are laid out in sent. */
static void scatter_blocks(MPI_Comm comm, int root, int is_irregular) {
  int in_place = pick(3, 0, 2) && rank == root;
  const int units = sent.units[rank];
  dress(&sent, 10);
  for (int i = 0; i < size; i++) put(sent.data, &sent, i, root, i);
  lay_one(&received, units);
  dress(&received, 12);
  const int from[RANKS_MAX] = {root};
  expect_blocks(from, me);
  if (in_place) memcpy(wanted, received.data, sizeof wanted);
  void *to = in_place ? MPI_IN_PLACE : received.data;
  int count = in_place ? -1 : received.counts[0];
  MPI_Datatype type = in_place ? MPI_DATATYPE_NULL : received.type;
  if (rank != root && is_irregular) {
    CALL(Scatterv, scatterv, WRONG_V, to, count, type, root, comm);
  } else if (rank != root) {
    CALL(Scatter, scatter, WRONG, to, count, type, root, comm);
  } else if (is_irregular) {
    CALL(Scatterv, scatterv, sent.data, sent.counts, sent.displs, sent.type, to, count, type, root,
         comm);
  } else {
    CALL(Scatter, scatter, sent.data, sent.counts[0], sent.type, to, count, type, root, comm);
  }
}

static void scatter(MPI_Comm comm) {
  lay_evenly(&sent, units_of_call());
  scatter_blocks(comm, root_of_call(), 0);
}

static void scatterv(MPI_Comm comm) {
  for (int i = 0; i < size; i++) sent.units[i] = units_between(i, 0);
  lay_apart(&sent, 50);
  scatter_blocks(comm, root_of_call(), 1);
}

/* ---- elements of more than 2 GiB -----------------------------------------------------------*/

#define LARGE_INTS ((size_t)9 << 26) /* 2.25 GiB */

/* The ints of a row of 1 MiB, over and over: what is sent may overlap. */
static MPI_Datatype make_repeated(void) {
  MPI_Datatype row, type;
  MPI_Type_contiguous(1 << 18, MPI_INT, &row);
  MPI_Type_create_hvector((int)(LARGE_INTS >> 18), 1, 0, row, &type);
  MPI_Type_free(&row);
  return commit(type);
}

/* Two halves, the second one first. */
static MPI_Datatype make_halves(void) {
  MPI_Datatype half, type;
  const int lengths[] = {1, 1};
  const MPI_Aint displs[] = {LARGE_INTS / 2 * sizeof(int), 0};
  MPI_Type_contiguous((int)(LARGE_INTS / 2), MPI_INT, &half);
  MPI_Type_create_hindexed(2, lengths, displs, half, &type);
  MPI_Type_free(&half);
  return commit(type);
}

static int is_repeated(const int *data, const int *row) {
  for (size_t i = 0; i < LARGE_INTS; i += 65537) {
    if (data[i] != row[i % (1 << 18)]) return 0;
  }
  return data[LARGE_INTS - 1] == row[(1 << 18) - 1];
}

static void large(void) {
  int *row = malloc(sizeof(int) << 18), *data = rank == 0 ? NULL : malloc(4 * LARGE_INTS);
  MPI_Datatype repeated = make_repeated(), halves = make_halves();
  expect(row != NULL && (rank == 0 || data != NULL) && size == 2, "2 ranks, and memory");
  for (int i = 0; i < 1 << 18; i++) row[i] = i * 7;
  expect(sum_on(MPI_COMM_WORLD) == size, "the sum");
  MPI_Bcast(rank == 0 ? row : data, rank == 0 ? 1 : (int)LARGE_INTS, rank == 0 ? repeated : MPI_INT,
            0, MPI_COMM_WORLD);
  expect(rank == 0 || is_repeated(data, row), "a broadcast of one element");
  if (rank == 1) memset(data, 0, 4 * LARGE_INTS);
  const int counts[] = {1, 0}, none[] = {0, 1}, displs[] = {0, 0};
  MPI_Gatherv(row, rank == 0, repeated, data, counts, displs, halves, 1, MPI_COMM_WORLD);
  expect(rank == 0 || is_repeated(data, row), "a gathered element");
  MPI_Scatterv(row, none, displs, repeated, data, rank == 0 ? 0 : (int)LARGE_INTS, MPI_INT, 0,
               MPI_COMM_WORLD);
  expect(rank == 0 || is_repeated(data, row), "a scattered element");
  if (rank == 0) puts("large shapes end");
  free(row);
  free(data);
}

int main(int argc, char **argv) {
  static void (*const verbs[])(MPI_Comm) = {bcast,  allgather, alltoall, allgatherv, alltoallv,
                                            gather, gatherv,   scatter,  scatterv};
  const int verb_count = (int)(sizeof verbs / sizeof verbs[0]);
  int calls = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 1000;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  expect(size <= RANKS_MAX, "the number of ranks");
  if (argc > 1 && strcmp(argv[1], "large") == 0) {
    large();
    MPI_Finalize();
    return 0;
  }
  make_shapes();
  for (int i = 0; i < RANKS_MAX; i++) {
    everyone[i] = i;
    me[i] = rank;
  }
  expect(sum_on(MPI_COMM_WORLD) == size, "the sum");
  for (call_number = 0; call_number < calls; call_number++) {
    verbs[call_number / 2 % verb_count](MPI_COMM_WORLD);
  }
  if (rank == 0) puts("shapes ends");
  MPI_Finalize();
  return 0;
}
