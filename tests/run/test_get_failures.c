/*
 * What may go wrong while ranks read each other's ordinary memory: memory that cannot be read, and
 * ranks that die or abort. A call that returns COLL_OK must have the right bytes.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "run/pulls.h"
#include "verify/random.h"
#include "watch/trap.h"

#define TIMEOUT_MS 60000

static bool can_run(void) {
  unsetenv("COLL_GET");
  setenv("COLL_TUNE", "builtin", 1);
  return harness_can_read_processes();
}

typedef struct outcome {
  coll_status_t status;
  uint64_t called_ns, returned_ns;
} outcome_t;

/* If the call did not fail, a later one does. */
static void fail_for_certain(party_rank_t *self, outcome_t *outcome) {
  while (outcome->status == COLL_OK) {
    outcome->called_ns = base_clock_now_ns();
    outcome->status = coll_barrier(self->comm, NULL);
    outcome->returned_ns = base_clock_now_ns();
  }
}

/* ---- memory that cannot be read -------------------------------------------------------------*/

#define BLOCK_BYTES ((size_t)8 << 20) /* a message that is read by builtin costs */

typedef enum damage { UNMAPPED, FORBIDDEN, HALF_UNMAPPED, DAMAGES } damage_t;

typedef struct damaged {
  coll_collective_t collective; /* COLL_SENDRECV: every rank sends to the next one */
  const char *algo; /* one by which rank 1 does not read the block that only peers can ask for */
  damage_t damage;
} damaged_t;

enum { SIZE = 3, CULPRIT = 1 };

/* The root of a call that reads rank 1's block. */
static int root_of(coll_collective_t collective) {
  return collective == COLL_GATHER ? 0 : CULPRIT;
}

/* Rank 1 calls in place where it can, so that it does not read its own block. */
static char *input_of(const party_rank_t *self, coll_collective_t collective, char *in, char *out) {
  if (collective == COLL_ALLGATHER) return out + (size_t)self->rank * BLOCK_BYTES;
  return collective == COLL_BROADCAST ? out : in;
}

static void damage_block(char *block, damage_t damage) {
  if (damage == UNMAPPED) munmap(block, BLOCK_BYTES);
  if (damage == FORBIDDEN) mprotect(block, BLOCK_BYTES, PROT_NONE);
  if (damage == HALF_UNMAPPED) munmap(block + BLOCK_BYTES / 2, BLOCK_BYTES / 2);
}

static int pass_damaged_memory(party_rank_t *self) {
  const damaged_t *damaged = self->context;
  _Atomic int *unreadable = harness_board(); /* ranks whose call returned COLL_ERROR_SYSTEM */
  char *memory = mmap(NULL, (2 * SIZE + 2) * BLOCK_BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  PARTY_REQUIRE(memory != MAP_FAILED, "no memory");
  char *out = memory + SIZE * BLOCK_BYTES;
  char *in = input_of(self, damaged->collective, memory, out);
  const question_t q = {.collective = damaged->collective,
                        .size = SIZE,
                        .root = root_of(damaged->collective),
                        .count = BLOCK_BYTES,
                        .dtype = COLL_UINT8};
  PARTY_OK(coll_comm_algo_set(self->comm, damaged->collective, damaged->algo));
  PARTY_OK(party_call(self->comm, self->rank, &q, in, out, NULL));
  harness_barrier(); /* a failure of the next call ends this one on ranks that are still in it */
  if (self->rank == CULPRIT) damage_block(in, damaged->damage);
  outcome_t outcome = {.status = party_call(self->comm, self->rank, &q, in, out, NULL)};
  fail_for_certain(self, &outcome);
  coll_status_t status = outcome.status;
  const char *sentence = coll_last_error(self->comm);
  if (status == COLL_ERROR_SYSTEM) atomic_fetch_add(unreadable, 1);
  PARTY_REQUIRE(status == COLL_ERROR_SYSTEM || status == COLL_ERROR_RANK_LOST, "%s: %s",
                coll_status_string(status), sentence);
  PARTY_REQUIRE(strstr(sentence, "the buffer of rank 1: cannot read") != NULL,
                "it does not name the buffer: %s", sentence);
  harness_barrier();
  PARTY_REQUIRE(atomic_load(unreadable) > 0, "no rank could not read");
  return 0;
}

Test(get_failures, of_memory_that_cannot_be_read) {
  static const damaged_t cases[] = {{COLL_GATHER, "mapped_pull", 0},
                                    {COLL_BROADCAST, "mapped", 0},
                                    {COLL_ALLGATHER, "mapped", 0},
                                    {COLL_SENDRECV, NULL, 0}};
  if (!can_run()) cr_skip_test("the system forbids such reads");
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    for (int damage = 0; damage < DAMAGES; damage++) {
      harness_result_t result;
      damaged_t damaged = cases[i];
      damaged.damage = (damage_t)damage;
      cr_assert(party_processes(SIZE, TIMEOUT_MS, pass_damaged_memory, &damaged, &result),
                "case %d, damage %d: %s", (int)i, damage, result.text);
    }
  }
}

