/*
 * The proxy's queue and its thread, which first connects with the proxies of the other ranks, then
 * carries out one job after another. A failure is told to the user's communicator before the stream
 * that waits for the job goes on. After a failure all jobs fail at once, so no stream waits.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "comm/lock.h"
#include "comm/plan_cache.h"
#include "offload/proxy_state.h"
#include "run/batch.h"

/* ---- jobs ------------------------------------------------------------------------------------*/

coll_status_t proxy_job_create(offload_proxy_t *proxy, const proxy_slot_t *slot, size_t count,
                               proxy_job_t **job) {
  proxy_job_t *made;
  COLL_TRY(base_alloc(1, sizeof *made + count * sizeof made->calls[0], "a call of a proxy",
                      (void **)&made));
  made->proxy = proxy;
  made->done = slot->done;
  made->limits = proxy->comm->watched.limits;
  made->call_count = count;
  pthread_mutex_lock(&proxy->lock);
  made->after = proxy->jobs;
  if (made->after != NULL) made->after->before = made;
  proxy->jobs = made;
  pthread_mutex_unlock(&proxy->lock);
  *job = made;
  return COLL_OK;
}

void proxy_job_free(proxy_job_t *job) {
  offload_proxy_t *proxy = job->proxy;
  pthread_mutex_lock(&proxy->lock);
  if (job->before != NULL) job->before->after = job->after;
  if (job->before == NULL) proxy->jobs = job->after;
  if (job->after != NULL) job->after->before = job->before;
  pthread_mutex_unlock(&proxy->lock);
  free(job);
}

/* The stream waits for the word behind this function, so that it is set back in time. */
void proxy_job_post(void *argument) {
  proxy_job_t *job = argument;
  offload_proxy_t *proxy = job->proxy;
  __atomic_store_n(job->done, 0, __ATOMIC_RELAXED);
  pthread_mutex_lock(&proxy->lock);
  if (job->is_queued) {
    job->overlaps = true;
  } else {
    job->next = NULL;
    job->is_queued = true;
    *proxy->last_link = job;
    proxy->last_link = &job->next;
  }
  pthread_cond_broadcast(&proxy->changed);
  pthread_mutex_unlock(&proxy->lock);
}

/* NULL: the proxy is closed. */
static proxy_job_t *take_job(offload_proxy_t *proxy) {
  pthread_mutex_lock(&proxy->lock);
  while (proxy->first == NULL && !proxy->is_closing) {
    pthread_cond_wait(&proxy->changed, &proxy->lock);
  }
  proxy_job_t *job = proxy->first;
  if (job != NULL) {
    proxy->first = job->next;
    job->is_queued = false;
    if (proxy->first == NULL) proxy->last_link = &proxy->first;
    proxy->is_busy = true;
  }
  pthread_mutex_unlock(&proxy->lock);
  return job;
}

/* release: what the call has stored to the slot. The graph of a captured job may post it again at
 * once. */
static void complete(offload_proxy_t *proxy, proxy_job_t *job) {
  uint32_t *done = job->done;
  if (!job->is_captured) proxy_job_free(job);
  pthread_mutex_lock(&proxy->lock);
  proxy->is_busy = false;
  pthread_mutex_unlock(&proxy->lock);
  __atomic_store_n(done, 1, __ATOMIC_RELEASE);
}

/* ---- running ---------------------------------------------------------------------------------*/

/* The settings of the user's communicator when the call was made. Only this thread uses the
 * proxy's. */
static void take_settings(struct coll_comm *host, const proxy_job_t *job) {
  const run_call_t *call = &job->calls[0];
  host->watched.limits = job->limits;
  if (job->call_count == 0 || call->kind != RUN_COLLECTIVE) return;
  coll_collective_t collective = comm_traits_of(call->shape).collective;
  if (host->plans.forced[collective] != job->forced) comm_force(host, collective, job->forced);
}

static coll_status_t run_calls(const proxy_job_t *job) {
  run_batch_t batch;
  if (job->overlaps) {
    return base_fail(COLL_ERROR_INVALID,
                     "rank %d: a graph with calls on the communicator was launched while it ran: "
                     "launches of a graph must follow each other",
                     job->proxy->comm->rank);
  }
  if (job->call_count == 0) return COLL_OK;
  if (job->call_count == 1) return run_call_run(&job->calls[0]);
  coll_status_t status = run_batch_create(job->calls, job->call_count, &batch);
  if (status != COLL_OK) {
    run_calls_drop(job->calls, 1, status); /* which ends the communicator */
    return status;
  }
  run_batch_order(&batch);
  return run_batch_run(&batch, false);
}

/* Ends the user's communicator for the reason of this thread's last error. A thread may hold its
 * lock for long, in a call on the host; then it learns only what other ranks do too. No call has
 * returned the failure yet. */
static void fail_comm(offload_proxy_t *proxy, coll_status_t status) {
  struct coll_comm *comm = proxy->comm, *host = proxy->host;
  transport_reason_t reason = {.failed_rank = comm->rank, .status = status};
  snprintf(reason.text, sizeof reason.text, "%s", base_last_error());
  (void)host->local->ops->aborted(host->local, &reason);
  if (comm_lock_try(comm)) {
    if (comm_is_usable(comm)) {
      comm_fail(comm, status, reason.failed_rank);
      atomic_store_explicit(&comm->errors.failure_returned, false, memory_order_relaxed);
    }
    comm_lock_release(comm);
  } else {
    comm->local->ops->abort(comm->local, &reason);
  }
}

/* Of the communicator's own plans, which only this thread reads. */
static void publish_used(offload_proxy_t *proxy, const proxy_job_t *job) {
  if (job->call_count == 0 || job->calls[0].kind != RUN_COLLECTIVE) return;
  coll_collective_t collective = comm_traits_of(job->calls[0].shape).collective;
  atomic_store_explicit(&proxy->used[collective], proxy->host->plans.used[collective],
                        memory_order_relaxed);
}

static void run_job(offload_proxy_t *proxy, proxy_job_t *job) {
  take_settings(proxy->host, job);
  coll_status_t status = run_calls(job);
  if (status == COLL_OK) publish_used(proxy, job);
  if (status != COLL_OK) fail_comm(proxy, status);
  complete(proxy, job);
}

/* ---- the thread ------------------------------------------------------------------------------*/

static void note_connected(offload_proxy_t *proxy, coll_status_t status) {
  pthread_mutex_lock(&proxy->lock);
  proxy->is_connected = true;
  proxy->status = status;
  if (status != COLL_OK) snprintf(proxy->text, sizeof proxy->text, "%s", base_last_error());
  pthread_cond_broadcast(&proxy->changed);
  pthread_mutex_unlock(&proxy->lock);
}

void *proxy_run(void *argument) {
  offload_proxy_t *proxy = argument;
  coll_status_t status = proxy->comm->lifetime->duplicate(proxy->comm, &proxy->host);
  note_connected(proxy, status);
  if (status != COLL_OK) return NULL;
  for (proxy_job_t *job; (job = take_job(proxy)) != NULL;) run_job(proxy, job);
  return NULL;
}
