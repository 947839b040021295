/*
 * What an ncclComm_t points to: a communicator of coll.h, and what NCCL knows of one besides.
 *
 * A handle is counted: the program has one use of it until it destroys or aborts it, every call,
 * group and creation that is under way has one. The last one destroys the communicator, so
 * ncclCommAbort may free a handle that another thread's call still has.
 */
#ifndef FRONTENDS_NCCL_HANDLE_H
#define FRONTENDS_NCCL_HANDLE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/fork.h"
#include "base/handles.h"
#include "frontends/nccl/errors.h"

/* Numbers of tags. */
enum { NCCL_TAG_COMM = 160, NCCL_TAG_WINDOW };

typedef enum nccl_state {
  NCCL_READY,     /* or being made, or not made: coll_comm_error says so */
  NCCL_FINALIZED, /* only to be destroyed */
  NCCL_SUSPENDED,
  NCCL_REVOKED
} nccl_state_t;

struct ncclComm {
  base_handle_tag_t tag; /* base/fork.h */
  atomic_int uses;
  atomic_bool is_owned;     /* the program has its use */
  atomic_bool is_abandoned; /* the program has aborted it while a blocking function made it */
  atomic_bool is_reported;  /* the program was told why it failed */
  _Atomic nccl_state_t state;
  atomic_bool prepared; /* it was seen to be made; rank and size are set, NCCL_ALGO is applied */
  bool blocking;
  int device;             /* that of the thread that made it; or 0 */
  bool device_is_guessed; /* the thread had none */
  int rank, size;
  /* Handles of which one is made from the other, while that goes on in the background; guarded by a
   * lock of handle.c. NULL: none. */
  struct ncclComm *parent, *child;
  _Atomic(coll_comm_t) comm;             /* NULL until the group of its creation ends */
  _Atomic(struct nccl_stream *) streams; /* that its calls have named (stream.c) */
};

/* Device -1: that of the calling thread. NULL with the failure recorded if there is no memory. The
 * caller has the one use. */
ncclComm_t nccl_handle_new(bool blocking, int device);

void nccl_handle_use(ncclComm_t handle);

/* Ends a use. The last one destroys the communicator, and returns the status of that. */
coll_status_t nccl_handle_release(ncclComm_t handle);

/* Ends the use of the program, if it has one. */
coll_status_t nccl_handle_disown(ncclComm_t handle);

/* Whether the program had its use, which is the caller's from now on. */
bool nccl_handle_take(ncclComm_t handle);

/* The child is made from the parent, in the background; neither has a use of the other. */
void nccl_handle_link(ncclComm_t parent, ncclComm_t child);

/* Whether the child that was linked last is not made yet. */
bool nccl_handle_makes_child(ncclComm_t parent);

/* Whether a process made it from which this one was forked. Only its rank, size and device, if it
 * is `prepared`, are then used. */
bool nccl_handle_is_inherited(ncclComm_t handle);

/* Whether it is a handle of this process; any pointer may be asked about. */
ncclResult_t nccl_handle_check(ncclComm_t handle, const char *function);

/* Whether its communicator was made; sets rank and size. */
ncclResult_t nccl_handle_check_made(ncclComm_t handle, const char *function);

/* Whether it is one that calls may be made on now. */
ncclResult_t nccl_handle_check_ready(ncclComm_t handle, const char *function);

/* If the communicator has failed, copies the text of that and returns true. NULL: false. */
bool nccl_handle_failure(ncclComm_t handle, char *text, size_t bytes);

#endif
