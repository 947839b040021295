/*
 * Makes communicators from the ranks of another one.
 */
#ifndef COMM_SPLIT_H
#define COMM_SPLIT_H

#include "comm/comm.h"

/* Collective over the parent's ranks. *child is NULL on a rank with a negative color. */
coll_status_t comm_split(struct coll_comm *parent, int color, int key, struct coll_comm **child);

#endif
