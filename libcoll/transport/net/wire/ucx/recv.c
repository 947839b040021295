/*
 * Receiving. Active messages of a pair may overtake each other, since UCX sends long ones by other
 * protocols and over other devices than short ones, so frames are numbered and wait for those
 * before them. UCX's callbacks only queue; frames are passed on when it has returned, because the
 * end may then send, or close the connection.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "transport/net/wire/ucx/state.h"

static void free_arrival(ucx_arrival_t *arrival) {
  wire_message_release(arrival->message);
  free(arrival);
}

static void insert(ucx_link_t *link, ucx_arrival_t *arrival) {
  ucx_arrival_t **at = &link->arrivals;
  while (*at != NULL && (int32_t)((*at)->number - arrival->number) < 0) at = &(*at)->next;
  arrival->next = *at;
  *at = arrival;
  link->self->has_news = true;
}

/* UCX has written the payload. */
static void complete_fetch(ucx_arrival_t *arrival, ucs_status_t status) {
  ucx_link_t *link = arrival->link;
  link->self->requests--;
  arrival->complete = true;
  if (arrival->dropped) {
    free_arrival(arrival);
    return;
  }
  link->self->has_news = true;
  if (status != UCS_OK) {
    arrival->complete = false; /* there is nothing to pass on */
    ucx_link_fail(link, status);
  }
}

static void on_fetched(void *request, ucs_status_t status, size_t bytes, void *user_data) {
  ucx_arrival_t *arrival = user_data;
  const ucx_lib_t *lib = arrival->link->self->lib;
  (void)bytes;
  complete_fetch(arrival, status);
  lib->ucp_request_free(request);
}

/* The payload is still in the sender's memory. */
static ucs_status_t fetch(ucx_wire_t *self, ucx_arrival_t *arrival, void *descriptor) {
  const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                                                     UCP_OP_ATTR_FIELD_USER_DATA |
                                                     UCP_OP_ATTR_FIELD_MEMORY_TYPE,
                                     .cb.recv_am = on_fetched,
                                     .user_data = arrival,
                                     .memory_type = UCS_MEMORY_TYPE_HOST};
  self->requests++;
  ucs_status_ptr_t request = self->lib->ucp_am_recv_data_nbx(
      self->worker, descriptor, arrival->message->data, arrival->frame.bytes, &param);
  if (!UCS_PTR_IS_PTR(request)) complete_fetch(arrival, UCS_PTR_STATUS(request));
  return UCS_INPROGRESS;
}

/* The link of a header that a peer may send, else NULL. */
static ucx_link_t *find_link(ucx_wire_t *self, const ucx_header_t *header, size_t bytes) {
  if (self->links == NULL || header->token != self->token) return NULL;
  if (header->from >= (uint32_t)self->wire.size) return NULL;
  ucx_link_t *link = &self->links[header->from];
  if (link->closed) return NULL;
  bool is_next = header->number - link->arrived < UINT32_MAX / 2;
  if (is_next && header->frame.bytes == bytes && bytes <= WIRE_SLOT_BYTES) return link;
  ucx_link_fail(link, UCS_ERR_INVALID_PARAM);
  return NULL;
}

static ucx_arrival_t *make_arrival(ucx_link_t *link, const ucx_header_t *header) {
  ucx_arrival_t *made = malloc(sizeof *made);
  if (made == NULL) return NULL;
  *made = (ucx_arrival_t){.link = link, .number = header->number, .frame = header->frame};
  size_t bytes = header->frame.bytes;
  wire_t *wire = &link->self->wire;
  if (bytes == 0 || wire->owner_ops->message(wire, bytes, &made->message) == COLL_OK) return made;
  free(made);
  return NULL;
}

static ucs_status_t on_message(void *arg, const void *data, size_t header_bytes, void *payload,
                               size_t bytes, const ucp_am_recv_param_t *param) {
  ucx_wire_t *self = arg;
  ucx_header_t header;
  if (header_bytes != sizeof header) return UCS_OK; /* from a stranger */
  memcpy(&header, data, sizeof header);
  ucx_link_t *link = find_link(self, &header, bytes);
  if (link == NULL) return UCS_OK;
  ucx_arrival_t *arrival = make_arrival(link, &header);
  if (arrival == NULL) {
    ucx_link_fail(link, UCS_ERR_NO_MEMORY);
    return UCS_OK;
  }
  insert(link, arrival);
  if ((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) return fetch(self, arrival, payload);
  arrival->complete = true;
  if (bytes > 0) memcpy(arrival->message->data, payload, bytes);
  return UCS_OK;
}

coll_status_t ucx_recv_start(ucx_wire_t *self) {
  const ucp_am_handler_param_t param = {
      .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                    UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG,
      .id = 0,
      .flags = UCP_AM_FLAG_WHOLE_MSG,
      .cb = on_message,
      .arg = self};
  return ucx_fail(self, self->lib->ucp_worker_set_am_recv_handler(self->worker, &param),
                  "has no active messages");
}

static bool is_next(const ucx_link_t *link) {
  const ucx_arrival_t *first = link->arrivals;
  return !link->closed && first != NULL && first->number == link->arrived && first->complete;
}

coll_status_t ucx_recv_deliver(ucx_wire_t *self, int peer) {
  ucx_link_t *link = &self->links[peer];
  const ucx_note_t have_left = {.kind = UCX_HAVE_LEFT};
  while (is_next(link)) {
    ucx_arrival_t *first = link->arrivals;
    const net_frame_t frame = first->frame;
    wire_message_t *message = first->message;
    link->arrivals = first->next;
    link->arrived++;
    free(first);
    COLL_TRY(self->wire.owner_ops->arrived(&self->wire, peer, &frame, message, false));
    if (frame.kind != NET_LEAVE) continue;
    link->peer_leaves = true;
    COLL_TRY(self->wire.owner_ops->tell(&self->wire, peer, &have_left, sizeof have_left));
  }
  return COLL_OK;
}

void ucx_recv_drop(ucx_link_t *link) {
  while (link->arrivals != NULL) {
    ucx_arrival_t *first = link->arrivals;
    link->arrivals = first->next;
    first->dropped = true;
    if (first->complete) free_arrival(first);
  }
}
