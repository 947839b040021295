/*
 * A rank that wants to send asks for the address of the peer's worker by a note, and connects an
 * endpoint to it; the peer does the same for its own direction. Death of a peer is the socket's to
 * find: when UCX gives up a peer, its socket has a while to say that it has left.
 *
 * UCX completes a send when its buffer is free, not when the frame has arrived, and what a process
 * has sent may be lost when it closes its connections. A rank that leaves therefore waits until the
 * peers confirm by a note that they have its last frame; for one that makes no calls only until the
 * frame is surely on the peer's host.
 */
#include "transport/net/wire/ucx/ucx.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/net/secret.h"
#include "transport/net/wire/ucx/state.h"

#define FAILED_NS 1000000000u /* until a peer that UCX gave up is lost */
#define LEAVE_NS 1000000000u  /* for a peer that makes no calls to confirm the last frame */
#define DRAIN_NS 1000000000u  /* for requests of closed endpoints to end */

static const base_knob_t knobs[] = {
    {.name = "COLL_UCX_LIBRARY",
     .kind = BASE_KNOB_TEXT,
     .fallback = "libucp.so.0",
     .help = "the library that is loaded for the transport ucx: a name or a path"}};

const base_knob_t *ucx_wire_knob(int index) {
  return index == 0 ? &knobs[0] : NULL;
}

static ucx_wire_t *self_of(wire_t *wire) {
  return (ucx_wire_t *)(void *)wire;
}

coll_status_t ucx_fail(const ucx_wire_t *self, ucs_status_t status, const char *what) {
  if (status == UCS_OK) return COLL_OK;
  return base_fail(COLL_ERROR_SYSTEM, "UCX %s: %s", what, self->lib->ucs_status_string(status));
}

void ucx_link_fail(ucx_link_t *link, ucs_status_t status) {
  if (link->closed || link->failed_ns != 0) return;
  link->failure = status;
  link->failed_ns = base_clock_now_ns();
  link->self->has_news = true;
}

/* ---- connecting -----------------------------------------------------------------------------*/

static coll_status_t make_links(ucx_wire_t *self) {
  if (self->links != NULL) return COLL_OK;
  size_t size = (size_t)self->wire.size;
  COLL_TRY(base_alloc(size, sizeof *self->links, "links of UCX", (void **)&self->links));
  for (size_t i = 0; i < size; i++) self->links[i].self = self;
  return COLL_OK;
}

static coll_status_t ucx_connect(wire_t *wire, int peer) {
  const ucx_note_t ask = {.kind = UCX_ASK};
  COLL_TRY(make_links(self_of(wire)));
  return wire->owner_ops->tell(wire, peer, &ask, sizeof ask);
}

static coll_status_t tell_address(ucx_wire_t *self, int peer) {
  char bytes[WIRE_NOTE_BYTES];
  const ucx_note_t note = {.kind = UCX_ADDRESS, .token = self->token};
  memcpy(bytes, &note, sizeof note);
  memcpy(bytes + sizeof note, self->address, self->address_bytes);
  return self->wire.owner_ops->tell(&self->wire, peer, bytes, sizeof note + self->address_bytes);
}

static void on_error(void *arg, ucp_ep_h ep, ucs_status_t status) {
  (void)ep;
  ucx_link_fail(arg, status);
}

static void end_connect(ucx_link_t *link, ucs_status_t status) {
  link->self->requests--;
  link->connected = status == UCS_OK;
  link->self->has_news = true;
  if (status != UCS_OK) ucx_link_fail(link, status);
}

static void on_connected(void *request, ucs_status_t status, void *user_data) {
  ucx_link_t *link = user_data;
  const ucx_lib_t *lib = link->self->lib;
  end_connect(link, status);
  lib->ucp_request_free(request);
}

/* Ends when nothing of what the link was given depends on the progress of this rank. */
static ucs_status_ptr_t flush(ucx_link_t *link, ucp_send_nbx_callback_t ended) {
  const ucp_request_param_t param = {
      .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
      .cb.send = ended,
      .user_data = link};
  link->self->requests++;
  return link->self->lib->ucp_ep_flush_nbx(link->ep, &param);
}

/* UCX sends what it is given before it has connected only when this rank makes progress. The link
 * is therefore not used until a flush says that it has. */
