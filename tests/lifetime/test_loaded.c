/* coll_comm_plan_load: plans from files are used by the calls that they are right for; wrong ones
 * are refused on all ranks, and the communicator works on. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "algo/algo.h"
#include "harness/party.h"
#include "plan/text.h"

static char file_name[] = "/tmp/test_loaded_XXXXXX";
static bool has_name; /* which may end with an X, too */

static void write_text(const char *text) {
  FILE *out = has_name ? fopen(file_name, "w") : fdopen(mkstemp(file_name), "w");
  has_name = true;
  cr_assert_not_null(out);
  fputs(text, out);
  cr_assert_eq(fclose(out), 0);
}

static void write_plan(coll_collective_t collective, const char *name, int ranks, int root,
                       bool in_place) {
  const plan_shape_t shape = {.collective = collective, .size = ranks, .root = root};
  const algo_t *algo;
  plan_t *plan;
  write_text("");
  cr_assert_eq(algo_find(collective, name, &algo), COLL_OK);
  cr_assert_eq(algo_build(algo, &shape, ALGO_ALL_RANKS, in_place, &plan), COLL_OK);
  FILE *out = fopen(file_name, "w");
  cr_assert_eq(plan_text_write(plan, out), COLL_OK);
  cr_assert_eq(fclose(out), 0);
  plan_free(plan);
}

static void remove_file(void) {
  unlink(file_name);
}

TestSuite(loaded, .fini = remove_file);

static int ask_from(party_rank_t *self, coll_collective_t collective, int root, bool in_place,
                    size_t first) {
  for (size_t count = first; count < 3000; count = 3 * count + 1) {
    const question_t q = {.collective = collective,
                          .size = self->size,
                          .root = root,
                          .count = count,
                          .dtype = COLL_INT32,
                          .op = COLL_SUM,
                          .seed = (unsigned)count};
    PARTY_TRY(party_ask(self, &q, &(party_style_t){.in_place = in_place}));
  }
  return 0;
}

static int ask(party_rank_t *self, coll_collective_t collective, int root, bool in_place) {
  return ask_from(self, collective, root, in_place, 0);
}

static bool is_used(const party_rank_t *self, coll_collective_t collective, const char *name) {
  return strcmp(coll_comm_algo_used(self->comm, collective), name) == 0;
}

/* ---- plans that are right -------------------------------------------------------------------*/

static int load_one(party_rank_t *self) {
  coll_plan_info_t info = COLL_PLAN_INFO_INIT;
  PARTY_OK(coll_comm_plan_load(self->comm, file_name, &info));
  PARTY_REQUIRE(info.collective == COLL_ALLREDUCE && strcmp(info.name, "circulant") == 0 &&
                    info.in_place && info.out_of_place,
                "loaded %s", info.name);
  for (int in_place = 0; in_place < 2; in_place++) {
    PARTY_TRY(ask(self, COLL_ALLREDUCE, 0, in_place == 1));
    PARTY_REQUIRE(is_used(self, COLL_ALLREDUCE, "circulant"), "the plan is not used");
  }
  PARTY_OK(coll_comm_algo_set(self->comm, COLL_ALLREDUCE, "tree"));
  PARTY_TRY(ask(self, COLL_ALLREDUCE, 0, false));
  PARTY_REQUIRE(is_used(self, COLL_ALLREDUCE, "tree"), "the plan is still used");
  PARTY_OK(coll_comm_plan_load(self->comm, file_name, NULL)); /* again, instead of the algorithm */
  PARTY_TRY(ask(self, COLL_ALLREDUCE, 0, true));
  PARTY_REQUIRE(is_used(self, COLL_ALLREDUCE, "circulant"), "the plan is not used again");
  return 0;
}

Test(loaded, is_used_until_an_algorithm_is_set) {
  write_plan(COLL_ALLREDUCE, "circulant", 5, 0, false);
  PARTY_RUN(5, 20000, load_one, NULL);
}

static int load_rooted(party_rank_t *self) {
  PARTY_OK(coll_comm_plan_load(self->comm, file_name, NULL));
  PARTY_TRY(ask(self, COLL_BROADCAST, 2, false));
  PARTY_REQUIRE(is_used(self, COLL_BROADCAST, "chain"), "the plan is not used");
  PARTY_TRY(ask(self, COLL_BROADCAST, 1, false)); /* the library's choice */
  return 0;
}

