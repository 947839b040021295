/*
 * Key-value spaces of launchers. Each client reads what rank 0 has written under a key; keys are
 * new for every communicator, so nothing is ever overwritten. The functions of a client are called
 * by one thread at a time (launch.c holds a lock), and keep their connection until the process
 * ends.
 */
#ifndef BOOTSTRAP_LAUNCH_STORE_H
#define BOOTSTRAP_LAUNCH_STORE_H

#include <stdint.h>

#include "base/status.h"

#define LAUNCH_TEXT_BYTES 256 /* of a value; without spaces, '=' and ';', which PMI uses itself */

typedef struct launch_store {
  const char *name; /* for messages */
  /* Connects, unless that has been done, and sets this process's rank and the number of ranks.
   * COLL_ERROR_UNSUPPORTED: the space cannot be used here, and the message says why: the library
   * goes on as if there were none. COLL_ERROR_SYSTEM, COLL_ERROR_INVALID. */
  coll_status_t (*open)(uint64_t deadline_ns, int *rank, int *size);
  /* Writes text on rank 0, and sets it on the others. Entered by all ranks.
   * COLL_ERROR_TIMEOUT, COLL_ERROR_SYSTEM. */
  coll_status_t (*share)(const char *key, uint64_t deadline_ns, char text[LAUNCH_TEXT_BYTES]);
} launch_store_t;

/* PMI-1: Hydra's mpiexec (MPICH, Intel MPI) and srun --mpi=pmi2, which speaks it too. */
extern const launch_store_t launch_store_pmi;
/* PMIx: Open MPI's mpirun, srun --mpi=pmix. */
extern const launch_store_t launch_store_pmix;
/* The TCPStore of torchrun's agent. */
extern const launch_store_t launch_store_torch;

#endif
