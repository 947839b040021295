/* Small plans, written by hand from the papers, step by step. */
#include <criterion/criterion.h>

#include "plans.h"

typedef struct golden {
  coll_collective_t collective;
  const char *name;
  int size, root;
  bool in_place;
  int rank;
  const char *steps;
} golden_t;

static void check(const golden_t rows[], size_t count) {
  static char text[4096];
  for (size_t i = 0; i < count; i++) {
    const golden_t *row = &rows[i];
    plan_t *plan = test_plan_named(row->collective, row->name, row->size, row->root,
                                   row->in_place ? TEST_IN_PLACE : TEST_APART);
    cr_assert_str_eq(test_program_text(plan, row->rank, text, sizeof text), row->steps,
                     "%s of %d, rank %d:\n  is       %s\n  expected %s", row->name, row->size,
                     row->rank, text, row->steps);
    plan_free(plan);
  }
}

#define CHECK(rows) check(rows, sizeof(rows) / sizeof(rows)[0])

Test(golden, allreduce_by_messages) {
  static const golden_t rows[] = {
      {COLL_ALLREDUCE, "ring", 3, 0, false, 0,
       "send 1 input[0]; recv 2 scratch[2]; reduce output[2] = scratch[2] input[2]; "
       "send 1 output[2]; recv 2 scratch[1]; reduce output[1] = scratch[1] input[1]; "
       "send 1 output[1]; recv 2 output[0]; send 1 output[0]; recv 2 output[2]"},
      {COLL_ALLREDUCE, "butterfly", 3, 0, false, 0,
       "recv 2 scratch[0]; reduce output[0] = input[0] scratch[0]; "
       "send 1 output[0]; recv 1 scratch[0]; reduce output[0] = output[0] scratch[0]; "
       "send 2 output[0]"},
      {COLL_ALLREDUCE, "butterfly", 3, 0, false, 1,
       "send 0 input[0]; recv 0 scratch[0]; reduce output[0] = scratch[0] input[0]"},
      {COLL_ALLREDUCE, "butterfly", 3, 0, false, 2, "send 0 input[0]; recv 0 output[0]"},
      {COLL_ALLREDUCE, "allpairs", 3, 0, false, 1,
       "send 2 input[0]; send 0 input[0]; recv 0 scratch[0]; recv 2 scratch[2]; "
       "reduce output[0] = scratch[0] input[0] scratch[2]"},
      {COLL_ALLREDUCE, "halving_doubling", 4, 0, false, 1,
       "send 0 input[0+2]; recv 0 scratch[2+2]; reduce output[2+2] = scratch[2+2] input[2+2]; "
       "send 3 output[3]; recv 3 scratch[2]; reduce output[2] = output[2] scratch[2]; "
       "send 3 output[2]; recv 3 output[3]; send 0 output[2+2]; recv 0 output[0+2]"},
      {COLL_ALLREDUCE, "rabenseifner", 3, 0, false, 0,
       "send 1 input[1]; recv 1 scratch[0]; reduce output[0] = input[0] scratch[0]; "
       "recv 2 scratch[0]; reduce output[0] = output[0] scratch[0]; "
       "send 2 output[0]; send 1 output[0]; recv 1 output[1]"},
      {COLL_ALLREDUCE, "rabenseifner", 3, 0, false, 2,
       "send 0 input[0]; send 1 input[1]; recv 0 output[0]; recv 1 output[1]"},
      {COLL_ALLREDUCE, "tree", 3, 0, false, 0,
       "recv 1 scratch[0]; reduce output[0] = input[0] scratch[0]; "
       "recv 2 scratch[0]; reduce output[0] = output[0] scratch[0]; "
       "send 2 output[0]; send 1 output[0]"},
      {COLL_ALLREDUCE, "circulant", 3, 0, false, 2,
       "send 1 input[1]; recv 0 scratch[2]; reduce output[2] = input[2] scratch[2]; "
       "copy output[0] = input[0]; "
       "send 0 output[0]; recv 1 scratch[2]; reduce output[2] = output[2] scratch[2]; "
       "send 1 output[2]; recv 0 output[0]; send 0 output[2]; recv 1 output[1]"},
      {COLL_ALLREDUCE, "circulant", 2, 0, true, 1,
       "send 0 input[0]; recv 0 scratch[1]; reduce output[1] = input[1] scratch[1]; "
       "send 0 output[1]; recv 0 output[0]"},
  };
  CHECK(rows);
}

