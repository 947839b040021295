/*
 * Processes with several ranks each, which one thread makes.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "creation.h"
#include "harness/party.h"

enum { EACH = 2 }; /* ranks of a process */

/* Process 0 does not block, the others do. */
static int make_in_processes(int process, int processes, void *context) {
  coll_unique_id_t *id = harness_board();
  coll_comm_t comms[EACH], halves[EACH];
  int32_t in[EACH], out[EACH], size = processes * EACH;
  const coll_comm_config_t config = config_of(process != 0);
  (void)context;
  if (process == 0) PARTY_OK(coll_unique_id_create(NULL, id));
  harness_barrier();
  PARTY_OK(coll_group_start());
  for (int i = 0; i < EACH; i++) {
    PARTY_OK(coll_comm_create(id, process * EACH + i, size, &config, &comms[i]));
  }
  coll_status_t status = coll_group_end();
  PARTY_REQUIRE(status == (process != 0 ? COLL_OK : COLL_IN_PROGRESS), "%s", coll_last_error(NULL));
  for (int i = 0; i < EACH; i++) PARTY_OK(await(comms[i]));
  PARTY_OK(coll_group_start());
  for (int i = 0; i < EACH; i++) PARTY_OK(coll_comm_split(comms[i], i, 0, NULL, &halves[i]));
  status = coll_group_end();
  PARTY_REQUIRE(status == (process != 0 ? COLL_OK : COLL_IN_PROGRESS), "%s", coll_last_error(NULL));
  for (int i = 0; i < EACH; i++) PARTY_OK(await(halves[i]));
  PARTY_OK(coll_group_start());
  for (int i = 0; i < EACH; i++) {
    in[i] = 1 + i;
    PARTY_OK(coll_allreduce(&in[i], &out[i], 1, COLL_INT32, COLL_SUM, halves[i], NULL));
  }
  PARTY_OK(coll_group_end());
  for (int i = 0; i < EACH; i++) {
    PARTY_REQUIRE(out[i] == processes * (1 + i), "rank %d of the process: %d", i, (int)out[i]);
    PARTY_OK(coll_comm_destroy(halves[i]));
    PARTY_OK(coll_comm_destroy(comms[i]));
  }
  return 0;
}

Test(creation, in_processes_of_several_ranks) {
  harness_result_t result;
  for (int processes = 1; processes <= 3; processes++) {
    cr_assert(harness_run(processes, CREATION_RUN_MS, make_in_processes, NULL, &result), "%s",
              result.text);
  }
}

/* Rank 1 gives up while rank 2 is missing: rank 0 and 1 return long before the time limit. */
static int give_up(int rank, int size, void *context) {
  coll_unique_id_t *id = harness_board();
  coll_comm_t comm;
  const coll_comm_config_t config = config_of(0);
  bool destroys = *(const bool *)context;
  if (rank == 0) PARTY_OK(coll_unique_id_create(NULL, id));
  harness_barrier();
  if (rank == 2) {
    harness_barrier();
    return 0;
  }
  coll_status_t status = coll_comm_create(id, rank, size, &config, &comm);
  PARTY_REQUIRE(status == COLL_IN_PROGRESS, "%s", coll_last_error(NULL));
  nap_ms(100);
  if (rank == 1 && !destroys) PARTY_OK(coll_comm_abort(comm));
  if (rank == 0 || !destroys) {
    status = await(comm);
    const char *text = coll_last_error(comm);
    PARTY_REQUIRE(status == COLL_ERROR_RANK_LOST && strstr(text, "rank 1") != NULL &&
                      strstr(text, destroys ? "coll_comm_destroy" : "coll_comm_abort") != NULL,
                  "rank %d: %s", rank, text);
  }
  PARTY_OK(coll_comm_destroy(comm));
  harness_barrier();
  return 0;
}

Test(creation_failure, a_rank_that_gives_up_is_named) {
  harness_result_t result;
  for (int i = 0; i < 2; i++) {
    bool destroys = i == 1;
    cr_assert(harness_run(3, CREATION_RUN_MS, give_up, &destroys, &result), "%s", result.text);
  }
}

typedef struct lingering {
  _Atomic bool waits, may_end;
} lingering_t;

static void linger(void *context) {
  lingering_t *lingering = context;
  atomic_store(&lingering->waits, true);
  while (!atomic_load(&lingering->may_end)) nap_ms(1);
}

static void *call_in_thread(void *comm) {
  coll_barrier(comm, NULL);
  return NULL;
}

/* Rank 1 waits for a call of a failed communicator, whose callback ends when rank 1 has given up,
 * before it calls the others. */
static int give_up_early(int rank, int size, void *context) {
  coll_unique_id_t *id = harness_board();
  coll_comm_t comm, failed[2];
  const coll_comm_config_t config = config_of(0);
  pthread_t thread;
  static lingering_t lingering;
  (void)context;
  if (rank == 0) PARTY_OK(coll_unique_id_create(NULL, id));
  if (rank == 1) {
    PARTY_OK(coll_comm_create_local(2, NULL, failed));
    PARTY_OK(coll_comm_set_progress(failed[0], linger, &lingering));
    pthread_create(&thread, NULL, call_in_thread, failed[0]);
    while (!atomic_load(&lingering.waits)) nap_ms(1);
    PARTY_OK(coll_comm_abort(failed[0]));
  }
  harness_barrier();
  double begin = now_s();
  PARTY_REQUIRE(coll_comm_create(id, rank, size, &config, &comm) == COLL_IN_PROGRESS, "%s",
                coll_last_error(NULL));
  if (rank == 1) {
    nap_ms(100);
    PARTY_OK(coll_comm_abort(comm));
    atomic_store(&lingering.may_end, true);
  }
  coll_status_t status = await(comm);
  const char *text = coll_last_error(comm);
  PARTY_REQUIRE(status == COLL_ERROR_RANK_LOST && strstr(text, "rank 1") != NULL &&
                    strstr(text, "coll_comm_abort") != NULL,
                "rank %d: %s", rank, text);
  PARTY_REQUIRE(now_s() - begin < CREATION_TIMEOUT_S / 2, "rank %d: late", rank);
  PARTY_OK(coll_comm_destroy(comm));
  if (rank == 1) {
    pthread_join(thread, NULL);
    for (int i = 0; i < 2; i++) coll_comm_destroy(failed[i]);
  }
  harness_barrier();
  return 0;
}

Test(creation_failure, a_rank_that_gives_up_before_it_calls_is_named) {
  harness_result_t result;
  cr_assert(harness_run(2, CREATION_RUN_MS, give_up_early, NULL, &result), "%s", result.text);
}
