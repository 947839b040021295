/*
 * Communicators that one thread makes: several ranks in a group, and without blocking.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "creation.h"
#include "harness/thread_call.h"

/* As programs of NCCL do: all ranks of one process, by one thread. */
Test(creation, of_several_ranks_in_a_group) {
  for (int size = 1; size <= 5; size++) {
    coll_unique_id_t id;
    coll_comm_t comms[5] = {0};
    int rank;
    OK(coll_unique_id_create(NULL, &id));
    OK(coll_group_start());
    for (int i = 0; i < size; i++) OK(coll_comm_create(&id, i, size, NULL, &comms[i]));
    OK(coll_group_end());
    for (int i = 0; i < size; i++) {
      OK(coll_comm_rank(comms[i], &rank));
      cr_assert_eq(rank, i);
    }
    sum(comms, size);
    destroy(comms, size);
  }
}

/* With an id that only ranks of this host can use. */
Test(creation, at_the_loopback_interface) {
  coll_comm_config_t config = COLL_COMM_CONFIG_INIT;
  coll_unique_id_t id;
  coll_comm_t comms[3];
  config.interfaces = "=lo";
  OK(coll_unique_id_create(&config, &id));
  OK(coll_group_start());
  for (int rank = 0; rank < 3; rank++) OK(coll_comm_create(&id, rank, 3, NULL, &comms[rank]));
  OK(coll_group_end());
  sum(comms, 3);
  destroy(comms, 3);
}

Test(creation, of_two_communicators_in_a_group) {
  coll_unique_id_t ids[2];
  coll_comm_t comms[2][3];
  for (int c = 0; c < 2; c++) OK(coll_unique_id_create(NULL, &ids[c]));
  OK(coll_group_start());
  OK(coll_group_start()); /* groups may be nested */
  for (int rank = 0; rank < 3; rank++) {
    for (int c = 0; c < 2; c++) OK(coll_comm_create(&ids[c], rank, 3, NULL, &comms[c][rank]));
  }
  OK(coll_group_end());
  OK(coll_group_end());
  for (int c = 0; c < 2; c++) sum(comms[c], 3);
  for (int c = 0; c < 2; c++) destroy(comms[c], 3);
}

/* Splits two communicators, each twice; one rank gets no communicator. */
static void split_twice(int blocking) {
  enum { SIZE = 4 };
  coll_comm_t parents[2][SIZE], halves[2][SIZE], pairs[2][SIZE];
  for (int c = 0; c < 2; c++) make(parents[c], SIZE, blocking);
  OK(coll_group_start());
  for (int rank = 0; rank < SIZE; rank++) {
    for (int c = 0; c < 2; c++) {
      OK(coll_comm_split(parents[c][rank], rank / 2, rank, NULL, &halves[c][rank]));
      OK(coll_comm_split(parents[c][rank], rank == 3 ? -1 : 0, -rank, NULL, &pairs[c][rank]));
    }
  }
  IS(coll_group_end(), blocking ? COLL_OK : COLL_IN_PROGRESS);
  for (int c = 0; c < 2; c++) {
    for (int rank = 0; rank < SIZE; rank++) IS(await(parents[c][rank]), COLL_OK);
    cr_assert_null(pairs[c][3]);
    for (int rank = 0; rank < SIZE; rank++) {
      int got;
      OK(coll_comm_error(halves[c][rank])); /* ready when the parent is */
      OK(coll_comm_rank(halves[c][rank], &got));
      cr_assert_eq(got, rank % 2);
    }
    sum(&halves[c][0], 2);
    sum(&halves[c][2], 2);
    sum(pairs[c], 3);
    sum(parents[c], SIZE);
    destroy(halves[c], SIZE);
    destroy(pairs[c], SIZE);
    destroy(parents[c], SIZE);
  }
}

Test(creation, by_splits_in_a_group) {
  split_twice(1);
}

Test(creation, by_splits_in_a_group_without_blocking) {
  split_twice(0);
}

