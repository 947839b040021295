/*
 * Connections. Each rank tells the other of its queue pair when it first wants to send, or is told
 * of the other's. When it has connected its own to the other's it says so; when both have, it sends
 * a first packet by it. Only if that arrives do frames go this way. Until then, and if any of this
 * fails, they go by the socket.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "transport/verbs/end.h"

#define PSN_MASK 0xffffffu
#define HOP_LIMIT 64
#define RNR_TIMER 8 /* a sender without a buffer at the peer waits 0.16 ms */
#define RNR_FOREVER 7

enum { NOTE_QUEUE_PAIR = 1, NOTE_CONNECTED };

/* What a rank tells its peer; same byte order on all ranks. */
typedef struct verbs_note {
  uint32_t kind;
  uint32_t number, psn;
  uint32_t mtu; /* enum ibv_mtu */
  uint16_t lid;
  uint8_t is_ethernet, unused;
  uint8_t gid[16];
} verbs_note_t;

void verbs_report(const verbs_t *verbs, int peer, const char *what, const char *why) {
  fprintf(stderr, "libcoll: rank %d to rank %d: RDMA device %s %s: %s\n", verbs->fabric.rank, peer,
          verbs->device.name, what, why);
}

/* ---- which peer a queue pair belongs to -----------------------------------------------------*/

int verbs_peer_of(const verbs_t *verbs, uint32_t number) {
  uint32_t mask = (uint32_t)verbs->peer_slots - 1;
  for (uint32_t at = number & mask; verbs->peer_of[at] >= 0; at = (at + 1) & mask) {
    const struct ibv_qp *qp = verbs->pairs[verbs->peer_of[at]].qp;
    if (qp->qp_num == number) return verbs->peer_of[at];
  }
  return -1;
}

static void add_peer(verbs_t *verbs, int peer) {
  uint32_t mask = (uint32_t)verbs->peer_slots - 1;
  uint32_t at = verbs->pairs[peer].qp->qp_num & mask;
  while (verbs->peer_of[at] >= 0) at = (at + 1) & mask;
  verbs->peer_of[at] = peer;
}

static coll_status_t make_peer_of(verbs_t *verbs) {
  int slots = 2;
  if (verbs->peer_of != NULL) return COLL_OK;
  while (slots < 2 * verbs->fabric.size) slots *= 2;
  COLL_TRY(
      base_alloc((size_t)slots, sizeof *verbs->peer_of, "queue pairs", (void **)&verbs->peer_of));
  for (int i = 0; i < slots; i++) verbs->peer_of[i] = -1;
  verbs->peer_slots = slots;
  return COLL_OK;
}

static coll_status_t make_pairs(verbs_t *verbs) {
  if (verbs->pairs != NULL) return COLL_OK;
  COLL_TRY(make_peer_of(verbs));
  return base_alloc((size_t)verbs->fabric.size, sizeof *verbs->pairs, "queue pairs",
                    (void **)&verbs->pairs);
}

/* ---- queue pairs ----------------------------------------------------------------------------*/

/* With as much room for inline data as the device gives. */
static struct ibv_qp *create_qp(verbs_t *verbs, size_t *inline_bytes) {
  static const uint32_t wanted[] = {128, 96, 64, 0};
  struct ibv_qp *made = NULL;
  for (size_t i = 0; made == NULL && i < sizeof wanted / sizeof wanted[0]; i++) {
    struct ibv_qp_init_attr attr = {
        .send_cq = verbs->cq,
        .recv_cq = verbs->cq,
        .srq = verbs->srq,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = VERBS_PAIR_SENDS, .max_send_sge = 2, .max_inline_data = wanted[i]}};
    made = verbs->lib->ibv_create_qp(verbs->pd, &attr);
    *inline_bytes = attr.cap.max_inline_data;
  }
  return made;
}

static bool to_init(verbs_t *verbs, struct ibv_qp *qp) {
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = (uint8_t)verbs->device.port};
  errno = verbs->lib->ibv_modify_qp(
      qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  return errno == 0;
}

/* Between ports of one subnet of InfiniBand, the local identifier is enough. */
static struct ibv_ah_attr address_of(const verbs_t *verbs, const verbs_note_t *note) {
  const verbs_device_t *device = &verbs->device;
  bool is_global = device->is_ethernet || note->lid == 0 ||
                   memcmp(note->gid, device->gid.raw, sizeof note->gid / 2) != 0;
  struct ibv_ah_attr address = {.dlid = note->lid,
                                .sl = (uint8_t)verbs->settings.service_level,
                                .port_num = (uint8_t)device->port,
                                .is_global = is_global,
                                .grh = {.sgid_index = (uint8_t)device->gid_index,
                                        .hop_limit = HOP_LIMIT,
                                        .traffic_class = (uint8_t)verbs->settings.traffic_class}};
  memcpy(address.grh.dgid.raw, note->gid, sizeof note->gid);
  return address;
}

static bool to_receive(verbs_t *verbs, struct ibv_qp *qp, const verbs_note_t *note) {
  enum ibv_mtu mtu = (enum ibv_mtu)note->mtu;
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
                             .path_mtu = mtu < verbs->device.mtu ? mtu : verbs->device.mtu,
                             .dest_qp_num = note->number,
                             .rq_psn = note->psn & PSN_MASK,
                             .max_dest_rd_atomic = 1,
                             .min_rnr_timer = RNR_TIMER,
                             .ah_attr = address_of(verbs, note)};
  errno = verbs->lib->ibv_modify_qp(qp, &attr,
                                    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                        IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                                        IBV_QP_MIN_RNR_TIMER);
  return errno == 0;
}

