/*
 * Each collective under way has a stream for itself: a later one may wait for a rank that waits for
 * an earlier one, so they must not complete together. Streams are kept for later calls. The MPI is
 * called by the program's threads alone, in their calls.
 */
#include "frontends/mpi/requests.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "frontends/mpi/call.h"
#include "frontends/mpi/stats.h"

typedef struct request {
  MPI_Request handle;
  layer_call_t call;
  layer_run_t run;
  MPI_Datatype types[2]; /* copies of derived ones, which outlive the program's */
  int result;            /* once it is done */
  struct request *next;
} request_t;

typedef struct idle_stream {
  coll_stream_t stream;
  struct idle_stream *next;
} idle_stream_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static request_t *pending;
static atomic_int pending_count;
static idle_stream_t *idle_streams;
static atomic_int failed_count; /* requests whose error the program has not got yet */

/* ---- streams -------------------------------------------------------------------------------*/

static coll_status_t take_stream(coll_stream_t *stream) {
  pthread_mutex_lock(&lock);
  idle_stream_t *idle = idle_streams;
  if (idle != NULL) idle_streams = idle->next;
  pthread_mutex_unlock(&lock);
  if (idle == NULL) return coll_stream_create(stream);
  *stream = idle->stream;
  free(idle);
  return COLL_OK;
}

static void give_stream(coll_stream_t stream, bool is_usable) {
  idle_stream_t *idle = is_usable ? malloc(sizeof *idle) : NULL;
  if (idle == NULL) {
    coll_stream_destroy(stream);
    return;
  }
  idle->stream = stream;
  pthread_mutex_lock(&lock);
  idle->next = idle_streams;
  idle_streams = idle;
  pthread_mutex_unlock(&lock);
}

/* ---- the generalized request ---------------------------------------------------------------*/

static int query(void *extra, MPI_Status *status) {
  const request_t *request = extra;
  pmpi.Status_set_elements(status, MPI_BYTE, 0);
  pmpi.Status_set_cancelled(status, 0);
  status->MPI_SOURCE = MPI_UNDEFINED;
  status->MPI_TAG = MPI_UNDEFINED;
  return request->result;
}

/* The program has completed it, or freed it. */
static int release(void *extra) {
  request_t *request = extra;
  if (request->result != MPI_SUCCESS) atomic_fetch_sub(&failed_count, 1);
  free(request);
  return MPI_SUCCESS;
}

static int cancel(void *extra, int is_complete) {
  (void)extra, (void)is_complete;
  return MPI_SUCCESS; /* collectives cannot be cancelled */
}

/* ---- starting ------------------------------------------------------------------------------*/

static void hold_type(layer_side_t *side, MPI_Datatype *copy, const layer_type_t *type) {
  if (type->size == 0 || type->is_contiguous) return;
  if (pmpi.Type_dup(side->type, copy) == MPI_SUCCESS) side->type = *copy;
}

static void drop_types(request_t *request) {
  for (int i = 0; i < 2; i++) {
    if (request->types[i] != layer.type_null) pmpi.Type_free(&request->types[i]);
  }
}

static request_t *new_request(const layer_run_t *run) {
  request_t *request = calloc(1, sizeof *request);
  if (request == NULL) return NULL;
  request->call = *run->call;
  request->run = *run;
  request->run.call = &request->call;
  request->types[0] = request->types[1] = layer.type_null;
  hold_type(&request->call.send, &request->types[0], &run->send_type);
  hold_type(&request->call.recv, &request->types[1], &run->recv_type);
  return request;
}

static int serve(const layer_run_t *run, MPI_Request *handle) {
  request_t *request = new_request(run);
  if (request == NULL) return layer_call_leave(run->call, run->comm, "out of memory");
  coll_status_t status = take_stream(&request->run.stream);
  if (status == COLL_OK) status = layer_verbs[request->call.verb].serve(&request->run);
  if (status != COLL_OK) {
    int result = layer_call_leave(run->call, run->comm, layer_failure_text(status));
    layer_run_finish(&request->run, false);
    drop_types(request);
    free(request);
    return result;
  }
  int result = pmpi.Grequest_start(query, release, cancel, request, &request->handle);
  *handle = request->handle;
  pthread_mutex_lock(&lock);
  request->next = pending;
  pending = request;
  atomic_fetch_add(&pending_count, 1);
  pthread_mutex_unlock(&lock);
  return result;
}

