/*
 * The communicator: its ranks, the transports to them, the cached plans, and the ticket lock that
 * orders calls. batch.h and fastpath.h run calls; create.h and split.h make communicators.
 */
#ifndef COMM_COMM_H
#define COMM_COMM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/fork.h"
#include "base/handles.h"
#include "base/net/secret.h"
#include "base/ranks.h"
#include "bootstrap/process.h"
#include "comm/cache_entry.h"
#include "comm/network.h"
#include "engine/world.h"
#include "transport/settings.h"
#include "tune/tune.h"

#define COMM_ERROR_BYTES 512

/* The process of a peer. */
typedef struct comm_peer {
  int32_t pid;                 /* for messages */
  bool is_first;               /* the lowest rank of its process */
  bootstrap_process_t process; /* for messages */
} comm_peer_t;

/* Reused by all sends to one peer, or by all receives from it. */
typedef struct comm_pair {
  uint64_t calls; /* calls begun */
  plan_step_t step;
  plan_lane_t lane;
  plan_program_t program;
  plan_t plan;
  engine_run_t run;
  engine_call_t call;
} comm_pair_t;

/* What the next `calls` calls expect, because the last address exchange found buffers that allow no
 * further reach. An exchange has the same result on all ranks, so all ranks hold the same values.
 */
typedef struct comm_expectation {
  uint8_t calls;
  uint8_t reach; /* a plan_reach_t */
} comm_expectation_t;

/* Results of the tuner for one collective. */
typedef struct comm_tuning {
  tune_profile_t *profiles; /* of all algorithms, in registry order; NULL before the first call */
  int count;
  /* 1 + the index of the chosen profile; 0: not chosen yet. Indices: the order that the call
   * requires of its reductions, reach, log2 of the element size, fine size class of the block. */
  uint8_t chosen[TUNE_ORDER_COUNT][PLAN_REACH_COUNT][4][TUNE_FINE_CLASSES];
  comm_expectation_t expected[TUNE_CLASSES]; /* by size class */
} comm_tuning_t;

/* The scalar of a premul-sum. */
typedef struct comm_scalar {
  const void *address; /* where each call reads it when it begins; NULL: `value` has it */
  uint64_t value;      /* the bytes of one element */
} comm_scalar_t;

typedef struct comm_premul {
  coll_op_t op;
  coll_dtype_t dtype;
  comm_scalar_t scalar;
} comm_premul_t;

/* State of a rank's wait at the time this rank read it. */
typedef struct comm_snapshot {
  uint64_t changes, polls; /* as in flight_standstill_t */
  /* For the report: another rank may find the same and end its wait before this one reports it. */
  flight_call_t call;
  uint64_t number;
  int waits_for;  /* the lowest rank */
  bool elsewhere; /* it waits on another communicator only */
} comm_snapshot_t;

/* State of deadlock.c. Arrays are indexed by rank. */
typedef struct comm_deadlock {
  int count;                     /* ranks found to wait for each other; 0: none */
  bool across;                   /* by the waits of their processes, on all communicators */
  bool waited_together;          /* `before` is of a time at which all were in these waits */
  comm_snapshot_t *before, *now; /* [size]: of an earlier look at them, and of the last */
  int *order;                    /* [size]: the ranks found, this rank first */
  base_ranks_t found;
} comm_deadlock_t;

/* Time limits of a wait within one call: after hang_ns the wait is reported (hang.h), after
 * timeout_ns the communicator fails. 0: no limit. */
typedef struct comm_limits {
  uint64_t hang_ns, timeout_ns;
} comm_limits_t;

/* Settings of the communicator that its splits have too, unless their config says otherwise. */
typedef struct comm_inherited {
  transport_settings_t transport;
  const char *algorithms[COLL_COLLECTIVE_COUNT]; /* as `forced` below: COLL_ALGO */
} comm_inherited_t;

/* How a rank may access its peers' memory. */
typedef struct comm_access {
  bool get;      /* COLL_GET: read it by the transport's get where that works */
  bool reports;  /* COLL_DEBUG: report on standard error what was found */
  bool is_local; /* made for ranks of one process, or split off: get is not used */
} comm_access_t;

/* State of hang.c: the wait that is being measured. */
typedef struct comm_hang {
  uint64_t begin_ns;  /* when the wait began; identifies it */
  uint64_t seen_ns;   /* when the wait was last checked */
  uint64_t waited_ns; /* time waited while this rank was awake */
} comm_hang_t;

