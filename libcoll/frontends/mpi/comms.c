/*
 * Maps communicators. In its first blocking collective, all ranks of a communicator are there, in
 * the same call; so they may carry out a few collectives of the MPI between themselves to agree on
 * whether, and at which rendezvous, they make one of libcoll. They agree on the failure of one
 * rank, too: then all calls of that communicator pass.
 */
#include "frontends/mpi/comms.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "frontends/mpi/requests.h"

#define POLL_NS 20000 /* between two looks at a communicator that is being made */

static int comm_key = MPI_KEYVAL_INVALID;
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static layer_comm_t *all_comms;

atomic_uint layer_generation = 1;
_Thread_local layer_recent_t layer_recent[LAYER_RECENT_COUNT];
atomic_bool layer_serves_requests;

static int no_copy(MPI_Comm handle, int key, void *extra, void *value, void *copy, int *is_copied) {
  (void)handle, (void)key, (void)extra, (void)value, (void)copy;
  *is_copied = 0;
  return MPI_SUCCESS;
}

static void destroy_coll(layer_comm_t *comm) {
  if (comm->coll == NULL) return;
  coll_comm_destroy(comm->coll);
  comm->coll = NULL;
}

static int free_comm(MPI_Comm handle, int key, void *value, void *extra) {
  layer_comm_t *comm = value;
  (void)handle, (void)key, (void)extra;
  atomic_fetch_add(&layer_generation, 1);
  pthread_mutex_lock(&list_lock);
  if (comm->next != NULL) comm->next->previous = comm->previous;
  if (comm->previous != NULL) comm->previous->next = comm->next;
  if (all_comms == comm) all_comms = comm->next;
  pthread_mutex_unlock(&list_lock);
  layer_requests_drain(comm);
  destroy_coll(comm);
  layer_choices_free(&comm->choices);
  free(comm);
  return MPI_SUCCESS;
}

void layer_comms_start(void) {
  pmpi.Comm_create_keyval(no_copy, free_comm, &comm_key, NULL);
}

void layer_comms_end(void) {
  atomic_fetch_add(&layer_generation, 1);
  pthread_mutex_lock(&list_lock);
  for (layer_comm_t *comm = all_comms; comm != NULL; comm = comm->next) destroy_coll(comm);
  pthread_mutex_unlock(&list_lock);
  pmpi.Comm_free_keyval(&comm_key);
}

void layer_comms_forget(void) {
  atomic_fetch_add(&layer_generation, 1);
  pthread_mutex_init(&list_lock, NULL);
}

/* ---- agreement -----------------------------------------------------------------------------*/

/* What the ranks find out of each other. */
typedef struct company {
  bool is_on_one_host, has_memory; /* all of them */
} company_t;

/* False: the MPI has failed. */
static bool compare_ranks(MPI_Comm handle, bool has_memory, company_t *company) {
  char name[MPI_MAX_PROCESSOR_NAME];
  int length = 0;
  uint64_t hash = 0xcbf29ce484222325u;
  pmpi.Get_processor_name(name, &length);
  for (int i = 0; i < length; i++) hash = (hash ^ (unsigned char)name[i]) * 0x100000001b3u;
  uint64_t lowest[3] = {hash, ~hash, has_memory};
  if (pmpi.Allreduce(MPI_IN_PLACE, lowest, 3, MPI_UINT64_T, MPI_MIN, handle) != MPI_SUCCESS) {
    return false;
  }
  *company = (company_t){.is_on_one_host = lowest[0] == ~lowest[1], .has_memory = lowest[2] != 0};
  return true;
}

typedef struct invitation {
  coll_unique_id_t id;
  int is_valid, mode;
} invitation_t;

static coll_status_t create_coll(layer_comm_t *comm, const invitation_t *invitation) {
  coll_comm_config_t config = COLL_COMM_CONFIG_INIT;
  const struct timespec pause = {0, POLL_NS};
  config.blocking = 0; /* peers may need this rank's MPI to get here */
  coll_status_t status =
      coll_comm_create(&invitation->id, comm->rank, comm->size, &config, &comm->coll);
  while (status == COLL_IN_PROGRESS) {
    layer_progress();
    nanosleep(&pause, NULL);
    status = coll_comm_error(comm->coll);
  }
  return status;
}

