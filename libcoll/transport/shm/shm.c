/* The shm transport's slots for messages, mapping, sleeping and scheduling hints; creation and
 * destruction of its ends. */
#include "transport/shm/shm.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "flight/process.h"
#include "transport/defaults.h"
#include "transport/shm/end.h"
#include "transport/shm/presence.h"

BASE_APART static coll_status_t send_long(shm_fifo_t *fifo, const void *data,
                                          const transport_head_t *head, bool *done) {
  assert(head->bytes <= fifo->port.transport->slot_bytes);
  bool one_way = fifo->received_at_send == fifo->in.received;
  bool hot = fifo->port.transport->own_cores && shm_hot_is_better(head->bytes, one_way);
  if (__builtin_expect(fifo->out.sent == 0, false)) shm_end_mark_used(fifo);
  *done = shm_outgoing_put_long(&fifo->out, data, *head, hot);
  if (!*done) return COLL_OK;
  shm_end_notify(fifo);
  fifo->received_at_send = fifo->in.received;
  return COLL_OK;
}

static coll_status_t shm_send(transport_port_t *port, const void *data,
                              const transport_head_t *head, bool *done) {
  shm_fifo_t *fifo = shm_fifo_at(port);
  if (head->bytes > SHM_INLINE_BYTES) return send_long(fifo, data, head, done);
  if (__builtin_expect(fifo->out.sent == 0, false)) shm_end_mark_used(fifo);
  *done = shm_outgoing_put_short(&fifo->out, data, *head);
  if (!*done) return COLL_OK;
  shm_end_notify(fifo);
  /* only for a stream without replies: a rank that gets replies waits for the peer's line, and a
   * prefetch would compete with it */
  if (fifo->received_at_send == fifo->in.received) shm_outgoing_prefetch_ahead(&fifo->out);
  fifo->received_at_send = fifo->in.received;
  return COLL_OK;
}

static void take(shm_fifo_t *fifo) {
  if (shm_incoming_take(&fifo->in)) shm_wakeup_notify(fifo->peer);
}

BASE_APART static coll_status_t peek_long(const shm_fifo_t *fifo, const shm_desc_t *descriptor,
                                          const void **data) {
  *data = shm_incoming_payload(&fifo->in, descriptor);
  return COLL_OK;
}

/* Returns the descriptor of the oldest message; NULL: there is none. */
BASE_INLINE const shm_desc_t *poll_fifo(shm_fifo_t *fifo, transport_head_t *head) {
  const shm_desc_t *descriptor = shm_incoming_poll(&fifo->in, head);
  if (descriptor == NULL) fifo->in.caught_up = true;
  return descriptor;
}

static coll_status_t shm_peek(transport_port_t *port, const void **data, transport_head_t *head,
                              bool *done) {
  shm_fifo_t *fifo = shm_fifo_at(port);
  const shm_desc_t *descriptor = poll_fifo(fifo, head);
  *done = descriptor != NULL;
  if (descriptor == NULL) return COLL_OK;
  if (head->bytes > SHM_INLINE_BYTES) return peek_long(fifo, descriptor, data);
  *data = descriptor->payload;
  return COLL_OK;
}

static coll_status_t shm_take(transport_port_t *port) {
  take(shm_fifo_at(port));
  return COLL_OK;
}

BASE_APART static coll_status_t recv_long(shm_fifo_t *fifo, const shm_desc_t *descriptor,
                                          void *data, size_t bytes) {
  const void *payload = shm_incoming_payload(&fifo->in, descriptor);
  if (bytes > 0) memcpy(data, payload, bytes); /* a caller that wants no bytes may pass no buffer */
  take(fifo);
  return COLL_OK;
}

static coll_status_t shm_recv(transport_port_t *port, void *data, size_t capacity,
                              transport_head_t *head, bool *done) {
  shm_fifo_t *fifo = shm_fifo_at(port);
  const shm_desc_t *descriptor = poll_fifo(fifo, head);
  *done = descriptor != NULL;
  if (descriptor == NULL) return COLL_OK;
  size_t bytes = head->bytes < capacity ? head->bytes : capacity;
  if (head->bytes > SHM_INLINE_BYTES) return recv_long(fifo, descriptor, data, bytes);
  base_move_short(data, descriptor->payload, bytes);
  take(fifo);
  return COLL_OK;
}

static coll_status_t shm_address(transport_t *t, const void *ptr, size_t bytes,
                                 transport_address_t *address) {
  shm_t *s = shm_end_of(t);
  if (s->one_process) {
    *address = (transport_address_t){.segment = 1, .offset = (uint64_t)(uintptr_t)ptr};
    return COLL_OK;
  }
  return shm_buffers_export(&s->buffers, &s->mesh, ptr, bytes, address);
}

