/* The slots of transport_ops_t. Each takes the end's lock, because other threads may abort. */
#include "transport/tcp/tcp.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/deadline.h"
#include "transport/defaults.h"
#include "transport/tcp/end.h"

#define EVENTS_AT_ONCE 64
/* How long a rank that leaves waits until its peers' hosts have received what it has sent, and in a
 * communicator that has failed. */
#define LEAVE_NS 60000000000u
#define LEAVE_FAILED_NS 1000000000u
#define LEAVE_POLL_NS 1000000u
#define VERDICT_POLL_NS 1000000u

static tcp_t *lock(transport_t *t) {
  tcp_t *end = tcp_end_of(t);
  pthread_mutex_lock(&end->lock);
  return end;
}

static coll_status_t unlock(tcp_t *end, coll_status_t status) {
  pthread_mutex_unlock(&end->lock);
  return status;
}

/* ---- messages and signals -------------------------------------------------------------------*/

static transport_port_t *tcp_port(transport_t *t, int peer, int channel) {
  tcp_fifo_t *fifo = NULL;
  assert(peer != t->rank);
  tcp_t *end = lock(t);
  coll_status_t status = tcp_fifo_find(&end->peers[peer], channel, &fifo);
  return unlock(end, status) == COLL_OK ? &fifo->port : NULL;
}

static int tcp_used_channel(transport_t *t, int peer, int channel) {
  tcp_t *end = lock(t);
  tcp_fifo_t *const *fifos = end->peers[peer].fifos;
  (void)tcp_route_receive(&end->peers[peer]);
  while (channel < TRANSPORT_CHANNELS_MAX && (fifos[channel] == NULL || !fifos[channel]->used)) {
    channel++;
  }
  unlock(end, COLL_OK);
  return channel;
}

static coll_status_t tcp_send(transport_port_t *port, const void *data,
                              const transport_head_t *head, bool *done) {
  assert(head->bytes <= port->transport->slot_bytes);
  tcp_t *end = lock(port->transport);
  return unlock(end, tcp_fifo_send(tcp_fifo_of(port), data, head, false, done));
}

static coll_status_t tcp_send_lent(transport_port_t *port, const void *data,
                                   const transport_head_t *head, bool *done) {
  assert(head->bytes <= port->transport->slot_bytes);
  tcp_t *end = lock(port->transport);
  return unlock(end, tcp_fifo_send(tcp_fifo_of(port), data, head, true, done));
}

static coll_status_t tcp_peek(transport_port_t *port, const void **data, transport_head_t *head,
                              bool *done) {
  tcp_t *end = lock(port->transport);
  return unlock(end, tcp_fifo_peek(tcp_fifo_of(port), data, head, done));
}

static coll_status_t tcp_take(transport_port_t *port) {
  tcp_t *end = lock(port->transport);
  return unlock(end, tcp_fifo_take(tcp_fifo_of(port)));
}

static coll_status_t tcp_recv(transport_port_t *port, void *data, size_t capacity,
                              transport_head_t *head, bool *done) {
  tcp_t *end = lock(port->transport);
  return unlock(end, tcp_fifo_recv(tcp_fifo_of(port), data, capacity, head, done));
}

static coll_status_t tcp_recv_post(transport_port_t *port, void *data, size_t capacity,
                                   transport_head_t *head, bool *done) {
  tcp_t *end = lock(port->transport);
  return unlock(end, tcp_fifo_recv_post(tcp_fifo_of(port), data, capacity, head, done));
}

static void tcp_release(transport_t *t) {
  tcp_t *end = lock(t);
  tcp_outgoing_return_lent(end);
  unlock(end, COLL_OK);
}

static void tcp_cancel(transport_t *t) {
  tcp_t *end = lock(t);
  for (int rank = 0; rank < t->size && end->posts > 0; rank++) {
    tcp_fifo_t *const *fifos = end->peers[rank].fifos;
    for (int channel = 0; channel < TRANSPORT_CHANNELS_MAX; channel++) {
      if (fifos[channel] != NULL) tcp_fifo_cancel(fifos[channel]);
    }
  }
  unlock(end, COLL_OK);
}

static coll_status_t tcp_signal(transport_port_t *port, const flight_call_t *call, bool *done) {
  tcp_t *end = lock(port->transport);
  return unlock(end, tcp_fifo_signal(tcp_fifo_of(port), call, done));
}

