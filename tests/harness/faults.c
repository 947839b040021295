/*
 * Only the operations that may return "not ready" are more than forwarding wrappers.
 */
#include "harness/faults.h"

#include <stdlib.h>
#include <string.h>

#include "verify/random.h"

typedef struct port {
  transport_port_t port;
  transport_port_t *inner;
} port_t;

typedef struct faults {
  transport_t transport;
  transport_t *inner;
  port_t *ports; /* [size * TRANSPORT_CHANNELS_MAX] */
  uint64_t random;
  int refuse_percent;
  bool hides, are_threads;
  int exposed;           /* buffers that peers may fetch */
  death_record_t *death; /* or NULL: it never kills itself */
} faults_t;

static faults_t *self_of(transport_t *t) {
  return (faults_t *)(void *)t;
}

static transport_t *inner_of(transport_t *t) {
  return self_of(t)->inner;
}

static bool refuses(faults_t *f) {
  if (f->death != NULL) death_before_step(f->death);
  return random_below(&f->random, 100) < f->refuse_percent;
}

static coll_status_t count(faults_t *f, death_step_t kind, coll_status_t status, bool done) {
  if (status == COLL_OK && done && f->death != NULL) death_after_step(f->death, kind);
  return status;
}

/* ---- ports */

static port_t *port_at(transport_port_t *port) {
  return (port_t *)(void *)port;
}

static const transport_ops_t *ops_of(const port_t *port) {
  return inner_of(port->port.transport)->ops;
}

static transport_port_t *faults_port(transport_t *t, int peer, int channel) {
  faults_t *f = self_of(t);
  port_t *port = &f->ports[peer * TRANSPORT_CHANNELS_MAX + channel];
  *port = (port_t){.port = {t}, .inner = f->inner->ops->port(f->inner, peer, channel)};
  return port->inner != NULL ? &port->port : NULL;
}

static int faults_used_channel(transport_t *t, int peer, int channel) {
  return inner_of(t)->ops->used_channel(inner_of(t), peer, channel);
}

static coll_status_t faults_send(transport_port_t *outer, const void *data,
                                 const transport_head_t *head, bool *done) {
  const port_t *port = port_at(outer);
  *done = false;
  if (refuses(self_of(outer->transport))) return COLL_OK;
  coll_status_t status = ops_of(port)->send(port->inner, data, head, done);
  return count(self_of(outer->transport), DEATH_SEND, status, *done);
}

static coll_status_t faults_send_lent(transport_port_t *outer, const void *data,
                                      const transport_head_t *head, bool *done) {
  const port_t *port = port_at(outer);
  *done = false;
  if (refuses(self_of(outer->transport))) return COLL_OK;
  coll_status_t status = ops_of(port)->send_lent(port->inner, data, head, done);
  return count(self_of(outer->transport), DEATH_SEND, status, *done);
}

static coll_status_t faults_recv(transport_port_t *outer, void *data, size_t capacity,
                                 transport_head_t *head, bool *done) {
  const port_t *port = port_at(outer);
  *done = false;
  if (refuses(self_of(outer->transport))) return COLL_OK;
  coll_status_t status = ops_of(port)->recv(port->inner, data, capacity, head, done);
  return count(self_of(outer->transport), DEATH_RECV, status, *done);
}

static coll_status_t faults_recv_post(transport_port_t *outer, void *data, size_t capacity,
                                      transport_head_t *head, bool *done) {
  const port_t *port = port_at(outer);
  *done = false;
  if (refuses(self_of(outer->transport))) return COLL_OK;
  coll_status_t status = ops_of(port)->recv_post(port->inner, data, capacity, head, done);
  return count(self_of(outer->transport), DEATH_RECV, status, *done);
}

static void faults_release(transport_t *t) {
  inner_of(t)->ops->release(inner_of(t));
}

static void faults_cancel(transport_t *t) {
  inner_of(t)->ops->cancel(inner_of(t));
}

static bool faults_drained(transport_port_t *outer) {
  const port_t *port = port_at(outer);
  return ops_of(port)->drained(port->inner);
}

