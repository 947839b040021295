/*
 * Many calls of few verbs and sizes on two communicators in turn, so that the layer's trials end,
 * its choices hold, and further trials begin. Ranks describe the same data by different types, and
 * a root in place gives a count that no rank has: what is chosen must not depend on either. Trials
 * whose calls are small but for one in 16 at the upper end of their class end, too. Usage: trials
 * CALLS; prints "trials ends".
 *
 * trials turn: the MPI's barrier, which is replaced, is the faster one in a first trial and the
 * slower one in a second trial, after which libcoll has to get the calls. Prints "turn ends".
 */
#include <mpi.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANKS_MAX 8
#define COUNT_MAX 16384 /* ints of a block */

static int rank, size;
static int send[RANKS_MAX * COUNT_MAX], recv[RANKS_MAX * COUNT_MAX];
static MPI_Datatype pair; /* two ints */

static void expect(int is_right, const char *what, int call) {
  if (is_right) return;
  fprintf(stderr, "rank %d: wrong in call %d: %s\n", rank, call, what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static int value_of(int from, int call, int i) {
  return from * 1000 + call % 997 + i % 7;
}

static void fill(int *data, int count, int from, int call) {
  for (int i = 0; i < count; i++) data[i] = value_of(from, call, i);
}

static int is_from(const int *data, int count, int from, int call) {
  for (int i = 0; i < count; i += 1 + count / 4) {
    if (data[i] != value_of(from, call, i)) return 0;
  }
  return 1;
}

/* Odd ranks count larger blocks in pairs: 64 pairs are another call than 64 ints. */
static MPI_Datatype type_of(int count, int *elements) {
  int is_pair = rank % 2 == 1 && count > 64 && count % 2 == 0;
  *elements = is_pair ? count / 2 : count;
  return is_pair ? pair : MPI_INT;
}

static void bcast(MPI_Comm comm, int call, int count) {
  int elements, root = call % size;
  MPI_Datatype type = type_of(count, &elements);
  if (rank == root) fill(recv, count, root, call);
  MPI_Bcast(recv, elements, type, root, comm);
  expect(is_from(recv, count, root, call), "MPI_Bcast", call);
}

static void allreduce(MPI_Comm comm, int call, int count) {
  fill(send, count, rank, call);
  MPI_Allreduce(send, recv, count, MPI_INT, call % 2 ? MPI_MAX : MPI_MIN, comm);
  expect(is_from(recv, count, call % 2 ? size - 1 : 0, call), "MPI_Allreduce", call);
}

static void scatter(MPI_Comm comm, int call, int count) {
  int elements, root = call % size, other = count == 1 ? 64 : 1;
  MPI_Datatype type = type_of(count, &elements);
  for (int i = 0; i < size; i++) fill(send + i * count, count, i, call);
  if (rank == root) {
    MPI_Scatter(send, elements, type, MPI_IN_PLACE, other, MPI_INT, root, comm);
  } else {
    MPI_Scatter(NULL, 0, MPI_INT, recv, elements, type, root, comm);
    expect(is_from(recv, count, rank, call), "MPI_Scatter", call);
  }
}

static void gather(MPI_Comm comm, int call, int count) {
  int elements, root = call % size, other = count == 1 ? 64 : 1;
  MPI_Datatype type = type_of(count, &elements);
  fill(rank == root ? recv + rank * count : send, count, rank, call);
  if (rank != root) {
    MPI_Gather(send, elements, type, NULL, 0, MPI_INT, root, comm);
    return;
  }
  MPI_Gather(MPI_IN_PLACE, other, MPI_INT, recv, elements, type, root, comm);
  for (int i = 0; i < size; i++) {
    expect(is_from(recv + i * count, count, i, call), "MPI_Gather", call);
  }
}

/* Blocks of one size with gaps, or none of rank 0's. */
static void allgatherv(MPI_Comm comm, int call, int count) {
  int counts[RANKS_MAX], displs[RANKS_MAX], gap = call % 2;
  for (int i = 0; i < size; i++) {
    counts[i] = call % 5 == 0 && i == 0 ? 0 : count;
    displs[i] = i * (count + gap);
  }
  fill(send, count, rank, call);
  MPI_Allgatherv(send, counts[rank], MPI_INT, recv, counts, displs, MPI_INT, comm);
  for (int i = 0; i < size; i++) {
    expect(is_from(recv + displs[i], counts[i], i, call), "MPI_Allgatherv", call);
  }
}

/* Sizes change from call to call. */
static void alltoallv(MPI_Comm comm, int call, int count) {
  int counts[RANKS_MAX], displs[RANKS_MAX];
  for (int i = 0; i < size; i++) {
    counts[i] = count * ((i + rank + call) % 3) / 3;
    displs[i] = i * count;
    fill(send + displs[i], counts[i], rank, call);
  }
  MPI_Alltoallv(send, counts, displs, MPI_INT, recv, counts, displs, MPI_INT, comm);
  for (int i = 0; i < size; i++) {
    expect(is_from(recv + displs[i], counts[i], i, call), "MPI_Alltoallv", call);
  }
}

/* Broadcasts of 32 KiB + 4 to 64 KiB, which are one class: nearly all are small for it. */
static void ends_of_class(MPI_Comm comm) {
  for (int call = 0; call < 2000; call++) {
    bcast(comm, call, call % 16 == 15 ? COUNT_MAX : COUNT_MAX / 2 + 1);
  }
}

/* ---- a choice that turns -------------------------------------------------------------------*/

#define TRIAL_CALLS 48 /* of a trial of small calls, at most */
#define HELD_CALLS 100 /* fewer than follow a trial before the next one, at least */

static int passed, is_slow;
static double served_most_us; /* what a served barrier has taken, at most */

/* What the layer finds as the MPI's barrier: a program comes before its libraries. It waits for no
 * rank, so that libcoll's one takes longer, or twice as long as libcoll's one has ever taken. */
int PMPI_Barrier(MPI_Comm comm) {
  (void)comm;
  passed = 1;
  if (is_slow) poll(NULL, 0, 1 + (int)(served_most_us * 2e-3));
  return MPI_SUCCESS;
}

/* Whether a barrier passes. */
static int passes(void) {
  double begin = MPI_Wtime();
  passed = 0;
  MPI_Barrier(MPI_COMM_WORLD);
  double took_us = (MPI_Wtime() - begin) * 1e6;
  if (!passed && took_us > served_most_us) served_most_us = took_us;
  return passed;
}

static void turn(void) {
  for (int i = 0; i < TRIAL_CALLS; i++) passes();
  for (int i = 0; i < HELD_CALLS; i++) expect(passes(), "the MPI is faster, and not chosen", i);
  while (passes()) continue; /* until the second trial */
  is_slow = 1;
  for (int i = 1; i < TRIAL_CALLS; i++) passes();
  for (int i = 0; i < HELD_CALLS; i++) expect(!passes(), "libcoll is faster, and not chosen", i);
}

int main(int argc, char **argv) {
  static void (*const verbs[])(MPI_Comm, int, int) = {bcast,  allreduce,  scatter,
                                                      gather, allgatherv, alltoallv};
  static const int counts[] = {1, 64, 128, 1000};
  MPI_Comm comms[2] = {MPI_COMM_WORLD};
  int calls = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 1000;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size > RANKS_MAX) MPI_Abort(MPI_COMM_WORLD, 2);
  if (argc > 1 && strcmp(argv[1], "turn") == 0) {
    turn();
    if (rank == 0) printf("turn ends\n");
    MPI_Finalize();
    return 0;
  }
  MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]);
  MPI_Type_contiguous(2, MPI_INT, &pair);
  MPI_Type_commit(&pair);
  for (int call = 0; call < calls; call++) {
    int which = call / 2; /* two calls of each kind in sequence */
    verbs[which % 6](comms[which / 6 % 2], call, counts[which / 12 % 4]);
  }
  ends_of_class(comms[1]);
  MPI_Type_free(&pair);
  MPI_Comm_free(&comms[1]);
  if (rank == 0) printf("trials ends\n");
  MPI_Finalize();
  return 0;
}
