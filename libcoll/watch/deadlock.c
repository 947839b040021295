/*
 * A waiting rank can continue once any rank of its published set acts (engine/run.h). So if all
 * ranks reachable from this one through these sets wait, and no message between them is in flight,
 * none of them can ever continue. That no message is in flight is found by waiting: since a moment
 * at which all of them waited, each has polled all of its inputs and found nothing. A message sent
 * before that moment would have been found.
 *
 * One look at all ranks is no moment: while it is at one of them, those that it was at before may
 * poll, and another one send to them and wait. If a second look finds the same waits, all waited
 * between the two, and the polls that count are those since the second.
 *
 * A rank that waits in sends and receives may be released by a send or receive that another thread
 * of it makes later (combine.h). Its wait counts only if it publishes that it has no such thread.
 *
 * A process that waits on another communicator is released by any thread of the process that it
 * waits for. So a cycle either consists of waits on this communicator only, or of processes of
 * which all threads wait (cross_wait.h): that a rank waits here does not show what the streams of
 * its process do elsewhere.
 *
 * A rank with a progress callback can still make calls of other communicators while it waits, and
 * end waits there. So among ranks with one, only waits on this communicator are taken for final.
 */
#include "watch/deadlock.h"

#include <stdarg.h>
#include <stdio.h>

#include "watch/watch.h"

/* Between a poll count and this many more polls lies one complete poll that began after the first
 * count was read. */
#define POLLS_BETWEEN 2
/* The same for the waits of processes, which count grace periods (cross_wait.h). */
#define GRACE_PERIODS_BETWEEN 3

/* The rank's wait on this communicator, or `across` all communicators that of its process. NULL if
 * it does not wait, or its recorder is unknown. */
static const flight_wait_t *wait_of(const struct coll_comm *comm, int rank, bool across,
                                    flight_standstill_t *wait) {
  const flight_recorder_t *recorder = comm->local->ops->recorder(comm->local, rank);
  if (recorder == NULL) return NULL;
  const flight_wait_t *published = across ? &recorder->cross_wait : &recorder->wait;
  return flight_standstill_read(published, wait) ? published : NULL;
}

/* The ranks found. */
typedef struct reach {
  int count;
  bool across;              /* they are found by the waits of processes */
  bool has_progress_caller; /* one of them may make calls of other communicators while it waits */
} reach_t;

static int first_waited(const flight_wait_t *published, int size) {
  int rank = 0;
  while (rank + 1 < size && !flight_standstill_has(published, rank)) rank++;
  return rank;
}

/* published, wait: what find_reachable looks at. The report rather has the rank's wait on this
 * communicator. */
static comm_snapshot_t snapshot_of(const struct coll_comm *comm, int rank, bool across,
                                   const flight_wait_t *published,
                                   const flight_standstill_t *wait) {
  flight_standstill_t here;
  const flight_wait_t *own = across ? wait_of(comm, rank, false, &here) : NULL;
  const flight_standstill_t *told = own != NULL ? &here : wait;
  return (comm_snapshot_t){.changes = wait->changes,
                           .polls = wait->polls,
                           .call = told->call,
                           .number = told->number,
                           .waits_for = first_waited(own != NULL ? own : published, comm->size),
                           .elsewhere = across && own == NULL};
}

/* Adds the ranks that `rank` waits for, and saves the state of its wait. False if it does not wait,
 * or its recorder is unknown. */
static bool add_waited(struct coll_comm *comm, int rank, reach_t *reach) {
  flight_standstill_t wait;
  bool waits_for_any = false;
  const flight_wait_t *published = wait_of(comm, rank, reach->across, &wait);
  if (published == NULL || wait.may_be_ended) return false;
  for (int peer = 0; peer < comm->size; peer++) {
    if (!flight_standstill_has(published, peer)) continue;
    waits_for_any = true;
    if (base_ranks_has(&comm->watched.deadlock.found, peer)) continue;
    base_ranks_add(&comm->watched.deadlock.found, peer);
    comm->watched.deadlock.order[reach->count++] = peer;
  }
  bool calls_back = atomic_load_explicit(&published->calls_back, memory_order_relaxed) != 0;
  reach->has_progress_caller = reach->has_progress_caller || calls_back;
  comm->watched.deadlock.now[rank] = snapshot_of(comm, rank, reach->across, published, &wait);
  return waits_for_any && flight_standstill_is(published, wait.changes);
}

