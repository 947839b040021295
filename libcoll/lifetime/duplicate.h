/*
 * What this room does for rooms that it uses itself (comm_lifetime_t).
 */
#ifndef LIFETIME_DUPLICATE_H
#define LIFETIME_DUPLICATE_H

#include "comm/comm.h"

extern const comm_lifetime_t lifetime_table;

#endif
