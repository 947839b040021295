/* The state of a large message is kept per peer and call, because it lasts for several passes. */
#include "engine/large.h"

#include <string.h>

#include "base/alloc.h"
#include "engine/mismatch.h"
#include "engine/pull.h"
#include "engine/put.h"

coll_status_t engine_large_begin(engine_run_t *run) {
  size_t size = (size_t)run->world->size;
  if (run->large == NULL) {
    return base_alloc(size, sizeof *run->large, "large messages", (void **)&run->large);
  }
  memset(run->large, 0, size * sizeof *run->large);
  return COLL_OK;
}

static const transport_fetch_ops_t *fetch_ops_of(const transport_port_t *port) {
  return port->transport->ops->fetch;
}

static void withdraw(engine_large_t *state, bool is_fetched) {
  if (state->exposed == NULL) return;
  fetch_ops_of(state->exposed)->withdraw(state->exposed, &state->exposure, is_fetched);
  state->exposed = NULL;
}

void engine_large_stop(engine_run_t *run) {
  for (int peer = 0; run->large != NULL && peer < run->world->size; peer++) {
    engine_large_t *state = &run->large[peer];
    if (state->fetch != NULL) fetch_ops_of(state->fetch->port)->stop(state->fetch);
    state->fetch = NULL;
    withdraw(state, false);
  }
}

static engine_large_t *state_of(const engine_run_t *run, const engine_action_t *action) {
  return &run->large[action->peer.rank];
}

size_t engine_large_bytes(const engine_call_t *call, const engine_action_t *action) {
  size_t elements = engine_call_is_by_pair(call) ? action->pair_count : call->count;
  return elements * call->element_bytes;
}

bool engine_large_is_later(const engine_run_t *run, const engine_action_t *action) {
  size_t end = run->pass.first + run->pass.count;
  return end * run->call->element_bytes < engine_large_bytes(run->call, action);
}

static size_t bytes_of(const engine_run_t *run, const engine_action_t *action) {
  return engine_large_bytes(run->call, action);
}

/* ---- the sender -----------------------------------------------------------------------------*/

/* *readable: the peer, which shares memory with this rank, can read the message's buffer. */
static coll_status_t find_address(const engine_run_t *run, const engine_action_t *action,
                                  engine_offer_t *offer, bool *readable) {
  transport_t *route = action->peer.route;
  const char *data = engine_address(run, action->operands);
  size_t bytes = bytes_of(run, action);
  COLL_TRY(route->ops->address(route, data, bytes, &offer->address));
  *readable = true;
  if (offer->address.segment != 0) return COLL_OK;
  offer->address.offset = (uint64_t)(uintptr_t)data;
  *readable = bytes > ENGINE_LARGE_BYTES_MIN && bytes >= run->world->large_get_min &&
              route->ops->peer_gets(route, action->peer.rank);
  return COLL_OK;
}

/* The same of a peer on another host. What was exposed in an earlier try stays so. */
static coll_status_t expose(const engine_run_t *run, const engine_action_t *action,
                            engine_offer_t *offer, bool *readable) {
  engine_large_t *state = state_of(run, action);
  transport_port_t *port = action->peer.port;
  *readable = state->exposed != NULL;
  if (!*readable && bytes_of(run, action) > ENGINE_LARGE_BYTES_MIN) {
    COLL_TRY(fetch_ops_of(port)->expose(port, engine_address(run, action->operands),
                                        bytes_of(run, action), &state->exposure, readable));
  }
  if (*readable) state->exposed = port;
  offer->exposure = state->exposure;
  offer->is_exposed = *readable;
  return COLL_OK;
}

static coll_status_t make_offer(const engine_run_t *run, const engine_action_t *action,
                                engine_offer_t *offer, bool *readable) {
  bool shares = topo_layout_shares_memory(run->world->layout, run->world->rank, action->peer.rank);
  return shares ? find_address(run, action, offer, readable) : expose(run, action, offer, readable);
}

static coll_status_t send_offer(engine_run_t *run, const engine_action_t *action,
                                const engine_offer_t *offer, bool *done) {
  const engine_peer_t *peer = &action->peer;
  const transport_head_t head = {.call = engine_message_id(run->call, action),
                                 .bytes = sizeof *offer};
  COLL_TRY(peer->route->ops->send(peer->port, offer, &head, done));
  if (*done) state_of(run, action)->flags |= ENGINE_LARGE_SENT;
  return COLL_OK;
}

coll_status_t engine_large_send(engine_run_t *run, const engine_action_t *action, bool *done) {
  engine_offer_t offer = {0};
  bool readable = false;
  *done = true;
  if ((state_of(run, action)->flags & ENGINE_LARGE_SENT) != 0) return COLL_OK;
  if (run->pass.first == 0) COLL_TRY(make_offer(run, action, &offer, &readable));
  if (readable) return send_offer(run, action, &offer, done);
  return engine_message_send_pieces(run, action, done);
}

bool engine_large_is_awaited(const engine_run_t *run, const engine_action_t *action) {
  return (state_of(run, action)->flags & (ENGINE_LARGE_SENT | ENGINE_LARGE_READ_BY)) ==
         ENGINE_LARGE_SENT;
}

