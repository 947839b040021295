/* The decision whether a connection and its host live, of any time and any state of the kernel. */
#include <criterion/criterion.h>
#include <linux/tcp.h>

#include "transport/net/connect/liveness.h"

#define MS UINT64_C(1000000)
#define S (1000 * MS)
#define START_NS (1000 * S)

/* ---- connections ----------------------------------------------------------------------------*/

/* Nothing has come back for as long as `silent_ms`. */
static struct tcp_info sent_info(unsigned silent_ms, unsigned retransmits) {
  return (struct tcp_info){.tcpi_unacked = 1,
                           .tcpi_bytes_acked = 100,
                           .tcpi_last_ack_recv = silent_ms,
                           .tcpi_last_data_recv = silent_ms,
                           .tcpi_retransmits = (unsigned char)retransmits};
}

/* Looked at once, so that what is acknowledged is known. */
static net_acks_t begin(void) {
  net_acks_t acks = {0};
  const struct tcp_info info = sent_info(0, 0);
  net_suspicion_t found = net_liveness_check(&acks, &info, START_NS);
  cr_assert(!found.is_silent && !found.is_resent && !found.is_blocked);
  return acks;
}

Test(net_liveness, looks_ten_times_a_second) {
  const net_acks_t acks = begin();
  cr_assert(!net_liveness_is_due(&acks, START_NS + 100 * MS - 1));
  cr_assert(net_liveness_is_due(&acks, START_NS + 100 * MS));
}

Test(net_liveness, suspects_half_a_second_without_acknowledgement) {
  net_acks_t acks = begin();
  for (unsigned ms = 100; ms <= 1000; ms += 100) {
    const struct tcp_info info = sent_info(ms, 1);
    net_suspicion_t found = net_liveness_check(&acks, &info, START_NS + ms * MS);
    cr_assert(found.is_resent == (ms >= 500), "%u ms", ms);
    cr_assert(found.is_silent == (ms > 500), "%u ms", ms);
    cr_assert(!found.is_blocked);
  }
}

Test(net_liveness, suspects_nothing_that_is_acknowledged_or_idle) {
  net_acks_t moving = begin(), idle = begin();
  for (unsigned ms = 100; ms <= 30000; ms += 100) {
    struct tcp_info info = sent_info(ms, 3);
    info.tcpi_bytes_acked = 100 + ms / 400; /* slowly */
    net_suspicion_t found = net_liveness_check(&moving, &info, START_NS + ms * MS);
    cr_assert(!found.is_silent && !found.is_resent && !found.is_blocked, "%u ms", ms);
    info = sent_info(ms, 0);
    info.tcpi_unacked = 0;
    found = net_liveness_check(&idle, &info, START_NS + ms * MS);
    cr_assert(!found.is_silent && !found.is_resent && !found.is_blocked, "%u ms", ms);
  }
}

/* What waits for room in the socket is unacknowledged too. */
Test(net_liveness, suspects_what_was_not_even_sent) {
  net_acks_t acks = begin();
  struct tcp_info info = sent_info(600, 0);
  info.tcpi_unacked = 0;
  info.tcpi_notsent_bytes = 1;
  cr_assert(!net_liveness_check(&acks, &info, START_NS + 300 * MS).is_silent);
  cr_assert(net_liveness_check(&acks, &info, START_NS + 600 * MS).is_silent);
}

/* The peer does not receive, but its kernel answers. */
Test(net_liveness, a_host_that_sends_anything_is_not_silent) {
  net_acks_t acks = begin();
  struct tcp_info info = sent_info(5000, 0);
  info.tcpi_last_ack_recv = 500;
  for (unsigned ms = 100; ms <= 30000; ms += 100) {
    net_suspicion_t found = net_liveness_check(&acks, &info, START_NS + ms * MS);
    cr_assert(!found.is_silent && !found.is_blocked, "%u ms", ms);
  }
}

