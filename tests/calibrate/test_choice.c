/*
 * The choice of algorithms: all ranks have the same costs, measured once and stored on disk, and so
 * make the same choice, which can run.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/names.h"
#include "calibrate/costs.h"
#include "comm/comm.h"
#include "harness/party.h"
#include "harness/sample.h"

/* ---- alike ----------------------------------------------------------------------------------*/

enum { SIZES = 14, REACHES = 2, ALGOS_MAX = 64 };

/* What a rank computes: the costs, and the algorithm for every collective, size and kind of memory.
 */
typedef struct answers {
  tune_machine_t costs;
  int32_t cores;
  char chosen[COLL_COLLECTIVE_COUNT][SIZES][REACHES][PLAN_NAME_BYTES];
} answers_t;

static int estimate_one(coll_comm_t comm, coll_collective_t collective, size_t count, int mapped,
                        char name[PLAN_NAME_BYTES]) {
  int chosen = 0;
  for (int i = 0; coll_algo_name(collective, i) != NULL; i++) {
    coll_estimate_t estimate = COLL_ESTIMATE_INIT;
    PARTY_OK(coll_comm_estimate(comm, collective, count, COLL_FLOAT32, mapped, i, &estimate));
    PARTY_REQUIRE(strcmp(estimate.algo, coll_algo_name(collective, i)) == 0, "%s", estimate.algo);
    double sum_us = 0;
    for (int term = 0; term < COLL_ESTIMATE_TERMS; term++) sum_us += estimate.term_us[term];
    PARTY_REQUIRE(sum_us >= 0.999 * estimate.time_us && sum_us <= 1.001 * estimate.time_us,
                  "%s: the terms make %g, not %g", estimate.algo, sum_us, estimate.time_us);
    if (!estimate.chosen) continue;
    PARTY_REQUIRE(estimate.ruled_out == NULL, "%s is chosen and ruled out", estimate.algo);
    snprintf(name, PLAN_NAME_BYTES, "%s", estimate.algo);
    chosen++;
  }
  PARTY_REQUIRE(chosen == 1, "%d algorithms are chosen", chosen);
  return 0;
}

static int estimate_all(coll_comm_t comm, answers_t *answers) {
  answers->costs = comm->plans.costs;
  answers->cores = comm->cores;
  for (int c = 0; c < COLL_COLLECTIVE_COUNT; c++) {
    for (int size = 0; size < SIZES; size++) {
      for (int mapped = 0; mapped < REACHES; mapped++) {
        PARTY_TRY(estimate_one(comm, (coll_collective_t)c, (size_t)1 << 2 * size, mapped,
                               answers->chosen[c][size][mapped]));
      }
    }
  }
  return 0;
}

/* Compares the answers of all ranks for `comm`, gathered over `over`, a communicator of the same
 * size. */
static int compare_answers(coll_comm_t comm, coll_comm_t over, int size) {
  answers_t *own = calloc(1, sizeof *own), *all = calloc((size_t)size, sizeof *all);
  PARTY_REQUIRE(own != NULL && all != NULL, "no memory");
  PARTY_TRY(estimate_all(comm, own));
  PARTY_OK(coll_allgather(own, all, sizeof *own, COLL_UINT8, over, NULL));
  for (int rank = 0; rank < size; rank++) {
    PARTY_REQUIRE(memcmp(own, &all[rank], sizeof *own) == 0, "rank %d chooses differently", rank);
  }
  free(all);
  free(own);
  return 0;
}

static int compare_choices(party_rank_t *self) {
  coll_comm_t child;
  PARTY_TRY(compare_answers(self->comm, self->comm, self->size));
  PARTY_OK(coll_comm_split(self->comm, 0, -self->rank, NULL, &child));
  PARTY_REQUIRE(
      memcmp(&child->plans.costs, &self->comm->plans.costs, sizeof child->plans.costs) == 0,
      "the child communicator has other costs");
  PARTY_TRY(compare_answers(child, self->comm, self->size));
  PARTY_OK(coll_comm_destroy(child));
  return 0;
}

