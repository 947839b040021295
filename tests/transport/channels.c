/* Cases about further channels, which transports make when they are first used. A transport without
 * any says so. */
#include "base/clock.h"
#include "transport/kit.h"
#include "transport/kit_steps.h"

static int first_further(transport_t *t, int peer) {
  return t->ops->used_channel(t, peer, TRANSPORT_CHANNELS);
}

/* Whether the transport has further channels; if not, its port says why. */
static int find_further(transport_t *t, int peer, bool *has) {
  base_fail(COLL_OK, "%s", "");
  *has = t->ops->port(t, peer, TRANSPORT_CHANNELS) != NULL;
  KIT_REQUIRE(*has || base_last_error()[0] != '\0', "does not say why there is no channel %d",
              TRANSPORT_CHANNELS);
  KIT_REQUIRE(first_further(t, peer) == TRANSPORT_CHANNELS_MAX,
              "channel %d is in use before anything was sent", first_further(t, peer));
  return 0;
}

static const int channels[] = {TRANSPORT_CHANNELS, TRANSPORT_CHANNELS + 13, 0,
                               TRANSPORT_CHANNELS + 4};
static const int further_in_order[] = {TRANSPORT_CHANNELS, TRANSPORT_CHANNELS + 4,
                                       TRANSPORT_CHANNELS + 13, TRANSPORT_CHANNELS_MAX};
enum { CHANNELS = sizeof channels / sizeof channels[0], MESSAGES = 200 };

/* The further channels that the transport reports are those of `channels`. */
static int expect_used(transport_t *t, int peer) {
  int channel = first_further(t, peer);
  for (int i = 0; i < 4; i++) {
    KIT_REQUIRE(channel == further_in_order[i], "reports channel %d instead of %d", channel,
                further_in_order[i]);
    channel = t->ops->used_channel(t, peer, channel + 1);
  }
  return 0;
}

/* One message or signal of each kind on the i-th channel, where that is possible. */
static int advance(transport_t *t, int next, int previous, int i, uint64_t done_of[4]) {
  int channel = channels[i];
  uint64_t base = 10000 * (uint64_t)channel;
  size_t bytes = 30 * (size_t)i;
  bool done = false;
  if (done_of[0] < MESSAGES) {
    KIT_TRY(kit_send_try(t, next, channel, base + done_of[0], bytes, &done));
  }
  done_of[0] += done;
  done = false;
  if (done_of[1] < MESSAGES) {
    KIT_TRY(kit_expect_try(t, previous, channel, base + done_of[1], bytes, &done));
  }
  done_of[1] += done;
  done = false;
  if (done_of[2] < MESSAGES) {
    KIT_TRY(kit_signal_try(t, next, channel, base + done_of[2], &done));
  }
  done_of[2] += done;
  done = false;
  if (done_of[3] < MESSAGES) {
    KIT_TRY(kit_wait_try(t, previous, channel, base + done_of[3], &done));
  }
  done_of[3] += done;
  return 0;
}

/* Messages and signals around a ring of ranks on several channels at once, which ranks use in
 * different orders. */
int transport_case_further(const transport_fixture_t *fixture, transport_t **end) {
  (void)fixture;
  transport_t *t = *end;
  int next = (t->rank + 1) % t->size, previous = (t->rank + t->size - 1) % t->size;
  uint64_t done_of[CHANNELS][4] = {{0}}, deadline = kit_deadline_ns(), had = 0, left;
  bool has;
  KIT_TRY(find_further(t, next, &has));
  harness_barrier();
  if (!has) return 0;
  do {
    left = 0;
    for (int i = 0; i < CHANNELS; i++) {
      int each = (i + t->rank) % CHANNELS;
      KIT_TRY(advance(t, next, previous, each, done_of[each]));
      for (int kind = 0; kind < 4; kind++) left += MESSAGES - done_of[each][kind];
    }
    KIT_TRY(kit_require_progress(t, CHANNELS * 4 * MESSAGES - left, &had, &deadline));
    kit_pause();
  } while (left > 0);
  for (int i = 0; i < CHANNELS; i++) KIT_TRY(kit_expect_nothing(t, previous, channels[i]));
  KIT_TRY(expect_used(t, previous));
  return expect_used(t, next);
}

/* A rank finds what was sent to it on a channel that it has never used. */
int transport_case_further_pending(const transport_fixture_t *fixture, transport_t **end) {
  (void)fixture;
  transport_t *t = *end;
  int sender = 0, receiver = t->size - 1, channel = TRANSPORT_CHANNELS + 6;
  flight_call_t call;
  bool has = true;
  if (t->rank == sender) KIT_TRY(find_further(t, receiver, &has));
  if (t->rank == sender && has) KIT_TRY(kit_send(t, receiver, channel, 5, 100));
  harness_barrier();
  if (t->rank != receiver || first_further(t, sender) == TRANSPORT_CHANNELS_MAX) return 0;
  KIT_REQUIRE(first_further(t, sender) == channel, "reports channel %d", first_further(t, sender));
  for (int other = TRANSPORT_CHANNELS; other < channel; other++) {
    KIT_REQUIRE(!t->ops->pending_in(t->ops->port(t, sender, other), &call),
                "channel %d has a message that was sent on channel %d", other, channel);
  }
  KIT_REQUIRE(t->ops->pending_in(t->ops->port(t, sender, channel), &call) &&
                  flight_call_is(call, kit_id(5)),
              "the message is not pending");
  return kit_expect(t, sender, channel, 5, 100);
}
