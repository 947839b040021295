/*
 * Collectives whose ranks are processes and whose buffers are ordinary memory, which peers read by
 * the transport's get: all algorithms, memory of both kinds in one call, and systems that forbid
 * such reads.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "comm/comm.h"
#include "run/pulls.h"
#include "harness/party.h"
#include "harness/sample.h"
#include "verify/random.h"

#define LARGE_COUNT 300000
#define MIDDLE_COUNT 30000 /* more than one block of a reduction */
#define TIMEOUT_MS 200000

static void reset_knobs(void) {
  unsetenv("COLL_GET");
  unsetenv("COLL_DEBUG");
  setenv("COLL_TUNE", "builtin", 1);
}

/* Whether the algorithm that was forced has run, as it must and may. */
static int check_used(const party_rank_t *self, const question_t *q, const char *algo,
                      bool can_pull) {
  if (algo == NULL || q->count == 0 || q->collective == COLL_BARRIER) return 0;
  plan_reach_t reach = reach_of(q->collective, algo, self->size);
  const char *used = coll_comm_algo_used(self->comm, q->collective);
  if (reach == PLAN_REACH_READ && can_pull) {
    PARTY_REQUIRE(strcmp(used, algo) == 0, "%s ran, not %s", used, algo);
  } else if (reach >= PLAN_REACH_READ && !can_pull) {
    PARTY_REQUIRE(reach_of(q->collective, used, self->size) < PLAN_REACH_READ,
                  "%s ran, but peers' memory cannot be read", used);
  }
  return 0;
}

/* ---- every algorithm ------------------------------------------------------------------------*/

static question_t question_of(const party_rank_t *self, coll_collective_t collective, size_t count,
                              uint64_t seed) {
  static const coll_dtype_t dtypes[] = {COLL_FLOAT32, COLL_BFLOAT16, COLL_INT64, COLL_UINT8};
  return (question_t){.collective = collective,
                      .size = self->size,
                      .root = (int)(seed % (uint64_t)self->size),
                      .count = count,
                      .dtype = dtypes[seed % 4],
                      .op = COLL_SUM,
                      .seed = seed};
}

/* Large calls only where they differ from those of other tests, unless all cases are wanted: then
 * those of three ranks. */
static bool is_wanted(const party_rank_t *self, coll_collective_t collective, const char *algo,
                      size_t count, bool in_place) {
  if (count < LARGE_COUNT || (harness_full() && self->size == 3)) return true;
  if (algo == NULL) return !in_place && self->size == 3;
  return reach_of(collective, algo, self->size) == PLAN_REACH_READ &&
         in_place == (self->size % 2 == 0);
}

static int ask_by(party_rank_t *self, coll_collective_t collective, const char *algo,
                  uint64_t *seed) {
  static const size_t counts[] = {0, 1, 1000, LARGE_COUNT};
  PARTY_OK(coll_comm_algo_set(self->comm, collective, algo));
  for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
    for (int in_place = 0; in_place < 2; in_place++) {
      if (!is_wanted(self, collective, algo, counts[i], in_place)) continue;
      const question_t q = question_of(self, collective, counts[i], (*seed)++);
      const party_style_t style = {.in_place = in_place};
      PARTY_TRY(party_ask(self, &q, &style));
      PARTY_TRY(check_used(self, &q, algo, self->comm->world.gets));
    }
  }
  return 0;
}

static int ask_everything(party_rank_t *self) {
  const bool *gets = self->context;
  uint64_t seed = (uint64_t)self->size;
  PARTY_REQUIRE(self->comm->world.gets == *gets, "gets: %d", self->comm->world.gets);
  for (int c = 0; c < COLL_COLLECTIVE_COUNT; c++) {
    const char *algo;
    for (int i = 0; (algo = coll_algo_name((coll_collective_t)c, i)) != NULL; i++) {
      PARTY_TRY(ask_by(self, (coll_collective_t)c, algo, &seed));
    }
    PARTY_TRY(ask_by(self, (coll_collective_t)c, NULL, &seed));
  }
  return 0;
}