Test(choice, is_the_same_on_every_rank) {
  for (int size = 2; size <= 5; size++) PARTY_RUN(size, 20000, compare_choices, NULL);
}

/* The chosen algorithm is the one that runs, and its result is returned. */
static int run_chosen(party_rank_t *self) {
  static const coll_collective_t collectives[] = {COLL_ALLREDUCE, COLL_ALLGATHER, COLL_BROADCAST};
  void *in = NULL, *out = NULL;
  size_t most = (size_t)1 << 18;
  PARTY_OK(coll_mem_alloc(COLL_DEVICE_HOST, most * 4, &in));
  PARTY_OK(coll_mem_alloc(COLL_DEVICE_HOST, most * 4 * (size_t)self->size, &out));
  for (size_t i = 0; i < sizeof collectives / sizeof collectives[0]; i++) {
    for (size_t count = 1; count <= most; count *= 8) {
      char name[PLAN_NAME_BYTES] = "";
      question_t q = {.collective = collectives[i],
                      .size = self->size,
                      .count = count,
                      .dtype = COLL_FLOAT32,
                      .op = COLL_SUM};
      PARTY_TRY(estimate_one(self->comm, q.collective, count, 1, name));
      PARTY_OK(party_call(self->comm, self->rank, &q, in, out, NULL));
      const char *used = coll_comm_algo_used(self->comm, q.collective);
      PARTY_REQUIRE(strcmp(used, name) == 0, "%s of %zu: %s ran, not %s",
                    base_collective_name(q.collective), count, used, name);
    }
  }
  PARTY_OK(coll_mem_free(in));
  PARTY_OK(coll_mem_free(out));
  return 0;
}

Test(choice, is_what_runs) {
  for (int size = 1; size <= 4; size++) PARTY_RUN(size, 20000, run_chosen, NULL);
}

Test(choice, estimate_refuses_invalid_arguments) {
  coll_comm_t comm;
  coll_estimate_t estimate = COLL_ESTIMATE_INIT;
  cr_assert_eq(coll_comm_create_local(1, NULL, &comm), COLL_OK);
  cr_assert_eq(coll_comm_estimate(comm, COLL_ALLREDUCE, 1, COLL_FLOAT32, 0, 1000, &estimate),
               COLL_ERROR_INVALID);
  cr_assert_eq(coll_comm_estimate(comm, COLL_ALLREDUCE, 1, COLL_FLOAT32, 0, -1, &estimate),
               COLL_ERROR_INVALID);
  cr_assert_eq(coll_comm_estimate(comm, COLL_ALLREDUCE, 1, (coll_dtype_t)99, 0, 0, &estimate),
               COLL_ERROR_INVALID);
  cr_assert_eq(coll_comm_estimate(comm, (coll_collective_t)99, 1, COLL_FLOAT32, 0, 0, &estimate),
               COLL_ERROR_INVALID);
  cr_assert_eq(coll_comm_estimate(comm, COLL_ALLREDUCE, 1, COLL_FLOAT32, 0, 0, NULL),
               COLL_ERROR_INVALID);
  cr_assert_eq(
      coll_comm_estimate(comm, COLL_ALLREDUCE, SIZE_MAX / 8 + 1, COLL_FLOAT64, 0, 0, &estimate),
      COLL_ERROR_INVALID);
  cr_assert_null(coll_estimate_term(COLL_ESTIMATE_TERMS));
  cr_assert_null(coll_estimate_term(-1));
  cr_assert_eq(coll_comm_destroy(comm), COLL_OK);
}

/* ---- costs ----------------------------------------------------------------------------------*/

static char home[] = "/tmp/libcoll-costs-XXXXXX";

static void make_home(void) {
  cr_assert_not_null(mkdtemp(home));
  setenv("XDG_CACHE_HOME", home, 1);
  unsetenv("COLL_TUNE");
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *place) {
  (void)status, (void)kind, (void)place;
  return remove(path);
}

static void remove_home(void) {
  cr_assert_eq(nftw(home, remove_one, 4, FTW_DEPTH | FTW_PHYS), 0);
}

static int find_costs(int rank, int size, void *context) {
  (void)rank, (void)size;
  return calibrate_costs_find(context) == COLL_OK ? 0 : harness_fail("%s", base_last_error());
}