/* The callback of coll_comm_set_progress (progress.h). */
typedef struct comm_progress {
  _Atomic(const void *) owner; /* the thread that runs or changes the callback; NULL: none */
  _Atomic bool is_set;
  _Atomic uint64_t called_ns; /* when it last returned */
  /* Belong to the owner. */
  void (*callback)(void *context);
  void *context;
} comm_progress_t;

/* Sends and receives of several threads (combine.h). */
typedef struct comm_publication comm_publication_t;
typedef struct comm_combine {
  _Atomic(comm_publication_t *) arrivals; /* a stack: pushed by any thread, emptied by the holder */
  /* Written by any thread that makes a send or receive. */
  _Atomic(const void *) thread; /* the first one; NULL: none */
  _Atomic bool by_threads;      /* there were others */
  const void *maker;            /* the thread that made the communicator; NULL: it made several */
  /* The fields below belong to the holder of the lock. */
  bool is_holding; /* by run_combine_take */
  uint64_t last_ticket;
  comm_publication_t *combined, *waiting;
} comm_combine_t;

/* Links of the list of all communicators of the process (process.h). Guarded by its lock. */
typedef struct comm_link {
  struct coll_comm *next, *previous;
  bool listed;
} comm_link_t;

/* What lifetime/ does with communicators, for rooms that it uses itself. */
typedef struct comm_lifetime {
  /* Collective. One of the same ranks, for calls on the host. */
  coll_status_t (*duplicate)(struct coll_comm *comm, struct coll_comm **made);
  coll_status_t (*leave)(struct coll_comm *comm); /* the checks before it is destroyed */
  void (*destroy)(struct coll_comm *comm);
} comm_lifetime_t;

/* The ticket lock (lock.h). A call, or a batch of calls, draws the next ticket when it is made and
 * runs once now_serving equals it. */
typedef struct comm_order {
  _Atomic uint64_t next_ticket; /* written by any thread, by atomic add or compare-exchange */
  _Atomic uint64_t now_serving; /* written by the holder of the lock */
} comm_order_t;

/* Of plan_cache.c: what calls are carried out by. Belongs to the holder of the lock. */
typedef struct comm_plans {
  tune_machine_t costs; /* the same on every rank */
  comm_plan_t **list;
  size_t count, capacity;
  comm_cache_entry_t cache[COMM_CACHE_ENTRIES]; /* comm_cache_slot */
  comm_tuning_t tunings[COLL_COLLECTIVE_COUNT];
  const algo_t *used[COLL_COLLECTIVE_COUNT];
  const char *forced[COLL_COLLECTIVE_COUNT]; /* name of the algo_t that the user forced, or NULL */
  struct comm_loaded *loaded[COLL_COLLECTIVE_COUNT]; /* the plan in use (loaded.h), or NULL */
  struct comm_loaded *all_loaded;                    /* owned: these and earlier ones */
} comm_plans_t;

/* Of watch/. Belongs to the holder of the lock, but for grace_polls. */
typedef struct comm_watched {
  base_ranks_t waits_for; /* scratch: the ranks that this one waits for */
  comm_deadlock_t deadlock;
  comm_limits_t limits; /* set before the first call */
  comm_hang_t hang;
  uint64_t grace_polls; /* of cross_wait.c, under its lock: the polls when the grace period began */
} comm_watched_t;

/* Of failure.c and comm.c. */
typedef struct comm_errors {
  /* The failure that ended the communicator. Written once, by the holder of the lock: first the
   * text, then the status with release. */
  char failure_text[COMM_ERROR_BYTES];
  _Atomic int failure;
  /* Whether a call of this rank has returned the failure, whichever rank detected it. Written by
   * any thread. */
  _Atomic bool failure_returned;
  char last[COMM_ERROR_BYTES]; /* of the latest failed call; guarded by comm->lock */
} comm_errors_t;

/* Guarded by comm->lock. */
typedef struct comm_premuls {
  comm_premul_t *list;
  size_t count, capacity;
  int made; /* number of premul-sums ever created */
} comm_premuls_t;

/* Of offload/window.c; guarded by comm->lock. */
typedef struct comm_windows {
  struct coll_window *first; /* owned: those not destroyed yet */
  uint64_t made;             /* number of windows ever begun */
} comm_windows_t;

struct coll_comm {
  base_handle_tag_t tag; /* of a comm_state_t (base/fork.h); 0: destroyed */

