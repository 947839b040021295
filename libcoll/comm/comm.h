/*
 * The communicator: who the ranks are, the ways between them, the plans they use, and whose turn it
 * is. What carries out calls is in batch.h and repeat.h; how a communicator comes to be is in
 * create.h.
 */
#ifndef COMM_COMM_H
#define COMM_COMM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/ranks.h"
#include "comm/plan_cache.h"
#include "engine/world.h"
#include "tune/tune.h"

#define COMM_ERROR_BYTES 512

/* Who a peer is. */
typedef struct comm_peer {
  int32_t pid;   /* for sentences */
  bool is_first; /* of the ranks of its process */
} comm_peer_t;

/* What the sends to a peer, or the receives from it, are carried out with. */
typedef struct comm_pair {
  uint64_t calls; /* so far */
  plan_step_t step;
  plan_program_t program;
  plan_t plan;
  engine_run_t run;
  engine_call_t call;
} comm_pair_t;

/* What the tuner has worked out of a collective so far. */
typedef struct comm_tuning {
  tune_profile_t *profiles; /* of every algorithm, in the registry's order; NULL before any call */
  int count;
  /* 1 + the profile chosen, 0 before, by whether the call asks for an order of its reductions (of
   * elements of one size, all that do ask for the same), reach, logarithm of the element's size and
   * class of the block's. */
  uint8_t chosen[2][PLAN_REACH_COUNT][4][TUNE_CLASSES];
  /* By class: the next calls for which the ranks do not meet, as some rank's memory could not be
   * mapped when they last did. Meetings end alike for all, so all ranks count alike. */
  uint8_t exchange_skips[TUNE_CLASSES];
} comm_tuning_t;

typedef struct comm_premul {
  coll_op_t op;
  coll_dtype_t dtype;
  uint64_t scalar; /* an element's bytes */
} comm_premul_t;

/* Where a rank stood in its wait, when this one looked. */
typedef struct comm_snapshot {
  uint64_t changes, looks; /* as of flight_standstill_t */
} comm_snapshot_t;

/* For deadlock.c, by rank. */
typedef struct comm_deadlock {
  int count;                     /* ranks that were found to wait for each other; 0: none were */
  comm_snapshot_t *before, *now; /* [size]: when they were found first, and last */
  int *order;                    /* [size]: the ranks found, this one first */
  base_ranks_t found;
} comm_deadlock_t;

/* How long a rank waits in a call before it is reported (hang.h), and before the communicator is
 * finished; 0: for ever. */
typedef struct comm_limits {
  uint64_t hang_ns, timeout_ns;
} comm_limits_t;

/* For hang.c: the wait that is measured. */
typedef struct comm_hang {
  uint64_t begin_ns;  /* when it began, which tells it from others */
  uint64_t seen_ns;   /* when it was last found to go on */
  uint64_t waited_ns; /* of it, as far as this rank was awake */
} comm_hang_t;

/* The process's list of communicators (process.h), under its lock. */
typedef struct comm_link {
  struct coll_comm *next, *previous;
  bool listed;
} comm_link_t;

struct coll_comm {
  uint64_t magic; /* COMM_MAGIC while the communicator lives */
  int rank, size;
  comm_peer_t *peers; /* [size] */
  bool one_pid_space; /* the peers' pids are those of this process's namespace */
  engine_world_t world;
  transport_t *local; /* to the ranks of this machine, all of them so far */
  transport_t *self;
  int executors;        /* ranks that lead calls in turns (tune/sched_sim.h) */
  int cores;            /* hardware threads that the ranks may run on, all together; at least 1 */
  bool bound;           /* the first and the last rank cannot be on the same core */
  tune_machine_t costs; /* the same on every rank */
  bool reproducible;    /* bits depend on values, dtype, op and size alone; the same on all ranks */
  int spin_limit;       /* looks at a flag before a wait yields its core */

  /* Turns: a call, or a batch of them, takes the next ticket when it is made and runs when the turn
   * comes to it. next_ticket: any thread, by atomic add or compare-exchange. turn: the thread whose
   * turn it is. */
  _Atomic uint64_t next_ticket, turn;

  /* All below belong to the thread whose turn it is. */
  uint64_t sequence;   /* collectives so far */
  uint64_t history;    /* digest of them (flight/call.h) */
  comm_pair_t **pairs; /* [2 * peer], + 1 for sends; NULL before the first */
  comm_plan_t **plans;
  size_t plan_count, plan_capacity;
  comm_cache_entry_t cache[COMM_CACHE_ENTRIES]; /* comm_cache_slot */
  comm_tuning_t tunings[COLL_COLLECTIVE_COUNT];
  const algo_t *used[COLL_COLLECTIVE_COUNT];
  const char *forced[COLL_COLLECTIVE_COUNT]; /* an algo_t's name, or NULL */
  base_ranks_t waits_for;                    /* scratch of watch.c */
  comm_deadlock_t deadlock;
  comm_limits_t limits; /* set before the first call */
  comm_hang_t hang;
  void *retained_memory; /* memory of the call that failed, which peers may still read; or NULL */

  /* The failure that finished the communicator: text before status, status with release; written
   * once, by the thread whose turn it is. */
  char failure_text[COMM_ERROR_BYTES];
  _Atomic int failure;
  /* Whether a call has returned the failure, whoever found it; by any thread. */
  _Atomic bool failure_returned;

  pthread_mutex_t lock;              /* guards what follows */
  char last_error[COMM_ERROR_BYTES]; /* of the communicator's latest failed call */
  comm_premul_t *premuls;
  size_t premul_count, premul_capacity;
  int premul_made; /* ever */

  comm_link_t link;
};

