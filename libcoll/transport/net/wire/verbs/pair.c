/*
 * Connections. Each rank tells the other of its queue pairs when it first wants to send, or is told
 * of the other's. When it has connected its own to the other's it says so; when both have, it sends
 * a first packet by each. Only if that by the first arrives do frames go this way. Until then, and
 * if any of this fails, they go by the socket.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "transport/net/wire/verbs/state.h"

#define PSN_MASK 0xffffffu
#define HOP_LIMIT 64
#define RNR_TIMER 8 /* a sender without a buffer at the peer waits 0.16 ms */
#define RNR_FOREVER 7
#define READS_MAX 16 /* under way by a queue pair */

enum { NOTE_QUEUE_PAIR = 1, NOTE_CONNECTED };

/* What a rank tells its peer; same byte order on all ranks. */
typedef struct verbs_rail_note {
  uint32_t mtu; /* enum ibv_mtu */
  uint16_t lid;
  uint8_t is_ethernet, reads_in;
  uint8_t gid[16];
} verbs_rail_note_t;

typedef struct verbs_note {
  uint32_t kind;
  uint32_t qp_count;
  uint32_t numbers[VERBS_PAIR_QPS], psns[VERBS_PAIR_QPS];
  uint8_t rail_of[VERBS_PAIR_QPS];
  verbs_rail_note_t rails[TRANSPORT_RAILS];
} verbs_note_t;

void verbs_report(const verbs_t *verbs, int rail, int peer, const char *what, const char *why) {
  fprintf(stderr, "libcoll: rank %d to rank %d: RDMA device %s %s: %s\n", verbs->wire.rank, peer,
          verbs->rails[rail].device.name, what, why);
}

/* ---- which peer a queue pair belongs to -----------------------------------------------------*/

int verbs_peer_of(const verbs_t *verbs, uint32_t number) {
  uint32_t mask = (uint32_t)verbs->peer_slots - 1;
  for (uint32_t at = number & mask; verbs->peer_of[at] >= 0; at = (at + 1) & mask) {
    const struct ibv_qp *qp = verbs->pairs[verbs->peer_of[at]].qps[0].qp;
    if (qp->qp_num == number) return verbs->peer_of[at];
  }
  return -1;
}

static void add_peer(verbs_t *verbs, int peer) {
  uint32_t mask = (uint32_t)verbs->peer_slots - 1;
  uint32_t at = verbs->pairs[peer].qps[0].qp->qp_num & mask;
  while (verbs->peer_of[at] >= 0) at = (at + 1) & mask;
  verbs->peer_of[at] = peer;
}

static coll_status_t make_peer_of(verbs_t *verbs) {
  int slots = 2;
  if (verbs->peer_of != NULL) return COLL_OK;
  while (slots < 2 * verbs->wire.size) slots *= 2;
  COLL_TRY(
      base_alloc((size_t)slots, sizeof *verbs->peer_of, "queue pairs", (void **)&verbs->peer_of));
  for (int i = 0; i < slots; i++) verbs->peer_of[i] = -1;
  verbs->peer_slots = slots;
  return COLL_OK;
}

static coll_status_t make_pairs(verbs_t *verbs) {
  if (verbs->pairs != NULL) return COLL_OK;
  COLL_TRY(make_peer_of(verbs));
  return base_alloc((size_t)verbs->wire.size, sizeof *verbs->pairs, "queue pairs",
                    (void **)&verbs->pairs);
}

/* ---- queue pairs ----------------------------------------------------------------------------*/

/* With as much room for inline data as the device gives. */
static struct ibv_qp *create_qp(verbs_t *verbs, int rail, size_t *inline_bytes) {
  static const uint32_t wanted[] = {128, 96, 64, 0};
  struct ibv_qp *made = NULL;
  for (size_t i = 0; made == NULL && i < sizeof wanted / sizeof wanted[0]; i++) {
    struct ibv_qp_init_attr attr = {
        .send_cq = verbs->rails[rail].cq,
        .recv_cq = verbs->rails[rail].cq,
        .srq = rail == 0 ? verbs->srq : NULL,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = VERBS_PAIR_SENDS, .max_send_sge = 2, .max_inline_data = wanted[i]}};
    made = verbs->lib->ibv_create_qp(verbs->rails[rail].pd, &attr);
    *inline_bytes = attr.cap.max_inline_data;
  }
  return made;
}

