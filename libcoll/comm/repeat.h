/*
 * Calls like an earlier one: alone on their communicator, of a shape that is prepared, with nothing
 * to be done beside the run. They go from the verb to the engine, and are made a call and a task
 * only if a peer keeps them waiting.
 */
#ifndef COMM_REPEAT_H
#define COMM_REPEAT_H

#include "comm/turn.h"

/* What calls of the shape are carried out with; NULL: they are not like an earlier one, or need
 * more than a run. For the thread whose turn it is. */
BASE_INLINE comm_prepared_t *comm_repeat_find(struct coll_comm *comm, comm_shape_t shape) {
  comm_prepared_t *prepared = comm_prepared_place(comm->prepared, shape);
  return comm_shape_is(prepared->shape, shape) && prepared->repeats ? prepared : NULL;
}

/* The whole call, with what comm_repeat_find has found; by the thread whose turn it is, which it
 * passes on. */
coll_status_t comm_repeat(struct coll_comm *comm, comm_prepared_t *prepared, const void *send,
                          void *recv);

#endif
