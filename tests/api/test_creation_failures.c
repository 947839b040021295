/*
 * Communicators that one thread makes in a group or without blocking, and that cannot be made.
 */
#include <dirent.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "creation.h"

Test(creation_failure, wrong_arguments_make_none) {
  coll_unique_id_t id;
  coll_comm_t comms[3] = {0}, child = NULL;
  coll_comm_config_t config = config_of(2);
  OK(coll_unique_id_create(NULL, &id));
  IS(coll_comm_create(&id, 0, 1, &config, &comms[0]), COLL_ERROR_INVALID);
  says("blocking 2");
  config = config_of(1);
  config.reserved = 1;
  IS(coll_comm_create(&id, 0, 1, &config, &comms[0]), COLL_ERROR_INVALID);
  says("reserved 1");
  OK(coll_group_start());
  for (int i = 0; i < 2; i++) OK(coll_comm_create(&id, i, 2, NULL, &comms[i]));
  IS(coll_comm_create(&id, 2, 2, NULL, &comms[2]), COLL_ERROR_INVALID);
  IS(coll_group_end(), COLL_ERROR_INVALID);
  for (int i = 0; i < 2; i++) cr_assert_null(comms[i]);
  make(comms, 2, 1); /* with another id: a group of this thread is as new */
  OK(coll_group_start());
  OK(coll_comm_split(comms[0], 0, 0, NULL, &child));
  IS(coll_comm_split(comms[1], 0, 0, NULL, NULL), COLL_ERROR_INVALID);
  IS(coll_group_end(), COLL_ERROR_INVALID);
  cr_assert_null(child);
  sum(comms, 2); /* nobody has split */
  destroy(comms, 2);
}

Test(creation_failure, cancelled_groups_make_no_communicators) {
  coll_unique_id_t id;
  coll_comm_t comms[2] = {0}, child = NULL;
  OK(coll_unique_id_create(NULL, &id));
  OK(coll_group_start());
  for (int i = 0; i < 2; i++) OK(coll_comm_create(&id, i, 2, NULL, &comms[i]));
  OK(coll_group_cancel());
  for (int i = 0; i < 2; i++) cr_assert_null(comms[i]);
  make(comms, 2, 1);
  OK(coll_group_start());
  OK(coll_comm_split(comms[0], 0, 0, NULL, &child));
  OK(coll_group_cancel());
  cr_assert_null(child);
  sum(comms, 2); /* nobody has split */
  destroy(comms, 2);
}

Test(creation_failure, groups_of_calls_make_no_communicators) {
  coll_unique_id_t id;
  coll_comm_t old[2], comms[2] = {0};
  float x = 0;
  make(old, 2, 1);
  OK(coll_unique_id_create(NULL, &id));
  OK(coll_group_start());
  OK(coll_comm_create(&id, 0, 2, NULL, &comms[0]));
  IS(coll_allreduce(&x, &x, 1, COLL_FLOAT32, COLL_SUM, comms[0], NULL), COLL_ERROR_INVALID);
  says("COLL_IN_PROGRESS");
  IS(coll_allreduce(&x, &x, 1, COLL_FLOAT32, COLL_SUM, old[0], NULL), COLL_ERROR_INVALID);
  IS(coll_group_end(), COLL_ERROR_INVALID);
  cr_assert_null(comms[0]);
  OK(coll_group_start());
  OK(coll_barrier(old[0], NULL));
  IS(coll_comm_create(&id, 0, 2, NULL, &comms[0]), COLL_ERROR_INVALID);
  says("a group has either");
  IS(coll_group_end(), COLL_ERROR_INVALID);
  sum(old, 2);
  destroy(old, 2);
}

/* Rank 2 never comes. Another communicator of the group is made. */
Test(creation_failure, a_missing_rank_is_named) {
  for (int blocking = 0; blocking < 2; blocking++) {
    coll_unique_id_t ids[2];
    coll_comm_t comms[2], others[2];
    coll_comm_config_t config = config_of(blocking), config_of_others = config;
    config.create_timeout_ms = 3000; /* within which ranks 0 and 1 must join */
    for (int i = 0; i < 2; i++) OK(coll_unique_id_create(NULL, &ids[i]));
    OK(coll_group_start());
    for (int i = 0; i < 2; i++) {
      OK(coll_comm_create(&ids[0], i, 3, &config, &comms[i]));
      OK(coll_comm_create(&ids[1], i, 2, &config_of_others, &others[i]));
    }
    IS(coll_group_end(), blocking ? COLL_ERROR_TIMEOUT : COLL_IN_PROGRESS);
    if (blocking) says("missing: 2");
    for (int i = 0; i < 2; i++) {
      OK(await(others[i]));
      if (blocking) {
        cr_assert_null(comms[i]);
        continue;
      }
      IS(await(comms[i]), COLL_ERROR_TIMEOUT);
      says("missing: 2");
      IS(coll_comm_dump(comms[i], "-"), COLL_ERROR_TIMEOUT);
    }
    if (!blocking) destroy(comms, 2);
    sum(others, 2);
    destroy(others, 2);
  }
}

/* Rank 0's text, as rank 1 has another setting: each rank learns why. */
Test(creation_failure, of_one_rank_releases_the_others) {
  coll_unique_id_t id;
  coll_comm_t comms[3];
  coll_comm_config_t config = config_of(1);
  OK(coll_unique_id_create(NULL, &id));
  OK(coll_group_start());
  for (int i = 0; i < 3; i++) {
    config.reproducible = i == 1 ? 1 : -1;
    OK(coll_comm_create(&id, i, 3, &config, &comms[i]));
  }
  IS(coll_group_end(), COLL_ERROR_MISMATCH);
  says("rank 1");
  for (int i = 0; i < 3; i++) cr_assert_null(comms[i]);
}

