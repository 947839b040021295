/* Sends frames in order, and stores those for which there is no room. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "transport/net/wire/verbs/state.h"

/* ---- posting --------------------------------------------------------------------------------*/

bool verbs_has_room(const verbs_t *verbs, const verbs_pair_t *pair, int qp) {
  return pair->qps[qp].in_flight < VERBS_PAIR_SENDS && verbs->free_send_count > 0;
}

bool verbs_post(verbs_t *verbs, struct ibv_send_wr *wr, const verbs_send_t *send) {
  verbs_qp_t *qp = &verbs->pairs[send->peer].qps[send->qp];
  struct ibv_send_wr *failed;
  int index = verbs->free_sends[verbs->free_send_count - 1];
  wr->wr_id = (uint64_t)index;
  wr->send_flags |= IBV_SEND_SIGNALED;
  errno = ibv_post_send(qp->qp, wr, &failed);
  if (errno != 0) return false;
  verbs->sends[index] = *send;
  verbs->free_send_count--;
  qp->in_flight++;
  qp->parts += send->fetch != NULL;
  return true;
}

static coll_status_t post(verbs_t *verbs, int peer, struct ibv_sge parts[], int count,
                          unsigned flags, verbs_buffer_t *buffer) {
  struct ibv_send_wr wr = {
      .sg_list = parts, .num_sge = count, .opcode = IBV_WR_SEND, .send_flags = flags};
  if (verbs_post(verbs, &wr, &(verbs_send_t){.peer = peer, .buffer = buffer})) return COLL_OK;
  if (buffer != NULL) verbs_buffer_free(verbs, buffer);
  return base_fail_errno(COLL_ERROR_SYSTEM, "rank %d: RDMA device %s sends nothing to rank %d",
                         verbs->wire.rank, verbs->rails[0].device.name, peer);
}

static coll_status_t send_inline(verbs_t *verbs, int peer, const net_frame_t *frame,
                                 const void *payload) {
  struct ibv_sge parts[] = {{.addr = (uintptr_t)frame, .length = sizeof *frame},
                            {.addr = (uintptr_t)payload, .length = frame->bytes}};
  return post(verbs, peer, parts, frame->bytes > 0 ? 2 : 1, IBV_SEND_INLINE, NULL);
}

static coll_status_t send_copy(verbs_t *verbs, int peer, const net_frame_t *frame,
                               const void *payload, verbs_buffer_t *buffer) {
  struct ibv_sge part = {.addr = (uintptr_t)buffer->data,
                         .length = (uint32_t)sizeof *frame + frame->bytes,
                         .lkey = buffer->lkey};
  memcpy(buffer->data, frame, sizeof *frame);
  if (frame->bytes > 0) memcpy(buffer->data + sizeof *frame, payload, frame->bytes);
  return post(verbs, peer, &part, 1, 0, buffer);
}

/* *sent is false if there is no room. */
static coll_status_t try_send(verbs_t *verbs, int peer, const net_frame_t *frame,
                              const void *payload, bool *sent) {
  verbs_pair_t *pair = &verbs->pairs[peer];
  verbs_buffer_t *buffer;
  *sent = verbs_has_room(verbs, pair, 0);
  if (!*sent) return COLL_OK;
  if (sizeof *frame + frame->bytes <= pair->inline_bytes) {
    return send_inline(verbs, peer, frame, payload);
  }
  COLL_TRY(verbs_buffer_take(verbs, frame->bytes, &buffer));
  *sent = buffer != NULL;
  return *sent ? send_copy(verbs, peer, frame, payload, buffer) : COLL_OK;
}

/* Only queue pairs of the first rail have buffers to receive in. A read of no bytes needs none, nor
 * a key (InfiniBand Architecture Specification, volume 1, C9-88). */
coll_status_t verbs_probe(verbs_t *verbs, int peer) {
  const verbs_pair_t *pair = &verbs->pairs[peer];
  if (verbs->free_send_count < pair->qp_count) return COLL_OK;
  for (int i = 1; i < pair->qp_count; i++) {
    struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_READ};
    if (!pair->qps[i].is_connected) continue;
    if (verbs_post(verbs, &wr, &(verbs_send_t){.peer = peer, .qp = i})) continue;
    verbs_give_up(verbs, peer, i, strerror(errno));
  }
  return post(verbs, peer, NULL, 0, 0, NULL);
}

/* ---- storing --------------------------------------------------------------------------------*/