static void run_everything(int size, bool gets) {
  harness_result_t result;
  if (gets && !harness_can_read_processes()) cr_skip_test("the system forbids such reads");
  reset_knobs();
  if (!gets) setenv("COLL_GET", "off", 1);
  cr_assert(party_processes(size, TIMEOUT_MS, ask_everything, &gets, &result), "%s", result.text);
}

Test(get, is_exact_among_two) {
  run_everything(2, true);
}

Test(get, is_exact_among_three) {
  run_everything(3, true);
}

Test(get, is_exact_among_four) {
  run_everything(4, true);
}

Test(get, can_be_switched_off) {
  run_everything(3, false);
}

/* ---- memory of both kinds in one call -------------------------------------------------------*/

/* mapped: ranks that pass memory of coll_mem_alloc (bit r for rank r). */
static int ask_mixed(party_rank_t *self, coll_collective_t collective, const char *algo,
                     unsigned mapped, size_t count, uint64_t seed) {
  const question_t q = question_of(self, collective, count, seed);
  const party_style_t style = {.in_place = seed % 3 == 0, .coll_memory = mapped >> self->rank & 1};
  PARTY_TRY(party_ask(self, &q, &style));
  return check_used(self, &q, algo, true);
}

/* The same bound program serves all subsets. */
static int ask_all_subsets(party_rank_t *self) {
  uint64_t seed = 100;
  for (int c = 0; c < COLL_SENDRECV; c++) {
    coll_collective_t collective = (coll_collective_t)c;
    const char *algo;
    for (int i = 0; (algo = coll_algo_name(collective, i)) != NULL; i++) {
      if (reach_of(collective, algo, self->size) != PLAN_REACH_READ) continue;
      PARTY_OK(coll_comm_algo_set(self->comm, collective, algo));
      for (unsigned mapped = 0; mapped < 1u << self->size; mapped++) {
        PARTY_TRY(ask_mixed(self, collective, algo, mapped, 1000, seed++));
        if (mapped % 3 != (unsigned)i % 3 && !harness_full()) continue;
        PARTY_TRY(ask_mixed(self, collective, algo, mapped, MIDDLE_COUNT, seed++));
      }
    }
  }
  return 0;
}

/* The tuner's choice changes with what the ranks expect of each other's memory. */
static int ask_changing_subsets(party_rank_t *self) {
  static const coll_collective_t collectives[] = {COLL_ALLREDUCE, COLL_ALLGATHER, COLL_BROADCAST};
  uint64_t random = 5;
  for (int i = 0; i < 120; i++) {
    unsigned mapped = i % 40 < 20 ? (unsigned)random_below(&random, 8) : (unsigned)(i / 40 % 2) * 7;
    PARTY_TRY(ask_mixed(self, collectives[i % 3], NULL, mapped, MIDDLE_COUNT, (uint64_t)(i % 5)));
  }
  return 0;
}

Test(get, serves_every_mixture_of_memory) {
  harness_result_t result;
  if (!harness_can_read_processes()) cr_skip_test("the system forbids such reads");
  reset_knobs();
  cr_assert(party_processes(3, TIMEOUT_MS, ask_all_subsets, NULL, &result), "%s", result.text);
}

Test(get, serves_mixtures_that_change) {
  harness_result_t result;
  if (!harness_can_read_processes()) cr_skip_test("the system forbids such reads");
  reset_knobs();
  cr_assert(party_processes(3, TIMEOUT_MS, ask_changing_subsets, NULL, &result), "%s", result.text);
}

/* ---- systems that forbid it -----------------------------------------------------------------*/

typedef struct sandbox {
  unsigned forbidden; /* ranks that may not read other processes: bit r for rank r */
  int output;         /* a file, standard error of all ranks */
} sandbox_t;

