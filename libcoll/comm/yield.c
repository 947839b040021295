/*
 * A yield that takes as long as the call into the kernel has found nobody, and one that takes
 * longer has let somebody run.
 *
 * When two yields were long, and the ranks had little of the time between them, others had it. A
 * neighbour among the ranks that computes makes yields long as well, but then the ranks have it:
 * measured, more than half of it, and where one program computes beside them less than that. Ranks
 * that mostly idle may be taken for such as are kept from their cores; they have few calls to lose.
 */
#include "comm/yield.h"

#include <sched.h>
#include <time.h>

#include "base/clock.h"

#define YIELDS_PER_TIMED 8u /* a clock costs a tenth of a yield */
#define FOUND_NOBODY_NS 1000u
#define LONG_NS 500000u
#define CROWD_MAX 6 /* halvings of the looks */
/* Two yields between which time is counted. Less, and what runs on other cores is not seen: the
 * kernel adds it up at ticks. */
#define APART_LEAST_NS 8000000u
#define APART_MOST_NS 200000000u
#define PAUSE_LEAST_NS 50000000u
#define PAUSE_MOST_NS 400000000u

typedef struct yields {
  unsigned count;
  int crowd;                    /* grows when others run in a yield, and shrinks when nobody does */
  const struct coll_comm *comm; /* of the last long yield; to compare with, it may be gone */
  uint64_t then_ns, had_ns;     /* when that was, and what the ranks had had until then */
  uint64_t pause_ns, until_ns;  /* for which the core is not given up; pause_ns 0: no strangers */
} yields_t;

/* Looked at before every yield: by its offset, not by a call. */
static _Thread_local yields_t own __attribute__((tls_model("initial-exec")));

bool comm_yield_is_costly(void) {
  return own.pause_ns > 0 && base_clock_now_ns() < own.until_ns;
}

/* Processor time of the processes of all ranks; false where it cannot be told. */
static bool time_had_ns(const struct coll_comm *comm, uint64_t *sum_ns) {
  *sum_ns = 0;
  for (int rank = 0; rank < comm->size; rank++) {
    struct timespec time;
    clockid_t clock;
    if (!comm->peers[rank].is_first) continue;
    if (clock_getcpuclockid(comm->peers[rank].pid, &clock) != 0) return false;
    if (clock_gettime(clock, &time) != 0) return false;
    *sum_ns += (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
  }
  return comm->one_pid_space;
}

static void pause_from(uint64_t now_ns) {
  own.pause_ns *= 2;
  if (own.pause_ns < PAUSE_LEAST_NS) own.pause_ns = PAUSE_LEAST_NS;
  if (own.pause_ns > PAUSE_MOST_NS) own.pause_ns = PAUSE_MOST_NS;
  own.until_ns = now_ns + own.pause_ns;
}

static void note_long(const struct coll_comm *comm, uint64_t now_ns) {
  uint64_t had_ns, apart_ns = now_ns - own.then_ns;
  uint64_t cores = (uint64_t)(comm->size < comm->cores ? comm->size : comm->cores);
  bool counts = own.comm == comm && own.then_ns >= own.until_ns && apart_ns < APART_MOST_NS;
  if (counts && apart_ns < APART_LEAST_NS) return;
  if (!time_had_ns(comm, &had_ns)) return;
  bool others_had = (had_ns - own.had_ns) * 5 < apart_ns * cores * 2;
  own.comm = comm;
  own.then_ns = now_ns;
  own.had_ns = had_ns;
  if (counts && others_had) pause_from(now_ns);
}

static void note_short(uint64_t now_ns) {
  uint64_t latest_ns = own.then_ns > own.until_ns ? own.then_ns : own.until_ns;
  if (now_ns - latest_ns > APART_MOST_NS) own = (yields_t){.crowd = own.crowd};
}

static void note_crowd(uint64_t took_ns) {
  if (took_ns < FOUND_NOBODY_NS) {
    own.crowd -= own.crowd > 0;
  } else if (took_ns < LONG_NS) {
    own.crowd += own.crowd < CROWD_MAX;
  }
}

int comm_yield_polls(const struct coll_comm *comm) {
  return comm->spin_limit >> own.crowd;
}

void comm_yield(const struct coll_comm *comm, transport_t *transport) {
  bool spins = comm->spin_limit > 0; /* and does not yield soon */
  bool timed = spins || own.then_ns > 0 || own.count++ % YIELDS_PER_TIMED == 0;
  uint64_t began_ns = timed ? base_clock_now_ns() : 0;
  if (transport != NULL) {
    transport->ops->yield(transport);
  } else {
    sched_yield();
  }
  if (!timed) return;
  uint64_t now_ns = base_clock_now_ns();
  if (spins) note_crowd(now_ns - began_ns);
  if (now_ns - began_ns >= LONG_NS) {
    note_long(comm, now_ns);
  } else if (own.then_ns > 0) {
    note_short(now_ns);
  }
}
