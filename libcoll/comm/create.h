/* How communicators come to be: from a meeting point, among threads, or out of another one. */
#ifndef COMM_CREATE_H
#define COMM_CREATE_H

#include "comm/comm.h"
#include "comm/rendezvous.h"
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

_Static_assert(sizeof(comm_record_t) <= RENDEZVOUS_RECORD_MOST, "a record must fit the meeting");

/* COLL_INTERFACE_ADDRESS and COLL_TIMEOUT_MS, the latter unless config sets its own. */
coll_status_t comm_settings(const coll_comm_config_t *config, const char **address,
                            int *timeout_ms);

/* COLL_TUNE: whether the costs are to be those that the library has built in. */
coll_status_t comm_costs_setting(bool *builtin);

/* Meets at `place` as rank `rank` of `size`; place NULL: a rank alone, that meets nobody. */
coll_status_t comm_create(const rendezvous_place_t *place, int rank, int size, int timeout_ms,
                          struct coll_comm **comm);

/* Opens this rank's listening socket and describes it. The caller owns *mesh: shm_mesh_close. */
coll_status_t comm_introduce(shm_mesh_t *mesh, comm_record_t *record);

/* The rest of the way once the records of all ranks are known: session is a number that they all
 * have and no other communicator has. Takes over *mesh, on failure too. */
coll_status_t comm_connect(shm_mesh_t *mesh, int rank, int size, const comm_record_t records[],
                           uint64_t session, int timeout_ms, struct coll_comm **comm);

coll_status_t comm_create_local(int size, struct coll_comm *comms[]);

/* The same, told how many cores the threads will have and what things cost. */
coll_status_t comm_create_threads(int size, int cores, const tune_machine_t *costs,
                                  struct coll_comm *comms[]);

/* Frees the communicator of a rank that has no call under way. */
void comm_destroy(struct coll_comm *comm);

/* rank, size and meeting point from the launcher's variables; *place is only set when size > 1. */
coll_status_t comm_environment(int *rank, int *size, rendezvous_place_t *place);

/* The index-th knob of this room, described; NULL past the end. */
const struct base_knob *comm_knob(int index);

#endif
