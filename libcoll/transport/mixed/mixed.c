/* Slots about a peer go to the part that reaches it; ports belong to the parts. */
#include "transport/mixed/mixed.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "transport/defaults.h"
#include "transport/mixed/alarm.h"
#include "transport/net/net.h"
#include "transport/shm/shm.h"

#define WITHOUT_ALARM_NS 1000000u /* longest sleep if the network cannot end one */

typedef struct mixed {
  transport_t base;
  transport_t *local, *net; /* local is NULL if this rank is alone on its host */
  int *local_of;            /* [size] */
  size_t scratch_bytes;
  mixed_alarm_t alarm; /* unused without local */
  bool is_alarm_set;
} mixed_t;

static mixed_t *mixed_of(transport_t *t) {
  return (mixed_t *)(void *)t;
}

/* The part that reaches the peer, and the peer's number in it. */
static transport_t *part_of(const mixed_t *m, int peer, int *number) {
  bool is_local = m->local_of[peer] >= 0 && m->local != NULL;
  *number = is_local ? m->local_of[peer] : peer;
  return is_local ? m->local : m->net;
}

static const transport_ops_t *ops_of(const transport_port_t *port) {
  return port->transport->ops;
}

/* ---- messages and signals -------------------------------------------------------------------*/

static transport_port_t *mixed_port(transport_t *t, int peer, int channel) {
  transport_t *part = part_of(mixed_of(t), peer, &peer);
  return part->ops->port(part, peer, channel);
}

static int mixed_used_channel(transport_t *t, int peer, int channel) {
  transport_t *part = part_of(mixed_of(t), peer, &peer);
  return part->ops->used_channel(part, peer, channel);
}

static coll_status_t mixed_send(transport_port_t *port, const void *data,
                                const transport_head_t *head, bool *done) {
  return ops_of(port)->send(port, data, head, done);
}

static coll_status_t mixed_send_lent(transport_port_t *port, const void *data,
                                     const transport_head_t *head, bool *done) {
  return ops_of(port)->send_lent(port, data, head, done);
}

static coll_status_t mixed_recv(transport_port_t *port, void *data, size_t capacity,
                                transport_head_t *head, bool *done) {
  return ops_of(port)->recv(port, data, capacity, head, done);
}

static coll_status_t mixed_recv_post(transport_port_t *port, void *data, size_t capacity,
                                     transport_head_t *head, bool *done) {
  return ops_of(port)->recv_post(port, data, capacity, head, done);
}

static void mixed_release(transport_t *t) {
  const mixed_t *m = mixed_of(t);
  m->net->ops->release(m->net);
  if (m->local != NULL) m->local->ops->release(m->local);
}

static void mixed_cancel(transport_t *t) {
  const mixed_t *m = mixed_of(t);
  m->net->ops->cancel(m->net);
  if (m->local != NULL) m->local->ops->cancel(m->local);
}

static bool mixed_drained(transport_port_t *port) {
  return ops_of(port)->drained(port);
}

static coll_status_t mixed_peek(transport_port_t *port, const void **data, transport_head_t *head,
                                bool *done) {
  return ops_of(port)->peek(port, data, head, done);
}

static coll_status_t mixed_take(transport_port_t *port) {
  return ops_of(port)->take(port);
}

static coll_status_t mixed_signal(transport_port_t *port, const flight_call_t *call, bool *done) {
  return ops_of(port)->signal(port, call, done);
}

static coll_status_t mixed_wait(transport_port_t *port, flight_call_t *call, bool *arrived) {
  return ops_of(port)->wait(port, call, arrived);
}

static bool mixed_signaled(transport_port_t *port) {
  return ops_of(port)->signaled(port);
}

static bool mixed_pending_in(transport_port_t *port, flight_call_t *call) {
  return ops_of(port)->pending_in(port, call);
}

static bool mixed_pending_out(transport_port_t *port, flight_call_t *call) {
  return ops_of(port)->pending_out(port, call);
}

/* ---- memory ---------------------------------------------------------------------------------*/

static coll_status_t mixed_address(transport_t *t, const void *ptr, size_t bytes,
                                   transport_address_t *address) {
  transport_t *local = mixed_of(t)->local;
  if (local == NULL) return transport_default_address(t, ptr, bytes, address);
  return local->ops->address(local, ptr, bytes, address);
}

