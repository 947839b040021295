/*
 * A call under way: a state machine from its start to its result. No function here blocks.
 */
#ifndef RUN_TASK_H
#define RUN_TASK_H

#include "engine/drain.h"
#include "engine/exchange.h"
#include "engine/large.h"
#include "engine/run.h"
#include "run/call.h"

typedef enum run_task_state {
  RUN_TASK_WAITING,    /* for the lock or for earlier calls */
  RUN_TASK_EXCHANGING, /* exchanging buffer addresses */
  RUN_TASK_RUNNING,
  RUN_TASK_DONE
} run_task_state_t;

typedef struct run_task {
  struct run_task *next, *previous; /* of the tasks that one thread progresses together */
  const run_call_t *call;
  run_task_state_t state;
  uint64_t number; /* number of a collective on its communicator, of a send or receive on its pair;
                      from 0 */
  uint64_t end_number; /* of a collective: 1 + the number of the last collective it replaces */
  flight_call_t id;    /* without number and history; of a send or receive, with its direction */
  engine_call_t *engine_call; /* part of the plan cache entry or the pair */
  engine_exchange_t exchange;
  engine_run_t *run;  /* part of the plan cache entry or the pair; set once RUNNING */
  bool ran;           /* the run is complete */
  bool published;     /* the wait of its communicator is published (watch.h) */
  bool addresses_due; /* the run began before the addresses of all peers were received */
  bool is_grouped;    /* the previous task belongs to the same batch */
  engine_peer_t
      receiver; /* of a send: for whom it waits at its end (drain.h); port NULL: for none */
  comm_cache_entry_t *entry;
  const void *input; /* what is reduced: the send buffer, or scaled operands */
  void *scaled;      /* memory of its own for them, from transport_memory_alloc; or NULL */
  bool weighted;     /* the operands of an average are scaled: its plan sums */
} run_task_t;

static inline void run_task_init(run_task_t *task, const run_call_t *call) {
  task->next = NULL;
  task->previous = NULL;
  task->call = call;
  task->state = RUN_TASK_WAITING;
  task->addresses_due = false;
  task->ran = false;
  task->published = false;
  task->is_grouped = false;
  task->receiver.port = NULL;
  task->entry = NULL;
  task->input = call->send;
  task->scaled = NULL;
  task->weighted = false;
}

static inline void run_task_link(run_task_t *task, run_task_t *next) {
  task->next = next;
  next->previous = task;
}

/* Replaces run_task_start for a collective that was begun on the fast path with `entry`. */
static inline void run_task_resume(run_task_t *task, comm_cache_entry_t *entry) {
  task->state = RUN_TASK_RUNNING;
  task->end_number = task->call->comm->sequence;
  task->number = task->end_number - 1;
  task->id = entry->id;
  task->entry = entry;
  task->engine_call = &entry->call;
  task->run = &entry->run;
}

/* Whether no earlier task must come first: sends (and receives) between the same two ranks are
 * FIFO, and a communicator runs one collective at a time. Of the sends of a batch to one rank, each
 * of more than TRANSPORT_P2P_BYTES begins when the one before is sent, and waits for what the
 * receiver has of both. */
bool run_task_may_start(const run_task_t *task);

/* Start the task when the lock is held; then advance it until its state is DONE. *moved: it made
 * progress. */
coll_status_t run_task_start(run_task_t *task);
coll_status_t run_task_advance(run_task_t *task, bool *moved);

/* Whether it is a send that waits at its end for what its receiver has (drain.h): for that
 * run_task_advance first looks in the call after the one that has sent all. */
static inline bool run_task_is_ending(const run_task_t *task) {
  return task->state == RUN_TASK_RUNNING && task->ran && task->receiver.port != NULL;
}

/* Whether it waits for the addresses of peers. */
static inline bool run_task_is_exchanging(const run_task_t *task) {
  return task->state == RUN_TASK_EXCHANGING || (task->ran && task->addresses_due);
}

static inline bool run_task_is_under_way(const run_task_t *task) {
  return task->state == RUN_TASK_EXCHANGING || task->state == RUN_TASK_RUNNING;
}

/* Adds the ranks that the task waits for. */
void run_task_waits_for(const run_task_t *task, base_ranks_t *ranks);

/* The progress of the task, a number that grows from call to call and is comparable between ranks,
 * and the ranks it waits for (*missing: bit r % 64 for rank r). False if unknown. */
bool run_task_progress(const run_task_t *task, uint64_t *progress, uint64_t *missing);

/* Whether the task's plan lets one executor rank do the work of all ranks (algo.h). */
static inline bool run_task_has_executor(const run_task_t *task) {
  return task->call->kind == RUN_COLLECTIVE && task->entry->plan->algo->by_executor;
}

void run_task_free_scaled(run_task_t *task);

/* Ends the task, in any state. */
static inline void run_task_close(run_task_t *task) {
  if (task->state == RUN_TASK_RUNNING && !task->ran) engine_run_stop(task->run);
  if (task->scaled != NULL) run_task_free_scaled(task);
}

#endif
