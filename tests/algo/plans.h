/* Helpers of the builder tests: plans by name and mode, iteration over all cases, a program as
 * text, and the volume that a plan moves. */
#ifndef TESTS_ALGO_PLANS_H
#define TESTS_ALGO_PLANS_H

#include "algo/algo.h"

typedef enum test_mode {
  TEST_APART,    /* no rank in place */
  TEST_IN_PLACE, /* all ranks */
  TEST_MIXED,    /* the even ranks */
  TEST_MODE_COUNT
} test_mode_t;

/* Builds the plan of all ranks. Fails the test if it cannot be built. Owned by the caller. */
plan_t *test_plan_shape(const algo_t *algo, const plan_shape_t *shape, test_mode_t mode);
plan_t *test_plan_build(const algo_t *algo, int size, int root, test_mode_t mode);
plan_t *test_plan_named(coll_collective_t collective, const char *name, int size, int root,
                        test_mode_t mode);

/* Calls visit for every algorithm of the collective. */
void test_each_algo(coll_collective_t collective, void (*visit)(const algo_t *algo));

/* The root to test after `root` (start with -1): all roots up to `all_up_to` ranks, 0, 1 and size-1
 * beyond, only 0 where the collective has no root; -1 after the last one. */
int test_next_root(coll_collective_t collective, int size, int all_up_to, int root);

/* The same. For algorithms with an executor rank: the executor ranks to test. */
int test_next_lead(const algo_t *algo, int size, int all_up_to, int root);

/* "send 1 input[0]; recv 2 scratch[1+2]; reduce output[0] = r2.input[0] input[0]" */
const char *test_program_text(const plan_t *plan, int rank, char *text, size_t bytes);

/* The program as its peers observe it, in the same form: only the spans of other ranks, this rank's
 * own spans left blank. */
const char *test_program_seen(const plan_t *plan, int rank, char *text, size_t bytes);

/* What one rank's program or all of them move. Loads: chunks read; stores: chunks written. */
typedef struct test_traffic {
  int messages, chunks;            /* sent */
  int longest;                     /* message, in chunks */
  int signals;                     /* sent */
  int remote_loads, remote_stores; /* chunks */
  int local_loads, local_stores;   /* chunks, by copies and reductions */
  int scratch;                     /* one past the highest chunk touched */
} test_traffic_t;

test_traffic_t test_traffic_rank(const plan_t *plan, int rank);
test_traffic_t test_traffic_all(const plan_t *plan); /* sums; longest and scratch are maxima */
test_traffic_t test_traffic_max(const plan_t *plan); /* the maximum of each over the ranks */

/* Rounds of the plan's messages: the length of the critical path, if a rank can send one message
 * and receive one at the same time and each takes one unit. */
int test_rounds(const plan_t *plan);

int test_log2_up(int size); /* ceil(log2 size) */

#endif
