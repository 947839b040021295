/*
 * Which ranks a call waits for in vain, in a sentence: what each of them did last or waits for, and
 * the state of its process.
 */
#ifndef COMM_MISSING_H
#define COMM_MISSING_H

#include "comm/comm.h"

/* For a rank that has published its wait. waited_ns: how long it has waited at least. The sentence
 * goes into text, cut to `bytes`. Returns the lowest of the missing ranks. */
int comm_missing_describe(struct coll_comm *comm, uint64_t waited_ns, char *text, size_t bytes);

#endif
