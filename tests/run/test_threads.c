/*
 * Several threads of a rank that send and receive on one communicator at the same time: what one of
 * them waits for may be what the peer sends only after another one's message.
 */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "comm/comm.h"
#include "harness/party.h"
#include "harness/thread_call.h"

#define TIMEOUT_MS 60000
#define LARGE 4000000 /* floats; more than a send may leave unreceived, over TCP too */
#define LOOK_NS 1000000u

static void run_everywhere(int size, party_body_t body) {
  PARTY_RUN(size, TIMEOUT_MS, body, NULL);
  if (HARNESS_BUILD == HARNESS_THREAD) return;
  setenv("COLL_TRANSPORTS", "tcp", 1);
  harness_result_t result;
  cr_assert(party_processes(size, TIMEOUT_MS, body, NULL, &result), "tcp: %s", result.text);
}

/* ---- a thread that makes a call
 * -----------------------------------------------------------------*/

typedef struct job {
  thread_call_t call;
  coll_comm_t comm;
  float *data;
  size_t count;
  int peer;
  bool sends;
} job_t;

static coll_status_t make_call(void *context) {
  const job_t *job = context;
  return job->sends ? coll_send(job->data, job->count, COLL_FLOAT32, job->peer, job->comm, NULL)
                    : coll_recv(job->data, job->count, COLL_FLOAT32, job->peer, job->comm, NULL);
}

static void begin(job_t *job) {
  thread_call_start(&job->call, make_call, job);
}

static int end(job_t *job, coll_status_t expected) {
  coll_status_t status = thread_call_join(&job->call);
  PARTY_REQUIRE(status == expected, "%s: %s", coll_status_string(status),
                coll_last_error(job->comm));
  return 0;
}

/* Until this rank waits, and has looked at its peers often enough to have found a deadlock. */
static void await_wait(coll_comm_t comm) {
  const flight_wait_t *wait = &comm->local->flight->wait;
  while (atomic_load(&wait->waiting) == 0 || atomic_load(&wait->polls) < 20) {
    base_clock_sleep_ns(LOOK_NS);
  }
}

/* The same of all ranks. */
static void await_waits(coll_comm_t comm) {
  await_wait(comm);
  harness_barrier();
}

/* Until `count` calls of this rank have tickets that are not served. */
static void await_calls(coll_comm_t comm, unsigned count) {
  while (atomic_load(&comm->order.next_ticket) - atomic_load(&comm->order.now_serving) < count) {
    base_clock_sleep_ns(LOOK_NS);
  }
}

/* The tickets are in order: nothing is left of calls, and a collective works. */
static int check_idle(const party_rank_t *self) {
  float one = 1, sum = 0;
  for (int i = 0; i < 3; i++) {
    PARTY_OK(coll_allreduce(&one, &sum, 1, COLL_FLOAT32, COLL_SUM, self->comm, NULL));
    PARTY_REQUIRE(sum == (float)self->size, "a sum of %g", (double)sum);
  }
  PARTY_REQUIRE(self->comm->order.next_ticket == self->comm->order.now_serving, "calls are left");
  return 0;
}

/* ---- one sends, one receives
 * --------------------------------------------------------------------*/

static int send_beside_a_receive(party_rank_t *self) {
  float mine = (float)self->rank, got = -1;
  int next = (self->rank + 1) % self->size, before = (self->rank + self->size - 1) % self->size;
  job_t receive = {.comm = self->comm, .data = &got, .count = 1, .peer = before};
  begin(&receive);
  await_waits(self->comm);
  PARTY_OK(coll_send(&mine, 1, COLL_FLOAT32, next, self->comm, NULL));
  PARTY_TRY(end(&receive, COLL_OK));
  PARTY_REQUIRE(got == (float)before, "got %g", (double)got);
  return check_idle(self);
}

Test(threads, send_while_another_receives) {
  run_everywhere(2, send_beside_a_receive);
  run_everywhere(3, send_beside_a_receive);
}