Test(creation, returns_at_once_and_is_queried) {
  coll_unique_id_t id;
  coll_comm_t comms[2];
  const coll_comm_config_t config = config_of(0);
  int rank;
  OK(coll_unique_id_create(NULL, &id));
  IS(coll_comm_create(&id, 0, 2, &config, &comms[0]), COLL_IN_PROGRESS);
  for (int i = 0; i < 20; i++) {
    IS(coll_comm_error(comms[0]), COLL_IN_PROGRESS);
    nap_ms(1);
  }
  IS(coll_comm_rank(comms[0], &rank), COLL_ERROR_INVALID);
  says("COLL_IN_PROGRESS");
  IS(coll_barrier(comms[0], NULL), COLL_ERROR_INVALID);
  says("COLL_IN_PROGRESS");
  IS(coll_comm_create(&id, 1, 2, &config, &comms[1]), COLL_IN_PROGRESS);
  for (int i = 0; i < 2; i++) IS(await(comms[i]), COLL_OK);
  sum(comms, 2);
  destroy(comms, 2);
}

/* Rank 1 never comes. */
Test(creation, is_aborted_and_destroyed) {
  for (int aborts = 0; aborts < 2; aborts++) {
    coll_unique_id_t id;
    coll_comm_t comm;
    const coll_comm_config_t config = config_of(0);
    double begin = now_s();
    OK(coll_unique_id_create(NULL, &id));
    IS(coll_comm_create(&id, 0, 2, &config, &comm), COLL_IN_PROGRESS);
    for (int i = 0; i < 50; i++) nap_ms(1);
    if (aborts) {
      OK(coll_comm_abort(comm));
      IS(await(comm), COLL_ERROR_RANK_LOST);
      says("rank 0 called coll_comm_abort before the communicator was made");
      IS(coll_barrier(comm, NULL), COLL_ERROR_RANK_LOST);
    }
    OK(coll_comm_destroy(comm));
    cr_assert_lt(now_s() - begin, CREATION_TIMEOUT_S / 2);
  }
}

/* Calls that are queued are waited for; then no others are accepted. */
static void finalize(int blocking) {
  enum { CALLS = 50 };
  coll_comm_t comms[2];
  coll_stream_t streams[2];
  int64_t in[2][CALLS], out[2][CALLS];
  make(comms, 2, blocking);
  for (int r = 0; r < 2; r++) {
    OK(coll_stream_create(&streams[r]));
    for (int i = 0; i < CALLS; i++) {
      in[r][i] = i + r;
      OK(coll_allreduce(&in[r][i], &out[r][i], 1, COLL_INT64, COLL_SUM, comms[r], streams[r]));
    }
  }
  for (int r = 0; r < 2; r++) {
    IS(coll_comm_finalize(comms[r]), blocking ? COLL_OK : COLL_IN_PROGRESS);
    OK(await(comms[r]));
    OK(coll_stream_sync(streams[r])); /* at once: its calls are done */
    for (int i = 0; i < CALLS; i++) cr_assert_eq(out[r][i], 2 * i + 1);
    IS(coll_barrier(comms[r], NULL), COLL_ERROR_INVALID);
    says("finalized");
    IS(coll_comm_finalize(comms[r]), COLL_ERROR_INVALID);
    OK(coll_stream_destroy(streams[r]));
  }
  destroy(comms, 2);
}

Test(creation, ends_with_finalize) {
  finalize(1);
  finalize(0);
}

/* A call that waits for a rank for ever is ended by an abort; destroy waits for the rest. */
Test(creation, is_finalized_and_aborted) {
  coll_comm_t comms[2];
  coll_stream_t stream;
  make(comms, 2, 0);
  OK(coll_stream_create(&stream));
  OK(coll_barrier(comms[0], stream));
  IS(coll_comm_finalize(comms[0]), COLL_IN_PROGRESS);
  nap_ms(20);
  IS(coll_comm_error(comms[0]), COLL_IN_PROGRESS);
  OK(coll_comm_abort(comms[0]));
  IS(await(comms[0]), COLL_ERROR_RANK_LOST);
  IS(coll_stream_destroy(stream), COLL_ERROR_RANK_LOST);
  IS(await_failure(comms[1]), COLL_ERROR_RANK_LOST);
  destroy(comms, 2);
}

