/*
 * A call as the verbs hand it over: checked, and on its way to a communicator.
 */
#ifndef COMM_CALL_H
#define COMM_CALL_H

#include "comm/comm.h"
#include "engine/call.h"

typedef enum comm_call_kind { COMM_COLLECTIVE, COMM_SEND, COMM_RECV } comm_call_kind_t;

typedef struct comm_call {
  comm_call_kind_t kind;
  struct coll_comm *comm;
  comm_shape_t shape; /* of reach USER */
  const void *send;   /* not looked at where this rank has no such buffer */
  void *recv;
  size_t *blocks; /* alltoallv: send counts, send offsets, receive counts, receive
                     offsets, [size] each; owned by the call. Else NULL */
  struct comm_coalesced
      *coalesced;  /* the calls that this one stands for (coalesced.h), owned; or NULL */
  bool splits;     /* the allgather of coll_comm_split */
  bool continues;  /* another collective of its communicator follows in its group */
  uint64_t scalar; /* of a premul-sum, as it was when the call was made: an element's bytes */
} comm_call_t;

void comm_call_free_owned(const comm_call_t *call);

/* Frees what the call owns. */
static inline void comm_call_free(const comm_call_t *call) {
  if (call->blocks != NULL || call->coalesced != NULL) comm_call_free_owned(call);
}

#endif
