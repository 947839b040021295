/*
 * Making and ending communicators: without blocking, from others, in groups, with any config, and
 * with ranks that give up.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "nccl/interface.h"

/* A sum over the communicator shows that it works. */
static int try_out(ncclComm_t comm) {
  int size, one = 1, sum = 0;
  NCCL_OK(ncclCommCount(comm, &size));
  NCCL_OK(ncclAllReduce(&one, &sum, 1, ncclInt, ncclSum, comm, NULL));
  NCCL_REQUIRE(sum == size);
  return 0;
}

/* ---- without blocking ------------------------------------------------------------------------*/

static int non_blocking(int rank, int size, void *context) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclUniqueId *id = harness_board();
  ncclComm_t comm = NULL, half = NULL, smaller = NULL;
  int last = size - 1, new_rank;
  (void)context;
  config.blocking = 0;
  if (rank == 0) NCCL_OK(ncclGetUniqueId(id));
  harness_barrier();
  NCCL_RESULT(ncclInProgress, ncclCommInitRankConfig(&comm, size, *id, rank, &config));
  NCCL_OK(nccl_test_wait(comm));
  if (try_out(comm)) return 1;
  /* Inherited; the parent is in progress until the split is done. */
  NCCL_RESULT(ncclInProgress, ncclCommSplit(comm, rank % 2, 0, &half, NULL));
  NCCL_OK(nccl_test_wait(comm));
  NCCL_OK(nccl_test_wait(half));
  if (try_out(half) || try_out(comm)) return 1;
  if (rank != last) {
    NCCL_RESULT(ncclInProgress, ncclCommShrink(comm, &last, 1, &smaller, NULL, 0));
    NCCL_OK(nccl_test_wait(comm));
    NCCL_OK(ncclCommUserRank(smaller, &new_rank)); /* so it is made, too */
    if (try_out(smaller)) return 1;
    NCCL_OK(ncclCommDestroy(smaller));
  }
  NCCL_RESULT(ncclInProgress, ncclCommFinalize(half));
  NCCL_OK(nccl_test_wait(half));
  NCCL_OK(ncclCommDestroy(half));
  NCCL_OK(ncclCommDestroy(comm));
  return 0;
}

Test(nccl_communicators, non_blocking) {
  NCCL_RUN(3, non_blocking);
}

/* Each communicator needs an id of its own. The process that has made it lives. */
static int id_again(int rank, int size, void *context) {
  ncclUniqueId *id = harness_board();
  ncclComm_t comm, again = NULL;
  (void)context;
  if (rank == 0) NCCL_OK(ncclGetUniqueId(id));
  harness_barrier();
  NCCL_OK(ncclCommInitRank(&comm, size, *id, rank));
  NCCL_RESULT(ncclInvalidArgument, ncclCommInitRank(&again, size, *id, rank));
  NCCL_REQUIRE(strstr(ncclGetLastError(NULL), "this id has been used") != NULL);
  if (try_out(comm)) return 1;
  NCCL_OK(ncclCommDestroy(comm));
  return 0;
}

Test(nccl_communicators, an_id_is_used_again) {
  NCCL_RUN(2, id_again);
}

static int not_ready(int rank, int size, void *context) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclUniqueId *id = harness_board();
  ncclResult_t state;
  ncclComm_t comm;
  int count;
  (void)size, (void)context;
  config.blocking = 0;
  if (rank == 0) NCCL_OK(ncclGetUniqueId(id));
  harness_barrier();
  if (rank == 0) {
    NCCL_RESULT(ncclInProgress, ncclCommInitRankConfig(&comm, 2, *id, 0, &config));
    NCCL_OK(ncclCommGetAsyncError(comm, &state));
    NCCL_REQUIRE(state == ncclInProgress);
    NCCL_RESULT(ncclInvalidArgument, ncclCommCount(comm, &count));
    NCCL_REQUIRE(strstr(ncclGetLastError(comm), "in progress") != NULL);
  }
  harness_barrier();
  if (rank == 1) NCCL_OK(ncclCommInitRank(&comm, 2, *id, 1));
  NCCL_OK(nccl_test_wait(comm));
  NCCL_OK(ncclCommDestroy(comm));
  return 0;
}

