/*
 * Computes the layout of the segment. The rings of a rank divide a fixed budget of memory; slots
 * shrink with the number of ranks down to their smallest useful size, and only beyond that the
 * memory per communicator grows with the square of the number of ranks.
 *
 * What a region has left is given to the rings of channel 0, which carry nearly all traffic of
 * collectives, up to the size of a core's own caches. Writing a line that its last reader still
 * caches, or reading one that its writer still caches, takes a transfer between the cores. If the
 * two share their L3, that takes two to three times as long as finding the line in the L3, where it
 * is evicted to if the ring is long enough. For short payloads a ring that fits into the L1 caches
 * is better still: those are the hot slots behind the ring.
 */
#include "transport/shm/layout.h"

#include <assert.h>

#include "base/alloc.h"

#define PAGE_BYTES 4096
#define MCAST_OFFSET sizeof(shm_head_t)
#define RINGS_BUDGET_BYTES ((size_t)1 << 20)
#define RINGS_BUDGET_BYTES_OF_HOST ((size_t)8 << 20)
#define DESCS_BUDGET_BYTES ((size_t)128 << 10)
#define DESCS_MAX 64 /* messages by which a rank may run ahead of its peer in small calls */
#define SLOT_BYTES_MAX ((size_t)32 << 10)
#define SLOT_BYTES_MAX_OF_HOST ((size_t)128 << 10)
#define SLOT_BYTES_MIN ((size_t)512)
#define PADDING_BYTES_MAX 512
#define HOT_SLOT_BYTES_MIN \
  ((size_t)4 << 10) /* smallest slot_bytes for which rings have hot slots */
#define SCRATCH_BYTES ((size_t)512 << 10)
#define SCRATCH_BYTES_OF_TWO \
  ((size_t)480 << 10)  /* for 2 ranks, whose ring of 1 MiB needs the rest */
#define REGIONS_MAX 64 /* more ranks have no region each; parts of one kind are together */
/* Then short payloads of multicast messages are apart from long ones, so that a message of each
 * rank takes few pages. */
#define MCAST_SHORT_BYTES ((size_t)512)
#define MAIN_RING_BYTES_MAX ((uint32_t)1 << 20) /* a common size of L2 caches */
#define REGION_BYTES_MAX ((size_t)2 << 20)      /* limit for growing the rings of channel 0 */

_Static_assert(SHM_DESCS_MIN * sizeof(shm_slot_t) % SHM_LINE_PAIR == 0 &&
                   SLOT_BYTES_MIN % SHM_LINE_PAIR == 0,
               "rings share no pair of lines");
_Static_assert(SHM_HOT_STRIDE % SHM_LINE_PAIR == 0, "nor do hot slots");
_Static_assert(SLOT_BYTES_MIN / SHM_PADDING_DIVISOR % BASE_CACHE_LINE == 0,
               "payloads are line-aligned");

static size_t slot_bytes_for(size_t rings, shm_scope_t scope) {
  bool is_host = scope == SHM_SCOPE_HOST;
  size_t bytes = is_host ? SLOT_BYTES_MAX_OF_HOST : SLOT_BYTES_MAX;
  size_t budget = is_host ? RINGS_BUDGET_BYTES_OF_HOST : RINGS_BUDGET_BYTES;
  while (bytes > SLOT_BYTES_MIN && rings * SHM_SLOTS * bytes > budget) bytes /= 2;
  return bytes;
}

static uint32_t descs_for(size_t rings) {
  uint32_t descriptors = DESCS_MAX;
  while (descriptors > SHM_DESCS_MIN &&
         rings * descriptors * sizeof(shm_slot_t) > DESCS_BUDGET_BYTES) {
    descriptors /= 2;
  }
  return descriptors;
}

static uint32_t power_of_two_from(size_t min) {
  uint32_t power = 1;
  while (power < min) power *= 2;
  return power;
}

/* Descriptors for TRANSPORT_P2P_BYTES in TRANSPORT_P2P_MESSAGES messages. Each message is cut into
 * slots, of which one may be short; those that the receiver has not acknowledged come on top. */
