/*
 * What the programs of these tests have in common: who this rank is, and what must hold.
 */
#ifndef TESTS_MPI_CHECKS_H
#define TESTS_MPI_CHECKS_H

#include <mpi.h>
#include <stdio.h>

static int rank, size;

static inline void expect(int is_right, const char *what) {
  if (is_right) return;
  fprintf(stderr, "rank %d: wrong: %s\n", rank, what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static inline int sum_on(MPI_Comm comm) {
  int own = 1, all = 0;
  return MPI_Allreduce(&own, &all, 1, MPI_INT, MPI_SUM, comm) == MPI_SUCCESS ? all : -1;
}

#endif
