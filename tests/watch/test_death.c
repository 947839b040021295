/*
 * Ranks that die: at a random moment in a loop of all collectives, and at steps of every algorithm
 * (death_takes). Every survivor must get an error that names the dead rank, and must be able to
 * destroy the communicator. How soon is measured by timing_death.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "transport/memory.h"
#include "verify/random.h"
#include "watch/trap.h"

#define TIMEOUT_MS 60000
#define COUNT 700
#define LARGE_COUNT 3000 /* too large for messages, so that memory is mapped */

typedef struct death {
  int victim;
  unsigned coll_memory; /* ranks whose memory peers can map: bit r for rank r */
  uint64_t seed;
  const char *algo; /* for the tests of every step: this collective */
  coll_collective_t collective;
  coll_op_t op;
  bool in_weighting; /* the victim dies while it weighs its operands, not at a step */
  size_t count;
  death_record_t *record;
} death_t;

/* Checks of every survivor after a call, made at called_ns, that has just failed. */
static int check_told(party_rank_t *self, const death_t *death, coll_status_t status,
                      uint64_t called_ns) {
  death_note_failure(death->record, called_ns, base_clock_now_ns());
  char name[32];
  snprintf(name, sizeof name, "rank %d", death->victim);
  const char *sentence = coll_last_error(self->comm);
  PARTY_REQUIRE(status == COLL_ERROR_RANK_LOST, "%s: %s", coll_status_string(status), sentence);
  PARTY_REQUIRE(strstr(sentence + strlen("rank 0: "), name) != NULL, "it names not %s: %s", name,
                sentence);
  PARTY_REQUIRE(!party_has_named_memory(), "something may be left in /dev/shm");
  PARTY_REQUIRE(coll_comm_error(self->comm) == COLL_ERROR_RANK_LOST, "the communicator works");
  int failed = -2;
  PARTY_REQUIRE(coll_comm_failed_rank(self->comm, &failed) == COLL_OK, "%s", coll_last_error(NULL));
  PARTY_REQUIRE(failed == death->victim, "rank %d is given as the failed one", failed);
  PARTY_REQUIRE(coll_barrier(self->comm, NULL) == COLL_ERROR_RANK_LOST, "a call works");
  return 0;
}

/* ---- at any moment --------------------------------------------------------------------------*/

static void *end_soon(void *argument) {
  const death_t *death = argument;
  uint64_t random = death->seed;
  base_clock_sleep_ns(1000u * (uint64_t)random_below(&random, 40000));
  death_now(death->record);
}

/* Any collective by any algorithm. */
static coll_status_t call_something(party_rank_t *self, uint64_t *random, char *in, char *out) {
  static const size_t counts[] = {10, COUNT, LARGE_COUNT};
  coll_collective_t collective = (coll_collective_t)random_below(random, COLL_COLLECTIVE_COUNT);
  int algos = 0;
  while (coll_algo_name(collective, algos) != NULL) algos++;
  const char *algo = coll_algo_name(collective, random_below(random, algos));
  question_t q = {.collective = collective,
                  .size = self->size,
                  .root = random_below(random, self->size),
                  .count = counts[random_below(random, 3)],
                  .dtype = COLL_FLOAT32,
                  .op = COLL_SUM,
                  .seed = random_next(random)};
  coll_status_t status = coll_comm_algo_set(self->comm, collective, algo);
  if (status != COLL_OK) return status;
  return party_call(self->comm, self->rank, &q, in, out, NULL);
}

static int get_memory(const party_rank_t *self, const death_t *death, char **in, char **out) {
  size_t bytes = (size_t)self->size * (LARGE_COUNT + 8) * sizeof(double);
  if (death->coll_memory >> self->rank & 1) {
    PARTY_OK(coll_mem_alloc(COLL_DEVICE_HOST, bytes, (void **)in));
    PARTY_OK(coll_mem_alloc(COLL_DEVICE_HOST, bytes, (void **)out));
    return 0;
  }
  *in = calloc(1, bytes); /* freed by the end of the process */
  *out = calloc(1, bytes);
  return 0;
}