static coll_status_t tcp_wait(transport_port_t *port, flight_call_t *call, bool *arrived) {
  const flight_call_t *found = NULL;
  tcp_fifo_t *fifo = tcp_fifo_of(port);
  tcp_t *end = lock(port->transport);
  coll_status_t status = tcp_fifo_signaled(fifo, &found);
  *arrived = found != NULL;
  if (*arrived) {
    *call = *found;
    status = tcp_fifo_take_signal(fifo);
  }
  return unlock(end, status);
}

static bool tcp_signaled(transport_port_t *port) {
  const flight_call_t *found = NULL;
  tcp_t *end = lock(port->transport);
  coll_status_t status = tcp_fifo_signaled(tcp_fifo_of(port), &found);
  return unlock(end, status) == COLL_OK && found != NULL;
}

static bool tcp_pending_in(transport_port_t *port, flight_call_t *call) {
  const flight_call_t *signal = NULL;
  tcp_message_t *message = NULL;
  tcp_fifo_t *fifo = tcp_fifo_of(port);
  tcp_t *end = lock(port->transport);
  if (tcp_fifo_oldest(fifo, &message) == COLL_OK) (void)tcp_fifo_signaled(fifo, &signal);
  bool pending = message != NULL || signal != NULL;
  if (pending) *call = message != NULL ? message->call : *signal;
  unlock(end, COLL_OK);
  return pending;
}

static bool tcp_pending_out(transport_port_t *port, flight_call_t *call) {
  tcp_fifo_t *fifo = tcp_fifo_of(port);
  tcp_t *end = lock(port->transport);
  (void)tcp_route_receive(fifo->peer);
  bool has_left =
      fifo->peer->state == TRANSPORT_PEER_LEFT ||
      (fifo->peer->state == TRANSPORT_PEER_LOST && fifo->peer->loss == TCP_LOSS_REFUSED);
  bool pending = has_left && fifo->sent != fifo->acked;
  if (pending) *call = fifo->calls[fifo->acked % fifo->limit];
  unlock(end, COLL_OK);
  return pending;
}

/* ---- sleeping -------------------------------------------------------------------------------*/

static void handle(tcp_t *end, const struct epoll_event *event) {
  uint64_t count;
  if (event->data.u32 == TCP_WAKEUP_EVENT) {
    (void)!read(end->wakeup, &count, sizeof count);
    return;
  }
  if (event->data.u32 == TCP_NETMOD_EVENT) return;
  tcp_rail_t *rail = &end->rails[event->data.u32];
  tcp_stream_flush(rail);
  (void)tcp_stream_receive(rail);
}

/* Receives from all peers. Waits for something to arrive for at most timeout_ns. The lock is held
 * but while it waits. */
static void receive_all(tcp_t *end, uint64_t timeout_ns) {
  struct epoll_event events[EVENTS_AT_ONCE];
  if (timeout_ns > 0) pthread_mutex_unlock(&end->lock);
  int count = epoll_wait(end->wait_set, events, EVENTS_AT_ONCE, base_deadline_limit_ms(timeout_ns));
  if (timeout_ns > 0) pthread_mutex_lock(&end->lock);
  for (int i = 0; i < count; i++) handle(end, &events[i]);
  if (end->netmod != NULL) (void)end->netmod->ops->progress(end->netmod);
  tcp_abort_check(end, false);
}

static void tcp_arm(transport_t *t) {
  tcp_t *end = lock(t);
  end->arrivals_at_arm = end->arrivals;
  end->is_armed = true;
  end->sleeper = pthread_self();
  end->netmod_is_due = end->netmod != NULL && !end->netmod->ops->arm(end->netmod);
  unlock(end, COLL_OK);
}

/* What has arrived since arm on another channel than the one that was polled is no longer in a
 * socket. */
static void tcp_sleep(transport_t *t, uint64_t timeout_ns) {
  tcp_t *end = lock(t);
  if (end->netmod_is_due) timeout_ns = 0;
  if (end->arrivals == end->arrivals_at_arm) receive_all(end, timeout_ns);
  unlock(end, COLL_OK);
}

static void tcp_disarm(transport_t *t) {
  tcp_t *end = lock(t);
  end->is_armed = false;
  unlock(end, COLL_OK);
}

/* ---- peers ----------------------------------------------------------------------------------*/