/* The thread that made the communicator uses it, too, however late. */
Test(threads, wait_for_the_one_that_made_it) {
  harness_result_t result;
  if (HARNESS_BUILD == HARNESS_THREAD) cr_skip_test("threads have communicators of another one");
  setenv("COLL_HANG_MS", "20", 1);
  cr_assert(party_processes(2, TIMEOUT_MS, send_beside_a_receive, NULL, &result), "%s",
            result.text);
}

static int receive_beside_a_send(party_rank_t *self) {
  int next = (self->rank + 1) % self->size, before = (self->rank + self->size - 1) % self->size;
  float *large = calloc(2 * LARGE, sizeof *large), *got = large + LARGE;
  job_t send = {.comm = self->comm, .data = large, .count = LARGE, .peer = next, .sends = true};
  large[LARGE - 1] = (float)self->rank;
  begin(&send);
  await_waits(self->comm);
  PARTY_OK(coll_recv(got, LARGE, COLL_FLOAT32, before, self->comm, NULL));
  PARTY_TRY(end(&send, COLL_OK));
  PARTY_REQUIRE(got[LARGE - 1] == (float)before, "got %g", (double)got[LARGE - 1]);
  free(large);
  return check_idle(self);
}

Test(threads, receive_while_another_sends) {
  run_everywhere(2, receive_beside_a_send);
}

/* Groups, of which one has to wait for the other. */
static coll_status_t receive_from_all(void *context) {
  const party_rank_t *self = context;
  static _Thread_local float got[HARNESS_RANKS_MAX];
  coll_status_t status = coll_group_start();
  for (int peer = 0; peer < self->size && status == COLL_OK; peer++) {
    status = coll_recv(&got[peer], 1, COLL_FLOAT32, peer, self->comm, NULL);
  }
  coll_status_t ended = coll_group_end();
  if (status == COLL_OK) status = ended;
  for (int peer = 0; peer < self->size && status == COLL_OK; peer++) {
    if (got[peer] != (float)peer) status = COLL_ERROR_INVALID;
  }
  return status;
}

static int send_group_beside_a_group(party_rank_t *self) {
  float mine = (float)self->rank;
  thread_call_t receives;
  thread_call_start(&receives, receive_from_all, self);
  await_waits(self->comm);
  PARTY_OK(coll_group_start());
  for (int peer = 0; peer < self->size; peer++) {
    PARTY_OK(coll_send(&mine, 1, COLL_FLOAT32, peer, self->comm, NULL));
  }
  PARTY_OK(coll_group_end());
  PARTY_OK(thread_call_join(&receives));
  return check_idle(self);
}

Test(threads, make_groups) {
  run_everywhere(3, send_group_beside_a_group);
}

/* Streams are threads. */
static int send_and_receive_on_streams(party_rank_t *self) {
  float mine = (float)self->rank, got = -1;
  int next = (self->rank + 1) % self->size, before = (self->rank + self->size - 1) % self->size;
  coll_stream_t in, out;
  PARTY_OK(coll_stream_create(&in));
  PARTY_OK(coll_stream_create(&out));
  PARTY_OK(coll_recv(&got, 1, COLL_FLOAT32, before, self->comm, in));
  await_waits(self->comm);
  PARTY_OK(coll_send(&mine, 1, COLL_FLOAT32, next, self->comm, out));
  PARTY_OK(coll_stream_sync(out));
  PARTY_OK(coll_stream_sync(in));
  PARTY_REQUIRE(got == (float)before, "got %g", (double)got);
  coll_stream_destroy(in);
  coll_stream_destroy(out);
  return check_idle(self);
}

Test(threads, are_streams) {
  run_everywhere(2, send_and_receive_on_streams);
}

/* ---- who goes on
 * --------------------------------------------------------------------------------*/

