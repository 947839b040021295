/*
 * The one way from a checked call to its execution: now, on a stream, or into the thread's group.
 */
#ifndef API_SUBMIT_H
#define API_SUBMIT_H

#include "comm/batch.h"

/* What a verb's checks came to, and the call if they passed. Takes over call->blocks. */
coll_status_t api_submit(coll_status_t checked, const comm_call_t *call, coll_stream_t stream);

/* Queues the calls (whose blocks it takes over, on failure too) as one batch behind what is on the
 * stream. */
coll_status_t api_stream_push(coll_stream_t stream, const comm_call_t calls[], size_t count);

/* COLL_ERROR_INVALID unless `stream` is a live stream, as far as can be told. */
coll_status_t api_stream_check(coll_stream_t stream);

/* Whether the calling thread is inside a group. */
bool api_group_is_open(void);

/* Adds to the thread's group what a verb came to. Takes over call->blocks. */
coll_status_t api_group_add(coll_status_t checked, const comm_call_t *call, coll_stream_t stream);

#endif
