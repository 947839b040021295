/* An allgather of plain data by which ranks agree on something, as part of another call. */
#ifndef RUN_ALLGATHER_H
#define RUN_ALLGATHER_H

#include "comm/comm.h"

/* Gathers `bytes` from each rank into all[size * bytes]. Every rank calls it; it is numbered and
 * reported as a call of the verb (FLIGHT_SPLIT, FLIGHT_PLAN_LOAD). Fails as a collective does. */
coll_status_t run_allgather(struct coll_comm *comm, int verb, const void *own, size_t bytes,
                            void *all);

#endif
