/* The slots of transport_ops_t. Each takes the end's lock, because other threads may abort. */
#include "transport/net/net.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/deadline.h"
#include "transport/defaults.h"
#include "transport/net/state.h"

#define EVENTS_AT_ONCE 64
/* How long a rank that leaves waits until its peers' hosts have received what it has sent, and in a
 * communicator that has failed. */
#define LEAVE_NS 60000000000u
#define LEAVE_FAILED_NS 1000000000u
#define LEAVE_POLL_NS 1000000u
#define VERDICT_POLL_NS 1000000u

static net_t *lock(transport_t *t) {
  net_t *end = net_of(t);
  pthread_mutex_lock(&end->lock);
  return end;
}

static coll_status_t unlock(net_t *end, coll_status_t status) {
  pthread_mutex_unlock(&end->lock);
  return status;
}

/* ---- messages and signals -------------------------------------------------------------------*/

static transport_port_t *net_port(transport_t *t, int peer, int channel) {
  net_fifo_t *fifo = NULL;
  assert(peer != t->rank);
  net_t *end = lock(t);
  coll_status_t status = net_fifo_find(&end->channels.peers[peer], channel, &fifo);
  return unlock(end, status) == COLL_OK ? &fifo->port : NULL;
}

static int net_used_channel(transport_t *t, int peer, int channel) {
  net_t *end = lock(t);
  net_fifo_t *const *fifos = end->channels.peers[peer].fifos;
  (void)net_route_receive_all(&end->channels.peers[peer]);
  while (channel < TRANSPORT_CHANNELS_MAX && (fifos[channel] == NULL || !fifos[channel]->used)) {
    channel++;
  }
  unlock(end, COLL_OK);
  return channel;
}

static coll_status_t net_send(transport_port_t *port, const void *data,
                              const transport_head_t *head, bool *done) {
  assert(head->bytes <= port->transport->slot_bytes);
  net_t *end = lock(port->transport);
  return unlock(end, net_fifo_send(net_fifo_of(port), data, head, false, done));
}

static coll_status_t net_send_lent(transport_port_t *port, const void *data,
                                   const transport_head_t *head, bool *done) {
  assert(head->bytes <= port->transport->slot_bytes);
  net_t *end = lock(port->transport);
  return unlock(end, net_fifo_send(net_fifo_of(port), data, head, true, done));
}

static coll_status_t net_peek(transport_port_t *port, const void **data, transport_head_t *head,
                              bool *done) {
  net_t *end = lock(port->transport);
  return unlock(end, net_fifo_peek(net_fifo_of(port), data, head, done));
}

static coll_status_t net_take(transport_port_t *port) {
  net_t *end = lock(port->transport);
  return unlock(end, net_fifo_take(net_fifo_of(port)));
}

static coll_status_t net_recv(transport_port_t *port, void *data, size_t capacity,
                              transport_head_t *head, bool *done) {
  net_t *end = lock(port->transport);
  return unlock(end, net_fifo_recv(net_fifo_of(port), data, capacity, head, done));
}

static coll_status_t net_recv_post(transport_port_t *port, void *data, size_t capacity,
                                   transport_head_t *head, bool *done) {
  net_t *end = lock(port->transport);
  return unlock(end, net_fifo_recv_post(net_fifo_of(port), data, capacity, head, done));
}

static void net_release(transport_t *t) {
  net_t *end = lock(t);
  net_outgoing_return_lent(&end->channels);
  unlock(end, COLL_OK);
}

static void net_cancel(transport_t *t) {
  net_t *end = lock(t);
  for (int rank = 0; rank < t->size && end->channels.posts > 0; rank++) {
    net_fifo_t *const *fifos = end->channels.peers[rank].fifos;
    for (int channel = 0; channel < TRANSPORT_CHANNELS_MAX; channel++) {
      if (fifos[channel] != NULL) net_fifo_cancel(fifos[channel]);
    }
  }
  unlock(end, COLL_OK);
}

static bool net_drained(transport_port_t *port) {
  const net_fifo_t *fifo = net_fifo_of(port);
  net_t *end = lock(port->transport);
  bool drained = net_route_drain(fifo->peer, fifo->channel);
  unlock(end, COLL_OK);
  return drained;
}

