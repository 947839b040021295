/*
 * Messages and signals travel through the inner transport at once. Beside them, in scratch memory
 * of the sender, travel their numbers and times of arrival, before which the receiver does not look
 * at them.
 */
#include "transport/paced/paced.h"

#include <stdlib.h>
#include <sys/prctl.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "transport/defaults.h"
#include "transport/paced/fifo.h"
#include "transport/paced/link_clock.h"

#define CREDIT_POLL_NS 50000u /* a receiver does not wake the sender that it gives room to */
#define QUIET_NS_MAX 1000000u
#define TIMER_SLACK_NS 1000u

typedef struct paced_port {
  transport_port_t base;
  transport_port_t *inner;
  paced_end_t messages_out, messages_in, signals_out, signals_in;
  const int32_t *wires; /* of the path to the peer */
  int32_t wire_count;
  bool message_counted, signal_counted; /* that the inner transport has had no room for yet */
} paced_port_t;

typedef struct paced {
  transport_t base;
  transport_t *inner;
  topo_fabric_t *fabric;
  paced_wire_t *free_ns; /* in scratch memory of rank 0 */
  unsigned char **fifos; /* [size]: the ranks' shared memory */
  paced_port_t **ports;  /* [size * PACED_CHANNELS]: NULL until asked for */
  uint64_t wake_ns;      /* the earliest known arrival; UINT64_MAX: none known */
  uint64_t quiet_ns;     /* nothing that peers send from now on arrives before that has passed */
} paced_t;

static paced_t *paced_of(transport_t *t) {
  return (paced_t *)t;
}

static paced_port_t *port_of(transport_port_t *port) {
  return (paced_port_t *)port;
}

static paced_end_t end_of(const paced_t *paced, int from, int to, int channel, bool is_signal) {
  return paced_end_of(paced->fifos[from], to, channel, is_signal);
}

/* ---- times ----------------------------------------------------------------------------------*/

static void wake_at(transport_port_t *port, uint64_t ns) {
  paced_t *paced = paced_of(port->transport);
  if (ns < paced->wake_ns) paced->wake_ns = ns;
}

static bool has_credit(paced_port_t *port, const paced_end_t *end) {
  uint64_t oldest_ns;
  if (paced_end_has_room(end, &oldest_ns)) return true;
  uint64_t poll_ns = base_clock_now_ns() + CREDIT_POLL_NS;
  wake_at(&port->base, oldest_ns > poll_ns ? oldest_ns : poll_ns);
  return false;
}

/* Claims the path, and counts what is about to be sent: the inner transport may wake the receiver,
 * which then looks at the number. */
static void count_sent(paced_port_t *port, const paced_end_t *end, size_t bytes) {
  paced_t *paced = paced_of(port->base.transport);
  paced_end_send(end, paced_claim(paced->free_ns, paced->fabric, port->wires, port->wire_count,
                                  bytes, base_clock_now_ns()));
}

static bool has_arrived(paced_port_t *port, const paced_end_t *end) {
  uint64_t arrival_ns;
  if (!paced_end_first(end, &arrival_ns)) return false;
  if (base_clock_now_ns() >= arrival_ns) return true;
  wake_at(&port->base, arrival_ns);
  return false;
}

/* ---- messages and signals -------------------------------------------------------------------*/

static coll_status_t paced_send(transport_port_t *base, const void *data,
                                const transport_head_t *head, bool *done) {
  paced_port_t *port = port_of(base);
  *done = false;
  if (!port->message_counted) {
    if (!has_credit(port, &port->messages_out)) return COLL_OK;
    count_sent(port, &port->messages_out, head->bytes);
  }
  COLL_TRY(port->inner->transport->ops->send(port->inner, data, head, done));
  port->message_counted = !*done;
  return COLL_OK;
}

