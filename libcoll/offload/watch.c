/*
 * A thread of the process, which runs while there are communicators on GPUs. Their calls return
 * before they are complete, so nobody waits on the host for a rank that has died.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "comm/lock.h"
#include "flight/recorder.h"
#include "offload/places.h"

#define INTERVAL_NS 20000000u
#define ASK_INTERVAL_NS 200000000u

/* A thread that goes through the list. */
typedef struct visitor {
  offload_t *at; /* it is not freed meanwhile; NULL: at none */
  bool runs;
} visitor_t;

/* Guards the list and the visitors, and is held over no call of the driver, nor while any other
 * lock is taken: whoever adds or removes a communicator waits for no other one. A visitor at a
 * communicator only tries to take its lock, whose holder may wait until it is gone. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER; /* a visitor is at another, or at none */
static offload_t *first;
static visitor_t watcher, asker;

/* No call of this rank returns the failure yet, as comm_fail takes it. */
static void fail(struct coll_comm *comm, coll_status_t status, int failed_rank) {
  comm_fail(comm, status, failed_rank);
  atomic_store_explicit(&comm->errors.failure_returned, false, memory_order_relaxed);
}

void offload_fail_lost(offload_t *gpu, coll_status_t status) {
  char text[COMM_ERROR_BYTES];
  if (!comm_is_usable(gpu->comm)) return;
  snprintf(text, sizeof text, "%s", base_last_error());
  base_fail(status, "rank %d: %s", gpu->comm->rank, text);
  fail(gpu->comm, status, gpu->comm->rank);
}

static void fail_lost(struct coll_comm *comm, int peer) {
  char loss[COMM_LOSS_BYTES];
  comm_describe_loss(comm, peer, loss);
  base_fail(COLL_ERROR_RANK_LOST, "rank %d: %s", comm->rank, loss);
  fail(comm, COLL_ERROR_RANK_LOST, peer);
}

/* What a rank has sent before it left has arrived. */
static void check_left(offload_t *gpu, int peer) {
  struct coll_comm *comm = gpu->comm;
  if (gpu->proxy != NULL) return;
  if (cuda_end_waits_in_vain(gpu->end, peer, &gpu->left)) {
    base_fail(COLL_ERROR_MISMATCH,
              "rank %d: its call on the GPU waits for rank %d, which has destroyed the "
              "communicator: all ranks must make the same calls in the same order",
              comm->rank, peer);
    fail(comm, COLL_ERROR_MISMATCH, comm->rank);
  }
}

/* The caller holds the communicator's lock, as only then its transport may be asked. */
static void check_peers(offload_t *gpu) {
  struct coll_comm *comm = gpu->comm;
  for (int peer = 0; peer < comm->size && comm_is_usable(comm); peer++) {
    if (peer == comm->rank) continue;
    transport_peer_state_t state = comm->local->ops->peer_state(comm->local, peer);
    if (!comm_is_usable(comm)) return; /* it aborted before it exited */
    if (state == TRANSPORT_PEER_LOST) fail_lost(comm, peer);
    if (state == TRANSPORT_PEER_LEFT) check_left(gpu, peer);
  }
}

/* Applies the time limit of calls to kernels that run. */
static void check_time(offload_t *gpu) {
  struct coll_comm *comm = gpu->comm;
  uint64_t ended, now_ns = base_clock_now_ns();
  if (gpu->proxy != NULL || !comm_is_usable(comm)) return;
  bool runs = cuda_end_is_running(gpu->end, &ended);
  if (!runs || gpu->ended_ns == 0 || ended != gpu->ended) {
    gpu->ended = ended;
    gpu->ended_ns = runs ? now_ns : 0;
    return;
  }
  if (comm->watched.limits.timeout_ns == 0 ||
      now_ns - gpu->ended_ns < comm->watched.limits.timeout_ns)
    return;
  char sentence[COMM_ERROR_BYTES];
  offload_describe_wait(gpu, now_ns - gpu->ended_ns, sentence, sizeof sentence);
  base_fail(COLL_ERROR_TIMEOUT, "%s", sentence);
  fail(comm, COLL_ERROR_TIMEOUT, comm->rank);
}

