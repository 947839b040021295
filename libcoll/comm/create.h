/* Making communicators: of processes that join a rendezvous, and of threads. (split.h: of the ranks
 * of another communicator.) */
#ifndef COMM_CREATE_H
#define COMM_CREATE_H

#include "comm/rendezvous/rendezvous.h"
#include "comm/settings.h"
#include "topo/cpus.h"
#include "transport/shm/mesh.h"

/* What a rank sends to all others before they share memory. */
typedef struct comm_record {
  char host[128]; /* ranks with the same text can share memory */
  int32_t pid;
  uint64_t process;   /* random; ranks with equal pid and process are threads of one process */
  uint64_t pid_space; /* of the pid; 0: not known */
  shm_mesh_name_t name;
  topo_cpus_t cpus; /* the rank may run on these */
  comm_agreed_t agreed;
  tune_machine_t costs; /* rank 0's are used by all ranks */
} comm_record_t;

_Static_assert(sizeof(comm_record_t) <= RENDEZVOUS_RECORD_MAX, "a record must fit its message");

/* Joins the rendezvous at `address` as rank `rank` of `size`; NULL: size is 1, there is none. Rank
 * 0's costs are used by all ranks. COLL_ERROR_MISMATCH on all ranks where their settings differ. */
coll_status_t comm_create(const rendezvous_address_t *address, int rank, int size,
                          const comm_settings_t *settings, const tune_machine_t *costs,
                          struct coll_comm **comm);

/* Opens this rank's listening socket and fills in its record. The caller owns *mesh:
 * shm_mesh_close. */
coll_status_t comm_introduce(shm_mesh_t *mesh, comm_record_t *record);

/* Connects to the peers and makes the communicator, once the records of all ranks are known.
 * session is a number that these ranks have and no other communicator has. The watch tells of
 * failures elsewhere. Takes over *mesh, on failure too. COLL_ERROR_RANK_LOST from any other source
 * than the watch means only that a peer has disconnected: it may have given up because of a third
 * rank. */
coll_status_t comm_connect(shm_mesh_t *mesh, int rank, int size, const comm_record_t records[],
                           uint64_t session, uint64_t deadline_ns, const shm_mesh_watch_t *watch,
                           struct coll_comm **comm);

/* For threads of this process that run on `cores` cores. */
coll_status_t comm_create_local(int size, int cores, const comm_settings_t *settings,
                                const tune_machine_t *costs, struct coll_comm *comms[]);

/* Frees the communicator of a rank that has no call under way. */
void comm_destroy(struct coll_comm *comm);

#endif
