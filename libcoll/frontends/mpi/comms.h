/*
 * What the layer keeps for a communicator of the MPI, as an attribute of it: so the copy of a
 * communicator starts anew, and what belongs to one goes when it is freed.
 */
#ifndef FRONTENDS_MPI_COMMS_H
#define FRONTENDS_MPI_COMMS_H

#include <coll.h>
#include <stdint.h>

#include "frontends/mpi/choice.h"
#include "frontends/mpi/layer.h"

/* A call that passes, as long as its choice holds. Only predefined types and ops are entered, whose
 * handles do not change their meaning. choice NULL: none is known. */
typedef struct layer_shortcut {
  layer_choice_t *choice;
  MPI_Datatype type;
  MPI_Op op;
  size_t count;
} layer_shortcut_t;

typedef struct layer_comm {
  MPI_Comm handle;
  coll_comm_t coll; /* NULL: all calls pass */
  int rank, size;
  layer_mode_t mode;  /* that of rank 0 */
  bool has_one_clock; /* its ranks are in one host */
  layer_choices_t choices;
  layer_shortcut_t shortcuts[LAYER_VERBS_MAX]; /* of the last call of each verb that has passed */
  struct layer_comm *next, *previous;          /* of all in the process */
} layer_comm_t;

/* Every thread keeps communicators that it has used. A freed handle may be used again for another
 * communicator, so whenever one is freed, and when the layer ends, all threads forget theirs. */
typedef struct layer_recent {
  unsigned generation;
  MPI_Comm handle;
  layer_comm_t *comm;
} layer_recent_t;

#define LAYER_RECENT_COUNT 8

/* The layer is preloaded, so that its variables of a thread are at a fixed distance. */
extern _Thread_local layer_recent_t layer_recent[LAYER_RECENT_COUNT]
    __attribute__((tls_model("initial-exec")));
extern atomic_uint layer_generation;

/* Whether a communicator serves non-blocking calls: with COLL_MPI_SERVE=always. */
extern atomic_bool layer_serves_requests;

/* Where a communicator is kept. */
static inline layer_recent_t *layer_recent_of(MPI_Comm handle) {
  uint64_t key = (uint64_t)(uintptr_t)handle;
  return &layer_recent[(key * 0x9e3779b97f4a7c15u) >> 61];
}

/* NULL: this thread does not remember it. */
static inline layer_comm_t *layer_comm_recall(MPI_Comm handle) {
  const layer_recent_t *recent = layer_recent_of(handle);
  unsigned now = atomic_load_explicit(&layer_generation, memory_order_acquire);
  return recent->handle == handle && recent->generation == now ? recent->comm : NULL;
}

void layer_comms_start(void);

/* Destroys the communicators of libcoll. */
void layer_comms_end(void);

/* In a child of fork: another thread of the parent may have had the lock. To destroy the parent's
 * communicators does nothing there (coll.h, "fork"). */
void layer_comms_forget(void);

/* NULL: the communicator was in no blocking collective yet, or is MPI_COMM_NULL. */
layer_comm_t *layer_comm_find(MPI_Comm handle);

/* The same, and makes it if it is not there. Collective, and therefore called in blocking
 * collectives only. NULL: MPI_COMM_NULL, or a rank has no memory. */
layer_comm_t *layer_comm_map(MPI_Comm handle);

#endif
