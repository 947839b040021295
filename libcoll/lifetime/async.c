/*
 * One lock guards the states of all handles and jobs, as these change rarely. A job sets its
 * handle's state and its parent's with the lock held, so whoever has seen one of them change and
 * takes the lock sees all.
 */
#include "lifetime/async.h"
#include "lifetime/leave.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cancel.h"
#include "comm/lock.h"
#include "comm/states.h"

typedef struct split {
  int color, key;
  comm_split_settings_t settings;
  struct coll_comm *child; /* the handle; NULL: the color is negative */
} split_t;

struct lifetime_async {
  /* Set before the job starts. */
  int rank, size; /* of the communicator that is created, or of the parent */
  rendezvous_address_t address;
  comm_settings_t settings;
  char *topo_file;          /* owned: of the settings, as the variable may change meanwhile */
  struct coll_comm *handle; /* that is created; NULL: the job splits the parent */
  struct coll_comm *parent; /* or that it finalizes */
  bool finalizes;
  split_t *splits; /* owned */
  size_t split_count, split_capacity;
  pthread_t thread;
  bool has_thread;
  base_cancel_t cancel; /* written once, with the lock held */
  /* Guarded by the lock. */
  int references; /* of handles, and of the caller */
  bool done;
  uint64_t order;       /* of the first failure, among those of all jobs */
  coll_status_t status; /* the first failure */
  char text[COMM_ERROR_BYTES];
  lifetime_async_t *next;        /* in the list of jobs */
  const lifetime_async_t *outer; /* belongs to the thread: see carried_out */
};

static pthread_cond_t changed = PTHREAD_COND_INITIALIZER; /* a job is done */
/* Guarded by the lock. */
static lifetime_async_t *jobs; /* that are not done */
static uint64_t failure_count;

/* The jobs are the parent's, and so are the threads that wait. */
static void forget(void) {
  pthread_cond_init(&changed, NULL);
  jobs = NULL;
}
BASE_FORK_PART(&comm_states_lock, forget);

/* By this thread: the innermost one, as a progress callback in one job may make a group. */
static _Thread_local const lifetime_async_t *carried_out;

/* ---- jobs and handles -----------------------------------------------------------------------*/

static coll_status_t create_job(int rank, int size, lifetime_async_t **job) {
  COLL_TRY(base_alloc(1, sizeof **job, "the creation of a communicator", (void **)job));
  (*job)->rank = rank;
  (*job)->size = size;
  (*job)->references = 1;
  pthread_mutex_lock(&comm_states_lock);
  (*job)->next = jobs;
  jobs = *job;
  pthread_mutex_unlock(&comm_states_lock);
  return COLL_OK;
}

/* The caller holds the lock. */
static void remove_job(lifetime_async_t *job) {
  lifetime_async_t **link = &jobs;
  while (*link != job) link = &(*link)->next;
  *link = job->next;
  job->done = true;
}

static coll_status_t create_handle(lifetime_async_t *job, bool blocking,
                                   struct coll_comm **handle) {
  COLL_TRY(base_handles_new(&comm_handles, (void **)handle));
  pthread_mutex_init(&(*handle)->lock, NULL);
  (*handle)->async = job;
  (*handle)->nonblocking = !blocking;
  (*handle)->process = getpid();
  comm_set_state(*handle, COMM_CREATING);
  job->references++;
  return COLL_OK;
}

coll_status_t lifetime_async_create(const rendezvous_address_t *address, int rank, int size,
                                    const comm_settings_t *settings, lifetime_async_t **job,
                                    struct coll_comm **handle) {
  lifetime_async_t *made;
  COLL_TRY(create_job(rank, size, &made));
  made->address = *address;
  made->settings = *settings;
  made->topo_file = strdup(settings->topo_file);
  made->settings.topo_file = made->topo_file;
  coll_status_t status = made->topo_file != NULL
                             ? create_handle(made, settings->blocking, &made->handle)
                             : base_fail(COLL_ERROR_MEMORY, "no memory for a communicator");
  if (status != COLL_OK) {
    lifetime_async_release(made);
    return status;
  }
  *handle = made->handle;
  *job = made;
  return COLL_OK;
}

coll_status_t lifetime_async_split(struct coll_comm *parent, lifetime_async_t **job) {
  lifetime_async_t *made;
  COLL_TRY(create_job(parent->rank, parent->size, &made));
  made->parent = parent;
  *job = made;
  return COLL_OK;
}