static coll_status_t paced_recv(transport_port_t *base, void *data, size_t capacity,
                                transport_head_t *head, bool *done) {
  paced_port_t *port = port_of(base);
  *done = false;
  if (!has_arrived(port, &port->messages_in)) return COLL_OK;
  COLL_TRY(port->inner->transport->ops->recv(port->inner, data, capacity, head, done));
  if (*done) paced_end_take(&port->messages_in);
  return COLL_OK;
}

static coll_status_t paced_peek(transport_port_t *base, const void **data, transport_head_t *head,
                                bool *done) {
  paced_port_t *port = port_of(base);
  *done = false;
  if (!has_arrived(port, &port->messages_in)) return COLL_OK;
  return port->inner->transport->ops->peek(port->inner, data, head, done);
}

static coll_status_t paced_take(transport_port_t *base) {
  paced_port_t *port = port_of(base);
  COLL_TRY(port->inner->transport->ops->take(port->inner));
  paced_end_take(&port->messages_in);
  return COLL_OK;
}

static coll_status_t paced_signal(transport_port_t *base, const flight_call_t *call, bool *done) {
  paced_port_t *port = port_of(base);
  *done = false;
  if (!port->signal_counted) {
    if (!has_credit(port, &port->signals_out)) return COLL_OK;
    count_sent(port, &port->signals_out, 0);
  }
  COLL_TRY(port->inner->transport->ops->signal(port->inner, call, done));
  port->signal_counted = !*done;
  return COLL_OK;
}

static coll_status_t paced_wait(transport_port_t *base, flight_call_t *call, bool *arrived) {
  paced_port_t *port = port_of(base);
  *arrived = false;
  if (!has_arrived(port, &port->signals_in)) return COLL_OK;
  COLL_TRY(port->inner->transport->ops->wait(port->inner, call, arrived));
  if (*arrived) paced_end_take(&port->signals_in);
  return COLL_OK;
}

/* What has been counted may not be in the inner transport yet. */
static bool paced_signaled(transport_port_t *base) {
  paced_port_t *port = port_of(base);
  return has_arrived(port, &port->signals_in) && port->inner->transport->ops->signaled(port->inner);
}

/* ---- sleeping -------------------------------------------------------------------------------*/

static void paced_arm(transport_t *t) {
  paced_of(t)->wake_ns = UINT64_MAX;
  paced_of(t)->inner->ops->arm(paced_of(t)->inner);
}

/* Wakes up for arrivals to the µs; the kernel's default is 50 µs. */
static void refine_timer(void) {
  static _Thread_local bool refined;
  if (refined) return;
  refined = true;
  (void)prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS);
}

static void paced_sleep(transport_t *t, uint64_t timeout_ns) {
  paced_t *paced = paced_of(t);
  uint64_t now_ns = base_clock_now_ns();
  refine_timer();
  if (paced->wake_ns <= now_ns) return;
  if (paced->wake_ns - now_ns < timeout_ns) timeout_ns = paced->wake_ns - now_ns;
  paced->inner->ops->sleep(paced->inner, timeout_ns);
}

static void paced_disarm(transport_t *t) {
  paced_of(t)->inner->ops->disarm(paced_of(t)->inner);
}

/* Gives the core up until the next arrival that is known, or that is possible. */
static void paced_yield(transport_t *t) {
  paced_t *paced = paced_of(t);
  uint64_t now_ns = base_clock_now_ns(), until_ns = now_ns + paced->quiet_ns;
  if (paced->wake_ns < until_ns) until_ns = paced->wake_ns;
  paced->wake_ns = UINT64_MAX;
  if (until_ns <= now_ns) {
    paced->inner->ops->yield(paced->inner);
    return;
  }
  refine_timer();
  base_clock_sleep_ns(until_ns - now_ns);
}

/* ---- what the inner transport does ----------------------------------------------------------*/

static bool is_under_way(const paced_t *paced, int peer, uint64_t now_ns) {
  for (int i = 0; i < 2 * PACED_CHANNELS; i++) {
    paced_end_t end = end_of(paced, peer, paced->base.rank, i / 2, i % 2 == 1);
    if (paced_end_is_under_way(&end, now_ns)) return true;
  }
  return false;
}

