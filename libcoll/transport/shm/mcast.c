/* Posts: one message that all peers read where its sender has written it. A slot is used again once
 * the slowest peer has taken what it held. */
#include <assert.h>

#include "transport/shm/end.h"

/* How many of this rank's posts the slowest peer has taken; acquire: and read. */
static uint64_t taken_by_all(const shm_t *s) {
  uint64_t least = s->multicast;
  for (int peer = 0; peer < s->transport.size; peer++) {
    if (peer == s->transport.rank) continue;
    uint64_t taken = atomic_load_explicit(s->posts[peer].taken_by, memory_order_acquire);
    if (taken < least) least = taken;
  }
  return least;
}

coll_status_t shm_mcast_send(transport_t *t, const void *data, const transport_head_t *head,
                             bool *done) {
  shm_t *s = shm_end_of(t);
  assert(head->bytes <= t->mcast_bytes);
  *done = false;
  if (s->multicast - s->posts_taken == SHM_MCAST_SLOTS) {
    s->posts_taken = taken_by_all(s);
    if (s->multicast - s->posts_taken == SHM_MCAST_SLOTS) return COLL_OK;
  }
  void *base = s->segment->base;
  shm_slot_t *slot = shm_layout_mcast(base, t->rank, s->multicast);
  if (head->bytes <= SHM_INLINE_BYTES) {
    base_move_short(slot->descriptor.payload, data, head->bytes);
  } else {
    shm_payload_write(shm_layout_mcast_bytes(&s->layout, base, t->rank, s->multicast), data,
                      head->bytes);
  }
  slot->descriptor.call = head->call;
  slot->bytes = (uint32_t)head->bytes;
  atomic_store_explicit(&slot->sequence, (uint32_t)++s->multicast, memory_order_release);
  s->sent_to = UINT64_MAX;
  for (int peer = 0; peer < t->size; peer++) {
    if (peer != t->rank) shm_park_ring(s->posts[peer].control);
  }
  *done = true;
  return COLL_OK;
}

coll_status_t shm_mcast_peek(transport_t *t, int peer, const void **data, transport_head_t *head,
                             bool *done) {
  shm_t *s = shm_end_of(t);
  uint64_t received = s->posts[peer].received;
  shm_slot_t *slot = shm_layout_mcast(s->segment->base, peer, received);
  assert(peer != t->rank);
  /* acquire: the payload is there once its flag is */
  *done = atomic_load_explicit(&slot->sequence, memory_order_acquire) == (uint32_t)received + 1;
  if (!*done) return COLL_OK;
  *head = (transport_head_t){.call = slot->descriptor.call, .bytes = slot->bytes};
  *data = head->bytes <= SHM_INLINE_BYTES
              ? slot->descriptor.payload
              : shm_layout_mcast_bytes(&s->layout, s->segment->base, peer, received);
  return COLL_OK;
}

coll_status_t shm_mcast_take(transport_t *t, int peer) {
  shm_mcast_state_t *post = &shm_end_of(t)->posts[peer];
  /* release: our reads are over before the peer may write over the slot */
  atomic_store_explicit(post->taken, ++post->received, memory_order_release);
  shm_park_ring(post->control);
  return COLL_OK;
}