Test(creation, is_finalized_while_it_is_destroyed) {
  coll_comm_t comms[2];
  int32_t x = 1;
  make(comms, 2, 0);
  OK(coll_send(&x, 1, COLL_INT32, 1, comms[0], NULL));
  OK(coll_recv(&x, 1, COLL_INT32, 0, comms[1], NULL));
  for (int r = 0; r < 2; r++) IS(coll_comm_finalize(comms[r]), COLL_IN_PROGRESS);
  destroy(comms, 2);
}

static coll_status_t make_finalize(void *comm) {
  return coll_comm_finalize(comm);
}

static coll_status_t make_barrier(void *comm) {
  return coll_barrier(comm, NULL);
}

static void note_wait(void *waits) {
  atomic_store((_Atomic bool *)waits, true);
}

/* Rank 0 is in a call for which its peer never comes; then a thread of it finalizes. */
static void start_stuck(thread_call_t *stuck, thread_call_t *finalizer, coll_comm_t comm) {
  static _Atomic bool waits;
  atomic_store(&waits, false);
  OK(coll_comm_set_progress(comm, note_wait, &waits));
  thread_call_start(stuck, make_barrier, comm);
  while (!atomic_load(&waits)) nap_ms(1);
  thread_call_start(finalizer, make_finalize, comm);
  while (coll_comm_error(comm) == COLL_OK) nap_ms(1);
}

/* One that does not block is finalized in the background, the other one by another thread. */
static void finalize_in_two_threads(int blocking, bool has_split, bool aborts) {
  const coll_comm_config_t config = config_of(0);
  coll_comm_t comms[2], children[2];
  thread_call_t stuck, finalizer;
  make(comms, 2, blocking);
  for (int r = 0; has_split && r < 2; r++) {
    IS(coll_comm_split(comms[r], 0, 0, &config, &children[r]), COLL_IN_PROGRESS);
  }
  for (int r = 0; has_split && r < 2; r++) OK(await(comms[r]));
  start_stuck(&stuck, &finalizer, comms[0]);
  IS(coll_comm_finalize(comms[0]), COLL_ERROR_INVALID);
  OK(coll_comm_abort(aborts ? comms[0] : comms[1])); /* or the stuck call has no end */
  if (aborts) IS(await(comms[0]), COLL_ERROR_RANK_LOST);
  if (aborts) IS(await_failure(comms[1]), COLL_ERROR_RANK_LOST); /* before it finds a mismatch */
  OK(coll_comm_destroy(comms[0]));
  IS(thread_call_join(&stuck), COLL_ERROR_RANK_LOST);
  IS(thread_call_join(&finalizer), blocking ? COLL_OK : COLL_IN_PROGRESS);
  OK(coll_comm_destroy(comms[1]));
  if (has_split) destroy(children, 2);
}

Test(creation, is_finalized_by_one_thread_and_ended_by_another) {
  for (int i = 0; i < 8; i++) finalize_in_two_threads(i % 2, i / 2 % 2, i / 4);
}

/* A message was not received. What finalize finds in the background is returned once: by a query or
 * by destroy. */
static void find_by_finalize(int blocking, bool queries) {
  coll_comm_t comms[2];
  int32_t x = 1;
  make(comms, 2, blocking);
  OK(coll_send(&x, 1, COLL_INT32, 1, comms[0], NULL));
  IS(coll_comm_finalize(comms[1]), blocking ? COLL_ERROR_MISMATCH : COLL_IN_PROGRESS);
  if (queries) IS(await(comms[1]), COLL_ERROR_MISMATCH);
  IS(await_failure(comms[0]), COLL_ERROR_MISMATCH);
  IS(coll_comm_destroy(comms[1]), blocking || queries ? COLL_OK : COLL_ERROR_MISMATCH);
  says("send");
  OK(coll_comm_destroy(comms[0]));
}

Test(creation_failure, is_found_by_finalize) {
  for (int i = 0; i < 4; i++) find_by_finalize(i % 2, i / 2);
}

static coll_status_t fail(void *comm) {
  coll_status_t status = coll_comm_size(NULL, NULL);
  says("NULL");
  while (*coll_last_error(comm) == '\0' || strstr(coll_last_error(comm), "NULL")) nap_ms(1);
  cr_assert_not_null(strstr(coll_last_error(comm), "send"));
  says("NULL"); /* the thread's own text is as before */
  return status;
}

