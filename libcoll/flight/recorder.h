/*
 * The flight recorder of one rank of a communicator: its last calls, and, while it waits, what it
 * waits for. It lies in memory that peers and tools can read at any moment, without help from the
 * rank. It serves reports, and finds ranks that wait for each other; results never depend on it.
 *
 * The owner alone writes. A call costs a few stores and reads no clock: times are written when the
 * owner begins to wait, and when that wait ends.
 */
#ifndef FLIGHT_RECORDER_H
#define FLIGHT_RECORDER_H

#include <stdatomic.h>

#include "flight/call.h"

#define FLIGHT_ENTRIES 64     /* calls kept; a power of two */
#define FLIGHT_RANKS_MAX 4096 /* ranks that a wait can name */

/* One call. `sequence` is 1 + the number of calls recorded before it, and 0 while the entry is
 * being written: a reader that finds the same value before and after reading has a whole entry. */
typedef struct flight_entry {
  _Atomic uint64_t sequence;
  _Atomic uint64_t number; /* of a collective on the communicator, of others on their pair */
  _Atomic uint64_t what, count;
  _Atomic uint64_t wait_begin_ns; /* of its first wait, CLOCK_MONOTONIC; 0: it never waited long */
  _Atomic uint64_t wait_end_ns;   /* of its latest wait; 0: it still waits. Only where it waited */
  uint64_t unused[2];
} flight_entry_t;

_Static_assert(sizeof(flight_entry_t) == 64, "an entry is one cache line");

/* What the owner waits for. `waiting` is set after everything else, and cleared before anything
 * changes; `changes` grows with each clearing, so a reader that finds the same value before and
 * after reading has seen one wait. */
typedef struct flight_wait {
  _Atomic uint32_t waiting;
  _Atomic uint64_t changes;
  _Atomic uint64_t looks;       /* how often the owner found nothing new, since `waiting` was set */
  _Atomic uint64_t begin_ns;    /* CLOCK_MONOTONIC */
  _Atomic uint64_t collectives; /* collectives begun: 1 + the number of the latest */
  _Atomic uint64_t history;     /* digest of all collectives before the latest */
  _Atomic uint64_t number;      /* of the call that waits */
  _Atomic uint64_t what, count; /* that call */
  _Atomic uint64_t peers[FLIGHT_RANKS_MAX / 64]; /* set of the ranks it waits for */
} flight_wait_t;

typedef struct flight_recorder {
  /* Changes with every call, and so lies apart from the rest. */
  _Alignas(128) _Atomic uint64_t completed; /* collectives */
  _Atomic uint64_t recorded;                /* calls, ever */
  _Alignas(128) _Atomic int32_t pid;        /* in the owner's pid namespace; 0: not begun */
  _Atomic int32_t rank;
  _Atomic uint64_t pid_space;                      /* flight_pid_space of the owner */
  _Atomic uint64_t communicator;                   /* as in the directory */
  _Atomic uint64_t reports;                        /* hang reports that the owner has printed */
  _Atomic uint64_t reported_number, reported_what; /* the call of the latest */
  flight_wait_t wait;
  /* Where the owner does not wait on this communicator, but all threads of its process wait on
   * others: what they wait for, in ranks of this one. By any of these threads, under one lock. */
  flight_wait_t elsewhere;
  _Alignas(128) flight_entry_t entries[FLIGHT_ENTRIES];
} flight_recorder_t;

/* Before the owner's first call. */
void flight_begin(flight_recorder_t *own, uint64_t communicator, int rank);

/* Records a call that begins. */
BASE_INLINE void flight_record(flight_recorder_t *own, uint64_t number, uint64_t what,
                               uint64_t count) {
  uint64_t recorded = atomic_load_explicit(&own->recorded, memory_order_relaxed);
  flight_entry_t *entry = &own->entries[recorded % FLIGHT_ENTRIES];
  atomic_store_explicit(&entry->sequence, 0, memory_order_relaxed);
  /* release: who sees any of what follows sees that the entry is being written */
  atomic_store_explicit(&entry->number, number, memory_order_release);
  atomic_store_explicit(&entry->what, what, memory_order_release);
  atomic_store_explicit(&entry->count, count, memory_order_release);
  atomic_store_explicit(&entry->wait_begin_ns, 0, memory_order_release);
  atomic_store_explicit(&entry->sequence, recorded + 1, memory_order_release);
  atomic_store_explicit(&own->recorded, recorded + 1, memory_order_release);
}

BASE_INLINE void flight_complete(flight_recorder_t *own, uint64_t collectives) {
  /* release: who sees the number sees what this rank has sent before */
  atomic_store_explicit(&own->completed, collectives, memory_order_release);
}

static inline uint64_t flight_completed(const flight_recorder_t *of) {
  return atomic_load_explicit(&of->completed, memory_order_acquire);
}

/* Where the recorders of a communicator lie in the memory that its ranks share, for tools. It lies
 * at FLIGHT_DIRECTORY_OFFSET of that memory. Written once, before the ranks are told of it. */
#define FLIGHT_DIRECTORY_OFFSET 64
#define FLIGHT_MAGIC UINT64_C(0x32746867696c6663) /* "cflight2"; changes with the layout */

typedef struct flight_directory {
  uint64_t magic;
  uint64_t communicator; /* random: the same for all of its ranks */
  uint64_t ranks;
  uint64_t offset, stride; /* of rank 0's recorder, and from one to the next */
} flight_directory_t;

/* A wait, as its owner describes it and as others read it. */
typedef struct flight_standstill {
  uint64_t begin_ns;
  uint64_t collectives, history;
  uint64_t number;
  flight_call_t call;    /* count without history */
  const uint64_t *peers; /* set of ranks, [words]; the owner's to give, not read back */
  size_t words;
  uint64_t changes, looks; /* for readers */
} flight_standstill_t;

/* The owner waits. Called each time that it has found nothing new; counts a look where the wait is
 * the one that is published already, and begins another one where it is not. */
void flight_wait_publish(flight_recorder_t *own, const flight_standstill_t *wait);

/* The owner goes on. */
void flight_wait_end(flight_recorder_t *own);

/* The same for `elsewhere`, whose looks the caller counts. */
void flight_elsewhere_publish(flight_recorder_t *own, const flight_standstill_t *wait);
void flight_elsewhere_end(flight_recorder_t *own);

/* Whether the rank waits, and for what. */
bool flight_wait_read(const flight_recorder_t *of, flight_standstill_t *wait);

/* The same of either kind of wait, and whether `rank` is among those that it waits for. That is
 * only to be asked of a wait that was just read: flight_standstill_is tells whether it is still the
 * same. */
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

/* The call recorded as the index-th (from 0); false once it is overwritten, or not there yet. */
bool flight_read(const flight_recorder_t *of, uint64_t index, flight_past_t *past);

/* The latest call; false where there is none, or the owner is recording one. */
bool flight_latest(const flight_recorder_t *of, flight_past_t *past);

/* Collectives that the rank has begun, or fewer where its latest 64 calls are sends and receives.
 */
uint64_t flight_collectives_begun(const flight_recorder_t *of);

/* Whether the call is no send or receive. */
bool flight_is_collective(flight_call_t call);

/* The recorded collective of that number. */
bool flight_find(const flight_recorder_t *of, uint64_t number, flight_past_t *past);

/* The first collective below `limit` that both ranks recorded and that differs. */
bool flight_first_difference(const flight_recorder_t *one, const flight_recorder_t *other,
                             uint64_t limit, flight_past_t *own, flight_past_t *found);

#endif
