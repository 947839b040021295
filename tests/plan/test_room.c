/* How many elements of a block a pass carries, compared with values computed by hand. */
#include <criterion/criterion.h>

#include "plan/room.h"

static size_t grain;

static size_t most(plan_room_t room, plan_load_t load, size_t element_bytes) {
  return plan_pass_max(&room, &load, element_bytes, &grain);
}

Test(room, is_unlimited_without_messages_and_scratch) {
  cr_expect_eq(most((plan_room_t){0}, (plan_load_t){.parts = 3}, 4), SIZE_MAX);
  cr_expect_eq(grain, 16);
}

Test(room, is_the_smaller_of_slot_and_scratch_limits) {
  plan_load_t load = {.parts = 2, .message_chunks = 1, .scratch_chunks = 4};
  cr_expect_eq(most((plan_room_t){.slot_bytes = 1024, .scratch_bytes = 1 << 20}, load, 4), 2 * 256);
  cr_expect_eq(most((plan_room_t){.slot_bytes = 1 << 20, .scratch_bytes = 2048}, load, 4), 2 * 128);
}

Test(room, multicast_has_its_own_limit) {
  plan_room_t room = {.slot_bytes = 1 << 20, .mcast_bytes = 512};
  cr_expect_eq(most(room, (plan_load_t){.parts = 1, .message_chunks = 1, .multicast = true}, 8),
               64);
  cr_expect_eq(most(room, (plan_load_t){.parts = 1, .message_chunks = 1}, 8), 1 << 17);
}

Test(room, is_rounded_to_cache_lines_where_possible) {
  plan_load_t load = {.parts = 1, .message_chunks = 3};
  cr_expect_eq(most((plan_room_t){.slot_bytes = 300}, load, 4), 16); /* of 25 that fit */
  cr_expect_eq(grain, 16);
  cr_expect_eq(most((plan_room_t){.slot_bytes = 180}, load, 4), 15);
  cr_expect_eq(grain, 1);
}

Test(room, is_zero_if_no_element_fits) {
  cr_expect_eq(
      most((plan_room_t){.slot_bytes = 7}, (plan_load_t){.parts = 1, .message_chunks = 1}, 8), 0);
}

static size_t of_call(plan_room_t room, plan_load_t load, size_t count) {
  return plan_pass_of(&room, &load, 4, count, &grain);
}

Test(room, long_chunks_are_sent_in_several_messages) {
  const plan_room_t room = {.slot_bytes = 1 << 20};
  plan_load_t load = {.parts = 1, .message_chunks = 1, .messages_min = 4};
  cr_expect_eq(of_call(room, load, 1000), 1 << 16, "of 256 KiB or more");
  cr_expect_eq(of_call(room, load, 1 << 18), 1 << 16);
  cr_expect_eq(of_call(room, load, 1 << 19), 1 << 17);
  cr_expect_eq(of_call(room, load, 1 << 24), 1 << 18, "no longer than a slot");
  load.parts = 2;
  cr_expect_eq(of_call(room, load, 1 << 20), 1 << 18, "two halves, each in four messages");
  load.messages_min = 2;
  cr_expect_eq(of_call(room, load, 1 << 18), 1 << 18, "of 512 KiB or more");
  cr_expect_eq(of_call(room, load, 3 << 18), 3 << 17);
  load.messages_min = 1;
  cr_expect_eq(of_call(room, load, 1 << 18), 2 << 18);
  cr_expect_eq(of_call((plan_room_t){.slot_bytes = 4096}, load, 1 << 24), 2 << 10);
}

Test(room, two_ranks_exchange_two_messages_and_more_pass_on_four) {
  const struct {
    coll_collective_t collective;
    int32_t size, messages_min;
  } cases[] = {{COLL_SENDRECV, 2, 2}, {COLL_SENDRECV, 8, 2}, {COLL_BROADCAST, 2, 2},
               {COLL_BROADCAST, 3, 4}, {COLL_REDUCE, 8, 4},  {COLL_GATHER, 8, 1}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const plan_t plan = {.shape = {.collective = cases[i].collective, .size = cases[i].size}};
    cr_expect_eq(plan_load_of(&plan).messages_min, cases[i].messages_min, "case %zu", i);
  }
}
