/*
 * The flight recorder of one rank of a communicator: its last calls and, while it waits, the call
 * and the ranks it waits for. It is in shared memory that peers and tools can read at any time
 * without action of the rank. It is used for reports and deadlock detection; results of calls never
 * depend on it.
 *
 * Only the owner writes. A call costs a few stores and reads no clock: times are written when the
 * owner begins to wait, and when that wait ends.
 */
#ifndef FLIGHT_RECORDER_H
#define FLIGHT_RECORDER_H

#include <stdatomic.h>

#include "flight/call.h"

#define FLIGHT_ENTRIES 64     /* calls recorded; a power of two */
#define FLIGHT_RANKS_MAX 4096 /* maximum number of ranks of a communicator */

/* One call. `sequence` is 1 + the number of calls recorded before it, and 0 while the entry is
 * written: a reader that finds the same value before and after reading has a consistent entry. */
typedef struct flight_entry {
  _Atomic uint64_t sequence;
  _Atomic uint64_t number; /* on the communicator; of a send or receive on its pair of ranks */
  _Atomic uint64_t what, count;
  _Atomic uint64_t wait_begin_ns; /* begin of its first wait, CLOCK_MONOTONIC; 0: no long wait */
  _Atomic uint64_t wait_end_ns;   /* end of its latest wait; 0: it still waits; valid only if
                                     wait_begin_ns is not 0 */
  uint64_t unused[2];
} flight_entry_t;

_Static_assert(sizeof(flight_entry_t) == 64, "an entry is one cache line");

/* The owner's wait. `waiting` is set after all other fields, and cleared before any of them
 * changes. `changes` is incremented by each clearing, so a reader that finds the same value before
 * and after reading has read one wait. */
typedef struct flight_wait {
  _Atomic uint32_t waiting;
  /* The owner has a progress callback, which may make calls of other communicators while the owner
   * waits; not part of a single wait. */
  _Atomic uint32_t calls_back;
  _Atomic uint32_t may_be_ended; /* by a call that another thread of the owner makes later */
  _Atomic uint64_t changes;
  _Atomic uint64_t polls;       /* how often the owner has since found nothing new */
  _Atomic uint64_t begin_ns;    /* CLOCK_MONOTONIC */
  _Atomic uint64_t collectives; /* number of collectives begun: 1 + the number of the latest one */
  _Atomic uint64_t history;     /* digest of all collectives before the latest one */
  _Atomic uint64_t number;      /* number of the waiting call */
  _Atomic uint64_t what, count; /* identity of the waiting call */
  _Atomic uint64_t peers[FLIGHT_RANKS_MAX / 64]; /* bit set of the ranks waited for */
} flight_wait_t;

typedef struct flight_recorder {
  /* Written by every call, so in a cache line of its own. */
  _Alignas(128) _Atomic uint64_t completed; /* number of collectives completed */
  _Atomic uint64_t recorded;                /* number of calls recorded so far */
  _Alignas(128) _Atomic int32_t pid;        /* in the owner's pid namespace; 0: not initialized */
  _Atomic int32_t rank;
  _Atomic uint64_t pid_space;    /* flight_pid_space of the owner */
  _Atomic uint64_t communicator; /* as in flight_directory_t */
  _Atomic uint64_t reports;      /* number of hang reports that the owner has printed */
  _Atomic uint64_t reported_number, reported_what; /* the call of the latest report */
  flight_wait_t wait;
  /* If all threads of the owner's process wait, on this communicator or on others: all these waits,
   * translated to ranks of this communicator. Written by any of these threads, under one lock. */
  flight_wait_t cross_wait;
  /* The wait of this rank's kernel on a GPU. Written by the thread that watches GPUs. `number`: if
   * the call's is not known, how many the GPU has begun. */
  flight_wait_t gpu_wait;
  _Alignas(128) flight_entry_t entries[FLIGHT_ENTRIES];
} flight_recorder_t;

/* Initializes the recorder before the owner's first call. */
void flight_begin(flight_recorder_t *own, uint64_t communicator, int rank);

/* Records the begin of a call. */
BASE_INLINE void flight_record(flight_recorder_t *own, uint64_t number, uint64_t what,
                               uint64_t count) {
  uint64_t recorded = atomic_load_explicit(&own->recorded, memory_order_relaxed);
  flight_entry_t *entry = &own->entries[recorded % FLIGHT_ENTRIES];
  atomic_store_explicit(&entry->sequence, 0, memory_order_relaxed);
  /* release: a reader that sees any of the following stores sees that the entry is being written */
  atomic_store_explicit(&entry->number, number, memory_order_release);
  atomic_store_explicit(&entry->what, what, memory_order_release);
  atomic_store_explicit(&entry->count, count, memory_order_release);
  atomic_store_explicit(&entry->wait_begin_ns, 0, memory_order_release);
  atomic_store_explicit(&entry->sequence, recorded + 1, memory_order_release);
  atomic_store_explicit(&own->recorded, recorded + 1, memory_order_release);
}