static coll_status_t shm_map(transport_t *t, int peer, const transport_address_t *address,
                             void **ptr) {
  shm_t *s = shm_end_of(t);
  if (s->one_process) {
    *ptr = (void *)(uintptr_t)address->offset;
    return COLL_OK;
  }
  return shm_buffers_import(&s->buffers, &s->mesh, peer, address, ptr);
}

/* The pid of the peer's process in this process's pid namespace; 0: it is not visible there. */
static int pid_of(const shm_t *s, int peer) {
  const shm_control_t *control = shm_layout_control(&s->layout, s->segment->base, peer);
  uint64_t process = atomic_load_explicit(&control->process, memory_order_acquire);
  bool same_space = control->pid_space != 0 && control->pid_space == flight_pid_space();
  return same_space ? (int)(process >> 32) : shm_presence_pid(s->ranks, peer);
}

static bool probe_peer(shm_t *s, int peer, char why[TRANSPORT_WHY_BYTES]) {
  int pid = pid_of(s, peer);
  s->pids[peer] = pid;
  if (pid > 0 && transport_get_works(pid, &shm_end_control(s, peer)->probe)) return true;
  snprintf(why, TRANSPORT_WHY_BYTES, "rank %d cannot read the memory of rank %d (pid %d): %s",
           s->transport.rank, peer, pid,
           pid > 0 ? strerrordesc_np(errno) : "it is in another pid namespace");
  return false;
}

static bool shm_probe_get(transport_t *t, char why[TRANSPORT_WHY_BYTES]) {
  shm_t *s = shm_end_of(t);
  if (!s->is_present) {
    snprintf(why, TRANSPORT_WHY_BYTES, "all ranks are threads of one process");
    return false;
  }
  if (t->size > SHM_GET_RANKS_MAX) {
    snprintf(why, TRANSPORT_WHY_BYTES, "more than %d ranks share memory", SHM_GET_RANKS_MAX);
    return false;
  }
  size_t size = (size_t)t->size;
  if (s->pids == NULL && base_alloc(size, sizeof(int), "pids", (void **)&s->pids) != COLL_OK) {
    snprintf(why, TRANSPORT_WHY_BYTES, "no memory");
    return false;
  }
  for (int peer = 0; peer < t->size; peer++) {
    if (peer != t->rank && !probe_peer(s, peer, why)) return false;
  }
  /* relaxed: a peer that does not see it yet sends messages instead */
  atomic_store_explicit(&shm_end_control(s, t->rank)->gets, 1, memory_order_relaxed);
  return true;
}

static bool shm_peer_gets(transport_t *t, int peer) {
  const shm_control_t *control = shm_end_control(shm_end_of(t), peer);
  return atomic_load_explicit(&control->gets, memory_order_relaxed) != 0;
}

BASE_COLD static coll_status_t fail_get(const transport_t *t, int peer, coll_status_t status) {
  char text[TRANSPORT_WHY_BYTES];
  snprintf(text, sizeof text, "%s", base_last_error());
  return base_fail(status,
                   "rank %d: the buffer of rank %d: %s; it must be mapped and readable until the "
                   "call returns",
                   t->rank, peer, text);
}

static coll_status_t shm_get_from(transport_t *t, int peer, void *dst, uint64_t address,
                                  size_t bytes, bool *done) {
  bool gone;
  coll_status_t status = transport_get(shm_end_of(t)->pids[peer], dst, address, bytes, &gone);
  *done = !gone;
  return status == COLL_OK ? COLL_OK : fail_get(t, peer, status);
}

static void shm_scratch(transport_t *t, int rank, void **ptr, size_t *bytes) {
  shm_t *s = shm_end_of(t);
  *ptr = shm_layout_scratch(&s->layout, s->segment->base, rank);
  *bytes = s->layout.scratch_bytes;
}

static void shm_arm(transport_t *t) {
  shm_t *s = shm_end_of(t);
  shm_wakeup_arm(shm_end_control(s, t->rank), &s->doorbell_seen);
}

static void shm_sleep(transport_t *t, uint64_t timeout_ns) {
  shm_t *s = shm_end_of(t);
  shm_wakeup_sleep(shm_end_control(s, t->rank), s->doorbell_seen, timeout_ns);
}

static void shm_disarm(transport_t *t) {
  shm_wakeup_disarm(shm_end_control(shm_end_of(t), t->rank));
}

/* Returns whether every missing rank, none of which shares this rank's processor, is likely to send
 * soon. */
