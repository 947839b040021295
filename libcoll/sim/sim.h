/*
 * Steps through the programs of all ranks of a plan: matches the two ends of messages and signals,
 * keeps how far each lane is, and knows whether its next step may run. What a step costs, clocks
 * and, where it matters, the order of ranks are the caller's.
 *
 * A plan may be run several times in a row: in passes. A rank begins a pass when all its lanes have
 * ended the one before. FIFOs are not emptied in between.
 */
#ifndef SIM_SIM_H
#define SIM_SIM_H

#include "plan/plan.h"

#define SIM_NONE SIZE_MAX
#define SIM_NEVER (SIZE_MAX - 1) /* awaited: what never happens */
#define SIM_UNBOUNDED SIZE_MAX   /* depth: no send ever waits */

/* What a step has to do with others. Steps of a pass are numbered by rank, lane and index; lanes
 * are numbered by rank and lane. */
typedef struct sim_link {
  size_t partner;                       /* the other end of a message or signal, or SIM_NONE */
  size_t awaited;                       /* what it has to wait for: a step, SIM_NONE or SIM_NEVER */
  uint32_t awaited_lane, awaited_index; /* of that step */
  uint32_t lag;                         /* passes between that step and this one */
  uint32_t lane;
} sim_link_t;

/* The next step of a lane. */
typedef struct sim_cursor {
  size_t pass, index;
  int32_t rank;
} sim_cursor_t;

typedef struct sim {
  const plan_t *plan;
  size_t depth;
  size_t lanes, count; /* lanes of all ranks; steps of all lanes in one pass */
  size_t *first;       /* [lanes + 1]: number of each lane's first step */
  sim_link_t *links;   /* [count] */
  /* of the current run */
  size_t passes;
  bool exchanges;
  sim_cursor_t *cursors; /* [lanes] */
  size_t *rank_done;     /* [ranks]: steps, over all passes */
  size_t done;           /* steps of all ranks */
} sim_t;

/* A step in a certain pass. */
typedef struct sim_step {
  const plan_step_t *step;
  const sim_link_t *link;
  int32_t rank, lane; /* lane of the rank */
  size_t pass, index;
  size_t number;  /* below passes * count: counts the steps of earlier passes, too */
  size_t awaited; /* the number of the step that it waits for, SIM_NONE or SIM_NEVER */
} sim_step_t;

typedef enum sim_state {
  SIM_READY,
  SIM_AWAITS_STEP, /* sim_step_t.awaited */
  SIM_AWAITS_PASS, /* the pass may not begin yet */
  SIM_ENDED        /* the lane has no steps left */
} sim_state_t;

/* plan: with the programs of all ranks, which passed plan_check_program; outlives the sim. depth:
 * messages that a FIFO holds, or SIM_UNBOUNDED; with 0 a send runs when its receive is the next
 * step of its lane. Of a FIFO whose ends are not equally many, the steps that have no partner never
 * run, but for sends and signals: these wait for nothing if depth > 0. The caller calls sim_close,
 * also on failure. */
coll_status_t sim_open(const plan_t *plan, size_t depth, sim_t *sim);
void sim_close(sim_t *sim);

/* Begins a run of so many passes. exchanges: ranks exchange addresses before each pass, so none
 * begins it before all have ended the one before. */
void sim_begin(sim_t *sim, size_t passes, bool exchanges);

/* Whether the lane's next step may run; unless the lane has ended, *at is that step. */
sim_state_t sim_look(const sim_t *sim, size_t lane, sim_step_t *at);

/* The next step of the lane has run. */
void sim_advance(sim_t *sim, size_t lane);

/* Is called for each step before sim_advance; NULL: nothing is. */
typedef void sim_take_t(void *context, const sim_step_t *at);

/* Runs the steps of a lane until one may not run. Returns whether any ran. */
bool sim_run_lane(sim_t *sim, size_t lane, sim_take_t *take, void *context);

/* Runs every lane as far as it can go, in turn, until none can go on. */
void sim_run(sim_t *sim, sim_take_t *take, void *context);

static inline bool sim_has_ended(const sim_t *sim) {
  return sim->done == sim->count * sim->passes;
}

/* COLL_OK if all lanes have ended, else COLL_ERROR_INTERNAL: the plan deadlocks. */
coll_status_t sim_check_ended(const sim_t *sim);

static inline size_t sim_lane_steps(const sim_t *sim, size_t lane) {
  return sim->first[lane + 1] - sim->first[lane];
}

/* The number of a lane's last step in a pass; the lane has steps. */
static inline size_t sim_last_number(const sim_t *sim, size_t lane, size_t pass) {
  return pass * sim->count + sim->first[lane + 1] - 1;
}

/* A step by its number within a pass, and its rank. */
static inline int32_t sim_rank_of(const sim_t *sim, size_t number) {
  return (int32_t)(sim->links[number].lane / (size_t)sim->plan->lanes);
}

static inline const plan_lane_t *sim_plan_lane(const sim_t *sim, size_t lane) {
  size_t lanes = (size_t)sim->plan->lanes;
  return &sim->plan->programs[lane / lanes].lanes[lane % lanes];
}

static inline const plan_step_t *sim_plan_step(const sim_t *sim, size_t number) {
  size_t lane = sim->links[number].lane;
  return &sim_plan_lane(sim, lane)->steps[number - sim->first[lane]];
}

static inline size_t sim_rank_lane(const sim_t *sim, int32_t rank, int32_t lane) {
  return (size_t)rank * (size_t)sim->plan->lanes + (size_t)lane;
}

#endif
