/* Multicast messages: one message that all peers read in the sender's memory. A slot is reused once
 * the slowest peer has taken its message. */
#include <assert.h>

#include "transport/shm/end.h"

/* Number of this rank's messages that every peer has taken. acquire: the peers have finished
 * reading them. */
static uint64_t taken_by_all(const shm_t *s) {
  uint64_t fewest = s->mcast_sent;
  for (int peer = 0; peer < s->transport.size; peer++) {
    if (peer == s->transport.rank) continue;
    uint64_t taken = atomic_load_explicit(s->mcast[peer].taken_by, memory_order_acquire);
    if (taken < fewest) fewest = taken;
  }
  return fewest;
}

coll_status_t shm_mcast_send(transport_t *t, const void *data, const transport_head_t *head,
                             bool *done) {
  shm_t *s = shm_end_of(t);
  assert(head->bytes <= t->mcast_bytes);
  *done = false;
  if (s->mcast_sent - s->mcast_taken == SHM_MCAST_SLOTS) {
    s->mcast_taken = taken_by_all(s);
    if (s->mcast_sent - s->mcast_taken == SHM_MCAST_SLOTS) return COLL_OK;
  }
  void *base = s->segment->base;
  shm_slot_t *slot = shm_layout_mcast(base, t->rank, s->mcast_sent);
  if (head->bytes <= SHM_INLINE_BYTES) {
    base_move_short(slot->descriptor.payload, data, head->bytes);
  } else {
    void *bytes = shm_layout_mcast_bytes(&s->layout, base, t->rank, s->mcast_sent, head->bytes);
    shm_payload_write(bytes, data, head->bytes);
  }
  slot->descriptor.call = head->call;
  slot->bytes = (uint32_t)head->bytes;
  atomic_store_explicit(&slot->sequence, (uint32_t)++s->mcast_sent, memory_order_release);
  s->sent_to = UINT64_MAX;
  for (int peer = 0; peer < t->size; peer++) {
    if (peer != t->rank) shm_wakeup_notify(s->mcast[peer].control);
  }
  *done = true;
  return COLL_OK;
}

coll_status_t shm_mcast_peek(transport_t *t, int peer, const void **data, transport_head_t *head,
                             bool *done) {
  shm_t *s = shm_end_of(t);
  uint64_t received = s->mcast[peer].received;
  shm_slot_t *slot = shm_layout_mcast(s->segment->base, peer, received);
  assert(peer != t->rank);
  /* acquire: pairs with the release of `sequence`; the payload is visible */
  *done = atomic_load_explicit(&slot->sequence, memory_order_acquire) == (uint32_t)received + 1;
  if (!*done) return COLL_OK;
  *head = (transport_head_t){.call = slot->descriptor.call, .bytes = slot->bytes};
  *data = head->bytes <= SHM_INLINE_BYTES
              ? slot->descriptor.payload
              : shm_layout_mcast_bytes(&s->layout, s->segment->base, peer, received, head->bytes);
  return COLL_OK;
}

coll_status_t shm_mcast_take(transport_t *t, int peer) {
  shm_mcast_state_t *state = &shm_end_of(t)->mcast[peer];
  /* release: our reads are complete before the peer may overwrite the slot */
  atomic_store_explicit(state->taken, ++state->received, memory_order_release);
  shm_wakeup_notify(state->control);
  return COLL_OK;
}
