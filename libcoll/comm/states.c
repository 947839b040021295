/* What is no live communicator: why. */
#include "comm/states.h"

pthread_mutex_t comm_states_lock = PTHREAD_MUTEX_INITIALIZER;

coll_status_t comm_fail_no_handle(const struct coll_comm *comm) {
  return base_fail(COLL_ERROR_INVALID,
                   "%p is not a communicator, or it was destroyed already: use the handle that "
                   "coll_comm_create set",
                   (const void *)comm);
}

coll_status_t comm_handle_state(const struct coll_comm *comm) {
  COLL_TRY(comm_check_inherited(comm));
  pthread_mutex_lock(&comm_states_lock);
  comm_state_t state = comm_state_of(comm);
  coll_status_t status = COLL_OK;
  if (comm_state_is_busy(state)) {
    status = COLL_IN_PROGRESS;
  } else if (state == COMM_NOT_MADE) {
    status = base_fail((coll_status_t)atomic_load(&comm->errors.failure), "%s",
                       comm->errors.failure_text);
  } else if (state != COMM_LIVE && state != COMM_FINALIZED) {
    status = comm_fail_no_handle(comm);
  }
  pthread_mutex_unlock(&comm_states_lock);
  return status;
}

coll_status_t comm_fail_not_live(const struct coll_comm *comm) {
  if (comm == NULL) return base_fail(COLL_ERROR_INVALID, "the communicator is NULL");
  coll_status_t status = comm_handle_state(comm);
  if (status == COLL_OK && comm_state_of(comm) == COMM_FINALIZED) {
    return base_fail(COLL_ERROR_INVALID, "the communicator is finalized: it can only be destroyed");
  }
  if (status != COLL_IN_PROGRESS) return status;
  return base_fail(COLL_ERROR_INVALID,
                   "a thread still makes, splits or finalizes the communicator: call "
                   "coll_comm_error until it no longer returns COLL_IN_PROGRESS");
}
