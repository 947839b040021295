/*
 * Deadlocks: ranks that wait for each other all get an error that names their calls. Long waits for
 * a rank that computes, is stopped or is scheduled late get none.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "harness/party.h"
#include "harness/sample.h"
#include "verify/random.h"

#define MS_NS UINT64_C(1000000)
#define TIMEOUT_MS 60000
#define LARGE 1000000 /* bytes; more than a send may leave unreceived */

static char large[HARNESS_RANKS_MAX][LARGE];

#define PROMISE_MS 2000

static bool is_timed; /* it is printed how late a call is refused, which may be late */

/* Of a process with several threads, a wait for sends and receives counts after this limit: another
 * thread might end it. */
static void report_soon(void) {
  setenv("COLL_HANG_MS", "300", 1);
}

static int check_time(uint64_t begin_ns) {
  unsigned took_ms = (unsigned)((base_clock_now_ns() - begin_ns) / MS_NS);
  printf("a deadlock is reported within %u ms / %u ms\n", took_ms, PROMISE_MS);
  PARTY_REQUIRE(took_ms < PROMISE_MS, "it took %u ms", took_ms);
  return 0;
}

/* The call was refused, and the sentence names `words`. */
static int check_refused(const party_rank_t *self, coll_status_t status, uint64_t begin_ns,
                         const char *words) {
  const char *sentence = coll_last_error(self->comm);
  PARTY_REQUIRE(status == COLL_ERROR_MISMATCH, "rank %d: %s", self->rank,
                status == COLL_OK ? "ok" : sentence);
  if (is_timed) PARTY_TRY(check_time(begin_ns));
  PARTY_REQUIRE(strstr(sentence, words) != NULL, "no '%s' in: %s", words, sentence);
  return 0;
}

/* Every rank receives from the next one. */
static int receive_in_a_ring(party_rank_t *self) {
  float got;
  uint64_t begin_ns = base_clock_now_ns();
  int next = (self->rank + 1) % self->size;
  coll_status_t status = coll_recv(&got, 1, COLL_FLOAT32, next, self->comm, NULL);
  return check_refused(self, status, begin_ns, "recv(float32, count 1, from rank 1)");
}

Test(deadlock, of_receives_in_a_ring, .init = report_soon) {
  for (int size = 2; size <= 5; size++) PARTY_RUN(size, TIMEOUT_MS, receive_in_a_ring, NULL);
}

Test(timing_deadlock, is_reported_in_time, .init = report_soon) {
  is_timed = true;
  PARTY_RUN(3, TIMEOUT_MS, receive_in_a_ring, NULL);
}

/* Every rank sends to the next one, outside a group, more than may be left unreceived. */
static int send_in_a_ring(party_rank_t *self) {
  uint64_t begin_ns = base_clock_now_ns();
  int next = (self->rank + 1) % self->size;
  coll_status_t status = coll_send(large[self->rank], LARGE, COLL_INT8, next, self->comm, NULL);
  return check_refused(self, status, begin_ns, "send(int8, count 1000000, to rank 1)");
}

Test(deadlock, of_large_sends_in_a_ring, .init = report_soon) {
  for (int size = 2; size <= 5; size += 3) PARTY_RUN(size, TIMEOUT_MS, send_in_a_ring, NULL);
}

/* Rank 0 receives a message that its peer sends after a collective, which rank 0 has not entered.
 */
static int receive_before_the_collective(party_rank_t *self) {
  float one = 1, sum = 0;
  uint64_t begin_ns = base_clock_now_ns();
  coll_status_t status =
      self->rank == 0 ? coll_recv(&one, 1, COLL_FLOAT32, self->size - 1, self->comm, NULL)
                      : coll_allreduce(&one, &sum, 1, COLL_FLOAT32, COLL_SUM, self->comm, NULL);
  PARTY_TRY(check_refused(self, status, begin_ns, "allreduce(float32, sum, count 1)"));
  return check_refused(self, status, begin_ns, "recv(float32, count 1, from rank");
}

Test(deadlock, of_a_receive_and_a_collective, .init = report_soon) {
  for (int size = 2; size <= 5; size++) {
    PARTY_RUN(size, TIMEOUT_MS, receive_before_the_collective, NULL);
  }
}

