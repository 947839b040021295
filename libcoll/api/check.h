/* What the verbs ask of their arguments before anything is sent. */
#ifndef API_CHECK_H
#define API_CHECK_H

#include "comm/call.h"

/* All of a collective's arguments; fills in call->in_place, and drops the buffers that this rank
 * has no use for. COLL_ERROR_INVALID names the verb, the argument and what is wrong. */
coll_status_t api_check_collective(comm_call_t *call);

/* Those of coll_send and coll_recv. */
coll_status_t api_check_pair(comm_call_t *call);

/* Those of coll_alltoallv; copies the four arrays to call->blocks and finds call->count. */
coll_status_t api_check_alltoallv(comm_call_t *call, const size_t send_counts[],
                                  const size_t send_displs[], const size_t recv_counts[],
                                  const size_t recv_displs[]);

#endif