static void await_connection(ucx_link_t *link) {
  ucs_status_ptr_t request = flush(link, on_connected);
  if (!UCS_PTR_IS_PTR(request)) end_connect(link, UCS_PTR_STATUS(request));
}

/* UCX fails an assertion if an endpoint is made for a connection of the peer that has just ended
 * and that UCX is about to forget (1.13: uct_tcp_ep_destroy_progress). It does so when it makes
 * progress, but not in the call that finds the end. */
static void forget_ended(ucx_wire_t *self) {
  while (self->lib->ucp_worker_progress(self->worker) != 0) continue;
  for (int i = 0; i < 3; i++) (void)self->lib->ucp_worker_progress(self->worker);
}

static void reach(ucx_wire_t *self, int peer, const void *address) {
  ucx_link_t *link = &self->links[peer];
  const ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                                                UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                                                UCP_EP_PARAM_FIELD_ERR_HANDLER,
                                  .address = address,
                                  .err_mode = UCP_ERR_HANDLING_MODE_PEER,
                                  .err_handler = {on_error, link}};
  forget_ended(self);
  ucs_status_t status = self->lib->ucp_ep_create(self->worker, &params, &link->ep);
  if (status == UCS_OK) {
    await_connection(link);
  } else {
    link->ep = NULL;
    ucx_link_fail(link, status);
  }
}

static coll_status_t ucx_hear(wire_t *wire, int peer, const void *bytes, size_t count) {
  ucx_wire_t *self = self_of(wire);
  ucx_note_t note;
  COLL_TRY(make_links(self));
  ucx_link_t *link = &self->links[peer];
  if (count < sizeof note) return COLL_ERROR_INVALID;
  memcpy(&note, bytes, sizeof note);
  switch (note.kind) {
    case UCX_ASK: return tell_address(self, peer);
    case UCX_HAVE_LEFT: link->has_left = true; return COLL_OK;
    case UCX_ADDRESS: break;
    default: return COLL_ERROR_INVALID;
  }
  if (link->ep != NULL || count == sizeof note) return COLL_ERROR_INVALID;
  if (link->peer_leaves) return COLL_OK;
  link->token = note.token;
  /* the address is a copy at an aligned place */
  void *address = malloc(count - sizeof note);
  if (address == NULL) return base_fail(COLL_ERROR_MEMORY, "no memory for an address of UCX");
  memcpy(address, (const char *)bytes + sizeof note, count - sizeof note);
  reach(self, peer, address);
  free(address);
  return COLL_OK;
}

/* ---- sending --------------------------------------------------------------------------------*/

/* UCX may read both until the send is complete. It is in memory of the owner, which is held for the
 * next frame: malloc would get long ones from the system each time. */
typedef struct ucx_send {
  ucx_link_t *link;
  wire_message_t *memory;
  ucx_header_t header;
  char payload[];
} ucx_send_t;

static void end_send(ucx_send_t *send, ucs_status_t status) {
  ucx_link_t *link = send->link;
  link->sending--;
  link->self->requests--;
  if (status != UCS_OK) ucx_link_fail(link, status);
  wire_message_release(send->memory);
}

static void on_sent(void *request, ucs_status_t status, void *user_data) {
  ucx_send_t *send = user_data;
  const ucx_lib_t *lib = send->link->self->lib;
  end_send(send, status);
  lib->ucp_request_free(request);
}

static coll_status_t ucx_send(wire_t *wire, int peer, const net_frame_t *frame, const void *payload,
                              bool is_lent) {
  (void)is_lent; /* a copy is sent */
  ucx_wire_t *self = self_of(wire);
  ucx_link_t *link = &self->links[peer];
  if (link->failed_ns != 0) return COLL_OK;
  wire_message_t *memory;
  COLL_TRY(wire->owner_ops->message(wire, sizeof(ucx_send_t) + frame->bytes, &memory));
  ucx_send_t *send = (ucx_send_t *)(void *)memory->data;
  send->link = link;
  send->memory = memory;
  send->header = (ucx_header_t){
      .token = link->token, .from = (uint32_t)wire->rank, .number = link->sent++, .frame = *frame};
  if (frame->bytes > 0) memcpy(send->payload, payload, frame->bytes);
  const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                                                     UCP_OP_ATTR_FIELD_USER_DATA |
                                                     UCP_OP_ATTR_FIELD_MEMORY_TYPE,
                                     .cb.send = on_sent,
                                     .user_data = send,
                                     .memory_type = UCS_MEMORY_TYPE_HOST};
  link->sending++;
  self->requests++;
  if (frame->kind == NET_LEAVE) link->leave_ns = base_clock_now_ns();
  ucs_status_ptr_t request = self->lib->ucp_am_send_nbx(
      link->ep, 0, &send->header, sizeof send->header, send->payload, frame->bytes, &param);
  if (!UCS_PTR_IS_PTR(request)) end_send(send, UCS_PTR_STATUS(request));
  return COLL_OK;
}