/* ---- a death at every step ------------------------------------------------------------------*/

typedef struct death {
  int victim;
  coll_collective_t collective;
  const char *algo;
  death_record_t *record;
} death_t;

/* Checks of every survivor after a failed call. */
static int check_told(party_rank_t *self, int victim, death_record_t *record,
                      const outcome_t *outcome) {
  death_note_failure(record, outcome->called_ns, outcome->returned_ns);
  char name[32];
  snprintf(name, sizeof name, "rank %d", victim);
  const char *sentence = coll_last_error(self->comm);
  PARTY_REQUIRE(outcome->status == COLL_ERROR_RANK_LOST, "%s: %s",
                coll_status_string(outcome->status), sentence);
  PARTY_REQUIRE(self->rank == victim || strstr(sentence + strlen("rank 0: "), name) != NULL,
                "it names not %s: %s", name, sentence);
  PARTY_REQUIRE(coll_barrier(self->comm, NULL) == COLL_ERROR_RANK_LOST, "a call works");
  return 0;
}

static void *allocate(size_t bytes) {
  void *memory = malloc(bytes + 1);
  if (memory == NULL) abort();
  return memset(memory, 0xee, bytes);
}

static int die_at_step(party_rank_t *self) {
  const death_t *death = self->context;
  char wrong[QUESTION_TEXT_BYTES];
  const question_t q = {.collective = death->collective,
                        .size = self->size,
                        .root = 1,
                        /* large messages; several blocks of a reduction */
                        .count = death->algo == NULL ? 3000000 : 40000,
                        .dtype = COLL_FLOAT32,
                        .op = COLL_SUM,
                        .seed = 3};
  char *in = allocate(question_input_elements(&q, self->rank) * sizeof(float));
  char *out = allocate(question_output_elements(&q, self->rank) * sizeof(float));
  question_fill(&q, self->rank, in);
  PARTY_REQUIRE(self->comm->world.gets, "it cannot get");
  PARTY_OK(coll_comm_algo_set(self->comm, death->collective, death->algo));
  self->comm->world.large_get_min = 1; /* even where copies through slots cost less */
  harness_barrier();                   /* all ranks have found that they can get from the victim */
  if (self->rank == death->victim) {
    trap_set(self, death->record);
    party_call(self->comm, self->rank, &q, in, out, NULL);
    self->comm = NULL; /* it exits without destroying the communicator: destroying is not dying */
    death_stamp(death->record);
    return 0;
  }
  outcome_t outcome = {.called_ns = base_clock_now_ns()};
  outcome.status = party_call(self->comm, self->rank, &q, in, out, NULL);
  outcome.returned_ns = base_clock_now_ns();
  if (outcome.status == COLL_OK) {
    PARTY_REQUIRE(question_answered(&q, self->rank, out, wrong), "%s", wrong);
    const char *used = coll_comm_algo_used(self->comm, q.collective);
    PARTY_REQUIRE(death->algo == NULL || strcmp(used, death->algo) == 0, "%s ran", used);
  } else {
    memset(in, 0xee, question_input_elements(&q, self->rank) * sizeof(float));
  }
  fail_for_certain(self, &outcome);
  return check_told(self, death->victim, death->record, &outcome);
}

static void expect_survivors(int victim, const char *what, long step,
                             const harness_result_t *result) {
  for (int rank = 0; rank < result->size; rank++) {
    const harness_rank_t *end = &result->ranks[rank];
    if (rank == victim) continue;
    cr_assert(end->end == HARNESS_RETURNED && end->value == 0, "%s [%s, %ld]", result->text, what,
              step);
  }
}

/* Returns whether the victim has survived so many steps, which were all. */
static bool survives(death_t *death, long steps) {
  harness_result_t result;
  death->record = death_record_create(steps);
  party_processes(SIZE, TIMEOUT_MS, die_at_step, death, &result);
  expect_survivors(death->victim, death->algo == NULL ? "messages" : death->algo, steps, &result);
  return result.ranks[death->victim].end == HARNESS_RETURNED;
}

