/* A sum of two ranks of an MPI. Prints "works". */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
  int one = 1, sum = 0, rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0 && sum == 2) puts("works");
  return MPI_Finalize();
}
