/*
 * Simulates round-robin scheduling of more ranks than cores: each core runs one rank until it
 * blocks, then the next runnable one; the cores are advanced alternately. Calls follow one another
 * without a pause, so a rank that ends a call begins the next one in the same time slice. The
 * duration of time slices is not modelled.
 */
#include "tune/sched_sim.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "sim/sim.h"

#define WARMUPS 2 /* calls until the schedule is periodic */

/* One time slice of a rank: runs until it blocks, over several calls if possible. Returns whether
 * any step ran. */
static bool run_rank(sim_t *sim, int32_t rank) {
  bool moved = false;
  for (bool retry = true; retry;) {
    retry = false;
    for (int32_t lane = 0; lane < sim->plan->lanes; lane++) {
      retry = sim_run_lane(sim, sim_rank_lane(sim, rank, lane), NULL, NULL) || retry;
    }
    moved = moved || retry;
  }
  return moved;
}

/* A core: its ranks [first, end), the rank that it runs, and the number of context switches so
 * far. */
typedef struct core {
  int32_t first, end, current;
  int64_t switches;
} core_t;

typedef struct sched_sim {
  sim_t sim; /* its passes are the calls */
  int count;
  core_t *cores; /* [count] */
} sched_sim_t;

/* Runs the next runnable rank of the core, the current one last. Returns whether any rank made
 * progress. */
static bool run_core(sim_t *sim, core_t *core) {
  for (int32_t i = 1; i <= core->end - core->first; i++) {
    int32_t rank = core->first + (core->current - core->first + i) % (core->end - core->first);
    if (!run_rank(sim, rank)) continue;
    core->switches += rank != core->current;
    core->current = rank;
    return true;
  }
  return false;
}

/* Advances the current ranks of all cores until all block: a rank polls for a while before it
 * yields its core. */
static void run_current_ranks(sched_sim_t *sched) {
  for (bool moved = true; moved;) {
    moved = false;
    for (int i = 0; i < sched->count; i++) {
      moved = run_rank(&sched->sim, sched->cores[i].current) || moved;
    }
  }
}

static int64_t max_switches(const core_t cores[], int count) {
  int64_t max = 0;
  for (int i = 0; i < count; i++) {
    if (cores[i].switches > max) max = cores[i].switches;
  }
  return max;
}

/* Simulates `calls` calls. *switches: the context switches of the core that has the most. */
static coll_status_t simulate(sched_sim_t *sched, size_t calls, int64_t *switches) {
  const plan_t *plan = sched->sim.plan;
  int64_t size = plan->shape.size;
  for (int i = 0; i < sched->count; i++) {
    sched->cores[i] = (core_t){.first = (int32_t)(size * i / sched->count),
                               .end = (int32_t)(size * (i + 1) / sched->count)};
    sched->cores[i].current = sched->cores[i].end - 1;
  }
  sim_begin(&sched->sim, calls, plan_reach_exchanges(plan->reach));
  for (bool moved = true; moved;) {
    moved = false;
    for (int i = 0; i < sched->count; i++) {
      moved = run_core(&sched->sim, &sched->cores[i]) || moved;
      run_current_ranks(sched);
    }
  }
  *switches = max_switches(sched->cores, sched->count);
  return sim_check_ended(&sched->sim);
}

/* The context switches in TUNE_SIM_CALLS calls. The first and the last calls differ from the
 * others, so that is the difference of two simulations. */
static coll_status_t count_switches(const plan_t *plan, int cores, int64_t *switches) {
  sched_sim_t sched = {.count = cores};
  int64_t before = 0, after = 0;
  coll_status_t status = base_alloc((size_t)cores, sizeof *sched.cores, "a scheduling simulation",
                                    (void **)&sched.cores);
  if (status == COLL_OK) status = sim_open(plan, PLAN_FIFO_DEPTH, &sched.sim);
  if (status == COLL_OK) status = simulate(&sched, WARMUPS, &before);
  if (status == COLL_OK) status = simulate(&sched, WARMUPS + TUNE_SIM_CALLS, &after);
  sim_close(&sched.sim);
  free(sched.cores);
  *switches = after > before ? after - before : 1;
  return status;
}

