/* Cases about mapped memory, and peers that leave, die or abort. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "transport/kit.h"
#include "transport/kit_steps.h"

#define VERDICT_NS UINT64_C(300000000) /* of transport/net/channel/abort.c */

int transport_case_slots(const transport_fixture_t *fixture, transport_t **end) {
  (void)fixture;
  const transport_ops_t *ops = (*end)->ops;
  KIT_REQUIRE(ops->name != NULL && ops->name[0] != '\0', "it has no name");
  bool all = ops->port && ops->send && ops->recv && ops->peek && ops->take && ops->mcast_send &&
             ops->mcast_peek && ops->mcast_take && ops->signal && ops->wait && ops->signaled &&
             ops->address && ops->map && ops->scratch && ops->arm && ops->sleep && ops->disarm &&
             ops->yield_hint && ops->yield && ops->recorder && ops->publish && ops->pending_in &&
             ops->drained && ops->pending_out && ops->pass_descriptor && ops->take_descriptor &&
             ops->probe_get && ops->get && ops->fetch && ops->peer_state && ops->abort &&
             ops->aborted && ops->destroy;
  KIT_REQUIRE(all, "a slot of %s is NULL", ops->name);
  return 0;
}

static int send_address(transport_t *t, int peer, const transport_address_t *address) {
  transport_head_t head = {.bytes = sizeof *address};
  bool done = false;
  coll_status_t status = t->ops->send(t->ops->port(t, peer, 0), address, &head, &done);
  KIT_REQUIRE(status == COLL_OK && done, "cannot send an address: %s", base_last_error());
  return 0;
}

static int recv_address(transport_t *t, int peer, transport_address_t *address) {
  transport_head_t head = {0};
  uint64_t deadline = kit_deadline_ns();
  bool done = false;
  while (!done && base_clock_now_ns() < deadline) {
    if (t->ops->recv(t->ops->port(t, peer, 0), address, sizeof *address, &head, &done) != COLL_OK)
      break;
    if (!done) kit_pause();
  }
  KIT_REQUIRE(done && head.bytes == sizeof *address, "no address from %d", peer);
  return 0;
}

/* Rank 0 sends the address of the middle of a buffer, the last rank writes there, and rank 0 checks
 * the content. */
static int write_through(const transport_fixture_t *fixture, transport_t *t, size_t bytes) {
  enum { OFFSET = 4096 + 64, LENGTH = 1000 };
  int owner = 0, writer = t->size - 1;
  transport_address_t address = {0, 0}, again = {0, 0};
  void *memory = NULL;
  if (t->rank == owner) {
    KIT_REQUIRE(fixture->alloc(bytes, &memory) == COLL_OK, "%s", base_last_error());
    char *part = (char *)memory + OFFSET;
    KIT_REQUIRE(t->ops->address(t, part, LENGTH, &address) == COLL_OK &&
                    t->ops->address(t, part, LENGTH, &again) == COLL_OK,
                "%s", base_last_error());
    KIT_REQUIRE(address.segment != 0, "memory that can be mapped has no address");
    KIT_REQUIRE(address.segment == again.segment && address.offset == again.offset,
                "the same memory has two addresses");
    KIT_TRY(send_address(t, writer, &address));
  }
  if (t->rank == writer) {
    void *mapped = NULL;
    KIT_TRY(recv_address(t, owner, &address));
    KIT_REQUIRE(t->ops->map(t, owner, &address, &mapped) == COLL_OK, "%s", base_last_error());
    KIT_REQUIRE(mapped != NULL, "rank %d's memory cannot be mapped", owner);
    kit_fill(mapped, bytes, LENGTH);
    KIT_TRY(kit_signal(t, owner, 0, 1));
  }
  if (t->rank == owner) {
    KIT_TRY(kit_wait(t, writer, 0, 1));
    KIT_REQUIRE(kit_is((char *)memory + OFFSET, bytes, LENGTH), "written bytes are missing");
    KIT_REQUIRE(((char *)memory)[OFFSET - 1] == 0 && ((char *)memory)[OFFSET + LENGTH] == 0,
                "bytes outside of the range were written");
    KIT_REQUIRE(fixture->release(memory) == COLL_OK, "%s", base_last_error());
  }
  return 0;
}

int transport_case_memory(const transport_fixture_t *fixture, transport_t **end) {
  transport_t *t = *end;
  if (!fixture->maps) {
    transport_address_t address = {1, 1};
    KIT_REQUIRE(t->ops->address(t, &address, sizeof address, &address) == COLL_OK, "%s",
                base_last_error());
    KIT_REQUIRE(address.segment == 0, "memory that cannot be mapped has an address");
    return 0;
  }
  KIT_TRY(write_through(fixture, t, 16384));
  harness_barrier();
  return write_through(fixture, t, 1 << 20); /* again, after the first buffer was freed */
}

