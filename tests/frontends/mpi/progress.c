/*
 * Programs in which a rank can go on only if another one, which waits in a collective, lets its MPI
 * make progress. Usage: progress CASE, with two ranks; each prints "CASE ends" then.
 *   isend    rank 0 sends 8 MiB, and completes that after the collective
 *   window   rank 1 puts 8 MiB into rank 0's window and unlocks it before the collective
 *   ibarrier rank 0 completes an MPI_Ibarrier and MPI_Ibcast of the MPI after the collective
 *   first    isend, and the collective is the first one of the communicator
 *   bcast    isend, with a broadcast from the rank that receives
 *   served   rank 1 waits for a non-blocking collective that is served before it sends what rank 0
 *            receives after that collective
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES (8 << 20)

static int rank;
static char *data;

static void sum(void) {
  int one = 1, all = 0;
  MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (all != 2) MPI_Abort(MPI_COMM_WORLD, 1);
}

static void from_one(void) {
  int value = rank;
  MPI_Bcast(&value, 1, MPI_INT, 1, MPI_COMM_WORLD);
  if (value != 1) MPI_Abort(MPI_COMM_WORLD, 1);
}

static void isend(void (*collective)(void)) {
  MPI_Request request;
  if (rank == 0) {
    MPI_Isend(data, BYTES, MPI_CHAR, 1, 0, MPI_COMM_WORLD, &request);
    collective();
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  } else {
    MPI_Recv(data, BYTES, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    collective();
  }
}

static void window(void) {
  MPI_Win win;
  MPI_Win_create(data, BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
  if (rank == 1) {
    char *from = calloc(1, BYTES);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
    MPI_Put(from, BYTES, MPI_CHAR, 0, 0, BYTES, MPI_CHAR, win);
    MPI_Win_unlock(0, win);
    free(from);
  }
  sum();
  MPI_Win_free(&win);
}

/* The barrier alone may be complete when two ranks have called it. */
static void ibarrier(void) {
  MPI_Comm copy; /* in no blocking collective yet */
  MPI_Request requests[2];
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  MPI_Ibarrier(copy, &requests[0]);
  MPI_Ibcast(data, BYTES, MPI_CHAR, 0, copy, &requests[1]);
  if (rank == 0) sum();
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  if (rank == 1) sum();
  MPI_Comm_free(&copy);
}

static void served(void) {
  int one = 1, all[2] = {0, 0};
  MPI_Request requests[2];
  MPI_Iallreduce(&one, &all[0], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[0]);
  if (rank == 0) {
    MPI_Iallreduce(&one, &all[1], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[1]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Send(data, BYTES, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
  } else {
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Recv(data, BYTES, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Iallreduce(&one, &all[1], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[1]);
  }
  MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
  if (all[0] != 2 || all[1] != 2) MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char **argv) {
  const char *name = argc > 1 ? argv[1] : "";
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  data = calloc(1, BYTES);
  if (data == NULL) return 1;
  for (int i = 0; i < 3; i++) {
    if (strcmp(name, "first") != 0) sum();
    if (strcmp(name, "isend") == 0 || strcmp(name, "first") == 0) isend(sum);
    if (strcmp(name, "bcast") == 0) isend(from_one);
    if (strcmp(name, "window") == 0) window();
    if (strcmp(name, "ibarrier") == 0) ibarrier();
    if (strcmp(name, "served") == 0) served();
  }
  printf("%s ends\n", name);
  MPI_Finalize();
  return 0;
}
