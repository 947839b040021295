/* A program with the MPI of fake_mpi.c. Prints "done". */
#include <stdio.h>

#define IMPORT __attribute__((visibility("default")))

IMPORT int MPI_Barrier(void *comm);
IMPORT int PMPI_Init(int *argc, char ***argv);

int main(int argc, char **argv) {
  if (PMPI_Init(&argc, &argv) != 0 || MPI_Barrier(NULL) != 0) return 2;
  puts("done");
  return 0;
}