Test(golden, allreduce_through_memory) {
  static const golden_t rows[] = {
      {COLL_ALLREDUCE, "oneshot", 2, 0, false, 1,
       "reduce output[0] = r0.input[0] input[0]; signal 0; wait 0"},
      {COLL_ALLREDUCE, "oneshot", 2, 0, true, 1,
       "reduce scratch[0] = r0.input[0] input[0]; signal 0; wait 0; copy output[0] = scratch[0]"},
      {COLL_ALLREDUCE, "twophase_push", 3, 0, true, 1,
       "reduce output[1] = r0.input[1] input[1] r2.input[1]; "
       "copy r2.output[1] = output[1]; copy r0.output[1] = output[1]; signal 2; signal 0; "
       "wait 2; wait 0"},
      {COLL_ALLREDUCE, "twophase_pull", 2, 0, false, 0,
       "reduce output[0] = input[0] r1.input[0]; signal 1; "
       "wait 1; copy output[1] = r1.output[1]; signal 1; wait 1"},
      {COLL_ALLREDUCE, "staged", 2, 0, false, 0,
       "copy scratch[1] = input[1]; signal 1; wait 1; "
       "reduce scratch[0] = input[0] r1.scratch[0]; signal 1; copy output[0] = scratch[0]; "
       "wait 1; copy output[1] = r1.scratch[1]; signal 1; wait 1"},
  };
  CHECK(rows);
}

Test(golden, scattered_and_gathered) {
  static const golden_t rows[] = {
      {COLL_REDUCE_SCATTER, "ring", 3, 0, false, 0,
       "send 1 input[2]; recv 2 scratch[0]; reduce scratch[0] = scratch[0] input[1]; "
       "send 1 scratch[0]; recv 2 scratch[0]; reduce output[0] = scratch[0] input[0]"},
      {COLL_REDUCE_SCATTER, "halving", 2, 0, true, 1,
       "send 0 input[0]; recv 0 scratch[0]; reduce output[0] = scratch[0] input[1]"},
      {COLL_REDUCE_SCATTER, "mapped", 2, 0, false, 1,
       "reduce output[0] = r0.input[1] input[1]; signal 0; wait 0"},
      {COLL_ALLGATHER, "ring", 3, 0, false, 1,
       "copy output[1] = input[0]; send 2 output[1]; recv 0 output[0]; "
       "send 2 output[0]; recv 0 output[2]"},
      {COLL_ALLGATHER, "doubling", 3, 0, true, 2,
       "send 0 input[0]; recv 0 output[0]; recv 0 output[1]"},
      {COLL_ALLGATHER, "circulant", 3, 0, false, 2,
       "copy output[2] = input[0]; send 1 output[2]; recv 0 output[0]; "
       "send 0 output[2]; recv 1 output[1]"},
      {COLL_ALLGATHER, "mapped_push", 3, 0, false, 1,
       "reduce output[1] = input[0]; copy r2.output[1] = output[1]; copy r0.output[1] = output[1]; "
       "signal 2; signal 0; wait 2; wait 0"},
      {COLL_ALLGATHER, "mapped_push", 2, 0, true, 1,
       "copy r0.output[1] = output[1]; signal 0; wait 0"},
      {COLL_GATHER, "binomial", 4, 1, false, 1,
       "copy output[1] = input[0]; recv 2 output[2]; recv 3 output[3]; recv 3 output[0]"},
      {COLL_GATHER, "binomial", 4, 1, false, 3,
       "copy scratch[0] = input[0]; recv 0 scratch[1]; send 1 scratch[0]; send 1 scratch[1]"},
      {COLL_SCATTER, "binomial", 4, 3, true, 3, "send 1 input[1+2]; send 0 input[0]"},
      {COLL_SCATTER, "binomial", 4, 3, false, 1,
       "recv 3 scratch[0+2]; send 2 scratch[1]; copy output[0] = scratch[0]"},
      {COLL_SCATTER, "staged", 2, 0, false, 0,
       "wait 1; copy r1.scratch[0] = input[1]; signal 1; copy output[0] = input[0]"},
  };
  CHECK(rows);
}