static coll_status_t store(verbs_t *verbs, verbs_pair_t *pair, const net_frame_t *frame,
                           const void *payload) {
  verbs_stored_t *made = malloc(sizeof *made + frame->bytes);
  if (made == NULL) return base_fail(COLL_ERROR_MEMORY, "no memory for messages that wait");
  made->next = NULL;
  made->frame = *frame;
  if (frame->bytes > 0) memcpy(made->payload, payload, frame->bytes);
  if (pair->oldest == NULL) verbs->stored++;
  *(pair->oldest == NULL ? &pair->oldest : &pair->newest->next) = made;
  pair->newest = made;
  return COLL_OK;
}

static void drop_oldest(verbs_t *verbs, verbs_pair_t *pair) {
  verbs_stored_t *oldest = pair->oldest;
  pair->oldest = oldest->next;
  if (pair->oldest == NULL) verbs->stored--;
  free(oldest);
}

void verbs_drop_stored(verbs_t *verbs, verbs_pair_t *pair) {
  while (pair->oldest != NULL) drop_oldest(verbs, pair);
}

coll_status_t verbs_send(wire_t *wire, int peer, const net_frame_t *frame, const void *payload,
                         bool is_lent) {
  (void)is_lent; /* a copy is sent */
  verbs_t *verbs = verbs_of(wire);
  verbs_pair_t *pair = &verbs->pairs[peer];
  bool sent = false;
  if (pair->state != VERBS_READY) return COLL_OK; /* the peer is gone */
  if (pair->oldest == NULL) COLL_TRY(try_send(verbs, peer, frame, payload, &sent));
  return sent ? COLL_OK : store(verbs, pair, frame, payload);
}

static coll_status_t flush_pair(verbs_t *verbs, int peer) {
  verbs_pair_t *pair = &verbs->pairs[peer];
  bool sent = true;
  while (sent && pair->oldest != NULL) {
    COLL_TRY(try_send(verbs, peer, &pair->oldest->frame, pair->oldest->payload, &sent));
    if (sent) drop_oldest(verbs, pair);
  }
  return COLL_OK;
}

coll_status_t verbs_flush(verbs_t *verbs) {
  for (int peer = 0; verbs->stored > 0 && peer < verbs->wire.size; peer++) {
    COLL_TRY(flush_pair(verbs, peer));
  }
  return COLL_OK;
}

/* ---- completion -----------------------------------------------------------------------------*/

void verbs_give_up(verbs_t *verbs, int peer, int qp, const char *why) {
  verbs_pair_t *pair = &verbs->pairs[peer];
  pair->qps[qp].works = false;
  if (pair->state == VERBS_CLOSED) return;
  verbs_report(verbs, pair->qps[qp].rail, peer, "does not reach it, so that others are used", why);
}

/* Of queue pairs but the first: what they fail to do, others do. */
static void sent_by_other(verbs_t *verbs, const verbs_send_t *sent, bool arrived, const char *why) {
  verbs_qp_t *qp = &verbs->pairs[sent->peer].qps[sent->qp];
  bool is_probe = sent->fetch == NULL;
  if (arrived && is_probe) qp->works = true;
  if (!arrived && (is_probe || qp->works)) verbs_give_up(verbs, sent->peer, sent->qp, why);
}

coll_status_t verbs_sent(verbs_t *verbs, const struct ibv_wc *wc) {
  int index = (int)wc->wr_id;
  const verbs_send_t sent = verbs->sends[index];
  verbs_pair_t *pair = &verbs->pairs[sent.peer];
  const char *why = verbs->lib->ibv_wc_status_str(wc->status);
  bool arrived = wc->status == IBV_WC_SUCCESS;
  verbs->free_sends[verbs->free_send_count++] = index;
  pair->qps[sent.qp].in_flight--;
  pair->qps[sent.qp].parts -= sent.fetch != NULL;
  if (sent.buffer != NULL) verbs_buffer_free(verbs, sent.buffer);
  if (sent.fetch != NULL) verbs_fetched(verbs, &sent, arrived);
  if (sent.qp > 0) sent_by_other(verbs, &sent, arrived, why);
  if (sent.qp > 0) return COLL_OK;
  if (pair->state == VERBS_PROBED) return verbs_probed(verbs, sent.peer, arrived, why);
  if (arrived || pair->state == VERBS_CLOSED) return COLL_OK;
  verbs_report(verbs, 0, sent.peer, "can no longer reach it", why);
  verbs->wire.owner_ops->lost(&verbs->wire, sent.peer, EIO);
  return COLL_OK;
}
