/*
 * Rings share a budget per rank, so that memory per communicator does not grow with the square of
 * the rank count before slots have shrunk to their least useful size.
 *
 * What a region has left then goes to the rings of channel 0, which carry nearly all that
 * collectives send, up to what a core's own caches hold. A line that is written while its last
 * reader still has it, or read while its writer still has it, has to be had from the other core;
 * two cores that share their last cache take two to three times as long for that as to find the
 * line there, where it goes when the lap around the ring is long enough. For short payloads a lap
 * that first caches hold is better still: behind the ring they have hot slots.
 */
#include "transport/shm/layout.h"

#include <assert.h>

#include "base/memory.h"

#define PAGE_BYTES 4096
#define MCAST_OFFSET sizeof(shm_head_t)
#define RINGS_BUDGET_BYTES ((size_t)1 << 20)
#define DESCS_BUDGET_BYTES ((size_t)128 << 10)
#define DESCS_MAX 64 /* how far a rank may run ahead of its peer in small calls */
#define SLOT_BYTES_MAX ((size_t)32 << 10)
#define SLOT_BYTES_MIN ((size_t)512)
#define GAP_BYTES_MAX 512
#define HOT_SLOT_BYTES_MIN ((size_t)4 << 10) /* of rings that have hot slots as well */
#define SCRATCH_BYTES ((size_t)512 << 10)
#define SCRATCH_BYTES_OF_TWO ((size_t)480 << 10) /* whose ring of 1 MiB needs the rest */
#define MAIN_RING_BYTES_MAX ((uint32_t)1 << 20)  /* a usual second cache */
#define REGION_BYTES_MAX ((size_t)2 << 20)       /* that rings of collectives may grow to */

_Static_assert(SHM_DESCS_MIN * sizeof(shm_slot_t) % SHM_LINE_PAIR == 0 &&
                   SLOT_BYTES_MIN % SHM_LINE_PAIR == 0,
               "rings lie apart");
_Static_assert(SHM_HOT_STRIDE % SHM_LINE_PAIR == 0, "so do hot slots");
_Static_assert(SLOT_BYTES_MIN / SHM_GAP_SHARE % BASE_CACHE_LINE == 0, "payloads begin on lines");

