/* Each reports that the operation is not supported, or returns nothing. */
#include <sched.h>
#include <stdio.h>

#include "base/clock.h"
#include "transport/defaults.h"

static coll_status_t unsupported(const transport_t *t, const char *what) {
  return base_fail(COLL_ERROR_UNSUPPORTED, "rank %d: transport %s cannot %s", t->rank, t->ops->name,
                   what);
}

transport_port_t *transport_default_port(transport_t *t, int peer, int channel) {
  (void)t, (void)peer, (void)channel;
  return NULL;
}

int transport_default_used_channel(transport_t *t, int peer, int channel) {
  (void)t, (void)peer;
  return channel < TRANSPORT_CHANNELS ? channel : TRANSPORT_CHANNELS_MAX;
}

coll_status_t transport_default_send(transport_port_t *port, const void *data,
                                     const transport_head_t *head, bool *done) {
  (void)data, (void)head, (void)done;
  return unsupported(port->transport, "send messages");
}

coll_status_t transport_default_recv(transport_port_t *port, void *data, size_t capacity,
                                     transport_head_t *head, bool *done) {
  (void)data, (void)capacity, (void)head, (void)done;
  return unsupported(port->transport, "receive messages");
}

void transport_default_release(transport_t *t) {
  (void)t;
}

void transport_default_cancel(transport_t *t) {
  (void)t;
}

bool transport_default_drained(transport_port_t *port) {
  (void)port;
  return true;
}

coll_status_t transport_default_peek(transport_port_t *port, const void **data,
                                     transport_head_t *head, bool *done) {
  (void)data, (void)head, (void)done;
  return unsupported(port->transport, "receive messages in place");
}

coll_status_t transport_default_take(transport_port_t *port) {
  return unsupported(port->transport, "receive messages in place");
}

coll_status_t transport_default_signal(transport_port_t *port, const flight_call_t *call,
                                       bool *done) {
  (void)call, (void)done;
  return unsupported(port->transport, "signal");
}

coll_status_t transport_default_wait(transport_port_t *port, flight_call_t *call, bool *arrived) {
  (void)call, (void)arrived;
  return unsupported(port->transport, "wait for signals");
}

coll_status_t transport_default_address(transport_t *t, const void *ptr, size_t bytes,
                                        transport_address_t *address) {
  (void)t, (void)ptr, (void)bytes;
  *address = (transport_address_t){0, 0};
  return COLL_OK;
}

coll_status_t transport_default_mcast_send(transport_t *t, const void *data,
                                           const transport_head_t *head, bool *done) {
  (void)data, (void)head, (void)done;
  return unsupported(t, "send multicast messages");
}

coll_status_t transport_default_mcast_peek(transport_t *t, int peer, const void **data,
                                           transport_head_t *head, bool *done) {
  (void)peer, (void)data, (void)head, (void)done;
  return unsupported(t, "send multicast messages");
}

coll_status_t transport_default_mcast_take(transport_t *t, int peer) {
  (void)peer;
  return unsupported(t, "send multicast messages");
}

bool transport_default_signaled(transport_port_t *port) {
  (void)port;
  return false;
}

bool transport_default_pending(transport_port_t *port, flight_call_t *call) {
  (void)port, (void)call;
  return false;
}

transport_yield_hint_t transport_default_yield_hint(transport_t *t, uint64_t progress,
                                                    uint64_t missing) {
  (void)t, (void)progress, (void)missing;
  return TRANSPORT_YIELD_HELPS;
}

void transport_default_yield(transport_t *t) {
  (void)t;
  sched_yield();
}

coll_status_t transport_default_map(transport_t *t, int peer, const transport_address_t *address,
                                    void **ptr) {
  (void)t, (void)peer, (void)address;
  *ptr = NULL;
  return COLL_OK;
}

bool transport_default_probe_get(transport_t *t, char why[TRANSPORT_WHY_BYTES]) {
  snprintf(why, TRANSPORT_WHY_BYTES, "transport %s cannot read peers' memory", t->ops->name);
  return false;
}

bool transport_default_peer_gets(transport_t *t, int peer) {
  (void)t, (void)peer;
  return false;
}

coll_status_t transport_default_get(transport_t *t, int peer, void *dst, uint64_t address,
                                    size_t bytes, bool *done) {
  (void)peer, (void)dst, (void)address, (void)bytes, (void)done;
  return unsupported(t, "read peers' memory");
}

coll_status_t transport_default_pass_descriptor(transport_t *t, int peer, uint64_t tag,
                                                int descriptor, bool *done) {
  (void)peer, (void)tag, (void)descriptor, (void)done;
  return unsupported(t, "pass file descriptors");
}

coll_status_t transport_default_take_descriptor(transport_t *t, int peer, uint64_t tag,
                                                int *descriptor, bool *done) {
  (void)peer, (void)tag, (void)descriptor, (void)done;
  return unsupported(t, "pass file descriptors");
}