Test(nccl_communicators, is_not_used_before_it_is_ready) {
  NCCL_RUN(2, not_ready);
}

/* ---- from other communicators ----------------------------------------------------------------*/

static int splits_in_groups(int rank, int size, void *context) {
  ncclComm_t all[4], first[4], second[4];
  (void)rank, (void)size, (void)context;
  NCCL_OK(ncclCommInitAll(all, 4, NULL));
  NCCL_OK(ncclGroupStart());
  for (int i = 0; i < 4; i++) { /* two splits of each: in this order on all ranks */
    NCCL_OK(ncclCommSplit(all[i], i / 2, 0, &first[i], NULL));
    NCCL_OK(ncclCommSplit(all[i], i == 3 ? NCCL_SPLIT_NOCOLOR : 0, -i, &second[i], NULL));
  }
  NCCL_OK(ncclGroupEnd());
  for (int i = 0; i < 4; i++) {
    int in_first, in_second;
    NCCL_OK(ncclCommUserRank(first[i], &in_first));
    NCCL_REQUIRE(in_first == i % 2);
    NCCL_REQUIRE((second[i] == NULL) == (i == 3));
    if (i == 3) continue;
    NCCL_OK(ncclCommUserRank(second[i], &in_second));
    NCCL_REQUIRE(in_second == 2 - i);
  }
  NCCL_OK(ncclGroupStart());
  for (int i = 0; i < 4; i++) {
    NCCL_OK(ncclCommDestroy(first[i]));
    NCCL_OK(ncclCommDestroy(second[i]));
    NCCL_OK(ncclCommDestroy(all[i]));
  }
  NCCL_OK(ncclGroupEnd());
  return 0;
}

Test(nccl_communicators, splits_in_groups) {
  NCCL_RUN(1, splits_in_groups);
}

static int shrink(int rank, int size, void *context) {
  int excluded[] = {1}, new_rank;
  ncclComm_t comm, smaller;
  (void)context;
  if (nccl_test_init(rank, size, &comm)) return 1;
  if (rank != 1) {
    NCCL_OK(ncclCommShrink(comm, excluded, 1, &smaller, NULL, 0));
    NCCL_OK(ncclCommUserRank(smaller, &new_rank));
    NCCL_REQUIRE(new_rank == (rank == 0 ? 0 : rank - 1));
    if (try_out(smaller)) return 1;
    NCCL_OK(ncclCommDestroy(smaller));
  } else {
    NCCL_RESULT(ncclInvalidArgument, ncclCommShrink(comm, excluded, 1, &smaller, NULL, 0));
  }
  if (try_out(comm)) return 1; /* it works as before */
  NCCL_OK(ncclCommDestroy(comm));
  return 0;
}

Test(nccl_communicators, shrink) {
  NCCL_RUN(4, shrink);
}

#ifdef NCCL_VENDOR_HEADER /* it may be one of before 2.30 */
ncclResult_t ncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId *id);
ncclResult_t ncclCommGrow(ncclComm_t comm, int size, const ncclUniqueId *id, int rank,
                          ncclComm_t *new_comm, ncclConfig_t *config);
#endif

static int grow(int rank, int size, void *context) {
  ncclUniqueId *board = harness_board(), id;
  ncclComm_t comm = NULL, larger;
  int new_rank;
  (void)context;
  if (rank == 0) NCCL_OK(ncclGetUniqueId(board));
  harness_barrier();
  if (rank < 2) NCCL_OK(ncclCommInitRank(&comm, 2, *board, rank));
  harness_barrier();
  if (rank == 1) {
    NCCL_OK(ncclCommGetUniqueId(comm, &id));
    *board = id;
  }
  harness_barrier();
  NCCL_OK(ncclCommGrow(comm, size, rank == 0 ? NULL : board, rank < 2 ? -1 : rank, &larger, NULL));
  NCCL_OK(ncclCommUserRank(larger, &new_rank));
  NCCL_REQUIRE(new_rank == rank);
  if (try_out(larger)) return 1;
  NCCL_OK(ncclCommDestroy(larger));
  NCCL_OK(ncclCommDestroy(comm));
  return 0;
}

