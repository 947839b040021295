/* How communicators come to be: from a meeting point, among threads, or out of another one. */
#ifndef COMM_CREATE_H
#define COMM_CREATE_H

#include "comm/comm.h"
#include "comm/rendezvous/rendezvous.h"
#include "topo/cpus.h"
#include "transport/shm/mesh.h"

/* What ranks tell each other about themselves before they can share memory. */
typedef struct comm_record {
  char host[128]; /* ranks with equal text can share memory */
  int32_t pid;
  uint64_t process;   /* random; ranks with equal pid and process are threads of one process */
  uint64_t pid_space; /* of the pid; 0: not known */
  shm_mesh_name_t name;
  topo_cpus_t cpus;     /* that the rank may run on */
  tune_machine_t costs; /* those of rank 0 count, for all ranks */
} comm_record_t;

_Static_assert(sizeof(comm_record_t) <= RENDEZVOUS_RECORD_MAX, "a record must fit its message");

/* COLL_INTERFACE_ADDRESS and COLL_TIMEOUT_MS, the latter unless config sets its own. */
coll_status_t comm_settings(const coll_comm_config_t *config, const char **address,
                            int *timeout_ms);

/* COLL_TUNE: whether the costs are to be those that the library has built in. */
coll_status_t comm_costs_setting(bool *builtin);

/* Joins the rendezvous at `address` as rank `rank` of `size`; NULL: size is 1, there is none. */
coll_status_t comm_create(const rendezvous_address_t *address, int rank, int size, int timeout_ms,
                          struct coll_comm **comm);

/* Opens this rank's listening socket and describes it. The caller owns *mesh: shm_mesh_close. */
coll_status_t comm_introduce(shm_mesh_t *mesh, comm_record_t *record);

/* Connects to the peers and makes the communicator, once the records of all ranks are known.
 * session is a number that these ranks have and no other communicator has. The watch tells of
 * failures elsewhere. Takes over *mesh, on failure too. COLL_ERROR_RANK_LOST from any other source
 * than the watch means only that a peer has disconnected: it may have given up because of a third
 * rank. */
coll_status_t comm_connect(shm_mesh_t *mesh, int rank, int size, const comm_record_t records[],
                           uint64_t session, uint64_t deadline_ns, const shm_mesh_watch_t *watch,
                           struct coll_comm **comm);

coll_status_t comm_create_local(int size, struct coll_comm *comms[]);

/* The same, told how many cores the threads will have and what things cost. */
coll_status_t comm_create_threads(int size, int cores, const tune_machine_t *costs,
                                  struct coll_comm *comms[]);

/* Frees the communicator of a rank that has no call under way. */
void comm_destroy(struct coll_comm *comm);

/* rank, size and the rendezvous address from the launcher's environment variables; *address is set
 * only if size > 1. */
coll_status_t comm_environment(int *rank, int *size, rendezvous_address_t *address);

/* The index-th knob of this room, described; NULL past the end. */
const struct base_knob *comm_knob(int index);

#endif
