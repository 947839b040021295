/* Memory use of a communicator, and separation of its parts. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "transport/shm/layout.h"

#define PAIR SHM_LINE_PAIR

/* P2P rings are as long as coll.h promises and are counted separately: unused parts take no
 * physical memory. */
static void check_memory(shm_scope_t scope, size_t others_max, size_t p2p_max) {
  for (int size = 1; size <= 64; size++) {
    shm_layout_t layout;
    shm_layout_compute(size, scope, &layout);
    size_t p2p = shm_layout_ring_stride(&layout, TRANSPORT_CHANNEL_P2P);
    size_t others = layout.rank_bytes - (size_t)(size - 1) * p2p;
    cr_assert_leq(others, others_max, "%zu bytes per rank with %d ranks", others, size);
    cr_assert_leq(p2p, p2p_max, "%zu bytes per pair with %d ranks", p2p, size);
  }
}

Test(layout, uses_little_memory_per_rank) {
  check_memory(SHM_SCOPE_ALL, (size_t)2 << 20, 3 * TRANSPORT_P2P_BYTES);
  check_memory(SHM_SCOPE_HOST, (size_t)8 << 20, 5 * TRANSPORT_P2P_BYTES);
}

/* Such messages also go between hosts, where each costs much. */
Test(layout, has_long_messages_where_there_are_other_hosts) {
  for (int size = 2; size <= 64; size++) {
    shm_layout_t layout, host;
    shm_layout_compute(size, SHM_SCOPE_ALL, &layout);
    shm_layout_compute(size, SHM_SCOPE_HOST, &host);
    cr_assert_geq(host.slot_bytes, 4 * layout.slot_bytes, "%d ranks", size);
  }
}

/* The ring arithmetic of fifo.h requires it. */
Test(layout, makes_rings_of_powers_of_two) {
  for (int i = 4; i <= 401; i++) {
    int size = i / 2;
    shm_layout_t layout;
    shm_layout_compute(size, i % 2 == 0 ? SHM_SCOPE_ALL : SHM_SCOPE_HOST, &layout);
    for (int channel = 0; channel < TRANSPORT_CHANNELS; channel++) {
      uint32_t bytes = layout.ring_bytes[channel], descriptors = layout.descriptors[channel];
      cr_assert(descriptors >= SHM_DESCS_MIN && (descriptors & (descriptors - 1)) == 0);
      cr_assert((bytes & (bytes - 1)) == 0);
      cr_assert_geq(bytes, SHM_SLOTS * layout.slot_bytes);
    }
    cr_assert(layout.padding_bytes % 64 == 0 && layout.padding_bytes <= layout.slot_bytes / 8);
  }
}

/* So that lines have been evicted from the private caches of their last reader before they are
 * written again. */
Test(layout, gives_two_ranks_rings_of_l2_size) {
  shm_layout_t layout;
  shm_layout_compute(2, SHM_SCOPE_ALL, &layout);
  cr_assert_eq(layout.ring_bytes[0], 1 << 20);
}

Test(layout, gives_more_ranks_scratch_of_a_power_of_two) {
  for (int size = 3; size <= 64; size++) {
    shm_layout_t layout;
    shm_layout_compute(size, SHM_SCOPE_ALL, &layout);
    cr_assert_eq(layout.scratch_bytes, 512 << 10, "%zu bytes with %d ranks", layout.scratch_bytes,
                 size);
  }
}

static bool follows(const void *start, const void *end) {
  return (uintptr_t)start >= (uintptr_t)end;
}