/* A peer whose last messages have not arrived is still here: what it sent can be received before it
 * is found to have left. */
static const char *paced_route(const transport_t *t, int peer) {
  const transport_t *inner = ((const paced_t *)(const void *)t)->inner;
  return inner->ops->route(inner, peer);
}

static void paced_waits_for(transport_t *t, int peer) {
  transport_t *inner = paced_of(t)->inner;
  inner->ops->waits_for(inner, peer);
}

static void paced_why_lost(transport_t *t, int peer, char why[TRANSPORT_WHY_BYTES]) {
  transport_t *inner = ((paced_t *)(void *)t)->inner;
  inner->ops->why_lost(inner, peer, why);
}

static transport_peer_state_t paced_peer_state(transport_t *t, int peer) {
  const paced_t *paced = paced_of(t);
  transport_peer_state_t state = paced->inner->ops->peer_state(paced->inner, peer);
  if (state != TRANSPORT_PEER_HERE && is_under_way(paced, peer, base_clock_now_ns())) {
    return TRANSPORT_PEER_HERE;
  }
  return state;
}

static bool awaits_arrival(const paced_port_t *port, uint64_t now_ns) {
  return port != NULL && (paced_end_is_under_way(&port->messages_in, now_ns) ||
                          paced_end_is_under_way(&port->signals_in, now_ns));
}

/* A rank to whose ports something is under way can go on whatever its peers do, which the search
 * for deadlocks must not miss: it has polled and found nothing. */
static void paced_publish(transport_t *t) {
  const paced_t *paced = paced_of(t);
  uint64_t now_ns = base_clock_now_ns();
  bool may_go_on = false;
  for (int i = 0; i < t->size * PACED_CHANNELS && !may_go_on; i++) {
    may_go_on = awaits_arrival(paced->ports[i], now_ns);
  }
  if (may_go_on) flight_wait_end(t->flight);
  paced->inner->ops->publish(paced->inner);
}

static const flight_recorder_t *paced_recorder(transport_t *t, int rank) {
  return paced_of(t)->inner->ops->recorder(paced_of(t)->inner, rank);
}

static void paced_abort(transport_t *t, const transport_reason_t *reason) {
  paced_of(t)->inner->ops->abort(paced_of(t)->inner, reason);
}

static bool paced_aborted(transport_t *t, transport_reason_t *reason) {
  return paced_of(t)->inner->ops->aborted(paced_of(t)->inner, reason);
}

static bool paced_pending_in(transport_port_t *port, flight_call_t *call) {
  transport_port_t *inner = port_of(port)->inner;
  return inner->transport->ops->pending_in(inner, call);
}

static bool paced_pending_out(transport_port_t *port, flight_call_t *call) {
  transport_port_t *inner = port_of(port)->inner;
  return inner->transport->ops->pending_out(inner, call);
}

static coll_status_t paced_address(transport_t *t, const void *ptr, size_t bytes,
                                   transport_address_t *address) {
  return paced_of(t)->inner->ops->address(paced_of(t)->inner, ptr, bytes, address);
}

static coll_status_t paced_map(transport_t *t, int peer, const transport_address_t *address,
                               void **ptr) {
  return paced_of(t)->inner->ops->map(paced_of(t)->inner, peer, address, ptr);
}

static bool paced_probe_get(transport_t *t, char why[TRANSPORT_WHY_BYTES]) {
  return paced_of(t)->inner->ops->probe_get(paced_of(t)->inner, why);
}

static bool paced_peer_gets(transport_t *t, int peer) {
  return paced_of(t)->inner->ops->peer_gets(paced_of(t)->inner, peer);
}

static coll_status_t paced_get(transport_t *t, int peer, void *dst, uint64_t address, size_t bytes,
                               bool *done) {
  return paced_of(t)->inner->ops->get(paced_of(t)->inner, peer, dst, address, bytes, done);
}

