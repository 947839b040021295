/*
 * Makes communicators from the ranks of another one.
 */
#ifndef LIFETIME_SPLIT_H
#define LIFETIME_SPLIT_H

#include "comm/settings.h"

/* Collective over the parent's ranks. *child is in and out, as in lifetime_create; it becomes NULL
 * on a rank with a negative color. */
coll_status_t lifetime_split(struct coll_comm *parent, int color, int key,
                             const comm_split_settings_t *settings, struct coll_comm **child);

#endif
