/* The beginning and the end of a proxy. */
#include "offload/proxy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "base/deadline.h"
#include "comm/lock.h"
#include "offload/descriptors.h"
#include "offload/proxy_state.h"

#define POLL_NS 50000u
#define CANCEL_NS 10000000u /* between two looks whether the creation was cancelled */

bool offload_proxy_serves(const struct coll_comm *comm) {
  for (int peer = 0; peer < comm->size; peer++) {
    if (peer != comm->rank && !offload_descriptors_reach(comm, peer)) return true;
  }
  return false;
}

/* ---- creation --------------------------------------------------------------------------------*/

void offload_proxy_report(const offload_proxy_t *proxy, const char *why) {
  const struct coll_comm *comm = proxy->comm;
  fprintf(stderr,
          "libcoll: the host carries out calls on the GPUs of the %d ranks over %s, in %zu MiB of "
          "pinned memory: %s\n",
          comm->size, comm->local->ops->name, (2 * PROXY_SLOTS * PROXY_SLOT_BYTES) >> 20, why);
}

static coll_status_t build(offload_proxy_t *proxy) {
  cuda_capture_mode_t mode;
  cuda_context_t context;
  COLL_TRY(PROXY_CALL(proxy, cuDevicePrimaryCtxRetain, &context, proxy->device));
  proxy->context = context;
  COLL_TRY(proxy_enter(proxy, &mode));
  coll_status_t status = proxy_memory_init(proxy);
  if (status == COLL_OK) status = cuda_order_init(proxy->driver, proxy->device, &proxy->order);
  proxy_leave(proxy, mode);
  return status;
}

coll_status_t offload_proxy_create(struct offload *gpu) {
  offload_proxy_t *made;
  COLL_TRY(cuda_driver_check_device(gpu->driver, gpu->device));
  COLL_TRY(base_alloc(1, sizeof *made, "a proxy", (void **)&made));
  made->gpu = gpu;
  made->driver = gpu->driver;
  made->device = gpu->device;
  made->comm = gpu->comm;
  made->last_link = &made->first;
  pthread_mutex_init(&made->lock, NULL);
  base_deadline_condition(&made->changed);
  coll_status_t status = build(made);
  if (status != COLL_OK) {
    offload_proxy_free(made);
    return status;
  }
  gpu->proxy = made;
  return COLL_OK;
}

coll_status_t offload_proxy_start(offload_proxy_t *proxy) {
  int error = pthread_create(&proxy->thread, NULL, proxy_run, proxy);
  proxy->has_thread = error == 0;
  if (error == 0) return COLL_OK;
  coll_status_t status =
      base_fail(COLL_ERROR_SYSTEM, "cannot start the thread of a proxy: %s", strerror(error));
  comm_abort(proxy->comm, proxy->comm->rank, base_last_error());
  return status;
}

/* Cancelling concerns the thread that creates the communicator, so it is this one that looks. */
coll_status_t offload_proxy_await(offload_proxy_t *proxy) {
  bool is_cancelled = false;
  pthread_mutex_lock(&proxy->lock);
  while (!proxy->is_connected) {
    base_deadline_wait(&proxy->changed, &proxy->lock, CANCEL_NS);
    if (is_cancelled || !base_cancel_is_requested()) continue;
    is_cancelled = true;
    comm_abort(proxy->comm, proxy->comm->rank, base_cancel_why());
  }
  coll_status_t status = proxy->status;
  if (status != COLL_OK) base_fail(status, "%s", proxy->text);
  pthread_mutex_unlock(&proxy->lock);
  return status;
}

/* ---- the end ---------------------------------------------------------------------------------*/

void offload_proxy_abort(offload_proxy_t *proxy) {
  struct coll_comm *comm = proxy->comm, *host = proxy->host;
  transport_reason_t reason;
  if (host == NULL || !comm->local->ops->aborted(comm->local, &reason)) return;
  if (atomic_exchange_explicit(&proxy->is_aborted, true, memory_order_relaxed)) return;
  host->local->ops->abort(host->local, &reason);
}

const algo_t *offload_proxy_used(const offload_proxy_t *proxy, coll_collective_t collective) {
  return atomic_load_explicit(&proxy->used[collective], memory_order_relaxed);
}

bool offload_proxy_has_jobs(offload_proxy_t *proxy) {
  pthread_mutex_lock(&proxy->lock);
  bool has = proxy->first != NULL || proxy->is_busy;
  pthread_mutex_unlock(&proxy->lock);
  return has;
}

coll_status_t offload_proxy_query(const offload_proxy_t *proxy) {
  cuda_event_t last = offload_proxy_last(proxy);
  return last == NULL ? COLL_OK : offload_proxy_query_event(proxy, last);
}

cuda_event_t offload_proxy_last(const offload_proxy_t *proxy) {
  return proxy->order.has_calls ? proxy->order.last : NULL;
}

coll_status_t offload_proxy_query_event(const offload_proxy_t *proxy, cuda_event_t event) {
  cuda_capture_mode_t mode;
  COLL_TRY(proxy_enter(proxy, &mode));
  cuda_result_t result = proxy->driver->cuEventQuery(event);
  proxy_leave(proxy, mode);
  if (result == CUDA_RESULT_NOT_READY) return COLL_IN_PROGRESS;
  return cuda_driver_check(proxy->driver, result, "cuEventQuery", proxy->device);
}

coll_status_t offload_proxy_finish(offload_proxy_t *proxy) {
  struct coll_comm *host = proxy->host;
  coll_status_t status;
  offload_proxy_abort(
      proxy); /* else the others hear that this rank has left before they hear why */
  while ((status = offload_proxy_query(proxy)) == COLL_IN_PROGRESS ||
         (status == COLL_OK && offload_proxy_has_jobs(proxy))) {
    offload_check(proxy->gpu);
    base_clock_sleep_ns(POLL_NS);
  }
  if (status != COLL_OK || host == NULL) return status;
  comm_lock_take(host, comm_lock_ticket(host));
  status = host->lifetime->leave(host);
  comm_lock_release(host);
  return status;
}

/* Ends what still runs, such as a graph that was launched, so that the thread ends. */
static void stop(offload_proxy_t *proxy) {
  if (proxy->host != NULL && offload_proxy_has_jobs(proxy)) {
    comm_abort(proxy->host, proxy->host->rank, "it destroyed the communicator");
  }
  pthread_mutex_lock(&proxy->lock);
  proxy->is_closing = true;
  pthread_cond_broadcast(&proxy->changed);
  pthread_mutex_unlock(&proxy->lock);
  pthread_join(proxy->thread, NULL);
}

static void free_jobs(offload_proxy_t *proxy) {
  while (proxy->jobs != NULL) proxy_job_free(proxy->jobs);
}

void offload_proxy_free(offload_proxy_t *proxy) {
  cuda_capture_mode_t mode;
  if (proxy == NULL) return;
  if (proxy->has_thread) stop(proxy);
  if (proxy->host != NULL) proxy->host->lifetime->destroy(proxy->host);
  if (proxy->context != NULL) {
    if (proxy_enter(proxy, &mode) == COLL_OK) {
      cuda_order_free(&proxy->order);
      proxy_memory_unpin(proxy);
      proxy_leave(proxy, mode);
    }
    (void)proxy->driver->cuDevicePrimaryCtxRelease(proxy->device);
  }
  proxy_memory_free(proxy);
  free_jobs(proxy);
  pthread_cond_destroy(&proxy->changed);
  pthread_mutex_destroy(&proxy->lock);
  free(proxy);
}