static void *abort_soon(void *comm) {
  nap_ms(50);
  coll_comm_abort(comm);
  return NULL;
}

/* Another thread aborts one of the ranks that the group's end waits for; rank 2 never comes. */
Test(creation_failure, an_abort_ends_the_group) {
  coll_unique_id_t id;
  coll_comm_t comms[2];
  const coll_comm_config_t config = config_of(1);
  pthread_t thread;
  double begin = now_s();
  OK(coll_unique_id_create(NULL, &id));
  OK(coll_group_start());
  for (int i = 0; i < 2; i++) OK(coll_comm_create(&id, i, 3, &config, &comms[i]));
  pthread_create(&thread, NULL, abort_soon, comms[1]);
  IS(coll_group_end(), COLL_ERROR_RANK_LOST);
  says("coll_comm_abort");
  pthread_join(thread, NULL);
  for (int i = 0; i < 2; i++) cr_assert_null(comms[i]);
  cr_assert_lt(now_s() - begin, CREATION_TIMEOUT_S / 2);
}

/* Rank 1 does not split. */
Test(creation_failure, a_split_that_goes_on_is_aborted) {
  for (int way = 0; way < 3; way++) {
    coll_comm_t comms[2], child;
    const coll_comm_config_t config = config_of(0);
    int rank;
    make(comms, 2, 1);
    IS(coll_comm_split(comms[0], 0, 0, &config, &child), COLL_IN_PROGRESS);
    IS(coll_comm_error(comms[0]), COLL_IN_PROGRESS);
    IS(coll_comm_rank(comms[0], &rank), COLL_ERROR_INVALID);
    says("COLL_IN_PROGRESS");
    nap_ms(20);
    if (way == 0) OK(coll_comm_abort(child));
    if (way == 1) OK(coll_comm_abort(comms[0]));
    if (way < 2) {
      IS(await(child), COLL_ERROR_RANK_LOST);
      IS(await(comms[0]), COLL_ERROR_RANK_LOST);
    }
    OK(coll_comm_destroy(child)); /* aborts it too */
    IS(coll_barrier(comms[1], NULL), COLL_ERROR_RANK_LOST);
    says("rank 0");
    IS(await(comms[0]), COLL_ERROR_RANK_LOST);
    destroy(comms, 2);
  }
}

static int count_descriptors(void) {
  DIR *folder = opendir("/proc/self/fd");
  int count = 0;
  while (readdir(folder) != NULL) count++;
  closedir(folder);
  return count;
}

/* At any time of its creation: both ranks come, and one gives up. */
Test(creation_failure, aborts_at_any_time_leave_nothing) {
  int before = 0;
  unsigned seed = 1;
  for (int i = 0; i < 60; i++) {
    coll_unique_id_t id;
    coll_comm_t comms[2];
    const coll_comm_config_t config = config_of(0);
    OK(coll_unique_id_create(NULL, &id));
    OK(coll_group_start());
    for (int r = 0; r < 2; r++) OK(coll_comm_create(&id, r, 2, &config, &comms[r]));
    IS(coll_group_end(), COLL_IN_PROGRESS);
    nap_us((int)rand_r(&seed) % 8000);
    if (i % 3 == 0) OK(coll_comm_abort(comms[0]));
    if (i % 3 == 1) {
      coll_status_t status = coll_comm_destroy(comms[0]);
      cr_assert_eq(status, COLL_OK, "%s", coll_last_error(NULL));
      comms[0] = NULL;
    }
    coll_status_t status = await(comms[1]);
    cr_assert(status == COLL_OK || status == COLL_ERROR_RANK_LOST, "run %d: %s", i,
              coll_last_error(NULL));
    destroy(comms, 2);
    if (i == 5) before = count_descriptors();
  }
  double limit_s = now_s() + CREATION_TIMEOUT_S; /* until the servers' threads end */
  while (count_descriptors() > before && now_s() < limit_s) nap_ms(1);
  cr_assert_leq(count_descriptors(), before);
}

typedef struct maker {
  pthread_t thread;
  coll_comm_t comms[3];
} maker_t;

static void *make_and_sum(void *context) {
  maker_t *maker = context;
  for (int i = 0; i < 5; i++) {
    make(maker->comms, 3, i % 2);
    sum(maker->comms, 3);
    destroy(maker->comms, 3);
  }
  return NULL;
}

Test(creation, by_several_threads_at_once) {
  maker_t makers[3];
  for (int i = 0; i < 3; i++) pthread_create(&makers[i].thread, NULL, make_and_sum, &makers[i]);
  for (int i = 0; i < 3; i++) pthread_join(makers[i].thread, NULL);
}

#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
/* A forked process does not have the thread that makes the communicator. */
Test(creation, is_not_ended_by_a_forked_process) {
  coll_unique_id_t id;
  coll_comm_t comms[2];
  const coll_comm_config_t config = config_of(0);
  int status;
  OK(coll_unique_id_create(NULL, &id));
  IS(coll_comm_create(&id, 0, 2, &config, &comms[0]), COLL_IN_PROGRESS);
  nap_ms(20);
  pid_t child = fork();
  if (child == 0) {
    bool refused = coll_comm_error(comms[0]) == COLL_ERROR_INVALID;
    _exit(refused && coll_comm_destroy(comms[0]) == COLL_OK ? 0 : 1);
  }
  waitpid(child, &status, 0);
  cr_assert_eq(status, 0);
  IS(coll_comm_create(&id, 1, 2, &config, &comms[1]), COLL_IN_PROGRESS);
  for (int i = 0; i < 2; i++) OK(await(comms[i]));
  sum(comms, 2);
  destroy(comms, 2);
}
#endif
