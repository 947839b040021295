/* Every call of the library passes through here, so its sentence is kept in one place. */
#include "libtrain/parallel/team.h"

/* libcoll keeps its own last error; this moves it to where the program looks. */
static coll_status_t kept(const train_team_t *team, coll_status_t status) {
  return status == COLL_OK ? status : base_fail(status, "%s", coll_last_error(team->comm));
}

coll_status_t train_team_init(coll_comm_t comm, train_team_t *team) {
  train_team_t made = {.comm = comm};
  COLL_TRY(kept(&made, coll_comm_rank(comm, &made.rank)));
  COLL_TRY(kept(&made, coll_comm_size(comm, &made.size)));
  *team = made;
  return COLL_OK;
}

coll_status_t train_team_agree(const train_team_t *team, coll_status_t status) {
  int32_t first_failed = status == COLL_OK ? team->size : team->rank;
  COLL_TRY(kept(team, coll_allreduce(&first_failed, &first_failed, 1, COLL_INT32, COLL_MIN,
                                     team->comm, NULL)));
  if (first_failed == team->size || first_failed == team->rank) return status;
  return base_fail(status != COLL_OK ? status : COLL_ERROR_RANK_LOST, "%s", "");
}

coll_status_t train_team_check_same(const train_team_t *team, uint64_t digest, const char *what) {
  uint64_t extremes[2] = {digest, ~digest}; /* the largest of ~digest is ~ of the smallest */
  COLL_TRY(
      kept(team, coll_allreduce(extremes, extremes, 2, COLL_UINT64, COLL_MAX, team->comm, NULL)));
  if (extremes[0] == ~extremes[1]) return COLL_OK;
  return train_team_agree(team, base_fail(COLL_ERROR_MISMATCH,
                                          "the ranks differ in %s: start all of them alike", what));
}

coll_status_t train_team_sum_floats(const train_team_t *team, float *values, size_t count) {
  return kept(team,
              coll_allreduce(values, values, count, COLL_FLOAT32, COLL_SUM, team->comm, NULL));
}

coll_status_t train_team_sum_doubles(const train_team_t *team, double *values, size_t count) {
  return kept(team,
              coll_allreduce(values, values, count, COLL_FLOAT64, COLL_SUM, team->comm, NULL));
}

coll_status_t train_team_broadcast_floats(const train_team_t *team, float *values, size_t count,
                                          int root) {
  return kept(team, coll_broadcast(values, values, count, COLL_FLOAT32, root, team->comm, NULL));
}
