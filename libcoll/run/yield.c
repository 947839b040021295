/*
 * A yield that takes no longer than the system call found no other thread to run; a longer one let
 * another thread run.
 *
 * If two yields were long, and the ranks used little CPU time in the interval between them, other
 * programs used it. A rank that computes makes yields long as well, but then the ranks use most of
 * the interval: measured, more than half of it, and less than that if another program computes
 * beside them. Ranks that mostly idle may be mistaken for ranks that other programs displace; they
 * make few calls, so they lose little.
 */
#include "run/yield.h"

#include <sched.h>
#include <time.h>

#include "base/clock.h"

#define YIELDS_PER_TIMED 8u /* reading the clock costs a tenth of a yield */
#define EMPTY_YIELD_NS 1000u
#define LONG_NS 500000u
#define CONTENTION_MAX 6 /* halvings of the poll count */
/* Bounds of the interval between the two yields. CPU time of threads on other cores is updated at
 * scheduler ticks only, so a shorter interval would not show it. */
#define INTERVAL_MIN_NS 8000000u
#define INTERVAL_MAX_NS 200000000u
#define RANKS_READ_MAX 64 /* reading the CPU time of more takes longer than what it may save */
#define PAUSE_MIN_NS 50000000u
#define PAUSE_MAX_NS 400000000u

typedef struct yields {
  unsigned count;
  int contention; /* incremented by a yield in which another thread ran, decremented by one in which
                     none did */
  const struct coll_comm *comm; /* of the last long yield; only compared, as it may be destroyed */
  uint64_t long_yield_ns, cpu_ns; /* time of the last long yield, and the ranks' CPU time then */
  uint64_t pause_ns,
      until_ns; /* until when the core is not yielded; pause_ns 0: no other programs seen */
} yields_t;

/* initial-exec: read before every yield by its offset, not by a call. */
static _Thread_local yields_t own __attribute__((tls_model("initial-exec")));

bool run_yield_is_costly(void) {
  return own.pause_ns > 0 && base_clock_now_ns() < own.until_ns;
}

/* The CPU time of the processes of all ranks; false if unknown. */
static bool read_ranks_cpu_ns(const struct coll_comm *comm, uint64_t *sum_ns) {
  *sum_ns = 0;
  if (comm->size > RANKS_READ_MAX) return false;
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
  if (own.pause_ns < PAUSE_MIN_NS) own.pause_ns = PAUSE_MIN_NS;
  if (own.pause_ns > PAUSE_MAX_NS) own.pause_ns = PAUSE_MAX_NS;
  own.until_ns = now_ns + own.pause_ns;
}

static void note_long_yield(const struct coll_comm *comm, uint64_t now_ns) {
  uint64_t cpu_ns, interval_ns = now_ns - own.long_yield_ns;
  uint64_t cores = (uint64_t)(comm->size < comm->cores ? comm->size : comm->cores);
  bool counts =
      own.comm == comm && own.long_yield_ns >= own.until_ns && interval_ns < INTERVAL_MAX_NS;
  if (counts && interval_ns < INTERVAL_MIN_NS) return;
  if (!read_ranks_cpu_ns(comm, &cpu_ns)) return;
  bool others_ran = (cpu_ns - own.cpu_ns) * 5 < interval_ns * cores * 2;
  own.comm = comm;
  own.long_yield_ns = now_ns;
  own.cpu_ns = cpu_ns;
  if (counts && others_ran) pause_from(now_ns);
}

static void note_short_yield(uint64_t now_ns) {
  uint64_t latest_ns = own.long_yield_ns > own.until_ns ? own.long_yield_ns : own.until_ns;
  if (now_ns - latest_ns > INTERVAL_MAX_NS) own = (yields_t){.contention = own.contention};
}

static void note_contention(uint64_t took_ns) {
  if (took_ns < EMPTY_YIELD_NS) {
    own.contention -= own.contention > 0;
  } else if (took_ns < LONG_NS) {
    own.contention += own.contention < CONTENTION_MAX;
  }
}

int run_yield_polls(const struct coll_comm *comm) {
  return comm->spin_limit >> own.contention;
}

void run_yield(const struct coll_comm *comm, transport_t *transport) {
  bool spins = comm->spin_limit > 0; /* it polls for long before it yields */
  bool timed = spins || own.long_yield_ns > 0 || own.count++ % YIELDS_PER_TIMED == 0;
  uint64_t began_ns = timed ? base_clock_now_ns() : 0;
  if (transport != NULL) {
    transport->ops->yield(transport);
  } else {
    sched_yield();
  }
  if (!timed) return;
  uint64_t now_ns = base_clock_now_ns();
  if (spins) note_contention(now_ns - began_ns);
  if (now_ns - began_ns >= LONG_NS) {
    note_long_yield(comm, now_ns);
  } else if (own.long_yield_ns > 0) {
    note_short_yield(now_ns);
  }
}