/* This rank's kernel has found that a peer makes another call. */
static void fail_mismatched(struct coll_comm *comm, const gpu_mismatch_t *found) {
  int peer = (int)found->peer;
  const gpu_entry_t *own = &found->own, *theirs = &found->theirs;
  bool are_known = own->check != 0 && theirs->check != 0;
  if (are_known && offload_places_differ(comm, found)) {
    /* it has set the text */
  } else if (are_known) {
    comm_fail_mismatch(comm->rank, own->number, (flight_call_t){own->words.what, own->words.count},
                       peer, theirs->number,
                       (flight_call_t){theirs->words.what, theirs->words.count});
  } else {
    base_fail(COLL_ERROR_MISMATCH,
              "rank %d: a call on its GPU does not match that of rank %d: a send and its receive "
              "must have the same bytes, and all ranks must make the same collectives in the same "
              "order",
              comm->rank, peer);
  }
  fail(comm, COLL_ERROR_MISMATCH, comm->rank);
}

static void check_kernels(offload_t *gpu) {
  struct coll_comm *comm = gpu->comm;
  gpu_mismatch_t found;
  if (gpu->proxy != NULL || !comm_is_usable(comm) || !cuda_end_has_failed(gpu->end)) return;
  if (cuda_end_find_mismatch(gpu->end, &found)) {
    fail_mismatched(comm, &found);
  } else {
    comm_abort(comm, comm->rank, "its kernel ended early");
  }
}

/* The kernel sees no peer that makes its call on the host, and that peer waits for messages of this
 * rank's host. So the latest collectives that both have made are compared; comm_fail names the
 * first that differ. */
static void compare_calls(struct coll_comm *comm) {
  const flight_recorder_t *local = comm->local->flight;
  for (int peer = 0; peer < comm->size && comm_is_usable(comm); peer++) {
    const flight_recorder_t *other = comm->local->ops->recorder(comm->local, peer);
    flight_past_t own, found;
    if (peer == comm->rank || other == NULL) continue;
    uint64_t begun = flight_collectives_begun(other);
    if (begun > comm->sequence) begun = comm->sequence;
    if (begun == 0 || !flight_find(local, begun - 1, &own)) continue;
    if (!flight_find(other, begun - 1, &found) || flight_call_is(own.call, found.call)) continue;
    comm_fail_mismatch(comm->rank, own.number, own.call, peer, found.number, found.call);
    fail(comm, COLL_ERROR_MISMATCH, comm->rank);
  }
}

/* Ends the kernels of a communicator that has failed. */
static void pass_on(offload_t *gpu) {
  transport_reason_t reason;
  if (gpu->comm->local->ops->aborted(gpu->comm->local, &reason)) offload_abort(gpu);
}

void offload_abort(offload_t *gpu) {
  if (gpu->proxy != NULL) {
    offload_proxy_abort(gpu->proxy);
  } else {
    cuda_end_abort(gpu->end);
  }
}

void offload_check(offload_t *gpu) {
  check_peers(gpu);
  check_kernels(gpu);
  check_time(gpu);
  pass_on(gpu);
}

/* ---- the lock -------------------------------------------------------------------------------*/

void offload_lend_lock(offload_t *gpu) {
  /* release: what the holder of the lock has written */
  atomic_store_explicit(&gpu->loan, OFFLOAD_LENT, memory_order_release);
}

void offload_take_lock_back(offload_t *gpu) {
  offload_loan_t loan = OFFLOAD_LENT;
  /* acquire: what the other thread has written meanwhile */
  while (!atomic_compare_exchange_weak_explicit(&gpu->loan, &loan, OFFLOAD_KEPT,
                                                memory_order_acquire, memory_order_relaxed)) {
    if (loan == OFFLOAD_BORROWED) sched_yield();
    loan = OFFLOAD_LENT;
  }
}

static bool borrow(offload_t *gpu) {
  offload_loan_t loan = OFFLOAD_LENT;
  return atomic_compare_exchange_strong_explicit(&gpu->loan, &loan, OFFLOAD_BORROWED,
                                                 memory_order_acquire, memory_order_relaxed);
}

static void check_with_lock(offload_t *gpu) {
  check_peers(gpu);
  check_kernels(gpu);
  check_time(gpu);
  compare_calls(gpu->comm);
  gpu->hang_ns = gpu->comm->watched.limits.hang_ns;
}

/* A call on the host, which holds the lock, finds dead ranks itself. A launch that blocks in the
 * driver does not. */
static void check(offload_t *gpu) {
  struct coll_comm *comm = gpu->comm;
  if (comm_is_usable(comm) && comm_lock_try(comm)) {
    check_with_lock(gpu);
    comm_lock_release(comm);
  } else if (comm_is_usable(comm) && borrow(gpu)) {
    check_with_lock(gpu);
    offload_lend_lock(gpu);
  }
  pass_on(gpu);
  if (gpu->proxy == NULL) offload_show_wait(gpu);
}

