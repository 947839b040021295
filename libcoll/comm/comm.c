/*
 * Operations on a communicator that any thread may use.
 */
#include "comm/comm.h"

#include <stdio.h>
#include <string.h>

bool comm_premul_find(struct coll_comm *comm, coll_op_t op, coll_dtype_t dtype,
                      comm_scalar_t *scalar) {
  bool found = false;
  pthread_mutex_lock(&comm->lock);
  for (size_t i = 0; i < comm->premul_count && !found; i++) {
    found = comm->premuls[i].op == op && comm->premuls[i].dtype == dtype;
    if (found) *scalar = comm->premuls[i].scalar;
  }
  pthread_mutex_unlock(&comm->lock);
  return found;
}

coll_status_t comm_record_error(struct coll_comm *comm, coll_status_t status) {
  pthread_mutex_lock(&comm->lock);
  snprintf(comm->last_error, sizeof comm->last_error, "%s", base_last_error());
  pthread_mutex_unlock(&comm->lock);
  return status;
}

bool comm_read_error(struct coll_comm *comm, char text[COMM_ERROR_BYTES]) {
  /* acquire: the text of what could not be made is visible */
  uint64_t state = atomic_load_explicit(&comm->magic, memory_order_acquire);
  bool is_made = state == COMM_MAGIC || state == COMM_MAGIC_FINALIZED;
  if (!is_made && state != COMM_MAGIC_NOT_MADE) return false;
  pthread_mutex_lock(&comm->lock);
  snprintf(text, COMM_ERROR_BYTES, "%s", is_made ? comm->last_error : comm->failure_text);
  pthread_mutex_unlock(&comm->lock);
  return true;
}
