/* When a rank that waits gives its core to one that shares it. */
#include <criterion/criterion.h>
#include <sched.h>

#include "transport/shm/neighbours.h"

/* Rank 1 asks about rank 2, both on this processor. */
static bool may_go_on(uint64_t place, uint64_t missing, uint64_t peers_place,
                      uint64_t peers_missing) {
  shm_stand_t own = {0}, peer = {0};
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  cr_assert_eq(sched_setaffinity(0, sizeof one, &one), 0);
  shm_stand_tell(&own, place, missing);
  shm_stand_tell(&peer, peers_place, peers_missing);
  return shm_stand_may_go_on(&peer, &own, 1);
}

Test(neighbours, one_that_is_behind_comes_first) {
  cr_expect(may_go_on(7, 0x8, 6, 0x8));
  cr_expect_not(may_go_on(7, 0x4, 8, 0x2), "who is ahead can only wait for others");
}

Test(neighbours, at_the_same_place_it_depends_on_who_is_missed) {
  cr_expect(may_go_on(7, 0x4 | 0x8, 7, 0x2), "it misses only the one that asks");
  cr_expect(may_go_on(7, 0x8, 7, 0x2 | 0x10), "whom it misses has come, as the other can tell");
  cr_expect_not(may_go_on(7, 0x8, 7, 0x2 | 0x8), "both miss the same");
  cr_expect(may_go_on(7, 0, 7, 0x8), "one that cannot say whom it misses knows nothing");
}

Test(neighbours, only_those_on_this_processor_count) {
  shm_stand_t own = {0}, peer = {0};
  shm_stand_tell(&own, 7, 0x8);
  cr_expect(shm_stand_may_go_on(&peer, &own, 1), "who has not told yet may be here");
  shm_stand_tell(&peer, 6, 0);
  peer.processor = own.processor + 1;
  cr_expect_not(shm_stand_may_go_on(&peer, &own, 1));
}
