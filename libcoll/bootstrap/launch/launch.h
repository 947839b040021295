/*
 * What the launcher of this process tells it: its rank, the number of ranks, and where they meet.
 * Launchers with a key-value space pass a text from rank 0 to the others: rank 0 starts the
 * rendezvous server on a free port and publishes its addresses, its port and a new secret. With the
 * others, the ranks meet at an address that environment variables give.
 *
 * The first of these that is there counts:
 *   COLL_RANK, COLL_SIZE, COLL_ADDRESS   set by the user, for example in a pod of Kubernetes
 *   RANK, WORLD_SIZE                     collrun; torchrun, with its agent's store
 *   PMIX_RANK                            PMIx: Open MPI's mpirun, srun --mpi=pmix
 *   OMPI_COMM_WORLD_RANK, ..._SIZE       Open MPI where PMIx cannot be used
 *   PMI_FD or PMI_PORT                   PMI: Hydra's mpiexec (MPICH, Intel MPI), srun --mpi=pmi2
 *   PMI_RANK, PMI_SIZE                   the same where PMI cannot be used
 *   SLURM_PROCID, SLURM_NTASKS           srun, with SLURM_STEP_ID; a batch script is one rank
 */
#ifndef BOOTSTRAP_LAUNCH_LAUNCH_H
#define BOOTSTRAP_LAUNCH_LAUNCH_H

#include <stdint.h>

#include "base/knob.h"
#include "bootstrap/launch/store.h"
#include "bootstrap/rendezvous/rendezvous.h"

/* The environment variables of one launcher; NULL: it has no such variable. */
typedef struct launch_kind {
  const char *marker; /* set in every rank, and not in the launcher itself */
  const char *rank, *size;
  const char *local_size; /* number of ranks on this host */
  const char *job, *step; /* together they identify the job */
  const launch_store_t *store;
} launch_kind_t;

#define LAUNCH_REASON_BYTES 256

typedef struct launch {
  const launch_kind_t *kind; /* NULL: there is no launcher */
  int rank, size;
  char no_store[LAUNCH_REASON_BYTES]; /* why the launcher's key-value space is not used, or "" */
} launch_t;

/* This process's rank and the number of ranks; one rank if there is no launcher. Connects to the
 * launcher's key-value space until deadline_ns. COLL_ERROR_INVALID names a variable with a wrong
 * value, or one that is missing. COLL_ERROR_SYSTEM, COLL_ERROR_TIMEOUT: the key-value space fails.
 */
coll_status_t launch_find(uint64_t deadline_ns, launch_t *launch);

/* Passes text from rank 0 to all ranks. Every rank calls it, equally often. There is a store
 * (launch->kind->store). COLL_ERROR_TIMEOUT, COLL_ERROR_SYSTEM. */
coll_status_t launch_share(const launch_t *launch, uint64_t deadline_ns,
                           char text[LAUNCH_TEXT_BYTES]);

/* Where the ranks meet, with the secret, once the server there runs or will run; rank 0 has started
 * it. launch->size > 1. interfaces: as of rendezvous_server_start_own. COLL_ERROR_INVALID,
 * COLL_ERROR_TIMEOUT, COLL_ERROR_SYSTEM. */
coll_status_t launch_meet(const launch_t *launch, const char *interfaces, uint64_t deadline_ns,
                          rendezvous_address_t *address);

/* Prints on standard error where the ranks meet and how they know. */
void launch_report(const launch_t *launch, const rendezvous_address_t *address);

/* The address that environment variables give, with no secret and no server yet.
 * COLL_ERROR_INVALID: none does, or one has a wrong value. */
coll_status_t launch_variables_address(const launch_t *launch, rendezvous_address_t *address);

/* The address as a text for launch_share, and back. False: it is no such text. The secret is left
 * out if there is none. */
void launch_text_write(const rendezvous_address_t *address, char text[LAUNCH_TEXT_BYTES]);
bool launch_text_read(const char *text, rendezvous_address_t *address);

/* The name of the first host of a node list of Slurm, as in "a[01-03,7]x,b": "a01x". False: it is
 * longer than `bytes`, or is not well-formed. */
bool launch_slurm_first(const char *list, char *host, size_t bytes);

/* The value of an environment variable; NULL if it is not set or is empty, or if name is NULL. */
const char *launch_value(const char *name);

/* A whole number from an environment variable. COLL_ERROR_INVALID names it. */
coll_status_t launch_number(const char *name, int64_t least, int64_t most, int64_t *value);

/* Whether all ranks are on this host, as far as the launcher tells. */
bool launch_is_on_one_host(const launch_t *launch);

/* Whether the program is linked with an MPI library, and whether it has called MPI_Init. That stays
 * so after MPI_Finalize. */
typedef enum launch_mpi {
  LAUNCH_MPI_ABSENT,
  LAUNCH_MPI_NOT_INITIALIZED,
  LAUNCH_MPI_INITIALIZED
} launch_mpi_t;
launch_mpi_t launch_mpi(void);

/* The pid of the launcher that started this rank, or of the parent if no launcher has set ranks. */
int launch_pid(void);

const base_knob_t *launch_knob(int index);

#endif
