/*
 * The layer in this process: whether it is active, its settings, and what it tells the user.
 *
 * The layer starts in the first MPI call that it sees after MPI_Init, and ends when MPI_Finalize
 * deletes the attributes of MPI_COMM_SELF, before anything else of the MPI ends. At any other time,
 * and in a forked child, all calls go to the MPI.
 */
#ifndef FRONTENDS_MPI_LAYER_H
#define FRONTENDS_MPI_LAYER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

#include "frontends/mpi/abi.h"

typedef enum layer_state { LAYER_NEW, LAYER_ACTIVE, LAYER_ENDED } layer_state_t;

/* COLL_MPI_SERVE: what is served of the calls that can be. */
typedef enum layer_mode {
  LAYER_MEASURED, /* what libcoll does faster than the MPI */
  LAYER_ALWAYS,   /* for tests */
  LAYER_NEVER
} layer_mode_t;

typedef struct layer {
  layer_mode_t mode;
  bool has_stats;     /* COLL_MPI_STATS */
  bool is_multiple;   /* MPI_THREAD_MULTIPLE */
  int world_rank;     /* of MPI_COMM_WORLD */
  MPI_Comm comm_null; /* looked up once */
  MPI_Datatype type_null;
  MPI_Request request_null;
  /* What layer_progress looks for: a message that hardly any program sends, as an MPI that finds
   * one makes no progress. A probe on a copy of MPI_COMM_SELF makes none in MPICH, and no
   * communicator of several ranks can be made when the layer starts. */
  MPI_Comm world;
  int probe_tag;
} layer_t;

extern layer_t layer;
extern atomic_int layer_state_now;

/* The slow part of layer_is_active. */
bool layer_start(void);

static inline bool layer_is_active(void) {
  int state = atomic_load_explicit(&layer_state_now, memory_order_acquire);
  return state == LAYER_ACTIVE || (state == LAYER_NEW && layer_start());
}

/* Prints one line that begins with "libcoll: rank R: ", R in MPI_COMM_WORLD. */
void layer_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Whether this thread is in a call of libcoll that the layer made: then it may call the MPI,
 * whatever the level of thread support. */
extern _Thread_local bool layer_is_in_call;

/* Microseconds of a clock of this host. */
static inline double layer_now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

/* Lets the MPI make progress. */
void layer_progress(void);

#endif