static transport_peer_state_t tcp_peer_state(transport_t *t, int rank) {
  tcp_t *end = lock(t);
  (void)tcp_route_receive_all(&end->peers[rank]);
  tcp_health_check(&end->peers[rank]);
  transport_peer_state_t state = end->peers[rank].state;
  unlock(end, COLL_OK);
  return state;
}

static const char *tcp_route(const transport_t *t, int peer) {
  const tcp_t *end = (const tcp_t *)(const void *)t;
  return end->peers[peer].has_netmod ? end->netmod->ops->name : t->ops->name;
}

static void tcp_waits_for(transport_t *t, int rank) {
  tcp_t *end = lock(t);
  tcp_end_waits_for(&end->peers[rank]);
  unlock(end, COLL_OK);
}

static void tcp_why_lost(transport_t *t, int rank, char why[TRANSPORT_WHY_BYTES]) {
  tcp_t *end = lock(t);
  tcp_health_describe(&end->peers[rank], why);
  unlock(end, COLL_OK);
}

static const flight_recorder_t *tcp_recorder(transport_t *t, int rank) {
  if (rank == t->rank) return t->flight;
  tcp_t *end = lock(t);
  (void)tcp_route_receive_all(&end->peers[rank]);
  if (!tcp_peer_is_pending(&end->peers[rank])) (void)tcp_fifo_recorder(&end->peers[rank]);
  const flight_recorder_t *found = end->peers[rank].recorder;
  unlock(end, COLL_OK);
  return found;
}

static void tcp_publish(transport_t *t) {
  tcp_t *end = lock(t);
  for (int rank = 0; rank < t->size; rank++) {
    if (rank != t->rank) tcp_stream_publish(&end->peers[rank]);
  }
  unlock(end, COLL_OK);
}

static void tcp_abort(transport_t *t, const transport_reason_t *reason) {
  tcp_t *end = lock(t);
  tcp_abort_propose(end, t->rank, reason);
  unlock(end, COLL_OK);
}

/* Waits for the verdict once there is a proposal. */
static bool tcp_aborted(transport_t *t, transport_reason_t *reason) {
  tcp_t *end = lock(t);
  if (!end->proposed && !end->decided) receive_all(end, 0);
  bool aborted = end->proposed || end->decided;
  while (aborted && !end->decided) receive_all(end, VERDICT_POLL_NS);
  if (aborted) *reason = end->reason;
  unlock(end, COLL_OK);
  return aborted;
}

/* ---- memory: that of peers cannot be mapped ---------------------------------------------------*/

static void tcp_scratch(transport_t *t, int rank, void **ptr, size_t *bytes) {
  *ptr = rank == t->rank ? tcp_end_of(t)->scratch : NULL;
  *bytes = TCP_SCRATCH_BYTES;
}

/* ---- leaving --------------------------------------------------------------------------------*/

static bool any_unsent(tcp_t *end) {
  bool any = false;
  for (int rank = 0; rank < end->transport.size; rank++) {
    bool is_unsent = tcp_route_is_unsent(&end->peers[rank]);
    if (is_unsent) tcp_health_check(&end->peers[rank]);
    any = any || is_unsent;
  }
  return any;
}

void tcp_end_say_leave(tcp_peer_t *peer) {
  const tcp_frame_t frame = {.kind = TCP_LEAVE};
  for (int channel = 0; channel < TRANSPORT_CHANNELS_MAX; channel++) {
    tcp_fifo_t *fifo = peer->fifos[channel];
    if (fifo != NULL && fifo->used) (void)tcp_fifo_credit(fifo);
  }
  tcp_stream_publish(peer); /* so that the peer sees which calls this rank has completed */
  (void)tcp_route_send(peer, &frame, NULL, false);
}

/* After an abort, ranks that are not connected with this one may still have to be told why. */
static bool lingers(const tcp_t *end, uint64_t now_ns, uint64_t began_ns) {
  return end->decided && !end->is_mesh && now_ns < began_ns + LEAVE_FAILED_NS;
}

/* A socket that is closed with something unread resets the connection, which discards what the
 * peer's host has not acknowledged. */
