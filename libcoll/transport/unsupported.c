/*
 * Defaults for optional slots (ops.h): each reports that the operation is not supported, or returns
 * nothing. Transports copy them, so that no caller has to test a slot for NULL.
 */
#include <sched.h>
#include <stdio.h>

#include "base/clock.h"
#include "transport/ops.h"

static coll_status_t unsupported(const transport_t *t, const char *what) {
  return base_fail(COLL_ERROR_UNSUPPORTED, "rank %d: transport %s cannot %s", t->rank, t->ops->name,
                   what);
}

static transport_port_t *unsupported_port(transport_t *t, int peer, int channel) {
  (void)t, (void)peer, (void)channel;
  return NULL;
}

static int unsupported_used_channel(transport_t *t, int peer, int channel) {
  (void)t, (void)peer;
  return channel < TRANSPORT_CHANNELS ? channel : TRANSPORT_CHANNELS_MAX;
}

static coll_status_t unsupported_send(transport_port_t *port, const void *data,
                                      const transport_head_t *head, bool *done) {
  (void)data, (void)head, (void)done;
  return unsupported(port->transport, "send messages");
}

static coll_status_t unsupported_recv(transport_port_t *port, void *data, size_t capacity,
                                      transport_head_t *head, bool *done) {
  (void)data, (void)capacity, (void)head, (void)done;
  return unsupported(port->transport, "receive messages");
}

static coll_status_t unsupported_peek(transport_port_t *port, const void **data,
                                      transport_head_t *head, bool *done) {
  (void)data, (void)head, (void)done;
  return unsupported(port->transport, "receive messages in place");
}

static coll_status_t unsupported_take(transport_port_t *port) {
  return unsupported(port->transport, "receive messages in place");
}

static coll_status_t unsupported_signal(transport_port_t *port, const flight_call_t *call,
                                        bool *done) {
  (void)call, (void)done;
  return unsupported(port->transport, "signal");
}

static coll_status_t unsupported_wait(transport_port_t *port, flight_call_t *call, bool *arrived) {
  (void)call, (void)arrived;
  return unsupported(port->transport, "wait for signals");
}

static coll_status_t unsupported_address(transport_t *t, const void *ptr, size_t bytes,
                                         transport_address_t *address) {
  (void)t, (void)ptr, (void)bytes;
  *address = (transport_address_t){0, 0};
  return COLL_OK;
}

static coll_status_t unsupported_mcast_send(transport_t *t, const void *data,
                                            const transport_head_t *head, bool *done) {
  (void)data, (void)head, (void)done;
  return unsupported(t, "send multicast messages");
}

static coll_status_t unsupported_mcast_peek(transport_t *t, int peer, const void **data,
                                            transport_head_t *head, bool *done) {
  (void)peer, (void)data, (void)head, (void)done;
  return unsupported(t, "send multicast messages");
}

static coll_status_t unsupported_mcast_take(transport_t *t, int peer) {
  (void)peer;
  return unsupported(t, "send multicast messages");
}

static bool unsupported_signaled(transport_port_t *port) {
  (void)port;
  return false;
}

static bool unsupported_pending(transport_port_t *port, flight_call_t *call) {
  (void)port, (void)call;
  return false;
}

static transport_yield_hint_t unsupported_yield_hint(transport_t *t, uint64_t progress,
                                                     uint64_t missing) {
  (void)t, (void)progress, (void)missing;
  return TRANSPORT_YIELD_HELPS;
}

static void unsupported_yield(transport_t *t) {
  (void)t;
  sched_yield();
}

static coll_status_t unsupported_map(transport_t *t, int peer, const transport_address_t *address,
                                     void **ptr) {
  (void)t, (void)peer, (void)address;
  *ptr = NULL;
  return COLL_OK;
}

static bool unsupported_probe_get(transport_t *t, char why[TRANSPORT_WHY_BYTES]) {
  snprintf(why, TRANSPORT_WHY_BYTES, "transport %s cannot read peers' memory", t->ops->name);
  return false;
}

static bool unsupported_peer_gets(transport_t *t, int peer) {
  (void)t, (void)peer;
  return false;
}