static int die_anywhere(party_rank_t *self) {
  death_t *death = self->context;
  char *in, *out;
  uint64_t random = death->seed;
  pthread_t killer;
  PARTY_TRY(get_memory(self, death, &in, &out));
  if (self->rank == death->victim) pthread_create(&killer, NULL, end_soon, death);
  coll_status_t status = COLL_OK;
  uint64_t called_ns = 0;
  while (status == COLL_OK) {
    called_ns = base_clock_now_ns();
    status = call_something(self, &random, in, out);
  }
  return check_told(self, death, status, called_ns);
}

static void expect_survivors(int size, const death_t *death, const harness_result_t *result) {
  for (int rank = 0; rank < size; rank++) {
    const harness_rank_t *end = &result->ranks[rank];
    if (rank == death->victim) continue;
    cr_assert(end->end == HARNESS_RETURNED && end->value == 0, "%s [seed %d, %s, %ld steps]",
              result->text, (int)death->seed, death->algo != NULL ? death->algo : "all",
              death->record->steps);
  }
}

/* Returns how late it was named. */
static uint64_t die_once(int size, int number) {
  static const unsigned memories[] = {0, ~0u, 0x55, 0xaa};
  death_t death = {.victim = number % size,
                   .coll_memory = memories[number % 4],
                   .seed = (uint64_t)(10 * number + size),
                   .record = death_record_create(-1)};
  harness_result_t result;
  party_processes(size, TIMEOUT_MS, die_anywhere, &death, &result);
  cr_assert_eq(result.ranks[death.victim].end, HARNESS_KILLED, "%s", result.text);
  expect_survivors(size, &death, &result);
  return death.record->late_ns;
}

/* Every rank dies, with memory of each kind. */
static void die_often(int size, int times) {
  if (harness_full()) times *= 3;
  for (int i = 0; i < times; i++) die_once(size, i);
}

Test(death, of_one_of_two) {
  die_often(2, 8);
}

Test(death, of_one_of_three) {
  die_often(3, 12);
}

Test(death, of_one_of_five) {
  die_often(5, 10);
}

Test(death, of_one_of_eight) {
  die_often(8, 8);
}

Test(timing_death, is_named_soon) {
  enum { DEATHS = 100 };
  uint64_t late_ns[DEATHS];
  for (int i = 0; i < DEATHS; i++) late_ns[i] = die_once(2 + i % 3, i);
  cr_assert(death_check_times("watch death", late_ns, DEATHS));
}

/* ---- known from another communicator --------------------------------------------------------*/

typedef struct leaving {
  death_t death;
  bool sends;
} leaving_t;

/* Rank 2 dies, which rank 0 learns on a communicator of its own; rank 0 leaves the one that rank 1
 * works on, with or without a message for it. */
static int leave_after_a_death(party_rank_t *self) {
  const leaving_t *leaving = self->context;
  coll_comm_t other;
  float one = 1;
  PARTY_OK(coll_comm_split(self->comm, 0, self->rank, NULL, &other));
  if (self->rank == 1 && leaving->sends) {
    PARTY_OK(coll_send(&one, 1, COLL_FLOAT32, 0, self->comm, NULL));
  }
  harness_barrier();
  if (self->rank == 2) death_now(leaving->death.record);
  coll_status_t status = self->rank == 0 ? coll_barrier(other, NULL) : COLL_OK;
  if (self->rank == 0) {
    coll_comm_t comm = self->comm;
    PARTY_REQUIRE(status == COLL_ERROR_RANK_LOST, "%s", coll_last_error(other));
    self->comm = NULL;
    PARTY_OK(coll_comm_destroy(comm));
  } else {
    uint64_t called_ns = base_clock_now_ns();
    status = coll_recv(&one, 1, COLL_FLOAT32, 0, self->comm, NULL);
    PARTY_TRY(check_told(self, &leaving->death, status, called_ns));
  }
  PARTY_OK(coll_comm_destroy(other));
  return 0;
}

Test(death, is_why_another_rank_leaves) {
  for (int sends = 0; sends < 2; sends++) {
    harness_result_t result;
    leaving_t leaving = {{.victim = 2, .record = death_record_create(-1)}, sends == 1};
    party_processes(3, TIMEOUT_MS, leave_after_a_death, &leaving, &result);
    expect_survivors(3, &leaving.death, &result);
  }
}

/* ---- at every step --------------------------------------------------------------------------*/