static void leave(tcp_t *end) {
  uint64_t began_ns = base_clock_now_ns(), now_ns = began_ns;
  tcp_abort_check(end, true);
  end->is_leaving = true;
  for (int rank = 0; rank < end->transport.size; rank++) {
    tcp_peer_t *peer = &end->peers[rank];
    if (tcp_peer_is_open(peer) || (peer->is_known && tcp_peer_is_pending(peer))) {
      tcp_end_say_leave(peer);
    }
  }
  while ((any_unsent(end) || lingers(end, now_ns, began_ns)) &&
         now_ns < began_ns + (end->decided ? LEAVE_FAILED_NS : LEAVE_NS)) {
    receive_all(end, LEAVE_POLL_NS);
    now_ns = base_clock_now_ns();
  }
}

static void free_peer(tcp_peer_t *peer) {
  tcp_rails_close(peer, TRANSPORT_PEER_LEFT);
  for (int channel = 0; channel < TRANSPORT_CHANNELS_MAX; channel++) {
    tcp_fifo_free(peer->fifos[channel]);
  }
  tcp_route_free(peer);
  tcp_order_free(peer);
  free(peer->recorder);
}

static void tcp_destroy(transport_t *t) {
  tcp_t *end = lock(t);
  tcp_connector_t *connector = end->connector;
  if (end->is_complete) leave(end);
  unlock(end, COLL_OK);
  tcp_connector_destroy(connector);
  lock(t);
  end->connector = NULL;
  for (int rank = 0; rank < t->size; rank++) free_peer(&end->peers[rank]);
  if (end->netmod != NULL) end->netmod->ops->destroy(end->netmod);
  unlock(end, COLL_OK);
  if (end->wait_set >= 0) close(end->wait_set);
  if (end->wakeup >= 0) close(end->wakeup);
  pthread_mutex_destroy(&end->lock);
  tcp_health_free(end);
  tcp_blocks_free(end);
  free(end->recorder);
  free(end->scratch);
  free(end->input);
  free(end->peers);
  free(end->rails);
  free(end);
}

const transport_ops_t tcp_ops = {
    .name = "tcp",
    .port = tcp_port,
    .used_channel = tcp_used_channel,
    .send = tcp_send,
    .send_lent = tcp_send_lent,
    .recv = tcp_recv,
    .recv_post = tcp_recv_post,
    .release = tcp_release,
    .cancel = tcp_cancel,
    .peek = tcp_peek,
    .take = tcp_take,
    .mcast_send = transport_default_mcast_send,
    .mcast_peek = transport_default_mcast_peek,
    .mcast_take = transport_default_mcast_take,
    .signal = tcp_signal,
    .wait = tcp_wait,
    .signaled = tcp_signaled,
    .pending_in = tcp_pending_in,
    .pending_out = tcp_pending_out,
    .address = transport_default_address,
    .map = transport_default_map,
    .probe_get = transport_default_probe_get,
    .peer_gets = transport_default_peer_gets,
    .get = transport_default_get,
    .fetch = &tcp_fetch_ops,
    .pass_descriptor = transport_default_pass_descriptor,
    .take_descriptor = transport_default_take_descriptor,
    .scratch = tcp_scratch,
    .arm = tcp_arm,
    .sleep = tcp_sleep,
    .disarm = tcp_disarm,
    .yield_hint = transport_default_yield_hint,
    .yield = transport_default_yield,
    .recorder = tcp_recorder,
    .publish = tcp_publish,
    .peer_state = tcp_peer_state,
    .route = tcp_route,
    .waits_for = tcp_waits_for,
    .why_lost = tcp_why_lost,
    .abort = tcp_abort,
    .aborted = tcp_aborted,
    .destroy = tcp_destroy,
};

void transport_tcp_room(bool any_netmod, size_t *slot_bytes, size_t *scratch_bytes) {
  *slot_bytes = any_netmod ? TCP_NETMOD_SLOT_BYTES : TCP_SLOT_BYTES;
  *scratch_bytes = TCP_SCRATCH_BYTES;
}

int transport_tcp_descriptor(transport_t *t) {
  return tcp_end_of(t)->wait_set;
}

bool transport_tcp_has_arrived(transport_t *t) {
  tcp_t *end = lock(t);
  bool arrived = end->arrivals != end->arrivals_at_arm || end->netmod_is_due;
  unlock(end, COLL_OK);
  return arrived;
}

void transport_tcp_set_recorder(transport_t *t, const flight_recorder_t *recorder) {
  tcp_end_of(t)->published = recorder;
}