/* The number of ranks reachable from this one; 0 if one of them does not wait for good. */
static int find_reachable(struct coll_comm *comm, bool across) {
  comm_deadlock_t *deadlock = &comm->watched.deadlock;
  reach_t reach = {.count = 1, .across = across};
  base_ranks_clear(&deadlock->found);
  base_ranks_add(&deadlock->found, comm->rank);
  deadlock->order[0] = comm->rank;
  for (int i = 0; i < reach.count; i++) {
    if (!add_waited(comm, deadlock->order[i], &reach)) return 0;
  }
  return across && reach.has_progress_caller ? 0 : reach.count;
}

/* Whether every rank found is still in the wait in which it was found before. */
static bool are_same_waits(const comm_deadlock_t *deadlock, int count) {
  for (int i = 0; i < count; i++) {
    int rank = deadlock->order[i];
    if (deadlock->before[rank].changes != deadlock->now[rank].changes) return false;
  }
  return true;
}

/* Whether every rank found has polled often enough since. */
static bool have_polled(const comm_deadlock_t *deadlock, int count) {
  uint64_t needed = deadlock->across ? GRACE_PERIODS_BETWEEN : POLLS_BETWEEN;
  for (int i = 0; i < count; i++) {
    int rank = deadlock->order[i];
    if (deadlock->now[rank].polls < deadlock->before[rank].polls + needed) return false;
  }
  return true;
}

static void remember(comm_deadlock_t *deadlock, int count, bool across, int size) {
  deadlock->count = count;
  deadlock->across = across;
  for (int rank = 0; count > 0 && rank < size; rank++) {
    bool found = base_ranks_has(&deadlock->found, rank);
    deadlock->before[rank] = found ? deadlock->now[rank] : (comm_snapshot_t){.changes = UINT64_MAX};
  }
}

__attribute__((format(printf, 4, 5))) static void append(char *text, size_t bytes, size_t *used,
                                                         const char *format, ...) {
  va_list arguments;
  if (*used + 1 >= bytes) return;
  va_start(arguments, format);
  int written = vsnprintf(text + *used, bytes - *used, format, arguments);
  va_end(arguments);
  if (written > 0) *used += (size_t)written;
}

static coll_status_t fail_deadlock(const struct coll_comm *comm, int count) {
  char text[COMM_ERROR_BYTES - 80], call[FLIGHT_TEXT_BYTES];
  size_t used = 0;
  for (int i = 0; i < count; i++) {
    int rank = comm->watched.deadlock.order[i];
    const comm_snapshot_t *wait = &comm->watched.deadlock.now[rank];
    flight_call_describe(wait->call, comm_forced_name(wait->call), call, sizeof call);
    append(text, sizeof text, &used, "%srank %d is in call %llu%s, %s, and waits for rank %d",
           i > 0 ? "; " : "", rank, (unsigned long long)wait->number,
           wait->elsewhere ? " of another communicator" : "", call, wait->waits_for);
  }
  return base_fail(COLL_ERROR_MISMATCH, "ranks wait for each other, and none can go on: %s", text);
}

/* A rank that reads from one that has died goes on waiting until that is noticed, and the others
 * for it. */
static coll_status_t fail(struct coll_comm *comm, int count) {
  int lost = comm_lost_rank(comm);
  if (lost >= 0) return watch_fail_left(comm, lost, TRANSPORT_PEER_LOST);
  return comm_fail(comm, fail_deadlock(comm, count), comm->rank);
}

/* Where messages are on their way for unknown times, only the limits of hang.h end a wait. */
coll_status_t watch_deadlock_check(struct coll_comm *comm) {
  comm_deadlock_t *deadlock = &comm->watched.deadlock;
  if (comm->local->delays) return COLL_OK;
  int count = find_reachable(comm, false);
  bool across = count == 0;
  if (across) count = find_reachable(comm, true);
  bool same = count > 0 && count == deadlock->count && across == deadlock->across &&
              are_same_waits(deadlock, count);
  if (!same || !deadlock->waited_together) {
    deadlock->waited_together = same;
    remember(deadlock, count, across, comm->size);
    return COLL_OK;
  }
  return have_polled(deadlock, count) ? fail(comm, count) : COLL_OK;
}