/* Every rank writes into every rank's scratch, each at its own offset. */
int transport_case_scratch(const transport_fixture_t *fixture, transport_t **end) {
  transport_t *t = *end;
  void *first = NULL;
  size_t bytes = 0;
  t->ops->scratch(t, t->rank, &first, &bytes);
  if (fixture->shares_some_scratch) return 0;
  if (!fixture->has_scratch) {
    for (int r = 0; r < t->size; r++) {
      if (r != t->rank) t->ops->scratch(t, r, &first, &bytes);
      KIT_REQUIRE(r == t->rank || first == NULL, "scratch of rank %d without mapping", r);
    }
    return 0;
  }
  KIT_REQUIRE(first != NULL && bytes >= 4096, "no scratch");
  harness_barrier();
  for (int r = 0; r < t->size; r++) {
    void *scratch = NULL;
    size_t size = 0;
    t->ops->scratch(t, r, &scratch, &size);
    KIT_REQUIRE(scratch != NULL && size == bytes, "rank %d has %zu bytes of scratch, not %zu", r,
                size, bytes);
    ((unsigned char *)scratch)[t->rank] = (unsigned char)(10 * r + t->rank + 1);
    ((unsigned char *)scratch)[bytes - 1 - (size_t)t->rank] = (unsigned char)(t->rank + 1);
  }
  harness_barrier();
  for (int r = 0; r < t->size; r++) {
    const unsigned char *own = first;
    KIT_REQUIRE(own[r] == 10 * t->rank + r + 1, "the first byte of rank %d is missing", r);
    KIT_REQUIRE(own[bytes - 1 - (size_t)r] == r + 1, "the last byte of rank %d is missing", r);
  }
  return 0;
}

/* Waits until the peer is in that state. */
static int expect_state(transport_t *t, int peer, transport_peer_state_t state) {
  uint64_t begin = base_clock_now_ns();
  while (t->ops->peer_state(t, peer) != state) {
    KIT_REQUIRE(base_clock_now_ns() - begin < kit_wake_ns, "rank %d sees rank %d in state %d",
                t->rank, peer, (int)t->ops->peer_state(t, peer));
    base_clock_sleep_ns(1000000);
  }
  kit_print("the end of a rank is detected", base_clock_now_ns() - begin);
  return 0;
}

static int see_rank_0_go(transport_t *t, transport_peer_state_t state) {
  int other = 3 - t->rank;
  KIT_TRY(expect_state(t, 0, state));
  KIT_REQUIRE(t->ops->peer_state(t, other) == TRANSPORT_PEER_HERE,
              "the wrong rank is reported as gone");
  for (uint64_t i = 0; i < 3; i++) KIT_TRY(kit_expect(t, 0, 0, i, 500));
  return kit_expect_nothing(t, 0, 0);
}

/* Rank 0 sends and leaves; the others detect it and still receive what it sent. */
int transport_case_leave(const transport_fixture_t *fixture, transport_t **end) {
  (void)fixture;
  transport_t *t = *end;
  KIT_REQUIRE(t->rank == 0 || t->ops->peer_state(t, 0) == TRANSPORT_PEER_HERE,
              "reported as gone too early");
  harness_barrier();
  if (t->rank > 0) {
    KIT_TRY(see_rank_0_go(t, TRANSPORT_PEER_LEFT));
  } else {
    for (int peer = 1; peer < t->size; peer++) {
      for (uint64_t i = 0; i < 3; i++) KIT_TRY(kit_send(t, peer, 0, i, 500));
    }
    t->ops->destroy(t);
    *end = NULL;
    harness_barrier(); /* the runner's, for a rank that has left */
  }
  return 0;
}

int transport_case_death(const transport_fixture_t *fixture, transport_t **end) {
  (void)fixture;
  transport_t *t = *end;
  harness_barrier();
  if (t->rank == 0) {
    for (int peer = 1; peer < t->size; peer++) {
      for (uint64_t i = 0; i < 3; i++) KIT_TRY(kit_send(t, peer, 0, i, 500));
    }
    harness_kill(0);
  }
  KIT_TRY(see_rank_0_go(t, TRANSPORT_PEER_LOST));
  int other = 3 - t->rank; /* the survivors continue, and wait for each other before they leave */
  KIT_TRY(kit_signal(t, other, 0, 1));
  KIT_TRY(kit_wait(t, other, 0, 1));
  t->ops->destroy(t);
  *end = NULL; /* skips the runner's barrier, which rank 0 cannot reach */
  return 0;
}

/* ---- the end of a communicator --------------------------------------------------------------*/

/* A reason of which every byte follows from `number`. */
static transport_reason_t reason_of(int number, int size) {
  transport_reason_t reason = {.failed_rank = number % size,
                               .status = number % 2 == 0 ? COLL_ERROR_MISMATCH : COLL_ERROR_SYSTEM};
  memset(reason.text, 'a' + number, sizeof reason.text - 1);
  return reason;
}

static bool is_reason(const transport_reason_t *reason, int number, int size) {
  transport_reason_t expected = reason_of(number, size);
  return reason->failed_rank == expected.failed_rank && reason->status == expected.status &&
         strcmp(reason->text, expected.text) == 0;
}

