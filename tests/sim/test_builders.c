/* Runs of all builders' plans, followed by FIFOs that are counted here. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "algo/algo.h"
#include "base/alloc.h"
#include "sim/sim.h"

typedef struct count {
  const sim_t *sim;
  bool *ran;       /* [passes * steps] */
  int64_t *queued; /* [source][destination][lane or channel][message or signal] */
} count_t;

static int64_t *queue_of(const count_t *count, int32_t source, int32_t destination, int32_t number,
                         bool is_signal) {
  cr_assert_lt(number, count->sim->plan->lanes, "a channel of %s", count->sim->plan->algorithm);
  size_t pair = sim_rank_lane(count->sim, source, 0) * (size_t)count->sim->plan->shape.size +
                sim_rank_lane(count->sim, destination, 0);
  return &count->queued[(pair + (size_t)number) * 2 + is_signal];
}

static void take(int64_t *queue, const plan_t *plan) {
  cr_assert_gt(*queue, 0, "%s receives what is not there", plan->algorithm);
  --*queue;
}

static void follow(void *context, const sim_step_t *at) {
  const count_t *count = context;
  const plan_t *plan = count->sim->plan;
  const plan_step_t *step = at->step;
  cr_assert(!count->ran[at->number]);
  cr_assert(at->index == 0 || count->ran[at->number - 1]);
  cr_assert(at->awaited == SIM_NONE || count->ran[at->awaited]);
  count->ran[at->number] = true;
  int64_t *queue;
  switch (step->kind) {
    case PLAN_SEND:
      queue = queue_of(count, at->rank, step->send.peer, step->send.channel, false);
      cr_assert_leq(++*queue, PLAN_FIFO_DEPTH, "%s", plan->algorithm);
      break;
    case PLAN_RECV:
      take(queue_of(count, step->recv.peer, at->rank, step->recv.channel, false), plan);
      break;
    case PLAN_SIGNAL: ++*queue_of(count, at->rank, step->signal.peer, at->lane, true); break;
    case PLAN_WAIT: take(queue_of(count, step->wait.peer, at->rank, at->lane, true), plan); break;
    default: break;
  }
}

static void run_plan(const plan_t *plan, size_t passes, bool exchanges) {
  sim_t sim;
  cr_assert_eq(sim_open(plan, PLAN_FIFO_DEPTH, &sim), COLL_OK);
  count_t count = {.sim = &sim};
  size_t queues = sim.lanes * sim.lanes * 2;
  cr_assert_eq(base_alloc(passes * sim.count + 1, sizeof(bool), "a test", (void **)&count.ran),
               COLL_OK);
  cr_assert_eq(base_alloc(queues, sizeof(int64_t), "a test", (void **)&count.queued), COLL_OK);
  sim_begin(&sim, passes, exchanges);
  sim_run(&sim, follow, &count);
  cr_assert_eq(sim_check_ended(&sim), COLL_OK, "%s", base_last_error());
  for (size_t i = 0; i < queues; i++) cr_assert_eq(count.queued[i], 0);
  free(count.queued);
  free(count.ran);
  sim_close(&sim);
}

Test(sim_builders, run_every_plan) {
  for (int c = 0; c < COLL_COLLECTIVE_COUNT; c++) {
    const algo_t *algo;
    for (int i = 0; (algo = algo_at((coll_collective_t)c, i)) != NULL; i++) {
      for (int size = 2; size <= 8; size += 3) {
        const plan_shape_t shape = {.collective = algo->collective, .size = size};
        plan_t *plan;
        if (!algo_suits(algo, &shape)) continue;
        cr_assert_eq(algo_build(algo, &shape, ALGO_ALL_RANKS, false, &plan), COLL_OK);
        run_plan(plan, 3, false);
        run_plan(plan, 2, true);
        plan_free(plan);
      }
    }
  }
}
