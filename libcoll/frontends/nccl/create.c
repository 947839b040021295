/*
 * Creations of communicators. coll.h makes those of a group together, and those of non-blocking
 * programs in the background; what is left to do is what its creations need to know beforehand.
 */
#include "frontends/nccl/create.h"

#include <stdlib.h>

#include "frontends/nccl/driver.h"
#include "frontends/nccl/environment.h"
#include "frontends/nccl/group.h"

/* A rank without a color makes the calls of a split, but gets no communicator. */
static bool gets_none(const nccl_creation_t *creation) {
  return creation->color == NCCL_NO_COLOR;
}

/* Gives the handle its communicator. False: the program has aborted it meanwhile, in another thread
 * or earlier in a group that has failed. */
static bool hand_over(nccl_creation_t *creation) {
  ncclComm_t made = creation->made;
  atomic_store(&made->comm, creation->comm);
  if (creation->parent != NULL && creation->comm != NULL && !creation->blocking) {
    nccl_handle_link(creation->parent, made);
  }
  if (!atomic_load(&made->is_abandoned)) return true;
  coll_comm_abort(creation->comm);
  return false;
}

/* Frees a creation. If it has no communicator, and will get none, the program loses its handle. */
static bool finish(nccl_creation_t *creation) {
  ncclComm_t made = creation->made;
  bool is_good = gets_none(creation) || hand_over(creation);
  if (!is_good) *creation->out = NULL;
  if (!gets_none(creation) && creation->comm == NULL) {
    *creation->out = NULL;
    nccl_handle_disown(made);
  } else if (!gets_none(creation)) {
    nccl_log(NCCL_LOG_INFO, "%s: communicator %p", creation->function, (void *)made);
  }
  nccl_handle_release(made);
  if (creation->parent != NULL) nccl_handle_release(creation->parent);
  free(creation->excluded);
  free(creation);
  return is_good;
}

/* The ids of communicators that are made from others, in one group, as one thread may make the
 * calls of several ranks. */
static coll_status_t exchange(nccl_creation_t *first) {
  coll_status_t status = coll_group_start();
  for (nccl_creation_t *each = first; each != NULL && status == COLL_OK; each = each->next) {
    if (each->exchange != NULL) status = each->exchange(each);
  }
  coll_status_t ended = coll_group_end();
  return status != COLL_OK ? status : ended;
}

/* On the GPU of the thread when it made the call, which in a group may have another one now. */
static coll_status_t make(nccl_creation_t *creation) {
  coll_comm_config_t config = COLL_COMM_CONFIG_INIT;
  ncclComm_t made = creation->made;
  bool on_gpu = !made->device_is_guessed && nccl_driver_enter(made->device);
  config.blocking = creation->blocking;
  coll_status_t status = creation->make(creation, &config, &creation->comm);
  if (on_gpu) nccl_driver_leave(made->device);
  if (status != COLL_OK && status != COLL_IN_PROGRESS) creation->comm = NULL;
  return status;
}

static coll_status_t make_all(nccl_creation_t *first) {
  if (first->next == NULL) return make(first);
  coll_status_t status = coll_group_start();
  for (nccl_creation_t *each = first; each != NULL && status == COLL_OK; each = each->next) {
    status = make(each);
    if (status == COLL_IN_PROGRESS) status = COLL_OK;
  }
  coll_status_t ended = coll_group_end();
  return status != COLL_OK ? status : ended;
}

/* Whether the program has aborted none of them. */
static bool finish_all(nccl_creation_t *first) {
  bool is_good = true;
  for (nccl_creation_t *each = first, *next; each != NULL; each = next) {
    next = each->next;
    is_good = finish(each) && is_good;
  }
  return is_good;
}

ncclResult_t nccl_create_all(nccl_creation_t *first) {
  if (first == NULL) return ncclSuccess;
  const char *function = first->function;
  coll_status_t status = exchange(first);
  if (status == COLL_OK) status = make_all(first);
  ncclResult_t result = nccl_result(status, function);
  bool is_good = finish_all(first);
  if (is_good || (result != ncclSuccess && result != ncclInProgress)) return result;
  return nccl_fail(ncclInvalidUsage,
                   "%s: ncclCommAbort was called before the communicator was made", function);
}

void nccl_create_drop(nccl_creation_t *first) {
  (void)finish_all(first);
}

ncclResult_t nccl_create(const nccl_creation_t *asked) {
  nccl_creation_t *creation = malloc(sizeof *creation);
  ncclComm_t made = nccl_handle_new(asked->blocking, -1);
  if (creation == NULL || made == NULL) {
    free(creation);
    free(made);
    free(asked->excluded);
    return nccl_fail(ncclSystemError, "%s: out of memory", asked->function);
  }
  *creation = *asked;
  creation->made = made;
  if (!gets_none(creation)) nccl_handle_use(made);
  if (creation->parent != NULL) nccl_handle_use(creation->parent);
  *creation->out = gets_none(creation) ? NULL : made;
  if (!nccl_group_is_open()) return nccl_create_all(creation);
  nccl_group_add_creation(creation);
  return ncclSuccess;
}
