/*
 * Operations on a communicator that any thread may use.
 */
#include "comm/comm.h"

#include <stdio.h>
#include <string.h>

base_handles_t comm_handles = BASE_HANDLES(struct coll_comm, "communicators");

static comm_state_t inherited_state(const struct coll_comm *comm) {
  int state = base_fork_inherited(base_handles_tag(&comm_handles, comm));
  return state >= 0 && state < COMM_NONE ? (comm_state_t)state : COMM_NONE;
}

bool comm_is_inherited(const struct coll_comm *comm) {
  return inherited_state(comm) != COMM_NONE;
}

coll_status_t comm_check_inherited(const struct coll_comm *comm) {
  if (!comm_is_inherited(comm)) return COLL_OK;
  return base_fork_fail("the communicator", comm->process,
                        "a forked process makes its own, by coll_comm_create with an id of its "
                        "own");
}

bool comm_has_rank(const struct coll_comm *comm) {
  if (comm_is_live(comm)) return true;
  comm_state_t state = inherited_state(comm);
  return state != COMM_NONE && state != COMM_CREATING && state != COMM_NOT_MADE;
}

bool comm_premul_find(struct coll_comm *comm, coll_op_t op, coll_dtype_t dtype,
                      comm_scalar_t *scalar) {
  bool found = false;
  pthread_mutex_lock(&comm->lock);
  for (size_t i = 0; i < comm->premuls.count && !found; i++) {
    found = comm->premuls.list[i].op == op && comm->premuls.list[i].dtype == dtype;
    if (found) *scalar = comm->premuls.list[i].scalar;
  }
  pthread_mutex_unlock(&comm->lock);
  return found;
}

coll_status_t comm_record_error(struct coll_comm *comm, coll_status_t status) {
  pthread_mutex_lock(&comm->lock);
  snprintf(comm->errors.last, sizeof comm->errors.last, "%s", base_last_error());
  pthread_mutex_unlock(&comm->lock);
  return status;
}

bool comm_read_error(struct coll_comm *comm, char text[COMM_ERROR_BYTES]) {
  if (comm_check_inherited(comm) != COLL_OK) {
    snprintf(text, COMM_ERROR_BYTES, "%s", base_last_error());
    return true;
  }
  comm_state_t state = comm_state_of(comm);
  bool is_made = state == COMM_LIVE || state == COMM_FINALIZED;
  if (!is_made && state != COMM_NOT_MADE) return false;
  pthread_mutex_lock(&comm->lock);
  snprintf(text, COMM_ERROR_BYTES, "%s", is_made ? comm->errors.last : comm->errors.failure_text);
  pthread_mutex_unlock(&comm->lock);
  return true;
}
