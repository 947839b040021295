/*
 * Only the time during which the waiting rank itself is awake counts. Checks follow each other
 * within some 10 ms; the interval between two counts at most SLICE_NS_MAX and at most a quarter of
 * the limit. So a job that was suspended as a whole reports nothing when it is resumed.
 *
 * The ranks of the host that wait in the same collective read each other's recorders to decide
 * which rank reports: the lowest that has waited for at least half of the limit. If that rank is
 * stopped and does not report, the others report after twice the limit.
 */
#include "watch/hang.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "watch/missing.h"

#define SLICE_NS_MAX UINT64_C(1000000000)
#define REPORT_BYTES 2048

/* ---- who reports ----------------------------------------------------------------------------*/

static bool has_reported(const flight_recorder_t *recorder, const flight_standstill_t *own) {
  /* acquire: the call is visible. A rank that meanwhile reports another call has reported this one.
   */
  return atomic_load_explicit(&recorder->reports, memory_order_acquire) > 0 &&
         atomic_load_explicit(&recorder->reported_number, memory_order_acquire) == own->number &&
         atomic_load_explicit(&recorder->reported_what, memory_order_acquire) == own->call.what;
}

static void note_report(flight_recorder_t *recorder, const flight_standstill_t *own) {
  atomic_store_explicit(&recorder->reported_number, own->number, memory_order_release);
  atomic_store_explicit(&recorder->reported_what, own->call.what, memory_order_release);
  /* release: a reader that sees the count sees the call */
  atomic_fetch_add_explicit(&recorder->reports, 1, memory_order_release);
}

/* Whether the lower rank waits in the same collective, for long enough to report soon. */
static bool will_report(const struct coll_comm *comm, const flight_recorder_t *lower,
                        const flight_standstill_t *own) {
  flight_standstill_t wait;
  if (!flight_wait_read(lower, &wait) || wait.number != own->number) return false;
  if (!flight_is_collective(wait.call)) return false;
  return comm->watched.hang.seen_ns > wait.begin_ns + comm->watched.limits.hang_ns / 2;
}

/* A send or receive concerns two ranks; the one that waits reports it. */
static bool should_report(const struct coll_comm *comm, const flight_standstill_t *own) {
  transport_t *local = comm->local;
  if (has_reported(local->flight, own)) return false;
  if (!flight_is_collective(own->call)) return true;
  bool late = comm->watched.hang.waited_ns / 2 >= comm->watched.limits.hang_ns;
  for (int rank = 0; rank < comm->size; rank++) {
    const flight_recorder_t *recorder = local->ops->recorder(local, rank);
    if (recorder == NULL || rank == comm->rank) continue;
    if (has_reported(recorder, own)) return false;
    if (rank < comm->rank && !late && will_report(comm, recorder, own)) return false;
  }
  return true;
}

/* One write() call, because other ranks may write to standard error at the same time. */
static void print(const char *sentence) {
  char line[REPORT_BYTES + 16];
  int length = snprintf(line, sizeof line, "libcoll: %s\n", sentence);
  const char *from = line;
  while (length > 0) {
    ssize_t written = write(STDERR_FILENO, from, (size_t)length);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    from += written;
    length -= (int)written;
  }
}

static void report(struct coll_comm *comm) {
  flight_standstill_t own;
  char sentence[REPORT_BYTES];
  if (!flight_wait_read(comm->local->flight, &own) || !should_report(comm, &own)) return;
  note_report(comm->local->flight, &own);
  comm->local->ops->publish(comm->local);
  watch_missing_describe(comm, comm->watched.hang.waited_ns, sentence, sizeof sentence);
  print(sentence);
}

/* ---- limits ---------------------------------------------------------------------------------*/

static coll_status_t time_out(struct coll_comm *comm) {
  char sentence[TRANSPORT_REASON_BYTES];
  int missing =
      watch_missing_describe(comm, comm->watched.hang.waited_ns, sentence, sizeof sentence);
  return comm_fail(comm, base_fail(COLL_ERROR_TIMEOUT, "%s", sentence), missing);
}

static uint64_t lower_of(uint64_t a, uint64_t b) {
  return a < b ? a : b;
}

/* The lower one of the limits that are set. */
static uint64_t lower_limit(const comm_limits_t *limits) {
  if (limits->hang_ns == 0 || limits->timeout_ns == 0) return limits->hang_ns + limits->timeout_ns;
  return lower_of(limits->hang_ns, limits->timeout_ns);
}

coll_status_t watch_hang_check(struct coll_comm *comm, uint64_t begin_ns) {
  const comm_limits_t *limits = &comm->watched.limits;
  comm_hang_t *hang = &comm->watched.hang;
  uint64_t lower_ns = lower_limit(limits);
  if (lower_ns == 0) return COLL_OK;
  uint64_t now_ns = base_clock_now_ns();
  if (hang->begin_ns != begin_ns) {
    *hang = (comm_hang_t){.begin_ns = begin_ns, .seen_ns = now_ns};
    return COLL_OK;
  }
  uint64_t slice_ns = now_ns - hang->seen_ns;
  hang->waited_ns += lower_of(slice_ns, lower_of(SLICE_NS_MAX, lower_ns / 4));
  hang->seen_ns = now_ns;
  if (limits->timeout_ns > 0 && hang->waited_ns >= limits->timeout_ns) return time_out(comm);
  if (limits->hang_ns > 0 && hang->waited_ns >= limits->hang_ns) report(comm);
  return COLL_OK;
}
