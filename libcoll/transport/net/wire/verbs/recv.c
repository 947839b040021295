/* Buffers of the shared receive queue. */
#include <errno.h>
#include <string.h>

#include "transport/net/wire/verbs/state.h"

/* Two parts: the frame, and the payload behind the head of its message. */
static bool post(verbs_t *verbs, int buffer) {
  char *at = verbs->memory + (size_t)buffer * VERBS_BUFFER_BYTES;
  struct ibv_sge parts[] = {{.addr = (uintptr_t)(at + VERBS_FRAME_AT),
                             .length = sizeof(net_frame_t),
                             .lkey = verbs->mr->lkey},
                            {.addr = (uintptr_t)(at + VERBS_DATA_AT),
                             .length = WIRE_SLOT_BYTES,
                             .lkey = verbs->mr->lkey}};
  struct ibv_recv_wr *failed,
      wr = {.wr_id = VERBS_RECEIVED | (unsigned)buffer, .sg_list = parts, .num_sge = 2};
  bool accepted = ibv_post_srq_recv(verbs->srq, &wr, &failed) == 0;
  verbs->posted += accepted;
  return accepted;
}

coll_status_t verbs_post_all(verbs_t *verbs) {
  for (int i = 0; i < VERBS_RECV_BUFFERS; i++) {
    if (!post(verbs, i)) {
      return base_fail(COLL_ERROR_SYSTEM, "RDMA device %s takes no buffer to receive in",
                       verbs->rails[0].device.name);
    }
  }
  return COLL_OK;
}

static int buffer_at(const verbs_t *verbs, const void *memory) {
  return (int)((size_t)((const char *)memory - verbs->memory) / VERBS_BUFFER_BYTES);
}

static void release(wire_message_t *message, void *context) {
  verbs_t *verbs = context;
  post(verbs, buffer_at(verbs, message));
}

/* Whether a payload stays in its buffer. */
static bool may_keep(const verbs_t *verbs, size_t bytes) {
  return bytes >= VERBS_KEEP_BYTES && verbs->posted >= VERBS_RECV_BUFFERS / 2;
}

/* The message of the frame in a buffer, which is given back to the device if it is not kept there.
 * NULL if it has none. */
static coll_status_t take_out(verbs_t *verbs, int buffer, const net_frame_t *frame,
                              wire_message_t **message) {
  char *at = verbs->memory + (size_t)buffer * VERBS_BUFFER_BYTES;
  coll_status_t status = COLL_OK;
  *message = NULL;
  if (may_keep(verbs, frame->bytes)) {
    *message = wire_message_at(at + VERBS_HEAD_AT, frame->bytes, release, verbs);
    return COLL_OK;
  }
  if (frame->bytes > 0) {
    status = verbs->wire.owner_ops->message(&verbs->wire, frame->bytes, message);
    if (status == COLL_OK) {
      memcpy((*message)->data, at + VERBS_DATA_AT, frame->bytes);
    }
  }
  post(verbs, buffer);
  return status;
}

coll_status_t verbs_received(verbs_t *verbs, const struct ibv_wc *wc) {
  net_frame_t frame;
  wire_message_t *message;
  int buffer = (int)(wc->wr_id & UINT32_MAX);
  const char *at = verbs->memory + (size_t)buffer * VERBS_BUFFER_BYTES;
  int peer = wc->status == IBV_WC_SUCCESS ? verbs_peer_of(verbs, wc->qp_num) : -1;
  verbs->posted--;
  if (peer < 0 || wc->byte_len == 0 || verbs->pairs[peer].state == VERBS_CLOSED) {
    post(verbs, buffer);
    return COLL_OK;
  }
  memcpy(&frame, at + VERBS_FRAME_AT, sizeof frame);
  if (wc->byte_len < sizeof frame || wc->byte_len - sizeof frame != frame.bytes) {
    post(verbs, buffer);
    verbs->wire.owner_ops->lost(&verbs->wire, peer, EBADMSG);
    return COLL_OK;
  }
  COLL_TRY(take_out(verbs, buffer, &frame, &message));
  return verbs->wire.owner_ops->arrived(&verbs->wire, peer, &frame, message, false);
}