Test(golden, rooted) {
  static const golden_t rows[] = {
      {COLL_BROADCAST, "binomial", 5, 1, false, 1,
       "send 0 input[0]; send 3 input[0]; send 2 input[0]; copy output[0] = input[0]"},
      {COLL_BROADCAST, "binomial", 5, 1, false, 3, "recv 1 output[0]; send 4 output[0]"},
      {COLL_BROADCAST, "binomial", 5, 1, false, 0, "recv 1 output[0]"},
      {COLL_BROADCAST, "scatter_allgather", 3, 0, false, 0,
       "send 2 input[2]; send 1 input[1]; send 1 input[0]; send 1 input[2]; "
       "copy output[0+3] = input[0+3]"},
      {COLL_BROADCAST, "scatter_allgather", 3, 0, false, 1,
       "recv 0 output[1]; send 2 output[1]; recv 0 output[0]; send 2 output[0]; "
       "recv 0 output[2]"},
      {COLL_BROADCAST, "mapped_shares", 2, 0, true, 0,
       "copy r1.output[0] = output[0]; signal 1; wait 1"},
      {COLL_BROADCAST, "mapped_shares", 2, 0, false, 1,
       "reduce output[1] = r0.input[1]; copy r0.output[1] = output[1]; signal 0; wait 0"},
      {COLL_REDUCE, "chain", 3, 2, true, 0,
       "recv 1 scratch[0]; reduce scratch[0] = input[0] scratch[0]; send 2 scratch[0]"},
      {COLL_REDUCE, "binomial", 4, 2, false, 0,
       "recv 1 scratch[1]; reduce scratch[0] = input[0] scratch[1]; send 2 scratch[0]"},
      {COLL_REDUCE, "binomial", 4, 2, false, 2,
       "recv 3 scratch[1]; reduce output[0] = input[0] scratch[1]; recv 0 scratch[1]; "
       "reduce output[0] = scratch[1] output[0]"},
      {COLL_REDUCE, "inorder", 3, 1, false, 2,
       "send 1 input[0]; recv 1 scratch[0]; recv 0 scratch[1]; "
       "reduce scratch[2] = scratch[1] scratch[0]; send 1 scratch[2]"},
      {COLL_REDUCE, "linear", 3, 1, true, 1,
       "recv 0 scratch[0]; recv 2 scratch[2]; reduce output[0] = scratch[0] input[0] scratch[2]"},
      {COLL_REDUCE, "direct", 2, 1, false, 0,
       "send 1 input[1]; recv 1 scratch[0]; reduce scratch[2] = input[0] scratch[0]; "
       "send 1 scratch[2]"},
      {COLL_REDUCE, "mapped", 2, 1, false, 0,
       "reduce r1.output[0] = input[0] r1.input[0]; signal 1; wait 1"},
  };
  CHECK(rows);
}

Test(golden, exchanges_and_barriers) {
  static const golden_t rows[] = {
      {COLL_ALLTOALL, "pairwise", 3, 0, false, 1,
       "send 2 input[2]; recv 2 output[2]; send 0 input[0]; recv 0 output[0]; "
       "copy output[1] = input[1]"},
      {COLL_ALLTOALL, "bruck", 3, 0, true, 0,
       "copy scratch[1+2] = input[1+2]; "
       "copy scratch[3] = scratch[1]; send 1 scratch[3]; recv 2 scratch[3]; "
       "copy scratch[1] = scratch[3]; "
       "copy scratch[3] = scratch[2]; send 2 scratch[3]; recv 1 scratch[3]; "
       "copy scratch[2] = scratch[3]; "
       "copy output[2] = scratch[1]; copy output[1] = scratch[2]"},
      {COLL_ALLTOALLV, "pairwise", 2, 0, false, 0,
       "copy output[0] = input[0]; send 1 input[1]; recv 1 output[1]"},
      {COLL_ALLGATHERV, "ring", 3, 0, true, 1,
       "send 2 output[1]; recv 0 output[0]; send 2 output[0]; recv 0 output[2]"},
      {COLL_REDUCE_SCATTERV, "ring", 3, 0, false, 0,
       "send 1 input[2]; recv 2 scratch[1]; reduce scratch[1] = scratch[1] input[1]; "
       "send 1 scratch[1]; recv 2 scratch[0]; reduce output[0] = scratch[0] input[0]"},
      {COLL_REDUCE_SCATTERV, "halving", 2, 0, true, 1,
       "send 0 input[0]; recv 0 scratch[3]; reduce output[0] = scratch[3] input[1]"},
      {COLL_REDUCE_SCATTERV, "allpairs", 2, 0, false, 1,
       "send 0 input[0]; recv 0 scratch[0]; reduce output[0] = scratch[0] input[1]"},
      {COLL_GATHERV, "linear", 2, 1, true, 1, "recv 0 output[0]"},
      {COLL_SCATTERV, "linear", 2, 1, false, 1, "send 0 input[0]; copy output[0] = input[1]"},
      {COLL_BARRIER, "dissemination", 3, 0, false, 2, "signal 0; wait 1; signal 1; wait 0"},
      {COLL_BARRIER, "tournament", 3, 0, false, 0, "wait 1; wait 2; signal 2; signal 1"},
      {COLL_BARRIER, "allpairs", 3, 0, false, 2, "signal 0; signal 1; wait 0; wait 1"},
      {COLL_SENDRECV, "direct", 3, 0, false, 0, "send 1 input[0]; recv 2 output[0]"},
  };
  CHECK(rows);
}

Test(golden, a_single_rank_copies_unless_in_place) {
  static const golden_t rows[] = {
      {COLL_ALLREDUCE, "ring", 1, 0, false, 0, "copy output[0] = input[0]"},
      {COLL_ALLREDUCE, "ring", 1, 0, true, 0, ""},
      {COLL_REDUCE, "reduce_scatter_gather", 1, 0, false, 0, "copy output[0] = input[0]"},
      {COLL_ALLTOALL, "mapped", 1, 0, true, 0, ""},
      {COLL_SENDRECV, "direct", 1, 0, false, 0, "copy output[0] = input[0]"},
      {COLL_BARRIER, "dissemination", 1, 0, false, 0, ""},
  };
  CHECK(rows);
}