void transport_default_scratch(transport_t *t, int rank, void **ptr, size_t *bytes) {
  (void)t, (void)rank;
  *ptr = NULL;
  *bytes = 0;
}

void transport_default_arm(transport_t *t) {
  (void)t;
}

/* Nothing wakes this sleeper, so it sleeps only briefly before the caller polls again. */
void transport_default_sleep(transport_t *t, uint64_t timeout_ns) {
  const uint64_t limit_ns = 100000;
  (void)t;
  base_clock_sleep_ns(timeout_ns < limit_ns ? timeout_ns : limit_ns);
}

void transport_default_disarm(transport_t *t) {
  (void)t;
}

const flight_recorder_t *transport_default_recorder(transport_t *t, int rank) {
  (void)t, (void)rank;
  return NULL;
}

void transport_default_publish(transport_t *t) {
  (void)t;
}

transport_peer_state_t transport_default_peer_state(transport_t *t, int peer) {
  (void)t, (void)peer;
  return TRANSPORT_PEER_HERE;
}

const char *transport_default_route(const transport_t *t, int peer) {
  (void)peer;
  return t->ops->name;
}

void transport_default_waits_for(transport_t *t, int peer) {
  (void)t, (void)peer;
}

void transport_default_why_lost(transport_t *t, int peer, char why[TRANSPORT_WHY_BYTES]) {
  (void)t, (void)peer;
  why[0] = '\0';
}

void transport_default_abort(transport_t *t, const transport_reason_t *reason) {
  (void)t, (void)reason;
}

bool transport_default_aborted(transport_t *t, transport_reason_t *reason) {
  (void)t, (void)reason;
  return false;
}

void transport_default_destroy(transport_t *t) {
  (void)t;
}

static coll_status_t expose_nothing(transport_port_t *port, const void *data, size_t bytes,
                                    transport_exposure_t *exposure, bool *exposed) {
  (void)port, (void)data, (void)bytes;
  *exposure = (transport_exposure_t){0};
  *exposed = false;
  return COLL_OK;
}

static void withdraw_nothing(transport_port_t *port, const transport_exposure_t *exposure,
                             bool is_fetched) {
  (void)port, (void)exposure, (void)is_fetched;
}

static coll_status_t begin_no_fetch(transport_port_t *port, const transport_exposure_t *exposure,
                                    void *dst, size_t bytes, transport_fetch_t **fetch) {
  (void)exposure, (void)dst, (void)bytes, (void)fetch;
  return unsupported(port->transport, "fetch peers' memory");
}

static coll_status_t advance_no_fetch(transport_fetch_t *fetch, bool *done) {
  (void)done;
  return unsupported(fetch->port->transport, "fetch peers' memory");
}

static void stop_no_fetch(transport_fetch_t *fetch) {
  (void)fetch;
}

const transport_fetch_ops_t transport_no_fetch = {.expose = expose_nothing,
                                                  .withdraw = withdraw_nothing,
                                                  .begin = begin_no_fetch,
                                                  .advance = advance_no_fetch,
                                                  .stop = stop_no_fetch};

const transport_ops_t transport_unsupported = {
    .name = "unsupported",
    .port = transport_default_port,
    .used_channel = transport_default_used_channel,
    .send = transport_default_send,
    .send_lent = transport_default_send,
    .recv = transport_default_recv,
    .recv_post = transport_default_recv,
    .release = transport_default_release,
    .cancel = transport_default_cancel,
    .drained = transport_default_drained,
    .peek = transport_default_peek,
    .take = transport_default_take,
    .mcast_send = transport_default_mcast_send,
    .mcast_peek = transport_default_mcast_peek,
    .mcast_take = transport_default_mcast_take,
    .signal = transport_default_signal,
    .wait = transport_default_wait,
    .signaled = transport_default_signaled,
    .pending_in = transport_default_pending,
    .pending_out = transport_default_pending,
    .address = transport_default_address,
    .map = transport_default_map,
    .probe_get = transport_default_probe_get,
    .peer_gets = transport_default_peer_gets,
    .get = transport_default_get,
    .fetch = &transport_no_fetch,
    .pass_descriptor = transport_default_pass_descriptor,
    .take_descriptor = transport_default_take_descriptor,
    .scratch = transport_default_scratch,
    .arm = transport_default_arm,
    .sleep = transport_default_sleep,
    .disarm = transport_default_disarm,
    .yield_hint = transport_default_yield_hint,
    .yield = transport_default_yield,
    .recorder = transport_default_recorder,
    .publish = transport_default_publish,
    .peer_state = transport_default_peer_state,
    .route = transport_default_route,
    .waits_for = transport_default_waits_for,
    .why_lost = transport_default_why_lost,
    .abort = transport_default_abort,
    .aborted = transport_default_aborted,
    .destroy = transport_default_destroy,
};
