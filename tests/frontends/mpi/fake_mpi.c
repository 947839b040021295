/*
 * An MPI that does nothing, with few functions: none that the layers were built for. Built as one
 * whose library has the name of MPICH's interface, it is one that is too old for the layer.
 */
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT int MPI_Barrier(void *comm);
EXPORT int PMPI_Barrier(void *comm);
EXPORT int PMPI_Init(int *argc, char ***argv);
EXPORT int PMPI_Get_library_version(char *version, int *length);

int PMPI_Init(int *argc, char ***argv) {
  (void)argc, (void)argv;
  return 0;
}

int PMPI_Get_library_version(char *version, int *length) {
  static const char name[] = "Another MPI 1.0, of tests";
  memcpy(version, name, sizeof name);
  *length = (int)sizeof name - 1;
  return 0;
}

int PMPI_Barrier(void *comm) {
  (void)comm;
  return 0;
}

int MPI_Barrier(void *comm) {
  return PMPI_Barrier(comm);
}