/* A group waits as long as any of its calls can continue, and no longer. */
static int group_of_receives(party_rank_t *self) {
  float got[HARNESS_RANKS_MAX], one = 1;
  uint64_t begin_ns = base_clock_now_ns();
  PARTY_OK(coll_group_start());
  for (int peer = 0; peer < self->size; peer++) {
    if (peer == self->rank) continue;
    PARTY_OK(coll_recv(&got[peer], 1, COLL_FLOAT32, peer, self->comm, NULL));
    if (self->rank == 0) PARTY_OK(coll_send(&one, 1, COLL_FLOAT32, peer, self->comm, NULL));
  }
  coll_status_t status = coll_group_end();
  return check_refused(self, status, begin_ns, "recv(float32, count 1, from rank");
}

Test(deadlock, of_groups, .init = report_soon) {
  for (int size = 3; size <= 4; size++) PARTY_RUN(size, TIMEOUT_MS, group_of_receives, NULL);
}

/* A receive from the rank itself without a matching send in the group. */
static int receive_from_oneself(party_rank_t *self) {
  float got;
  uint64_t begin_ns = base_clock_now_ns();
  PARTY_OK(coll_group_start());
  PARTY_OK(coll_recv(&got, 1, COLL_FLOAT32, self->rank, self->comm, NULL));
  return check_refused(self, coll_group_end(), begin_ns, "recv(float32, count 1, from rank");
}

Test(deadlock, of_a_receive_from_oneself, .init = report_soon) {
  PARTY_RUN(2, TIMEOUT_MS, receive_from_oneself, NULL);
}

static int count_threads(void) {
  DIR *folder = opendir("/proc/self/task");
  int count = 0;
  for (const struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
    count += entry->d_name[0] != '.';
  }
  if (folder != NULL) closedir(folder);
  return count;
}

/* Waits until the thread that served the rendezvous has ended. ThreadSanitizer has threads of its
 * own, so that the library never takes a process for one of a single thread. */
static int await_only_thread(void) {
  uint64_t deadline_ns = base_clock_now_ns() + 30000 * MS_NS;
  if (HARNESS_BUILD == HARNESS_THREAD) return 0;
  while (count_threads() > 1 && base_clock_now_ns() < deadline_ns) base_clock_sleep_ns(MS_NS);
  PARTY_REQUIRE(count_threads() == 1, "%d threads are left", count_threads());
  return 0;
}

/* Single-threaded processes that wait for each other on two communicators: a thread that waits on
 * one cannot enter a call on the other. ThreadSanitizer runs a thread in every process that could,
 * for all the library knows, make the call. */
#ifndef __SANITIZE_THREAD__
static int wait_on_two_communicators(party_rank_t *self) {
  coll_comm_t second;
  float one = 1, sum;
  PARTY_OK(coll_comm_split(self->comm, 0, self->rank, NULL, &second));
  PARTY_TRY(await_only_thread());
  coll_comm_t used = self->rank == 0 ? self->comm : second;
  coll_status_t status = coll_allreduce(&one, &sum, 1, COLL_FLOAT32, COLL_SUM, used, NULL);
  const char *sentence = coll_last_error(used);
  PARTY_REQUIRE(status == COLL_ERROR_MISMATCH, "%s", status == COLL_OK ? "ok" : sentence);
  /* or its peer got the error first, and has destroyed this one */
  PARTY_REQUIRE(strstr(sentence, "of another communicator, allreduce(") != NULL ||
                    strstr(sentence, "destroy()") != NULL,
                "%s", sentence);
  coll_comm_destroy(second);
  coll_comm_destroy(self->comm);
  self->comm = NULL;
  return 0;
}

Test(deadlock, of_two_communicators) {
  for (int size = 2; size <= 4; size++) {
    harness_result_t result;
    cr_assert(party_processes(size, TIMEOUT_MS, wait_on_two_communicators, NULL, &result), "%s",
              result.text);
  }
}