static void end_flush(ucx_link_t *link, ucs_status_t status) {
  link->self->requests--;
  link->is_flushing = false;
  if (status == UCS_OK) link->flushed = link->flushing;
  if (status != UCS_OK) ucx_link_fail(link, status);
}

static void on_flushed(void *request, ucs_status_t status, void *user_data) {
  const ucx_lib_t *lib = ((ucx_link_t *)user_data)->self->lib;
  end_flush(user_data, status);
  lib->ucp_request_free(request);
}

static void begin_flush(ucx_link_t *link) {
  link->is_flushing = true;
  link->flushing = link->sent;
  ucs_status_ptr_t request = flush(link, on_flushed);
  if (!UCS_PTR_IS_PTR(request)) end_flush(link, UCS_PTR_STATUS(request));
}

/* UCX over TCP completes sends whose bytes it has only copied, and over UD those that the peer has
 * not confirmed; the end of a flush says that nothing of them is left here. */
static bool ucx_holds(wire_t *wire, int peer, int channel) {
  (void)channel;
  const ucx_wire_t *self = self_of(wire);
  if (self->links == NULL) return false;
  ucx_link_t *link = &self->links[peer];
  if (link->closed || link->failed_ns != 0) return false;
  if (link->sending == 0 && !link->is_flushing && link->flushed != link->sent) begin_flush(link);
  return link->failed_ns == 0 && link->flushed != link->sent;
}

static bool ucx_is_unsent(const wire_t *wire, int peer) {
  const ucx_wire_t *self = (const ucx_wire_t *)(const void *)wire;
  if (self->links == NULL) return false;
  const ucx_link_t *link = &self->links[peer];
  if (link->closed || link->failed_ns != 0) return false;
  if (link->sending > 0 || link->leave_ns == 0) return link->sending > 0;
  return !link->has_left && base_clock_now_ns() - link->leave_ns < LEAVE_NS;
}

/* ---- progress and sleeping ------------------------------------------------------------------*/

static coll_status_t check_connected(ucx_wire_t *self, int peer) {
  ucx_link_t *link = &self->links[peer];
  if (link->closed || !link->connected || link->is_used) return COLL_OK;
  link->is_used = true;
  return self->wire.owner_ops->ready(&self->wire, peer);
}

/* A peer that has failed is looked at again, until its socket says what has become of it, or the
 * time is over. What was never sent by UCX goes on by the socket. */
static void check_failed(ucx_wire_t *self, int peer) {
  ucx_link_t *link = &self->links[peer];
  if (link->closed || link->failed_ns == 0 || link->is_given_up) return;
  self->has_news = true;
  if (base_clock_now_ns() - link->failed_ns < FAILED_NS) return;
  link->is_given_up = true;
  fprintf(stderr,
          "libcoll: rank %d cannot reach rank %d by UCX (see UCX_TLS, UCX_NET_DEVICES): %s%s\n",
          self->wire.rank, peer, self->lib->ucs_status_string(link->failure),
          link->is_used ? "" : "; it sends by TCP");
  if (link->is_used) self->wire.owner_ops->lost(&self->wire, peer, EIO);
}

/* Ends when something has arrived: behind it there is rarely more, and each look is a system call.
 */
static coll_status_t ucx_progress(wire_t *wire, int link) {
  (void)link; /* all share a worker */
  ucx_wire_t *self = self_of(wire);
  while (self->lib->ucp_worker_progress(self->worker) != 0 && !self->has_news) continue;
  if (!self->has_news || self->links == NULL) return COLL_OK;
  self->has_news = false;
  for (int peer = 0; peer < wire->size; peer++) {
    COLL_TRY(check_connected(self, peer));
    COLL_TRY(ucx_recv_deliver(self, peer));
    check_failed(self, peer);
  }
  return COLL_OK;
}