  /* What it is: the same while it lives. */
  int rank, size;
  comm_peer_t *peers; /* [size] */
  bool one_pid_space; /* all peers are in this process's pid namespace */
  bool paced;         /* messages take as long as the layout's links do */
  bool bound;         /* the first and the last rank are bound to disjoint sets of cores */
  bool reproducible;  /* results depend on values, dtype, op and size only; same on all ranks */
  bool nonblocking;   /* its creation did not block, and its splits do not */
  bool near_gpu;      /* NVIDIA's driver was in the process when it was made, so buffers may be a
                         GPU's. Calls then do not take the fast path */
  int cores;      /* number of hardware threads that the ranks may run on, in total; at least 1 */
  int spin_limit; /* polls before a waiting rank yields its core */
  pid_t process;  /* that made it */
  topo_layout_t *layout; /* where the ranks are; NULL: on one host, with nothing known of it */
  comm_network_cost_t network; /* of the slowest of its hosts; hop_ps is 0: not measured */
  transport_t *local;          /* to the ranks of this machine; today these are all ranks */
  transport_t *self;
  engine_world_t world;
  base_secret_t secret;       /* of its ranks; those of splits are derived from it */
  comm_inherited_t inherited; /* set before the first call */
  comm_access_t access;       /* set when the communicator is complete */
  const comm_lifetime_t *lifetime;

  comm_order_t order;

  /* What its calls have in common: belongs to the holder of the lock. */
  uint64_t sequence;     /* number of collectives begun */
  uint64_t history;      /* digest of these collectives (flight/call.h) */
  comm_pair_t **pairs;   /* [2 * peer] receives, [2 * peer + 1] sends; NULL before the first one */
  void *retained_memory; /* memory of the failed call that peers may still read; or NULL */

  /* Its parts, each of one room or file. */
  comm_plans_t plans;
  comm_combine_t combine;
  comm_progress_t progress;
  comm_watched_t watched;
  comm_errors_t errors;
  pthread_mutex_t lock; /* guards what says so */
  comm_premuls_t premuls;
  comm_windows_t windows;
  comm_link_t link;
  _Atomic(struct offload *) gpu; /* made when its ranks connect (offload/state.h); or NULL */
  struct lifetime_async *async; /* makes, splits or finalizes it, or has done so (lifetime/async.h);
                                   or NULL */
};

/* Numbers of tags; the kinds of streams are others (api/stream.h). */
typedef enum comm_state {
  COMM_LIVE,       /* 0: its tag is base_fork_tag, which calls compare */
  COMM_CREATING,   /* a thread makes it (async.h) */
  COMM_SPLITTING,  /* a thread splits it */
  COMM_FINALIZING, /* its last calls are waited for */
  COMM_FINALIZED,  /* it takes no more calls */
  COMM_NOT_MADE,   /* `failure` says why; there is nothing else */
  COMM_NONE        /* no handle of this process, or a destroyed one */
} comm_state_t;

/* Where all communicators are. Hidden, so that it is read without its address being loaded before.
 */
extern base_handles_t comm_handles __attribute__((visibility("hidden")));

/* False for whatever is no handle or a destroyed one, for those that a process made from which this
 * one was forked, for communicators that a thread makes or splits, and for
 * finalized ones. */
static inline bool comm_is_live(const struct coll_comm *comm) {
  return base_handles_tag(&comm_handles, comm) == base_fork_tag;
}

static inline comm_state_t comm_state_of(const struct coll_comm *comm) {
  uint64_t state = base_handles_tag(&comm_handles, comm) - base_fork_tag;
  return state < COMM_NONE ? (comm_state_t)state : COMM_NONE;
}

/* release: whoever sees the state sees what was written before */
static inline void comm_set_state(struct coll_comm *comm, comm_state_t state) {
  uint64_t tag = state == COMM_NONE ? 0 : base_fork_tag + state;
  atomic_store_explicit(&comm->tag, tag, memory_order_release);
}

/* Whether several threads have made sends and receives. */
static inline bool comm_is_used_by_threads(const struct coll_comm *comm) {
  return atomic_load_explicit(&comm->combine.by_threads, memory_order_relaxed);
}

/* Whether a process made it from which this one was forked. Nothing but `process`, `rank` and
 * `size` is then used: its locks may be held for ever, and the rest is shared with that process. */
bool comm_is_inherited(const struct coll_comm *comm);