static void call_progress(void *unused) {
  (void)unused;
  if (layer_is_in_call) layer_progress();
}

/* Sets comm->coll, on all ranks or on none. */
static void make_coll(layer_comm_t *comm) {
  invitation_t invitation = {.mode = (int)layer.mode};
  if (comm->rank == 0 && layer.mode != LAYER_NEVER) {
    coll_comm_config_t config = COLL_COMM_CONFIG_INIT;
    if (comm->has_one_clock) config.interfaces = "=lo"; /* the ranks are on one host */
    coll_status_t status = coll_unique_id_create(&config, &invitation.id);
    invitation.is_valid = status == COLL_OK;
    if (!invitation.is_valid) layer_say("%s", coll_last_error(NULL));
  }
  if (pmpi.Bcast(&invitation, sizeof invitation, MPI_BYTE, 0, comm->handle) != MPI_SUCCESS) return;
  if (!invitation.is_valid) return;
  comm->mode = (layer_mode_t)invitation.mode;
  int is_made = create_coll(comm, &invitation) == COLL_OK;
  if (!is_made) {
    layer_say("%s. The collectives of this communicator are left to the MPI",
              coll_last_error(comm->coll));
  }
  pmpi.Allreduce(MPI_IN_PLACE, &is_made, 1, MPI_INT, MPI_MIN, comm->handle);
  if (!is_made) {
    destroy_coll(comm);
  } else {
    coll_comm_set_progress(comm->coll, call_progress, NULL);
    if (comm->mode == LAYER_ALWAYS) atomic_store(&layer_serves_requests, true);
  }
}

/* ---- finding -------------------------------------------------------------------------------*/

layer_comm_t *layer_comm_find(MPI_Comm handle) {
  int is_known = 0;
  layer_comm_t *comm = layer_comm_recall(handle);
  if (comm != NULL) return comm;
  if (handle == layer.comm_null) return NULL;
  unsigned now = atomic_load_explicit(&layer_generation, memory_order_acquire);
  if (pmpi.Comm_get_attr(handle, comm_key, &comm, &is_known) != MPI_SUCCESS || !is_known) {
    return NULL;
  }
  *layer_recent_of(handle) = (layer_recent_t){now, handle, comm};
  return comm;
}

/* NULL: no memory. */
static layer_comm_t *new_comm(MPI_Comm handle) {
  layer_comm_t *comm = calloc(1, sizeof *comm);
  if (comm == NULL) return NULL;
  comm->handle = handle;
  pmpi.Comm_rank(handle, &comm->rank);
  pmpi.Comm_size(handle, &comm->size);
  if (pmpi.Comm_set_attr(handle, comm_key, comm) != MPI_SUCCESS) {
    free(comm);
    return NULL;
  }
  pthread_mutex_lock(&list_lock);
  comm->next = all_comms;
  if (all_comms != NULL) all_comms->previous = comm;
  all_comms = comm;
  pthread_mutex_unlock(&list_lock);
  return comm;
}

/* If one rank has no memory for the communicator, none keeps it: the call passes, and in the next
 * one all try again. */
layer_comm_t *layer_comm_map(MPI_Comm handle) {
  int is_inter = 0, size = 1;
  company_t company;
  layer_comm_t *comm = layer_comm_find(handle);
  if (comm != NULL || handle == layer.comm_null) return comm;
  if (pmpi.Comm_test_inter(handle, &is_inter) != MPI_SUCCESS) return NULL;
  comm = new_comm(handle);
  pmpi.Comm_size(handle, &size);
  if (is_inter || size == 1) return comm;
  if (!compare_ranks(handle, comm != NULL, &company)) return comm;
  if (!company.has_memory) {
    if (comm != NULL) pmpi.Comm_delete_attr(handle, comm_key);
    return NULL;
  }
  comm->has_one_clock = company.is_on_one_host;
  make_coll(comm);
  return comm;
}