/* The communicator has it when it is finalized, for any thread. */
Test(creation_failure, has_a_text_when_finalized) {
  coll_comm_t comms[2];
  thread_call_t reader;
  int32_t x = 1;
  make(comms, 2, 0);
  OK(coll_send(&x, 1, COLL_INT32, 1, comms[0], NULL));
  IS(coll_comm_finalize(comms[1]), COLL_IN_PROGRESS);
  thread_call_start(&reader, fail, comms[1]);
  IS(thread_call_join(&reader), COLL_ERROR_INVALID);
  IS(coll_comm_destroy(comms[1]), COLL_ERROR_MISMATCH);
  coll_comm_destroy(comms[0]);
}

/* A query of the text is no failure of the thread. */
Test(creation_failure, leaves_the_text_of_the_thread) {
  coll_unique_id_t id;
  coll_comm_t comm;
  const coll_comm_config_t config = config_of(0);
  IS(coll_comm_size(NULL, NULL), COLL_ERROR_INVALID);
  says("NULL");
  OK(coll_unique_id_create(NULL, &id));
  IS(coll_comm_create(&id, 0, 2, &config, &comm), COLL_IN_PROGRESS);
  cr_assert_str_eq(coll_last_error(comm), coll_last_error(NULL));
  says("NULL");
  OK(coll_comm_abort(comm));
  IS(await(comm), COLL_ERROR_RANK_LOST);
  IS(coll_comm_size(NULL, NULL), COLL_ERROR_INVALID);
  cr_assert_not_null(strstr(coll_last_error(comm), "coll_comm_abort"));
  says("NULL");
  OK(coll_comm_destroy(comm));
}

static _Atomic bool has_destroyed;

/* In the thread that splits the communicator: makes another one, then tries to destroy it. */
static void make_and_destroy(void *comm) {
  coll_comm_t alone[1];
  if (atomic_load(&has_destroyed)) return;
  make(alone, 1, 1);
  IS(coll_comm_destroy(comm), COLL_ERROR_INVALID);
  says("progress callback");
  destroy(alone, 1);
  atomic_store(&has_destroyed, true);
}

Test(creation, by_a_split_whose_callback_makes_communicators) {
  coll_comm_t comms[2], children[2];
  make(comms, 2, 0);
  OK(coll_comm_set_progress(comms[0], make_and_destroy, comms[0]));
  IS(coll_comm_split(comms[0], 0, 0, NULL, &children[0]), COLL_IN_PROGRESS);
  while (!atomic_load(&has_destroyed)) nap_ms(1);
  IS(coll_comm_split(comms[1], 0, 0, NULL, &children[1]), COLL_IN_PROGRESS);
  for (int r = 0; r < 2; r++) OK(await(children[r]));
  for (int r = 0; r < 2; r++) OK(await(comms[r]));
  destroy(children, 2);
  destroy(comms, 2);
}

Test(creation, by_a_split_with_a_config) {
  coll_comm_t comms[2], children[2];
  coll_comm_config_t config = config_of(1);
  make(comms, 2, 0);
  config.reproducible = 1;
  IS(coll_comm_split(comms[0], 0, 0, &config, &children[0]), COLL_ERROR_INVALID);
  says("reproducible");
  config.reproducible = -1;
  config.call_timeout_ms = 100;
  OK(coll_group_start());
  for (int r = 0; r < 2; r++) {
    OK(coll_comm_split(comms[r], 0, 0, &config, &children[r]));
  }
  OK(coll_group_end()); /* blocking, although the parent is not */
  IS(coll_barrier(children[0], NULL), COLL_ERROR_TIMEOUT);
  IS(await_failure(children[1]), COLL_ERROR_TIMEOUT);
  destroy(children, 2);
  for (int r = 0; r < 2; r++)
    IS(coll_comm_split(comms[r], 0, 0, NULL, &children[r]), COLL_IN_PROGRESS);
  for (int r = 0; r < 2; r++) OK(await(children[r]));
  sum(children, 2);
  destroy(children, 2);
  destroy(comms, 2);
}
