/*
 * Reading a plan from files, one per rank.
 */
#ifndef LIFETIME_LOAD_H
#define LIFETIME_LOAD_H

#include "comm/comm.h"
#include "comm/loaded.h"

/* Collective. Reads the file on each rank, compares what they have read, and verifies the plan on
 * rank 0. If a rank fails, no rank uses the plan, and all get an error. info: may be NULL. */
coll_status_t lifetime_load(struct coll_comm *comm, const char *path, coll_plan_info_t *info);

#endif
