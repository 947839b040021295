/*
 * Network interfaces as NCCL_SOCKET_IFNAME names them.
 */
#ifndef FRONTENDS_NCCL_INTERFACES_H
#define FRONTENDS_NCCL_INTERFACES_H

#include <stdbool.h>
#include <stddef.h>

/* Rewrites a list of NCCL, whose ^ and = hold for all of its items ("^=a,b"), in the form of
 * COLL_INTERFACES and COLL_IB_HCA, where each item has its own ("^=a,^=b"). False if it does not
 * fit. */
bool nccl_list_translate(const char *list, char *text, size_t bytes);

#endif