static coll_status_t unsupported_get(transport_t *t, int peer, void *dst, uint64_t address,
                                     size_t bytes, bool *done) {
  (void)peer, (void)dst, (void)address, (void)bytes, (void)done;
  return unsupported(t, "read peers' memory");
}

static coll_status_t unsupported_pass_descriptor(transport_t *t, int peer, uint64_t tag,
                                                 int descriptor, bool *done) {
  (void)peer, (void)tag, (void)descriptor, (void)done;
  return unsupported(t, "pass file descriptors");
}

static coll_status_t unsupported_take_descriptor(transport_t *t, int peer, uint64_t tag,
                                                 int *descriptor, bool *done) {
  (void)peer, (void)tag, (void)descriptor, (void)done;
  return unsupported(t, "pass file descriptors");
}

static void unsupported_scratch(transport_t *t, int rank, void **ptr, size_t *bytes) {
  (void)t, (void)rank;
  *ptr = NULL;
  *bytes = 0;
}

static void unsupported_arm(transport_t *t) {
  (void)t;
}

/* Nothing wakes this sleeper, so it sleeps only briefly before the caller polls again. */
static void unsupported_sleep(transport_t *t, uint64_t timeout_ns) {
  const uint64_t limit_ns = 100000;
  (void)t;
  base_clock_sleep_ns(timeout_ns < limit_ns ? timeout_ns : limit_ns);
}

static void unsupported_disarm(transport_t *t) {
  (void)t;
}

static const flight_recorder_t *unsupported_recorder(transport_t *t, int rank) {
  (void)t, (void)rank;
  return NULL;
}

static void unsupported_publish(transport_t *t) {
  (void)t;
}

static transport_peer_state_t unsupported_peer_state(transport_t *t, int peer) {
  (void)t, (void)peer;
  return TRANSPORT_PEER_HERE;
}

static const char *unsupported_route(const transport_t *t, int peer) {
  (void)peer;
  return t->ops->name;
}

static void unsupported_waits_for(transport_t *t, int peer) {
  (void)t, (void)peer;
}

static void unsupported_why_lost(transport_t *t, int peer, char why[TRANSPORT_WHY_BYTES]) {
  (void)t, (void)peer;
  why[0] = '\0';
}

static void unsupported_abort(transport_t *t, const transport_reason_t *reason) {
  (void)t, (void)reason;
}

static bool unsupported_aborted(transport_t *t, transport_reason_t *reason) {
  (void)t, (void)reason;
  return false;
}

static void unsupported_destroy(transport_t *t) {
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
    .port = unsupported_port,
    .used_channel = unsupported_used_channel,
    .send = unsupported_send,
    .recv = unsupported_recv,
    .peek = unsupported_peek,
    .take = unsupported_take,
    .mcast_send = unsupported_mcast_send,
    .mcast_peek = unsupported_mcast_peek,
    .mcast_take = unsupported_mcast_take,
    .signal = unsupported_signal,
    .wait = unsupported_wait,
    .signaled = unsupported_signaled,
    .pending_in = unsupported_pending,
    .pending_out = unsupported_pending,
    .address = unsupported_address,
    .map = unsupported_map,
    .probe_get = unsupported_probe_get,
    .peer_gets = unsupported_peer_gets,
    .get = unsupported_get,
    .fetch = &transport_no_fetch,
    .pass_descriptor = unsupported_pass_descriptor,
    .take_descriptor = unsupported_take_descriptor,
    .scratch = unsupported_scratch,
    .arm = unsupported_arm,
    .sleep = unsupported_sleep,
    .disarm = unsupported_disarm,
    .yield_hint = unsupported_yield_hint,
    .yield = unsupported_yield,
    .recorder = unsupported_recorder,
    .publish = unsupported_publish,
    .peer_state = unsupported_peer_state,
    .route = unsupported_route,
    .waits_for = unsupported_waits_for,
    .why_lost = unsupported_why_lost,
    .abort = unsupported_abort,
    .aborted = unsupported_aborted,
    .destroy = unsupported_destroy,
};