Test(net_liveness, is_blocked_after_fifteen_seconds_of_retransmissions) {
  net_acks_t acks = begin(), waiting = begin();
  for (unsigned ms = 100; ms <= 20000; ms += 100) {
    struct tcp_info info = sent_info(100, 5);
    bool is_blocked = net_liveness_check(&acks, &info, START_NS + ms * MS).is_blocked;
    cr_assert(is_blocked == (ms > 15000), "%u ms", ms);
    info = sent_info(100, 0); /* the peer has no room */
    cr_assert(!net_liveness_check(&waiting, &info, START_NS + ms * MS).is_blocked, "%u ms", ms);
  }
}

/* This process computed, or was stopped: what was until then does not count. */
Test(net_liveness, begins_anew_after_a_gap) {
  net_acks_t acks = begin();
  const struct tcp_info info = sent_info(60000, 9);
  uint64_t at_ns = START_NS;
  for (int gap = 0; gap < 20; gap++) {
    at_ns += S + 1;
    net_suspicion_t found = net_liveness_check(&acks, &info, at_ns);
    cr_assert(!found.is_silent && !found.is_resent && !found.is_blocked);
    at_ns += 499 * MS;
    found = net_liveness_check(&acks, &info, at_ns);
    cr_assert(!found.is_silent && !found.is_resent && !found.is_blocked);
  }
  cr_assert(net_liveness_check(&acks, &info, at_ns + MS).is_silent);
}

/* ---- hosts ----------------------------------------------------------------------------------*/

/* When a host is gone that gives these answers, looked at every 100 ms; 0: never, in a minute. */
static uint64_t gone_after_ms(net_answer_t (*answer_at)(unsigned ms)) {
  net_question_t question = {0};
  for (unsigned ms = 0; ms < 60000; ms += 100) {
    uint64_t now_ns = START_NS + ms * MS;
    if (!net_liveness_asks(&question, now_ns)) continue;
    if (net_liveness_is_gone(&question, answer_at(ms), now_ns)) return ms;
  }
  return 0;
}

static net_answer_t never(unsigned ms) {
  (void)ms;
  return NET_ANSWER_NONE;
}

static net_answer_t slowly(unsigned ms) { /* 1.9 s after each question */
  return ms % 2900 == 1900 ? NET_ANSWER_GIVEN : NET_ANSWER_NONE;
}

static net_answer_t until_ten_s(unsigned ms) {
  return ms <= 10000 ? NET_ANSWER_GIVEN : NET_ANSWER_NONE;
}

static net_answer_t cannot_ask(unsigned ms) {
  (void)ms;
  return NET_ANSWER_UNASKED;
}

static net_answer_t can_hardly_ask(unsigned ms) {
  return ms % 1500 == 0 ? NET_ANSWER_UNASKED : NET_ANSWER_NONE;
}

Test(net_liveness, a_host_is_gone_two_seconds_after_it_was_asked) {
  cr_assert(gone_after_ms(never) == 2100);
  cr_assert(gone_after_ms(slowly) == 0);
  cr_assert(gone_after_ms(until_ten_s) == 13100); /* the answer counts for a second */
}

Test(net_liveness, a_host_that_cannot_be_asked_is_not_gone) {
  cr_assert(gone_after_ms(cannot_ask) == 0);
  cr_assert(gone_after_ms(can_hardly_ask) == 0);
}

/* A rank has asked a host, without success, and computed, or was stopped, since. */
Test(net_liveness, a_question_that_nobody_followed_up_does_not_count) {
  net_question_t question = {0};
  uint64_t at_ns = START_NS;
  for (int gap = 0; gap < 20; gap++) {
    cr_assert(net_liveness_asks(&question, at_ns));
    cr_assert(!net_liveness_is_gone(&question, NET_ANSWER_NONE, at_ns));
    cr_assert(question.asked_ns == at_ns);
    at_ns += 20 * S;
  }
}
