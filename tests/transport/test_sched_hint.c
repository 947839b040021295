/* When a waiting rank gives its core to another on the same processor. */
#include <criterion/criterion.h>
#include <sched.h>

#include "transport/shm/sched_hint.h"

#define SENT true
#define NOT_SENT false

/* Rank 1 checks rank 2, both on this processor; rank 1 has sent to it, or not. */
static bool may_advance(uint64_t progress, uint64_t missing, uint64_t peers_progress,
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

Test(sched_hint, a_peer_with_less_progress_may_advance) {
  cr_expect(may_advance(7, 0x8, 6, 0x8, NOT_SENT));
  cr_expect_not(may_advance(7, 0x4, 8, 0x10, NOT_SENT), "a rank that is ahead waits for others");
}

Test(sched_hint, equal_progress_depends_on_the_missing_ranks) {
  cr_expect(may_advance(7, 0x4 | 0x8, 7, 0x2, SENT), "it waits only for us, and we have sent");
  cr_expect(may_advance(7, 0x8, 7, 0x2 | 0x10, SENT), "we do not miss the rank that it waits for");
  cr_expect_not(may_advance(7, 0x8, 7, 0x2 | 0x8, SENT), "both wait for the same rank");
  cr_expect(may_advance(7, 0, 7, 0x8, NOT_SENT),
            "without missing ranks of our own nothing is in common");
}

Test(sched_hint, a_peer_that_waits_for_us_advances_after_a_send) {
  cr_expect_not(may_advance(7, 0x8, 7, 0x2, NOT_SENT));
  cr_expect_not(may_advance(7, 0x8, 6, 0x2, NOT_SENT), "even with less progress");
  shm_hint_t own = {0}, peer = {0};
  shm_unseen_t unseen = {0};
  shm_hint_publish(&own, 7, 0x8);
  shm_hint_publish(&peer, 7, 0x2);
  peer.processor = own.processor;
  cr_expect(shm_hint_may_advance(&peer, &unseen, SENT, &own, 1));
  cr_expect(shm_hint_may_advance(&peer, &unseen, NOT_SENT, &own, 1), "it has not run since");
  shm_hint_publish(&peer, 7, 0x2);
  peer.processor = own.processor;
  cr_expect_not(shm_hint_may_advance(&peer, &unseen, NOT_SENT, &own, 1),
                "it has run, and still waits");
}

Test(sched_hint, peers_on_other_processors_do_not_count) {
  shm_hint_t own = {0}, peer = {0};
  shm_unseen_t unseen = {0};
  shm_hint_publish(&own, 7, 0x8);
  cr_expect(shm_hint_may_advance(&peer, &unseen, NOT_SENT, &own, 1), "a peer that never published");
  shm_hint_publish(&peer, 6, 0);
  peer.processor = own.processor + 1;
  cr_expect_not(shm_hint_may_advance(&peer, &unseen, NOT_SENT, &own, 1));
}

/* Rank 1 checks rank 2 on another processor; rank 3 is there too, rank 4 is on rank 1's. */
Test(sched_hint, a_running_peer_on_another_processor_will_advance) {
  shm_hint_t peer = {.processor = 5}, other = {.processor = 5};
  cr_expect(shm_hint_will_advance(&peer, 0x10, shm_hint_running_core(&peer)), "it runs");
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
            "no rank runs on its processor");
}

Test(sched_hint, shares_core_compares_processors) {
  shm_hint_t own = {.processor = 5}, peer = {.processor = 5}, other = {.processor = 6}, none = {0};
  cr_expect(shm_hint_shares_core(&peer, &own));
  cr_expect_not(shm_hint_shares_core(&other, &own));
  cr_expect_not(shm_hint_shares_core(&none, &own));
}

Test(sched_hint, yield_clears_the_missing_ranks) {
  shm_hint_t own = {0};
  shm_hint_publish(&own, 7, 0x8);
  shm_hint_yield(&own);
  cr_expect_eq(own.missing, 0);
  cr_expect_neq(shm_hint_running_core(&own), 0, "it runs");
}