static uint32_t p2p_descs_for(size_t slot_bytes) {
  size_t needed = TRANSPORT_P2P_MESSAGES + TRANSPORT_P2P_BYTES / slot_bytes;
  return power_of_two_from(needed * SHM_P2P_UNACKED_DIVISOR / (SHM_P2P_UNACKED_DIVISOR - 1));
}

/* The same in bytes: each message is rounded up to cache lines and may have double padding, the end
 * of the ring may stay unused, and the receiver may leave two slots unacknowledged (fifo.h). */
static uint32_t p2p_bytes_for(size_t slot_bytes, uint32_t padding_bytes) {
  size_t each = BASE_CACHE_LINE + 2 * padding_bytes;
  return power_of_two_from(TRANSPORT_P2P_BYTES + TRANSPORT_P2P_MESSAGES * each + 3 * slot_bytes);
}

static uint32_t padding_bytes_for(uint32_t slot_bytes) {
  return slot_bytes / SHM_PADDING_DIVISOR < PADDING_BYTES_MAX ? slot_bytes / SHM_PADDING_DIVISOR
                                                              : PADDING_BYTES_MAX;
}

/* Rings with shorter slots fit into L1 caches without hot slots. */
static uint32_t hot_bytes_for(size_t slot_bytes) {
  return slot_bytes >= HOT_SLOT_BYTES_MIN ? SHM_HOT_SLOTS * SHM_HOT_STRIDE : 0;
}

static void compute_further(shm_layout_t *layout) {
  size_t size = (size_t)layout->size, pairs = size * (size - 1);
  layout->further_stride =
      base_round_up(sizeof(shm_signals_t) + shm_layout_ring_stride(layout, 1), SHM_LINE_PAIR);
  layout->further_bytes = pairs * layout->further_stride;
}

/* ---- offsets --------------------------------------------------------------------------------*/

/* Parts are placed one after another. */
typedef struct placement {
  size_t next;  /* offset of the first byte that is not used */
  size_t ranks; /* ranks whose parts of one kind follow each other */
} placement_t;

/* Places a part of `count` items of `step` bytes for each of the ranks. */
static void place(placement_t *placement, size_t count, size_t step, shm_part_t *part) {
  size_t stride = base_round_up(count * step, SHM_LINE_PAIR);
  *part = (shm_part_t){.offset = placement->next, .stride = stride, .step = step};
  placement->next += placement->ranks * stride;
}

/* The same with the first items of all ranks together, then the second ones, and so on. */
static void place_by_item(placement_t *placement, size_t count, size_t step, shm_part_t *part) {
  size_t items = placement->ranks * step;
  *part = (shm_part_t){.offset = placement->next, .stride = step, .step = items};
  placement->next += count * items;
}

static void place_page(placement_t *placement) {
  placement->next = base_round_up(placement->next, PAGE_BYTES);
}

static void place_controls(placement_t *placement, shm_layout_t *layout) {
  size_t size = (size_t)layout->size;
  place(placement, 1, sizeof(shm_control_t), &layout->controls);
  place(placement, 1, sizeof(shm_record_t), &layout->records);
  place(placement, size, sizeof(shm_taken_t), &layout->taken);
  place(placement, size, SHM_USED_WORDS * sizeof(shm_used_t), &layout->used);
}

static void place_rings(placement_t *placement, int channel, shm_layout_t *layout) {
  place(placement, (size_t)layout->size - 1, shm_layout_ring_stride(layout, channel),
        &layout->rings[channel]);
}

/* A rank with a region of its own: the FIFOs of a peer follow each other. */
static void place_fifos(placement_t *placement, shm_layout_t *layout) {
  size_t peers = (size_t)layout->size - 1, bytes = 0;
  for (int channel = 0; channel < TRANSPORT_CHANNELS; channel++) {
    layout->signals[channel].offset = placement->next + (size_t)channel * sizeof(shm_signals_t);
    layout->signals[channel].step = TRANSPORT_CHANNELS * sizeof(shm_signals_t);
  }
  placement->next += peers * TRANSPORT_CHANNELS * sizeof(shm_signals_t);
  for (int channel = 0; channel < TRANSPORT_CHANNELS; channel++) {
    layout->rings[channel].offset = placement->next + bytes;
    bytes += shm_layout_ring_stride(layout, channel);
  }
  for (int channel = 0; channel < TRANSPORT_CHANNELS; channel++) {
    layout->rings[channel].step = bytes;
  }
  placement->next += peers * bytes;
}