static coll_status_t net_signal(transport_port_t *port, const flight_call_t *call, bool *done) {
  net_t *end = lock(port->transport);
  return unlock(end, net_fifo_signal(net_fifo_of(port), call, done));
}

static coll_status_t net_wait(transport_port_t *port, flight_call_t *call, bool *arrived) {
  const flight_call_t *found = NULL;
  net_fifo_t *fifo = net_fifo_of(port);
  net_t *end = lock(port->transport);
  coll_status_t status = net_fifo_signaled(fifo, &found);
  *arrived = found != NULL;
  if (*arrived) {
    *call = *found;
    status = net_fifo_take_signal(fifo);
  }
  return unlock(end, status);
}

static bool net_signaled(transport_port_t *port) {
  const flight_call_t *found = NULL;
  net_t *end = lock(port->transport);
  coll_status_t status = net_fifo_signaled(net_fifo_of(port), &found);
  return unlock(end, status) == COLL_OK && found != NULL;
}

static bool net_pending_in(transport_port_t *port, flight_call_t *call) {
  const flight_call_t *signal = NULL;
  wire_message_t *message = NULL;
  net_fifo_t *fifo = net_fifo_of(port);
  net_t *end = lock(port->transport);
  (void)net_route_receive_all(fifo->peer);
  /* both receive: of a message and the signal behind it, the message is not missed */
  if (net_fifo_signaled(fifo, &signal) == COLL_OK) (void)net_fifo_oldest(fifo, &message);
  bool pending = message != NULL || signal != NULL;
  if (pending) *call = message != NULL ? message->call : *signal;
  unlock(end, COLL_OK);
  return pending;
}

static bool net_pending_out(transport_port_t *port, flight_call_t *call) {
  net_fifo_t *fifo = net_fifo_of(port);
  net_t *end = lock(port->transport);
  (void)net_route_receive_all(fifo->peer);
  const net_pair_t *pair = fifo->peer->pair;
  bool has_left = pair->state == TRANSPORT_PEER_LEFT ||
                  (pair->state == TRANSPORT_PEER_LOST && pair->loss == NET_LOSS_REFUSED);
  bool pending = has_left && fifo->sent != fifo->acked;
  if (pending) *call = fifo->calls[fifo->acked % fifo->limit];
  unlock(end, COLL_OK);
  return pending;
}

/* ---- sleeping -------------------------------------------------------------------------------*/

static void handle(net_t *end, const struct epoll_event *event) {
  uint64_t count;
  if (event->data.u32 == NET_WAKEUP_EVENT) {
    (void)!read(end->channels.wakeup, &count, sizeof count);
    return;
  }
  if (event->data.u32 == NET_WIRE_EVENT) return;
  int link = (int)event->data.u32;
  end->sockets->ops->flush(end->sockets, link);
  (void)end->sockets->ops->progress(end->sockets, link);
}

/* Receives from all peers, no further than to the end of a long payload of each. Waits for
 * something to arrive for at most timeout_ns. The lock is held but while it waits. */
static void receive_all(net_t *end, uint64_t timeout_ns) {
  struct epoll_event events[EVENTS_AT_ONCE];
  if (timeout_ns > 0) pthread_mutex_unlock(&end->lock);
  int count = epoll_wait(end->sockets->descriptor, events, EVENTS_AT_ONCE,
                         base_deadline_limit_ms(timeout_ns));
  if (timeout_ns > 0) pthread_mutex_lock(&end->lock);
  for (int i = 0; i < count; i++) handle(end, &events[i]);
  if (end->wire != NULL) (void)end->wire->ops->progress(end->wire, -1);
  net_abort_check(&end->channels, false);
}

static void net_arm(transport_t *t) {
  net_t *end = lock(t);
  end->channels.arrivals_at_arm = end->channels.arrivals;
  end->channels.is_armed = true;
  end->channels.sleeper = pthread_self();
  end->wire_is_due = end->wire != NULL && !end->wire->ops->arm(end->wire);
  unlock(end, COLL_OK);
}

/* What has arrived since arm on another channel than the one that was polled is no longer in a
 * socket. */
