/* What wires call: which frames may come, where their payloads go, and who takes them over. */
#include "transport/net/channel/state.h"

/* If another thread than the one that sleeps has received it, the socket does not end the sleep. */
void net_note_arrival(net_channels_t *channels) {
  channels->arrivals++;
  if (channels->is_armed && !pthread_equal(channels->sleeper, pthread_self())) {
    net_abort_wake(channels);
  }
}

bool net_arrival_is_frame(const net_peer_t *peer, const net_frame_t *frame) {
  if (frame->channel >= TRANSPORT_CHANNELS_MAX) return false;
  switch (frame->kind) {
    case NET_MESSAGE: return frame->bytes <= peer->all->transport->slot_bytes;
    case NET_RECORD: return frame->bytes == sizeof(flight_recorder_t);
    case NET_PROPOSE:
    case NET_VERDICT: return frame->bytes == sizeof(transport_reason_t);
    case NET_SIGNAL:
    case NET_CREDIT:
    case NET_WANT:
    case NET_SWITCH:
    case NET_RECEIVED:
    case NET_LEAVE: return frame->bytes == 0;
    case NET_NOTE: return frame->bytes > 0 && frame->bytes <= WIRE_NOTE_BYTES;
    default: return false;
  }
}

/* ---- memory of payloads ---------------------------------------------------------------------*/

static size_t message_bytes(size_t payload_bytes) {
  return sizeof(wire_message_t) + payload_bytes;
}

static void release_message(wire_message_t *message, void *channels) {
  net_block_put(channels, message, message_bytes(message->bytes));
}

static coll_status_t make_message(wire_t *wire, size_t bytes, wire_message_t **message) {
  void *memory = net_block_get(wire->owner, message_bytes(bytes));
  if (memory == NULL) {
    return base_fail(COLL_ERROR_MEMORY, "no memory for a message of %zu bytes", bytes);
  }
  *message = wire_message_at(memory, bytes, release_message, wire->owner);
  return COLL_OK;
}

/* ---- whose a frame is ------------------------------------------------------------------------*/

/* Wires have no memory for payloads that are empty. */
static coll_status_t accept_message(net_peer_t *peer, const net_frame_t *frame,
                                    wire_message_t *payload) {
  if (payload == NULL) COLL_TRY(make_message(peer->all->sockets, 0, &payload));
  payload->call = frame->call;
  return net_fifo_accept(peer, frame, payload);
}

coll_status_t net_arrival_accept(net_peer_t *peer, const net_frame_t *frame,
                                 wire_message_t *payload) {
  coll_status_t status = COLL_OK;
  switch (frame->kind) {
    case NET_RECORD: status = net_record_accept(peer, frame->call.count, payload->data); break;
    case NET_PROPOSE:
    case NET_VERDICT:
      status = net_abort_accept(peer, (net_kind_t)frame->kind, payload->data);
      break;
    case NET_RECEIVED: break; /* every frame says what has arrived */
    case NET_LEAVE: peer->pair->state = TRANSPORT_PEER_LEFT; break;
    case NET_NOTE:
    case NET_SWITCH: status = net_route_accept(peer, frame, payload); break;
    case NET_MESSAGE: return accept_message(peer, frame, payload);
    default: return net_fifo_accept(peer, frame, payload);
  }
  wire_message_release(payload);
  return status;
}

/* ---- the wire of sockets --------------------------------------------------------------------*/

static net_rail_t *rail_of(const wire_t *wire, int link) {
  return &((const net_channels_t *)wire->owner)->pairs->rails[link];
}

static net_peer_t *peer_of(const wire_t *wire, int link) {
  return &((const net_channels_t *)wire->owner)->peers[rail_of(wire, link)->pair->rank];
}

static bool is_frame(wire_t *wire, int link, const net_frame_t *frame) {
  return net_arrival_is_frame(peer_of(wire, link), frame);
}

static char *find_place(wire_t *wire, int link, const net_frame_t *frame) {
  const net_peer_t *peer = peer_of(wire, link);
  const net_fifo_t *fifo = peer->fifos[frame->channel];
  bool is_posted = frame->kind == NET_MESSAGE && fifo != NULL &&
                   net_fifo_has_post(fifo, frame->bytes) && frame->number == peer->received;
  return is_posted ? fifo->post.data : NULL;
}

static bool expects_long(wire_t *wire, int link) {
  return peer_of(wire, link)->long_posts > 0;
}

static coll_status_t arrived(wire_t *wire, int link, const net_frame_t *frame,
                             wire_message_t *message, bool is_placed) {
  net_peer_t *peer = peer_of(wire, link);
  net_note_arrival(peer->all);
  coll_status_t status = net_order_accept(peer, frame, message, is_placed);
  if (status != COLL_ERROR_INVALID) return status;
  net_pair_close(peer->pair, TRANSPORT_PEER_LOST);
  return COLL_OK;
}

static coll_status_t store(wire_t *wire, int link, const net_frame_t *frame, const void *payload,
                           bool is_lent, wire_outgoing_t **outgoing) {
  net_outgoing_t *made;
  COLL_TRY(net_outgoing_create(peer_of(wire, link), frame, payload, is_lent, &made));
  *outgoing = &made->base;
  return COLL_OK;
}

static void unqueued(wire_t *wire, wire_outgoing_t *outgoing) {
  (void)wire;
  net_outgoing_free((net_outgoing_t *)(void *)outgoing);
}

static void flushed(wire_t *wire, int link) {
  net_peer_t *peer = peer_of(wire, link);
  if (peer->record_due) net_record_publish(peer);
}

static void lose_rail(wire_t *wire, int link, int error) {
  net_rail_failed(rail_of(wire, link), error);
}

const wire_owner_ops_t net_channels_of_sockets = {
    .is_frame = is_frame,
    .message = make_message,
    .place = find_place,
    .expects_long = expects_long,
    .arrived = arrived,
    .store = store,
    .unqueued = unqueued,
    .flushed = flushed,
    .lost = lose_rail,
};

/* ---- the other wire -------------------------------------------------------------------------*/

static void note_fetched(wire_t *wire) {
  net_note_arrival(wire->owner);
}

static void lose_peer(wire_t *wire, int rank, int error) {
  (void)error;
  net_pair_give_up(((const net_channels_t *)wire->owner)->peers[rank].pair);
}

const wire_owner_ops_t net_channels_of_wire = {
    .tell = net_route_tell,
    .ready = net_route_ready,
    .message = make_message,
    .arrived = net_route_arrived,
    .fetched = note_fetched,
    .lost = lose_peer,
};