/* The distance from one rank's region to the next one's. */
static void set_strides(size_t stride, shm_layout_t *layout) {
  layout->controls.stride = layout->records.stride = stride;
  layout->taken.stride = layout->used.stride = stride;
  layout->mcast.stride = layout->scratch.stride = stride;
  for (int channel = 0; channel < TRANSPORT_CHANNELS; channel++) {
    layout->signals[channel].stride = layout->rings[channel].stride = stride;
  }
}

/* Returns the offset of the end. */
static size_t place_regions(size_t begin, shm_layout_t *layout) {
  placement_t placement = {.next = begin, .ranks = 1};
  place_controls(&placement, layout);
  place(&placement, SHM_MCAST_SLOTS, layout->mcast_bytes, &layout->mcast);
  place_fifos(&placement, layout);
  place_page(&placement);
  place(&placement, 1, layout->scratch_bytes, &layout->scratch);
  set_strides(placement.next - begin, layout);
  return begin + (size_t)layout->size * (placement.next - begin);
}

static size_t place_together(size_t begin, shm_layout_t *layout) {
  placement_t placement = {.next = begin, .ranks = (size_t)layout->size};
  place_controls(&placement, layout);
  layout->mcast_short_bytes = MCAST_SHORT_BYTES;
  place_by_item(&placement, SHM_MCAST_SLOTS, layout->mcast_short_bytes, &layout->mcast_short);
  for (int channel = 0; channel < TRANSPORT_CHANNELS; channel++) {
    place(&placement, (size_t)layout->size - 1, sizeof(shm_signals_t), &layout->signals[channel]);
  }
  for (int channel = 0; channel < TRANSPORT_CHANNEL_P2P; channel++) {
    place_rings(&placement, channel, layout);
  }
  place_page(&placement);
  place_by_item(&placement, SHM_MCAST_SLOTS, layout->mcast_bytes, &layout->mcast);
  place(&placement, 1, layout->scratch_bytes, &layout->scratch);
  place_rings(&placement, TRANSPORT_CHANNEL_P2P, layout); /* by far the longest */
  return placement.next;
}

/* Computes all offsets from the sizes of the rings. */
static void compute_offsets(shm_layout_t *layout) {
  size_t size = (size_t)layout->size;
  size_t begin =
      base_round_up(MCAST_OFFSET + size * SHM_MCAST_SLOTS * sizeof(shm_slot_t), PAGE_BYTES);
  size_t end = size <= REGIONS_MAX ? place_regions(begin, layout) : place_together(begin, layout);
  layout->rank_bytes = (end - begin) / size;
  layout->segment_bytes = base_round_up(end, PAGE_BYTES);
}

/* Size of a rank's parts if its P2P rings were as short as those of the other channels. The longer
 * P2P rings that coll.h's promise requires use physical memory only if they are used. */
static size_t collectives_bytes(const shm_layout_t *layout) {
  size_t peers = (size_t)layout->size - 1;
  size_t p2p = shm_layout_ring_stride(layout, TRANSPORT_CHANNEL_P2P);
  return layout->rank_bytes - peers * p2p + peers * SHM_SLOTS * layout->slot_bytes;
}

