/*
 * Measures costs. Two threads (pair.h) copy and reduce as the steps of plans do, and make small
 * calls on a communicator of their own. The cost of a message, flag or call follows from the times
 * of calls whose plans contain different numbers of them. Costs are differences of times, in which
 * one disturbed measurement would do much harm, so everything is measured several times, and
 * the minimum is used.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "algo/algo.h"
#include "base/atomics.h"
#include "base/clock.h"
#include "calibrate/costs.h"
#include "calibrate/pair.h"
#include "calibrate/price.h"
#include "comm/plan_cache.h"
#include "lifetime/create.h"
#include "run/batch.h"
#include "run/fastpath.h"
#include "topo/machine.h"
#include "transport/get.h"
#include "transport/memory.h"

#define POOL_BYTES ((size_t)16 << 20)  /* a side's source buffers; its destination buffers */
#define BUFFERS_MAX 16                 /* source and destination pairs, used in rotation */
#define REPEAT_BYTES ((size_t)1 << 18) /* moved by one repetition at least */
#define REPETITIONS 3
#define DEADLINE_NS                                                            \
  3000000000 /* for all measurements; a machine this busy gives no usable ones \
              */
#define TRIPS 100
#define SWITCHES 100
#define CALLS 20
#define LINE_COUNT (TUNE_LINE_BYTES / sizeof(float))

typedef struct side {
  _Alignas(128) calibrate_thread_t thread; /* the sides' data are in different cache lines */
  char *sources, *dests, *shared;
  struct coll_comm *comm;
  struct bench *bench;
  calibrate_timings_t timings;
  tune_machine_t costs; /* as this side measured them; those of side 0 are used */
  int cpu;              /* on which it ran when the sides had a core each */
  size_t next;          /* offset of the buffers in use */
  size_t handed;        /* copies into `shared` so far */
} side_t;

static const struct {
  const char *algo;
  size_t count; /* elements */
} probes[CALIBRATE_PROBE_COUNT] = {[CALIBRATE_ONE_ROUND] = {"butterfly", 1},
                                   [CALIBRATE_LONGER] = {"butterfly", LINE_COUNT},
                                   [CALIBRATE_TWO_ROUNDS] = {"tree", 1},
                                   [CALIBRATE_FLAGS] = {"staged", 1},
                                   [CALIBRATE_MAPPED] = {"oneshot", 1}};

typedef struct bench {
  side_t sides[2];
  topo_machine_t *machine;
  tune_profile_t profiles[CALIBRATE_PROBE_COUNT];
  char *memory;
  struct coll_comm *comms[2];
  calibrate_pair_t pair;
  bool gets; /* the system permits them; if not, their prices stay those of a typical machine */
  _Atomic bool failed;
} bench_t;

typedef struct result {
  tune_machine_t costs;
  int cpus[2];
  bool measured;
} result_t;

static side_t *peer_of(const side_t *side) {
  return &side->bench->sides[1 - side->thread.number];
}

static uint64_t time_of(side_t *side, calibrate_work_t *work, size_t size) {
  uint64_t ns;
  calibrate_pair_time(&side->thread, side, &work, 1, size, 1, &ns);
  return ns;
}

/* ---- bytes ----------------------------------------------------------------------------------*/

static size_t pairs_of(size_t size) {
  size_t pairs = POOL_BYTES / size;
  return pairs < BUFFERS_MAX ? pairs : BUFFERS_MAX;
}

static size_t calls_of(size_t size) {
  return size < REPEAT_BYTES ? REPEAT_BYTES / size : 1;
}

/* The offset of the next source and destination. */
static size_t next_pair(side_t *side, size_t size) {
  side->next = (side->next + size) % (pairs_of(size) * size);
  return side->next;
}

/* `whole`: see the device's copy. */
static void copy_part(side_t *side, void *dst, const void *src, size_t bytes, size_t whole) {
  if (side->comm->world.device->copy(dst, src, bytes, whole) != COLL_OK) {
    side->bench->failed = true;
  }
}

static void copy(side_t *side, void *dst, const void *src, size_t bytes) {
  copy_part(side, dst, src, bytes, bytes);
}

static void reduce(side_t *side, void *const dsts[], int dst_count, size_t offset, size_t bytes) {
  const void *sources[] = {side->sources + offset, peer_of(side)->sources + offset};
  if (side->comm->world.device->reduce(dsts, dst_count, 0, sources, 2, bytes / sizeof(float),
                                       COLL_FLOAT32, COLL_SUM, bytes) != COLL_OK) {
    side->bench->failed = true;
  }
}

