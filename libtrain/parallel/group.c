/* Wraps libcoll's calls and copies their error messages. */
#include "libtrain/parallel/group.h"

#include <stdbool.h>

coll_status_t train_group_check(const train_group_t *group, coll_status_t status) {
  if (status == COLL_OK) return COLL_OK;
  bool finished = group->comm != NULL && coll_comm_error(group->comm) != COLL_OK;
  return base_fail(status, "%s", coll_last_error(finished ? group->comm : NULL));
}

coll_dtype_t train_group_dtype(train_dtype_t dtype) {
  static const coll_dtype_t types[TRAIN_DTYPES] = {[TRAIN_FLOAT32] = COLL_FLOAT32,
                                                   [TRAIN_BFLOAT16] = COLL_BFLOAT16,
                                                   [TRAIN_FLOAT16] = COLL_FLOAT16};
  return types[dtype];
}

coll_status_t train_group_init(coll_comm_t comm, train_group_t *group) {
  train_group_t made = {.comm = comm};
  COLL_TRY(train_group_check(&made, coll_comm_rank(comm, &made.rank)));
  COLL_TRY(train_group_check(&made, coll_comm_size(comm, &made.size)));
  *group = made;
  return COLL_OK;
}

coll_status_t train_group_agree(const train_group_t *group, coll_status_t status) {
  if (group->comm == NULL) return status;
  int32_t first_failed = status == COLL_OK ? group->size : group->rank;
  COLL_TRY(train_group_check(group, coll_allreduce(&first_failed, &first_failed, 1, COLL_INT32,
                                                   COLL_MIN, group->comm, NULL)));
  if (first_failed == group->size || first_failed == group->rank) return status;
  return base_fail(status != COLL_OK ? status : COLL_ERROR_RANK_LOST, "%s", "");
}

coll_status_t train_group_check_same(const train_group_t *group, uint64_t digest,
                                     const char *what) {
  uint64_t extremes[2] = {digest, ~digest}; /* the maximum of ~digest is the complement of the
                                             * minimum of digest */
  if (group->comm == NULL) return COLL_OK;
  COLL_TRY(train_group_check(
      group, coll_allreduce(extremes, extremes, 2, COLL_UINT64, COLL_MAX, group->comm, NULL)));
  if (extremes[0] == ~extremes[1]) return COLL_OK;
  return train_group_agree(
      group,
      base_fail(COLL_ERROR_MISMATCH,
                "the ranks have different %s: start all ranks with the same options and data",
                what));
}

coll_status_t train_group_sum_floats(const train_group_t *group, float *values, size_t count) {
  if (group->comm == NULL) return COLL_OK;
  return train_group_check(
      group, coll_allreduce(values, values, count, COLL_FLOAT32, COLL_SUM, group->comm, NULL));
}

coll_status_t train_group_sum_doubles(const train_group_t *group, double *values, size_t count) {
  if (group->comm == NULL) return COLL_OK;
  return train_group_check(
      group, coll_allreduce(values, values, count, COLL_FLOAT64, COLL_SUM, group->comm, NULL));
}

coll_status_t train_group_max(const train_group_t *group, int64_t *values, size_t count) {
  if (group->comm == NULL) return COLL_OK;
  return train_group_check(
      group, coll_allreduce(values, values, count, COLL_INT64, COLL_MAX, group->comm, NULL));
}

coll_status_t train_group_broadcast_floats(const train_group_t *group, float *values, size_t count,
                                           int root) {
  if (group->comm == NULL) return COLL_OK;
  return train_group_check(
      group, coll_broadcast(values, values, count, COLL_FLOAT32, root, group->comm, NULL));
}

coll_status_t train_group_sum_integers(const train_group_t *group, uint64_t *values, size_t count) {
  if (group->comm == NULL) return COLL_OK;
  return train_group_check(
      group, coll_allreduce(values, values, count, COLL_UINT64, COLL_SUM, group->comm, NULL));
}

coll_status_t train_group_broadcast_bytes(const train_group_t *group, void *bytes, size_t count,
                                          int root) {
  if (group->comm == NULL) return COLL_OK;
  return train_group_check(
      group, coll_broadcast(bytes, bytes, count, COLL_UINT8, root, group->comm, NULL));
}

coll_status_t train_group_send(const train_group_t *group, const void *bytes, size_t count,
                               int to) {
  return train_group_check(group, coll_send(bytes, count, COLL_UINT8, to, group->comm, NULL));
}

coll_status_t train_group_receive(const train_group_t *group, void *bytes, size_t count, int from) {
  return train_group_check(group, coll_recv(bytes, count, COLL_UINT8, from, group->comm, NULL));
}