enum { STEP_RANKS = 3 };

/* ---- while operands are weighted */

/* Of the running rank. */
static device_ops_t weighting_ops;
static coll_status_t (*weigh)(void *dst, const void *src, size_t count, coll_dtype_t dtype,
                              const void *scalar);
static death_t *dies_weighing; /* or NULL */

static atomic_int *weighed; /* ranks that have; shared by all */

/* Where all ranks weigh before they wait for others, the victim dies when all survivors have. */
static bool awaits_others(const death_t *death) {
  return death->coll_memory == 0 || death->coll_memory == ~0u;
}

static coll_status_t weigh_half(void *dst, const void *src, size_t count, coll_dtype_t dtype,
                                const void *scalar) {
  if (dies_weighing == NULL) {
    coll_status_t status = weigh(dst, src, count, dtype, scalar);
    atomic_fetch_add(weighed, 1);
    return status;
  }
  (void)weigh(dst, src, count / 2, dtype, scalar);
  while (awaits_others(dies_weighing) && atomic_load(weighed) < STEP_RANKS - 1) sched_yield();
  death_now(dies_weighing->record);
}

static void watch_weighting(party_rank_t *self, death_t *death) {
  weighting_ops = *self->comm->world.device;
  weigh = weighting_ops.scale;
  weighting_ops.scale = weigh_half;
  self->comm->world.device = &weighting_ops;
  dies_weighing = self->rank == death->victim ? death : NULL;
}

/* Weighted operands that peers may read stay until the communicator is destroyed, and no longer. */
static int check_retained(party_rank_t *self, const death_t *death, bool call_failed) {
  void *retained = self->comm->retained_memory;
  if (death->in_weighting && awaits_others(death)) { /* it was weighted, in allreduce's output */
    bool expected = call_failed && death->collective != COLL_ALLREDUCE;
    PARTY_REQUIRE((retained != NULL) == expected, "memory is%s retained", expected ? " not" : "");
  }
  if (retained == NULL) return 0;
  (void)*(volatile char *)retained;
  coll_comm_t comm = self->comm;
  self->comm = NULL;
  PARTY_OK(coll_comm_destroy(comm));
  PARTY_REQUIRE(transport_memory_free(retained) == COLL_ERROR_INVALID, "memory leaks");
  return 0;
}

/* ---- runs */

static int die_at_step(party_rank_t *self) {
  death_t *death = self->context;
  char *in, *out;
  question_t q = {.collective = death->collective,
                  .size = self->size,
                  .root = 1,
                  .count = death->count,
                  .dtype = COLL_FLOAT32,
                  .op = death->op,
                  .seed = 1}; /* blocks of different sizes, where they may be */
  PARTY_TRY(get_memory(self, death, &in, &out));
  PARTY_OK(coll_comm_algo_set(self->comm, death->collective, death->algo));
  if (death->in_weighting) watch_weighting(self, death);
  if (self->rank == death->victim) {
    trap_set(self, death->record);
    party_call(self->comm, self->rank, &q, in, out, NULL);
    self->comm = NULL; /* it exits without destroying the communicator: destroying is not dying */
    death_stamp(death->record);
    return 0;
  }
  uint64_t called_ns = base_clock_now_ns();
  coll_status_t status = party_call(self->comm, self->rank, &q, in, out, NULL);
  bool call_failed = status != COLL_OK;
  while (status == COLL_OK) {
    called_ns = base_clock_now_ns();
    status = coll_barrier(self->comm, NULL);
  }
  PARTY_TRY(check_told(self, death, status, called_ns));
  return check_retained(self, death, call_failed);
}