/* Rank 0 receives, and runs sends of two threads. When it has received, one of these goes on. */
static int leave_sends_to_their_threads(party_rank_t *self) {
  float *large = calloc(LARGE, sizeof *large), small = 5;
  int last = self->size - 1;
  if (self->rank == 0) {
    job_t first = {.comm = self->comm, .data = large, .count = LARGE, .peer = 1, .sends = true};
    job_t second = first, receive = {.comm = self->comm, .data = &small, .count = 1, .peer = last};
    begin(&receive);
    await_wait(self->comm);
    begin(&first);
    await_calls(self->comm, 2);
    begin(&second);
    await_calls(self->comm, 3);
    harness_barrier(); /* the message that ends the receive is sent */
    PARTY_TRY(end(&receive, COLL_OK));
    PARTY_REQUIRE(small == 7, "got %g", (double)small);
    harness_barrier(); /* the large ones are received */
    PARTY_TRY(end(&first, COLL_OK));
    PARTY_TRY(end(&second, COLL_OK));
  } else {
    float seven = 7;
    harness_barrier();
    if (self->rank == last) PARTY_OK(coll_send(&seven, 1, COLL_FLOAT32, 0, self->comm, NULL));
    harness_barrier();
    for (int i = 0; i < 2 && self->rank == 1; i++) {
      PARTY_OK(coll_recv(large, LARGE, COLL_FLOAT32, 0, self->comm, NULL));
    }
  }
  free(large);
  return check_idle(self);
}

Test(threads, go_on_with_what_is_left) {
  run_everywhere(2, leave_sends_to_their_threads);
  run_everywhere(3, leave_sends_to_their_threads);
}

/* ---- order
 * --------------------------------------------------------------------------------------*/

enum { THREADS = 4, MESSAGES = 100 };

typedef struct talker {
  thread_call_t calls;
  const party_rank_t *self;
  int number;
  size_t count; /* floats of a message */
  bool ordered;
} talker_t;

/* Sends or receives by turns of threads: the messages of one thread stay in their order. */
static coll_status_t talk(void *context) {
  const talker_t *talker = context;
  const party_rank_t *self = talker->self;
  int next = (self->rank + 1) % self->size;
  float *message = calloc(talker->count, sizeof *message);
  coll_status_t status = COLL_OK;
  for (int i = 0; i < MESSAGES && status == COLL_OK; i++) {
    message[0] = (float)talker->number;
    message[talker->count - 1] = (float)i;
    status = coll_send(message, talker->count, COLL_FLOAT32, next, self->comm, NULL);
  }
  free(message);
  return status;
}

static coll_status_t listen_to_all(void *context) {
  talker_t *talker = context;
  const party_rank_t *self = talker->self;
  int before = (self->rank + self->size - 1) % self->size, latest[THREADS];
  float *message = calloc(talker->count, sizeof *message);
  for (int i = 0; i < THREADS; i++) latest[i] = -1;
  coll_status_t status = COLL_OK;
  talker->ordered = true;
  for (int i = 0; i < MESSAGES * THREADS && status == COLL_OK; i++) {
    status = coll_recv(message, talker->count, COLL_FLOAT32, before, self->comm, NULL);
    int from = (int)message[0], number = (int)message[talker->count - 1];
    talker->ordered = talker->ordered && number == latest[from] + 1;
    latest[from] = number;
  }
  free(message);
  return status;
}

static int talk_at_once(party_rank_t *self, size_t count) {
  talker_t talkers[THREADS + 1];
  for (int i = 0; i <= THREADS; i++) {
    talkers[i] = (talker_t){.self = self, .number = i, .count = count};
    thread_call_start(&talkers[i].calls, i < THREADS ? talk : listen_to_all, &talkers[i]);
  }
  for (int i = 0; i <= THREADS; i++) thread_call_join(&talkers[i].calls);
  for (int i = 0; i <= THREADS; i++) {
    PARTY_REQUIRE(talkers[i].calls.status == COLL_OK, "%s", coll_last_error(self->comm));
  }
  PARTY_REQUIRE(talkers[THREADS].ordered, "messages of one thread are out of order");
  return check_idle(self);
}

