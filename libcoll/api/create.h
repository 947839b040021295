/*
 * Communicators that a group creates or splits. They are made at its end, by a thread each.
 */
#ifndef API_CREATE_H
#define API_CREATE_H

#include "lifetime/async.h"

typedef struct api_creation {
  lifetime_async_t *job;
  bool owns_job;            /* has the reference to it; splits of one communicator share a job */
  struct coll_comm *handle; /* NULL: a split that gives this rank no communicator */
  coll_comm_t *result;      /* the user's, which has the handle already */
  bool blocking;            /* the end of the group waits for it */
} api_creation_t;

typedef struct api_creations {
  api_creation_t *items; /* owned */
  size_t count, capacity;
} api_creations_t;

/* Makes them all and frees the array. Communicators that could not be made become NULL. Returns the
 * first failure in time; else COLL_IN_PROGRESS if some are not blocking. */
coll_status_t api_creations_run(api_creations_t *creations);

/* Makes none of them because of `status`: the results become NULL. Frees the array. */
void api_creations_discard(api_creations_t *creations, coll_status_t status);

/* The creations of the thread's open group. COLL_ERROR_INVALID: the group has calls. (group.c) */
coll_status_t api_group_creations(api_creations_t **creations);

/* Records the first failure of the thread's group, if one is open. Returns `status`. (group.c) */
coll_status_t api_group_fail(coll_status_t status);

#endif
