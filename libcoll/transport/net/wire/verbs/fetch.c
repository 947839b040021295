/* Long messages by RDMA read (InfiniBand Architecture Specification, volume 1, 9.4.4). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "transport/net/wire/verbs/state.h"

#define PART_BYTES ((size_t)1 << 20)
#define STOP_NS UINT64_C(5000000000)

static verbs_fetch_t *fetch_of(transport_fetch_t *fetch) {
  return (verbs_fetch_t *)(void *)fetch;
}

/* ---- the sender -----------------------------------------------------------------------------*/

coll_status_t verbs_expose(wire_t *wire, int peer, const void *data, size_t bytes,
                           transport_exposure_t *exposure, bool *exposed) {
  verbs_t *verbs = verbs_of(wire);
  int64_t min = verbs->settings.fetch_min;
  *exposed = false;
  if (min < 0 || bytes < (size_t)min || verbs->pairs[peer].state != VERBS_READY) return COLL_OK;
  int region = verbs_region_take(verbs, data, bytes, IBV_ACCESS_REMOTE_READ);
  if (region < 0) return COLL_OK;
  *exposure = (transport_exposure_t){.address = (uintptr_t)data, .handle = (uint32_t)region};
  for (int i = 0; i < verbs->rail_count; i++) {
    const struct ibv_mr *mr = verbs->regions[region].mrs[i];
    exposure->keys[i] = mr != NULL ? mr->rkey : 0; /* which no device gives: not by that rail */
  }
  *exposed = true;
  return COLL_OK;
}

/* Reads of memory that is deregistered under them would be a failure at the peer, which is to hear
 * of the abort instead: without this end of the connection they wait. */
void verbs_withdraw(wire_t *wire, int peer, const transport_exposure_t *exposure, bool is_fetched) {
  if (!is_fetched) verbs_disconnect(wire, peer);
  verbs_region_release(verbs_of(wire), (int)exposure->handle);
}

/* ---- the receiver ---------------------------------------------------------------------------*/

coll_status_t verbs_fetch(wire_t *wire, int peer, const transport_exposure_t *exposure, void *dst,
                          size_t bytes, transport_fetch_t **fetch) {
  verbs_t *verbs = verbs_of(wire);
  verbs_fetch_t *made = NULL;
  COLL_TRY(base_alloc(1, sizeof *made, "a fetch", (void **)&made));
  made->peer = peer;
  made->from = *exposure;
  made->dst = dst;
  made->bytes = bytes;
  made->region = verbs_region_take(verbs, dst, bytes, IBV_ACCESS_LOCAL_WRITE);
  made->next = verbs->fetches;
  verbs->fetches = made;
  *fetch = &made->base;
  return COLL_OK; /* progress asks for the parts, and may fail */
}

static bool may_ask(const verbs_t *verbs, const verbs_fetch_t *fetch, int index) {
  const verbs_pair_t *pair = &verbs->pairs[fetch->peer];
  const verbs_qp_t *qp = &pair->qps[index];
  return qp->works && qp->parts < VERBS_QP_PARTS && fetch->from.keys[qp->peer_rail] != 0 &&
         verbs_has_room(verbs, pair, index) &&
         (index == 0 || verbs->regions[fetch->region].mrs[qp->rail] != NULL);
}

/* Of the queue pairs that may be used, the one with the least under way; -1: there is none now. */
static int choose_qp(const verbs_t *verbs, const verbs_fetch_t *fetch) {
  const verbs_pair_t *pair = &verbs->pairs[fetch->peer];
  int chosen = -1;
  if (pair->state != VERBS_READY) return -1;
  for (int i = 0; i < (fetch->region < 0 ? 1 : pair->qp_count); i++) {
    if (!may_ask(verbs, fetch, i)) continue;
    if (chosen < 0 || pair->qps[i].parts < pair->qps[chosen].parts) chosen = i;
  }
  return chosen;
}

/* Asks for the next part by a queue pair. */
static coll_status_t ask(verbs_t *verbs, verbs_fetch_t *fetch, int index, struct ibv_sge *part) {
  size_t at = fetch->asked;
  const verbs_qp_t *qp = &verbs->pairs[fetch->peer].qps[index];
  struct ibv_send_wr wr = {.sg_list = part,
                           .num_sge = 1,
                           .opcode = IBV_WR_RDMA_READ,
                           .wr.rdma = {.remote_addr = fetch->from.address + at,
                                       .rkey = fetch->from.keys[qp->peer_rail]}};
  const verbs_send_t send = {
      .peer = fetch->peer, .qp = index, .fetch = fetch, .at = at, .bytes = part->length};
  if (verbs_post(verbs, &wr, &send)) {
    fetch->in_flight++;
    fetch->asked += part->length;
    return COLL_OK;
  }
  if (index == 0) {
    return base_fail_errno(COLL_ERROR_SYSTEM, "rank %d: RDMA device %s reads nothing from rank %d",
                           verbs->wire.rank, verbs->rails[0].device.name, fetch->peer);
  }
  verbs_give_up(verbs, fetch->peer, index, strerror(errno));
  return COLL_OK;
}