static coll_status_t mixed_map(transport_t *t, int peer, const transport_address_t *address,
                               void **ptr) {
  transport_t *part = part_of(mixed_of(t), peer, &peer);
  return part->ops->map(part, peer, address, ptr);
}

static coll_status_t mixed_pass_descriptor(transport_t *t, int peer, uint64_t tag, int descriptor,
                                           bool *done) {
  transport_t *part = part_of(mixed_of(t), peer, &peer);
  return part->ops->pass_descriptor(part, peer, tag, descriptor, done);
}

static coll_status_t mixed_take_descriptor(transport_t *t, int peer, uint64_t tag, int *descriptor,
                                           bool *done) {
  transport_t *part = part_of(mixed_of(t), peer, &peer);
  return part->ops->take_descriptor(part, peer, tag, descriptor, done);
}

static void mixed_scratch(transport_t *t, int rank, void **ptr, size_t *bytes) {
  const mixed_t *m = mixed_of(t);
  transport_t *part = part_of(m, rank, &rank);
  part->ops->scratch(part, rank, ptr, bytes);
  *bytes = m->scratch_bytes;
}

/* ---- sleeping -------------------------------------------------------------------------------*/

static void mixed_arm(transport_t *t) {
  mixed_t *m = mixed_of(t);
  m->net->ops->arm(m->net);
  if (m->local == NULL) return;
  m->local->ops->arm(m->local);
  m->is_alarm_set = mixed_alarm_set(&m->alarm);
}

static void mixed_sleep(transport_t *t, uint64_t timeout_ns) {
  mixed_t *m = mixed_of(t);
  if (m->local == NULL) {
    m->net->ops->sleep(m->net, timeout_ns);
    return;
  }
  if (transport_net_has_arrived(m->net)) return;
  if (!m->is_alarm_set && timeout_ns > WITHOUT_ALARM_NS) timeout_ns = WITHOUT_ALARM_NS;
  m->local->ops->sleep(m->local, timeout_ns);
  m->net->ops->sleep(m->net, 0);
}

static void mixed_disarm(transport_t *t) {
  mixed_t *m = mixed_of(t);
  m->net->ops->disarm(m->net);
  if (m->local != NULL) m->local->ops->disarm(m->local);
}

static void ring(void *context) {
  transport_shm_wake(context);
}

/* ---- peers ----------------------------------------------------------------------------------*/

/* A rank of this host that left after an abort has said so in local's memory, while the news may
 * still be on its way over the network, which has to agree on the reason. */
static transport_peer_state_t mixed_peer_state(transport_t *t, int peer) {
  const mixed_t *m = mixed_of(t);
  transport_reason_t reason;
  transport_t *part = part_of(m, peer, &peer);
  transport_peer_state_t state = part->ops->peer_state(part, peer);
  if (part != m->local || state == TRANSPORT_PEER_HERE) return state;
  if (!part->ops->aborted(part, &reason)) return state;
  m->net->ops->abort(m->net, &reason);
  return TRANSPORT_PEER_HERE;
}

static const char *mixed_route(const transport_t *t, int peer) {
  const transport_t *part = part_of((const mixed_t *)(const void *)t, peer, &peer);
  return part->ops->route(part, peer);
}

static void mixed_waits_for(transport_t *t, int peer) {
  transport_t *part = part_of(mixed_of(t), peer, &peer);
  part->ops->waits_for(part, peer);
}

static void mixed_why_lost(transport_t *t, int peer, char why[TRANSPORT_WHY_BYTES]) {
  transport_t *part = part_of(mixed_of(t), peer, &peer);
  part->ops->why_lost(part, peer, why);
}

static const flight_recorder_t *mixed_recorder(transport_t *t, int rank) {
  transport_t *part = part_of(mixed_of(t), rank, &rank);
  return part->ops->recorder(part, rank);
}

static void mixed_publish(transport_t *t) {
  transport_t *net = mixed_of(t)->net;
  net->ops->publish(net);
}

static void tell_local(const mixed_t *m, const transport_reason_t *reason) {
  if (m->local != NULL) m->local->ops->abort(m->local, reason);
}

static void mixed_abort(transport_t *t, const transport_reason_t *reason) {
  const mixed_t *m = mixed_of(t);
  m->net->ops->abort(m->net, reason);
  tell_local(m, reason);
}

