/*
 * Creations of communicators, at once or when a group ends.
 */
#ifndef FRONTENDS_NCCL_CREATE_H
#define FRONTENDS_NCCL_CREATE_H

#include "frontends/nccl/handle.h"

typedef struct nccl_creation nccl_creation_t;
struct nccl_creation {
  const char *function; /* that the program called */
  /* Calls that give the ranks the id, run in one group with those of the other creations; NULL if
   * none are needed. */
  coll_status_t (*exchange)(nccl_creation_t *creation);
  /* Makes the communicator as `config` says; may be called in a group of coll.h. */
  coll_status_t (*make)(nccl_creation_t *creation, const coll_comm_config_t *config,
                        coll_comm_t *comm);
  coll_unique_id_t id;
  int rank, size; /* in the new communicator */
  int color, key; /* of a split */
  int *excluded;  /* ranks that do not take part, owned; NULL if there are none */
  int excluded_count;
  bool blocking;
  ncclComm_t parent; /* NULL, or the communicator that it is made from */
  ncclComm_t *out;   /* where the program wants the handle */
  /* What follows is set by nccl_create. */
  ncclComm_t made;
  coll_comm_t comm;      /* of `made` */
  nccl_creation_t *next; /* of the group */
};

/* Runs a copy of the creation, or puts it into the group that is open. Sets *out at once, to NULL
 * if this rank gets no communicator. Takes over `excluded`, also on failure. ncclInProgress: the
 * program has to poll. */
ncclResult_t nccl_create(const nccl_creation_t *creation);

/* Runs the creations of a group, a list by `next`, and frees them. */
ncclResult_t nccl_create_all(nccl_creation_t *first);

/* Frees the creations of a group that has failed. */
void nccl_create_drop(nccl_creation_t *first);

#endif
