/*
 * Finds the ranks that a call waits for, and describes them in a sentence: the last call or current
 * wait of each, and the state of its process.
 */
#ifndef WATCH_MISSING_H
#define WATCH_MISSING_H

#include "comm/comm.h"

/* Called by a rank that has published its wait. waited_ns: a lower bound of the time it has waited.
 * Writes the sentence to text, truncated to `bytes`. Returns the lowest missing rank. */
int watch_missing_describe(struct coll_comm *comm, uint64_t waited_ns, char *text, size_t bytes);

#endif
