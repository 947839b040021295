/*
 * The FIFOs of a rank. Those of the first channels are in the segment from the start, and each is
 * set up when this rank first uses it: with many ranks it has many more than it uses. A further
 * channel has a part of the segment of its own, which is mapped when this rank first uses it; all
 * its FIFOs are set up then.
 */
#include <assert.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "transport/shm/end.h"

/* Further channels have rings like those of this one. */
#define LIKE_CHANNEL 1

BASE_COLD void shm_end_mark_used(const shm_fifo_t *fifo) {
  /* relaxed: what is sent next is released */
  atomic_fetch_or_explicit(fifo->used_out, fifo->used_bit, memory_order_relaxed);
  *fifo->sent_on |= fifo->used_bit;
}

static uint64_t *sent_on(const shm_t *s, int peer, int channel) {
  return &s->sent_on[peer * SHM_USED_WORDS + channel / 64];
}

/* Sets up a FIFO, whose signals are set already. */
static void init_fifo(shm_t *s, int peer, int channel, shm_ring_t *out, shm_ring_t *in,
                      shm_fifo_t *fifo) {
  const shm_layout_t *layout = &s->layout;
  void *base = s->segment->base;
  int rank = s->transport.rank, like = channel >= TRANSPORT_CHANNELS ? LIKE_CHANNEL : channel;
  fifo->port.transport = &s->transport;
  shm_outgoing_init(&fifo->out, layout, like, out);
  shm_incoming_init(&fifo->in, layout, like, in);
  fifo->signals_full_at = SHM_SIGNALS;
  fifo->used_out = shm_layout_used(layout, base, peer, rank, channel);
  fifo->used_in = shm_layout_used(layout, base, rank, peer, channel);
  fifo->sent_on = sent_on(s, peer, channel);
  fifo->used_bit = UINT64_C(1) << channel % 64;
  fifo->peer = shm_layout_control(layout, base, peer);
  fifo->bit = UINT64_C(1) << peer % 64;
}

static void locate(shm_t *s, int peer, int channel) {
  const shm_layout_t *layout = &s->layout;
  void *base = s->segment->base;
  int rank = s->transport.rank;
  shm_fifo_t *fifo = shm_end_fifo(s, peer, channel);
  s->has_fifos[channel] = true;
  fifo->signals_out = shm_layout_signals(layout, base, peer, rank, channel);
  fifo->signals_in = shm_layout_signals(layout, base, rank, peer, channel);
  init_fifo(s, peer, channel, shm_layout_ring(layout, base, peer, rank, channel),
            shm_layout_ring(layout, base, rank, peer, channel), fifo);
}

/* ---- further channels -----------------------------------------------------------------------*/

static void locate_further(shm_t *s, int peer, int channel, void *part, shm_fifo_t *fifo) {
  const shm_layout_t *layout = &s->layout;
  int rank = s->transport.rank;
  fifo->signals_out = shm_layout_further_signals(layout, part, peer, rank);
  fifo->signals_in = shm_layout_further_signals(layout, part, rank, peer);
  init_fifo(s, peer, channel, shm_layout_further_ring(layout, part, peer, rank),
            shm_layout_further_ring(layout, part, rank, peer), fifo);
}

BASE_COLD static coll_status_t make_further(shm_t *s, int channel, shm_channel_t *made) {
  int size = s->transport.size, index = channel - TRANSPORT_CHANNELS;
  shm_fifo_t *fifos = NULL;
  void *part;
  COLL_TRY(shm_segment_part(s->segment, index, s->layout.further_bytes, &part));
  COLL_TRY(base_alloc((size_t)size, sizeof *fifos, "a channel", (void **)&fifos));
  for (int peer = 0; peer < size; peer++) {
    if (peer != s->transport.rank) locate_further(s, peer, channel, part, &fifos[peer]);
  }
  made->fifos = fifos;
  return COLL_OK;
}

static transport_port_t *further_port(shm_t *s, int peer, int channel) {
  assert(channel < TRANSPORT_CHANNELS_MAX);
  shm_channel_t *further = &s->further[channel - TRANSPORT_CHANNELS];
  if (further->fifos == NULL && make_further(s, channel, further) != COLL_OK) return NULL;
  return &further->fifos[peer].port;
}

transport_port_t *shm_channels_port(transport_t *t, int peer, int channel) {
  assert(peer != t->rank);
  if (channel >= TRANSPORT_CHANNELS) return further_port(shm_end_of(t), peer, channel);
  shm_fifo_t *fifo = shm_end_fifo(shm_end_of(t), peer, channel);
  if (fifo->port.transport == NULL) locate(shm_end_of(t), peer, channel);
  return &fifo->port;
}

/* The channels of the word that has `channel`, as bits. */
static uint64_t used_bits(const shm_t *s, int peer, int channel) {
  void *base = s->segment->base;
  int rank = s->transport.rank;
  const shm_used_t *in = shm_layout_used(&s->layout, base, rank, peer, channel);
  /* acquire: the peer sets a bit before it sends */
  return atomic_load_explicit(in, memory_order_acquire) | *sent_on(s, peer, channel);
}

int shm_channels_used(transport_t *t, int peer, int channel) {
  while (channel < TRANSPORT_CHANNELS_MAX) {
    uint64_t used = used_bits(shm_end_of(t), peer, channel) >> channel % 64;
    if (used != 0) return channel + __builtin_ctzll(used);
    channel = (channel / 64 + 1) * 64;
  }
  return TRANSPORT_CHANNELS_MAX;
}

/* ---- all channels ---------------------------------------------------------------------------*/

static void ack(shm_fifo_t *fifo) {
  if (fifo->in.received > 0) shm_incoming_ack(&fifo->in);
}

void shm_channels_ack(shm_t *s) {
  for (int peer = 0; peer < s->transport.size; peer++) {
    if (peer == s->transport.rank) continue;
    for (int channel = 0; channel < TRANSPORT_CHANNELS; channel++) {
      if (s->has_fifos[channel]) ack(shm_end_fifo(s, peer, channel));
    }
    for (int index = 0; index < SHM_FURTHER_CHANNELS; index++) {
      if (s->further[index].fifos != NULL) ack(&s->further[index].fifos[peer]);
    }
  }
}

void shm_channels_free(shm_t *s) {
  for (int index = 0; index < SHM_FURTHER_CHANNELS; index++) free(s->further[index].fifos);
}