#define COMM_MAGIC 0x6c6962636f6c6c31u /* "libcoll1" */

/* As far as can be told. */
static inline bool comm_is_live(const struct coll_comm *comm) {
  return comm != NULL && comm->magic == COMM_MAGIC;
}

coll_status_t comm_fail_not_live(const struct coll_comm *comm);

/* COLL_ERROR_INVALID unless `comm` is a live communicator. */
static inline coll_status_t comm_check(const struct coll_comm *comm) {
  return comm_is_live(comm) ? COLL_OK : comm_fail_not_live(comm);
}

/* Ends the communicator for all ranks because of `failed_rank`; keeps the thread's last error as
 * the reason and returns `status`. */
coll_status_t comm_finish(struct coll_comm *comm, coll_status_t status, int failed_rank);

/* Numbers and records a collective that begins, with this identity; tells the engine's call how it
 * travels. Returns its number. */
BASE_INLINE uint64_t comm_collective_begin(struct coll_comm *comm, flight_call_t id,
                                           engine_call_t *call) {
  uint64_t number = comm->sequence++, history = comm->history;
  flight_record(comm->local->flight, number, id.what, id.count);
  call->id = (flight_call_t){flight_what_at(id.what, number), id.count + history};
  call->history = history;
  comm->history = flight_history_add(history, id);
  return number;
}

/* Whether the communicator has not failed, here or elsewhere: who sets `failure` aborts as well. */
BASE_INLINE bool comm_is_sound(struct coll_comm *comm) {
  /* acquire: what was written down of the failure before is seen */
  return atomic_load_explicit(comm->local->abort_word, memory_order_acquire) == 0;
}

/* The failure that finished it, as this thread's last error. */
coll_status_t comm_fail_finished(struct coll_comm *comm);

/* Finishes the communicator for all ranks, because of failed_rank. By any thread. */
void comm_abort(struct coll_comm *comm, int failed_rank, const char *why);

/* The name of the algorithm that the call was forced to; NULL: none. */
const char *comm_forced_name(flight_call_t call);

/* COLL_ERROR_MISMATCH, as flight_mismatch. */
coll_status_t comm_mismatch(int rank, uint64_t number, flight_call_t call, int peer,
                            uint64_t peer_number, flight_call_t peer_call);

/* For a rank that destroys the communicator, by the thread whose turn it is: COLL_ERROR_MISMATCH
 * where messages show that the ranks' calls did not match, or where a mismatch was found that no
 * call of this rank has returned. */
coll_status_t comm_leave(struct coll_comm *comm);

BASE_INLINE coll_status_t comm_failure(struct coll_comm *comm) {
  return comm_is_sound(comm) ? COLL_OK : comm_fail_finished(comm);
}

/* Frees the cache of plans, and what is prepared. */
void comm_plans_free(struct coll_comm *comm);

BASE_COLD coll_status_t comm_cache_miss(struct coll_comm *comm, comm_shape_t shape,
                                        comm_cache_entry_t *place);
BASE_APART coll_status_t comm_cache_lookup_executor(struct coll_comm *comm, comm_shape_t shape,
                                                    int lead, comm_cache_entry_t **prepared);

/* The plan for such a call, led by rank `lead` if it is one that is led (algo.h), and places for
 * the program bound for it, which the engine makes right, and for what the engine is told of the
 * call. What is found stays until the next is asked for. */
BASE_INLINE coll_status_t comm_cache_lookup(struct coll_comm *comm, comm_shape_t shape, int lead,
                                            comm_cache_entry_t **prepared) {
  comm_cache_entry_t *place = comm_cache_slot(comm->cache, shape);
  if (!comm_shape_is(place->shape, shape)) COLL_TRY(comm_cache_miss(comm, shape, place));
  if (lead != 0 && place->plan->algo->by_executor)
    return comm_cache_lookup_executor(comm, shape, lead, prepared);
  comm->used[comm_traits_of(shape).collective] = place->plan->algo;
  *prepared = place;
  return COLL_OK;
}

/* Insists on an algorithm by its name, where it can serve; NULL: on none. */
void comm_force(struct coll_comm *comm, coll_collective_t collective, const char *algo);

/* Whether the call under way, of so many bytes a block, is to be spared the meeting of ranks that
 * its plan asks for, on this and every rank: the latest over such a call, which was of late, found
 * memory that cannot be mapped, and no algorithm is insisted on. comm_note_unmappable says that the
 * call's own meeting did. */
bool comm_exchange_is_skipped(struct coll_comm *comm, coll_collective_t collective, size_t bytes);
void comm_note_unmappable(struct coll_comm *comm, coll_collective_t collective, size_t bytes);

/* For a send to the peer or a receive from it; made when first asked for. */
coll_status_t comm_pair_of(struct coll_comm *comm, bool sends, int peer, comm_pair_t **pair);
void comm_pairs_free(struct coll_comm *comm);

/* The index-th algorithm's price for such a call, a sum if it reduces, as comm_cache_lookup sees
 * it, and whether it is the one that is taken. COLL_ERROR_INVALID past the last. */
coll_status_t comm_estimate(struct coll_comm *comm, coll_collective_t collective, size_t bytes,
                            coll_dtype_t dtype, plan_reach_t reach, int index,
                            tune_estimate_t *estimate, bool *chosen);

/* Whether `op` is a premul-sum of this communicator for dtype, and its scalar. */
bool comm_premul_find(struct coll_comm *comm, coll_op_t op, coll_dtype_t dtype, uint64_t *scalar);

/* Keeps the thread's last error as the communicator's. Returns `status`. */
coll_status_t comm_keep_error(struct coll_comm *comm, coll_status_t status);

#endif
