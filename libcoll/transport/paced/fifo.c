/* The two counts are free-running; the release of each makes the times before it visible. */
#include "transport/paced/fifo.h"

#include "transport/ops.h"

/* In flight on a FIFO: as few messages as every transport must hold, as credits of a network are
 * few. On the p2p channel as many as the inner transport holds, up to this. */
#define P2P_IN_FLIGHT 512
#define SIGNALS_IN_FLIGHT PLAN_SIGNALS_MAX

static uint32_t capacity_of(int channel, bool is_signal) {
  if (is_signal) return SIGNALS_IN_FLIGHT;
  return channel == TRANSPORT_CHANNEL_P2P ? P2P_IN_FLIGHT : TRANSPORT_DEPTH;
}

static size_t fifo_bytes(int channel, bool is_signal) {
  return sizeof(paced_fifo_t) + capacity_of(channel, is_signal) * sizeof(uint64_t);
}

/* Offset of a FIFO among those to the same rank; channel PACED_CHANNELS: the bytes of all. */
static size_t fifo_offset(int channel, bool is_signal) {
  size_t offset = is_signal ? fifo_bytes(channel, false) : 0;
  for (int before = 0; before < channel; before++) {
    offset += fifo_bytes(before, false) + fifo_bytes(before, true);
  }
  return offset;
}

size_t paced_fifos_bytes(int size) {
  return (size_t)size * fifo_offset(PACED_CHANNELS, false);
}

paced_end_t paced_end_of(unsigned char *fifos, int to, int channel, bool is_signal) {
  size_t offset = (size_t)to * fifo_offset(PACED_CHANNELS, false) + fifo_offset(channel, is_signal);
  return (paced_end_t){.fifo = (paced_fifo_t *)(void *)(fifos + offset),
                       .capacity = capacity_of(channel, is_signal)};
}

/* relaxed: this rank's own count; acquire: the receiver has read what the slot held before. */
bool paced_end_has_room(const paced_end_t *end, uint64_t *oldest_ns) {
  uint32_t sent = atomic_load_explicit(&end->fifo->sent, memory_order_relaxed);
  uint32_t taken = atomic_load_explicit(&end->fifo->taken, memory_order_acquire);
  if (sent - taken < end->capacity) return true;
  *oldest_ns = end->fifo->arrival_ns[taken % end->capacity];
  return false;
}

void paced_end_send(const paced_end_t *end, uint64_t arrival_ns) {
  uint32_t sent = atomic_load_explicit(&end->fifo->sent, memory_order_relaxed);
  end->fifo->arrival_ns[sent % end->capacity] = arrival_ns;
  atomic_store_explicit(&end->fifo->sent, sent + 1, memory_order_release);
}

bool paced_end_first(const paced_end_t *end, uint64_t *arrival_ns) {
  uint32_t taken = atomic_load_explicit(&end->fifo->taken, memory_order_relaxed);
  if (atomic_load_explicit(&end->fifo->sent, memory_order_acquire) == taken) return false;
  *arrival_ns = end->fifo->arrival_ns[taken % end->capacity];
  return true;
}

void paced_end_take(const paced_end_t *end) {
  uint32_t taken = atomic_load_explicit(&end->fifo->taken, memory_order_relaxed);
  atomic_store_explicit(&end->fifo->taken, taken + 1, memory_order_release);
}

bool paced_end_is_under_way(const paced_end_t *end, uint64_t now_ns) {
  uint32_t sent = atomic_load_explicit(&end->fifo->sent, memory_order_acquire);
  uint32_t taken = atomic_load_explicit(&end->fifo->taken, memory_order_relaxed);
  for (; taken != sent; taken++) {
    if (end->fifo->arrival_ns[taken % end->capacity] > now_ns) return true;
  }
  return false;
}