static void net_sleep(transport_t *t, uint64_t timeout_ns) {
  net_t *end = lock(t);
  if (end->wire_is_due) timeout_ns = 0;
  if (end->channels.arrivals == end->channels.arrivals_at_arm) receive_all(end, timeout_ns);
  unlock(end, COLL_OK);
}

static void net_disarm(transport_t *t) {
  net_t *end = lock(t);
  end->channels.is_armed = false;
  unlock(end, COLL_OK);
}

/* ---- peers ----------------------------------------------------------------------------------*/

static transport_peer_state_t net_peer_state(transport_t *t, int rank) {
  net_t *end = lock(t);
  net_peer_t *peer = &end->channels.peers[rank];
  (void)net_route_receive_all(peer);
  net_pair_check(peer->pair);
  transport_peer_state_t state = peer->pair->state;
  unlock(end, COLL_OK);
  return state;
}

static const char *net_route(const transport_t *t, int peer) {
  const net_t *end = (const net_t *)(const void *)t;
  return end->channels.peers[peer].has_wire ? end->wire->ops->name : t->ops->name;
}

static void net_waits_for(transport_t *t, int rank) {
  net_t *end = lock(t);
  net_pair_await(&end->pairs.pairs[rank]);
  unlock(end, COLL_OK);
}

static void net_why_lost(transport_t *t, int rank, char why[TRANSPORT_WHY_BYTES]) {
  net_t *end = lock(t);
  net_pair_describe(&end->pairs.pairs[rank], why);
  unlock(end, COLL_OK);
}

static const flight_recorder_t *net_recorder(transport_t *t, int rank) {
  if (rank == t->rank) return t->flight;
  net_t *end = lock(t);
  net_peer_t *peer = &end->channels.peers[rank];
  (void)net_route_receive_all(peer);
  if (!net_pair_is_pending(peer->pair)) (void)net_record_find(peer);
  const flight_recorder_t *found = peer->recorder;
  unlock(end, COLL_OK);
  return found;
}

static void net_publish(transport_t *t) {
  net_t *end = lock(t);
  for (int rank = 0; rank < t->size; rank++) {
    if (rank != t->rank) net_record_publish(&end->channels.peers[rank]);
  }
  unlock(end, COLL_OK);
}

static void net_abort(transport_t *t, const transport_reason_t *reason) {
  net_t *end = lock(t);
  net_abort_propose(&end->channels, t->rank, reason);
  unlock(end, COLL_OK);
}

/* Waits for the verdict once there is a proposal. */
static bool net_aborted(transport_t *t, transport_reason_t *reason) {
  net_t *end = lock(t);
  const net_channels_t *channels = &end->channels;
  for (bool more = true; more && !channels->proposed && !channels->decided;) {
    uint64_t before = channels->arrivals;
    receive_all(end, 0);
    more = channels->arrivals != before;
  }
  bool aborted = channels->proposed || channels->decided;
  while (aborted && !channels->decided) receive_all(end, VERDICT_POLL_NS);
  if (aborted) *reason = channels->reason;
  unlock(end, COLL_OK);
  return aborted;
}

/* ---- memory: that of peers cannot be mapped ---------------------------------------------------*/

static void net_scratch(transport_t *t, int rank, void **ptr, size_t *bytes) {
  *ptr = rank == t->rank ? net_of(t)->scratch : NULL;
  *bytes = NET_SCRATCH_BYTES;
}

/* ---- leaving --------------------------------------------------------------------------------*/

static bool any_unsent(net_t *end) {
  bool any = false;
  for (int rank = 0; rank < end->transport.size; rank++) {
    bool is_unsent = net_route_is_unsent(&end->channels.peers[rank]);
    if (is_unsent) net_pair_check(&end->pairs.pairs[rank]);
    any = any || is_unsent;
  }
  return any;
}

/* After an abort, ranks that are not connected with this one may still have to be told why. */
static bool lingers(const net_t *end, uint64_t now_ns, uint64_t began_ns) {
  return end->channels.decided && !end->pairs.is_mesh && now_ns < began_ns + LEAVE_FAILED_NS;
}

/* A socket that is closed with something unread resets the connection, which discards what the
 * peer's host has not acknowledged. */
