/*
 * A call whose arguments are checked, as the API functions pass it to this room.
 */
#ifndef RUN_CALL_H
#define RUN_CALL_H

#include "comm/comm.h"
#include "engine/call.h"
#include "run/join.h"

typedef enum run_call_kind { RUN_COLLECTIVE, RUN_SEND, RUN_RECV } run_call_kind_t;

typedef struct run_call {
  run_call_kind_t kind;
  int part_of; /* it is the allgather of a call of this verb (FLIGHT_SPLIT ...); 0: of none */
  struct coll_comm *comm;
  comm_shape_t shape; /* of reach USER */
  const void *send;   /* ignored if this rank has no such buffer */
  void *recv;
  size_t
      *blocks; /* counts and offsets; owned by the call. alltoallv: of sends, then of receives,
                  [size] each. If blocks are not COMM_BLOCKS_EVEN: of allgatherv and
                  reduce_scatterv, of all blocks, [size] each; at the root of gatherv and scatterv,
                  of its own block, [1] each, then of all, [size] each. Otherwise NULL */
  struct run_coalesced
      *coalesced;   /* the calls that this call replaces (coalesce.h), owned; or NULL */
  size_t piece_of;  /* the count of the call of which it is a piece; 0: of none */
  run_join_t *join; /* of the streams that its communicator's calls in the group name; or NULL */
  bool continues;   /* another collective of its communicator follows in its group */
  comm_scalar_t scalar; /* of a premul-sum */
} run_call_t;

/* Whether the blocks lie one behind the other in the order of ranks. */
static inline bool comm_blocks_are_packed(const size_t counts[], const size_t offsets[], int size) {
  size_t end = 0;
  for (int rank = 0; rank < size; rank++) {
    if (counts[rank] > 0 && offsets[rank] != end) return false;
    end += counts[rank];
  }
  return true;
}

/* Of a call whose sizes pairs of ranks know. */
void run_call_blocks(const run_call_t *call, engine_blocks_t *input, engine_blocks_t *output);

void run_call_free_owned(const run_call_t *call);

/* Frees what the call owns. */
static inline void run_call_free(const run_call_t *call) {
  if (call->blocks != NULL || call->coalesced != NULL) run_call_free_owned(call);
}

#endif
