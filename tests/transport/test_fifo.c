/*
 * One ring with both ends in one thread, so that any order of puts and takes can be tested. A model
 * records what was put and not taken; bytes that were overwritten too early would differ.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "transport/kit_steps.h"
#include "transport/shm/fifo.h"

enum { DESCS_MAX = 1024 };

typedef struct pair {
  shm_layout_t layout;
  int channel;
  bool hot; /* whether to use hot slots */
  shm_ring_t *ring;
  shm_outgoing_t out;
  shm_incoming_t in;
  uint64_t put, taken, acked;
  size_t bytes[DESCS_MAX]; /* of message n at [n % DESCS_MAX] */
  unsigned char *data;     /* [slot_bytes] */
} pair_t;

static void make_pair(pair_t *p, int ranks, int channel) {
  *p = (pair_t){.channel = channel};
  shm_layout_compute(ranks, SHM_SCOPE_ALL, &p->layout);
  p->ring = aligned_alloc(SHM_LINE_PAIR, shm_layout_ring_stride(&p->layout, channel));
  p->data = malloc(p->layout.slot_bytes);
  cr_assert(p->ring != NULL && p->data != NULL);
  memset(p->ring, 0, shm_layout_ring_stride(&p->layout, channel));
  shm_outgoing_init(&p->out, &p->layout, channel, p->ring);
  shm_incoming_init(&p->in, &p->layout, channel, p->ring);
}

static void free_pair(pair_t *p) {
  free(p->ring);
  free(p->data);
}

static bool put(pair_t *p, size_t bytes) {
  transport_head_t head = {.call = kit_id(p->put), .bytes = bytes};
  kit_fill(p->data, p->put, bytes);
  bool is_put = head.bytes <= SHM_INLINE_BYTES
                    ? shm_outgoing_put_short(&p->out, p->data, head)
                    : shm_outgoing_put_long(&p->out, p->data, head, p->hot);
  if (!is_put) return false;
  cr_assert_lt(p->put - p->taken, DESCS_MAX, "more messages than descriptors");
  p->bytes[p->put++ % DESCS_MAX] = bytes;
  return true;
}

static void take(pair_t *p) {
  transport_head_t head;
  size_t bytes = p->bytes[p->taken % DESCS_MAX];
  const shm_desc_t *descriptor = shm_incoming_poll(&p->in, &head);
  cr_assert_not_null(descriptor, "message %d is missing", (int)p->taken);
  cr_assert(flight_call_is(head.call, kit_id(p->taken)) && head.bytes == bytes,
            "message %d has another header", (int)p->taken);
  const void *at = bytes <= SHM_INLINE_BYTES ? (const void *)descriptor->payload
                                             : shm_incoming_payload(&p->in, descriptor);
  cr_assert(kit_is(at, p->taken, bytes), "message %d changed", (int)p->taken);
  p->taken++;
  p->acked += shm_incoming_take(&p->in);
}

static void take_all(pair_t *p) {
  transport_head_t head;
  while (p->taken < p->put) take(p);
  cr_assert_null(shm_incoming_poll(&p->in, &head), "an unexpected message");
}

static size_t pages_of(const char *bytes, size_t count) {
  enum { PAGE = 4096, PAGES_MAX = 256 };
  unsigned char here[PAGES_MAX];
  size_t pages = 0;
  cr_assert_leq(count / PAGE, PAGES_MAX);
  cr_assert_eq(mincore((void *)(uintptr_t)bytes, count, here), 0);
  for (size_t i = 0; i < count / PAGE; i++) pages += here[i] & 1;
  return pages;
}