static bool to_send(verbs_t *verbs, struct ibv_qp *qp, uint32_t psn) {
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS,
                             .timeout = (uint8_t)verbs->settings.timeout,
                             .retry_cnt = (uint8_t)verbs->settings.retry_count,
                             .rnr_retry = RNR_FOREVER,
                             .sq_psn = psn,
                             .max_rd_atomic = 1};
  errno = verbs->lib->ibv_modify_qp(qp, &attr,
                                    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                        IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
  return errno == 0;
}

/* ---- connecting -----------------------------------------------------------------------------*/

static void stay_on_socket(verbs_t *verbs, int peer, const char *what, const char *why) {
  verbs_report(verbs, peer, what, why);
  verbs_disconnect(&verbs->fabric, peer);
}

static coll_status_t tell(verbs_t *verbs, int peer, uint32_t kind) {
  const verbs_pair_t *pair = &verbs->pairs[peer];
  verbs_note_t note = {.kind = kind,
                       .number = pair->qp->qp_num,
                       .psn = pair->psn,
                       .mtu = verbs->device.mtu,
                       .lid = verbs->device.lid,
                       .is_ethernet = verbs->device.is_ethernet};
  memcpy(note.gid, verbs->device.gid.raw, sizeof note.gid);
  return tcp_fabric_tell(verbs->fabric.end, peer, &note, sizeof note);
}

static coll_status_t begin(verbs_t *verbs, int peer) {
  COLL_TRY(make_pairs(verbs));
  verbs_pair_t *pair = &verbs->pairs[peer];
  if (pair->state != VERBS_NONE) return COLL_OK;
  pair->qp = create_qp(verbs, &pair->inline_bytes);
  if (pair->qp == NULL || !to_init(verbs, pair->qp)) {
    stay_on_socket(verbs, peer, "makes no queue pair, so the socket is used", strerror(errno));
    return COLL_OK;
  }
  add_peer(verbs, peer);
  pair->psn = (uint32_t)(base_clock_now_ns() >> 4) & PSN_MASK;
  pair->state = VERBS_TOLD;
  return tell(verbs, peer, NOTE_QUEUE_PAIR);
}

coll_status_t verbs_connect(tcp_fabric_t *fabric, int peer) {
  return begin(verbs_of(fabric), peer);
}

static coll_status_t join(verbs_t *verbs, int peer, const verbs_note_t *note) {
  verbs_pair_t *pair = &verbs->pairs[peer];
  if (note->is_ethernet != (verbs->device.is_ethernet ? 1 : 0)) {
    stay_on_socket(verbs, peer, "cannot reach its device, so the socket is used",
                   "one is on Ethernet, the other on InfiniBand");
    return COLL_OK;
  }
  if (!to_receive(verbs, pair->qp, note) || !to_send(verbs, pair->qp, pair->psn)) {
    stay_on_socket(verbs, peer, "cannot reach its device, so the socket is used", strerror(errno));
    return COLL_OK;
  }
  pair->state = VERBS_CONNECTED;
  return tell(verbs, peer, NOTE_CONNECTED);
}

coll_status_t verbs_hear(tcp_fabric_t *fabric, int peer, const void *note, size_t bytes) {
  verbs_t *verbs = verbs_of(fabric);
  verbs_note_t heard;
  if (bytes != sizeof heard) return COLL_ERROR_INVALID;
  memcpy(&heard, note, sizeof heard);
  COLL_TRY(begin(verbs, peer));
  verbs_pair_t *pair = &verbs->pairs[peer];
  if (pair->state == VERBS_CLOSED) return COLL_OK;
  if (heard.kind == NOTE_QUEUE_PAIR && pair->state == VERBS_TOLD) return join(verbs, peer, &heard);
  if (heard.kind != NOTE_CONNECTED || pair->state != VERBS_CONNECTED) return COLL_ERROR_INVALID;
  pair->state = VERBS_PROBED;
  return verbs_probe(verbs, peer);
}

coll_status_t verbs_probed(verbs_t *verbs, int peer, bool arrived, const char *why) {
  if (!arrived) {
    stay_on_socket(verbs, peer, "does not reach its device, so the socket is used", why);
    return COLL_OK;
  }
  verbs->pairs[peer].state = VERBS_READY;
  return tcp_fabric_ready(verbs->fabric.end, peer);
}

/* ---- the end --------------------------------------------------------------------------------*/

/* The queue pair stays, so that its number does not become another pair's while completions of this
 * one are due. */
void verbs_disconnect(tcp_fabric_t *fabric, int peer) {
  verbs_t *verbs = verbs_of(fabric);
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
  if (verbs->pairs == NULL) return;
  verbs_pair_t *pair = &verbs->pairs[peer];
  if (pair->qp != NULL && pair->state != VERBS_CLOSED) {
    (void)verbs->lib->ibv_modify_qp(pair->qp, &attr, IBV_QP_STATE);
  }
  pair->state = VERBS_CLOSED;
  verbs_drop_stored(verbs, pair);
}

void verbs_pairs_destroy(verbs_t *verbs) {
  for (int peer = 0; verbs->pairs != NULL && peer < verbs->fabric.size; peer++) {
    verbs_pair_t *pair = &verbs->pairs[peer];
    verbs_drop_stored(verbs, pair);
    if (pair->qp != NULL) verbs->lib->ibv_destroy_qp(pair->qp);
  }
  free(verbs->pairs);
  free(verbs->peer_of);
}
