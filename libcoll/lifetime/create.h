/*
 * Creates communicators of processes, which find each other through a rendezvous, and of threads.
 * split.h creates them from the ranks of another communicator.
 */
#ifndef LIFETIME_CREATE_H
#define LIFETIME_CREATE_H

#include "bootstrap/process.h"
#include "bootstrap/rendezvous/rendezvous.h"
#include "comm/settings.h"
#include "topo/cpus.h"
#include "topo/home.h"
#include "transport/connect.h"

/* The information about itself that a rank sends to all others before they share memory. */
typedef struct lifetime_record {
  int32_t pid;
  bootstrap_process_t started; /* with the pid, for messages */
  topo_home_t home;            /* package and NUMA node of the cpus below (placement.h) */
  uint64_t process;   /* random; ranks with equal pid and process are threads of one process */
  uint64_t pid_space; /* pid namespace of the pid; 0: unknown */
  uint64_t kernel;    /* whose cores the cpus below are (topo/host.h); 0: unknown */
  transport_name_t name;
  topo_cpus_t cpus; /* cpus that the rank may run on */
  comm_agreed_t agreed;
  int32_t has_gpu;      /* whether the rank has a GPU when the communicator is created */
  int32_t measures;     /* of rank 0: whether the network is measured */
  int32_t has_time;     /* for that: LIFETIME_NETWORK_TIMEOUT_NS */
  tune_machine_t costs; /* all ranks use those of rank 0 */
} lifetime_record_t;

_Static_assert(sizeof(lifetime_record_t) <= RENDEZVOUS_RECORD_MAX, "a record must fit its message");

/* What the ranks of one communicator have in common and those of others have not. */
typedef struct lifetime_session {
  uint64_t number;
  base_secret_t secret;
} lifetime_session_t;

/* That of a number. secret: of all that make a communicator with such a number. */
lifetime_session_t lifetime_session_of(uint64_t number, const base_secret_t *secret);

/* Waits for calls of failed communicators (quiesce.h), then joins the rendezvous at `address` as
 * rank `rank` of `size`. address NULL: size is 1 and there is no rendezvous. All ranks use the
 * costs of rank 0, which finds them (settings->calibration). COLL_ERROR_MISMATCH on all ranks if
 * their settings differ. If all ranks have GPUs, these are connected too (gpu/gpu.h). *comm is in
 * and out: NULL, or a handle of async.h that becomes the communicator. */
coll_status_t lifetime_create(const rendezvous_address_t *address, int rank, int size,
                              const comm_settings_t *settings, struct coll_comm **comm);

/* The costs that a communicator of `size` ranks is made with on this one. */
coll_status_t lifetime_costs_of(const comm_settings_t *settings, int rank, int size,
                                tune_machine_t *costs);

/* Opens this rank's listening sockets and fills in its record. The caller owns *listener and closes
 * it by transport_listener_close. */
coll_status_t lifetime_listen(const transport_settings_t *settings, transport_listener_t *listener,
                              lifetime_record_t *record);

/* Connects to the peers and makes the communicator, once the records of all ranks are known.
 * session: the same on these ranks. watch: reports failures of other ranks. Takes over *listener,
 * also on failure. COLL_ERROR_RANK_LOST that does not come from the watch means only that a peer
 * has disconnected, possibly because a third rank failed. *comm is in and out, as in
 * lifetime_create.
 */
coll_status_t lifetime_connect(transport_listener_t *listener, int rank, int size,
                               const lifetime_record_t records[], const lifetime_session_t *session,
                               uint64_t deadline_ns, const transport_watch_t *watch,
                               struct coll_comm **comm);

/* Makes the communicators of `size` ranks that are threads of this process on `cores` cores. */
coll_status_t lifetime_create_local(int size, int cores, const comm_settings_t *settings,
                                    const tune_machine_t *costs, struct coll_comm *comms[]);

/* Frees the communicator; while a thread makes it, all but the handle, which is the thread's
 * (async.h). No call may be under way on this rank. */
void lifetime_destroy(struct coll_comm *comm);

#endif