static bool all_will_advance(const shm_t *s, uint64_t missing, uint64_t core_peers) {
  uint64_t busy_cores = 0;
  for (int peer = 0; peer < s->transport.size; peer++) {
    if (peer == s->transport.rank) continue;
    busy_cores |= shm_hint_running_core(&s->mcast[peer].control->sched_hint);
  }
  for (int peer = 0; peer < s->transport.size; peer++) {
    if ((missing >> peer % 64 & 1) == 0 || peer == s->transport.rank) continue;
    if (!shm_hint_will_advance(&s->mcast[peer].control->sched_hint, core_peers, busy_cores))
      return false;
  }
  return true;
}

static transport_yield_hint_t shm_yield_hint(transport_t *t, uint64_t progress, uint64_t missing) {
  shm_t *s = shm_end_of(t);
  shm_hint_t *own = &shm_end_control(s, t->rank)->sched_hint;
  uint64_t core_peers = 0;
  bool may_advance = false;
  shm_hint_publish(own, progress, missing);
  for (int peer = 0; peer < t->size; peer++) {
    if (peer == t->rank) continue;
    bool sent = (s->sent_to >> peer % 64 & 1) != 0;
    const shm_hint_t *hint = &shm_end_control(s, peer)->sched_hint;
    if (shm_hint_shares_core(hint, own)) core_peers |= UINT64_C(1) << peer % 64;
    may_advance = shm_hint_may_advance(hint, &s->unseen[peer], sent, own, t->rank) || may_advance;
  }
  s->sent_to = 0;
  if (!may_advance) return TRANSPORT_YIELD_USELESS;
  if ((missing & core_peers) != 0 || !all_will_advance(s, missing, core_peers))
    return TRANSPORT_YIELD_HELPS;
  return TRANSPORT_YIELD_LATER;
}

static void shm_yield(transport_t *t) {
  shm_hint_yield(&shm_end_control(shm_end_of(t), t->rank)->sched_hint);
}

static const flight_recorder_t *shm_recorder(transport_t *t, int rank) {
  return &shm_end_record(shm_end_of(t), rank)->flight;
}

static void shm_destroy(transport_t *t) {
  shm_t *s = shm_end_of(t);
  if (s->segment != NULL) shm_shutdown(s);
  if (s->is_present) {
    shm_presence_drop(s->ranks, s->transport.rank);
  } else if (s->ranks >= 0) {
    close(s->ranks);
  }
  shm_mesh_close(&s->mesh);
  shm_buffers_close(&s->buffers);
  shm_segment_release(s->segment);
  free(s->pids);
  free(s->unseen);
  free(s->mcast);
  shm_channels_free(s);
  free(s->sent_on);
  free(s->fifos);
  free(s);
}

static const transport_ops_t shm_ops = {
    .name = "shm",
    .port = shm_channels_port,
    .used_channel = shm_channels_used,
    .send = shm_send,
    .send_lent = shm_send,
    .recv = shm_recv,
    .recv_post = shm_recv,
    .release = transport_default_release,
    .cancel = transport_default_cancel,
    .drained = transport_default_drained,
    .peek = shm_peek,
    .take = shm_take,
    .mcast_send = shm_mcast_send,
    .mcast_peek = shm_mcast_peek,
    .mcast_take = shm_mcast_take,
    .signal = shm_signals_send,
    .wait = shm_signals_wait,
    .signaled = shm_signals_pending,
    .pending_in = shm_shutdown_pending_in,
    .pending_out = shm_shutdown_pending_out,
    .address = shm_address,
    .map = shm_map,
    .probe_get = shm_probe_get,
    .peer_gets = shm_peer_gets,
    .get = shm_get_from,
    .fetch = &transport_no_fetch,
    .pass_descriptor = shm_passes_pass,
    .take_descriptor = shm_passes_take,
    .scratch = shm_scratch,
    .arm = shm_arm,
    .sleep = shm_sleep,
    .disarm = shm_disarm,
    .yield_hint = shm_yield_hint,
    .yield = shm_yield,
    .recorder = shm_recorder,
    .publish = transport_default_publish,
    .peer_state = shm_shutdown_peer_state,
    .route = transport_default_route,
    .waits_for = transport_default_waits_for,
    .why_lost = transport_default_why_lost,
    .abort = shm_shutdown_abort,
    .aborted = shm_shutdown_aborted,
    .destroy = shm_destroy,
};