static bool mixed_aborted(transport_t *t, transport_reason_t *reason) {
  const mixed_t *m = mixed_of(t);
  if (!m->net->ops->aborted(m->net, reason)) return false;
  tell_local(m, reason);
  return true;
}

static void mixed_destroy(transport_t *t) {
  mixed_t *m = mixed_of(t);
  if (m->local != NULL) mixed_alarm_close(&m->alarm);
  m->net->ops->destroy(m->net); /* which publishes the recorder in local's memory */
  if (m->local != NULL) m->local->ops->destroy(m->local);
  free(m->local_of);
  free(m);
}

static const transport_ops_t mixed_ops = {
    .name = "shm and tcp",
    .port = mixed_port,
    .used_channel = mixed_used_channel,
    .send = mixed_send,
    .send_lent = mixed_send_lent,
    .recv = mixed_recv,
    .recv_post = mixed_recv_post,
    .release = mixed_release,
    .cancel = mixed_cancel,
    .drained = mixed_drained,
    .peek = mixed_peek,
    .take = mixed_take,
    .mcast_send = transport_default_mcast_send,
    .mcast_peek = transport_default_mcast_peek,
    .mcast_take = transport_default_mcast_take,
    .signal = mixed_signal,
    .wait = mixed_wait,
    .signaled = mixed_signaled,
    .pending_in = mixed_pending_in,
    .pending_out = mixed_pending_out,
    .address = mixed_address,
    .map = mixed_map,
    .probe_get = transport_default_probe_get,
    .peer_gets = transport_default_peer_gets,
    .get = transport_default_get,
    .fetch = &transport_no_fetch, /* ports are those of the parts */
    .pass_descriptor = mixed_pass_descriptor,
    .take_descriptor = mixed_take_descriptor,
    .scratch = mixed_scratch,
    .arm = mixed_arm,
    .sleep = mixed_sleep,
    .disarm = mixed_disarm,
    .yield_hint = transport_default_yield_hint,
    .yield = transport_default_yield,
    .recorder = mixed_recorder,
    .publish = mixed_publish,
    .peer_state = mixed_peer_state,
    .route = mixed_route,
    .waits_for = mixed_waits_for,
    .why_lost = mixed_why_lost,
    .abort = mixed_abort,
    .aborted = mixed_aborted,
    .destroy = mixed_destroy,
};

/* ---- creation -------------------------------------------------------------------------------*/

/* The recorder is in memory that the ranks of this host share, under this rank's number among all.
 */
static flight_recorder_t *share_recorder(const mixed_t *m) {
  if (m->local == NULL) return m->net->flight;
  flight_recorder_t *flight = m->local->flight;
  flight_begin(flight, atomic_load(&flight->communicator), m->net->rank);
  transport_net_set_recorder(m->net, flight);
  return flight;
}

static coll_status_t fill(mixed_t *m, const transport_mixed_parts_t *parts) {
  size_t size = (size_t)parts->net->size;
  COLL_TRY(base_alloc(size, sizeof *m->local_of, "ranks of this host", (void **)&m->local_of));
  memcpy(m->local_of, parts->local_of, size * sizeof *m->local_of);
  if (m->local == NULL) return COLL_OK;
  return mixed_alarm_open(&m->alarm, transport_net_descriptor(m->net), ring, m->local);
}

coll_status_t transport_mixed_create(const transport_mixed_parts_t *parts, transport_t **t) {
  mixed_t *made = NULL;
  coll_status_t status = base_alloc(1, sizeof *made, "a mixed transport", (void **)&made);
  if (status == COLL_OK) {
    made->local = parts->local;
    made->net = parts->net;
    made->scratch_bytes = parts->scratch_bytes;
    status = fill(made, parts);
  }
  if (status != COLL_OK) {
    if (parts->local != NULL) parts->local->ops->destroy(parts->local);
    parts->net->ops->destroy(parts->net);
    if (made != NULL) free(made->local_of);
    free(made);
    return status;
  }
  made->base = (transport_t){.ops = &mixed_ops,
                             .rank = made->net->rank,
                             .size = made->net->size,
                             .slot_bytes = parts->slot_bytes,
                             .peeks = true,
                             .delays = true,
                             .maps = true,
                             .abort_word = made->net->abort_word,
                             .flight = share_recorder(made)};
  *t = &made->base;
  return COLL_OK;
}