/* The number of chunks that a program loads and stores. */
static int64_t work_of(const plan_program_t *program, int32_t lanes) {
  int64_t work = 0;
  for (int lane = 0; lane < lanes; lane++) {
    for (size_t i = 0; i < program->lanes[lane].count; i++) {
      const plan_step_t *step = &program->lanes[lane].steps[i];
      if (step->kind == PLAN_COPY) work += 2 * step->copy.dst.count;
      if (step->kind == PLAN_REDUCE) {
        work += (1 + step->reduce.source_count) * step->reduce.dst.count;
      }
      if (step->kind == PLAN_SEND) work += 2 * step->send.src.count;
      if (step->kind == PLAN_RECV) work += 2 * step->recv.dst.count;
    }
  }
  return work;
}

static void count_work(const plan_t *plan, tune_profile_t *profile) {
  for (int32_t rank = 0; rank < plan->shape.size; rank++) {
    int64_t work = work_of(&plan->programs[rank], plan->lanes);
    profile->work += work;
    if (work > profile->max_work) profile->max_work = work;
  }
}

/* ---- loads that hit the cache of a core -----------------------------------------------------*/

typedef struct core_caches {
  const plan_t *plan;
  int cores;
  bool *chunks; /* [cores][ranks][scratch_chunks]: loaded by a rank of the core */
  int64_t cached_loads;
} core_caches_t;

static void load_span(core_caches_t *caches, int32_t rank, const plan_span_t *span) {
  const plan_t *plan = caches->plan;
  int32_t core = ((rank + 1) * caches->cores - 1) / plan->shape.size;
  if (span->buffer != PLAN_SCRATCH || span->rank == rank) return;
  size_t row = (size_t)(core * plan->shape.size + span->rank);
  bool *chunks = &caches->chunks[row * (size_t)plan->scratch_chunks];
  for (int32_t i = span->first; i < span->first + span->count; i++) {
    caches->cached_loads += chunks[i];
    chunks[i] = true;
  }
}

static void load_program(core_caches_t *caches, int32_t rank) {
  const plan_program_t *program = &caches->plan->programs[rank];
  for (int lane = 0; lane < caches->plan->lanes; lane++) {
    for (size_t i = 0; i < program->lanes[lane].count; i++) {
      const plan_step_t *step = &program->lanes[lane].steps[i];
      if (step->kind == PLAN_COPY) load_span(caches, rank, &step->copy.src);
      for (int32_t k = 0; step->kind == PLAN_REDUCE && k < step->reduce.source_count; k++) {
        load_span(caches, rank, &program->sources[step->reduce.first_source + k]);
      }
    }
  }
}

/* Counts the loads from peers' scratch of chunks that another rank of the same core has loaded
 * before. */
static coll_status_t count_cached_loads(const plan_t *plan, int cores, int64_t *cached_loads) {
  core_caches_t caches = {.plan = plan, .cores = cores};
  size_t count = (size_t)(cores * plan->shape.size) * (size_t)plan->scratch_chunks;
  COLL_TRY(base_alloc(count + 1, sizeof(bool), "a scheduling simulation", (void **)&caches.chunks));
  for (int32_t rank = 0; rank < plan->shape.size; rank++) load_program(&caches, rank);
  free(caches.chunks);
  *cached_loads = caches.cached_loads;
  return COLL_OK;
}

coll_status_t tune_sched_sim(tune_profile_t *profile, int size, int cores) {
  plan_t *plan;
  int64_t switches = 0, cached_loads = 0;
  if (size > TUNE_WHOLE || profile->verdict != TUNE_POSSIBLE) return COLL_OK;
  const plan_shape_t shape = {
      .collective = profile->algo->collective, .size = size, .layout = profile->layout};
  COLL_TRY(algo_build(profile->algo, &shape, ALGO_ALL_RANKS, false, &plan));
  coll_status_t status = count_switches(plan, cores, &switches);
  if (status == COLL_OK) status = count_cached_loads(plan, cores, &cached_loads);
  if (status == COLL_OK) {
    profile->switches = switches;
    count_work(plan, profile);
    profile->all.chunks[TUNE_PULL] -= cached_loads;
    profile->all.chunks[TUNE_NEAR] += cached_loads;
  }
  plan_free(plan);
  return status;
}