coll_status_t engine_large_await(engine_run_t *run, const engine_action_t *action, bool *done) {
  const engine_peer_t *peer = &action->peer;
  flight_call_t found = {0};
  *done = true;
  if (!engine_large_is_awaited(run, action) || engine_large_is_later(run, action)) return COLL_OK;
  COLL_TRY(peer->route->ops->wait(peer->port, &found, done));
  if (!*done) return COLL_OK;
  state_of(run, action)->flags |= ENGINE_LARGE_READ_BY;
  withdraw(state_of(run, action), true);
  flight_call_t id = engine_message_id(run->call, action);
  if (flight_call_is(found, id)) return COLL_OK;
  return engine_mismatch(run->world, run->call, id, peer->rank, found);
}

/* ---- the receiver ---------------------------------------------------------------------------*/

static bool is_offer(const engine_action_t *action, const transport_head_t *head) {
  return head->bytes == sizeof(engine_offer_t) && head->bytes != action->bytes;
}

/* Receives the next message if it is an offer; else has received the data of this pass. */
static coll_status_t receive(engine_run_t *run, const engine_action_t *action,
                             engine_offer_t *offer, bool *got_offer, bool *done) {
  const engine_peer_t *peer = &action->peer;
  const transport_ops_t *ops = peer->route->ops;
  transport_head_t head;
  const void *data = engine_address(run, action->operands);
  bool fetches = engine_message_fetches(peer, action->bytes);
  if (fetches) {
    COLL_TRY(ops->peek(peer->port, &data, &head, done));
  } else {
    COLL_TRY(ops->recv_post(peer->port, engine_address(run, action->operands), action->bytes, &head,
                            done));
  }
  if (!*done) return COLL_OK;
  *got_offer = is_offer(action, &head);
  if (!*got_offer) {
    return fetches ? engine_message_recv_fetch(run, action, done)
                   : engine_message_check(run, action, peer, &head);
  }
  memcpy(offer, data, sizeof *offer);
  if (fetches) COLL_TRY(ops->take(peer->port));
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

static coll_status_t advance_fetch(engine_large_t *state, const engine_peer_t *peer, bool *done) {
  COLL_TRY(fetch_ops_of(peer->port)->advance(state->fetch, done));
  if (*done) state->fetch = NULL;
  *done = *done && engine_pull_is_here(peer->route, peer->rank);
  return COLL_OK;
}

static coll_status_t begin_fetch(engine_run_t *run, const engine_action_t *action,
                                 const transport_exposure_t *exposure, bool *done) {
  engine_large_t *state = state_of(run, action);
  transport_port_t *port = action->peer.port;
  COLL_TRY(fetch_ops_of(port)->begin(port, exposure, engine_address(run, action->operands),
                                     bytes_of(run, action), &state->fetch));
  return advance_fetch(state, &action->peer, done);
}

static coll_status_t read_buffer(engine_run_t *run, const engine_action_t *action,
                                 const engine_offer_t *offer, bool *done) {
  if (offer->is_exposed) return begin_fetch(run, action, &offer->exposure, done);
  if (offer->address.segment != 0) return read_mapped(run, action, &offer->address);
  return engine_pull_get(&action->peer, engine_address(run, action->operands),
                         offer->address.offset, bytes_of(run, action), done);
}

/* *done: the peer's buffer was read, or the peer has stored or sent (*got_data) its data. */
static coll_status_t read(engine_run_t *run, const engine_action_t *action, bool *got_data,
                          bool *done) {
  engine_large_t *state = state_of(run, action);
  engine_offer_t offer;
  bool got_offer = false;
  *got_data = false;
  if (state->fetch != NULL) return advance_fetch(state, &action->peer, done);
  COLL_TRY(engine_put_asked(run, action, done));
  if (!*done) return COLL_OK;
  COLL_TRY(receive(run, action, &offer, &got_offer, done));
  *got_data = *done && !got_offer;
  if (!got_offer) return COLL_OK;
  if (!offer.is_stored) return read_buffer(run, action, &offer, done);
  state->flags |= ENGINE_LARGE_TOLD;
  return COLL_OK;
}

coll_status_t engine_large_recv(engine_run_t *run, const engine_action_t *action, bool *done) {
  engine_large_t *state = state_of(run, action);
  const engine_peer_t *peer = &action->peer;
  *done = true;
  if (engine_put_is_expected(run, action) && engine_large_is_later(run, action)) return COLL_OK;
  if ((state->flags & ENGINE_LARGE_READ) == 0) {
    bool got_data;
    COLL_TRY(read(run, action, &got_data, done));
    if (!*done || got_data) return COLL_OK;
    state->flags |= ENGINE_LARGE_READ;
  }
  if ((state->flags & ENGINE_LARGE_TOLD) != 0) return COLL_OK;
  const flight_call_t id = engine_message_id(run->call, action);
  COLL_TRY(peer->route->ops->signal(peer->port, &id, done));
  if (*done) state->flags |= ENGINE_LARGE_TOLD;
  return COLL_OK;
}