Test(nccl_communicators, grow) {
  NCCL_RUN(3, grow);
}

/* One thread makes the calls of all ranks, of those first that wait for others. */
static int change_in_groups(int rank, int size, void *context) {
  ncclComm_t all[3], pair[3], larger[3];
  int excluded = 0, in[3] = {1, 2, 4}, out[3] = {0};
  ncclUniqueId id;
  (void)rank, (void)size, (void)context;
  NCCL_OK(ncclCommInitAll(all, 3, NULL));
  NCCL_OK(ncclGroupStart());
  for (int i = 2; i > 0; i--) NCCL_OK(ncclCommShrink(all[i], &excluded, 1, &pair[i], NULL, 0));
  NCCL_OK(ncclGroupEnd());
  NCCL_OK(ncclCommGetUniqueId(pair[2], &id));
  NCCL_OK(ncclGroupStart());
  NCCL_OK(ncclCommGrow(NULL, 3, &id, 2, &larger[0], NULL));
  NCCL_OK(ncclCommGrow(pair[1], 3, NULL, -1, &larger[1], NULL));
  NCCL_OK(ncclCommGrow(pair[2], 3, &id, -1, &larger[2], NULL));
  NCCL_OK(ncclGroupEnd());
  NCCL_OK(ncclGroupStart());
  for (int i = 0; i < 3; i++) {
    NCCL_OK(ncclAllReduce(&in[i], &out[i], 1, ncclInt, ncclSum, larger[i], NULL));
    NCCL_OK(ncclCommDestroy(larger[i]));
    NCCL_OK(ncclCommDestroy(i > 0 ? pair[i] : NULL));
    NCCL_OK(ncclCommDestroy(all[i]));
  }
  NCCL_OK(ncclGroupEnd());
  NCCL_REQUIRE(out[0] == 7 && out[1] == 7 && out[2] == 7);
  return 0;
}

Test(nccl_communicators, change_in_groups) {
  NCCL_RUN(1, change_in_groups);
}

/* ---- configs and ids -------------------------------------------------------------------------*/

static int configs(int rank, int size, void *context) {
  union {
    ncclConfig_t config;
    char bytes[1024]; /* of a release to come */
  } later = {.config = NCCL_CONFIG_INITIALIZER};
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER, none;
  ncclUniqueId ids[2];
  ncclComm_t comm;
  (void)rank, (void)size, (void)context;
  memset(&none, 0, sizeof none);
  NCCL_OK(ncclGetUniqueId(&ids[0]));
  NCCL_RESULT(ncclInvalidArgument, ncclCommInitRankConfig(&comm, 1, ids[0], 0, &none));
  config.blocking = 3;
  NCCL_RESULT(ncclInvalidArgument, ncclCommInitRankConfig(&comm, 1, ids[0], 0, &config));
  NCCL_RESULT(ncclInvalidArgument, ncclCommInitRank(&comm, 1, ids[0], 1));
  later.config.size = sizeof later;
  NCCL_OK(ncclCommInitRankConfig(&comm, 1, ids[0], 0, &later.config));
  NCCL_OK(ncclCommDestroy(comm));

  config.size = offsetof(ncclConfig_t, cgaClusterSize); /* of an old release */
  config.blocking = 1;
  NCCL_OK(ncclGetUniqueId(&ids[1]));
  NCCL_OK(ncclCommInitRankScalable(&comm, 1, 0, 1, &ids[1], &config));
  NCCL_OK(ncclCommDestroy(comm));
  memset(&ids[0], 7, sizeof ids[0]);
  comm = (ncclComm_t)ids;
  NCCL_RESULT(ncclInvalidArgument, ncclCommInitRank(&comm, 2, ids[0], 1));
  NCCL_REQUIRE(comm == NULL && strstr(ncclGetLastError(NULL), "unique id") != NULL);
  return 0;
}