static uint32_t next_part(const verbs_fetch_t *fetch, size_t bytes_max) {
  size_t left = fetch->bytes - fetch->asked;
  return (uint32_t)(left < bytes_max ? left : bytes_max);
}

static coll_status_t ask_into_dst(verbs_t *verbs, verbs_fetch_t *fetch, int qp) {
  int rail = verbs->pairs[fetch->peer].qps[qp].rail;
  struct ibv_sge part = {.addr = (uintptr_t)(fetch->dst + fetch->asked),
                         .length = next_part(fetch, PART_BYTES),
                         .lkey = verbs->regions[fetch->region].mrs[rail]->lkey};
  return ask(verbs, fetch, qp, &part);
}

/* One part at a time. */
static coll_status_t ask_into_buffer(verbs_t *verbs, verbs_fetch_t *fetch) {
  if (fetch->buffer == NULL) COLL_TRY(verbs_buffer_take(verbs, WIRE_SLOT_BYTES, &fetch->buffer));
  if (fetch->buffer == NULL) return COLL_OK; /* all are in flight */
  struct ibv_sge part = {.addr = (uintptr_t)fetch->buffer->data,
                         .length = next_part(fetch, WIRE_SLOT_BYTES),
                         .lkey = fetch->buffer->lkey};
  return ask(verbs, fetch, 0, &part);
}

static coll_status_t ask_for_parts(verbs_t *verbs, verbs_fetch_t *fetch) {
  int qp;
  if (fetch->is_void && fetch->in_flight > 0) return COLL_OK;
  if (fetch->is_void) fetch->asked = fetch->arrived = 0;
  fetch->is_void = false;
  while (fetch->asked < fetch->bytes && (qp = choose_qp(verbs, fetch)) >= 0) {
    if (fetch->region < 0) return fetch->in_flight == 0 ? ask_into_buffer(verbs, fetch) : COLL_OK;
    COLL_TRY(ask_into_dst(verbs, fetch, qp));
  }
  return COLL_OK;
}

coll_status_t verbs_fetch_parts(verbs_t *verbs) {
  for (verbs_fetch_t *fetch = verbs->fetches; fetch != NULL; fetch = fetch->next) {
    COLL_TRY(ask_for_parts(verbs, fetch));
  }
  return COLL_OK;
}

void verbs_fetched(verbs_t *verbs, const verbs_send_t *part, bool arrived) {
  verbs_fetch_t *fetch = part->fetch;
  fetch->in_flight--;
  if (!arrived) fetch->is_void = true;
  if (!arrived) return;
  if (fetch->region < 0) memcpy(fetch->dst + part->at, fetch->buffer->data, part->bytes);
  fetch->arrived += part->bytes;
  verbs->wire.owner_ops->fetched(&verbs->wire);
}

static void end_fetch(verbs_t *verbs, verbs_fetch_t *fetch) {
  verbs_fetch_t **at = &verbs->fetches;
  while (*at != fetch) at = &(*at)->next;
  *at = fetch->next;
  if (fetch->region >= 0) verbs_region_release(verbs, fetch->region);
  if (fetch->buffer != NULL) verbs_buffer_free(verbs, fetch->buffer);
  free(fetch);
}

coll_status_t verbs_advance(wire_t *wire, transport_fetch_t *base, bool *done) {
  verbs_fetch_t *fetch = fetch_of(base);
  *done = fetch->arrived == fetch->bytes && !fetch->is_void;
  if (*done) end_fetch(verbs_of(wire), fetch);
  return COLL_OK;
}

/* Without the connection, parts that are under way complete as failed ones. What a dead device does
 * not complete refers to the fetch for ever. */
void verbs_stop(wire_t *wire, transport_fetch_t *base) {
  verbs_fetch_t *fetch = fetch_of(base);
  uint64_t deadline_ns = base_clock_now_ns() + STOP_NS;
  verbs_disconnect(wire, fetch->peer);
  while (fetch->in_flight > 0 && base_clock_now_ns() < deadline_ns) {
    (void)wire->ops->progress(wire, fetch->peer);
  }
  if (fetch->in_flight == 0) end_fetch(verbs_of(wire), fetch);
}