/* Data written by different ranks never shares a pair of cache lines. */
static void check_separation(int size, shm_scope_t scope) {
  shm_layout_t layout;
  char *base = NULL;
  shm_layout_compute(size, scope, &layout);
  const void *end = shm_layout_head(base) + 1;
  for (int source = 0; source < size; source++) {
    const void *mcast = shm_layout_mcast(base, source, 0);
    cr_assert(follows(mcast, end) && (uintptr_t)mcast % PAIR == 0);
    end = shm_layout_mcast(base, source, SHM_MCAST_SLOTS - 1) + 1;
  }
  for (int owner = 0; owner < size; owner++) {
    const void *control = shm_layout_control(&layout, base, owner);
    cr_assert(follows(control, end) && (uintptr_t)control % PAIR == 0);
    end = (const char *)control + sizeof(shm_control_t);
    const void *record = shm_layout_record(&layout, base, owner);
    cr_assert(follows(record, end) && (uintptr_t)record % PAIR == 0);
    end = (const char *)record + sizeof(shm_record_t);
    const void *taken = shm_layout_taken(&layout, base, owner, 0);
    cr_assert(follows(taken, end) && (uintptr_t)taken % PAIR == 0);
    end = shm_layout_taken(&layout, base, owner, size - 1) + 1;
    const void *used = shm_layout_used(&layout, base, owner, 0, 0);
    cr_assert(follows(used, end) && (uintptr_t)used % PAIR == 0);
    end = shm_layout_used(&layout, base, owner, size - 1, TRANSPORT_CHANNELS) + 1;
    for (uint64_t message = 0; layout.mcast_bytes > 0 && message < SHM_MCAST_SLOTS; message++) {
      const void *bytes = shm_layout_mcast_bytes(&layout, base, owner, message, layout.mcast_bytes);
      cr_assert(follows(bytes, end) && (uintptr_t)bytes % PAIR == 0);
      end = (const char *)bytes + layout.mcast_bytes;
    }
    for (int source = 0; source < size; source++) {
      for (int channel = 0; source != owner && channel < TRANSPORT_CHANNELS; channel++) {
        const shm_signals_t *signals = shm_layout_signals(&layout, base, owner, source, channel);
        cr_assert(follows(signals, end) && (uintptr_t)signals % PAIR == 0);
        cr_assert(follows(&signals->taken, signals->slots + SHM_SIGNALS));
        cr_assert_eq((uintptr_t)&signals->taken % PAIR, 0);
        end = signals + 1;
      }
    }
    for (int source = 0; source < size; source++) {
      for (int channel = 0; source != owner && channel < TRANSPORT_CHANNELS; channel++) {
        shm_ring_t *ring = shm_layout_ring(&layout, base, owner, source, channel);
        cr_assert(follows(ring, end) && (uintptr_t)ring % PAIR == 0);
        const void *slots = ring->slots, *bytes = shm_layout_ring_bytes(&layout, channel, ring);
        cr_assert(follows(slots, ring + 1) && (uintptr_t)slots % PAIR == 0);
        cr_assert(follows(bytes, ring->slots + layout.descriptors[channel]));
        end = (const char *)bytes + layout.ring_bytes[channel] +
              shm_layout_hot_bytes(&layout, channel);
      }
    }
    const void *scratch = shm_layout_scratch(&layout, base, owner);
    cr_assert(follows(scratch, end));
    end = (const char *)scratch + layout.scratch_bytes;
  }
  cr_assert_leq((uintptr_t)end, layout.segment_bytes);
}

/* ---- many ranks -----------------------------------------------------------------------------*/

typedef struct range {
  uintptr_t begin, end;
} range_t;

typedef struct ranges {
  range_t *of;
  size_t count;
} ranges_t;

static void add(ranges_t *ranges, const void *begin, size_t bytes) {
  cr_assert_eq((uintptr_t)begin % PAIR, 0);
  ranges->of[ranges->count++] = (range_t){(uintptr_t)begin, (uintptr_t)begin + bytes};
}

static int compare_ranges(const void *a, const void *b) {
  const range_t *left = a, *right = b;
  return left->begin < right->begin ? -1 : left->begin > right->begin;
}

static void add_fifo(ranges_t *ranges, const shm_layout_t *layout, int owner, int source,
                     int channel) {
  add(ranges, shm_layout_signals(layout, NULL, owner, source, channel), sizeof(shm_signals_t));
  add(ranges, shm_layout_ring(layout, NULL, owner, source, channel),
      shm_layout_ring_stride(layout, channel));
}