/* Otherwise a ring has page faults in the middle of calls during its first lap. */
static void fault_in(int channel) {
  pair_t p;
  make_pair(&p, 2, channel);
  size_t stride = shm_layout_ring_stride(&p.layout, channel);
  size_t bytes = p.layout.ring_bytes[channel];
  free(p.ring);
  p.ring =
      mmap(NULL, stride, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  cr_assert_neq(p.ring, MAP_FAILED);
  shm_outgoing_init(&p.out, &p.layout, channel, p.ring);
  shm_incoming_init(&p.in, &p.layout, channel, p.ring);
  uintptr_t first = ((uintptr_t)p.out.bytes + 4095) & ~(uintptr_t)4095;
  const char *inner = (const char *)first;
  size_t whole = bytes - 4096;
  cr_assert(put(&p, SHM_INLINE_BYTES));
  cr_assert_lt(pages_of(inner, whole), whole / 4096, "pages populated before they are needed");
  cr_assert(put(&p, SHM_INLINE_BYTES + 1));
  cr_assert_eq(pages_of(inner, whole), whole / 4096, "pages are not populated");
  take_all(&p);
  munmap(p.ring, stride);
  free(p.data);
}

Test(fifo, populates_all_pages_with_the_first_payload) {
  for (int channel = 0; channel < TRANSPORT_CHANNELS; channel++) fault_in(channel);
}

/* Short payloads are followed by padding, the shortest by the most; with it they take no more than
 * a slot, on which the capacity of a ring is based. */
Test(fifo, pads_short_payloads_within_a_slot) {
  for (int ranks = 2; ranks <= 64; ranks *= 2) {
    pair_t p;
    make_pair(&p, ranks, 0);
    uint32_t slot = (uint32_t)p.layout.slot_bytes, padding = p.layout.padding_bytes;
    for (uint32_t run = BASE_CACHE_LINE; run <= slot; run += BASE_CACHE_LINE) {
      uint32_t begin = p.out.position, left = -begin & p.out.byte_mask;
      cr_assert(put(&p, run));
      uint32_t taken = p.out.position - begin, wanted = run <= 4 * padding ? 2 * padding : padding;
      if (run > slot / SHM_PADDED_DIVISOR) wanted = 0;
      if (left > 0 && left < run) taken -= left; /* the end of the ring stayed unused */
      cr_assert(taken == run + wanted && taken <= slot, "%d ranks, %d bytes take %d", ranks,
                (int)run, (int)taken);
      take_all(&p);
    }
    free_pair(&p);
  }
}

typedef size_t size_function(const shm_layout_t *layout, unsigned *seed);

static size_t longest(const shm_layout_t *layout, unsigned *seed) {
  (void)seed;
  return layout->slot_bytes;
}

static size_t odd_and_long(const shm_layout_t *layout, unsigned *seed) {
  return layout->slot_bytes - 1 - (unsigned)rand_r(seed) % 130;
}

static size_t inline_only(const shm_layout_t *layout, unsigned *seed) {
  (void)layout;
  return (unsigned)rand_r(seed) % (SHM_INLINE_BYTES + 1);
}

static size_t any(const shm_layout_t *layout, unsigned *seed) {
  unsigned kind = (unsigned)rand_r(seed) % 4;
  if (kind == 0) return inline_only(layout, seed);
  if (kind == 1) return odd_and_long(layout, seed);
  return (unsigned)rand_r(seed) % (kind == 2 ? 200u : (unsigned)layout->slot_bytes + 1);
}

static size_t around_hot(const shm_layout_t *layout, unsigned *seed) {
  size_t bytes = (unsigned)rand_r(seed) % (SHM_HOT_BYTES + SHM_HOT_BYTES / 4);
  return bytes < layout->slot_bytes ? bytes : layout->slot_bytes;
}

static size_function *const size_functions[] = {longest, odd_and_long, inline_only, any,
                                                around_hot};

/* After any sequence of puts and takes, at any position in the ring, a sender is refused only while
 * TRANSPORT_DEPTH messages are not taken. */
static void hold_the_depth(int ranks, int channel, size_function *size, unsigned seed) {
  enum { STEPS = 3000 };
  pair_t p;
  make_pair(&p, ranks, channel);
  for (int step = 0; step < STEPS; step++) {
    uint64_t waiting = p.put - p.taken;
    uint64_t most = step / 500 % 2 == 0 ? TRANSPORT_DEPTH : UINT64_MAX;
    p.out.policy.store = step / 250 % 2 == 0 ? SHM_STORE_CACHED : SHM_STORE_NONTEMPORAL;
    p.hot = (unsigned)rand_r(&seed) % 16 < 8 * (unsigned)(step / 125 % 3);
    if (waiting < most && rand_r(&seed) % 16 < 9) {
      bool done = put(&p, size(&p.layout, &seed));
      cr_assert(done || waiting >= TRANSPORT_DEPTH, "%d ranks, channel %d: full with %d messages",
                ranks, channel, (int)waiting);
    } else if (waiting > 0) {
      take(&p);
    }
  }
  take_all(&p);
  free_pair(&p);
}

Test(fifo, holds_the_depth_whatever_was_acknowledged) {
  static const int ranks[] = {2, 8, 64};
  for (size_t r = 0; r < sizeof ranks / sizeof ranks[0]; r++) {
    for (size_t f = 0; f < sizeof size_functions / sizeof size_functions[0]; f++) {
      for (int channel = 0; channel < TRANSPORT_CHANNELS; channel++) {
        hold_the_depth(ranks[r], channel, size_functions[f], (unsigned)(17 * r + f + 1));
      }
    }
  }
}

/* The sender can fill all descriptors, and the receiver acknowledges only twice per lap. */
Test(fifo, acknowledges_small_messages_rarely) {
  pair_t p;
  make_pair(&p, 2, 0);
  for (int round = 0; round < 10; round++) {
    while (put(&p, 8)) continue;
    cr_assert_eq(p.put - p.taken, p.layout.descriptors[0]);
    take_all(&p);
  }
  cr_assert_eq(p.acked, 20);
  free_pair(&p);
}

/* Offset of the oldest message's payload. */
static uint32_t offset_of_next(const pair_t *p) {
  transport_head_t head;
  const shm_desc_t *descriptor = shm_incoming_poll(&p->in, &head);
  cr_assert(descriptor != NULL && head.bytes > SHM_INLINE_BYTES);
  return descriptor->offset;
}

/* Hot payloads rotate through the few hot slots; others, and those that do not fit, through the
 * whole ring. */
Test(fifo, keeps_hot_payloads_in_few_slots) {
  static const size_t sizes[] = {SHM_INLINE_BYTES + 1, SHM_HOT_BYTES, SHM_HOT_BYTES + 1};
  pair_t p;
  make_pair(&p, 2, 0);
  for (int hot = 0; hot <= 1; hot++) {
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
      uint32_t least = UINT32_MAX, most = 0;
      p.hot = hot == 1;
      for (int message = 0; message < 5 * SHM_HOT_SLOTS; message++) {
        cr_assert(put(&p, sizes[i]));
        uint32_t offset = offset_of_next(&p);
        if (offset < least) least = offset;
        if (offset > most) most = offset;
        take_all(&p);
      }
      bool fits = p.hot && sizes[i] <= SHM_HOT_BYTES;
      cr_assert_eq(least >= p.layout.ring_bytes[0], fits);
      if (fits) cr_assert_eq(most - least, (SHM_HOT_SLOTS - 1) * SHM_HOT_STRIDE);
      cr_assert_leq(most + sizes[i], shm_layout_ring_stride(&p.layout, 0));
    }
  }
  free_pair(&p);
}

