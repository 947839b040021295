/*
 * A call under way: a state machine from its turn to its result. Never blocks.
 */
#ifndef COMM_TASK_H
#define COMM_TASK_H

#include "comm/call.h"
#include "engine/exchange.h"
#include "engine/run.h"

typedef enum comm_task_state {
  COMM_TASK_WAITING,    /* for calls before it */
  COMM_TASK_EXCHANGING, /* in the handshake */
  COMM_TASK_RUNNING,
  COMM_TASK_DONE
} comm_task_state_t;

typedef struct comm_task {
  const comm_call_t *call;
  comm_task_state_t state;
  uint64_t number;            /* of a collective on its communicator, else on its pair; from 0 */
  uint64_t end_number;        /* of a collective: behind the last one that it stands for */
  flight_call_t id;           /* without number and history; of a pair, with its direction */
  engine_call_t *engine_call; /* as the communicator keeps it */
  engine_exchange_t handshake;
  engine_run_t *run; /* likewise, once under way */
  bool ran;          /* the run is done */
  bool published;    /* what its communicator waits for is (watch.h) */
  bool offers_due;   /* the run began before the handshake had heard from every peer */
  comm_cache_entry_t *entry;
  void *scaled; /* premul-sum: the send buffer times the scalar; from shm_memory_alloc */
} comm_task_t;

static inline void comm_task_init(comm_task_t *task, const comm_call_t *call) {
  task->call = call;
  task->state = COMM_TASK_WAITING;
  task->offers_due = false;
  task->ran = false;
  task->published = false;
  task->entry = NULL;
  task->scaled = NULL;
}

/* Instead of the first step, where the collective was begun with what is prepared. */
static inline void comm_task_resume(comm_task_t *task, comm_cache_entry_t *prepared) {
  task->state = COMM_TASK_RUNNING;
  task->end_number = task->call->comm->sequence;
  task->number = task->end_number - 1;
  task->id = prepared->id;
  task->entry = prepared;
  task->engine_call = &prepared->call;
  task->run = &prepared->run;
}

/* The first step, when its turn has come; then advance until the state is DONE. */
coll_status_t comm_task_start(comm_task_t *task);
coll_status_t comm_task_advance(comm_task_t *task, bool *moved);

static inline bool comm_task_is_under_way(const comm_task_t *task) {
  return task->state == COMM_TASK_EXCHANGING || task->state == COMM_TASK_RUNNING;
}

/* Adds the ranks that a task under way waits for. */
void comm_task_waits_for(const comm_task_t *task, base_ranks_t *ranks);

/* How far the task has come, in numbers that grow from call to call and mean about the same on all
 * ranks, and whom it misses (bit r % 64 for rank r). False where it cannot tell. */
bool comm_task_standstill(const comm_task_t *task, uint64_t *place, uint64_t *missing);

/* Whether a few ranks do the work of all (algo.h). */
static inline bool comm_task_has_executor(const comm_task_t *task) {
  return task->call->kind == COMM_COLLECTIVE && task->entry->plan->algo->by_executor;
}

void comm_task_free_scaled(comm_task_t *task);

/* Lets go of what the task owns, whatever its state. */
static inline void comm_task_close(comm_task_t *task) {
  if (task->scaled != NULL) comm_task_free_scaled(task);
}

#endif