Test(nccl_communicators, configs_of_any_size) {
  NCCL_RUN(1, configs);
}

/* ---- ends ------------------------------------------------------------------------------------*/

static _Atomic pid_t waiter; /* the thread that is about to call */

static void *wait_for_sum(void *comm) {
  int one = 1, sum;
  waiter = gettid();
  ncclResult_t result = ncclAllReduce(&one, &sum, 1, ncclInt, ncclSum, comm, NULL);
  return result == ncclRemoteError ? NULL : comm;
}

static bool waiter_sleeps(void) {
  char path[64], line[200] = "";
  snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)waiter);
  FILE *file = fopen(path, "r");
  if (file == NULL) return false;
  const char *name_end = fgets(line, sizeof line, file) != NULL ? strrchr(line, ')') : NULL;
  fclose(file);
  return name_end != NULL && name_end[2] == 'S';
}

/* Waits until the thread sleeps, as it does only in its call. */
static void await_waiter(void) {
  for (int asleep = 0; asleep < 10;) {
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    asleep = waiter != 0 && waiter_sleeps() ? asleep + 1 : 0;
  }
}

/* A watchdog thread aborts a communicator in whose call another thread waits. */
static int abort_under_way(int rank, int size, void *context) {
  pthread_t thread;
  ncclComm_t comm;
  void *failed;
  (void)context;
  if (nccl_test_init(rank, size, &comm)) return 1;
  if (rank == 0) {
    pthread_create(&thread, NULL, wait_for_sum, comm);
    await_waiter();
    NCCL_OK(ncclCommAbort(comm));
    pthread_join(thread, &failed);
    NCCL_REQUIRE(failed == NULL);
    harness_barrier();
    return 0;
  }
  harness_barrier();
  NCCL_RESULT(ncclRemoteError, nccl_test_wait(comm));
  NCCL_REQUIRE(strstr(ncclGetLastError(comm), "abort") != NULL);
  NCCL_OK(ncclCommAbort(comm));
  return 0;
}

Test(nccl_communicators, abort_while_another_thread_waits) {
  NCCL_RUN(2, abort_under_way);
}

static int lose_one(int rank, int size, void *context) {
  int one = 1, sum;
  ncclComm_t comm;
  (void)context;
  if (nccl_test_init(rank, size, &comm)) return 1;
  if (rank == 1) harness_kill(1);
  NCCL_RESULT(ncclRemoteError, ncclAllReduce(&one, &sum, 1, ncclInt, ncclSum, comm, NULL));
  NCCL_REQUIRE(strstr(ncclGetLastError(comm), "rank 1") != NULL);
  NCCL_RESULT(ncclRemoteError, nccl_test_wait(comm));
  NCCL_OK(ncclCommAbort(comm));
  return 0;
}

Test(nccl_communicators, a_rank_dies) {
  harness_result_t run;
  harness_run(3, 20000, lose_one, NULL, &run);
  cr_assert(run.ranks[0].end == HARNESS_RETURNED && run.ranks[0].value == 0, "%s", run.text);
  cr_assert(run.ranks[2].end == HARNESS_RETURNED && run.ranks[2].value == 0, "%s", run.text);
}

/* Where NCCL hangs, or gives wrong sums. */
static int mismatch(int rank, int size, void *context) {
  float in[2] = {1, 2}, out[2];
  ncclComm_t comm;
  (void)context;
  if (nccl_test_init(rank, size, &comm)) return 1;
  NCCL_RESULT(ncclInvalidUsage,
              ncclAllReduce(in, out, (size_t)rank + 1, ncclFloat, ncclSum, comm, NULL));
  NCCL_REQUIRE(strstr(ncclGetLastError(comm), "count") != NULL);
  ncclCommDestroy(comm);
  return 0;
}

Test(nccl_communicators, calls_that_do_not_match) {
  NCCL_RUN(2, mismatch);
}