static coll_status_t faults_peek(transport_port_t *outer, const void **data, transport_head_t *head,
                                 bool *done) {
  const port_t *port = port_at(outer);
  *done = false;
  if (refuses(self_of(outer->transport))) return COLL_OK;
  return ops_of(port)->peek(port->inner, data, head, done);
}

static coll_status_t faults_take(transport_port_t *outer) {
  const port_t *port = port_at(outer);
  return count(self_of(outer->transport), DEATH_TAKE, ops_of(port)->take(port->inner), true);
}

static coll_status_t faults_signal(transport_port_t *outer, const flight_call_t *call, bool *done) {
  const port_t *port = port_at(outer);
  *done = false;
  if (refuses(self_of(outer->transport))) return COLL_OK;
  coll_status_t status = ops_of(port)->signal(port->inner, call, done);
  return count(self_of(outer->transport), DEATH_SIGNAL, status, *done);
}

static coll_status_t faults_wait(transport_port_t *outer, flight_call_t *call, bool *arrived) {
  const port_t *port = port_at(outer);
  *arrived = false;
  if (refuses(self_of(outer->transport))) return COLL_OK;
  coll_status_t status = ops_of(port)->wait(port->inner, call, arrived);
  return count(self_of(outer->transport), DEATH_WAIT, status, *arrived);
}

static bool faults_signaled(transport_port_t *outer) {
  const port_t *port = port_at(outer);
  return !refuses(self_of(outer->transport)) && ops_of(port)->signaled(port->inner);
}

static bool faults_pending_in(transport_port_t *outer, flight_call_t *call) {
  const port_t *port = port_at(outer);
  return ops_of(port)->pending_in(port->inner, call);
}

static bool faults_pending_out(transport_port_t *outer, flight_call_t *call) {
  const port_t *port = port_at(outer);
  return ops_of(port)->pending_out(port->inner, call);
}

/* ---- all else */

static coll_status_t faults_mcast_send(transport_t *t, const void *data,
                                       const transport_head_t *head, bool *done) {
  *done = false;
  if (refuses(self_of(t))) return COLL_OK;
  coll_status_t status = inner_of(t)->ops->mcast_send(inner_of(t), data, head, done);
  return count(self_of(t), DEATH_MCAST_SEND, status, *done);
}

static coll_status_t faults_mcast_peek(transport_t *t, int peer, const void **data,
                                       transport_head_t *head, bool *done) {
  *done = false;
  if (refuses(self_of(t))) return COLL_OK;
  return inner_of(t)->ops->mcast_peek(inner_of(t), peer, data, head, done);
}

static coll_status_t faults_mcast_take(transport_t *t, int peer) {
  return count(self_of(t), DEATH_MCAST_TAKE, inner_of(t)->ops->mcast_take(inner_of(t), peer), true);
}

static coll_status_t faults_address(transport_t *t, const void *ptr, size_t bytes,
                                    transport_address_t *address) {
  if (!self_of(t)->hides) return inner_of(t)->ops->address(inner_of(t), ptr, bytes, address);
  *address = (transport_address_t){0};
  return COLL_OK;
}

static bool faults_probe_get(transport_t *t, char why[TRANSPORT_WHY_BYTES]) {
  return inner_of(t)->ops->probe_get(inner_of(t), why);
}

static bool faults_peer_gets(transport_t *t, int peer) {
  return self_of(t)->are_threads || inner_of(t)->ops->peer_gets(inner_of(t), peer);
}

/* Never refuses, as a get that is not done is never repeated in a call that succeeds. Threads,
 * whose transport has no get, copy. */
static coll_status_t faults_get(transport_t *t, int peer, void *dst, uint64_t address, size_t bytes,
                                bool *done) {
  faults_t *f = self_of(t);
  if (f->death != NULL) death_before_step(f->death);
  if (!f->are_threads) {
    coll_status_t status = f->inner->ops->get(f->inner, peer, dst, address, bytes, done);
    return count(f, DEATH_GET, status, *done);
  }
  memcpy(dst, (const void *)(uintptr_t)address, bytes);
  *done = true;
  return count(f, DEATH_GET, COLL_OK, true);
}

