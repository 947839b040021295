/* The state of a large message is kept per peer and call, because it lasts for several passes. */
#include "engine/large.h"

#include <string.h>

#include "base/memory.h"
#include "engine/mismatch.h"
#include "engine/pull.h"

/* Flags of run->large[peer]. */
enum {
  SENT = 1,    /* this rank has sent its address */
  READ_BY = 2, /* the peer has read the buffer of this rank */
  READ = 4,    /* this rank has read the peer's buffer, */
  TOLD = 8     /* and has acknowledged it */
};

coll_status_t engine_large_begin(engine_run_t *run) {
  size_t size = (size_t)run->world->size;
  if (run->large == NULL) return base_alloc(size, 1, "large messages", (void **)&run->large);
  memset(run->large, 0, size);
  return COLL_OK;
}

static unsigned char *state_of(const engine_run_t *run, const engine_action_t *action) {
  return &run->large[action->peer.rank];
}

/* Bytes of the whole message, over all passes. */
static size_t bytes_of(const engine_run_t *run, const engine_action_t *action) {
  const engine_call_t *call = run->call;
  size_t elements = engine_call_is_uneven(call) ? action->pair_count : call->count;
  return elements * call->element_bytes;
}

/* ---- the sender -----------------------------------------------------------------------------*/

/* *readable: the peer can read the message's buffer at *address. */
static coll_status_t find_address(const engine_run_t *run, const engine_action_t *action,
                                  transport_address_t *address, bool *readable) {
  transport_t *route = action->peer.route;
  const char *data = engine_address(run, action->operands);
  COLL_TRY(route->ops->address(route, data, bytes_of(run, action), address));
  *readable = topo_layout_shares_memory(run->world->layout, run->world->rank, action->peer.rank);
  if (!*readable || address->segment != 0) return COLL_OK;
  address->offset = (uint64_t)(uintptr_t)data;
  *readable = bytes_of(run, action) >= run->world->large_get_min &&
              route->ops->peer_gets(route, action->peer.rank);
  return COLL_OK;
}

static coll_status_t send_address(engine_run_t *run, const engine_action_t *action,
                                  const transport_address_t *address, bool *done) {
  const engine_peer_t *peer = &action->peer;
  const transport_head_t head = {.call = engine_message_id(run->call, action),
                                 .bytes = sizeof *address};
  COLL_TRY(peer->route->ops->send(peer->port, address, &head, done));
  if (*done) *state_of(run, action) |= SENT;
  return COLL_OK;
}

coll_status_t engine_large_send(engine_run_t *run, const engine_action_t *action, bool *done) {
  transport_address_t address;
  bool readable = false;
  *done = true;
  if ((*state_of(run, action) & SENT) != 0) return COLL_OK;
  if (run->pass.first == 0) COLL_TRY(find_address(run, action, &address, &readable));
  if (readable) return send_address(run, action, &address, done);
  return engine_message_send_pieces(run, action, done);
}

bool engine_large_is_awaited(const engine_run_t *run, const engine_action_t *action) {
  return (*state_of(run, action) & (SENT | READ_BY)) == SENT;
}

coll_status_t engine_large_await(engine_run_t *run, const engine_action_t *action, bool *done) {
  const engine_peer_t *peer = &action->peer;
  flight_call_t found = {0};
  *done = true;
  if (!engine_large_is_awaited(run, action)) return COLL_OK;
  COLL_TRY(peer->route->ops->wait(peer->port, &found, done));
  if (!*done) return COLL_OK;
  *state_of(run, action) |= READ_BY;
  if (flight_call_is(found, run->call->id)) return COLL_OK;
  return engine_mismatch(run->world, run->call, run->call->id, peer->rank, found);
}

/* ---- the receiver ---------------------------------------------------------------------------*/

static bool is_address(const engine_action_t *action, const transport_head_t *head) {
  return head->bytes == sizeof(transport_address_t) && head->bytes != action->bytes;
}

/* Receives the next message if it is an address; else leaves it, or has received the data of this
 * pass. */
static coll_status_t receive(engine_run_t *run, const engine_action_t *action,
                             transport_address_t *address, bool *got_address, bool *done) {
  const engine_peer_t *peer = &action->peer;
  const transport_ops_t *ops = peer->route->ops;
  transport_head_t head;
  const void *data = engine_address(run, action->operands);
  if (peer->route->peeks) {
    COLL_TRY(ops->peek(peer->port, &data, &head, done));
  } else {
    COLL_TRY(
        ops->recv(peer->port, engine_address(run, action->operands), action->bytes, &head, done));
  }
  if (!*done) return COLL_OK;
  *got_address = is_address(action, &head);
  if (!*got_address) {
    return peer->route->peeks ? engine_message_recv_fetch(run, action, done)
                              : engine_message_check(run, action, peer, &head);
  }
  memcpy(address, data, sizeof *address);
  if (peer->route->peeks) COLL_TRY(ops->take(peer->port));
  flight_call_t id = engine_message_id(run->call, action);
  if (flight_call_is(head.call, id)) return COLL_OK;
  return engine_mismatch(run->world, run->call, id, peer->rank, head.call);
}

static coll_status_t read_mapped(const engine_run_t *run, const engine_action_t *action,
                                 const transport_address_t *address) {
  const engine_peer_t *peer = &action->peer;
  size_t bytes = bytes_of(run, action);
  void *src;
  COLL_TRY(peer->route->ops->map(peer->route, peer->rank, address, &src));
  if (src != NULL) {
    return run->world->device->copy(engine_address(run, action->operands), src, bytes, bytes);
  }
  return base_fail(COLL_ERROR_SYSTEM, "rank %d: cannot map the buffer that rank %d sends",
                   run->world->rank, peer->rank);
}

static coll_status_t read_buffer(const engine_run_t *run, const engine_action_t *action,
                                 const transport_address_t *address, bool *done) {
  if (address->segment != 0) return read_mapped(run, action, address);
  return engine_pull_get(&action->peer, engine_address(run, action->operands), address->offset,
                         bytes_of(run, action), done);
}

coll_status_t engine_large_recv(engine_run_t *run, const engine_action_t *action, bool *done) {
  unsigned char *state = state_of(run, action);
  const engine_peer_t *peer = &action->peer;
  *done = true;
  if ((*state & READ) == 0) {
    transport_address_t address;
    bool got_address = false;
    COLL_TRY(receive(run, action, &address, &got_address, done));
    if (!*done || !got_address) return COLL_OK;
    COLL_TRY(read_buffer(run, action, &address, done));
    if (!*done) return COLL_OK;
    *state |= READ;
  }
  if ((*state & TOLD) != 0) return COLL_OK;
  COLL_TRY(peer->route->ops->signal(peer->port, &run->call->id, done));
  if (*done) *state |= TOLD;
  return COLL_OK;
}
