/*
 * A ring of message slots per channel in private memory, and a list of signals. One thread at a
 * time uses it, except for abort and aborted.
 */
#include "transport/self/self.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "transport/defaults.h"

#define SLOTS 8

_Static_assert(SLOTS >= TRANSPORT_DEPTH, "a FIFO must hold the depth that plans may state");

typedef struct channel {
  transport_port_t port;
  char *slots; /* [SLOTS][slot_bytes] */
  transport_head_t heads[SLOTS];
  uint64_t sent, received;
  flight_call_t *signals; /* sent and not yet received */
  size_t signal_count, signal_capacity;
} channel_t;

typedef struct self {
  transport_t transport;
  channel_t channels[TRANSPORT_CHANNELS];
  char *slots; /* [TRANSPORT_CHANNELS][SLOTS][slot_bytes] */
  /* Set once, by the thread that sets `claimed` first; that thread writes the reason before. */
  _Atomic uint32_t claimed, aborted;
  transport_reason_t reason;
} self_t;

static self_t *self_of(transport_t *t) {
  return (self_t *)(void *)t;
}

static channel_t *channel_of(transport_port_t *port) {
  return (channel_t *)(void *)port;
}

static char *slot_of(const channel_t *channel, uint64_t message) {
  return channel->slots + message % SLOTS * channel->port.transport->slot_bytes;
}

static transport_port_t *self_port(transport_t *t, int peer, int channel) {
  assert(peer == t->rank);
  (void)peer;
  if (channel < TRANSPORT_CHANNELS) return &self_of(t)->channels[channel].port;
  base_fail(COLL_ERROR_UNSUPPORTED, "a rank has %d channels to itself", TRANSPORT_CHANNELS);
  return NULL;
}

static coll_status_t self_send(transport_port_t *port, const void *data,
                               const transport_head_t *head, bool *done) {
  channel_t *channel = channel_of(port);
  assert(head->bytes <= port->transport->slot_bytes);
  *done = channel->sent - channel->received < SLOTS;
  if (!*done) return COLL_OK;
  channel->heads[channel->sent % SLOTS] = *head;
  if (head->bytes > 0) memcpy(slot_of(channel, channel->sent), data, head->bytes);
  channel->sent++;
  return COLL_OK;
}

static coll_status_t self_recv(transport_port_t *port, void *data, size_t capacity,
                               transport_head_t *head, bool *done) {
  channel_t *channel = channel_of(port);
  *done = channel->sent > channel->received;
  if (!*done) return COLL_OK;
  *head = channel->heads[channel->received % SLOTS];
  size_t bytes = head->bytes < capacity ? head->bytes : capacity;
  if (bytes > 0) memcpy(data, slot_of(channel, channel->received), bytes);
  channel->received++;
  return COLL_OK;
}

static coll_status_t self_signal(transport_port_t *port, const flight_call_t *call, bool *done) {
  channel_t *channel = channel_of(port);
  COLL_TRY(base_grow((void **)&channel->signals, &channel->signal_capacity,
                     channel->signal_count + 1, sizeof *call, "signals to oneself"));
  channel->signals[channel->signal_count++] = *call;
  *done = true;
  return COLL_OK;
}

static coll_status_t self_wait(transport_port_t *port, flight_call_t *call, bool *arrived) {
  channel_t *channel = channel_of(port);
  *arrived = channel->signal_count > 0;
  if (!*arrived) return COLL_OK;
  *call = channel->signals[0];
  memmove(channel->signals, channel->signals + 1, --channel->signal_count * sizeof *call);
  return COLL_OK;
}

static bool self_signaled(transport_port_t *port) {
  return channel_of(port)->signal_count > 0;
}

static bool self_pending_in(transport_port_t *port, flight_call_t *call) {
  const channel_t *channel = channel_of(port);
  bool message = channel->sent > channel->received;
  if (message) {
    *call = channel->heads[channel->received % SLOTS].call;
  } else if (channel->signal_count > 0) {
    *call = channel->signals[0];
  }
  return message || channel->signal_count > 0;
}