/* The victim survives the call, dies in place of its first step, and in place of a sample of them.
 */
static void die_through(death_t death) {
  static unsigned number;
  cr_assert(survives(&death, -1));
  const death_record_t *all = death.record;
  cr_assert(all->step_count > 0 && all->step_count <= DEATH_STEPS_MAX, "%ld steps",
            all->step_count);
  cr_assert_not(survives(&death, 0));
  for (long step = 1; step < all->step_count; step++) {
    if (death_takes(all, step, &number)) survives(&death, step);
  }
}

/* Without a root all ranks do the same, and one victim is enough. */
static void die_by_algos_that_pull(coll_collective_t collective) {
  const char *algo;
  int pulling = 0;
  bool one_victim = !base_collective_is_rooted(collective) && !harness_full();
  if (!can_run()) cr_skip_test("the system forbids such reads");
  for (int i = 0; (algo = coll_algo_name(collective, i)) != NULL; i++) {
    if (reach_of(collective, algo, SIZE) != PLAN_REACH_READ) continue;
    pulling++;
    for (int victim = 0; victim < SIZE; victim++) {
      if (one_victim && victim != i % SIZE) continue;
      die_through((death_t){.victim = victim, .collective = collective, .algo = algo});
    }
  }
  cr_assert_gt(pulling, 0);
}

#define DIE_THROUGH(name, collective)           \
  Test(get_failures, at_every_step_of_##name) { \
    die_by_algos_that_pull(collective);         \
  }

DIE_THROUGH(allreduce, COLL_ALLREDUCE)
DIE_THROUGH(reduce, COLL_REDUCE)
DIE_THROUGH(reduce_scatter, COLL_REDUCE_SCATTER)
DIE_THROUGH(allgather, COLL_ALLGATHER)
DIE_THROUGH(broadcast, COLL_BROADCAST)
DIE_THROUGH(gather, COLL_GATHER)
DIE_THROUGH(scatter, COLL_SCATTER)
DIE_THROUGH(alltoall, COLL_ALLTOALL)
DIE_THROUGH(allgatherv, COLL_ALLGATHERV)
DIE_THROUGH(reduce_scatterv, COLL_REDUCE_SCATTERV)

static void die_by_large_messages(coll_collective_t collective) {
  if (!can_run()) cr_skip_test("the system forbids such reads");
  for (int victim = 0; victim < SIZE; victim++) {
    die_through((death_t){.victim = victim, .collective = collective});
    if (!harness_full()) break;
  }
}

Test(get_failures, at_every_step_of_sendrecv) {
  die_by_large_messages(COLL_SENDRECV);
}

Test(get_failures, at_every_step_of_alltoallv) {
  die_by_large_messages(COLL_ALLTOALLV);
}

Test(get_failures, at_every_step_of_gatherv) {
  die_by_large_messages(COLL_GATHERV);
}

Test(get_failures, at_every_step_of_scatterv) {
  die_by_large_messages(COLL_SCATTERV);
}

/* ---- the end of a rank during large calls ---------------------------------------------------*/

enum { LARGE_RANKS = 4 };
static size_t large_words; /* of a block of 8 MiB: more than a second-level cache holds */

typedef struct ending {
  int victim;
  bool aborts; /* it calls coll_comm_abort, instead of dying */
  const char *algo;
  bool sends; /* large messages, instead of an allgather */
  uint64_t seed;
  coll_comm_t comm; /* of the rank that ends */
  death_record_t *record;
} ending_t;

static void *end_soon(void *argument) {
  const ending_t *ending = argument;
  uint64_t random = ending->seed;
  uint64_t delay_us = (uint64_t)random_below(&random, 60000 * HARNESS_PATIENCE);
  base_clock_sleep_ns(1000u * delay_us);
  if (!ending->aborts) death_now(ending->record);
  death_stamp(ending->record);
  coll_comm_abort(ending->comm);
  return NULL;
}

static uint64_t word_of(int rank, uint64_t call) {
  return random_mix((call + 1) * LARGE_RANKS + (uint64_t)rank);
}

static void fill_block(uint64_t *block, uint64_t first) {
  for (size_t i = 0; i < large_words; i++) block[i] = first + i;
}

static bool is_block(const uint64_t *block, uint64_t first) {
  uint64_t difference = 0;
  for (size_t i = 0; i < large_words; i++) difference |= block[i] ^ (first + i);
  return difference == 0;
}