static size_t slot_bytes_for(size_t rings) {
  size_t bytes = SLOT_BYTES_MAX;
  while (bytes > SLOT_BYTES_MIN && rings * SHM_SLOTS * bytes > RINGS_BUDGET_BYTES) bytes /= 2;
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

static uint32_t power_of_two_from(size_t least) {
  uint32_t power = 1;
  while (power < least) power *= 2;
  return power;
}

/* TRANSPORT_P2P_BYTES in as many as TRANSPORT_P2P_MESSAGES, each cut into slots of which one may be
 * short, beside what the receiver has not told of. */
static uint32_t p2p_descs_for(size_t slot_bytes) {
  size_t needed = TRANSPORT_P2P_MESSAGES + TRANSPORT_P2P_BYTES / slot_bytes;
  return power_of_two_from(needed * SHM_P2P_UNTOLD_SHARE / (SHM_P2P_UNTOLD_SHARE - 1));
}

/* The same in bytes: each message is rounded up to lines and may have two gaps behind it, the end
 * of the ring may be left empty, and the receiver may be late to tell of two slots (fifo.h). */
static uint32_t p2p_bytes_for(size_t slot_bytes, uint32_t gap_bytes) {
  size_t each = BASE_CACHE_LINE + 2 * gap_bytes;
  return power_of_two_from(TRANSPORT_P2P_BYTES + TRANSPORT_P2P_MESSAGES * each + 3 * slot_bytes);
}

static uint32_t gap_bytes_for(uint32_t slot_bytes) {
  return slot_bytes / SHM_GAP_SHARE < GAP_BYTES_MAX ? slot_bytes / SHM_GAP_SHARE : GAP_BYTES_MAX;
}

/* Shorter rings stay in first caches as they are. */
static uint32_t hot_bytes_for(size_t slot_bytes) {
  return slot_bytes >= HOT_SLOT_BYTES_MIN ? SHM_HOT_SLOTS * SHM_HOT_STRIDE : 0;
}

/* Of one peer's rings, how far from the first the channel's begins. */
static size_t ring_offset(const shm_layout_t *layout, int channel) {
  size_t bytes = 0;
  for (int before = 0; before < channel; before++) {
    bytes += shm_layout_ring_stride(layout, before);
  }
  return bytes;
}

/* Where everything is, once the sizes of rings are known. */
static void place_parts(shm_layout_t *layout) {
  size_t size = (size_t)layout->size, peers = size - 1;
  layout->taken_offset = sizeof(shm_control_t);
  layout->used_offset =
      base_round_up(layout->taken_offset + size * sizeof(shm_taken_t), SHM_LINE_PAIR);
  layout->mcast_offset = base_round_up(
      layout->used_offset + size * TRANSPORT_CHANNELS * sizeof(shm_used_t), SHM_LINE_PAIR);
  layout->signals_offset = layout->mcast_offset + SHM_MCAST_SLOTS * layout->mcast_bytes;
  layout->rings_offset =
      layout->signals_offset + peers * TRANSPORT_CHANNELS * sizeof(shm_signals_t);
  layout->scratch_offset = base_round_up(
      layout->rings_offset + peers * ring_offset(layout, TRANSPORT_CHANNELS), PAGE_BYTES);
  layout->region_bytes = layout->scratch_offset + layout->scratch_bytes;
  layout->regions_offset =
      base_round_up(MCAST_OFFSET + size * SHM_MCAST_SLOTS * sizeof(shm_slot_t), PAGE_BYTES);
  layout->segment_bytes = layout->regions_offset + size * layout->region_bytes;
}

/* Of a region, with rings for sends and receives that are as short as those of other channels: what
 * those need for coll.h's promise is taken from the system only where they are used. */
static size_t collectives_bytes(const shm_layout_t *layout) {
  size_t peers = (size_t)layout->size - 1;
  size_t p2p = shm_layout_ring_stride(layout, TRANSPORT_CHANNEL_P2P);
  return layout->region_bytes - peers * p2p + peers * SHM_SLOTS * layout->slot_bytes;
}

void shm_layout_compute(int size, shm_layout_t *layout) {
  size_t peers = (size_t)(size - 1), fifos = peers * TRANSPORT_CHANNELS;
  layout->size = size;
  layout->slot_bytes = slot_bytes_for(fifos);
  layout->mcast_bytes = size > 2 ? SHM_MCAST_BYTES : 0; /* to a single peer a message does */
  layout->gap_bytes = gap_bytes_for((uint32_t)layout->slot_bytes);
  layout->hot_bytes = hot_bytes_for(layout->slot_bytes);
  layout->scratch_bytes = size > 2 ? SCRATCH_BYTES : SCRATCH_BYTES_OF_TWO;
  for (int channel = 0; channel < TRANSPORT_CHANNELS; channel++) {
    bool p2p = channel == TRANSPORT_CHANNEL_P2P;
    layout->descriptors[channel] = p2p ? p2p_descs_for(layout->slot_bytes) : descs_for(fifos);
    layout->ring_bytes[channel] = p2p ? p2p_bytes_for(layout->slot_bytes, layout->gap_bytes)
                                      : SHM_SLOTS * (uint32_t)layout->slot_bytes;
  }
  place_parts(layout);
  uint32_t *main_ring = &layout->ring_bytes[0];
  while (*main_ring < MAIN_RING_BYTES_MAX &&
         collectives_bytes(layout) + peers * *main_ring <= REGION_BYTES_MAX) {
    *main_ring *= 2;
    place_parts(layout);
  }
}

static char *region(const shm_layout_t *layout, void *base, int owner) {
  return (char *)base + layout->regions_offset + (size_t)owner * layout->region_bytes;
}

/* The place of `source` among the peers of `owner`: a rank has no FIFO from itself. */
static size_t place_of(int owner, int source) {
  assert(source != owner);
  return (size_t)(source < owner ? source : source - 1);
}

shm_head_t *shm_layout_head(void *base) {
  return base;
}

shm_control_t *shm_layout_control(const shm_layout_t *layout, void *base, int owner) {
  return (shm_control_t *)(void *)region(layout, base, owner);
}

shm_signals_t *shm_layout_signals(const shm_layout_t *layout, void *base, int owner, int source,
                                  int channel) {
  char *signals = region(layout, base, owner) + layout->signals_offset;
  return (shm_signals_t *)(void *)signals + place_of(owner, source) * TRANSPORT_CHANNELS + channel;
}

shm_ring_t *shm_layout_ring(const shm_layout_t *layout, void *base, int owner, int source,
                            int channel) {
  char *rings = region(layout, base, owner) + layout->rings_offset;
  return (shm_ring_t *)(void *)(rings +
                                place_of(owner, source) * ring_offset(layout, TRANSPORT_CHANNELS) +
                                ring_offset(layout, channel));
}

shm_slot_t *shm_layout_mcast(void *base, int source, uint64_t message) {
  shm_slot_t *slots = (shm_slot_t *)(void *)((char *)base + MCAST_OFFSET);
  return &slots[(uint64_t)source * SHM_MCAST_SLOTS + message % SHM_MCAST_SLOTS];
}

void *shm_layout_mcast_bytes(const shm_layout_t *layout, void *base, int source, uint64_t message) {
  return region(layout, base, source) + layout->mcast_offset +
         message % SHM_MCAST_SLOTS * layout->mcast_bytes;
}

shm_taken_t *shm_layout_taken(const shm_layout_t *layout, void *base, int owner, int source) {
  char *taken = region(layout, base, owner) + layout->taken_offset;
  return (shm_taken_t *)(void *)taken + source;
}

shm_used_t *shm_layout_used(const shm_layout_t *layout, void *base, int owner, int source,
                            int channel) {
  char *used = region(layout, base, owner) + layout->used_offset;
  return (shm_used_t *)(void *)used + source * TRANSPORT_CHANNELS + channel;
}

void shm_layout_direct(const shm_layout_t *layout, void *base, uint64_t communicator) {
  shm_layout_head(base)->directory =
      (flight_directory_t){.magic = FLIGHT_MAGIC,
                           .communicator = communicator,
                           .ranks = (uint64_t)layout->size,
                           .offset = layout->regions_offset + offsetof(shm_control_t, flight),
                           .stride = layout->region_bytes};
}

void *shm_layout_scratch(const shm_layout_t *layout, void *base, int owner) {
  return region(layout, base, owner) + layout->scratch_offset;
}