/* A program that gives up on a communicator whose other rank never comes. */
static int give_up(int rank, int size, void *context) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclResult_t state;
  ncclUniqueId id;
  ncclComm_t comm;
  (void)rank, (void)size, (void)context;
  config.blocking = 0;
  NCCL_OK(ncclGetUniqueId(&id));
  NCCL_RESULT(ncclInProgress, ncclCommInitRankConfig(&comm, 2, id, 0, &config));
  NCCL_OK(ncclCommGetAsyncError(comm, &state));
  NCCL_REQUIRE(state == ncclInProgress);
  NCCL_OK(ncclCommAbort(comm));
  return 0;
}

Test(nccl_communicators, give_up) {
  NCCL_RUN(1, give_up);
}

/* A group that fails, of which the program cleans up before its end. */
static int give_up_in_a_group(int rank, int size, void *context) {
  ncclUniqueId id;
  ncclComm_t comms[3];
  (void)rank, (void)size, (void)context;
  NCCL_OK(ncclGetUniqueId(&id));
  NCCL_OK(ncclGroupStart());
  NCCL_OK(ncclCommInitRank(&comms[0], 2, id, 0));
  NCCL_OK(ncclCommInitRank(&comms[1], 2, id, 1));
  NCCL_RESULT(ncclInvalidArgument, ncclCommInitRank(&comms[2], 2, id, 2));
  NCCL_OK(ncclCommAbort(comms[0]));
  NCCL_OK(ncclCommDestroy(comms[1]));
  NCCL_RESULT(ncclInvalidArgument, ncclGroupEnd());
  NCCL_REQUIRE(comms[0] == NULL && comms[1] == NULL);
  NCCL_OK(ncclCommInitAll(comms, 2, NULL)); /* the next group is a new one */
  for (int i = 0; i < 2; i++) NCCL_OK(ncclCommDestroy(comms[i]));
  return 0;
}

Test(nccl_communicators, give_up_in_a_group) {
  NCCL_RUN(1, give_up_in_a_group);
}

/* What a thread of the library finds is there for the program's thread, and is logged. */
static int background_failure(int rank, int size, void *context) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclResult_t state = ncclInProgress;
  ncclUniqueId id;
  ncclComm_t comm;
  (void)size, (void)context;
  config.blocking = 0;
  memset(&id, 0, sizeof id);
  if (rank == 0) NCCL_OK(ncclGetUniqueId(&id));
  if (rank == 0) memcpy(harness_board(), &id, sizeof id);
  harness_barrier();
  memcpy(&id, harness_board(), sizeof id);
  NCCL_RESULT(ncclInProgress, ncclCommInitRankConfig(&comm, 2, id, 0, &config)); /* both are 0 */
  while (state == ncclInProgress) NCCL_OK(ncclCommGetAsyncError(comm, &state));
  NCCL_REQUIRE(state != ncclSuccess);
  NCCL_REQUIRE(strstr(ncclGetLastError(NULL), "rank 0") != NULL);
  NCCL_OK(ncclCommDestroy(comm));
  return 0;
}

Test(nccl_communicators, a_failure_in_the_background_has_a_text) {
  NCCL_RUN(2, background_failure);
}

static int ends(int rank, int size, void *context) {
  ncclComm_t comms[2];
  int count;
  (void)rank, (void)size, (void)context;
  NCCL_OK(ncclCommDestroy(NULL));
  NCCL_OK(ncclCommAbort(NULL));
  NCCL_OK(ncclCommFinalize(NULL));
  NCCL_OK(ncclCommInitAll(comms, 2, NULL));
  NCCL_OK(ncclCommFinalize(comms[0]));
  NCCL_OK(ncclCommCount(comms[0], &count));
  NCCL_RESULT(ncclInvalidUsage, ncclSend(&count, 1, ncclInt, 1, comms[0], NULL));
  NCCL_OK(ncclCommAbort(comms[0]));
  NCCL_OK(ncclCommDestroy(comms[1]));
  NCCL_RESULT(ncclInvalidArgument, ncclCommCount(NULL, &count));
  return 0;
}

Test(nccl_communicators, ends) {
  NCCL_RUN(1, ends);
}
