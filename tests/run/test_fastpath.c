/*
 * Which calls take the fast path from the second one on, and when they leave it.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "run/fastpath.h"

enum { SMALL = 4, LARGEST = COMM_FASTPATH_BYTES_MAX / sizeof(float) };

static float in[LARGEST + 1], out[LARGEST + 1];

static comm_cache_entry_t *entry_of(coll_comm_t comm, coll_op_t op, size_t count) {
  const comm_traits_t traits = {
      .collective = COLL_ALLREDUCE, .dtype = COLL_FLOAT32, .op = op, .reach = PLAN_REACH_USER};
  return run_fastpath_lookup(comm, comm_shape_make(traits, count));
}

static bool becomes_fast(coll_comm_t comm, coll_op_t op, size_t count) {
  cr_assert_null(entry_of(comm, op, count), "fast before the first call");
  cr_assert_eq(coll_allreduce(in, out, count, COLL_FLOAT32, op, comm, NULL), COLL_OK, "%s",
               coll_last_error(comm));
  return entry_of(comm, op, count) != NULL;
}

Test(fastpath, is_for_small_calls_that_need_only_the_run) {
  coll_comm_t comm;
  cr_assert_eq(coll_comm_create_local(1, NULL, &comm), COLL_OK);
  cr_assert(becomes_fast(comm, COLL_SUM, SMALL));
  cr_assert_eq(entry_of(comm, COLL_SUM, SMALL)->send_bytes, SMALL * sizeof(float));
  cr_assert(becomes_fast(comm, COLL_SUM, LARGEST));
  cr_assert_not(becomes_fast(comm, COLL_SUM, LARGEST + 1));
  cr_assert(becomes_fast(comm, COLL_AVG, SMALL), "the plan averages");
  coll_comm_destroy(comm);
}

Test(fastpath, ends_when_another_algorithm_is_forced) {
  coll_comm_t comm;
  cr_assert_eq(coll_comm_create_local(1, NULL, &comm), COLL_OK);
  cr_assert(becomes_fast(comm, COLL_SUM, SMALL));
  cr_assert_eq(coll_comm_algo_set(comm, COLL_ALLREDUCE, "ring"), COLL_OK);
  cr_assert_null(entry_of(comm, COLL_SUM, SMALL));
  coll_comm_destroy(comm);
}

Test(fastpath, fails_once_the_communicator_is_aborted) {
  coll_comm_t comm;
  cr_assert_eq(coll_comm_create_local(1, NULL, &comm), COLL_OK);
  cr_assert(becomes_fast(comm, COLL_SUM, SMALL));
  cr_assert_eq(coll_comm_abort(comm), COLL_OK);
  for (int i = 0; i < 2; i++) {
    coll_status_t status = coll_allreduce(in, out, SMALL, COLL_FLOAT32, COLL_SUM, comm, NULL);
    cr_assert_eq(status, COLL_ERROR_RANK_LOST, "%s", coll_last_error(comm));
    cr_assert_not_null(strstr(coll_last_error(comm), "aborted"), "%s", coll_last_error(comm));
  }
  coll_comm_destroy(comm);
}