/* The costs that a new process finds. */
static tune_machine_t found_costs(void) {
  harness_result_t result;
  tune_machine_t *shared =
      mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  cr_assert_neq(shared, MAP_FAILED);
  cr_assert(harness_run(1, 20000, find_costs, shared, &result), "%s", result.text);
  tune_machine_t costs = *shared;
  munmap(shared, sizeof *shared);
  return costs;
}

static bool same(const tune_machine_t *a, const tune_machine_t *b) {
  return memcmp(a, b, sizeof *a) == 0;
}

static bool is_builtin(const tune_machine_t *costs) {
  return same(costs, &tune_machine_builtin);
}

/* Waits until costs are measured. A busy machine delays that, and a machine with a single core
 * never measures. */
static tune_machine_t measured_costs(void) {
  tune_machine_t costs = found_costs();
  for (int tries = 0; tries < 4 && is_builtin(&costs); tries++) {
    costs = found_costs();
  }
  return costs;
}

/* Measured costs are found again. Built-in costs, used while the machine is too busy to measure,
 * may be replaced by measured ones at any time. */
static bool was_stored(const tune_machine_t *costs) {
  if (is_builtin(costs)) return true;
  tune_machine_t again = found_costs();
  return same(costs, &again);
}

/* Overwrites every file in the cache folder. */
static void overwrite_cache(const char *text) {
  char folder[256], path[600];
  snprintf(folder, sizeof folder, "%s/libcoll", home);
  DIR *entries = opendir(folder);
  if (entries == NULL) return; /* with one core nothing is measured or stored */
  for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
    if (entry->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    fputs(text, file);
    fclose(file);
  }
  closedir(entries);
}

Test(costs, are_measured_once) {
  make_home();
  tune_machine_t first = measured_costs();
  cr_assert(was_stored(&first), "measured again");
  for (int i = 0; i < TUNE_FIXED_COUNT; i++) cr_assert_gt(first.fixed_ps[i], 0);
  for (int move = 0; move < TUNE_MOVE_COUNT; move++) {
    bool is_here = move != TUNE_CROSS; /* that is measured between hosts */
    for (int i = 0; i < TUNE_SIZES; i++) cr_assert_eq(first.move_ps[move][i] > 0, is_here);
  }
  remove_home();
}

/* Another measurement by the same code, which takes a sanitizer long. */
Test(costs, are_measured_again_when_the_file_is_invalid) {
  if (HARNESS_BUILD != HARNESS_PLAIN && !harness_full()) cr_skip_test("COLL_TEST_FULL=1 runs it");
  make_home();
  tune_machine_t first = measured_costs();
  overwrite_cache("nonsense\n");
  tune_machine_t second = measured_costs();
  cr_assert(was_stored(&second), "the new measurement was not stored");
  cr_assert(is_builtin(&first) || !same(&first, &second), "not measured again");
  remove_home();
}

Test(costs, are_available_where_nothing_can_be_stored) {
  setenv("XDG_CACHE_HOME", "/proc/nowhere", 1);
  unsetenv("COLL_TUNE");
  tune_machine_t costs = found_costs();
  cr_assert_gt(costs.fixed_ps[TUNE_CALL], 0);
}

Test(costs, can_be_set_to_builtin) {
  make_home();
  setenv("COLL_TUNE", "builtin", 1);
  coll_comm_t comms[2];
  cr_assert_eq(coll_comm_create_local(2, NULL, comms), COLL_OK, "%s", coll_last_error(NULL));
  cr_assert(same(&comms[0]->plans.costs, &tune_machine_builtin));
  for (int rank = 0; rank < 2; rank++) cr_assert_eq(coll_comm_destroy(comms[rank]), COLL_OK);
  cr_assert_eq(rmdir(home), 0, "something was stored");
  setenv("COLL_TUNE", "bultin", 1);
  cr_assert_eq(coll_comm_create_local(2, NULL, comms), COLL_ERROR_INVALID);
  cr_assert(strstr(coll_last_error(NULL), "builtin") != NULL, "%s", coll_last_error(NULL));
}