/* ---- fetches, of ranks that are threads: copies in parts */

#define PART_BYTES ((size_t)100000)

typedef struct fetch {
  transport_fetch_t base;
  char *dst;
  const char *src;
  size_t bytes, copied;
} fetch_t;

static _Atomic unsigned long fetches;

unsigned long faults_fetches(void) {
  return fetches;
}

static coll_status_t faults_expose(transport_port_t *outer, const void *data, size_t bytes,
                                   transport_exposure_t *exposure, bool *exposed) {
  faults_t *f = self_of(outer->transport);
  (void)bytes;
  *exposed = f->are_threads && !refuses(f);
  *exposure = (transport_exposure_t){.address = (uintptr_t)data, .handle = (uint32_t)f->exposed};
  f->exposed += *exposed;
  return COLL_OK;
}

static void faults_withdraw(transport_port_t *outer, const transport_exposure_t *exposure,
                            bool is_fetched) {
  (void)exposure, (void)is_fetched;
  self_of(outer->transport)->exposed--;
}

static coll_status_t faults_begin(transport_port_t *outer, const transport_exposure_t *exposure,
                                  void *dst, size_t bytes, transport_fetch_t **fetch) {
  fetch_t *made = malloc(sizeof *made);
  if (made == NULL) abort();
  *made = (fetch_t){{outer}, dst, (const char *)(uintptr_t)exposure->address, bytes, 0};
  *fetch = &made->base;
  return COLL_OK;
}

static coll_status_t faults_advance(transport_fetch_t *base, bool *done) {
  fetch_t *fetch = (fetch_t *)(void *)base;
  size_t left = fetch->bytes - fetch->copied, bytes = left < PART_BYTES ? left : PART_BYTES;
  *done = false;
  if (refuses(self_of(base->port->transport))) return COLL_OK;
  memcpy(fetch->dst + fetch->copied, fetch->src + fetch->copied, bytes);
  fetch->copied += bytes;
  *done = fetch->copied == fetch->bytes;
  if (!*done) return COLL_OK;
  fetches++;
  free(fetch);
  return COLL_OK;
}

static void faults_stop(transport_fetch_t *fetch) {
  free(fetch);
}

static const transport_fetch_ops_t faults_fetch_ops = {.expose = faults_expose,
                                                       .withdraw = faults_withdraw,
                                                       .begin = faults_begin,
                                                       .advance = faults_advance,
                                                       .stop = faults_stop};

void faults_hide_memory(transport_t *t, bool hides) {
  self_of(t)->are_threads = true;
  self_of(t)->hides = hides;
}

static coll_status_t faults_map(transport_t *t, int peer, const transport_address_t *address,
                                void **ptr) {
  return inner_of(t)->ops->map(inner_of(t), peer, address, ptr);
}

static coll_status_t faults_pass_descriptor(transport_t *t, int peer, uint64_t tag, int descriptor,
                                            bool *done) {
  return inner_of(t)->ops->pass_descriptor(inner_of(t), peer, tag, descriptor, done);
}

static coll_status_t faults_take_descriptor(transport_t *t, int peer, uint64_t tag, int *descriptor,
                                            bool *done) {
  return inner_of(t)->ops->take_descriptor(inner_of(t), peer, tag, descriptor, done);
}

static void faults_scratch(transport_t *t, int rank, void **ptr, size_t *bytes) {
  inner_of(t)->ops->scratch(inner_of(t), rank, ptr, bytes);
}

static void faults_arm(transport_t *t) {
  inner_of(t)->ops->arm(inner_of(t));
}

static void faults_sleep(transport_t *t, uint64_t timeout_ns) {
  inner_of(t)->ops->sleep(inner_of(t), timeout_ns);
}

static void faults_disarm(transport_t *t) {
  inner_of(t)->ops->disarm(inner_of(t));
}