static void copy_own(void *context, size_t size) {
  side_t *side = context;
  for (size_t i = 0; i < calls_of(size); i++) {
    size_t at = next_pair(side, size);
    copy(side, side->dests + at, side->sources + at, size);
  }
}

static void copy_far(void *context, size_t size) {
  side_t *side = context;
  for (size_t i = 0; i < calls_of(size); i++) {
    size_t at = next_pair(side, size);
    copy(side, side->dests + at, peer_of(side)->sources + at, size);
  }
}

static void copy_to_far(void *context, size_t size) {
  side_t *side = context;
  for (size_t i = 0; i < calls_of(size); i++) {
    size_t at = next_pair(side, size);
    copy(side, peer_of(side)->dests + at, side->sources + at, size);
  }
}

/* As copy_far, but through the kernel, as if the peer were another process. */
static void get_far(void *context, size_t size) {
  side_t *side = context;
  for (size_t i = 0; i < calls_of(size); i++) {
    size_t at = next_pair(side, size);
    uint64_t from = (uint64_t)(uintptr_t)(peer_of(side)->sources + at);
    bool gone;
    if (transport_get(getpid(), side->dests + at, from, size, &gone) != COLL_OK) return;
  }
}

static void reduce_far(void *context, size_t size) {
  side_t *side = context;
  for (size_t i = 0; i < calls_of(size); i++) {
    size_t at = next_pair(side, size);
    void *dst = side->dests + at;
    reduce(side, &dst, 1, at, size);
  }
}

/* Each side computes one half of the sum, into both destinations. */
static void reduce_for_both(void *context, size_t size) {
  side_t *side = context;
  for (size_t i = 0; i < calls_of(size); i++) {
    size_t offset = next_pair(side, size) + (size_t)side->thread.number * (size / 2);
    void *const dsts[] = {side->dests + offset, peer_of(side)->dests + offset};
    reduce(side, dsts, 2, offset, size / 2);
  }
}

/* Copies into `shared`, from where the peer copies on. Parts of it are used in rotation, as those
 * of scratch are. Only for sizes of which calibrate_fits_shared is true. */
static void hand_over(void *context, size_t size) {
  side_t *side = context;
  size_t room = side->comm->world.room.scratch_bytes;
  size_t parts = (room < CALIBRATE_SHARED_BYTES ? room : CALIBRATE_SHARED_BYTES) / size;
  for (size_t i = 0; i < calls_of(size); i++) {
    size_t at = next_pair(side, size), part = side->handed++ % parts * size;
    copy_part(side, side->shared + part, side->sources + at, size, 0);
    calibrate_pair_sync(&side->thread);
    copy(side, side->dests + at, peer_of(side)->shared + part, size);
    calibrate_pair_sync(&side->thread);
  }
}

static calibrate_work_t *const moves[CALIBRATE_MOVE_COUNT] = {
    [CALIBRATE_OWN] = copy_own,
    [CALIBRATE_FAR] = copy_far,
    [CALIBRATE_PUSHED] = copy_to_far,
    [CALIBRATE_SUM] = reduce_far,
    [CALIBRATE_SUM_FOR_BOTH] = reduce_for_both,
    [CALIBRATE_GOT] = get_far,
    [CALIBRATE_HANDED] = hand_over};

static void keep_min(int64_t *min, int64_t ps) {
  if (*min == 0 || ps < *min) *min = ps;
}

/* Times `count` moves from `first` on, in picoseconds per KiB of the call's size, after every
 * buffer has been used once. */
static void time_moves(side_t *side, int index, int first, int count) {
  size_t size = tune_sizes[index], calls = calls_of(size), each = calls * (size_t)count;
  uint64_t ns[CALIBRATE_MOVE_COUNT];
  side->next = 0;
  int warmups = (int)((pairs_of(size) + each - 1) / each); /* every buffer once */
  calibrate_pair_time(&side->thread, side, &moves[first], count, size, warmups, ns);
  for (int i = 0; i < count; i++) {
    int64_t kib_ps = (int64_t)(ns[i] * 1000 / (calls * size / 1024));
    keep_min(&side->timings.moves[first + i][index], kib_ps);
  }
}

_Static_assert(CALIBRATE_MOVE_COUNT <= CALIBRATE_WORKS_MAX, "all moves fit one measurement");

/* Sizes that fit a core's own cache are timed one move at a time, so that the buffers stay in it;
 * larger ones with all moves in rotation. CALIBRATE_HANDED is always timed alone, as the other
 * moves would evict from the shared cache what it has to find there. Sizes that do not fit `shared`
 * are handed over in parts of sizes that were timed before. */