static int wait_for_abort(transport_t *t, transport_reason_t *reason) {
  uint64_t deadline = kit_deadline_ns();
  while (!t->ops->aborted(t, reason)) {
    KIT_REQUIRE(base_clock_now_ns() < deadline, "rank %d saw no abort", t->rank);
    kit_pause();
  }
  KIT_REQUIRE(atomic_load(t->abort_word) != 0, "rank %d has no abort_word set", t->rank);
  return 0;
}

/* All ranks get the first reason given, and continue to get it. */
int transport_case_aborts(const transport_fixture_t *fixture, transport_t **end) {
  enum { FIRST = 5, LATER = 6 };
  (void)fixture;
  transport_t *t = *end;
  transport_reason_t reason = {0}, first = reason_of(FIRST, t->size);
  KIT_REQUIRE(!t->ops->aborted(t, &reason), "aborted from the start");
  KIT_REQUIRE(t->abort_word != NULL && atomic_load(t->abort_word) == 0, "its abort_word is set");
  harness_barrier();
  if (t->rank == t->size - 1) t->ops->abort(t, &first);
  KIT_TRY(wait_for_abort(t, &reason));
  KIT_REQUIRE(is_reason(&reason, FIRST, t->size), "rank %d got: rank %d, %d, %.20s", t->rank,
              reason.failed_rank, (int)reason.status, reason.text);
  harness_barrier();
  transport_reason_t later = reason_of(LATER + t->rank, t->size);
  t->ops->abort(t, &later); /* a second abort by the same rank too */
  harness_barrier();
  KIT_TRY(wait_for_abort(t, &reason));
  KIT_REQUIRE(is_reason(&reason, FIRST, t->size), "rank %d now gets: rank %d, %d, %.20s", t->rank,
              reason.failed_rank, (int)reason.status, reason.text);
  return 0;
}

typedef struct abort_job {
  transport_t *t;
  int number;
} abort_job_t;

static void *abort_thread(void *context) {
  abort_job_t *job = context;
  transport_reason_t reason = reason_of(job->number, job->t->size);
  job->t->ops->abort(job->t, &reason);
  return NULL;
}

/* Two threads of each rank abort at the same time: all ranks get one reason, complete. Only where a
 * rank is held up for as long as others wait for it to decide (abort.c) may there be several. */
int transport_case_aborts_at_once(const transport_fixture_t *fixture, transport_t **end) {
  enum { THREADS = 2 };
  (void)fixture;
  transport_t *t = *end;
  pthread_t threads[THREADS];
  abort_job_t jobs[THREADS];
  transport_reason_t reason;
  int *reasons = harness_board(), number = 0;
  _Atomic bool *is_held_up = (_Atomic bool *)&reasons[HARNESS_RANKS_MAX];
  harness_barrier();
  uint64_t begin_ns = base_clock_now_ns();
  for (int i = 0; i < THREADS; i++) {
    jobs[i] = (abort_job_t){t, THREADS * t->rank + i};
    KIT_REQUIRE(pthread_create(&threads[i], NULL, abort_thread, &jobs[i]) == 0, "no thread");
  }
  int heard_early = wait_for_abort(t, &reason);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  KIT_TRY(heard_early);
  while (number < THREADS * t->size && !is_reason(&reason, number, t->size)) number++;
  KIT_REQUIRE(number < THREADS * t->size, "rank %d got a reason that no rank gave: rank %d, %d, %s",
              t->rank, reason.failed_rank, (int)reason.status, reason.text);
  reasons[t->rank] = number;
  if (base_clock_now_ns() - begin_ns > VERDICT_NS) atomic_store(is_held_up, true);
  harness_barrier();
  KIT_REQUIRE(number == reasons[0] || atomic_load(is_held_up),
              "rank %d got reason %d, rank 0 reason %d", t->rank, number, reasons[0]);
  return 0;
}

/* A sleeping thread is woken if another thread of its rank aborts. Alone, no answer of a peer can
 * wake it. */
int transport_case_abort_wakes(const transport_fixture_t *fixture, transport_t **end) {
  (void)fixture;
  transport_t *t = *end;
  transport_reason_t reason;
  pthread_t thread;
  abort_job_t job = {t, 0};
  t->ops->arm(t);
  uint64_t begin = base_clock_now_ns();
  if (t->rank == 0) {
    KIT_REQUIRE(pthread_create(&thread, NULL, abort_thread, &job) == 0, "no thread");
  }
  while (!t->ops->aborted(t, &reason) && base_clock_now_ns() - begin < 2 * kit_wake_ns) {
    t->ops->sleep(t, 2 * kit_wake_ns);
    t->ops->disarm(t);
    if (!t->ops->aborted(t, &reason)) t->ops->arm(t);
  }
  uint64_t slept = base_clock_now_ns() - begin;
  if (t->rank == 0) pthread_join(thread, NULL);
  KIT_REQUIRE(slept < kit_wake_ns, "rank %d slept through the abort", t->rank);
  kit_print("a sleeper is woken for an abort", slept);
  return 0;
}