static transport_yield_hint_t faults_yield_hint(transport_t *t, uint64_t place, uint64_t missing) {
  return inner_of(t)->ops->yield_hint(inner_of(t), place, missing);
}

static void faults_yield(transport_t *t) {
  inner_of(t)->ops->yield(inner_of(t));
}

static const flight_recorder_t *faults_recorder(transport_t *t, int rank) {
  return inner_of(t)->ops->recorder(inner_of(t), rank);
}

static void faults_publish(transport_t *t) {
  inner_of(t)->ops->publish(inner_of(t));
}

static const char *faults_route(const transport_t *t, int peer) {
  const transport_t *inner = ((const faults_t *)(const void *)t)->inner;
  return inner->ops->route(inner, peer);
}

static void faults_waits_for(transport_t *t, int peer) {
  inner_of(t)->ops->waits_for(inner_of(t), peer);
}

static void faults_why_lost(transport_t *t, int peer, char why[TRANSPORT_WHY_BYTES]) {
  inner_of(t)->ops->why_lost(inner_of(t), peer, why);
}

static transport_peer_state_t faults_peer_state(transport_t *t, int peer) {
  return inner_of(t)->ops->peer_state(inner_of(t), peer);
}

static void faults_abort(transport_t *t, const transport_reason_t *reason) {
  inner_of(t)->ops->abort(inner_of(t), reason);
}

static bool faults_aborted(transport_t *t, transport_reason_t *reason) {
  return inner_of(t)->ops->aborted(inner_of(t), reason);
}

static void faults_destroy(transport_t *t) {
  if (self_of(t)->exposed != 0) abort(); /* a call has ended without withdraw */
  inner_of(t)->ops->destroy(inner_of(t));
  free(self_of(t)->ports);
  free(self_of(t));
}

static const transport_ops_t faults_ops = {
    .name = "faults",
    .port = faults_port,
    .used_channel = faults_used_channel,
    .send = faults_send,
    .send_lent = faults_send_lent,
    .recv = faults_recv,
    .recv_post = faults_recv_post,
    .release = faults_release,
    .cancel = faults_cancel,
    .drained = faults_drained,
    .peek = faults_peek,
    .take = faults_take,
    .mcast_send = faults_mcast_send,
    .mcast_peek = faults_mcast_peek,
    .mcast_take = faults_mcast_take,
    .signal = faults_signal,
    .wait = faults_wait,
    .signaled = faults_signaled,
    .pending_in = faults_pending_in,
    .pending_out = faults_pending_out,
    .address = faults_address,
    .map = faults_map,
    .probe_get = faults_probe_get,
    .peer_gets = faults_peer_gets,
    .get = faults_get,
    .fetch = &faults_fetch_ops,
    .pass_descriptor = faults_pass_descriptor,
    .take_descriptor = faults_take_descriptor,
    .scratch = faults_scratch,
    .arm = faults_arm,
    .sleep = faults_sleep,
    .disarm = faults_disarm,
    .yield_hint = faults_yield_hint,
    .yield = faults_yield,
    .recorder = faults_recorder,
    .publish = faults_publish,
    .peer_state = faults_peer_state,
    .route = faults_route,
    .waits_for = faults_waits_for,
    .why_lost = faults_why_lost,
    .abort = faults_abort,
    .aborted = faults_aborted,
    .destroy = faults_destroy,
};

transport_t *faults_wrap(transport_t *inner, uint64_t seed, int refuse_percent) {
  faults_t *f = calloc(1, sizeof *f);
  if (f == NULL) abort();
  f->ports = calloc((size_t)inner->size * TRANSPORT_CHANNELS_MAX, sizeof *f->ports);
  if (f->ports == NULL) abort();
  f->transport = *inner;
  f->transport.ops = &faults_ops;
  f->inner = inner;
  f->random = seed;
  f->refuse_percent = refuse_percent;
  return &f->transport;
}

void faults_die(transport_t *t, death_record_t *death) {
  self_of(t)->death = death;
}
