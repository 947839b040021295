/*
 * Groups of sends and receives by ends: all pairs of ranks in an order of their own on each rank,
 * in groups that the two ends of a message divide differently, between collectives.
 */
#include <stdio.h>

#include "device/cuda/end_state.h"
#include "gpu/ends.h"
#include "verify/random.h"

enum { SIZE = 4, ROUNDS = 90, BYTES_MAX = 9000 };

TestSuite(end_exchange, .timeout = 120 * HARNESS_BUILD_PATIENCE);

static size_t bytes_of(int round, int from, int to) {
  uint64_t random = random_mix((uint64_t)(round * 64 + from * 8 + to));
  return random % 5 == 0 ? 0 : random % (random % 3 == 0 ? BYTES_MAX : 300);
}

static char byte_of(int round, int from, int to, size_t at) {
  return (char)(round * 3 + from * 71 + to * 37 + (int)(at % 251));
}

/* A rank's messages of a round: [peer] to the peer, [SIZE + peer] from it. */
typedef struct round {
  gpu_transfer_t transfers[2 * SIZE];
  int number;
} round_t;

static int prepare(int rank, round_t *round) {
  for (int i = 0; i < 2 * SIZE; i++) {
    int peer = i % SIZE;
    bool sends = i < SIZE;
    size_t bytes =
        sends ? bytes_of(round->number, rank, peer) : bytes_of(round->number, peer, rank);
    char *data = calloc(bytes + 1, 1);
    ENDS_EXPECT(data != NULL);
    for (size_t at = 0; sends && at < bytes; at++)
      data[at] = byte_of(round->number, rank, peer, at);
    round->transfers[i] =
        (gpu_transfer_t){.peer = peer, .sends = sends, .address = data, .bytes = bytes};
  }
  return 0;
}

static int check(int rank, const round_t *round) {
  for (int i = 0; i < 2 * SIZE; i++) {
    const gpu_transfer_t *t = &round->transfers[i];
    const char *data = t->address;
    for (size_t at = 0; !t->sends && at < t->bytes; at++) {
      if (data[at] == byte_of(round->number, t->peer, rank, at)) continue;
      return harness_fail("round %d: byte %zu of rank %d is wrong", round->number, at, t->peer);
    }
    free(t->address);
  }
  return 0;
}

/* mixes: in another order each time, so there are more programs than an end keeps. Every third
 * rank has what it sends to itself in a group of its own. */
static int launch(const ends_rank_t *rank, const round_t *round, bool mixes, uint64_t *random) {
  gpu_transfer_t group[2 * SIZE], own[2];
  int count = 0, own_count = 0;
  for (int i = 0; i < 2 * SIZE; i++) {
    const gpu_transfer_t *t = &round->transfers[i];
    if (t->peer == rank->rank && rank->rank % 3 == 1) {
      own[own_count++] = *t;
      continue;
    }
    int at = mixes ? random_below(random, count + 1) : count;
    group[count++] = group[at];
    group[at] = *t;
  }
  cuda_stream_t stream = rank->streams[round->number % 2];
  ENDS_TRY(cuda_end_launch_exchange(rank->end, own, own_count, stream));
  ENDS_TRY(cuda_end_launch_exchange(rank->end, group, count, stream));
  memset(group, 0, sizeof group);
  return 0;
}

static int add_up(const ends_rank_t *rank, const cuda_program_t *program, int32_t *sum) {
  static const int32_t one = 1;
  const cuda_request_t request = {.input = &one, .output = sum, .count = 1, .dtype = COLL_INT32};
  ENDS_TRY(cuda_end_launch(rank->end, program, &request, rank->streams[0]));
  return 0;
}

static int run_rounds(const ends_rank_t *rank, const cuda_program_t *program, bool mixes) {
  static round_t all[SIZE][ROUNDS];
  round_t *rounds = all[rank->rank];
  uint64_t random = random_mix((uint64_t)rank->rank);
  int32_t sums[ROUNDS] = {0};
  for (int i = 0; i < ROUNDS; i++) {
    rounds[i].number = i;
    if (prepare(rank->rank, &rounds[i]) != 0) return 1;
    if (launch(rank, &rounds[i], mixes, &random) != 0) return 1;
    if (i % 4 == 0 && add_up(rank, program, &sums[i]) != 0) return 1;
  }
  ENDS_TRY(cuda_end_synchronize(rank->end));
  for (int i = 0; i < ROUNDS; i++) {
    if (check(rank->rank, &rounds[i]) != 0) return 1;
    ENDS_EXPECT(sums[i] == (i % 4 == 0 ? SIZE : 0));
  }
  return 0;
}

typedef struct traffic {
  ends_t ends;
  bool mixes;
} traffic_t;

static int exchange(int rank_number, int size, void *context) {
  const traffic_t *traffic = context;
  const plan_shape_t shape = {.collective = COLL_ALLREDUCE, .size = size};
  const cuda_program_t *program;
  const algo_t *algo;
  ends_rank_t rank;
  plan_t *plan;
  if (ends_open(&traffic->ends, rank_number, size, &rank) != 0) return 1;
  ENDS_TRY(algo_find(COLL_ALLREDUCE, "staged", &algo));
  ENDS_TRY(algo_build(algo, &shape, rank_number, false, &plan));
  ENDS_TRY(cuda_end_program(rank.end, plan, &program));
  ENDS_TRY(cuda_end_launch_exchange(rank.end, NULL, 0, NULL));
  if (run_rounds(&rank, program, traffic->mixes) != 0) return 1;
  size_t least = traffic->mixes ? 60 : 2, most = traffic->mixes ? 65 : 3;
  ENDS_EXPECT(rank.end->program_count >= least && rank.end->program_count <= most);
  if (ends_close(&rank) != 0) return 1;
  plan_free(plan);
  return 0;
}

static void run(bool mixes) {
  traffic_t traffic = {.ends = {.gpus = 2}, .mixes = mixes};
  gpu_setting("COLL_STANDIN_STRICT", "1");
  ends_run_threads(SIZE, exchange, &traffic);
}

Test(end_exchange, keeps_programs_of_groups) {
  run(false);
}

Test(end_exchange, runs_more_groups_than_it_keeps) {
  run(true);
}

static int mismatch(int rank_number, int size, void *context) {
  char data[8] = "";
  const gpu_transfer_t alone = {.peer = rank_number, .sends = true, .address = data, .bytes = 8};
  ends_rank_t rank;
  if (ends_open(context, rank_number, size, &rank) != 0) return 1;
  ENDS_EXPECT(cuda_end_launch_exchange(rank.end, &alone, 1, NULL) == COLL_ERROR_INVALID);
  return ends_close(&rank);
}

Test(end_exchange, refuses_groups_that_do_not_match) {
  ends_t ends = {.gpus = 2};
  gpu_setting("COLL_STANDIN_STRICT", "1");
  ends_run_threads(2, mismatch, &ends);
}
