/* When a rank that waits gives its core to one that shares it. */
#include <criterion/criterion.h>
#include <sched.h>

#include "transport/shm/sched_hint.h"

#define SENT true
#define SILENT false

/* Rank 1 asks about rank 2, both on this processor; rank 1 has sent to it, or not. */
static bool may_go_on(uint64_t progress, uint64_t missing, uint64_t peers_progress,
                      uint64_t peers_missing, bool sent) {
  shm_hint_t own = {0}, peer = {0};
  shm_unseen_t unseen = {0};
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  cr_assert_eq(sched_setaffinity(0, sizeof one, &one), 0);
  shm_hint_publish(&own, progress, missing);
  shm_hint_publish(&peer, peers_progress, peers_missing);
  return shm_hint_may_advance(&peer, &unseen, sent, &own, 1);
}

Test(neighbours, one_that_is_behind_comes_first) {
  cr_expect(may_go_on(7, 0x8, 6, 0x8, SILENT));
  cr_expect_not(may_go_on(7, 0x4, 8, 0x10, SILENT), "who is ahead can only wait for others");
}

Test(neighbours, at_the_same_place_it_depends_on_who_is_missed) {
  cr_expect(may_go_on(7, 0x4 | 0x8, 7, 0x2, SENT), "it misses only the one that asks");
  cr_expect(may_go_on(7, 0x8, 7, 0x2 | 0x10, SENT), "whom it misses has come, as the other knows");
  cr_expect_not(may_go_on(7, 0x8, 7, 0x2 | 0x8, SENT), "both miss the same");
  cr_expect(may_go_on(7, 0, 7, 0x8, SILENT), "one that cannot say whom it misses knows nothing");
}

Test(neighbours, one_that_misses_the_asker_needs_to_be_sent_something) {
  cr_expect_not(may_go_on(7, 0x8, 7, 0x2, SILENT));
  cr_expect_not(may_go_on(7, 0x8, 6, 0x2, SILENT), "behind or not");
  shm_hint_t own = {0}, peer = {0};
  shm_unseen_t unseen = {0};
  shm_hint_publish(&own, 7, 0x8);
  shm_hint_publish(&peer, 7, 0x2);
  peer.processor = own.processor;
  cr_expect(shm_hint_may_advance(&peer, &unseen, SENT, &own, 1));
  cr_expect(shm_hint_may_advance(&peer, &unseen, SILENT, &own, 1), "it has not run since");
  shm_hint_publish(&peer, 7, 0x2);
  peer.processor = own.processor;
  cr_expect_not(shm_hint_may_advance(&peer, &unseen, SILENT, &own, 1), "it has, and still waits");
}

Test(neighbours, only_those_on_this_processor_count) {
  shm_hint_t own = {0}, peer = {0};
  shm_unseen_t unseen = {0};
  shm_hint_publish(&own, 7, 0x8);
  cr_expect(shm_hint_may_advance(&peer, &unseen, SILENT, &own, 1), "one that never updates may be");
  shm_hint_publish(&peer, 6, 0);
  peer.processor = own.processor + 1;
  cr_expect_not(shm_hint_may_advance(&peer, &unseen, SILENT, &own, 1));
}

/* Rank 1 asks about rank 2, which is elsewhere; rank 3 is there with it, rank 4 here. */
Test(neighbours, whoever_has_a_core_elsewhere_may_soon_bring_news) {
  shm_hint_t peer = {.processor = 5}, other = {.processor = 5};
  cr_expect(shm_hint_will_advance(&peer, 0x10, shm_hint_running_core(&peer)), "it works");
  peer.missing = 0x8;
  cr_expect(shm_hint_will_advance(&peer, 0x10, shm_hint_running_core(&peer)),
            "it waits for rank 3");
  peer.missing = 0x8 | 0x10;
  cr_expect_not(shm_hint_will_advance(&peer, 0x10, shm_hint_running_core(&peer)),
                "it waits for rank 4");
  peer.yielded = true;
  cr_expect_not(shm_hint_will_advance(&peer, 0x10, shm_hint_running_core(&other)),
                "rank 3 has the core");
  other.yielded = true;
  cr_expect(shm_hint_will_advance(&peer, 0x10, shm_hint_running_core(&other)),
            "its core is being given on");
}

Test(neighbours, are_those_on_the_same_processor) {
  shm_hint_t own = {.processor = 5}, peer = {.processor = 5}, far = {.processor = 6}, none = {0};
  cr_expect(shm_hint_shares_core(&peer, &own));
  cr_expect_not(shm_hint_shares_core(&far, &own));
  cr_expect_not(shm_hint_shares_core(&none, &own));
}

Test(neighbours, forget_whom_they_missed_once_they_have_the_core_again) {
  shm_hint_t own = {0};
  shm_hint_publish(&own, 7, 0x8);
  shm_hint_yield(&own);
  cr_expect_eq(own.missing, 0);
  cr_expect_neq(shm_hint_running_core(&own), 0, "it has the core");
}