static bool to_init(verbs_t *verbs, const verbs_qp_t *qp) {
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
                             .port_num = (uint8_t)verbs->rails[qp->rail].device.port,
                             .qp_access_flags = IBV_ACCESS_REMOTE_READ};
  errno = verbs->lib->ibv_modify_qp(
      qp->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  return errno == 0;
}

/* Between ports of one subnet of InfiniBand, the local identifier is enough. */
static struct ibv_ah_attr address_of(const verbs_t *verbs, const verbs_device_t *device,
                                     const verbs_rail_note_t *note) {
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

static uint8_t reads_of(int reads) {
  return (uint8_t)(reads < READS_MAX ? reads : READS_MAX);
}

static bool to_receive(verbs_t *verbs, int index, const verbs_qp_t *qp, const verbs_note_t *note) {
  const verbs_device_t *device = &verbs->rails[qp->rail].device;
  const verbs_rail_note_t *peer = &note->rails[qp->peer_rail];
  errno = EPROTOTYPE;
  if (peer->is_ethernet != (device->is_ethernet ? 1 : 0)) return false;
  enum ibv_mtu mtu = (enum ibv_mtu)peer->mtu;
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
                             .path_mtu = mtu < device->mtu ? mtu : device->mtu,
                             .dest_qp_num = note->numbers[index],
                             .rq_psn = note->psns[index] & PSN_MASK,
                             .max_dest_rd_atomic = reads_of(device->reads_in),
                             .min_rnr_timer = RNR_TIMER,
                             .ah_attr = address_of(verbs, device, peer)};
  errno = verbs->lib->ibv_modify_qp(qp->qp, &attr,
                                    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                        IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                                        IBV_QP_MIN_RNR_TIMER);
  return errno == 0;
}

static bool to_send(verbs_t *verbs, const verbs_qp_t *qp, const verbs_note_t *note) {
  uint8_t own_reads = reads_of(verbs->rails[qp->rail].device.reads_out);
  uint8_t peer_reads = note->rails[qp->peer_rail].reads_in;
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS,
                             .timeout = (uint8_t)verbs->settings.timeout,
                             .retry_cnt = (uint8_t)verbs->settings.retry_count,
                             .rnr_retry = RNR_FOREVER,
                             .sq_psn = qp->psn,
                             .max_rd_atomic = own_reads < peer_reads ? own_reads : peer_reads};
  errno = verbs->lib->ibv_modify_qp(qp->qp, &attr,
                                    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                        IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
  return errno == 0;
}

/* ---- connecting -----------------------------------------------------------------------------*/

static void stay_on_socket(verbs_t *verbs, int peer, const char *what, const char *why) {
  verbs_report(verbs, 0, peer, what, why);
  verbs_disconnect(&verbs->wire, peer);
}

static coll_status_t tell(verbs_t *verbs, int peer, uint32_t kind) {
  const verbs_pair_t *pair = &verbs->pairs[peer];
  verbs_note_t note = {.kind = kind, .qp_count = (uint32_t)pair->qp_count};
  for (int i = 0; i < pair->qp_count; i++) {
    note.numbers[i] = pair->qps[i].qp->qp_num;
    note.psns[i] = pair->qps[i].psn;
    note.rail_of[i] = (uint8_t)pair->qps[i].rail;
  }
  for (int i = 0; i < verbs->rail_count; i++) {
    const verbs_device_t *device = &verbs->rails[i].device;
    note.rails[i] = (verbs_rail_note_t){.mtu = device->mtu,
                                        .lid = device->lid,
                                        .is_ethernet = device->is_ethernet,
                                        .reads_in = reads_of(device->reads_in)};
    memcpy(note.rails[i].gid, device->gid.raw, sizeof note.rails[i].gid);
  }
  return verbs->wire.owner_ops->tell(&verbs->wire, peer, &note, sizeof note);
}

/* As many queue pairs as wanted, or as the devices give, by turns on each; at least one. False,
 * with errno set. */
static bool make_qps(verbs_t *verbs, verbs_pair_t *pair) {
  int wanted = (int)verbs->settings.qps * verbs->rail_count;
  while (pair->qp_count < wanted && pair->qp_count < VERBS_PAIR_QPS) {
    verbs_qp_t *made = &pair->qps[pair->qp_count];
    size_t inline_bytes;
    made->rail = pair->qp_count % verbs->rail_count;
    made->qp = create_qp(verbs, made->rail, &inline_bytes);
    if (made->qp == NULL || !to_init(verbs, made)) break;
    made->psn = (uint32_t)(base_clock_now_ns() >> 4) & PSN_MASK;
    if (pair->qp_count++ == 0) pair->inline_bytes = inline_bytes;
  }
  return pair->qp_count > 0;
}

