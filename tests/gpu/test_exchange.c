/*
 * Groups of sends and receives on virtual GPUs: random ones, between collectives, and of ends that
 * know very different groups.
 */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "device/cuda/exchange.h"
#include "gpu/traffic.h"
#include "verify/random.h"

#define CAPACITY 4096
#if defined(__SANITIZE_THREAD__)
#define SEEDS 15
#else
#define SEEDS 100
#endif

Test(gpu_exchange, random_groups) {
  for (int seed = 0; seed < SEEDS; seed++) {
    uint64_t random = random_mix((uint64_t)seed);
    int size = 2 + random_below(&random, 7);
    gpu_room_t room = ranks_room(size);
    ranks_t ranks;
    traffic_t traffic = {.ranks = &ranks, .seed = (uint64_t)seed};
    ranks_init(&ranks, &room, CAPACITY);
    traffic_draw(&traffic, &random);
    traffic_check(&traffic);
    ranks_free(&ranks);
  }
}

/* Rank 0's largest message is unknown to rank 2, rank 2's to rank 0. Rank 4 takes no part. */
Test(gpu_exchange, ends_with_groups_of_other_sizes) {
  const size_t mib = (size_t)1 << 20;
  for (int slices = 1; slices <= 4; slices += 3) {
    gpu_room_t room = ranks_room(5);
    ranks_t ranks;
    traffic_t traffic = {.ranks = &ranks,
                         .messages = {{0, 1, mib + 3},
                                      {0, 2, 5},
                                      {2, 3, 300 << 10},
                                      {0, 2, 70000},
                                      {3, 0, 1},
                                      {2, 2, 9999},
                                      {2, 2, 1}},
                         .count = 7,
                         .slices = slices};
    ranks_init(&ranks, &room, CAPACITY);
    traffic_check(&traffic);
    traffic.group_length = 2;
    traffic_check(&traffic);
    ranks_free(&ranks);
  }
}

/* Rings and flags are those of collectives. */
Test(gpu_exchange, between_collectives) {
  enum { SIZE = 3, ROUNDS = 8 };
  static const char *const names[] = {"ring", "double_tree", "staged"};
  gpu_room_t room = ranks_room(SIZE);
  ranks_t ranks;
  ranks_init(&ranks, &room, CAPACITY);
  for (int round = 0; round < ROUNDS; round++) {
    uint64_t random = random_mix((uint64_t)round);
    traffic_t traffic = {.ranks = &ranks, .seed = (uint64_t)round};
    char text[RANKS_TEXT_BYTES] = "";
    ranks_call_t call = {.question = {.collective = COLL_ALLREDUCE,
                                      .size = SIZE,
                                      .count = 700,
                                      .dtype = COLL_FLOAT32,
                                      .seed = (uint64_t)round},
                         .slices = 1 + round % 4};
    traffic_draw(&traffic, &random);
    traffic_check(&traffic);
    cr_assert_eq(algo_find(COLL_ALLREDUCE, names[round % 3], &call.algo), COLL_OK);
    cr_assert(ranks_carry_out(&ranks, &call, 1, (uint64_t)round, text), "%s", text);
  }
  ranks_free(&ranks);
}

static void check_refusal(const gpu_transfer_t transfers[], int count, const char *text) {
  gpu_program_t *program = NULL;
  size_t *counts = NULL, *offsets = NULL;
  cr_assert_eq(gpu_bind_exchange(1, 3, transfers, count, &program, &counts, &offsets),
               COLL_ERROR_INVALID);
  cr_assert_not_null(strstr(base_last_error(), text), "%s", base_last_error());
  cr_assert_null(program);
  cr_assert_null(counts);
}

Test(gpu_exchange, refusals) {
  char data[8];
  const gpu_transfer_t stranger[] = {{0, true, data, 8}, {3, true, data, 8}};
  const gpu_transfer_t negative[] = {{-1, false, data, 8}};
  const gpu_transfer_t alone[] = {{1, true, data, 8}, {0, false, data, 8}};
  const gpu_transfer_t unequal[] = {
      {1, true, data, 8}, {1, false, data, 8}, {1, true, data, 8}, {1, false, data, 7}};
  check_refusal(stranger, 2, "send 1 of a group names rank 3");
  check_refusal(negative, 1, "receive 0 of a group names rank -1");
  check_refusal(alone, 2, "1 sends to itself and 0 receives");
  check_refusal(unequal, 4, "send 1 of rank 1 to itself is of 8 bytes, its receive of 7");
}

/* Lanes of a group are no channels of the room, but each needs a block. */
Test(gpu_exchange, lanes_and_slices) {
  enum { SIZE = 20 };
  gpu_transfer_t transfers[2 * SIZE];
  char data[8];
  gpu_room_t room = ranks_room(SIZE);
  gpu_program_t *program;
  size_t *counts, *offsets;
  int slices = 0;
  for (int i = 0; i < 2 * SIZE; i++) transfers[i] = (gpu_transfer_t){i / 2, i % 2 == 0, data, 8};
  cr_assert_eq(gpu_bind_exchange(4, SIZE, transfers, 2 * SIZE, &program, &counts, &offsets),
               COLL_OK);
  cr_assert_eq(program->lanes, 2 * SIZE - 1);
  cr_assert_eq(offsets[0], (size_t)(uintptr_t)data);
  cr_assert_eq(gpu_exchange_slices(&room, 2 * SIZE - 1, 4, &slices), COLL_OK);
  cr_assert_eq(slices, 1);
  cr_assert_eq(gpu_exchange_slices(&room, 10000, 3, &slices), COLL_OK);
  cr_assert_eq(slices, 3);
  cr_assert_eq(gpu_exchange_slices(&room, 2 * SIZE - 2, 4, &slices), COLL_ERROR_UNSUPPORTED);
  free(program);
  free(counts);
}