static void add_rank(ranges_t *ranges, const shm_layout_t *layout, int owner) {
  size_t size = (size_t)layout->size;
  add(ranges, shm_layout_mcast(NULL, owner, 0), SHM_MCAST_SLOTS * sizeof(shm_slot_t));
  add(ranges, shm_layout_control(layout, NULL, owner), sizeof(shm_control_t));
  add(ranges, shm_layout_record(layout, NULL, owner), sizeof(shm_record_t));
  add(ranges, shm_layout_taken(layout, NULL, owner, 0), size * sizeof(shm_taken_t));
  add(ranges, shm_layout_used(layout, NULL, owner, 0, 0),
      size * SHM_USED_WORDS * sizeof(shm_used_t));
  add(ranges, shm_layout_scratch(layout, NULL, owner), layout->scratch_bytes);
  for (uint64_t message = 0; message < SHM_MCAST_SLOTS; message++) {
    size_t bytes = layout->mcast_short_bytes;
    add(ranges, shm_layout_mcast_bytes(layout, NULL, owner, message, bytes), bytes);
    bytes = layout->mcast_bytes;
    add(ranges, shm_layout_mcast_bytes(layout, NULL, owner, message, bytes), bytes);
  }
  for (int source = 0; source < layout->size; source++) {
    for (int channel = 0; source != owner && channel < TRANSPORT_CHANNELS; channel++) {
      add_fifo(ranges, layout, owner, source, channel);
    }
  }
}

static void check_many(int size, shm_scope_t scope) {
  shm_layout_t layout;
  size_t each = 6 + 2 * SHM_MCAST_SLOTS + (size_t)size * TRANSPORT_CHANNELS * 2;
  ranges_t ranges = {.of = malloc((size_t)size * each * sizeof(range_t))};
  shm_layout_compute(size, scope, &layout);
  cr_assert_gt(layout.mcast_short_bytes, SHM_INLINE_BYTES);
  uintptr_t end = (uintptr_t)(shm_layout_head(NULL) + 1);
  for (int owner = 0; owner < size; owner++) add_rank(&ranges, &layout, owner);
  qsort(ranges.of, ranges.count, sizeof *ranges.of, compare_ranges);
  for (size_t i = 0; i < ranges.count; i++) {
    cr_assert_geq(ranges.of[i].begin, end, "part %zu of %d ranks overlaps another", i, size);
    end = ranges.of[i].end;
  }
  cr_assert_leq(end, layout.segment_bytes);
  free(ranges.of);
}

Test(layout, gives_many_ranks_parts_that_do_not_overlap) {
  check_many(65, SHM_SCOPE_ALL);
  check_many(200, SHM_SCOPE_ALL);
  check_many(65, SHM_SCOPE_HOST);
}

/* A rank that reads a short multicast message of each of 1,000 peers, and their control words,
 * fills a few pages of its page table. */
Test(layout, puts_what_many_ranks_read_of_each_other_close_together) {
  const size_t page_of_table = (size_t)2 << 20;
  shm_layout_t layout;
  shm_layout_compute(1000, SHM_SCOPE_ALL, &layout);
  const char *first = shm_layout_mcast_bytes(&layout, NULL, 0, 0, layout.mcast_short_bytes);
  const char *last = shm_layout_mcast_bytes(&layout, NULL, 999, 7, layout.mcast_short_bytes);
  cr_assert_leq((size_t)(last - first), 3 * page_of_table);
  first = (const char *)shm_layout_control(&layout, NULL, 0);
  last = (const char *)shm_layout_control(&layout, NULL, 999);
  cr_assert_leq(last - first, page_of_table);
}

/* The FIFOs of a further channel follow each other without a gap or an overlap. */
static void check_further(int size, shm_scope_t scope) {
  shm_layout_t layout;
  char *part = NULL;
  const void *end = part;
  shm_layout_compute(size, scope, &layout);
  for (int owner = 0; owner < size; owner++) {
    for (int source = 0; source < size; source++) {
      if (source == owner) continue;
      const shm_signals_t *signals = shm_layout_further_signals(&layout, part, owner, source);
      shm_ring_t *ring = shm_layout_further_ring(&layout, part, owner, source);
      cr_assert(follows(signals, end) && (uintptr_t)signals % PAIR == 0);
      cr_assert(follows(ring, signals + 1) && (uintptr_t)ring % PAIR == 0);
      end = shm_layout_ring_bytes(&layout, 1, ring) + layout.ring_bytes[1];
    }
  }
  cr_assert_leq((uintptr_t)end, layout.further_bytes);
}

Test(layout, gives_further_channels_lines_of_their_own) {
  static const int sizes[] = {2, 3, 7, 64};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    check_further(sizes[i], SHM_SCOPE_ALL);
    check_further(sizes[i], SHM_SCOPE_HOST);
  }
}

Test(layout, gives_every_writer_lines_of_its_own) {
  static const int sizes[] = {2, 3, 7, 64};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    check_separation(sizes[i], SHM_SCOPE_ALL);
    check_separation(sizes[i], SHM_SCOPE_HOST);
  }
}
