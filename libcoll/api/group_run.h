/*
 * Runs the calls of a group.
 */
#ifndef API_GROUP_RUN_H
#define API_GROUP_RUN_H

#include "run/call.h"

/* Calls and the streams that they name. */
typedef struct api_group {
  run_call_t *calls;
  coll_stream_t *streams; /* of each call */
  size_t count;           /* at least 1 */
  bool on_gpus;           /* a call is on a GPU */
  bool on_streams;        /* a call names a host stream */
  bool joins;             /* the calls of a communicator name several streams, or one and none */
} api_group_t;

/* Coalesces small calls, queues the jobs of streams, and runs the calls of communicators that are
 * used without a stream. Returns the status of the latter, or why nothing was run. Takes over the
 * calls, also on failure; overwrites both arrays. */
coll_status_t api_group_run(api_group_t *group);

#endif