coll_status_t lifetime_async_split_add(lifetime_async_t *job, int color, int key,
                                       const comm_split_settings_t *settings,
                                       struct coll_comm **handle) {
  split_t split = {.color = color, .key = key, .settings = *settings};
  COLL_TRY(base_grow((void **)&job->splits, &job->split_capacity, job->split_count + 1,
                     sizeof *job->splits, "splits of a communicator"));
  if (color >= 0) COLL_TRY(create_handle(job, settings->blocking, &split.child));
  job->splits[job->split_count++] = split;
  *handle = split.child;
  return COLL_OK;
}

struct coll_comm *lifetime_async_parent(const lifetime_async_t *job) {
  return job->parent;
}

void lifetime_async_release(lifetime_async_t *job) {
  pthread_mutex_lock(&comm_states_lock);
  bool is_last = --job->references == 0;
  if (is_last && !job->done) remove_job(job); /* it was never started */
  pthread_mutex_unlock(&comm_states_lock);
  if (!is_last) return;
  if (job->has_thread) pthread_join(job->thread, NULL); /* it has done all but return */
  base_secret_wipe(&job->address.secret);
  free(job->topo_file);
  free(job->splits);
  free(job);
}

static void free_handle(struct coll_comm *handle) {
  lifetime_async_t *job = handle->async;
  comm_set_state(handle, COMM_NONE);
  pthread_mutex_destroy(&handle->lock);
  base_handles_free(&comm_handles, handle);
  lifetime_async_release(job);
}

void lifetime_async_discard(struct coll_comm *handle) {
  if (handle != NULL) free_handle(handle);
}

struct coll_comm *lifetime_async_detach(struct coll_comm *comm) {
  if (comm == NULL || comm->async == NULL) return comm;
  if (comm_state_of(comm) == COMM_NOT_MADE) {
    free_handle(comm);
    return NULL;
  }
  lifetime_async_t *job = comm->async;
  comm->async = NULL;
  lifetime_async_release(job);
  return comm;
}

/* ---- cancelling -----------------------------------------------------------------------------*/

/* The caller holds the lock. */
static void cancel(lifetime_async_t *job, const char *why) {
  if (job->done || atomic_load_explicit(&job->cancel.requested, memory_order_relaxed)) return;
  snprintf(job->cancel.why, sizeof job->cancel.why, "%s", why);
  /* release: the text is visible */
  atomic_store_explicit(&job->cancel.requested, true, memory_order_release);
  if (job->parent != NULL) comm_abort(job->parent, job->parent->rank, why);
}

static bool is_cancelled(const lifetime_async_t *job) {
  return atomic_load_explicit(&job->cancel.requested, memory_order_relaxed);
}

static bool is_same_creation(const lifetime_async_t *a, const lifetime_async_t *b) {
  return a->parent == NULL && b->parent == NULL && a->address.port == b->address.port &&
         a->address.job == b->address.job && strcmp(a->address.host, b->address.host) == 0 &&
         memcmp(&a->address.secret, &b->address.secret, sizeof a->address.secret) == 0;
}

/* Ranks of this process that make the same communicator need not wait for one that cannot. Where
 * the rendezvous server or a peer is the cause, they learn it from there. The caller holds the
 * lock. */
static void cancel_siblings(const lifetime_async_t *failed, coll_status_t status,
                            const char *text) {
  char why[BASE_CANCEL_WHY_BYTES];
  bool is_known = status == COLL_ERROR_TIMEOUT || status == COLL_ERROR_RANK_LOST;
  if (failed->parent != NULL || (is_known && !is_cancelled(failed))) return;
  snprintf(why, sizeof why, "rank %d, of the same process, failed: %.300s", failed->rank,
           is_cancelled(failed) ? failed->cancel.why : text);
  for (lifetime_async_t *job = jobs; job != NULL; job = job->next) {
    if (job != failed && is_same_creation(job, failed)) cancel(job, why);
  }
}

coll_status_t lifetime_async_abort(struct coll_comm *comm, const char *why) {
  COLL_TRY(comm_check_inherited(comm));
  pthread_mutex_lock(&comm_states_lock);
  comm_state_t state = comm_state_of(comm);
  if (state == COMM_CREATING) cancel(comm->async, why);
  pthread_mutex_unlock(&comm_states_lock);
  switch (state) {
    case COMM_LIVE:
    case COMM_SPLITTING:
    case COMM_FINALIZING:
    case COMM_FINALIZED: comm_abort(comm, comm->rank, why); return COLL_OK;
    case COMM_CREATING:
    case COMM_NOT_MADE: return COLL_OK;
    default: return comm_fail_no_handle(comm);
  }
}

/* ---- running --------------------------------------------------------------------------------*/