/* Returns whether the victim has survived so many steps, which were all. */
static bool survives(death_t *death, long steps) {
  harness_result_t result;
  death->record = death_record_create(steps);
  party_processes(STEP_RANKS, TIMEOUT_MS, die_at_step, death, &result);
  expect_survivors(STEP_RANKS, death, &result);
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

static void die_by_every_algo(coll_collective_t collective) {
  const char *algo;
  for (int i = 0; (algo = coll_algo_name(collective, i)) != NULL; i++) {
    die_through((death_t){
        .victim = i % 3, .coll_memory = ~0u, .algo = algo, .collective = collective, .count = 50});
  }
}

#define DIE_THROUGH(name, collective)    \
  Test(death, at_every_step_of_##name) { \
    die_by_every_algo(collective);       \
  }

DIE_THROUGH(allreduce, COLL_ALLREDUCE)
DIE_THROUGH(reduce, COLL_REDUCE)
DIE_THROUGH(reduce_scatter, COLL_REDUCE_SCATTER)
DIE_THROUGH(allgather, COLL_ALLGATHER)
DIE_THROUGH(broadcast, COLL_BROADCAST)
DIE_THROUGH(gather, COLL_GATHER)
DIE_THROUGH(scatter, COLL_SCATTER)
DIE_THROUGH(alltoall, COLL_ALLTOALL)
DIE_THROUGH(alltoallv, COLL_ALLTOALLV)
DIE_THROUGH(barrier, COLL_BARRIER)
DIE_THROUGH(allgatherv, COLL_ALLGATHERV)
DIE_THROUGH(reduce_scatterv, COLL_REDUCE_SCATTERV)
DIE_THROUGH(gatherv, COLL_GATHERV)
DIE_THROUGH(scatterv, COLL_SCATTERV)

static void die_in_memory(unsigned mappable, const coll_collective_t collectives[], int count) {
  for (int i = 0; i < count; i++) {
    die_through((death_t){.victim = (int)(mappable + (unsigned)i) % 3,
                          .coll_memory = mappable,
                          .collective = collectives[i],
                          .count = LARGE_COUNT});
  }
}

/* Ranks that know that their memory cannot be mapped run ahead of those that wait for the address
 * exchange. */
Test(death, at_every_step_of_calls_in_mixed_memory) {
  static const coll_collective_t collectives[] = {COLL_ALLREDUCE, COLL_BROADCAST};
  for (unsigned mappable = 1; mappable < 7; mappable++) die_in_memory(mappable, collectives, 2);
}

/* Receivers read the buffers of senders, and senders store to those of a root. */
Test(death, at_every_step_of_calls_of_large_messages) {
  static const coll_collective_t collectives[] = {COLL_GATHERV, COLL_SCATTERV, COLL_ALLTOALLV,
                                                  COLL_GATHERV};
  for (unsigned mappable = 0; mappable < 8; mappable++) die_in_memory(mappable, collectives, 4);
}

/* ---- averages -------------------------------------------------------------------------------*/

/* Whether the victim dies: it weighs its operands, as no step of the plan averages all of them. */
static bool dies_weighing_for(death_t death) {
  death.in_weighting = true;
  atomic_store(weighed, 0);
  return !survives(&death, -1);
}

/* Before, in and after the weighting, by every algorithm that needs it. */
static void die_averaging(coll_collective_t collective) {
  const char *algo;
  int weighing = 0;
  weighed = mmap(NULL, sizeof *weighed, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  cr_assert_neq(weighed, MAP_FAILED);
  for (int i = 0; (algo = coll_algo_name(collective, i)) != NULL; i++) {
    death_t death = {.victim = i % 3,
                     .coll_memory = ~0u,
                     .algo = algo,
                     .collective = collective,
                     .op = COLL_AVG,
                     .count = i % 2 == 0 ? 50 : LARGE_COUNT};
    if (!dies_weighing_for(death)) continue;
    for (death.coll_memory = 0; death.coll_memory < 7; death.coll_memory += 3) {
      cr_assert(dies_weighing_for(death), "%s, memory %u", algo, death.coll_memory);
    }
    if (weighing++ % 3 > 0 && !harness_full()) continue;
    death.coll_memory = (unsigned)(weighing % 9 / 3) * 3; /* of no rank, of 0 and 1, of 1 and 2 */
    die_through(death);
  }
  cr_assert_gt(weighing, 0);
}

Test(death, in_an_average_by_allreduce) {
  die_averaging(COLL_ALLREDUCE);
}

Test(death, in_an_average_by_reduce) {
  die_averaging(COLL_REDUCE);
}

Test(death, in_an_average_by_reduce_scatter) {
  die_averaging(COLL_REDUCE_SCATTER);
}

Test(death, in_an_average_by_reduce_scatterv) {
  die_averaging(COLL_REDUCE_SCATTERV);
}
