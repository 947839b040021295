/*
 * Simulates round-robin scheduling of more ranks than cores: each core runs one rank until it
 * blocks, then the next runnable one; the cores are advanced alternately. Calls follow one another
 * without a pause, so a rank that ends a call begins the next one in the same time slice. The
 * duration of time slices is not modelled.
 */
#include "tune/sched_sim.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define WARMUPS 2 /* calls until the schedule is periodic */

typedef struct sim_rank {
  int call;     /* current call, from 0 */
  size_t *next; /* [lanes]: step */
} sim_rank_t;

typedef struct sched_sim {
  plan_t *plan;
  int cores;
  sim_rank_t *ranks; /* [ranks] */
  int64_t *pending;  /* per channel: messages or signals that were sent and not yet received */
} sched_sim_t;

/* number: a message's channel, which in builders' plans is below the number of lanes, or a signal's
 * lane. */
static int64_t *channel_of(const sched_sim_t *sim, int32_t source, int32_t destination,
                           int32_t number, bool is_signal) {
  int32_t size = sim->plan->shape.size;
  return &sim->pending[((source * size + destination) * sim->plan->lanes + number) * 2 + is_signal];
}

static bool take(int64_t *channel) {
  if (*channel == 0) return false;
  --*channel;
  return true;
}

static bool do_step(const sched_sim_t *sim, int32_t rank, int lane, const plan_step_t *step) {
  const sim_rank_t *rank_state = &sim->ranks[rank];
  switch (step->kind) {
    case PLAN_SEND: {
      int64_t *channel = channel_of(sim, rank, step->send.peer, step->send.channel, false);
      if (*channel == PLAN_FIFO_DEPTH) return false;
      ++*channel;
      return true;
    }
    case PLAN_SIGNAL: ++*channel_of(sim, rank, step->signal.peer, lane, true); return true;
    case PLAN_RECV: return take(channel_of(sim, step->recv.peer, rank, step->recv.channel, false));
    case PLAN_WAIT: return take(channel_of(sim, step->wait.peer, rank, lane, true));
    case PLAN_AFTER: return rank_state->next[step->after.lane] > (size_t)step->after.step;
    default: return true;
  }
}

/* Whether the call may begin: where ranks access each other's buffers, all ranks must have entered
 * it. */
static bool may_begin(const sched_sim_t *sim, int call) {
  const plan_t *plan = sim->plan;
  if (!plan_reach_exchanges(plan->reach)) return true;
  for (int32_t rank = 0; rank < plan->shape.size; rank++) {
    if (sim->ranks[rank].call < call) return false;
  }
  return true;
}

/* Advances all lanes of the rank in its current call until they block. *ended: the call is
 * complete. Returns whether any step ran. */
static bool advance(const sched_sim_t *sim, int32_t rank, bool *ended) {
  sim_rank_t *rank_state = &sim->ranks[rank];
  const plan_t *plan = sim->plan;
  const plan_program_t *program = &plan->programs[rank];
  bool moved = false, retry = may_begin(sim, rank_state->call);
  *ended = retry;
  while (retry) {
    retry = false;
    *ended = true;
    for (int lane = 0; lane < plan->lanes; lane++) {
      const plan_lane_t *steps = &program->lanes[lane];
      while (rank_state->next[lane] < steps->count &&
             do_step(sim, rank, lane, &steps->steps[rank_state->next[lane]])) {
        rank_state->next[lane]++;
        moved = retry = true;
      }
      *ended = *ended && rank_state->next[lane] == steps->count;
    }
  }
  return moved;
}

/* One time slice of a rank: runs until it blocks, over several calls if possible. Returns whether
 * it made progress. */
static bool run_rank(const sched_sim_t *sim, int32_t rank, int calls) {
  sim_rank_t *rank_state = &sim->ranks[rank];
  bool moved = false, ended = true;
  while (rank_state->call < calls && ended) {
    moved = advance(sim, rank, &ended) || ended || moved;
    if (!ended) break;
    rank_state->call++;
    memset(rank_state->next, 0, (size_t)sim->plan->lanes * sizeof *rank_state->next);
  }
  return moved;
}

/* A core: its ranks [first, end), the rank that it runs, and the number of context switches so
 * far. */
typedef struct core {
  int32_t first, end, current;
  int64_t switches;
} core_t;

/* Runs the next runnable rank of the core, the current one last. Returns whether any rank made
 * progress. */
static bool run_core(const sched_sim_t *sim, core_t *core, int calls) {
  for (int32_t i = 1; i <= core->end - core->first; i++) {
    int32_t rank = core->first + (core->current - core->first + i) % (core->end - core->first);
    if (!run_rank(sim, rank, calls)) continue;
    core->switches += rank != core->current;
    core->current = rank;
    return true;
  }
  return false;
}