static void leave(net_t *end) {
  uint64_t began_ns = base_clock_now_ns(), now_ns = began_ns;
  net_abort_check(&end->channels, true);
  end->channels.is_leaving = true;
  for (int rank = 0; rank < end->transport.size; rank++) {
    const net_pair_t *pair = &end->pairs.pairs[rank];
    if (net_pair_is_open(pair) || (pair->is_known && net_pair_is_pending(pair))) {
      net_peer_say_leave(&end->channels.peers[rank]);
    }
  }
  while ((any_unsent(end) || lingers(end, now_ns, began_ns)) &&
         now_ns < began_ns + (end->channels.decided ? LEAVE_FAILED_NS : LEAVE_NS)) {
    receive_all(end, LEAVE_POLL_NS);
    now_ns = base_clock_now_ns();
  }
}

/* What is stored goes back to the wires before these are destroyed. */
static void free_rooms(net_t *end) {
  for (int rank = 0; end->channels.peers != NULL && rank < end->transport.size; rank++) {
    net_pair_close(&end->pairs.pairs[rank], TRANSPORT_PEER_LEFT);
    net_peer_free(&end->channels.peers[rank]);
  }
  if (end->wire != NULL) end->wire->ops->destroy(end->wire);
  if (end->sockets != NULL) end->sockets->ops->destroy(end->sockets);
  net_channels_free(&end->channels);
  net_pairs_free(&end->pairs);
}

static void net_destroy(transport_t *t) {
  net_t *end = lock(t);
  if (end->is_complete) leave(end);
  unlock(end, COLL_OK);
  net_pairs_end_connecting(&end->pairs);
  lock(t);
  free_rooms(end);
  unlock(end, COLL_OK);
  pthread_mutex_destroy(&end->lock);
  free(end->scratch);
  free(end);
}

const transport_ops_t net_ops = {
    .name = "tcp",
    .port = net_port,
    .used_channel = net_used_channel,
    .send = net_send,
    .send_lent = net_send_lent,
    .recv = net_recv,
    .recv_post = net_recv_post,
    .release = net_release,
    .cancel = net_cancel,
    .drained = net_drained,
    .peek = net_peek,
    .take = net_take,
    .mcast_send = transport_default_mcast_send,
    .mcast_peek = transport_default_mcast_peek,
    .mcast_take = transport_default_mcast_take,
    .signal = net_signal,
    .wait = net_wait,
    .signaled = net_signaled,
    .pending_in = net_pending_in,
    .pending_out = net_pending_out,
    .address = transport_default_address,
    .map = transport_default_map,
    .probe_get = transport_default_probe_get,
    .peer_gets = transport_default_peer_gets,
    .get = transport_default_get,
    .fetch = &net_fetch_ops,
    .pass_descriptor = transport_default_pass_descriptor,
    .take_descriptor = transport_default_take_descriptor,
    .scratch = net_scratch,
    .arm = net_arm,
    .sleep = net_sleep,
    .disarm = net_disarm,
    .yield_hint = transport_default_yield_hint,
    .yield = transport_default_yield,
    .recorder = net_recorder,
    .publish = net_publish,
    .peer_state = net_peer_state,
    .route = net_route,
    .waits_for = net_waits_for,
    .why_lost = net_why_lost,
    .abort = net_abort,
    .aborted = net_aborted,
    .destroy = net_destroy,
};

void transport_net_room(bool any_wire, size_t *slot_bytes, size_t *scratch_bytes) {
  *slot_bytes = any_wire ? WIRE_SLOT_BYTES : NET_SLOT_BYTES;
  *scratch_bytes = NET_SCRATCH_BYTES;
}

int transport_net_descriptor(transport_t *t) {
  return net_of(t)->sockets->descriptor;
}

bool transport_net_has_arrived(transport_t *t) {
  net_t *end = lock(t);
  const net_channels_t *channels = &end->channels;
  bool arrived = channels->arrivals != channels->arrivals_at_arm || end->wire_is_due;
  unlock(end, COLL_OK);
  return arrived;
}

void transport_net_set_recorder(transport_t *t, const flight_recorder_t *recorder) {
  net_of(t)->channels.published = recorder;
}