static void time_size(side_t *side, int index) {
  bool near = tune_sizes[index] * BUFFERS_MAX <= CALIBRATE_SHARED_BYTES;
  int together = near ? 1 : CALIBRATE_HANDED;
  for (int first = 0; first < CALIBRATE_HANDED; first += together) {
    time_moves(side, index, first, together);
  }
  if (calibrate_fits_shared(index)) time_moves(side, index, CALIBRATE_HANDED, 1);
}

/* ---- steps ----------------------------------------------------------------------------------*/

static void trips(void *context, size_t count) {
  side_t *side = context;
  for (size_t i = 0; i < count; i++) calibrate_pair_trip(&side->thread);
}

static void short_gets(void *context, size_t count) {
  side_t *side = context;
  uint64_t from = (uint64_t)(uintptr_t)peer_of(side)->sources;
  bool gone;
  for (size_t i = 0; i < count; i++) {
    if (transport_get(getpid(), side->dests, from, TUNE_LINE_BYTES, &gone) != COLL_OK) return;
  }
}

static void syncs(void *context, size_t count) {
  side_t *side = context;
  for (size_t i = 0; i < count; i++) calibrate_pair_sync(&side->thread);
}

/* As the API functions do. */
static coll_status_t run_call(const run_call_t *call) {
  if (comm_lock_try(call->comm)) {
    comm_cache_entry_t *prepared = run_fastpath_lookup(call->comm, call->shape);
    if (prepared != NULL) return run_fastpath_run(call->comm, prepared, call->send, call->recv);
    comm_lock_release(call->comm);
  }
  return run_call_run(call);
}

static void small_calls(void *context, size_t elements) {
  side_t *side = context;
  float in[LINE_COUNT] = {0}, out[LINE_COUNT];
  const comm_traits_t traits = {.collective = COLL_ALLREDUCE,
                                .dtype = COLL_FLOAT32,
                                .op = COLL_SUM,
                                .reach = PLAN_REACH_USER};
  const run_call_t call = {.kind = RUN_COLLECTIVE,
                           .comm = side->comm,
                           .shape = comm_shape_make(traits, elements),
                           .send = in,
                           .recv = out};
  for (int i = 0; i < CALLS; i++) {
    if (run_call(&call) != COLL_OK) side->bench->failed = true;
  }
}

static int64_t call_ps(side_t *side, calibrate_probe_t probe) {
  const tune_profile_t *profile = &side->bench->profiles[probe];
  comm_force(side->comm, COLL_ALLREDUCE, profile->algo->name);
  return (int64_t)(time_of(side, small_calls, probes[probe].count) * 1000 / CALLS);
}

/* ---- the run --------------------------------------------------------------------------------*/

static void bind_to(side_t *side, int core) {
  const topo_machine_t *machine = side->bench->machine;
  int cores = topo_machine_facts(machine).cores;
  if (topo_machine_bind(machine, topo_share_of(cores, core, cores)) != COLL_OK) {
    side->bench->failed = true;
  }
}

/* On two hardware threads of one core, the sides would synchronize without a context switch. */
static void bind_to_one_thread(side_t *side) {
  cpu_set_t core, thread;
  int cpu = 0;
  bind_to(side, 0);
  bool known = sched_getaffinity(0, sizeof core, &core) == 0 && CPU_COUNT(&core) > 0;
  while (known && !CPU_ISSET(cpu, &core)) cpu++;
  CPU_ZERO(&thread);
  CPU_SET(cpu, &thread);
  bool bound = known && sched_setaffinity(0, sizeof thread, &thread) == 0;
  if (!bound) side->bench->failed = true;
}

static void time_all(side_t *side) {
  calibrate_timings_t *timings = &side->timings;
  keep_min(&timings->trip, (int64_t)(time_of(side, trips, TRIPS) * 500 / TRIPS));
  keep_min(&timings->get, (int64_t)(time_of(side, short_gets, TRIPS) * 1000 / TRIPS));
  for (int probe = 0; probe < CALIBRATE_PROBE_COUNT; probe++) {
    keep_min(&timings->calls[probe], call_ps(side, (calibrate_probe_t)probe));
  }
  for (int i = 0; i < TUNE_SIZES; i++) time_size(side, i);
}