/* COLL_ERROR_INVALID if it is inherited; else COLL_OK. */
coll_status_t comm_check_inherited(const struct coll_comm *comm);

/* Whether rank and size are known: it is a live one, or an inherited one that was made. */
bool comm_has_rank(const struct coll_comm *comm);

BASE_COLD coll_status_t comm_fail_not_live(const struct coll_comm *comm); /* states.c */

/* Whether a thread makes the communicator in a handle that the user has already. */
static inline bool comm_is_handle(const struct coll_comm *comm) {
  return comm_state_of(comm) == COMM_CREATING;
}

/* COLL_ERROR_INVALID unless `comm` is a live communicator; the failure of one that could not be
 * made. */
static inline coll_status_t comm_check(const struct coll_comm *comm) {
  return comm_is_live(comm) ? COLL_OK : comm_fail_not_live(comm);
}

/* Fails the communicator on all ranks because of `failed_rank`. The thread's last error becomes the
 * reason. Returns `status`. */
coll_status_t comm_fail(struct coll_comm *comm, coll_status_t status, int failed_rank);

/* Begins a collective with this identity: numbers it, records it in the flight recorder, and sets
 * the identity that its messages carry. Returns its number. */
BASE_INLINE uint64_t comm_collective_begin(struct coll_comm *comm, flight_call_t id,
                                           engine_call_t *call) {
  uint64_t number = comm->sequence++, history = comm->history;
  flight_record(comm->local->flight, number, id.what, id.count);
  call->id = (flight_call_t){flight_what_at(id.what, number), id.count + history};
  call->history = history;
  comm->history = flight_history_add(history, id);
  return number;
}

/* True until the communicator fails, on this rank or elsewhere: a rank that sets `failure` also
 * aborts the transport. */
BASE_INLINE bool comm_is_usable(struct coll_comm *comm) {
  /* acquire: the description of the failure is visible */
  return atomic_load_explicit(comm->local->abort_word, memory_order_acquire) == 0;
}

/* Returns the failure that ended the communicator and makes it this thread's last error. */
coll_status_t comm_fail_again(struct coll_comm *comm);

/* The rank because of which the communicator has failed; -1: there is none (coll.h). */
int comm_failed_rank(struct coll_comm *comm);

/* "rank 3 (pid 17) died", or why it is lost otherwise. Takes 0.4 s if its process lives. */
#define COMM_LOSS_BYTES 256
void comm_describe_loss(const struct coll_comm *comm, int peer, char text[COMM_LOSS_BYTES]);

/* A rank that is lost, or -1. */
int comm_lost_rank(const struct coll_comm *comm);

/* Ends the communicator on all ranks because of failed_rank. Callable from any thread. */
void comm_abort(struct coll_comm *comm, int failed_rank, const char *why);

/* The name of the algorithm that the user forced for the call, or that it is of a loaded plan;
 * NULL: neither. */
const char *comm_forced_name(flight_call_t call);

/* Returns COLL_ERROR_MISMATCH, with the text of flight_mismatch. */
coll_status_t comm_fail_mismatch(int rank, uint64_t number, flight_call_t call, int peer,
                                 uint64_t peer_number, flight_call_t peer_call);

BASE_INLINE coll_status_t comm_failure(struct coll_comm *comm) {
  return comm_is_usable(comm) ? COLL_OK : comm_fail_again(comm);
}

/* The same for a rank that may make no calls for long, so that nothing else receives an abort. */
coll_status_t comm_poll_failure(struct coll_comm *comm);

/* The pair for sends to the peer or receives from it; created on first use. */
coll_status_t comm_pair_of(struct coll_comm *comm, bool sends, int peer, comm_pair_t **pair);
void comm_pairs_free(struct coll_comm *comm);

/* Whether `op` is a premul-sum of this communicator for dtype; sets *scalar if it is. */
bool comm_premul_find(struct coll_comm *comm, coll_op_t op, coll_dtype_t dtype,
                      comm_scalar_t *scalar);

/* Copies the thread's last error to the communicator's last_error. Returns `status`. */
coll_status_t comm_record_error(struct coll_comm *comm, coll_status_t status);

/* Copies the text of the communicator's latest failure, "" before any, why it could not be made, or
 * that it is inherited. False: it is being made, split or finalized, or is no communicator. */
bool comm_read_error(struct coll_comm *comm, char text[COMM_ERROR_BYTES]);

#endif
