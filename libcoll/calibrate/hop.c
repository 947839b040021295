/* Two threads, each bound to one of the CPUs, send a flag to and fro. Bursts are short, so that
 * some are undisturbed also on a busy machine, and the shortest counts. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include "base/clock.h"
#include "calibrate/pair.h"

#define BURSTS 40
#define TRIPS 20 /* of a burst; each is two hops */
#define LIMIT_NS 2000000u

typedef struct hops {
  calibrate_pair_t pair;
  pthread_mutex_t starting; /* held until it is known whether both threads run */
  bool both_run;            /* guarded by `starting` */
  uint64_t shortest_ns;     /* of a burst; of thread 0 until it is joined */
} hops_t;

typedef struct side {
  calibrate_thread_t thread;
  hops_t *hops;
} side_t;

static void time_burst(const side_t *side, uint64_t limit_ns) {
  hops_t *hops = side->hops;
  calibrate_pair_sync(&side->thread);
  uint64_t begin_ns = base_clock_now_ns();
  for (int i = 0; i < TRIPS; i++) calibrate_pair_trip(&side->thread);
  if (side->thread.number == 0) {
    uint64_t end_ns = base_clock_now_ns(), ns = end_ns - begin_ns;
    if (hops->shortest_ns == 0 || ns < hops->shortest_ns) hops->shortest_ns = ns;
    hops->pair.is_late = end_ns > limit_ns;
  }
  calibrate_pair_sync(&side->thread);
}

static void *run_side(void *context) {
  const side_t *side = context;
  hops_t *hops = side->hops;
  pthread_mutex_lock(&hops->starting);
  bool both_run = hops->both_run;
  pthread_mutex_unlock(&hops->starting);
  uint64_t limit_ns = base_clock_now_ns() + LIMIT_NS;
  for (int i = 0; both_run && i < BURSTS && !hops->pair.is_late; i++) time_burst(side, limit_ns);
  return NULL;
}

static bool start(side_t *side, int cpu, pthread_t *thread) {
  pthread_attr_t attributes;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (cpu < 0 || cpu >= CPU_SETSIZE || pthread_attr_init(&attributes) != 0) return false;
  CPU_SET((size_t)cpu, &set);
  bool started = pthread_attr_setaffinity_np(&attributes, sizeof set, &set) == 0 &&
                 pthread_create(thread, &attributes, run_side, side) == 0;
  pthread_attr_destroy(&attributes);
  return started;
}

static void run_both(hops_t *hops, const int cpus[2]) {
  side_t sides[2];
  pthread_t threads[2];
  int started = 0;
  pthread_mutex_lock(&hops->starting);
  while (started < 2) {
    sides[started] = (side_t){.thread = {.pair = &hops->pair, .number = started}, .hops = hops};
    if (!start(&sides[started], cpus[started], &threads[started])) break;
    started++;
  }
  hops->both_run = started == 2;
  pthread_mutex_unlock(&hops->starting);
  for (int i = 0; i < started; i++) pthread_join(threads[i], NULL);
}

/* Signals are blocked: they are meant for the program's own threads. */
uint32_t calibrate_pair_hop_ps(const int cpus[2]) {
  hops_t hops = {.starting = PTHREAD_MUTEX_INITIALIZER};
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  run_both(&hops, cpus);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_mutex_destroy(&hops.starting);
  if (hops.pair.is_late) return 0;
  return (uint32_t)(hops.shortest_ns * 1000 / (2 * TRIPS));
}
