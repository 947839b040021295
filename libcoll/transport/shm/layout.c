/*
 * Rings share a budget per rank, so that memory per communicator does not grow with the square of
 * the rank count before slots have shrunk to their least useful size.
 */
#include "transport/shm/layout.h"

#include <assert.h>

#include "base/memory.h"

#define PAGE_BYTES 4096
#define POSTS_OFFSET SHM_LINE_PAIR /* behind the head */
#define RINGS_BUDGET_BYTES ((size_t)1 << 20)
#define LETTERS_BUDGET_BYTES ((size_t)128 << 10)
#define LETTERS_MOST 64 /* how far a rank may run ahead of its peer in small calls */
#define SLOT_BYTES_MOST ((size_t)32 << 10)
#define SLOT_BYTES_LEAST ((size_t)512)
#define GAP_BYTES_MOST 512
#define SCRATCH_BYTES ((size_t)512 << 10)

_Static_assert(SHM_LETTERS_LEAST * sizeof(shm_slot_t) % SHM_LINE_PAIR == 0 &&
                   SLOT_BYTES_LEAST % SHM_LINE_PAIR == 0,
               "rings lie apart");
_Static_assert(sizeof(shm_head_t) <= POSTS_OFFSET, "the head comes before the posts");

static size_t slot_bytes_for(size_t rings) {
  size_t bytes = SLOT_BYTES_MOST;
  while (bytes > SLOT_BYTES_LEAST && rings * SHM_SLOTS * bytes > RINGS_BUDGET_BYTES) bytes /= 2;
  return bytes;
}

static uint32_t letters_for(size_t rings) {
  uint32_t letters = LETTERS_MOST;
  while (letters > SHM_LETTERS_LEAST &&
         rings * letters * sizeof(shm_slot_t) > LETTERS_BUDGET_BYTES) {
    letters /= 2;
  }
  return letters;
}

static uint32_t gap_bytes_for(uint32_t slot_bytes) {
  return slot_bytes / 8 < GAP_BYTES_MOST ? slot_bytes / 8 : GAP_BYTES_MOST;
}

void shm_layout_compute(int size, shm_layout_t *layout) {
  size_t fifos = (size_t)(size - 1) * TRANSPORT_CHANNELS;
  layout->size = size;
  layout->slot_bytes = slot_bytes_for(fifos);
  layout->letters = letters_for(fifos);
  layout->ring_bytes = SHM_SLOTS * (uint32_t)layout->slot_bytes;
  layout->gap_bytes = gap_bytes_for((uint32_t)layout->slot_bytes);
  layout->ring_stride =
      sizeof(shm_ring_t) + layout->letters * sizeof(shm_slot_t) + layout->ring_bytes;
  layout->taken_offset = sizeof(shm_control_t);
  layout->posts_offset =
      base_round_up(layout->taken_offset + (size_t)size * sizeof(shm_taken_t), SHM_LINE_PAIR);
  layout->signals_offset = layout->posts_offset + SHM_POSTS * SHM_POST_BYTES;
  layout->rings_offset = layout->signals_offset + fifos * sizeof(shm_signal_t);
  layout->scratch_offset =
      base_round_up(layout->rings_offset + fifos * layout->ring_stride, PAGE_BYTES);
  layout->scratch_bytes = SCRATCH_BYTES;
  layout->region_bytes = layout->scratch_offset + layout->scratch_bytes;
  layout->regions_offset =
      base_round_up(POSTS_OFFSET + (size_t)size * SHM_POSTS * sizeof(shm_slot_t), PAGE_BYTES);
  layout->segment_bytes = layout->regions_offset + (size_t)size * layout->region_bytes;
}

static char *region(const shm_layout_t *layout, void *base, int owner) {
  return (char *)base + layout->regions_offset + (size_t)owner * layout->region_bytes;
}

/* A rank has no FIFO from itself. */
static size_t fifo(int owner, int source, int channel) {
  assert(source != owner);
  size_t place = (size_t)(source < owner ? source : source - 1);
  return place * TRANSPORT_CHANNELS + (size_t)channel;
}

shm_head_t *shm_layout_head(void *base) {
  return base;
}

shm_control_t *shm_layout_control(const shm_layout_t *layout, void *base, int owner) {
  return (shm_control_t *)(void *)region(layout, base, owner);
}

shm_signal_t *shm_layout_signal(const shm_layout_t *layout, void *base, int owner, int source,
                                int channel) {
  char *signals = region(layout, base, owner) + layout->signals_offset;
  return (shm_signal_t *)(void *)signals + fifo(owner, source, channel);
}

shm_ring_t *shm_layout_ring(const shm_layout_t *layout, void *base, int owner, int source,
                            int channel) {
  char *rings = region(layout, base, owner) + layout->rings_offset;
  return (shm_ring_t *)(void *)(rings + fifo(owner, source, channel) * layout->ring_stride);
}

shm_slot_t *shm_layout_post(void *base, int source, uint64_t message) {
  shm_slot_t *slots = (shm_slot_t *)(void *)((char *)base + POSTS_OFFSET);
  return &slots[(uint64_t)source * SHM_POSTS + message % SHM_POSTS];
}

void *shm_layout_post_bytes(const shm_layout_t *layout, void *base, int source, uint64_t message) {
  return region(layout, base, source) + layout->posts_offset + message % SHM_POSTS * SHM_POST_BYTES;
}

shm_taken_t *shm_layout_taken(const shm_layout_t *layout, void *base, int owner, int source) {
  char *taken = region(layout, base, owner) + layout->taken_offset;
  return (shm_taken_t *)(void *)taken + source;
}

void *shm_layout_scratch(const shm_layout_t *layout, void *base, int owner) {
  return region(layout, base, owner) + layout->scratch_offset;
}