/* A sender without a free hot slot gets two as soon as the first two messages are taken. */
Test(fifo, acknowledges_hot_slots_often) {
  pair_t p;
  make_pair(&p, 2, 0);
  p.hot = true;
  while (put(&p, SHM_HOT_BYTES)) continue;
  cr_assert_eq(p.put - p.taken, SHM_HOT_SLOTS);
  for (int round = 0; round < 20; round++) {
    for (int n = 0; n < SHM_HOT_ACK_INTERVAL; n++) {
      cr_assert_not(put(&p, SHM_HOT_BYTES), "a slot that was not taken");
      take(&p);
    }
    for (int n = 0; n < SHM_HOT_ACK_INTERVAL; n++)
      cr_assert(put(&p, SHM_HOT_BYTES), "it is taken and acknowledged");
  }
  cr_assert_eq(p.acked, 20);
  free_pair(&p);
}

/* A sender whose messages are all taken has the whole ring again, at any position. */
Test(fifo, wraps_without_losing_room) {
  pair_t p;
  make_pair(&p, 2, 1);
  size_t size = p.layout.slot_bytes / 3;
  for (int round = 0; round < 100; round++) {
    uint64_t count = 0;
    while (put(&p, size)) count++;
    cr_assert_geq((count + 3) * (size + p.layout.padding_bytes + 64),
                  (size_t)p.layout.ring_bytes[p.channel] - SHM_UNACKED_SLOTS * p.layout.slot_bytes,
                  "round %d: only %d messages", round, (int)count);
    take_all(&p);
  }
  free_pair(&p);
}

#if BASE_MOVES_PAST_CACHES
/* Payloads of a slot each; the first starts a trial. */
Test(fifo, samples_both_stores_in_a_trial) {
  pair_t p;
  make_pair(&p, 2, 0);
  const shm_policy_t *policy = &p.out.policy;
  p.out.policy.bytes_to_trial = 1;
  for (int sample = 1; sample <= SHM_POLICY_SAMPLES; sample++) {
    cr_assert(put(&p, p.layout.slot_bytes));
    take_all(&p);
    cr_assert_eq(policy->samples[SHM_STORE_CACHED], sample);
    cr_assert_eq(policy->samples[SHM_STORE_NONTEMPORAL], sample - 1);
    cr_assert(put(&p, p.layout.slot_bytes));
    take_all(&p);
  }
  cr_assert_gt(policy->bytes_to_trial, 1, "the trial is over");
  free_pair(&p);
}
#endif

/* Counts and positions work across the overflow at 2^32. */
static void run_across_overflow(int channel) {
  pair_t p;
  unsigned seed = 5;
  make_pair(&p, 2, channel);
  uint64_t sent = UINT32_MAX - 10;
  shm_progress_t start = {.descriptors = (uint32_t)sent};
  start.position -= p.layout.ring_bytes[channel];
  p.out.sent = p.in.received = sent;
  p.out.position = start.position;
  p.out.full_at = start.descriptors + p.layout.descriptors[channel];
  p.out.full_end = start.position + p.layout.ring_bytes[channel];
  p.in.ack_at = start.descriptors + p.in.unacked_descs_max;
  p.in.position = p.in.acked_position = start.position;
  atomic_store(&p.ring->taken, start.word);
  for (int round = 0; round < 200; round++) {
    do {
      p.hot = (unsigned)rand_r(&seed) % 4 < (unsigned)round % 4;
    } while (put(&p, any(&p.layout, &seed)));
    cr_assert_geq(p.put - p.taken, TRANSPORT_DEPTH);
    take_all(&p);
  }
  free_pair(&p);
}

Test(fifo, survives_counter_overflow) {
  for (int channel = 0; channel < TRANSPORT_CHANNELS; channel++) run_across_overflow(channel);
}