/* process_vm_readv fails with EPERM in this process from now on. */
static int forbid_reads(void) {
  struct sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  struct sock_fprog filter = {.len = sizeof program / sizeof program[0], .filter = program};
  PARTY_REQUIRE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
                    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0,
                "no seccomp filter: %s", strerror(errno));
  PARTY_REQUIRE(process_vm_readv(getppid(), NULL, 0, NULL, 0, 0) < 0 && errno == EPERM,
                "the filter does not work: %s", strerror(errno));
  return 0;
}

/* Every algorithm in ordinary memory, and those that pull in memory that is mapped. */
static int ask_in_sandbox(party_rank_t *self) {
  uint64_t seed = 300;
  for (int c = 0; c < COLL_SENDRECV; c++) {
    coll_collective_t collective = (coll_collective_t)c;
    const char *algo;
    for (int i = 0; (algo = coll_algo_name(collective, i)) != NULL; i++) {
      if (reach_of(collective, algo, self->size) < PLAN_REACH_READ && !harness_full()) continue;
      PARTY_OK(coll_comm_algo_set(self->comm, collective, algo));
      for (int mapped = 0; mapped < 2; mapped++) {
        const question_t q = question_of(self, collective, MIDDLE_COUNT, seed++);
        const party_style_t style = {.in_place = seed % 3 == 0, .coll_memory = mapped};
        PARTY_TRY(party_ask(self, &q, &style));
        if (mapped && reach_of(collective, algo, self->size) == PLAN_REACH_USER) continue;
        PARTY_TRY(check_used(self, &q, algo, mapped));
      }
    }
  }
  return 0;
}

static int sandbox_body(int rank, int size, void *context) {
  const sandbox_t *sandbox = context;
  coll_unique_id_t *id = harness_board();
  party_rank_t self = {.rank = rank, .size = size};
  PARTY_REQUIRE(dup2(sandbox->output, STDERR_FILENO) >= 0, "dup2: %s", strerror(errno));
  if (sandbox->forbidden >> rank & 1) PARTY_TRY(forbid_reads());
  if (rank == 0) PARTY_OK(coll_unique_id_create(NULL, id));
  harness_barrier();
  PARTY_OK(coll_comm_create(id, rank, size, NULL, &self.comm));
  bool gets = !(sandbox->forbidden >> rank & 1) && getenv("COLL_GET") == NULL;
  PARTY_REQUIRE(self.comm->world.gets == gets, "gets: %d", self.comm->world.gets);
  PARTY_TRY(ask_in_sandbox(&self));
  PARTY_OK(coll_comm_destroy(self.comm));
  return 0;
}

/* A file for what all ranks print. They append, because writes at one shared offset can overwrite
 * each other: Linux locks the offset of files that were opened by a path only. */
static int open_output(void) {
  int fd = memfd_create("stderr", 0);
  cr_assert_geq(fd, 0);
  cr_assert_eq(fcntl(fd, F_SETFL, O_APPEND), 0);
  return fd;
}

/* What 3 ranks print on standard error. */
static void run_sandbox(unsigned forbidden, char *text, size_t capacity) {
  harness_result_t result;
  sandbox_t sandbox = {.forbidden = forbidden, .output = open_output()};
  bool good = harness_run(3, TIMEOUT_MS, sandbox_body, &sandbox, &result);
  ssize_t bytes = pread(sandbox.output, text, capacity - 1, 0);
  close(sandbox.output);
  cr_assert_geq(bytes, 0);
  text[bytes] = '\0';
  cr_assert(good, "%s; standard error: %s", result.text, text);
}

/* Each rank has printed one line: its own of `forms`, with the rank for %d. Rank 0 has printed
 * another, of the machine. */
static void expect_lines(const char *text, const char *const forms[3]) {
  int lines = 0;
  for (const char *at = text; (at = strchr(at, '\n')) != NULL; at++) lines++;
  cr_assert_eq(lines, 4, "%s", text);
  cr_assert_not_null(strstr(text, "libcoll: this machine ("), "%s", text);
  for (int rank = 0; rank < 3; rank++) {
    char start[100];
    snprintf(start, sizeof start, "libcoll: rank %d of 3 %s", rank, forms[rank]);
    cr_assert_not_null(strstr(text, start), "no \"%s\" in: %s", start, text);
  }
}