/* Sends the block to the next rank, and receives the previous rank's at its place of `out`. */
static coll_status_t shift(party_rank_t *self, const uint64_t *own, uint64_t *out) {
  int next = (self->rank + 1) % self->size, previous = (self->rank + self->size - 1) % self->size;
  coll_status_t status = coll_group_start();
  if (status != COLL_OK) return status;
  coll_send(own, large_words, COLL_UINT64, next, self->comm, NULL);
  coll_recv(out + (size_t)previous * large_words, large_words, COLL_UINT64, previous, self->comm,
            NULL);
  return coll_group_end();
}

/* Allgathers (or shifts) blocks that change from call to call, until one fails. Then the block is
 * overwritten at once: a peer that still reads it must not take it for the call's. */
static int gather_until_failure(party_rank_t *self, uint64_t *in, uint64_t *out, bool in_place,
                                outcome_t *outcome) {
  bool shifts = ((const ending_t *)self->context)->sends;
  int previous = (self->rank + self->size - 1) % self->size;
  uint64_t *own = in_place ? out + (size_t)self->rank * large_words : in;
  for (uint64_t call = 0; outcome->status == COLL_OK; call++) {
    fill_block(own, word_of(self->rank, call));
    outcome->called_ns = base_clock_now_ns();
    outcome->status = shifts ? shift(self, own, out)
                             : coll_allgather(own, out, large_words, COLL_UINT64, self->comm, NULL);
    outcome->returned_ns = base_clock_now_ns();
    if (outcome->status != COLL_OK) memset(own, 0xee, large_words * sizeof *own);
    for (int rank = 0; rank < self->size && outcome->status == COLL_OK; rank++) {
      if (shifts && rank != previous) continue;
      PARTY_REQUIRE(is_block(out + (size_t)rank * large_words, word_of(rank, call)),
                    "call %d returned COLL_OK with a wrong block of rank %d", (int)call, rank);
    }
  }
  return 0;
}

static int end_within_call(party_rank_t *self) {
  ending_t *ending = self->context;
  pthread_t ender;
  outcome_t outcome = {.status = COLL_OK};
  large_words = ((size_t)8 << 20) / 8 / (size_t)HARNESS_PATIENCE;
  uint64_t *in = allocate(large_words * sizeof *in);
  uint64_t *out = allocate(large_words * LARGE_RANKS * sizeof *out);
  bool ends = self->rank == ending->victim;
  PARTY_REQUIRE(self->comm->world.gets, "it cannot get");
  PARTY_OK(coll_comm_algo_set(self->comm, COLL_ALLGATHER, ending->algo));
  harness_barrier();
  ending->comm = self->comm;
  if (ends) pthread_create(&ender, NULL, end_soon, ending);
  PARTY_TRY(gather_until_failure(self, in, out, ending->seed % 2 == 0, &outcome));
  PARTY_TRY(check_told(self, ending->victim, ending->record, &outcome));
  if (ends) pthread_join(ender, NULL);
  free(in);
  free(out);
  return 0;
}

/* Returns how late that was named. */
static uint64_t end_once(bool aborts, int number) {
  harness_result_t result;
  ending_t ending = {.victim = number % LARGE_RANKS,
                     .aborts = aborts,
                     .algo = number % 3 == 0 ? NULL : "mapped",
                     .sends = number % 4 == 3,
                     .seed = (uint64_t)(number + 1),
                     .record = death_record_create(-1)};
  party_processes(LARGE_RANKS, TIMEOUT_MS, end_within_call, &ending, &result);
  expect_survivors(aborts ? -1 : ending.victim, "seed", (long)ending.seed, &result);
  if (!aborts) cr_assert_eq(result.ranks[ending.victim].end, HARNESS_KILLED, "%s", result.text);
  return ending.record->late_ns;
}

static void end_often(bool aborts, int times) {
  if (!can_run()) cr_skip_test("the system forbids such reads");
  if (harness_full()) times *= 3;
  for (int i = 0; i < times; i++) end_once(aborts, i);
}

Test(get_failures, of_a_rank_killed_within_large_calls) {
  end_often(false, 8);
}

Test(get_failures, of_a_rank_that_aborts_within_large_calls) {
  end_often(true, 8);
}

Test(timing_get, a_death_is_named_soon) {
  enum { DEATHS = 30 };
  uint64_t late_ns[DEATHS];
  if (!can_run()) cr_skip_test("the system forbids such reads");
  for (int i = 0; i < DEATHS; i++) late_ns[i] = end_once(false, i);
  cr_assert(death_check_times("run get", late_ns, DEATHS));
}
