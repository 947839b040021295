/*
 * Wrong arguments: each is refused with an error text, and the communicator continues to work.
 */
#include <criterion/criterion.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/names.h"
#include "harness/party.h"

static coll_comm_t comms[2];

static void open_two(void) {
  if (coll_comm_create_local(2, NULL, comms) != COLL_OK) abort();
}

static void close_two(void) {
  coll_comm_destroy(comms[0]);
  coll_comm_destroy(comms[1]);
}

TestSuite(arguments, .init = open_two, .fini = close_two);

/* Checks that the call is refused, and that the error texts of thread and communicator contain the
 * words. */
#define REFUSED(call, words)                                                          \
  do {                                                                                \
    cr_assert_eq(call, COLL_ERROR_INVALID, "%s was not refused", #call);              \
    cr_assert_not_null(strstr(coll_last_error(NULL), words), "no '%s' in: %s", words, \
                       coll_last_error(NULL));                                        \
  } while (0)

static void still_works(void) {
  int32_t one = 1, sums[2] = {0, 0};
  coll_group_start();
  coll_allreduce(&one, &sums[0], 1, COLL_INT32, COLL_SUM, comms[0], NULL);
  coll_allreduce(&one, &sums[1], 1, COLL_INT32, COLL_SUM, comms[1], NULL);
  cr_assert_eq(coll_group_end(), COLL_OK, "%s", coll_last_error(NULL));
  cr_assert(sums[0] == 2 && sums[1] == 2);
  cr_assert_eq(coll_comm_error(comms[0]), COLL_OK);
}

Test(arguments, of_null_are_named) {
  int32_t data[4] = {0};
  size_t counts[2] = {1, 1};
  coll_comm_t comm = comms[0];
  REFUSED(coll_allreduce(NULL, data, 1, COLL_INT32, COLL_SUM, comm, NULL), "send buffer is NULL");
  REFUSED(coll_allreduce(data, NULL, 1, COLL_INT32, COLL_SUM, comm, NULL), "recv buffer is NULL");
  REFUSED(coll_broadcast(NULL, data, 1, COLL_INT32, 0, comm, NULL), "send buffer is NULL");
  REFUSED(coll_gather(data, NULL, 1, COLL_INT32, 0, comm, NULL), "recv buffer is NULL");
  REFUSED(coll_send(NULL, 1, COLL_INT32, 1, comm, NULL), "buffer is NULL");
  REFUSED(coll_recv(NULL, 1, COLL_INT32, 1, comm, NULL), "buffer is NULL");
  REFUSED(coll_alltoallv(data, NULL, counts, data + 2, counts, counts, COLL_INT32, comm, NULL),
          "NULL");
  REFUSED(coll_alltoallv(NULL, counts, counts, data, counts, counts, COLL_INT32, comm, NULL),
          "send buffer is NULL");
  REFUSED(coll_barrier(NULL, NULL), "communicator is NULL");
  REFUSED(coll_comm_rank(comm, NULL), "rank is NULL");
  REFUSED(coll_comm_size(comm, NULL), "size is NULL");
  const char *route;
  REFUSED(coll_comm_route(comm, 0, NULL), "route is NULL");
  REFUSED(coll_comm_route(comm, -1, &route), "rank -1");
  REFUSED(coll_comm_split(comm, 0, 0, NULL, NULL), "new_comm is NULL");
  REFUSED(coll_comm_create_local(2, NULL, NULL), "comms is NULL");
  REFUSED(coll_unique_id_create(NULL, NULL), "id is NULL");
  REFUSED(coll_comm_create_env(NULL, NULL), "comm is NULL");
  REFUSED(coll_mem_alloc(COLL_DEVICE_HOST, 1, NULL), "ptr is NULL");
  REFUSED(coll_stream_create(NULL), "stream is NULL");
  REFUSED(coll_stream_sync(NULL), "stream is NULL");
  still_works();
}

Test(arguments, may_be_null_where_a_rank_does_not_use_them) {
  int32_t one = 1, got = 0;
  coll_group_start();
  coll_broadcast(&one, &one, 1, COLL_INT32, 0, comms[0], NULL);
  coll_broadcast(NULL, &got, 1, COLL_INT32, 0, comms[1], NULL);
  coll_reduce(&one, &got, 1, COLL_INT32, COLL_SUM, 1, comms[1], NULL);
  coll_reduce(&one, NULL, 1, COLL_INT32, COLL_SUM, 1, comms[0], NULL);
  coll_allreduce(NULL, NULL, 0, COLL_INT32, COLL_SUM, comms[0], NULL);
  coll_allreduce(NULL, NULL, 0, COLL_INT32, COLL_SUM, comms[1], NULL);
  cr_assert_eq(coll_group_end(), COLL_OK, "%s", coll_last_error(NULL));
  cr_assert_eq(got, 2);
  cr_assert_eq(coll_comm_destroy(NULL), COLL_OK);
  cr_assert_eq(coll_stream_destroy(NULL), COLL_OK);
  cr_assert_eq(coll_mem_free(NULL), COLL_OK);
}

Test(arguments, out_of_range_are_named) {
  int32_t data[4] = {0};
  coll_comm_t comm = comms[1];
  REFUSED(coll_broadcast(data, data, 1, COLL_INT32, 2, comm, NULL), "root 2");
  REFUSED(coll_broadcast(data, data, 1, COLL_INT32, -1, comm, NULL), "root -1");
  REFUSED(coll_send(data, 1, COLL_INT32, 2, comm, NULL), "peer 2");
  REFUSED(coll_recv(data, 1, COLL_INT32, -1, comm, NULL), "peer -1");
  REFUSED(coll_allreduce(data, data, 1, (coll_dtype_t)99, COLL_SUM, comm, NULL), "dtype 99");
  REFUSED(coll_allreduce(data, data, 1, (coll_dtype_t)-1, COLL_SUM, comm, NULL), "dtype -1");
  REFUSED(coll_allreduce(data, data, 1, COLL_INT32, (coll_op_t)77, comm, NULL), "op 77");
  REFUSED(coll_allreduce(data, data, 1, COLL_INT32, (coll_op_t)-3, comm, NULL), "op -3");
  REFUSED(coll_allreduce(data, data, 1, COLL_INT32, COLL_OP_BUILTIN_COUNT, comm, NULL), "op 8");
  REFUSED(coll_allreduce(data, data, SIZE_MAX, COLL_INT32, COLL_SUM, comm, NULL), "count");
  REFUSED(coll_allgather(data, data + 2, SIZE_MAX / 5, COLL_INT32, comm, NULL), "count");
  REFUSED(coll_comm_create_local(0, NULL, comms), "0 ranks");
  REFUSED(coll_comm_create_local(-5, NULL, comms), "-5 ranks");
  REFUSED(coll_comm_create_local(1 << 30, NULL, comms), "ranks");
  REFUSED(coll_comm_algo_set(comm, COLL_ALLREDUCE, "rinng"), "ring");
  REFUSED(coll_comm_algo_set(comm, (coll_collective_t)55, "ring"), "55");
  still_works();
}

/* Also where a call of the same shape with another op or dtype has been made before. */
Test(arguments, bitwise_ops_take_integers_only) {
  static const coll_op_t ops[] = {COLL_BAND, COLL_BOR, COLL_BXOR};
  uint64_t in[4] = {1, 2, 3, 4}, out[4];
  coll_comm_t alone;
  cr_assert_eq(coll_comm_create_local(1, NULL, &alone), COLL_OK);
  for (int i = 0; i < 3 * COLL_DTYPE_COUNT; i++) {
    coll_op_t op = ops[i % 3];
    coll_dtype_t dtype = (coll_dtype_t)(i / 3);
    char sentence[80];
    cr_assert_eq(coll_reduce(in, out, 4, dtype, COLL_SUM, 0, alone, NULL), COLL_OK);
    if (base_dtype_is_integer(dtype)) {
      cr_assert_eq(coll_reduce(in, out, 4, dtype, op, 0, alone, NULL), COLL_OK);
      continue;
    }
    snprintf(sentence, sizeof sentence, "op %s combines the bits of integers, but the dtype is %s",
             coll_op_name(op), coll_dtype_name(dtype));
    REFUSED(coll_allreduce(in, out, 4, dtype, op, alone, NULL), sentence);
    REFUSED(coll_reduce(in, out, 4, dtype, op, 0, alone, NULL), sentence);
    REFUSED(coll_reduce_scatter(in, out, 4, dtype, op, alone, NULL), sentence);
    REFUSED(coll_reduce_scatter(in, out, 0, dtype, op, alone, NULL), sentence);
  }
  cr_assert_eq(coll_comm_destroy(alone), COLL_OK);
  still_works();
}

Test(arguments, of_alltoallv_are_checked) {
  int32_t data[8] = {0};
  size_t ones[2] = {1, 1}, two_ones[2] = {2, 1}, displs[2] = {0, 1}, far[2] = {0, SIZE_MAX - 1};
  REFUSED(
      coll_alltoallv(data, two_ones, displs, data + 4, ones, displs, COLL_INT32, comms[0], NULL),
      "itself");
  REFUSED(coll_alltoallv(data, ones, far, data + 4, ones, displs, COLL_INT32, comms[0], NULL),
          "memory");
  REFUSED(coll_alltoallv(data, ones, displs, data + 1, ones, displs, COLL_INT32, comms[0], NULL),
          "overlap");
  still_works();
}

Test(arguments, of_vector_collectives_are_checked) {
  int32_t data[8] = {0};
  size_t ones[2] = {1, 1}, uneven[2] = {2, 1}, packed[2] = {0, 2}, far[2] = {0, SIZE_MAX - 1},
         huge[2] = {SIZE_MAX / 4, 1};
  coll_comm_t comm = comms[1];
  REFUSED(coll_allgatherv(data, data + 4, NULL, packed, COLL_INT32, comm, NULL), "counts is NULL");
  REFUSED(coll_allgatherv(data, data + 4, uneven, far, COLL_INT32, comm, NULL), "memory");
  REFUSED(coll_allgatherv(data, data + 4, ones, far, COLL_INT32, comm, NULL), "memory");
  REFUSED(coll_allgatherv(data, data + 4, huge, NULL, COLL_INT32, comm, NULL), "memory");
  REFUSED(coll_allgatherv(data, data, uneven, packed, COLL_INT32, comm, NULL), "overlap");
  REFUSED(coll_allgatherv(data, data + 4, uneven, NULL, COLL_DTYPE_COUNT, comm, NULL), "dtype");
  REFUSED(coll_allgatherv(NULL, data, uneven, NULL, COLL_INT32, comm, NULL), "send buffer is NULL");
  REFUSED(coll_reduce_scatterv(data, data + 4, NULL, COLL_INT32, COLL_SUM, comm, NULL), "NULL");
  REFUSED(coll_reduce_scatterv(data, data, uneven, COLL_INT32, COLL_SUM, comm, NULL), "overlap");
  REFUSED(coll_reduce_scatterv(data, NULL, uneven, COLL_INT32, COLL_SUM, comm, NULL),
          "recv buffer is NULL");
  REFUSED(coll_reduce_scatterv(data, data + 4, uneven, COLL_FLOAT32, COLL_BXOR, comm, NULL), "op");
  REFUSED(coll_allgatherv(data, data + 4, uneven, NULL, COLL_INT32, NULL, NULL), "NULL");
  still_works();
}

/* Ranks other than the root ignore what only the root passes. */
Test(arguments, of_gatherv_and_scatterv_are_checked) {
  int32_t data[8] = {0};
  size_t uneven[2] = {2, 1}, packed[2] = {0, 2}, far[2] = {0, SIZE_MAX - 1};
  coll_comm_t comm = comms[0];
  REFUSED(coll_gatherv(data, 2, data + 4, NULL, packed, COLL_INT32, 0, comm, NULL),
          "counts is NULL");
  REFUSED(coll_gatherv(data, 1, data + 4, uneven, packed, COLL_INT32, 0, comm, NULL), "itself");
  REFUSED(coll_gatherv(data, 2, data + 4, uneven, far, COLL_INT32, 0, comm, NULL), "memory");
  REFUSED(coll_gatherv(data, 2, data + 1, uneven, packed, COLL_INT32, 0, comm, NULL), "overlap");
  REFUSED(coll_gatherv(NULL, 2, NULL, NULL, NULL, COLL_INT32, 1, comm, NULL), "send buffer");
  REFUSED(coll_gatherv(data, 2, data + 4, uneven, NULL, COLL_INT32, 2, comm, NULL), "root 2");
  REFUSED(coll_scatterv(data, NULL, packed, data + 4, 2, COLL_INT32, 0, comm, NULL),
          "counts is NULL");
  REFUSED(coll_scatterv(data, uneven, packed, data + 4, 1, COLL_INT32, 0, comm, NULL), "itself");
  REFUSED(coll_scatterv(data, uneven, NULL, data + 1, 2, COLL_INT32, 0, comm, NULL), "overlap");
  REFUSED(coll_scatterv(NULL, NULL, NULL, NULL, 2, COLL_INT32, 1, comm, NULL), "recv buffer");
  still_works();
}

Test(arguments, that_overlap_are_refused) {
  int32_t data[8] = {0};
  coll_comm_t comm = comms[1];
  REFUSED(coll_allreduce(data, data + 1, 2, COLL_INT32, COLL_SUM, comm, NULL), "overlap");
  REFUSED(coll_allgather(data, data, 2, COLL_INT32, comm, NULL), "overlap");
  REFUSED(coll_reduce_scatter(data, data, 2, COLL_INT32, COLL_SUM, comm, NULL), "overlap");
  REFUSED(coll_alltoall(data, data + 2, 2, COLL_INT32, comm, NULL), "overlap");
  still_works();
}

/* An argument too large for its bit field could make the shape of an earlier call. */
Test(arguments, are_checked_on_the_fast_path) {
  int32_t in[4] = {1, 2, 3, 4}, out[4];
  coll_comm_t comm;
  cr_assert_eq(coll_comm_create_local(1, NULL, &comm), COLL_OK);
  for (int round = 0; round < 3; round++) {
    memset(out, 0, sizeof out);
    cr_assert_eq(coll_reduce(in, out, 4, COLL_INT32, COLL_SUM, 0, comm, NULL), COLL_OK);
    cr_assert_arr_eq(out, in, sizeof in);
    memset(out, 0, sizeof out);
    cr_assert_eq(coll_gather(in, out, 4, COLL_INT32, 0, comm, NULL), COLL_OK);
    cr_assert_arr_eq(out, in, sizeof in);
    cr_assert_eq(coll_gather(in, in, 4, COLL_INT32, 0, comm, NULL), COLL_OK, "in place");
    for (int high = 1 << 8; high <= 1 << 28; high *= 2) {
      coll_dtype_t dtype = (coll_dtype_t)((int)COLL_INT32 + high);
      coll_op_t op = (coll_op_t)((int)COLL_SUM + high);
      REFUSED(coll_reduce(in, out, 4, dtype, COLL_SUM, 0, comm, NULL), "dtype");
      REFUSED(coll_reduce(in, out, 4, COLL_INT32, op, 0, comm, NULL), "op");
      REFUSED(coll_gather(in, out, 4, dtype, 0, comm, NULL), "dtype");
      REFUSED(coll_gather(in, out, 4, COLL_INT32, high, comm, NULL), "root");
    }
    REFUSED(coll_gather(NULL, out, 4, COLL_INT32, 0, comm, NULL), "send buffer is NULL");
    REFUSED(coll_gather(in, NULL, 4, COLL_INT32, 0, comm, NULL), "recv buffer is NULL");
    REFUSED(coll_gather(in, in + 1, 4, COLL_INT32, 0, comm, NULL), "overlap");
  }
  cr_assert_eq(coll_comm_destroy(comm), COLL_OK);
  REFUSED(coll_gather(in, out, 4, COLL_INT32, 0, NULL, NULL), "communicator is NULL");
}

Test(arguments, failed_rank_is_none_or_the_one_that_aborted) {
  int failed = -2;
  REFUSED(coll_comm_failed_rank(comms[0], NULL), "rank is NULL");
  cr_assert_eq(coll_comm_failed_rank(comms[0], &failed), COLL_OK);
  cr_assert_eq(failed, -1);
  cr_assert_eq(coll_comm_abort(comms[1]), COLL_OK);
  for (int rank = 0; rank < 2; rank++) {
    cr_assert_eq(coll_comm_failed_rank(comms[rank], &failed), COLL_OK);
    cr_assert_eq(failed, 1);
  }
}

Test(arguments, that_were_destroyed_are_refused) {
  coll_comm_t alone;
  coll_stream_t stream;
  cr_assert_eq(coll_comm_create_local(1, NULL, &alone), COLL_OK);
  cr_assert_eq(coll_comm_destroy(alone), COLL_OK);
  static uint64_t nothing[512]; /* memory that a stale handle may point to */
  coll_comm_t stale = (coll_comm_t)(void *)nothing;
  REFUSED(coll_barrier(stale, NULL), "not a communicator");
  REFUSED(coll_comm_destroy(stale), "not a communicator");
  REFUSED(coll_comm_error(stale), "not a communicator");
  REFUSED(coll_comm_abort(stale), "not a communicator");
  REFUSED(coll_comm_failed_rank(stale, &(int){0}), "not a communicator");
  stream = (coll_stream_t)(void *)nothing;
  REFUSED(coll_barrier(comms[0], stream), "is not a stream");
  REFUSED(coll_stream_sync(stream), "is not a stream");
  REFUSED(coll_stream_query(stream), "is not a stream");
  REFUSED(coll_mem_free(nothing), "not returned by coll_mem_alloc");
  coll_group_start();
  REFUSED(coll_barrier(comms[0], stream), "is not a stream");
  REFUSED(coll_group_end(), "");
  still_works();
}

Test(arguments, of_creation_are_checked) {
  coll_unique_id_t id;
  coll_comm_t comm = NULL;
  coll_comm_config_t config = COLL_COMM_CONFIG_INIT;
  memset(&id, 0x5a, sizeof id);
  REFUSED(coll_comm_create(&id, 0, 1, NULL, &comm), "coll_unique_id_create");
  cr_assert_eq(coll_unique_id_create(NULL, &id), COLL_OK, "%s", coll_last_error(NULL));
  REFUSED(coll_comm_create(NULL, 0, 1, NULL, &comm), "id is NULL");
  REFUSED(coll_comm_create(&id, 0, 1, NULL, NULL), "comm is NULL");
  REFUSED(coll_comm_create(&id, 1, 1, NULL, &comm), "rank 1 of 1");
  REFUSED(coll_comm_create(&id, -1, 1, NULL, &comm), "rank -1 of 1");
  REFUSED(coll_comm_create(&id, 0, 0, NULL, &comm), "rank 0 of 0");
  REFUSED(coll_comm_create(&id, 0, 1 << 20, NULL, &comm), "size");
  config.create_timeout_ms = -1;
  REFUSED(coll_comm_create(&id, 0, 1, &config, &comm), "config");
  config = (coll_comm_config_t){0};
  REFUSED(coll_comm_create(&id, 0, 1, &config, &comm), "COLL_COMM_CONFIG_INIT");
  cr_assert_null(comm, "an output was set");
  cr_assert_eq(coll_comm_create(&id, 0, 1, NULL, &comm), COLL_OK, "%s", coll_last_error(NULL));
  coll_comm_destroy(comm);
}

Test(arguments, of_the_environment_are_checked) {
  coll_comm_t comm = NULL;
  setenv("COLL_TIMEOUT_MS", "soon", 1);
  REFUSED(coll_comm_create_env(NULL, &comm), "COLL_TIMEOUT_MS");
  unsetenv("COLL_TIMEOUT_MS");
  setenv("RANK", "5", 1);
  setenv("WORLD_SIZE", "3", 1);
  REFUSED(coll_comm_create_env(NULL, &comm), "RANK=5");
  cr_assert_null(comm);
}

Test(arguments, of_names_past_the_end_are_refused) {
  cr_assert_null(coll_collective_name(COLL_COLLECTIVE_COUNT));
  cr_assert_null(coll_algo_name(COLL_ALLREDUCE, 1000));
  cr_assert_null(coll_algo_name(COLL_ALLREDUCE, -1));
  cr_assert_null(coll_algo_name((coll_collective_t)99, 0));
  cr_assert_null(coll_dtype_name(COLL_DTYPE_COUNT));
  cr_assert_null(coll_op_name(COLL_OP_BUILTIN_COUNT));
  cr_assert_eq(coll_dtype_bytes((coll_dtype_t)-1), 0);
  cr_assert_not_null(coll_status_string((coll_status_t)99));
  coll_knob_t knob = COLL_KNOB_INIT;
  cr_assert_eq(coll_knob_get(0, &knob), COLL_OK);
  cr_expect_str_eq(knob.name, "COLL_TIMEOUT_MS");
  cr_expect_str_eq(knob.default_value, "60000");
  cr_assert_eq(coll_knob_get(1000, &knob), COLL_ERROR_INVALID);
  cr_assert_eq(coll_knob_get(-1, &knob), COLL_ERROR_INVALID);
  cr_assert_eq(coll_knob_get(0, NULL), COLL_ERROR_INVALID);
  cr_expect_eq(coll_knob_default(NULL, "1", "a test"), COLL_ERROR_INVALID);
  cr_expect_eq(coll_knob_default("COLL_NOTHING", "1", "a test"), COLL_ERROR_INVALID);
  cr_expect_not_null(strstr(coll_last_error(NULL), "COLL_NOTHING"));
  cr_assert_str_eq(coll_comm_algo_used(comms[0], COLL_ALLREDUCE), "");
  still_works();
  cr_assert_str_neq(coll_comm_algo_used(comms[0], COLL_ALLREDUCE), "");
}