static coll_status_t paced_pass_descriptor(transport_t *t, int peer, uint64_t tag, int descriptor,
                                           bool *done) {
  transport_t *inner = paced_of(t)->inner;
  return inner->ops->pass_descriptor(inner, peer, tag, descriptor, done);
}

static coll_status_t paced_take_descriptor(transport_t *t, int peer, uint64_t tag, int *descriptor,
                                           bool *done) {
  transport_t *inner = paced_of(t)->inner;
  return inner->ops->take_descriptor(inner, peer, tag, descriptor, done);
}

static void paced_scratch(transport_t *t, int rank, void **ptr, size_t *bytes) {
  const paced_t *paced = paced_of(t);
  paced->inner->ops->scratch(paced->inner, rank, ptr, bytes);
  *bytes -= transport_paced_bytes(t->size, paced->fabric);
}

static transport_yield_hint_t paced_yield_hint(transport_t *t, uint64_t progress,
                                               uint64_t missing) {
  return paced_of(t)->inner->ops->yield_hint(paced_of(t)->inner, progress, missing);
}

/* ---- ports ----------------------------------------------------------------------------------*/

static coll_status_t make_port(paced_t *paced, transport_port_t *inner, int peer, int channel,
                               paced_port_t **port) {
  paced_port_t *made;
  int own = paced->base.rank;
  COLL_TRY(base_alloc(1, sizeof *made, "a port", (void **)&made));
  *made = (paced_port_t){.base.transport = &paced->base,
                         .inner = inner,
                         .messages_out = end_of(paced, own, peer, channel, false),
                         .messages_in = end_of(paced, peer, own, channel, false),
                         .signals_out = end_of(paced, own, peer, channel, true),
                         .signals_in = end_of(paced, peer, own, channel, true)};
  coll_status_t status =
      topo_fabric_path(paced->fabric, paced->base.rank, peer, &made->wires, &made->wire_count);
  if (status != COLL_OK) {
    free(made);
    return status;
  }
  *port = made;
  return COLL_OK;
}

static transport_port_t *paced_port(transport_t *t, int peer, int channel) {
  paced_t *paced = paced_of(t);
  if (channel >= PACED_CHANNELS) {
    base_fail(COLL_ERROR_UNSUPPORTED, "links are paced for %d channels only", PACED_CHANNELS);
    return NULL;
  }
  paced_port_t **port = &paced->ports[peer * PACED_CHANNELS + channel];
  if (*port != NULL) return &(*port)->base;
  transport_port_t *inner = paced->inner->ops->port(paced->inner, peer, channel);
  if (inner == NULL || make_port(paced, inner, peer, channel, port) != COLL_OK) return NULL;
  return &(*port)->base;
}

static int paced_used_channel(transport_t *t, int peer, int channel) {
  return paced_of(t)->inner->ops->used_channel(paced_of(t)->inner, peer, channel);
}

/* ---- creation -------------------------------------------------------------------------------*/

size_t transport_paced_bytes(int size, const topo_fabric_t *fabric) {
  size_t bytes =
      paced_fifos_bytes(size) + (size_t)topo_fabric_wire_count(fabric) * sizeof(paced_wire_t);
  return base_round_up(bytes, 4096);
}

static void paced_free(paced_t *paced) {
  int ports = paced->ports != NULL ? paced->base.size * PACED_CHANNELS : 0;
  for (int i = 0; i < ports; i++) free(paced->ports[i]);
  free(paced->ports);
  free(paced->fifos);
  free(paced);
}

static void paced_destroy(transport_t *t) {
  paced_of(t)->inner->ops->destroy(paced_of(t)->inner);
  paced_free(paced_of(t));
}