/* The caller holds the lock. */
static void note_failure(lifetime_async_t *job, coll_status_t status, const char *text) {
  if (job->status != COLL_OK) return;
  job->status = status;
  job->order = ++failure_count;
  snprintf(job->text, sizeof job->text, "%s", text);
}

static void describe_cancelled(const lifetime_async_t *job, char text[], size_t bytes) {
  const char *why = job->cancel.why;
  if (strncmp(why, "it ", 3) == 0) { /* this rank is the cause */
    snprintf(text, bytes, "rank %d %s before the communicator was made", job->rank, why + 3);
  } else {
    snprintf(text, bytes, "rank %d: the communicator was not made: %s", job->rank, why);
  }
}

/* The creation or split of a handle, or with NULL one that gives this rank no communicator, has
 * ended with `status`. The caller holds the lock. */
static void end_one(lifetime_async_t *job, struct coll_comm *handle, coll_status_t status) {
  char text[COMM_ERROR_BYTES];
  snprintf(text, sizeof text, "%s", base_last_error());
  if (status != COLL_OK && is_cancelled(job)) {
    status = COLL_ERROR_RANK_LOST;
    describe_cancelled(job, text, sizeof text);
  }
  if (status != COLL_OK) {
    note_failure(job, status, text);
    cancel_siblings(job, status, text);
  }
  if (handle == NULL) return;
  if (status == COLL_OK && is_cancelled(job)) comm_abort(handle, handle->rank, job->cancel.why);
  if (status != COLL_OK) {
    snprintf(handle->errors.failure_text, sizeof handle->errors.failure_text, "%s", text);
    atomic_store_explicit(&handle->errors.failure, (int)status, memory_order_release);
  }
  comm_set_state(handle, status == COLL_OK ? COMM_LIVE : COMM_NOT_MADE);
}

/* The caller holds the lock. */
static void end_job(lifetime_async_t *job) {
  remove_job(job);
  if (job->parent != NULL && comm_state_of(job->parent) == COMM_SPLITTING) {
    comm_set_state(job->parent, COMM_LIVE);
  }
  if (job->finalizes) comm_set_state(job->parent, COMM_FINALIZED);
  pthread_cond_broadcast(&changed);
}

static void create_one(lifetime_async_t *job) {
  struct coll_comm *made = job->handle;
  const base_cancel_t *former = base_cancel_watch(&job->cancel);
  coll_status_t status =
      lifetime_create(&job->address, job->rank, job->size, &job->settings, &made);
  base_cancel_watch(former);
  pthread_mutex_lock(&comm_states_lock);
  end_one(job, job->handle, status);
  end_job(job);
  pthread_mutex_unlock(&comm_states_lock);
}

static void split_all(lifetime_async_t *job) {
  for (size_t i = 0; i < job->split_count; i++) {
    split_t *split = &job->splits[i];
    struct coll_comm *child = split->child;
    coll_status_t status =
        lifetime_split(job->parent, split->color, split->key, &split->settings, &child);
    pthread_mutex_lock(&comm_states_lock);
    end_one(job, split->child, status);
    if (i + 1 == job->split_count) end_job(job);
    pthread_mutex_unlock(&comm_states_lock);
  }
}

/* Waits for the calls that were made before; none are made any more. */
static void finalize_one(lifetime_async_t *job) {
  struct coll_comm *comm = job->parent;
  comm_lock_take(comm, comm_lock_ticket(comm));
  coll_status_t status = lifetime_leave(comm);
  comm_lock_release(comm);
  if (status != COLL_OK) {
    comm_record_error(comm, status);
    atomic_store(&comm->errors.failure_returned, !comm->nonblocking);
  }
  pthread_mutex_lock(&comm_states_lock);
  if (status != COLL_OK) note_failure(job, status, base_last_error());
  end_job(job);
  pthread_mutex_unlock(&comm_states_lock);
}

static void *carry_out(void *argument) {
  lifetime_async_t *job = argument;
  job->outer = carried_out;
  carried_out = job;
  if (job->finalizes) {
    finalize_one(job);
  } else if (job->parent != NULL) {
    split_all(job);
  } else {
    create_one(job);
  }
  carried_out = job->outer;
  return NULL;
}

static bool is_carried_out_here(const lifetime_async_t *job) {
  const lifetime_async_t *each = carried_out;
  while (each != NULL && each != job) each = each->outer;
  return each != NULL;
}

