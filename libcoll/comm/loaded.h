/*
 * Plans that the user loads from files (lifetime/load.h). A loaded plan is used for the calls
 * of its collective, and its root if it has one, like a forced algorithm.
 */
#ifndef COMM_LOADED_H
#define COMM_LOADED_H

#include "comm/cache_entry.h"

struct coll_comm;

/* Versions of a loaded plan. */
typedef enum comm_version {
  COMM_OUT_OF_PLACE,
  COMM_IN_PLACE,
  COMM_COPYING, /* out of place: a plan for calls in place behind copies of the input */
  COMM_VERSION_COUNT
} comm_version_t;

typedef struct comm_loaded {
  struct comm_loaded *next; /* loaded before it */
  char name[PLAN_NAME_BYTES];
  int root;
  bool any_order;                        /* PLAN_ORDER_ANY */
  algo_t algo;                           /* only its name and collective are set */
  comm_plan_t plans[COMM_VERSION_COUNT]; /* plan NULL: there is none, or it is not right */
} comm_loaded_t;

/* The version for such calls; its plan is NULL if the plan is not right for them. */
const comm_plan_t *comm_loaded_for(const comm_loaded_t *loaded, bool in_place);

/* *plan: for a call for which a plan is loaded; else NULL. COLL_ERROR_UNSUPPORTED: the plan is
 * right only for calls in place, or only for others, and this one is not of that kind. */
coll_status_t comm_loaded_find(const struct coll_comm *comm, const comm_traits_t *traits,
                               const comm_plan_t **plan);

/* Frees one that the communicator has not got. */
void comm_loaded_discard(comm_loaded_t *loaded);

/* Frees all, with the communicator. */
void comm_loaded_free(struct coll_comm *comm);

#endif