Test(loaded, serves_its_root) {
  write_plan(COLL_BROADCAST, "chain", 4, 2, false);
  PARTY_RUN(4, 20000, load_rooted, NULL);
}

/* An allgather that never reads INPUT: the data are in OUTPUT already. Channels 0 and 90. */
static const char in_place_only[] =
    "plan allgather swap\nranks 2\nroot 0\nparts 1\nscratch 0\nlanes 2\ndepth 1\nmessage 1\n"
    "reach own\n"
    "rank 0 in-place\nlane 0\nsend 1 <- output[0+1]\nlane 1\nrecv 1:90 -> output[1+1]\n"
    "rank 1 in-place\nlane 0\nrecv 0 -> output[0+1]\nlane 1\nsend 0:90 <- output[1+1]\n"
    "end\n";

static int load_in_place(party_rank_t *self) {
  coll_plan_info_t info = COLL_PLAN_INFO_INIT;
  coll_comm_t part;
  PARTY_OK(coll_comm_plan_load(self->comm, file_name, &info));
  PARTY_REQUIRE(info.in_place && info.out_of_place, "is right for one kind of calls only");
  PARTY_TRY(ask(self, COLL_ALLGATHER, 0, true));
  PARTY_TRY(ask(self, COLL_ALLGATHER, 0, false));
  PARTY_TRY(ask(self, COLL_ALLGATHER, 0, self->rank == 1));
  PARTY_REQUIRE(is_used(self, COLL_ALLGATHER, "swap"), "the plan is not used");
  PARTY_OK(coll_comm_split(self->comm, 0, 0, NULL, &part)); /* uses an allgather of its own */
  PARTY_OK(coll_comm_destroy(part));
  return 0;
}

Test(loaded, in_place_serves_other_calls_by_copies_of_the_input) {
  write_text(in_place_only);
  PARTY_RUN(2, 20000, load_in_place, NULL);
}

/* Rank 1 reads the result at rank 0, which is the same memory as its input only if that is in
 * place.
 */
static const char pull[] =
    "plan allreduce pull\nranks 2\nroot 0\nparts 1\nscratch 0\nlanes 1\ndepth 0\nmessage 0\n"
    "reach read\norder exact\n"
    "rank 0 in-place\nwait 1\nreduce output[0+1] <- input[0+1], 1.input[0+1]\nsignal 1\nwait 1\n"
    "rank 1 in-place\nsignal 0\nwait 0\ncopy output[0+1] <- 0.input[0+1]\nsignal 0\n"
    "end\n";

static int load_mixed(party_rank_t *self) {
  PARTY_OK(coll_comm_plan_load(self->comm, file_name, NULL));
  for (int in_place = 0; in_place < 4; in_place++) {
    PARTY_TRY(ask(self, COLL_ALLREDUCE, 0, (in_place >> self->rank & 1) != 0));
  }
  return 0;
}

Test(loaded, serves_ranks_of_which_some_call_in_place) {
  write_text(pull);
  PARTY_RUN(2, 20000, load_mixed, NULL);
}

/* Ranks other than the root have no input, so they never call in place. */
static const char scatter_in_place[] =
    "plan scatter star\nranks 3\nroot 1\nparts 1\nscratch 0\nlanes 1\ndepth 1\nmessage 1\n"
    "reach own\n"
    "rank 0 in-place\nrecv 1 -> output[0+1]\n"
    "rank 1 in-place\nsend 2 <- input[2+1]\nsend 0 <- input[0+1]\n"
    "rank 2 in-place\nrecv 1 -> output[0+1]\n"
    "end\n";

static int load_scatter(party_rank_t *self) {
  PARTY_OK(coll_comm_plan_load(self->comm, file_name, NULL));
  PARTY_TRY(ask_from(self, COLL_SCATTER, 1, true, 1)); /* without elements no call is in place */
  PARTY_REQUIRE(is_used(self, COLL_SCATTER, "star"), "the plan is not used");
  return ask(self, COLL_SCATTER, 2, false);
}

Test(loaded, in_place_at_the_root_serves_all_ranks) {
  write_text(scatter_in_place);
  PARTY_RUN(3, 20000, load_scatter, NULL);
}

/* ---- plans that are refused -----------------------------------------------------------------*/

/* Whether the load failed with the status and a text that contains `what`; allreduce still works.
 */