/* Advances the current ranks of all cores until all block: a rank polls for a while before it
 * yields its core. */
static void run_current_ranks(const sched_sim_t *sim, const core_t cores[], int calls) {
  for (bool moved = true; moved;) {
    moved = false;
    for (int i = 0; i < sim->cores; i++) moved = run_rank(sim, cores[i].current, calls) || moved;
  }
}

/* Runs until all ranks have completed `calls` calls. */
static coll_status_t run_calls(const sched_sim_t *sim, core_t cores[], int calls) {
  for (bool moved = true; moved;) {
    moved = false;
    for (int i = 0; i < sim->cores; i++) {
      moved = run_core(sim, &cores[i], calls) || moved;
      run_current_ranks(sim, cores, calls);
    }
  }
  const plan_t *plan = sim->plan;
  for (int32_t rank = 0; rank < plan->shape.size; rank++) {
    if (sim->ranks[rank].call == calls) continue;
    return base_fail(COLL_ERROR_INTERNAL, "plan %s deadlocks", plan->algorithm);
  }
  return COLL_OK;
}

static int64_t max_switches(const core_t cores[], int count) {
  int64_t max = 0;
  for (int i = 0; i < count; i++) {
    if (cores[i].switches > max) max = cores[i].switches;
  }
  return max;
}

/* Simulates `calls` calls. *switches: the context switches of the core that has the most. */
static coll_status_t switches_of(const sched_sim_t *sim, core_t cores[], int calls,
                                 int64_t *switches) {
  int64_t size = sim->plan->shape.size;
  for (int i = 0; i < sim->cores; i++) {
    cores[i] = (core_t){.first = (int32_t)(size * i / sim->cores),
                        .end = (int32_t)(size * (i + 1) / sim->cores)};
    cores[i].current = cores[i].end - 1;
  }
  COLL_TRY(run_calls(sim, cores, calls));
  *switches = max_switches(cores, sim->cores);
  return COLL_OK;
}

/* Simulates from the initial state, in which all ranks are at the first call. */
static coll_status_t simulate(sched_sim_t *sim, int calls, int64_t *switches) {
  static const char what[] = "a scheduling simulation";
  core_t *cores = NULL;
  size_t *next = NULL;
  size_t size = (size_t)sim->plan->shape.size, lanes = (size_t)sim->plan->lanes;
  coll_status_t status = base_alloc(size, sizeof *sim->ranks, what, (void **)&sim->ranks);
  if (status == COLL_OK) status = base_alloc(size * lanes, sizeof *next, what, (void **)&next);
  for (size_t rank = 0; status == COLL_OK && rank < size; rank++) {
    sim->ranks[rank].next = next + rank * lanes;
  }
  if (status == COLL_OK) {
    status =
        base_alloc(size * size * lanes * 2, sizeof *sim->pending, what, (void **)&sim->pending);
  }
  if (status == COLL_OK) {
    status =
        base_alloc((size_t)sim->cores, sizeof *cores, "a scheduling simulation", (void **)&cores);
  }
  if (status == COLL_OK) status = switches_of(sim, cores, calls, switches);
  free(cores);
  free(next);
  free(sim->pending);
  free(sim->ranks);
  sim->pending = NULL; /* simulate() is called again */
  sim->ranks = NULL;
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
  sched_sim_t sim = {.cores = cores};
  int64_t before = 0, switches = 0, cached_loads = 0;
  if (size > TUNE_WHOLE || profile->verdict != TUNE_POSSIBLE) return COLL_OK;
  const plan_shape_t shape = {
      .collective = profile->algo->collective, .size = size, .layout = profile->layout};
  COLL_TRY(algo_build(profile->algo, &shape, ALGO_ALL_RANKS, false, &sim.plan));
  /* The first and the last calls differ from the others, so the result is the difference of two
   * simulations. */
  coll_status_t status = simulate(&sim, WARMUPS, &before);
  if (status == COLL_OK) status = simulate(&sim, WARMUPS + TUNE_SIM_CALLS, &switches);
  if (status == COLL_OK) status = count_cached_loads(sim.plan, cores, &cached_loads);
  if (status == COLL_OK) {
    profile->switches = switches > before ? switches - before : 1;
    count_work(sim.plan, profile);
    profile->all.chunks[TUNE_PULL] -= cached_loads;
    profile->all.chunks[TUNE_NEAR] += cached_loads;
  }
  plan_free(sim.plan);
  return status;
}