BASE_INLINE void flight_complete(flight_recorder_t *own, uint64_t collectives) {
  /* release: a reader that sees the number sees all messages that this rank has sent before */
  atomic_store_explicit(&own->completed, collectives, memory_order_release);
}

static inline uint64_t flight_completed(const flight_recorder_t *of) {
  return atomic_load_explicit(&of->completed, memory_order_acquire);
}

/* Position of a communicator's recorders in the memory that its ranks share, for tools. It is at
 * FLIGHT_DIRECTORY_OFFSET of that memory, and is written once, before the memory is passed to the
 * ranks. */
#define FLIGHT_DIRECTORY_OFFSET 64
#define FLIGHT_MAGIC UINT64_C(0x34746867696c6663) /* "cflight4"; changes with the layout */

typedef struct flight_directory {
  uint64_t magic;
  uint64_t communicator; /* random number, the same on all ranks of the communicator */
  uint64_t ranks;
  uint64_t offset, stride; /* offset of rank 0's recorder, and distance between two recorders */
} flight_directory_t;

/* A wait, as its owner publishes it and as others read it. */
typedef struct flight_standstill {
  uint64_t begin_ns;
  uint64_t collectives, history;
  uint64_t number;
  flight_call_t call;    /* count without history */
  bool may_be_ended;     /* by a call that another thread of the rank makes later */
  const uint64_t *peers; /* bit set of ranks, [words]; input only, not read back */
  size_t words;
  uint64_t changes, polls; /* output only */
} flight_standstill_t;

/* The owner waits. It calls this each time that it has found nothing new. Increments `polls` if
 * this wait is already published, otherwise begins a new one. */
void flight_wait_publish(flight_recorder_t *own, const flight_standstill_t *wait);

/* The owner stops waiting. */
void flight_wait_end(flight_recorder_t *own);

/* The same for `cross_wait` and `gpu_wait`, whose polls the caller counts. */
void flight_standstill_publish(flight_wait_t *to, const flight_standstill_t *wait);
void flight_standstill_end(flight_wait_t *to);

/* Whether the rank waits; if so, reads its wait. */
bool flight_wait_read(const flight_recorder_t *of, flight_standstill_t *wait);

/* The same for either kind of wait. flight_standstill_has: whether the wait includes `rank`; valid
 * only for a wait that was just read. flight_standstill_is: whether the wait is still the same. */
bool flight_standstill_read(const flight_wait_t *from, flight_standstill_t *wait);
bool flight_standstill_is(const flight_wait_t *from, uint64_t changes);
bool flight_standstill_has(const flight_wait_t *from, int rank);

static inline bool flight_wait_is(const flight_recorder_t *of, uint64_t changes) {
  return flight_standstill_is(&of->wait, changes);
}

static inline bool flight_waits_for(const flight_recorder_t *of, int rank) {
  return flight_standstill_has(&of->wait, rank);
}

/* A recorded call. */
typedef struct flight_past {
  uint64_t number;
  flight_call_t call;
  uint64_t wait_begin_ns, wait_end_ns;
} flight_past_t;

/* Reads the index-th recorded call (from 0). False if it is overwritten or not recorded yet. */
bool flight_read(const flight_recorder_t *of, uint64_t index, flight_past_t *past);

/* Reads the latest call. False if there is none, or it is being recorded. */
bool flight_latest(const flight_recorder_t *of, flight_past_t *past);

/* The number of collectives that the rank has begun, or a lower bound if its latest 64 calls are
 * sends and receives. */
uint64_t flight_collectives_begun(const flight_recorder_t *of);

/* Whether the call is not a send, a receive or a group of these. */
bool flight_is_collective(flight_call_t call);

/* Reads the recorded collective of that number. False if it is not recorded. */
bool flight_find(const flight_recorder_t *of, uint64_t number, flight_past_t *past);

/* Finds the first collective below `limit` that both ranks recorded and that differs. */
bool flight_first_difference(const flight_recorder_t *one, const flight_recorder_t *other,
                             uint64_t limit, flight_past_t *own, flight_past_t *found);

#endif