int layer_start_collective(const layer_call_t *call, MPI_Request *handle) {
  const layer_verb_row_t *verb = &layer_verbs[call->verb];
  layer_run_t run = {0};
  if (!layer_is_active()) return verb->start(call, handle);
  if (!layer.has_stats && !atomic_load_explicit(&layer_serves_requests, memory_order_relaxed)) {
    return verb->start(call, handle);
  }
  layer_comm_t *comm = layer_comm_find(call->comm);
  if (comm == NULL || comm->coll == NULL) return verb->start(call, handle);
  if (!layer_run_prepare(&run, call, comm)) return verb->start(call, handle);
  bool is_served = comm->mode == LAYER_ALWAYS;
  if (layer.has_stats) {
    layer_stats_add_nonblocking(call->verb, layer_class_of(run.bytes),
                                is_served ? LAYER_SERVED : LAYER_PASSED);
  }
  return is_served ? serve(&run, handle) : verb->start(call, handle);
}

/* ---- completing ----------------------------------------------------------------------------*/

static void complete(request_t *request, coll_status_t status) {
  layer_call_t *call = &request->call;
  bool is_unpacked = layer_run_finish(&request->run, status == COLL_OK);
  if (status != COLL_OK) {
    coll_stream_sync(request->run.stream); /* for the text */
    request->result = layer_call_fail(call, coll_last_error(NULL));
  } else if (!is_unpacked) {
    request->result = layer_call_fail(call, "the MPI could not unpack the data");
  }
  give_stream(request->run.stream, status == COLL_OK);
  drop_types(request);
  if (request->result != MPI_SUCCESS) atomic_fetch_add(&failed_count, 1);
  pmpi.Grequest_complete(request->handle); /* the program may release it from now on */
}

/* Takes a request that is done off the list. */
static request_t *take_done(coll_status_t *status) {
  request_t *found = NULL;
  pthread_mutex_lock(&lock);
  for (request_t **at = &pending; *at != NULL; at = &(*at)->next) {
    *status = coll_stream_query((*at)->run.stream);
    if (*status == COLL_IN_PROGRESS) continue;
    found = *at;
    *at = found->next;
    break;
  }
  pthread_mutex_unlock(&lock);
  return found;
}

void layer_requests_poll(void) {
  request_t *request;
  coll_status_t status;
  if (atomic_load(&pending_count) == 0) return;
  while ((request = take_done(&status)) != NULL) {
    complete(request, status);
    atomic_fetch_sub(&pending_count, 1);
  }
}

bool layer_requests_pending(int count, const MPI_Request *requests) {
  bool is_found = false;
  if (atomic_load(&pending_count) == 0) return false;
  pthread_mutex_lock(&lock);
  for (request_t *at = pending; at != NULL && !is_found; at = at->next) {
    for (int i = 0; i < count && !is_found; i++) is_found = at->handle == requests[i];
  }
  pthread_mutex_unlock(&lock);
  return is_found;
}

void layer_requests_turn(void) {
  layer_requests_poll();
  layer_progress();
  sched_yield();
}

void layer_requests_wait(int count, const MPI_Request *requests) {
  while (layer_requests_pending(count, requests)) layer_requests_turn();
}

static bool has_pending(const layer_comm_t *comm) {
  bool is_found = false;
  pthread_mutex_lock(&lock);
  for (request_t *at = pending; at != NULL && !is_found; at = at->next) {
    is_found = at->run.comm == comm;
  }
  pthread_mutex_unlock(&lock);
  return is_found;
}

void layer_requests_drain(const layer_comm_t *comm) {
  while (has_pending(comm)) layer_requests_turn();
}

/* ---- errors --------------------------------------------------------------------------------*/

static pthread_mutex_t holders_lock = PTHREAD_MUTEX_INITIALIZER;
static int holders;
static MPI_Errhandler world_handler, self_handler;

bool layer_errors_hold(void) {
  if (atomic_load(&failed_count) == 0) return false;
  pthread_mutex_lock(&holders_lock);
  if (holders++ == 0) {
    pmpi.Comm_get_errhandler(MPI_COMM_WORLD, &world_handler);
    pmpi.Comm_get_errhandler(MPI_COMM_SELF, &self_handler);
    pmpi.Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    pmpi.Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  }
  pthread_mutex_unlock(&holders_lock);
  return true;
}

int layer_errors_release(bool is_held, int result) {
  if (!is_held) return result;
  pthread_mutex_lock(&holders_lock);
  if (--holders == 0) {
    pmpi.Comm_set_errhandler(MPI_COMM_WORLD, world_handler);
    pmpi.Comm_set_errhandler(MPI_COMM_SELF, self_handler);
    pmpi.Errhandler_free(&world_handler);
    pmpi.Errhandler_free(&self_handler);
  }
  pthread_mutex_unlock(&holders_lock);
  return result;
}

/* Another thread of the parent may have had the lock. */
void layer_requests_forget(void) {
  atomic_store(&pending_count, 0);
  pending = NULL;
  idle_streams = NULL;
  pthread_mutex_init(&lock, NULL);
  pthread_mutex_init(&holders_lock, NULL);
}