static const transport_ops_t paced_ops = {
    .name = "paced",
    .port = paced_port,
    .used_channel = paced_used_channel,
    .send = paced_send,
    .send_lent = paced_send,
    .recv = paced_recv,
    .recv_post = paced_recv,
    .release = transport_default_release,
    .cancel = transport_default_cancel,
    .drained = transport_default_drained,
    .signal = paced_signal,
    .wait = paced_wait,
    .signaled = paced_signaled,
    .arm = paced_arm,
    .sleep = paced_sleep,
    .disarm = paced_disarm,
    .peer_state = paced_peer_state,
    .route = paced_route,
    .waits_for = paced_waits_for,
    .why_lost = paced_why_lost,
    .recorder = paced_recorder,
    .publish = paced_publish,
    .abort = paced_abort,
    .aborted = paced_aborted,
    .pending_in = paced_pending_in,
    .pending_out = paced_pending_out,
    .destroy = paced_destroy,
    .peek = paced_peek,
    .take = paced_take,
    .mcast_send = transport_default_mcast_send,
    .mcast_peek = transport_default_mcast_peek,
    .mcast_take = transport_default_mcast_take,
    .yield_hint = paced_yield_hint,
    .address = paced_address,
    .map = paced_map,
    .probe_get = paced_probe_get,
    .peer_gets = paced_peer_gets,
    .get = paced_get,
    .fetch = &transport_no_fetch,
    .pass_descriptor = paced_pass_descriptor,
    .take_descriptor = paced_take_descriptor,
    .scratch = paced_scratch,
    .yield = paced_yield,
};

static coll_status_t find_memory(paced_t *paced) {
  const transport_t *inner = paced->inner;
  size_t used = transport_paced_bytes(inner->size, paced->fabric);
  for (int rank = 0; rank < inner->size; rank++) {
    void *scratch;
    size_t bytes;
    inner->ops->scratch(paced->inner, rank, &scratch, &bytes);
    if (scratch == NULL || bytes <= used) {
      return base_fail(COLL_ERROR_INVALID,
                       "rank %d: links of %d ranks cannot be paced in %zu bytes of scratch memory; "
                       "give COLL_TOPO_FILE a smaller topology",
                       inner->rank, inner->size, bytes);
    }
    paced->fifos[rank] = (unsigned char *)scratch + bytes - used;
  }
  paced->free_ns = (paced_wire_t *)(void *)(paced->fifos[0] + paced_fifos_bytes(inner->size));
  return COLL_OK;
}

/* The least latency from any peer to this rank; 0 from one that shares the node. */
static coll_status_t find_quiet(paced_t *paced) {
  uint64_t least_ps = (uint64_t)QUIET_NS_MAX * 1000;
  for (int peer = 0; peer < paced->base.size; peer++) {
    const int32_t *wires;
    int32_t count;
    uint64_t latency_ps = 0;
    if (peer == paced->base.rank) continue;
    COLL_TRY(topo_fabric_path(paced->fabric, peer, paced->base.rank, &wires, &count));
    for (int32_t i = 0; i < count; i++) {
      latency_ps += topo_fabric_wire(paced->fabric, wires[i]).latency_ps;
    }
    if (latency_ps < least_ps) least_ps = latency_ps;
  }
  paced->quiet_ns = least_ps / 1000;
  return COLL_OK;
}

coll_status_t transport_paced_create(transport_t *inner, topo_fabric_t *fabric,
                                     transport_t **paced) {
  paced_t *made;
  COLL_TRY(base_alloc(1, sizeof *made, "a paced transport", (void **)&made));
  made->base = *inner;
  made->base.ops = &paced_ops;
  made->base.mcast_bytes = 0; /* is in shared memory */
  made->base.delays = true;
  made->inner = inner;
  made->fabric = fabric;
  made->wake_ns = UINT64_MAX;
  size_t size = (size_t)inner->size;
  coll_status_t status =
      base_alloc(size, sizeof *made->fifos, "a paced transport", (void **)&made->fifos);
  if (status == COLL_OK) {
    status = base_alloc(size * PACED_CHANNELS, sizeof *made->ports, "a paced transport",
                        (void **)&made->ports);
  }
  if (status == COLL_OK) status = find_memory(made);
  if (status == COLL_OK) status = find_quiet(made);
  if (status != COLL_OK) {
    paced_free(made);
    return status;
  }
  *paced = &made->base;
  return COLL_OK;
}
