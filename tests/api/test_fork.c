/*
 * Children of fork, whose parents are the ranks of a job: what is the parent's is refused with a
 * sentence and undisturbed, and they make communicators of their own.
 */
#include <coll.h>
#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "creation.h"
#include "harness/party.h"

static bool is_refused(coll_status_t status, const char *text) {
  return status == COLL_ERROR_INVALID && strstr(text, "forked") != NULL;
}

#define REFUSED(call)                                                                         \
  do {                                                                                        \
    coll_status_t refused = (call);                                                           \
    PARTY_REQUIRE(is_refused(refused, coll_last_error(NULL)), "line %d, %s: %s %s", __LINE__, \
                  #call, coll_status_string(refused), coll_last_error(NULL));                 \
  } while (0)

/* ---- groups ---------------------------------------------------------------------------------*/

static int end_inherited_group(coll_comm_t comm) {
  coll_comm_t own;
  int32_t number = 1;
  harness_forked();
  REFUSED(coll_barrier(comm, NULL));
  REFUSED(coll_group_end());
  PARTY_OK(coll_comm_create_local(1, NULL, &own));
  PARTY_OK(coll_group_start());
  PARTY_OK(coll_allreduce(&number, &number, 1, COLL_INT32, COLL_SUM, own, NULL));
  PARTY_OK(coll_group_end());
  return coll_comm_destroy(own) != COLL_OK;
}

static int fork_in_group(party_rank_t *self) {
  int32_t number = 1, sum = 0;
  int status;
  PARTY_OK(coll_group_start());
  PARTY_OK(coll_allreduce(&number, &sum, 1, COLL_INT32, COLL_SUM, self->comm, NULL));
  pid_t child = fork();
  if (child == 0) exit(end_inherited_group(self->comm));
  waitpid(child, &status, 0);
  PARTY_REQUIRE(status == 0, "the child ended with %d", status);
  PARTY_OK(coll_group_end());
  PARTY_REQUIRE(sum == self->size, "the sum is %d", (int)sum);
  return 0;
}

Test(fork, ends_an_open_group_in_the_child_only) {
  harness_result_t result;
  cr_assert(party_processes(2, 20000, fork_in_group, NULL, &result), "%s", result.text);
}

#if !defined(__SANITIZE_ADDRESS__)
/* AddressSanitizer's allocator has locks that stay locked in the child if another thread of the
 * parent holds them at the fork, and takes memory for that of stacks which the child no longer has.
 */

enum { COUNT = 1000, LARGE = 100000, ROUNDS = 3 };

/* On the board. */
typedef struct meeting {
  coll_unique_id_t id, child_ids[ROUNDS];
  atomic_bool has_child_id[ROUNDS];
} meeting_t;

/* What a rank has made before it forks. */
typedef struct scene {
  int rank, size, round;
  coll_comm_t comm, split, unfinished, finalized;
  coll_stream_t stream, busy_stream; /* the latter has a call that waits for the other ranks */
  coll_op_t op;
  coll_registration_t registration;
  coll_window_t window;
  float *memory, *late;
  meeting_t *meeting;
} scene_t;

/* ---- what a child may not do ----------------------------------------------------------------*/

static int call_collectives(const scene_t *s, coll_comm_t comm, coll_stream_t stream) {
  size_t counts[HARNESS_RANKS_MAX] = {0};
  float *m = s->memory;
  REFUSED(coll_allreduce(m, m, COUNT, COLL_FLOAT32, COLL_SUM, comm, stream));
  REFUSED(coll_reduce(m, m, COUNT, COLL_FLOAT32, COLL_SUM, 0, comm, stream));
  REFUSED(coll_reduce_scatter(m, m, 1, COLL_FLOAT32, COLL_SUM, comm, stream));
  REFUSED(coll_allgather(m, m, 1, COLL_FLOAT32, comm, stream));
  REFUSED(coll_broadcast(m, m, COUNT, COLL_FLOAT32, 0, comm, stream));
  REFUSED(coll_gather(m, m, 1, COLL_FLOAT32, 0, comm, stream));
  REFUSED(coll_scatter(m, m, 1, COLL_FLOAT32, 0, comm, stream));
  REFUSED(coll_alltoall(m, m, 1, COLL_FLOAT32, comm, stream));
  REFUSED(coll_alltoallv(m, counts, counts, m, counts, counts, COLL_FLOAT32, comm, stream));
  REFUSED(coll_allgatherv(m, m, counts, NULL, COLL_FLOAT32, comm, stream));
  REFUSED(coll_reduce_scatterv(m, m, counts, COLL_FLOAT32, COLL_SUM, comm, stream));
  REFUSED(coll_gatherv(m, 1, m, counts, NULL, COLL_FLOAT32, 0, comm, stream));
  REFUSED(coll_scatterv(m, counts, NULL, m, 1, COLL_FLOAT32, 0, comm, stream));
  REFUSED(coll_barrier(comm, stream));
  REFUSED(coll_send(m, 1, COLL_FLOAT32, (s->rank + 1) % s->size, comm, stream));
  REFUSED(coll_recv(m, 1, COLL_FLOAT32, (s->rank + 1) % s->size, comm, stream));
  return 0;
}

static void progress(void *context) {
  (void)context;
}

static int call_others(const scene_t *s, coll_comm_t comm) {
  coll_comm_t made;
  coll_window_t window;
  coll_registration_t registration;
  coll_op_t op;
  coll_plan_info_t info = COLL_PLAN_INFO_INIT;
  coll_estimate_t estimate = COLL_ESTIMATE_INIT;
  const char *route;
  uint64_t bytes;
  float factor = 1;
  REFUSED(coll_comm_split(comm, 0, 0, NULL, &made));
  REFUSED(coll_comm_route(comm, 0, &route));
  REFUSED(coll_comm_error(comm));
  REFUSED(coll_comm_abort(comm));
  REFUSED(coll_comm_dump(comm, "-"));
  REFUSED(coll_comm_set_progress(comm, progress, NULL));
  REFUSED(coll_comm_finalize(comm));
  REFUSED(coll_comm_gpu_query(comm));
  REFUSED(coll_comm_algo_set(comm, COLL_ALLREDUCE, NULL));
  REFUSED(coll_comm_bytes_sent(comm, &bytes));
  REFUSED(coll_comm_plan_load(comm, "none", &info));
  REFUSED(coll_comm_estimate(comm, COLL_ALLREDUCE, 1, COLL_FLOAT32, 0, 0, &estimate));
  REFUSED(coll_op_create_premul_sum(&factor, COLL_FLOAT32, COLL_SCALAR_HOST_IMMEDIATE, comm, &op));
  REFUSED(coll_op_destroy(s->op, comm));
  REFUSED(coll_mem_register(comm, s->memory, 4, &registration));
  REFUSED(coll_window_create(comm, s->memory, 4, &window));
  PARTY_REQUIRE(strcmp(coll_comm_algo_used(comm, COLL_ALLREDUCE), "") == 0, "algo_used");
  PARTY_REQUIRE(strstr(coll_last_error(comm), "forked") != NULL, "%s", coll_last_error(comm));
  return 0;
}

static int call_in_group(const scene_t *s) {
  coll_comm_t made;
  PARTY_OK(coll_group_start());
  REFUSED(coll_send(s->memory, 1, COLL_FLOAT32, s->rank, s->comm, NULL));
  REFUSED(coll_group_end());
  PARTY_OK(coll_group_start());
  REFUSED(coll_comm_split(s->comm, 0, 0, NULL, &made));
  REFUSED(coll_group_end());
  return 0;
}

static int call_streams(const scene_t *s, coll_stream_t stream) {
  REFUSED(coll_stream_query(stream));
  REFUSED(coll_stream_sync(stream));
  PARTY_TRY(call_collectives(s, s->comm, stream));
  PARTY_OK(coll_stream_destroy(stream));
  REFUSED(coll_stream_query(stream));
  return 0;
}

static int destroy_inherited(const scene_t *s) {
  const coll_comm_t comms[] = {s->comm, s->split, s->unfinished, s->finalized};
  PARTY_OK(coll_window_destroy(s->window));
  PARTY_OK(coll_mem_deregister(s->registration));
  for (size_t i = 0; i < sizeof comms / sizeof comms[0]; i++) {
    PARTY_OK(coll_comm_destroy(comms[i]));
    PARTY_OK(coll_comm_destroy(comms[i]));
  }
  return 0;
}

static int try_inherited(const scene_t *s) {
  char maker[64];
  int rank, size;
  const coll_comm_t comms[] = {s->comm, s->split, s->unfinished, s->finalized};
  PARTY_OK(coll_comm_rank(s->comm, &rank));
  PARTY_OK(coll_comm_size(s->comm, &size));
  PARTY_REQUIRE(rank == s->rank && size == s->size, "rank %d of %d", rank, size);
  snprintf(maker, sizeof maker, "process %d", (int)getppid());
  PARTY_REQUIRE(strstr(coll_last_error(s->comm), maker) != NULL, "%s", coll_last_error(s->comm));
  for (size_t i = 0; i < sizeof comms / sizeof comms[0]; i++) {
    PARTY_TRY(call_collectives(s, comms[i], NULL));
    PARTY_TRY(call_others(s, comms[i]));
  }
  PARTY_TRY(call_in_group(s));
  PARTY_TRY(call_streams(s, s->stream));
  PARTY_TRY(call_streams(s, s->busy_stream));
  return destroy_inherited(s);
}

/* ---- what a child may do --------------------------------------------------------------------*/

static int sum_of(coll_comm_t comm, float *buffer, size_t count, coll_stream_t stream) {
  int rank, size;
  PARTY_OK(coll_comm_rank(comm, &rank));
  PARTY_OK(coll_comm_size(comm, &size));
  for (size_t i = 0; i < count; i++) buffer[i] = (float)(rank + 1);
  PARTY_OK(coll_allreduce(buffer, buffer, count, COLL_FLOAT32, COLL_SUM, comm, stream));
  if (stream != NULL) PARTY_OK(coll_stream_sync(stream));
  for (size_t i = 0; i < count; i++) {
    PARTY_REQUIRE(buffer[i] == (float)(size * (size + 1) / 2), "element %zu is %g", i,
                  (double)buffer[i]);
  }
  return 0;
}

static int make_own(const scene_t *s) {
  meeting_t *meeting = s->meeting;
  coll_comm_t own, half;
  coll_stream_t stream;
  void *memory;
  if (s->rank == 0) {
    PARTY_OK(coll_unique_id_create(NULL, &meeting->child_ids[s->round]));
    atomic_store(&meeting->has_child_id[s->round], true);
  }
  while (!atomic_load(&meeting->has_child_id[s->round])) nap_ms(1);
  PARTY_OK(coll_comm_create(&meeting->child_ids[s->round], s->rank, s->size, NULL, &own));
  PARTY_OK(coll_mem_alloc(COLL_DEVICE_HOST, LARGE * sizeof(float), &memory));
  PARTY_OK(coll_stream_create(&stream));
  REFUSED(coll_barrier(own, s->stream));
  PARTY_TRY(sum_of(own, memory, 1, NULL));
  PARTY_TRY(sum_of(own, memory, LARGE, NULL));
  PARTY_TRY(sum_of(own, memory, LARGE, stream));
  PARTY_OK(coll_comm_split(own, 0, -s->rank, NULL, &half));
  PARTY_TRY(sum_of(half, memory, COUNT, NULL));
  PARTY_OK(coll_comm_destroy(half));
  PARTY_OK(coll_stream_destroy(stream));
  PARTY_OK(coll_mem_free(memory));
  return coll_comm_destroy(own) != COLL_OK;
}

/* A process that is a grandchild of the one that made the communicator. */
static int try_in_grandchild(const scene_t *s) {
  int status;
  pid_t child = fork();
  if (child == 0) exit(call_collectives(s, s->comm, NULL));
  waitpid(child, &status, 0);
  PARTY_REQUIRE(status == 0, "the grandchild ended with %d", status);
  return 0;
}

/* ThreadSanitizer ends a child that starts a thread with the id of one of its parent's. */
#if defined(__SANITIZE_THREAD__)
enum { STARTS_THREADS = 0 };
#else
enum { STARTS_THREADS = 1 };
#endif

static int be_child(const scene_t *s) {
  harness_forked();
  alarm(60 * (unsigned)HARNESS_PATIENCE);
  PARTY_TRY(try_inherited(s));
  PARTY_OK(coll_mem_free(s->memory));
  if (STARTS_THREADS) PARTY_TRY(make_own(s));
  return try_in_grandchild(s);
}

static int fork_child(const scene_t *s) {
  int status;
  fflush(NULL);
  pid_t child = fork();
  PARTY_REQUIRE(child >= 0, "cannot fork");
  if (child == 0) exit(be_child(s));
  waitpid(child, &status, 0);
  PARTY_REQUIRE(status == 0, "the child ended with %d", status);
  return 0;
}

/* ---- the parents ----------------------------------------------------------------------------*/

static int make_scene(scene_t *s) {
  const coll_comm_config_t background = config_of(0);
  coll_unique_id_t id;
  float factor = 2;
  if (s->rank == 0) PARTY_OK(coll_unique_id_create(NULL, &s->meeting->id));
  harness_barrier();
  PARTY_OK(coll_comm_create(&s->meeting->id, s->rank, s->size, NULL, &s->comm));
  PARTY_OK(coll_comm_split(s->comm, 0, 0, NULL, &s->split));
  PARTY_OK(coll_comm_split(s->comm, 0, 0, NULL, &s->finalized));
  PARTY_OK(coll_comm_finalize(s->finalized));
  PARTY_OK(coll_unique_id_create(NULL, &id)); /* whose other rank never comes */
  PARTY_REQUIRE(coll_comm_create(&id, 0, 2, &background, &s->unfinished) == COLL_IN_PROGRESS, "%s",
                coll_last_error(NULL));
  PARTY_OK(coll_mem_alloc(COLL_DEVICE_HOST, LARGE * sizeof(float), (void **)&s->memory));
  PARTY_OK(coll_mem_alloc(COLL_DEVICE_HOST, LARGE * sizeof(float), (void **)&s->late));
  PARTY_OK(coll_window_create(s->split, s->late, LARGE * sizeof(float), &s->window));
  PARTY_OK(coll_op_create_premul_sum(&factor, COLL_FLOAT32, COLL_SCALAR_HOST_IMMEDIATE, s->comm,
                                     &s->op));
  PARTY_OK(coll_mem_register(s->comm, s->memory, 4, &s->registration));
  PARTY_OK(coll_stream_create(&s->stream));
  PARTY_OK(coll_stream_create(&s->busy_stream));
  PARTY_TRY(sum_of(s->comm, s->memory, COUNT, NULL));
  PARTY_TRY(sum_of(s->comm, s->memory, COUNT, s->stream));
  PARTY_TRY(sum_of(s->comm, s->memory, LARGE, NULL));
  return sum_of(s->split, s->late, LARGE, NULL);
}

static int end_scene(scene_t *s) {
  PARTY_TRY(sum_of(s->comm, s->memory, COUNT, NULL));
  PARTY_TRY(sum_of(s->comm, s->memory, LARGE, s->stream));
  PARTY_TRY(sum_of(s->split, s->late, LARGE, NULL));
  PARTY_REQUIRE(coll_comm_error(s->unfinished) == COLL_IN_PROGRESS, "%s", coll_last_error(NULL));
  PARTY_OK(coll_comm_error(s->comm));
  PARTY_OK(coll_stream_destroy(s->stream));
  PARTY_OK(coll_stream_destroy(s->busy_stream));
  PARTY_OK(coll_window_destroy(s->window));
  PARTY_OK(coll_mem_deregister(s->registration));
  PARTY_OK(coll_op_destroy(s->op, s->comm));
  PARTY_OK(coll_comm_destroy(s->unfinished));
  PARTY_OK(coll_comm_destroy(s->finalized));
  PARTY_OK(coll_comm_destroy(s->split));
  PARTY_OK(coll_comm_destroy(s->comm));
  PARTY_OK(coll_mem_free(s->late));
  return coll_mem_free(s->memory) != COLL_OK;
}

/* Rank 0 makes its calls when all children have ended: until then the calls of the others, in the
 * stream's thread, hold the lock of the communicator. */
static int fork_during_calls(int rank, int size, void *context) {
  scene_t s = {.rank = rank, .size = size, .meeting = harness_board()};
  (void)context;
  PARTY_TRY(make_scene(&s));
  for (s.round = 0; s.round < ROUNDS; s.round++) {
    for (size_t i = 0; i < LARGE; i++) s.late[i] = (float)s.round;
    harness_barrier();
    if (rank != 0) {
      PARTY_OK(
          coll_allreduce(s.late, s.late, LARGE, COLL_FLOAT32, COLL_SUM, s.comm, s.busy_stream));
      PARTY_OK(coll_barrier(s.comm, s.busy_stream));
    }
    PARTY_TRY(fork_child(&s));
    harness_barrier();
    if (rank == 0) {
      PARTY_OK(coll_allreduce(s.late, s.late, LARGE, COLL_FLOAT32, COLL_SUM, s.comm, NULL));
      PARTY_OK(coll_barrier(s.comm, NULL));
    }
    PARTY_OK(coll_stream_sync(s.busy_stream));
    for (size_t i = 0; i < LARGE; i++) {
      PARTY_REQUIRE(s.late[i] == (float)(s.round * size), "element %zu is %g", i,
                    (double)s.late[i]);
    }
  }
  return end_scene(&s);
}

Test(fork, leaves_calls_of_the_parent_alone) {
  harness_result_t result;
  for (int size = 2; size <= 3; size++) {
    cr_assert(harness_run(size, 60000, fork_during_calls, NULL, &result), "%s", result.text);
  }
}

/* The calls of a thread of its own, which go on until all ranks have forked. */
typedef struct worker {
  pthread_t thread;
  coll_comm_t comm;
  atomic_bool ends;
  int size, failed;
} worker_t;

static int call_until_end(worker_t *w) {
  int32_t votes = 0;
  while (votes < w->size) {
    void *memory;
    size_t count = 1 + (size_t)(rand_r(&(unsigned){(unsigned)votes}) % COUNT);
    PARTY_OK(coll_mem_alloc(COLL_DEVICE_HOST, count * sizeof(float), &memory));
    PARTY_TRY(sum_of(w->comm, memory, count, NULL));
    PARTY_OK(coll_mem_free(memory));
    votes = atomic_load(&w->ends);
    PARTY_OK(coll_allreduce(&votes, &votes, 1, COLL_INT32, COLL_SUM, w->comm, NULL));
  }
  return 0;
}

static void *work(void *argument) {
  worker_t *worker = argument;
  worker->failed = call_until_end(worker);
  return NULL;
}

static int fork_beside_calls(int rank, int size, void *context) {
  scene_t s = {.rank = rank, .size = size, .meeting = harness_board()};
  worker_t worker = {.size = size};
  (void)context;
  PARTY_TRY(make_scene(&s));
  PARTY_OK(coll_comm_split(s.comm, 0, 0, NULL, &worker.comm));
  PARTY_REQUIRE(pthread_create(&worker.thread, NULL, work, &worker) == 0, "no thread");
  for (s.round = 0; s.round < ROUNDS; s.round++) PARTY_TRY(fork_child(&s));
  atomic_store(&worker.ends, true);
  pthread_join(worker.thread, NULL);
  PARTY_TRY(worker.failed);
  PARTY_OK(coll_comm_destroy(worker.comm));
  return end_scene(&s);
}

Test(fork, leaves_a_thread_that_makes_calls_alone) {
  harness_result_t result;
  cr_assert(harness_run(2, 60000, fork_beside_calls, NULL, &result), "%s", result.text);
}

#endif

/* ---- death ----------------------------------------------------------------------------------*/

/* A helper that outlives its parent holds nothing that says to others that the parent lives. Which
 * of them the victim makes; a program that is executed, as by system(3), closes what it inherits.
 */
typedef enum helper { HELPER_FORK, HELPER_GRANDCHILD, HELPER_SPAWN, HELPER_COUNT } helper_t;

static void start_helper(helper_t helper) {
  static char *const program[] = {"sleep", "1000", NULL};
  pid_t child;
  if (helper == HELPER_SPAWN) {
    if (posix_spawnp(&child, program[0], NULL, NULL, program, environ) != 0) abort();
    return;
  }
  child = fork();
  if (child != 0) return;
  if (helper == HELPER_GRANDCHILD && fork() != 0) pause();
  for (;;) pause();
}

/* The helpers live until the harness ends them; without it, the survivor would wait as long. */
static int die_before_helper(party_rank_t *self) {
  int32_t number = 1;
  PARTY_OK(coll_allreduce(&number, &number, 1, COLL_INT32, COLL_SUM, self->comm, NULL));
  if (self->rank == 1) {
    start_helper(*(const helper_t *)self->context);
    raise(SIGKILL);
  }
  coll_status_t status = coll_barrier(self->comm, NULL);
  PARTY_REQUIRE(status == COLL_ERROR_RANK_LOST, "the barrier returns %s",
                coll_status_string(status));
  PARTY_REQUIRE(strstr(coll_last_error(self->comm), "rank 1") != NULL, "%s",
                coll_last_error(self->comm));
  return 0;
}

Test(fork, of_a_helper_that_outlives_its_rank_keeps_nothing_alive) {
  for (helper_t helper = 0; helper < HELPER_COUNT; helper++) {
    harness_result_t result;
    party_processes(3, 60000, die_before_helper, &helper, &result);
    for (int rank = 0; rank < 3; rank++) {
      const harness_rank_t *end = &result.ranks[rank];
      cr_assert_eq(end->end, rank == 1 ? HARNESS_KILLED : HARNESS_RETURNED, "helper %d: %s",
                   (int)helper, result.text);
      cr_assert(rank == 1 || end->value == 0, "helper %d: %s", (int)helper, result.text);
    }
  }
}
