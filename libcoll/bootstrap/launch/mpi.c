/* MPI in the same process: it uses the same connection to the launcher. */
#include <dlfcn.h>
#include <string.h>

#include "bootstrap/launch/launch.h"

launch_mpi_t launch_mpi(void) {
  int (*initialized)(int *);
  int flag = 0;
  void *symbol = dlsym(RTLD_DEFAULT, "MPI_Initialized");
  if (symbol == NULL) return LAUNCH_MPI_ABSENT;
  memcpy(&initialized, &symbol, sizeof symbol);
  return initialized(&flag) == 0 && flag != 0 ? LAUNCH_MPI_INITIALIZED : LAUNCH_MPI_NOT_INITIALIZED;
}