static coll_status_t self_address(transport_t *t, const void *ptr, size_t bytes,
                                  transport_address_t *address) {
  (void)t, (void)bytes;
  *address = (transport_address_t){.segment = 1, .offset = (uint64_t)(uintptr_t)ptr};
  return COLL_OK;
}

static coll_status_t self_map(transport_t *t, int peer, const transport_address_t *address,
                              void **ptr) {
  (void)t, (void)peer;
  *ptr = (void *)(uintptr_t)address->offset;
  return COLL_OK;
}

static void self_abort(transport_t *t, const transport_reason_t *reason) {
  self_t *s = self_of(t);
  if (atomic_exchange_explicit(&s->claimed, 1, memory_order_relaxed) != 0) return;
  s->reason = *reason;
  /* release: the reason is visible with the word */
  atomic_store_explicit(&s->aborted, 1, memory_order_release);
}

static bool self_aborted(transport_t *t, transport_reason_t *reason) {
  self_t *s = self_of(t);
  if (atomic_load_explicit(&s->aborted, memory_order_acquire) == 0) return false;
  *reason = s->reason;
  return true;
}

/* No other rank can send anything, so there is nothing to sleep for. */
static void self_no_op(transport_t *t) {
  (void)t;
}

static void self_sleep(transport_t *t, uint64_t timeout_ns) {
  (void)t, (void)timeout_ns;
}

static transport_peer_state_t self_peer_state(transport_t *t, int peer) {
  (void)t, (void)peer;
  return TRANSPORT_PEER_HERE;
}

static void self_destroy(transport_t *t) {
  self_t *s = self_of(t);
  for (int i = 0; i < TRANSPORT_CHANNELS; i++) free(s->channels[i].signals);
  free(s->slots);
  free(s);
}

static const transport_ops_t self_ops = {
    .name = "self",
    .port = self_port,
    .used_channel = transport_default_used_channel,
    .send = self_send,
    .send_lent = self_send,
    .recv = self_recv,
    .recv_post = self_recv,
    .release = transport_default_release,
    .cancel = transport_default_cancel,
    .drained = transport_default_drained,
    .peek = transport_default_peek,
    .take = transport_default_take,
    .mcast_send = transport_default_mcast_send,
    .mcast_peek = transport_default_mcast_peek,
    .mcast_take = transport_default_mcast_take,
    .signal = self_signal,
    .wait = self_wait,
    .signaled = self_signaled,
    .pending_in = self_pending_in,
    .pending_out = transport_default_pending,
    .address = self_address,
    .map = self_map,
    .probe_get = transport_default_probe_get,
    .peer_gets = transport_default_peer_gets,
    .get = transport_default_get,
    .fetch = &transport_no_fetch,
    .pass_descriptor = transport_default_pass_descriptor,
    .take_descriptor = transport_default_take_descriptor,
    .scratch = transport_default_scratch,
    .arm = self_no_op,
    .sleep = self_sleep,
    .disarm = self_no_op,
    .yield_hint = transport_default_yield_hint,
    .yield = transport_default_yield,
    .recorder = transport_default_recorder,
    .publish = transport_default_publish,
    .peer_state = self_peer_state,
    .route = transport_default_route,
    .waits_for = transport_default_waits_for,
    .why_lost = transport_default_why_lost,
    .abort = self_abort,
    .aborted = self_aborted,
    .destroy = self_destroy,
};

coll_status_t transport_self_create(int rank, int size, size_t slot_bytes, transport_t **t) {
  self_t *s = NULL;
  COLL_TRY(base_alloc(1, sizeof *s, "a transport to oneself", (void **)&s));
  coll_status_t status = base_alloc((size_t)TRANSPORT_CHANNELS * SLOTS, slot_bytes, "message slots",
                                    (void **)&s->slots);
  if (status != COLL_OK) {
    free(s);
    return status;
  }
  s->transport = (transport_t){.ops = &self_ops,
                               .rank = rank,
                               .size = size,
                               .slot_bytes = slot_bytes,
                               .abort_word = &s->aborted};
  for (int i = 0; i < TRANSPORT_CHANNELS; i++) {
    s->channels[i].port.transport = &s->transport;
    s->channels[i].slots = s->slots + (size_t)i * SLOTS * slot_bytes;
  }
  *t = &s->transport;
  return COLL_OK;
}
