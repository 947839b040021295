/*
 * A blocking collective from its arguments to its result.
 */
#ifndef FRONTENDS_MPI_CALL_H
#define FRONTENDS_MPI_CALL_H

#include <stdint.h>

#include "frontends/mpi/verbs.h"

#define LAYER_NO_TYPE ((MPI_Datatype)0) /* of calls whose size does not decide */
#define LAYER_NO_OP ((MPI_Op)0)

#define LAYER_NO_COUNT SIZE_MAX

/* What the size of a call with one count per rank depends on: of MPI_Allgatherv all of them, of a
 * reduction the count of one block. LAYER_NO_COUNT: its blocks differ. */
static inline size_t layer_count_of(layer_verb_t verb, const int *counts, int ranks) {
  size_t all = (size_t)counts[0];
  for (int i = 1; i < ranks; i++) {
    if (verb == LAYER_ALLGATHERV) {
      all += (size_t)counts[i];
    } else if (counts[i] != counts[0]) {
      return LAYER_NO_COUNT;
    }
  }
  return all;
}

/* Whether a call is known to pass: one like the last one of its verb. count and type are those of
 * one block, of a side that all ranks use, or with counts of all blocks. Counts the call. */
static inline bool layer_passes(layer_verb_t verb, MPI_Comm handle, int count, const int *counts,
                                MPI_Datatype type, MPI_Op op) {
  layer_comm_t *comm = layer_comm_recall(handle);
  if (comm == NULL) return false;
  if (comm->coll == NULL) return true;
  const layer_shortcut_t *shortcut = &comm->shortcuts[verb];
  layer_choice_t *choice = shortcut->choice;
  if (choice == NULL || choice->hold == 0 || choice->way != LAYER_PASSED) return false;
  if (shortcut->type != type || shortcut->op != op) return false;
  size_t all = counts == NULL ? (size_t)count : layer_count_of(verb, counts, comm->size);
  if (shortcut->count != all) return false;
  choice->hold--;
  return true;
}

/* Serves or passes the call; the result of the MPI function. */
int layer_collective(const layer_call_t *call);

/* Reports that this rank cannot carry out its part of a call that is served, or that the call has
 * failed. Peers that would wait for this rank in it get an error, too. The result as below. */
int layer_call_leave(const layer_call_t *call, const layer_comm_t *comm, const char *text);

/* Why a call that is served has failed. */
const char *layer_failure_text(coll_status_t status);

/* Reports a failure of libcoll: prints it, and calls the communicator's error handler. Returns the
 * MPI's error code for it, whose text is that of the failure. */
int layer_call_fail(const layer_call_t *call, const char *text);

#endif