/* One thread that makes the calls of two ranks one after the other, instead of in a group. */
static int drive_two_ranks(int rank, int size, void *context) {
  (void)rank, (void)size, (void)context;
  coll_comm_t comms[2];
  float one = 1, sum;
  if (coll_comm_create_local(2, NULL, comms) != COLL_OK) return harness_fail("no communicators");
  coll_status_t status = coll_allreduce(&one, &sum, 1, COLL_FLOAT32, COLL_SUM, comms[0], NULL);
  if (status != COLL_ERROR_MISMATCH) return harness_fail("%s", coll_status_string(status));
  coll_comm_destroy(comms[0]);
  coll_comm_destroy(comms[1]);
  return 0;
}

Test(deadlock, of_a_thread_that_drives_two_ranks) {
  harness_result_t result;
  cr_assert(harness_run(1, TIMEOUT_MS, drive_two_ranks, NULL, &result), "%s", result.text);
}
#endif

/* ---- what is no deadlock --------------------------------------------------------------------*/

/* A chain of waits that ends at a rank which computes. */
static int wait_for_one_that_computes(party_rank_t *self) {
  float one = (float)self->rank, got = -1;
  for (int round = 0; round < 3; round++) {
    if (self->rank == self->size - 1) {
      base_clock_sleep_ns(300 * MS_NS);
      one = (float)(self->size + round);
    } else {
      PARTY_OK(coll_recv(&one, 1, COLL_FLOAT32, self->rank + 1, self->comm, NULL));
    }
    if (self->rank > 0) {
      PARTY_OK(coll_send(&one, 1, COLL_FLOAT32, self->rank - 1, self->comm, NULL));
    }
    PARTY_REQUIRE(one == (float)(self->size + round), "got %g", (double)one);
    PARTY_OK(coll_allreduce(&one, &got, 1, COLL_FLOAT32, COLL_MAX, self->comm, NULL));
  }
  return 0;
}

Test(deadlock, is_not_a_long_wait) {
  int step = harness_full() ? 1 : 3;
  for (int size = 2; size <= 5; size += step) {
    PARTY_RUN(size, TIMEOUT_MS, wait_for_one_that_computes, NULL);
  }
}

/* Ranks that were stopped while messages arrived have not polled for them. */
static int wait_for_stopped_ones(party_rank_t *self) {
  uint64_t random = (uint64_t)self->rank + 7;
  float one = 1, sum;
  pid_t stopper = -1, own = getpid();
  if (self->rank % 2 == 0) stopper = fork();
  if (stopper == 0) { /* stops its parent from time to time */
    for (int i = 0; i < 12; i++) {
      base_clock_sleep_ns((uint64_t)random_below(&random, 30) * MS_NS);
      kill(own, SIGSTOP);
      base_clock_sleep_ns((uint64_t)random_below(&random, 90) * MS_NS);
      kill(own, SIGCONT);
    }
    _exit(0);
  }
  uint64_t until_ns = base_clock_now_ns() + 1200 * MS_NS;
  for (bool more = true; more;) {
    float last = base_clock_now_ns() < until_ns ? 0 : 1;
    int next = (self->rank + 1) % self->size, before = (self->rank + self->size - 1) % self->size;
    PARTY_OK(coll_group_start());
    PARTY_OK(coll_send(&one, 1, COLL_FLOAT32, next, self->comm, NULL));
    PARTY_OK(coll_recv(&sum, 1, COLL_FLOAT32, before, self->comm, NULL));
    PARTY_OK(coll_group_end());
    PARTY_OK(coll_allreduce(&last, &sum, 1, COLL_FLOAT32, COLL_MAX, self->comm, NULL));
    more = sum == 0;
  }
  if (stopper > 0) waitpid(stopper, NULL, 0);
  return 0;
}

Test(deadlock, is_not_a_rank_that_is_stopped) {
  harness_result_t result;
  cr_assert(party_processes(4, TIMEOUT_MS, wait_for_stopped_ones, NULL, &result), "%s",
            result.text);
}

/* Another thread uses the other communicator, late. */
static void *call_late(void *argument) {
  static float one = 1, sum;
  base_clock_sleep_ns(400 * MS_NS);
  coll_allreduce(&one, &sum, 1, COLL_FLOAT32, COLL_SUM, argument, NULL);
  return NULL;
}