static bool ucx_arm(wire_t *wire) {
  ucx_wire_t *self = self_of(wire);
  return !self->has_news && self->lib->ucp_worker_arm(self->worker) == UCS_OK;
}

/* ---- the end --------------------------------------------------------------------------------*/

static void ucx_disconnect(wire_t *wire, int peer) {
  ucx_wire_t *self = self_of(wire);
  const ucp_request_param_t force = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                     .flags = UCP_EP_CLOSE_FLAG_FORCE};
  if (self->links == NULL) return;
  ucx_link_t *link = &self->links[peer];
  link->closed = true;
  ucx_recv_drop(link);
  if (link->ep == NULL) return;
  ucs_status_ptr_t request = self->lib->ucp_ep_close_nbx(link->ep, &force);
  if (UCS_PTR_IS_PTR(request)) self->lib->ucp_request_free(request); /* once it has ended */
  link->ep = NULL;
}

static void close_worker(ucx_wire_t *self) {
  uint64_t begin_ns = base_clock_now_ns();
  while (self->requests > 0 && base_clock_now_ns() - begin_ns < DRAIN_NS) {
    self->lib->ucp_worker_progress(self->worker);
  }
  if (self->address != NULL) self->lib->ucp_worker_release_address(self->worker, self->address);
  self->lib->ucp_worker_destroy(self->worker);
}

static void ucx_destroy(wire_t *wire) {
  ucx_wire_t *self = self_of(wire);
  for (int peer = 0; peer < wire->size; peer++) ucx_disconnect(wire, peer);
  if (self->worker != NULL) close_worker(self);
  if (self->context != NULL) self->lib->ucp_cleanup(self->context);
  free(self->links);
  free(self);
}

static const wire_ops_t ucx_ops = {
    .name = "ucx",
    .connect = ucx_connect,
    .hear = ucx_hear,
    .send = ucx_send,
    .progress = ucx_progress,
    .arm = ucx_arm,
    .holds = ucx_holds,
    .is_unsent = ucx_is_unsent,
    .disconnect = ucx_disconnect,
    .destroy = ucx_destroy,
};

static coll_status_t make_token(uint64_t *token) {
  base_secret_t secret;
  COLL_TRY(base_secret_create(&secret));
  memcpy(token, secret.bytes, sizeof *token);
  base_secret_wipe(&secret);
  return COLL_OK;
}

static coll_status_t open_worker(ucx_wire_t *self) {
  const ucp_worker_params_t params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                      .thread_mode = UCS_THREAD_MODE_SERIALIZED};
  const ucx_lib_t *lib = self->lib;
  COLL_TRY(ucx_fail(self, lib->ucp_worker_create(self->context, &params, &self->worker),
                    "has no worker"));
  COLL_TRY(ucx_fail(self, lib->ucp_worker_get_efd(self->worker, &self->wire.descriptor),
                    "has nothing to wait for"));
  COLL_TRY(ucx_fail(self,
                    lib->ucp_worker_get_address(self->worker, &self->address, &self->address_bytes),
                    "has no address"));
  if (self->address_bytes > WIRE_NOTE_BYTES - sizeof(ucx_note_t)) {
    return base_fail(COLL_ERROR_SYSTEM,
                     "UCX's address has %zu bytes: limit its devices by UCX_NET_DEVICES",
                     self->address_bytes);
  }
  return ucx_recv_start(self);
}

coll_status_t ucx_wire_open(wire_t **wire) {
  const ucx_lib_t *lib;
  ucx_wire_t *self = NULL;
  COLL_TRY(ucx_lib_load(&knobs[0], &lib));
  COLL_TRY(base_alloc(1, sizeof *self, "a wire", (void **)&self));
  self->wire.ops = &ucx_ops;
  self->lib = lib;
  coll_status_t status = make_token(&self->token);
  if (status == COLL_OK) status = ucx_lib_init(lib, &self->context);
  if (status == COLL_OK) status = open_worker(self);
  if (status != COLL_OK) {
    ucx_destroy(&self->wire);
    return status;
  }
  *wire = &self->wire;
  return COLL_OK;
}