static int talk_of_little(party_rank_t *self) {
  return talk_at_once(self, 2);
}

static int talk_at_length(party_rank_t *self) {
  return talk_at_once(self, HARNESS_BUILD == HARNESS_PLAIN ? 40000 : 5000);
}

Test(threads, keep_their_order) {
  run_everywhere(3, talk_of_little);
}

Test(threads, keep_the_order_of_long_messages) {
  run_everywhere(2, talk_at_length);
}

/* ---- failures
 * -----------------------------------------------------------------------------------*/

#ifndef __SANITIZE_THREAD__
static int lose_the_peer(party_rank_t *self) {
  float *large = calloc(2 * LARGE, sizeof *large);
  job_t receive = {.comm = self->comm, .data = large, .count = 1, .peer = 1};
  job_t first = {
      .comm = self->comm, .data = large + LARGE, .count = LARGE, .peer = 1, .sends = true};
  job_t second = first;
  if (self->rank == 1) {
    harness_barrier();
    raise(SIGKILL);
  }
  begin(&receive);
  await_wait(self->comm);
  begin(&first);
  begin(&second);
  await_calls(self->comm, 3);
  harness_barrier();
  PARTY_TRY(end(&receive, COLL_ERROR_RANK_LOST));
  PARTY_TRY(end(&first, COLL_ERROR_RANK_LOST));
  PARTY_TRY(end(&second, COLL_ERROR_RANK_LOST));
  free(large);
  return 0;
}

Test(threads, all_learn_of_a_death) {
  static const char *const transports[] = {"shm", "tcp"};
  for (int i = 0; i < 2; i++) {
    harness_result_t result;
    setenv("COLL_TRANSPORTS", transports[i], 1);
    party_processes(2, TIMEOUT_MS, lose_the_peer, NULL, &result);
    cr_assert(result.ranks[0].end == HARNESS_RETURNED && result.ranks[0].value == 0, "%s: %s",
              transports[i], result.text);
  }
}
#endif

/* The holder of the lock finds that another thread's call does not fit the peer's. */
static int make_a_call_that_does_not_fit(party_rank_t *self) {
  float number = 0, numbers[2] = {0};
  job_t receive = {.comm = self->comm, .data = &number, .count = 1, .peer = 1};
  if (self->rank == 1) {
    harness_barrier();
    coll_status_t status = coll_recv(numbers, 2, COLL_FLOAT32, 0, self->comm, NULL);
    PARTY_REQUIRE(status != COLL_OK, "two numbers were received");
    return 0;
  }
  begin(&receive);
  await_wait(self->comm);
  coll_status_t status = coll_send(&number, 1, COLL_FLOAT32, 1, self->comm, NULL);
  harness_barrier();
  coll_status_t received = thread_call_join(&receive.call);
  /* a small message may have been sent before the peer looks at it */
  PARTY_REQUIRE(status == COLL_OK || status == COLL_ERROR_MISMATCH, "the send: %s",
                coll_status_string(status));
  PARTY_REQUIRE(received == COLL_ERROR_MISMATCH, "the receive: %s", coll_status_string(received));
  return 0;
}

Test(threads, all_learn_of_a_mismatch) {
  run_everywhere(2, make_a_call_that_does_not_fit);
}

static int abort_all(party_rank_t *self) {
  float got[3];
  job_t jobs[3];
  if (self->rank == 1) {
    harness_barrier();
    return 0;
  }
  for (int i = 0; i < 3; i++) {
    jobs[i] = (job_t){.comm = self->comm, .data = &got[i], .count = 1, .peer = 1};
    begin(&jobs[i]);
  }
  await_calls(self->comm, 3);
  await_wait(self->comm);
  PARTY_OK(coll_comm_abort(self->comm));
  for (int i = 0; i < 3; i++) {
    PARTY_TRY(end(&jobs[i], COLL_ERROR_RANK_LOST));
  }
  harness_barrier();
  return 0;
}

Test(threads, all_end_with_an_abort) {
  run_everywhere(2, abort_all);
}