/* ---- the driver -----------------------------------------------------------------------------*/

/* The caller holds the communicator's lock. NULL: there is nothing to ask. */
static cuda_event_t event_to_ask(const offload_t *gpu) {
  if (gpu->asked == gpu->queued) return NULL;
  return gpu->proxy != NULL ? offload_proxy_last(gpu->proxy) : cuda_end_last(gpu->end);
}

static coll_status_t query(const offload_t *gpu, cuda_event_t event) {
  return gpu->proxy != NULL ? offload_proxy_query_event(gpu->proxy, event)
                            : cuda_end_query_event(gpu->end, event);
}

/* Asks the driver whether the kernels have ended, to learn that a GPU's context is lost: nothing of
 * it runs then, and the peers would wait for ever. The driver may block until another thread of
 * this process has made a call, so it is done by a thread of its own, which holds no lock
 * meanwhile: the event lives as long as the communicator is visited. What it says is dropped where
 * others hold the lock then, and asked for again at the next visit. */
static void ask(offload_t *gpu) {
  struct coll_comm *comm = gpu->comm;
  if (!comm_is_usable(comm) || !comm_lock_try(comm)) return;
  cuda_event_t event = event_to_ask(gpu);
  uint64_t queued = gpu->queued;
  comm_lock_release(comm);
  if (event == NULL) return;
  coll_status_t status = query(gpu, event);
  if (status == COLL_IN_PROGRESS || !comm_lock_try(comm)) return;
  if (status == COLL_OK) {
    gpu->asked = queued;
  } else {
    offload_fail_lost(gpu, status);
  }
  comm_lock_release(comm);
}

/* ---- the threads ----------------------------------------------------------------------------*/

/* Also lets go of the one before. */
static void move_to(visitor_t *visitor, offload_t *gpu) {
  while (gpu != NULL && gpu->leaves) gpu = gpu->next;
  visitor->at = gpu;
  pthread_cond_broadcast(&moved);
}

/* Visits each once. False: there are no communicators, and the thread ends. */
static bool visit_all(visitor_t *visitor, void (*visit)(offload_t *)) {
  pthread_mutex_lock(&lock);
  for (move_to(visitor, first); visitor->at != NULL; move_to(visitor, visitor->at->next)) {
    pthread_mutex_unlock(&lock);
    visit(visitor->at);
    pthread_mutex_lock(&lock);
  }
  bool goes_on = visitor->runs = first != NULL;
  pthread_mutex_unlock(&lock);
  return goes_on;
}

static void *ask_driver(void *argument) {
  (void)argument;
  while (visit_all(&asker, ask)) base_clock_sleep_ns(ASK_INTERVAL_NS);
  return NULL;
}

static void *watch(void *argument) {
  (void)argument;
  while (visit_all(&watcher, check)) base_clock_sleep_ns(INTERVAL_NS);
  return NULL;
}

/* Without the thread, only calls on the host find failures. */
static bool start(void *(*run)(void *)) {
  pthread_t thread;
  pthread_attr_t detached;
  pthread_attr_init(&detached);
  pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
  bool runs = pthread_create(&thread, &detached, run, NULL) == 0;
  pthread_attr_destroy(&detached);
  return runs;
}

void offload_watch_add(offload_t *gpu) {
  pthread_mutex_lock(&lock);
  gpu->next = first;
  first = gpu;
  if (!watcher.runs) watcher.runs = start(watch);
  if (!asker.runs) asker.runs = start(ask_driver);
  pthread_mutex_unlock(&lock);
}

/* It stays in the list until no visitor is at it, so that visitors find the next one. Where the
 * driver blocks the visitor, the caller would be blocked too, as it is about to free what the
 * communicator has on that GPU. */
void offload_watch_remove(offload_t *gpu) {
  pthread_mutex_lock(&lock);
  gpu->leaves = true;
  while (watcher.at == gpu || asker.at == gpu) pthread_cond_wait(&moved, &lock);
  for (offload_t **link = &first; *link != NULL; link = &(*link)->next) {
    if (*link != gpu) continue;
    *link = gpu->next;
    flight_standstill_end(&gpu->comm->local->flight->gpu_wait);
    break;
  }
  pthread_mutex_unlock(&lock);
}