void shm_layout_compute(int size, shm_scope_t scope, shm_layout_t *layout) {
  size_t peers = (size_t)(size - 1), fifos = peers * TRANSPORT_CHANNELS;
  *layout = (shm_layout_t){.size = size};
  layout->slot_bytes = slot_bytes_for(fifos, scope);
  layout->mcast_bytes =
      size > 2 ? SHM_MCAST_BYTES : 0; /* with a single peer a message does the same */
  layout->padding_bytes = padding_bytes_for((uint32_t)layout->slot_bytes);
  layout->hot_bytes = hot_bytes_for(layout->slot_bytes);
  layout->scratch_bytes = size > 2 ? SCRATCH_BYTES : SCRATCH_BYTES_OF_TWO;
  for (int channel = 0; channel < TRANSPORT_CHANNELS; channel++) {
    bool p2p = channel == TRANSPORT_CHANNEL_P2P;
    layout->descriptors[channel] = p2p ? p2p_descs_for(layout->slot_bytes) : descs_for(fifos);
    layout->ring_bytes[channel] = p2p ? p2p_bytes_for(layout->slot_bytes, layout->padding_bytes)
                                      : SHM_SLOTS * (uint32_t)layout->slot_bytes;
  }
  compute_offsets(layout);
  uint32_t *main_ring = &layout->ring_bytes[0];
  while (*main_ring < MAIN_RING_BYTES_MAX &&
         collectives_bytes(layout) + peers * *main_ring <= REGION_BYTES_MAX) {
    *main_ring *= 2;
    compute_offsets(layout);
  }
  compute_further(layout);
}

static void *part(const shm_part_t *of, void *base, int owner, size_t item) {
  return (char *)base + of->offset + (size_t)owner * of->stride + item * of->step;
}

/* Index of `source` among the peers of `owner`: a rank has no FIFO from itself. */
static size_t peer_index(int owner, int source) {
  assert(source != owner);
  return (size_t)(source < owner ? source : source - 1);
}

shm_head_t *shm_layout_head(void *base) {
  return base;
}

shm_control_t *shm_layout_control(const shm_layout_t *layout, void *base, int owner) {
  return part(&layout->controls, base, owner, 0);
}

shm_record_t *shm_layout_record(const shm_layout_t *layout, void *base, int owner) {
  return part(&layout->records, base, owner, 0);
}

shm_signals_t *shm_layout_signals(const shm_layout_t *layout, void *base, int owner, int source,
                                  int channel) {
  return part(&layout->signals[channel], base, owner, peer_index(owner, source));
}

shm_ring_t *shm_layout_ring(const shm_layout_t *layout, void *base, int owner, int source,
                            int channel) {
  return part(&layout->rings[channel], base, owner, peer_index(owner, source));
}

shm_slot_t *shm_layout_mcast(void *base, int source, uint64_t message) {
  shm_slot_t *slots = (shm_slot_t *)(void *)((char *)base + MCAST_OFFSET);
  return &slots[(uint64_t)source * SHM_MCAST_SLOTS + message % SHM_MCAST_SLOTS];
}

void *shm_layout_mcast_bytes(const shm_layout_t *layout, void *base, int source, uint64_t message,
                             size_t bytes) {
  const shm_part_t *of = bytes <= layout->mcast_short_bytes ? &layout->mcast_short : &layout->mcast;
  return part(of, base, source, message % SHM_MCAST_SLOTS);
}

shm_taken_t *shm_layout_taken(const shm_layout_t *layout, void *base, int owner, int source) {
  return part(&layout->taken, base, owner, (size_t)source);
}

shm_used_t *shm_layout_used(const shm_layout_t *layout, void *base, int owner, int source,
                            int channel) {
  shm_used_t *used = part(&layout->used, base, owner, (size_t)source);
  return used + channel / 64;
}

/* The signals of a FIFO, followed by its ring. */
shm_signals_t *shm_layout_further_signals(const shm_layout_t *layout, void *part, int owner,
                                          int source) {
  size_t pair = (size_t)owner * (size_t)(layout->size - 1) + peer_index(owner, source);
  return (shm_signals_t *)(void *)((char *)part + pair * layout->further_stride);
}

shm_ring_t *shm_layout_further_ring(const shm_layout_t *layout, void *part, int owner, int source) {
  return (shm_ring_t *)(void *)(shm_layout_further_signals(layout, part, owner, source) + 1);
}

void shm_layout_write_directory(const shm_layout_t *layout, void *base, uint64_t communicator) {
  shm_layout_head(base)->directory =
      (flight_directory_t){.magic = FLIGHT_MAGIC,
                           .communicator = communicator,
                           .ranks = (uint64_t)layout->size,
                           .offset = layout->records.offset + offsetof(shm_record_t, flight),
                           .stride = layout->records.stride};
}

void *shm_layout_scratch(const shm_layout_t *layout, void *base, int owner) {
  return part(&layout->scratch, base, owner, 0);
}