static int wait_on_two_in_two_threads(party_rank_t *self) {
  coll_comm_t second;
  float one = 1, sum;
  pthread_t thread;
  PARTY_OK(coll_comm_split(self->comm, 0, self->rank, NULL, &second));
  coll_comm_t early = self->rank == 0 ? self->comm : second;
  coll_comm_t late = self->rank == 0 ? second : self->comm;
  if (pthread_create(&thread, NULL, call_late, late) != 0) return harness_fail("no thread");
  coll_status_t status = coll_allreduce(&one, &sum, 1, COLL_FLOAT32, COLL_SUM, early, NULL);
  pthread_join(thread, NULL);
  PARTY_REQUIRE(status == COLL_OK, "%s", coll_last_error(early));
  PARTY_OK(coll_comm_destroy(second));
  return 0;
}

Test(deadlock, is_not_a_wait_that_another_thread_ends) {
  harness_result_t result;
  cr_assert(party_processes(2, TIMEOUT_MS, wait_on_two_in_two_threads, NULL, &result), "%s",
            result.text);
}

/* Rank 0 waits for rank 1, which waits on another communicator for what a stream of rank 0 sends
 * when it has received from rank 2. */
static int wait_beside_a_stream(party_rank_t *self) {
  coll_comm_t other, third;
  coll_stream_t stream;
  float from_last = 0, got = 0, one = 1;
  PARTY_OK(coll_comm_split(self->comm, 0, self->rank, NULL, &other));
  PARTY_OK(coll_comm_split(self->comm, 0, self->rank, NULL, &third));
  PARTY_TRY(await_only_thread());
  PARTY_OK(coll_stream_create(&stream));
  if (self->rank == 0) {
    PARTY_OK(coll_recv(&from_last, 1, COLL_FLOAT32, 2, third, stream));
    PARTY_OK(coll_send(&one, 1, COLL_FLOAT32, 1, other, stream));
    PARTY_OK(coll_recv(&got, 1, COLL_FLOAT32, 1, self->comm, NULL));
  } else if (self->rank == 1) {
    PARTY_OK(coll_recv(&got, 1, COLL_FLOAT32, 0, other, NULL));
    PARTY_OK(coll_send(&got, 1, COLL_FLOAT32, 0, self->comm, NULL));
  } else {
    base_clock_sleep_ns(400 * MS_NS);
    PARTY_OK(coll_send(&one, 1, COLL_FLOAT32, 0, third, NULL));
  }
  PARTY_OK(coll_stream_sync(stream));
  PARTY_OK(coll_barrier(self->comm, NULL));
  coll_stream_destroy(stream);
  PARTY_OK(coll_comm_destroy(third));
  return coll_comm_destroy(other) == COLL_OK ? 0 : harness_fail("%s", coll_last_error(NULL));
}

Test(deadlock, is_not_a_wait_that_a_stream_ends) {
  harness_result_t result;
  cr_assert(party_processes(3, TIMEOUT_MS, wait_beside_a_stream, NULL, &result), "%s", result.text);
}

/* Many ranks on few cores, each sometimes slow, in calls of all kinds. */
static int wait_at_random(party_rank_t *self) {
  uint64_t common = 99, own = (uint64_t)self->rank + 1;
  float in[64] = {1}, out[64 * 16];
  for (int round = 0; round < 150; round++) {
    int kind = random_below(&common, 4), root = random_below(&common, self->size);
    if (random_below(&own, 10) == 0) base_clock_sleep_ns((uint64_t)random_below(&own, 40) * MS_NS);
    switch (kind) {
      case 0:
        PARTY_OK(coll_allreduce(in, out, 64, COLL_FLOAT32, COLL_SUM, self->comm, NULL));
        break;
      case 1: PARTY_OK(coll_broadcast(in, out, 64, COLL_FLOAT32, root, self->comm, NULL)); break;
      case 2: PARTY_OK(coll_barrier(self->comm, NULL)); break;
      default: PARTY_OK(coll_allgather(in, out, 64, COLL_FLOAT32, self->comm, NULL)); break;
    }
  }
  return 0;
}

Test(deadlock, is_not_a_busy_machine) {
  PARTY_RUN(12, TIMEOUT_MS, wait_at_random, NULL);
}