static coll_status_t begin(verbs_t *verbs, int peer) {
  COLL_TRY(make_pairs(verbs));
  verbs_pair_t *pair = &verbs->pairs[peer];
  if (pair->state != VERBS_NONE) return COLL_OK;
  if (!make_qps(verbs, pair)) {
    stay_on_socket(verbs, peer, "makes no queue pair, so the socket is used", strerror(errno));
    return COLL_OK;
  }
  add_peer(verbs, peer);
  pair->state = VERBS_TOLD;
  return tell(verbs, peer, NOTE_QUEUE_PAIR);
}

coll_status_t verbs_connect(wire_t *wire, int peer) {
  return begin(verbs_of(wire), peer);
}

/* False, with errno set: the first one cannot be connected. */
static bool connect_qps(verbs_t *verbs, int peer, const verbs_note_t *note) {
  verbs_pair_t *pair = &verbs->pairs[peer];
  if (pair->qp_count > (int)note->qp_count) pair->qp_count = (int)note->qp_count;
  for (int i = pair->qp_count - 1; i >= 0; i--) {
    verbs_qp_t *qp = &pair->qps[i];
    qp->peer_rail = note->rail_of[i];
    qp->is_connected = to_receive(verbs, i, qp, note) && to_send(verbs, qp, note);
    if (i > 0 && !qp->is_connected) verbs_give_up(verbs, peer, i, strerror(errno));
  }
  return pair->qps[0].is_connected;
}

static coll_status_t join(verbs_t *verbs, int peer, const verbs_note_t *note) {
  verbs_pair_t *pair = &verbs->pairs[peer];
  if (note->rails[0].is_ethernet != (verbs->rails[0].device.is_ethernet ? 1 : 0)) {
    stay_on_socket(verbs, peer, "cannot reach its device, so the socket is used",
                   "one is on Ethernet, the other on InfiniBand");
    return COLL_OK;
  }
  if (!connect_qps(verbs, peer, note)) {
    stay_on_socket(verbs, peer, "cannot reach its device, so the socket is used", strerror(errno));
    return COLL_OK;
  }
  pair->state = VERBS_CONNECTED;
  return tell(verbs, peer, NOTE_CONNECTED);
}

static bool is_sound(const verbs_note_t *note) {
  bool is = note->qp_count > 0 && note->qp_count <= VERBS_PAIR_QPS;
  for (int i = 0; i < VERBS_PAIR_QPS; i++) is = is && note->rail_of[i] < TRANSPORT_RAILS;
  return is;
}

coll_status_t verbs_hear(wire_t *wire, int peer, const void *note, size_t bytes) {
  verbs_t *verbs = verbs_of(wire);
  verbs_note_t heard;
  if (bytes != sizeof heard) return COLL_ERROR_INVALID;
  memcpy(&heard, note, sizeof heard);
  if (!is_sound(&heard)) return COLL_ERROR_INVALID;
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
  verbs->pairs[peer].qps[0].works = true;
  return verbs->wire.owner_ops->ready(&verbs->wire, peer);
}

/* ---- the end --------------------------------------------------------------------------------*/

/* The queue pairs stay, so that the first one's number does not become another pair's while
 * completions of this one are due. */
void verbs_disconnect(wire_t *wire, int peer) {
  verbs_t *verbs = verbs_of(wire);
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
  if (verbs->pairs == NULL) return;
  verbs_pair_t *pair = &verbs->pairs[peer];
  for (int i = 0; pair->state != VERBS_CLOSED && i < VERBS_PAIR_QPS; i++) {
    struct ibv_qp *qp = pair->qps[i].qp;
    if (qp != NULL) (void)verbs->lib->ibv_modify_qp(qp, &attr, IBV_QP_STATE);
  }
  pair->state = VERBS_CLOSED;
  verbs_drop_stored(verbs, pair);
}

void verbs_pairs_destroy(verbs_t *verbs) {
  for (int peer = 0; verbs->pairs != NULL && peer < verbs->wire.size; peer++) {
    verbs_pair_t *pair = &verbs->pairs[peer];
    verbs_drop_stored(verbs, pair);
    for (int i = 0; i < VERBS_PAIR_QPS; i++) {
      if (pair->qps[i].qp != NULL) verbs->lib->ibv_destroy_qp(pair->qps[i].qp);
    }
  }
  free(verbs->pairs);
  free(verbs->peer_of);
}