static void *measure_side(void *argument) {
  side_t *side = argument;
  const bench_t *bench = side->bench;
  const tune_counts_t *counts[CALIBRATE_PROBE_COUNT];
  bind_to(side, side->thread.number);
  side->cpu = sched_getcpu();
  memset(side->sources, 0, 2 * POOL_BYTES + CALIBRATE_SHARED_BYTES);
  for (int i = 0; i < REPETITIONS; i++) time_all(side);
  bind_to_one_thread(side);
  side->thread.shares_core = true;
  side->timings.context_switch = (int64_t)(time_of(side, syncs, SWITCHES) * 1000 / SWITCHES);
  for (int probe = 0; probe < CALIBRATE_PROBE_COUNT; probe++) {
    counts[probe] = &bench->profiles[probe].once[TUNE_SMALL];
  }
  calibrate_price(&side->timings, counts, bench->gets, &side->costs);
  return NULL;
}

static void prepare_side(bench_t *bench, int number) {
  char *memory = bench->memory + (size_t)number * (2 * POOL_BYTES + CALIBRATE_SHARED_BYTES);
  bench->sides[number] = (side_t){.sources = memory,
                                  .dests = memory + POOL_BYTES,
                                  .shared = memory + 2 * POOL_BYTES,
                                  .comm = bench->comms[number],
                                  .bench = bench,
                                  .costs = tune_machine_builtin,
                                  .thread = {.pair = &bench->pair, .number = number}};
}

/* A system call that is forbidden takes no time worth measuring. */
static bool can_get(const bench_t *bench) {
  uint64_t word;
  bool gone;
  uint64_t from = (uint64_t)(uintptr_t)bench->memory;
  return transport_get(getpid(), &word, from, sizeof word, &gone) == COLL_OK && !gone;
}

static bool make_profiles(bench_t *bench) {
  for (int probe = 0; probe < CALIBRATE_PROBE_COUNT; probe++) {
    const algo_t *algo;
    if (algo_find(COLL_ALLREDUCE, probes[probe].algo, &algo) != COLL_OK) return false;
    if (tune_profile_make(algo, 2, NULL, &plan_host_capabilities, &bench->profiles[probe]) !=
        COLL_OK)
      return false;
  }
  return true;
}

/* The calling thread is side 0, and may run anywhere. */
static bool measure_both(bench_t *bench, result_t *result) {
  pthread_t other;
  if (topo_machine_facts(bench->machine).cores < 2 || !make_profiles(bench)) return false;
  bench->gets = can_get(bench);
  bench->pair.deadline_ns = base_clock_now_ns() + DEADLINE_NS;
  for (int i = 0; i < 2; i++) prepare_side(bench, i);
  if (pthread_create(&other, NULL, measure_side, &bench->sides[1]) != 0) return false;
  measure_side(&bench->sides[0]);
  pthread_join(other, NULL);
  result->costs = bench->sides[0].costs;
  for (int i = 0; i < 2; i++) result->cpus[i] = bench->sides[i].cpu;
  return !bench->failed && !bench->pair.is_late;
}

static bool measure_in(bench_t *bench, result_t *result) {
  size_t bytes = 2 * (2 * POOL_BYTES + CALIBRATE_SHARED_BYTES);
  if (topo_machine_create(&bench->machine) != COLL_OK) return false;
  void *memory;
  bool measured = false;
  if (transport_memory_alloc(bytes, &memory) ==
      COLL_OK) { /* the same kind as users' mapped memory */
    bench->memory = memory;
    const comm_settings_t settings = {.topo_file = "", .inherited.transport.choice.shm = true};
    if (lifetime_create_local(2, 2, &settings, &tune_machine_builtin, bench->comms) == COLL_OK) {
      measured = measure_both(bench, result);
      for (int i = 0; i < 2; i++) lifetime_destroy(bench->comms[i]);
    }
    transport_memory_free(memory);
  }
  topo_machine_destroy(bench->machine);
  return measured;
}

/* ---- the thread that measures ---------------------------------------------------------------*/

/* The calling rank may be bound to one core; this thread undoes that for itself. */
static void *measure_unbound(void *argument) {
  result_t *result = argument;
  bench_t bench = {.failed = false};
  cpu_set_t all;
  memset(&all, 0xff, sizeof all);
  sched_setaffinity(0, sizeof all, &all);
  result->measured = measure_in(&bench, result);
  return NULL;
}

/* Signals are blocked: they are meant for the program's own threads. */
bool calibrate_costs_measure(tune_machine_t *costs, int cpus[2]) {
  result_t result = {.measured = false};
  pthread_t thread;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  bool started = pthread_create(&thread, NULL, measure_unbound, &result) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (!started) return false;
  pthread_join(thread, NULL);
  if (!result.measured) return false;
  *costs = result.costs;
  memcpy(cpus, result.cpus, sizeof result.cpus);
  return true;
}
