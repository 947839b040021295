/*
 * What a communicator has on its GPU. For the files of this folder.
 */
#ifndef OFFLOAD_STATE_H
#define OFFLOAD_STATE_H

#include "comm/comm.h"
#include "offload/gpu.h"
#include "offload/proxy.h"
#include "tune/tune.h"

typedef enum offload_state {
  OFFLOAD_CONNECTING, /* by the thread that made it */
  OFFLOAD_CONNECTED,
  OFFLOAD_REFUSED /* on all ranks; `refusal` says why */
} offload_state_t;

/* A collective that was launched, at its number among these modulo OFFLOAD_LAUNCHES; `sequence` is
 * 1 more than that number, and 0 while the entry is written. */
#define OFFLOAD_LAUNCHES 64
typedef struct offload_launch {
  _Atomic uint64_t sequence, number; /* number: on the communicator */
  _Atomic uintptr_t stream;
} offload_launch_t;

typedef enum offload_loan {
  OFFLOAD_KEPT,
  OFFLOAD_LENT,
  OFFLOAD_BORROWED /* the thread of watch.c has it */
} offload_loan_t;

typedef struct offload {
  _Atomic offload_state_t state; /* written by the thread that connects */
  const cuda_driver_t *driver;
  int device;
  cuda_end_t *end;               /* NULL: not made */
  offload_proxy_t *proxy;        /* of staged calls, in place of `end`; or NULL */
  const tune_machine_t *machine; /* by which algorithms are chosen, and */
  int cores;                     /* as tune_call_t.cores */
  cuda_stream_t stream;          /* for calls without a stream */
  bool has_stream;
  coll_status_t status; /* REFUSED */
  char refusal[COMM_ERROR_BYTES];

  _Atomic offload_loan_t loan; /* of the communicator's lock */

  /* The fields below belong to the holder of the communicator's lock. */
  tune_profile_t
      *profiles[COLL_COLLECTIVE_COUNT]; /* of all algorithms; NULL before the first call */
  int profile_count[COLL_COLLECTIVE_COUNT];
  /* 1 + the index of the chosen algorithm; 0: not chosen yet. Indices: as comm_tuning_t.chosen,
   * with which buffers are in windows (INPUT: 1, OUTPUT: 2) in place of the reach. */
  uint8_t chosen[COLL_COLLECTIVE_COUNT][TUNE_ORDER_COUNT][4][4][TUNE_CLASSES];

  uint64_t queued, asked;  /* launches; those of which the driver has said that they have ended */
  uint64_t launched;       /* collectives */
  _Atomic bool has_graphs; /* some of them were captured */
  offload_launch_t launches[OFFLOAD_LAUNCHES]; /* written by the holder, read by any thread */

  /* Of watch.c, for the holder of the communicator's lock. */
  cuda_seen_wait_t left; /* for a rank that has left */
  uint64_t ended;        /* kernels that had ended, and */
  uint64_t ended_ns;     /* since when no other has while one runs; 0: none runs */

  /* Of the thread of watch.c. */
  uint64_t hang_ns;              /* comm->watched.limits as last seen */
  uint64_t seen_begun, begin_ns; /* kernels that had begun, and since when */
  uint64_t seen_ns, waited_ns;   /* when that was last seen, and how long it was, awake */
  uint64_t reported;             /* kernel `reported` was reported to hang */
  struct coll_comm *comm;

  /* Of the list of watch.c, guarded by its lock. */
  struct offload *next;
  bool leaves; /* its threads do not begin with it any more */
} offload_t;

/* NULL: its ranks have not begun to connect. */
static inline offload_t *offload_of(struct coll_comm *comm) {
  /* acquire: what the thread that made it has written */
  return atomic_load_explicit(&comm->gpu, memory_order_acquire);
}

/* A communicator whose ranks are to be connected, with the GPU of this rank. */
typedef struct offload_member {
  struct coll_comm *comm;
  int device;
  offload_t *gpu;
  bool connects; /* this thread does it */
} offload_member_t;

/* Connects the ranks of all communicators at once, for one thread may hold several ranks of one.
 * Waits for their other ranks. Returns the first refusal or failure. */
coll_status_t offload_connect(offload_member_t members[], size_t count);

/* The program of a plan, and whether the plan accesses INPUT and OUTPUT of peers. */
typedef struct offload_choice {
  const cuda_program_t *program;
  bool reaches[2];
} offload_choice_t;

/* COLL_ERROR_INVALID: the ranks are connected, and this one has another GPU. */
coll_status_t offload_check_device(struct coll_comm *comm, int device);

/* Ends the communicator, because the driver has failed on this rank's GPU with the thread's last
 * error. The caller holds the lock. */
void offload_fail_lost(offload_t *gpu, coll_status_t status);

/* Chooses the plan of a collective, with `bytes` per block, and finds its program on the GPU.
 * in_window: whether INPUT and OUTPUT are in windows, so that plans may access those of peers. The
 * caller holds the lock. */
coll_status_t offload_choose(struct coll_comm *comm, const comm_traits_t *traits, size_t bytes,
                             const bool in_window[2], offload_choice_t *choice);

/* Around functions of the driver, by the holder of the lock, which may block there: where a stream
 * holds as many launches as it can, until a peer has launched its part. Meanwhile the thread of
 * watch.c may do what else the holder of the lock may, so that it finds out if that peer has died.
 */
void offload_lend_lock(offload_t *gpu);
void offload_take_lock_back(offload_t *gpu);

/* Notes a collective that was launched with the kernel's next number. The caller holds the lock. */
void offload_note_launch(offload_t *gpu, uint64_t number, cuda_stream_t stream);

/* Publishes what this rank's kernel waits for, and reports it if it hangs. By the thread of
 * watch.c. */
void offload_show_wait(offload_t *gpu);

/* A sentence on what this rank's kernel waits for. Any thread. */
void offload_describe_wait(const offload_t *gpu, uint64_t waited_ns, char *text, size_t bytes);

/* Finds failures of other ranks and of this rank's kernels, and tells the one of the other. The
 * caller holds the lock. */
void offload_check(offload_t *gpu);

/* Ends this rank's calls on its GPU, whose communicator has failed. Any thread. */
void offload_abort(offload_t *gpu);

/* The same every 20 ms, by a thread of the process, from connection to destruction. The latter
 * waits if that thread, or the one that asks the driver, is at this communicator, but for no other;
 * the caller may hold the communicator's lock. */
void offload_watch_add(offload_t *gpu);
void offload_watch_remove(offload_t *gpu);

#endif