static int check_refused(party_rank_t *self, coll_status_t status, coll_status_t expected,
                         const char *what) {
  PARTY_REQUIRE(status == expected, "rank %d: %s: %s", self->rank, coll_status_string(status),
                coll_last_error(self->comm));
  PARTY_REQUIRE(strstr(coll_last_error(self->comm), what) != NULL, "rank %d: %s", self->rank,
                coll_last_error(self->comm));
  PARTY_TRY(ask(self, COLL_ALLREDUCE, 0, false));
  PARTY_REQUIRE(!is_used(self, COLL_ALLREDUCE, "line"), "the plan is used");
  return 0;
}

/* context: what rank 0 says; the others say that it failed, or what they have found themselves. */
static int load_wrong(party_rank_t *self) {
  coll_status_t status = coll_comm_plan_load(self->comm, file_name, NULL);
  return check_refused(self, status, COLL_ERROR_INVALID, self->rank == 0 ? self->context : "");
}

static const char deadlock[] =
    "plan allreduce line\nranks 2\nroot 0\nparts 1\nscratch 1\nlanes 1\ndepth 1\nmessage 1\n"
    "reach own\n"
    "rank 0\nrecv 1 -> scratch[0+1]\nsend 1 <- input[0+1]\n"
    "reduce output[0+1] <- input[0+1], scratch[0+1]\n"
    "rank 1\nrecv 0 -> scratch[0+1]\nsend 0 <- input[0+1]\n"
    "reduce output[0+1] <- scratch[0+1], input[0+1]\n"
    "end\n";

Test(loaded, refuses_a_deadlock) {
  write_text(deadlock);
  PARTY_RUN(2, 20000, load_wrong, (void *)"(deadlock): rank 0 lane 0 step 0 (recv)");
}

Test(loaded, refuses_other_numbers_of_ranks) {
  write_plan(COLL_ALLREDUCE, "line", 4, 0, false);
  PARTY_RUN(3, 20000, load_wrong, (void *)"the plan is for 4 ranks, but the communicator has 3");
}

Test(loaded, refuses_a_damaged_file_by_line) {
  write_text("plan allreduce line\nranks 2\nroot two\n");
  PARTY_RUN(2, 20000, load_wrong, (void *)":3:");
}

static int load_missing(party_rank_t *self) {
  const char *path = self->rank == 1 ? "/nowhere/plan" : file_name;
  coll_status_t status = coll_comm_plan_load(self->comm, path, NULL);
  if (self->rank == 1) return check_refused(self, status, COLL_ERROR_SYSTEM, "/nowhere/plan");
  return check_refused(self, status, COLL_ERROR_INVALID, "rank 1 could not load its plan");
}

Test(loaded, is_used_by_no_rank_if_one_cannot_read_it) {
  write_plan(COLL_ALLREDUCE, "line", 3, 0, false);
  PARTY_RUN(3, 20000, load_missing, NULL);
}

static int load_different(party_rank_t *self) {
  const char *path = self->rank == 2 ? self->context : file_name;
  coll_status_t status = coll_comm_plan_load(self->comm, path, NULL);
  return check_refused(self, status, COLL_ERROR_MISMATCH, "ranks 0 and 2 have loaded different");
}

Test(loaded, is_used_by_no_rank_if_files_differ) {
  static char other[sizeof file_name + 2];
  write_plan(COLL_ALLREDUCE, "tree", 3, 0, false);
  snprintf(other, sizeof other, "%s.b", file_name);
  cr_assert_eq(rename(file_name, other), 0);
  write_plan(COLL_ALLREDUCE, "line", 3, 0, false);
  PARTY_RUN(3, 20000, load_different, other);
  unlink(other);
}

/* A rank that makes another call instead is named. */
static int load_alone(party_rank_t *self) {
  coll_status_t status = self->rank == 0 ? coll_comm_plan_load(self->comm, file_name, NULL)
                                         : coll_barrier(self->comm, NULL);
  PARTY_REQUIRE(status == COLL_ERROR_MISMATCH && strstr(coll_last_error(self->comm), "plan_load"),
                "rank %d: %s", self->rank, coll_last_error(self->comm));
  return 0;
}

Test(loaded, is_a_call_that_must_match) {
  write_plan(COLL_ALLREDUCE, "line", 2, 0, false);
  PARTY_RUN(2, 20000, load_alone, NULL);
}