/* Finds this rank's parts of the segment once it is mapped. */
static void locate_parts(shm_t *s) {
  const shm_layout_t *layout = &s->layout;
  void *base = s->segment->base;
  int rank = s->transport.rank;
  s->transport.abort_word = &shm_layout_head(base)->aborted;
  s->transport.flight = &shm_layout_record(layout, base, rank)->flight;
  s->probe = base_clock_now_ns() ^ (uint64_t)(uintptr_t)s;
  shm_layout_control(layout, base, rank)->probe =
      (transport_probe_t){.address = (uint64_t)(uintptr_t)&s->probe, .number = s->probe};
  flight_begin(s->transport.flight, shm_layout_head(base)->directory.communicator, rank);
  for (int peer = 0; peer < s->transport.size; peer++) {
    s->mcast[peer] = (shm_mcast_state_t){.taken = shm_layout_taken(layout, base, rank, peer),
                                         .taken_by = shm_layout_taken(layout, base, peer, rank),
                                         .control = shm_layout_control(layout, base, peer)};
  }
}

static coll_status_t create_end(int rank, int size, shm_scope_t scope, shm_t **end) {
  shm_t *s = NULL;
  COLL_TRY(base_alloc(1, sizeof *s, "a shared-memory transport", (void **)&s));
  coll_status_t status = base_alloc((size_t)size * TRANSPORT_CHANNELS, sizeof *s->fifos,
                                    "message counts", (void **)&s->fifos);
  if (status == COLL_OK) {
    status = base_alloc((size_t)size, sizeof *s->mcast, "multicast counts", (void **)&s->mcast);
  }
  if (status == COLL_OK) {
    status = base_alloc((size_t)size, sizeof *s->unseen, "scheduling hints", (void **)&s->unseen);
  }
  if (status == COLL_OK) {
    status = base_alloc((size_t)size * SHM_USED_WORDS, sizeof *s->sent_on, "channels",
                        (void **)&s->sent_on);
  }
  if (status != COLL_OK) {
    free(s->unseen);
    free(s->mcast);
    free(s->fifos);
    free(s);
    return status;
  }
  shm_wakeup_init();
  shm_layout_compute(size, scope, &s->layout);
  s->transport = (transport_t){.ops = &shm_ops,
                               .rank = rank,
                               .size = size,
                               .slot_bytes = s->layout.slot_bytes,
                               .mcast_bytes = s->layout.mcast_bytes,
                               .peeks = true,
                               .maps = true};
  s->mesh.listener = -1;
  s->ranks = -1;
  *end = s;
  return COLL_OK;
}

coll_status_t transport_shm_create(shm_mesh_t *mesh, shm_scope_t scope, bool one_process,
                                   uint64_t deadline_ns, transport_t **t) {
  shm_t *s;
  coll_status_t status = create_end(mesh->rank, mesh->size, scope, &s);
  if (status != COLL_OK) {
    shm_mesh_close(mesh);
    return status;
  }
  s->one_process = one_process;
  s->mesh = *mesh;
  *mesh = (shm_mesh_t){.listener = -1};
  status = shm_share_files(s, deadline_ns);
  s->mesh.watch = NULL; /* the watch is the caller's and valid during creation only */
  if (status != COLL_OK) {
    shm_destroy(&s->transport);
    return status;
  }
  locate_parts(s);
  status = one_process ? COLL_OK : shm_share_presence(s);
  if (status != COLL_OK) {
    shm_destroy(&s->transport);
    return status;
  }
  *t = &s->transport;
  return COLL_OK;
}

coll_status_t transport_shm_create_local(int size, transport_t *ends[]) {
  shm_layout_t layout;
  shm_segment_t *segment;
  shm_layout_compute(size, SHM_SCOPE_ALL, &layout);
  COLL_TRY(shm_segment_create(layout.segment_bytes, "a communicator of threads", &segment));
  coll_status_t status = shm_share_directory(&layout, segment);
  int created = 0;
  for (; created < size && status == COLL_OK; created++) {
    shm_t *s;
    status = create_end(created, size, SHM_SCOPE_ALL, &s);
    if (status != COLL_OK) break;
    s->one_process = true;
    s->segment = segment;
    shm_segment_retain(segment);
    locate_parts(s);
    ends[created] = &s->transport;
  }
  while (status != COLL_OK && created > 0) shm_destroy(ends[--created]);
  shm_segment_release(segment); /* each end has its own reference */
  return status;
}

void transport_shm_room(int size, shm_scope_t scope, size_t *slot_bytes, size_t *scratch_bytes) {
  shm_layout_t layout;
  shm_layout_compute(size, scope, &layout);
  *slot_bytes = layout.slot_bytes;
  *scratch_bytes = layout.scratch_bytes;
}

void transport_shm_wake(transport_t *t) {
  shm_wakeup_wake(shm_end_control(shm_end_of(t), t->rank));
}