/* The job's thread could not be started: its ranks' peers must not wait for it. */
static void fail_to_start(lifetime_async_t *job, int error) {
  coll_status_t status =
      base_fail(COLL_ERROR_SYSTEM, "rank %d: cannot start a thread that makes the communicator: %s",
                job->rank, strerror(error));
  pthread_mutex_lock(&comm_states_lock);
  if (job->parent != NULL) comm_abort(job->parent, job->rank, base_last_error());
  if (job->parent == NULL) end_one(job, job->handle, status);
  for (size_t i = 0; i < job->split_count; i++) end_one(job, job->splits[i].child, status);
  end_job(job);
  pthread_mutex_unlock(&comm_states_lock);
}

/* Until the job is done, its parent cannot be used. Drops the parent's former job, which is done.
 * False: the parent cannot be used now, because of a call of another thread. */
static bool occupy_parent(lifetime_async_t *job, comm_state_t state) {
  pthread_mutex_lock(&comm_states_lock);
  lifetime_async_t *former = job->parent->async;
  bool is_live = comm_is_live(job->parent);
  if (is_live) {
    job->references++;
    job->parent->async = job;
    comm_set_state(job->parent, state);
  }
  pthread_mutex_unlock(&comm_states_lock);
  if (is_live && former != NULL) lifetime_async_release(former);
  return is_live;
}

void lifetime_async_start(lifetime_async_t *job, bool in_background) {
  if (in_background && job->parent != NULL) (void)occupy_parent(job, COMM_SPLITTING);
  int error = pthread_create(&job->thread, NULL, carry_out, job);
  job->has_thread = error == 0;
  if (error != 0) fail_to_start(job, error);
}

void lifetime_async_run(lifetime_async_t *job) {
  carry_out(job);
}

/* ---- waiting --------------------------------------------------------------------------------*/

/* The caller holds the lock. */
static void await(const lifetime_async_t *job) {
  while (!job->done) pthread_cond_wait(&changed, &comm_states_lock);
}

coll_status_t lifetime_async_wait(lifetime_async_t *job, uint64_t *order) {
  pthread_mutex_lock(&comm_states_lock);
  await(job);
  coll_status_t status = job->status;
  *order = job->order;
  if (status != COLL_OK) base_fail(status, "%s", job->text);
  pthread_mutex_unlock(&comm_states_lock);
  return status;
}

/* Blocking or not, it is a job: another thread may wait for it, and then free the communicator. */
coll_status_t lifetime_async_finalize(struct coll_comm *comm) {
  lifetime_async_t *job;
  uint64_t order;
  bool in_background = comm->nonblocking;
  coll_status_t status = lifetime_async_split(comm, &job);
  if (status != COLL_OK) return comm_record_error(comm, status);
  job->finalizes = true;
  if (!occupy_parent(job, COMM_FINALIZING)) {
    lifetime_async_release(job);
    return base_fail(COLL_ERROR_INVALID,
                     "coll_comm_finalize: another thread splits or finalizes the communicator");
  }
  if (in_background) job->has_thread = pthread_create(&job->thread, NULL, carry_out, job) == 0;
  if (!job->has_thread) carry_out(job);
  status = in_background ? COLL_IN_PROGRESS : lifetime_async_wait(job, &order);
  lifetime_async_release(job);
  return status;
}

coll_status_t lifetime_async_unreturned(const struct coll_comm *comm) {
  pthread_mutex_lock(&comm_states_lock);
  const lifetime_async_t *job = comm->async;
  bool is_returned = atomic_load_explicit(&comm->errors.failure_returned, memory_order_relaxed);
  coll_status_t status = job == NULL || !job->finalizes || is_returned ? COLL_OK : job->status;
  if (status != COLL_OK) base_fail(status, "%s", job->text);
  pthread_mutex_unlock(&comm_states_lock);
  return status;
}

/* Whether the calling thread may wait for the job. */
static coll_status_t check_waiter(const lifetime_async_t *job) {
  if (!is_carried_out_here(job)) return COLL_OK;
  return base_fail(
      COLL_ERROR_INVALID,
      "rank %d: called from a progress callback of the communicator that is split or finalized",
      job->rank);
}

coll_status_t lifetime_async_finish(struct coll_comm *comm, const char *why) {
  coll_status_t status = comm_handle_state(comm);
  bool is_made = status == COLL_OK || comm_state_of(comm) == COMM_NOT_MADE;
  if (status != COLL_IN_PROGRESS) return is_made ? COLL_OK : status;
  pthread_mutex_lock(&comm_states_lock);
  lifetime_async_t *job = comm_state_is_busy(comm_state_of(comm)) ? comm->async : NULL;
  status = job != NULL ? check_waiter(job) : COLL_OK;
  if (job != NULL && status == COLL_OK) {
    if (comm_state_of(comm) == COMM_CREATING) cancel(job, why);
    await(job);
  }
  pthread_mutex_unlock(&comm_states_lock);
  return status;
}
