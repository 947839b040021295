/*
 * Windows of communicators, at once or when a group ends.
 */
#ifndef FRONTENDS_NCCL_WINDOWS_H
#define FRONTENDS_NCCL_WINDOWS_H

#include "frontends/nccl/handle.h"

/* Registers memory of the host with coll.h; that of a GPU needs none, and *made is NULL then. */
ncclResult_t nccl_window_register(ncclComm_t comm, void *ptr, size_t bytes, const char *function,
                                  coll_registration_t *made);

/* Makes the windows of a group, a list by `next`, and ends their uses of communicators. Waits for
 * the other ranks of all of them at once, as one thread may have several ranks of a communicator. A
 * window that cannot be made is NULL for the program; returns the first failure. Aborts
 * communicators for whose windows this rank has no memory or thread. */
ncclResult_t nccl_windows_make_all(ncclWindow_t first);

/* Frees the windows of a group that has failed: they are NULL for the program. */
void nccl_windows_drop(ncclWindow_t first);

/* The window that stands behind this one in the list of its group. */
ncclWindow_t *nccl_window_next(ncclWindow_t window);

#endif