#define READS "reads its peers' buffers directly\n"
#define COPIES "copies buffers through shared memory: "

Test(get, is_replaced_where_all_ranks_are_forbidden_to) {
  char text[2000], reasons[3][100];
  reset_knobs();
  setenv("COLL_DEBUG", "1", 1);
  run_sandbox(7, text, sizeof text);
  for (int rank = 0; rank < 3; rank++) {
    snprintf(reasons[rank], sizeof reasons[rank], COPIES "rank %d cannot read the memory of rank",
             rank);
    cr_assert_not_null(strstr(text, ": Operation not permitted\n"), "%s", text);
  }
  expect_lines(text, (const char *[]){reasons[0], reasons[1], reasons[2]});
}

Test(get, is_replaced_where_one_rank_is_forbidden_to) {
  if (!harness_can_read_processes()) cr_skip_test("the system forbids such reads");
  for (int rank = 0; rank < 3; rank++) {
    char text[2000], reason[100];
    const char *forms[] = {READS, READS, READS};
    if (rank != 1 && !harness_full()) continue;
    reset_knobs();
    setenv("COLL_DEBUG", "1", 1);
    run_sandbox(1u << rank, text, sizeof text);
    snprintf(reason, sizeof reason, COPIES "rank %d cannot read the memory of rank %d (pid ", rank,
             rank == 0 ? 1 : 0);
    forms[rank] = reason;
    expect_lines(text, forms);
    cr_assert_not_null(strstr(text, "): Operation not permitted\n"), "%s", text);
  }
}

Test(get, is_reported_as_switched_off) {
  char text[2000];
  reset_knobs();
  setenv("COLL_DEBUG", "1", 1);
  setenv("COLL_GET", "off", 1);
  run_sandbox(0, text, sizeof text);
  expect_lines(text, (const char *[]){COPIES "COLL_GET is off\n", COPIES "COLL_GET is off\n",
                                      COPIES "COLL_GET is off\n"});
}

Test(get, is_silent_without_debug) {
  char text[2000];
  reset_knobs();
  run_sandbox(2, text, sizeof text);
  cr_assert_str_eq(text, "");
}

/* A system that forbids gets would time system calls that fail at once, and keep these times for
 * programs that may get. */
static int measure_body(int rank, int size, void *context) {
  (void)size, (void)context;
  coll_unique_id_t *id = harness_board();
  coll_comm_t comm;
  PARTY_TRY(forbid_reads());
  if (rank == 0) PARTY_OK(coll_unique_id_create(NULL, id));
  harness_barrier();
  PARTY_OK(coll_comm_create(id, rank, size, NULL, &comm));
  const tune_machine_t *builtin = &tune_machine_builtin;
  PARTY_REQUIRE(comm->plans.costs.fixed_ps[TUNE_GET_CALL] == builtin->fixed_ps[TUNE_GET_CALL],
                "a get costs %u ps", comm->plans.costs.fixed_ps[TUNE_GET_CALL]);
  for (int i = 0; i < TUNE_SIZES; i++) {
    PARTY_REQUIRE(comm->plans.costs.move_ps[TUNE_GET][i] == builtin->move_ps[TUNE_GET][i],
                  "a KiB of a get costs %u ps", comm->plans.costs.move_ps[TUNE_GET][i]);
  }
  PARTY_OK(coll_comm_destroy(comm));
  return 0;
}

Test(get, is_not_priced_where_it_is_forbidden) {
  harness_result_t result;
  reset_knobs();
  setenv("COLL_TUNE", "auto", 1);
  setenv("XDG_CACHE_HOME", "/proc/nowhere", 1); /* so that costs are measured */
  cr_assert(harness_run(2, TIMEOUT_MS, measure_body, NULL, &result), "%s", result.text);
}
