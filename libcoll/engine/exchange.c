/* Sends a small message to every peer and receives one from each. The message is multicast where
 * there are several peers and the transport supports it, else it is sent on the first lane's
 * channel. */
#include "engine/exchange.h"

#include <string.h>

#include "engine/mismatch.h"

/* Small enough to fit the cache line of the message's flag. */
typedef struct address_message {
  transport_address_t input, output; /* without a segment: the offset is the rank's own address */
  uint32_t mapped, gets;
} address_message_t;

static int peer_at(const engine_world_t *world, int distance) {
  return (world->rank + distance) % world->size;
}

/* The port of address messages that are not multicast. */
static transport_port_t *port_to(const engine_exchange_t *exchange, int peer) {
  transport_t *route = exchange->world->routes[peer];
  return route->ops->port(route, peer, exchange->call.channel);
}

/* For a single peer a plain message costs less, as in plans. */
static bool is_multicast(const engine_world_t *world) {
  return world->size > 2 && world->room.mcast_bytes >= sizeof(address_message_t);
}

static coll_status_t own_address(const engine_world_t *world, const void *ptr, size_t bytes,
                                 transport_address_t *address, bool *mapped) {
  *address = (transport_address_t){0};
  if (bytes == 0 || world->size == 1) return COLL_OK;
  transport_t *route = world->routes[peer_at(world, 1)];
  COLL_TRY(route->ops->address(route, ptr, bytes, address));
  if (address->segment != 0) return COLL_OK;
  address->offset = (uint64_t)(uintptr_t)ptr;
  *mapped = false;
  return COLL_OK;
}

coll_status_t engine_exchange_begin(engine_exchange_t *exchange, engine_world_t *world,
                                    const engine_call_t *call, size_t input_bytes,
                                    size_t output_bytes) {
  *exchange = (engine_exchange_t){.world = world, .call = *call, .own_mapped = true};
  COLL_TRY(own_address(world, call->input, input_bytes, &exchange->input, &exchange->own_mapped));
  /* peers do not know where the blocks of an output with gaps are */
  size_t shown_bytes = call->has_gaps ? 0 : output_bytes;
  COLL_TRY(own_address(world, call->output, shown_bytes, &exchange->output, &exchange->own_mapped));
  exchange->own_mapped = exchange->own_mapped && !call->has_gaps;
  exchange->mapped = exchange->own_mapped;
  exchange->gets = world->gets;
  return COLL_OK;
}

static coll_status_t mcast_addresses(engine_exchange_t *exchange, const address_message_t *message,
                                     bool *moved) {
  transport_t *route = exchange->world->routes[peer_at(exchange->world, 1)];
  transport_head_t head = {.call = exchange->call.id, .bytes = sizeof *message};
  bool multicast;
  COLL_TRY(route->ops->mcast_send(route, message, &head, &multicast));
  if (!multicast) return COLL_OK;
  exchange->sent = exchange->world->size - 1;
  *moved = true;
  return COLL_OK;
}

static coll_status_t send_addresses(engine_exchange_t *exchange, const address_message_t *message,
                                    bool *moved) {
  engine_world_t *world = exchange->world;
  if (is_multicast(world)) {
    return exchange->sent == 0 ? mcast_addresses(exchange, message, moved) : COLL_OK;
  }
  while (exchange->sent < world->size - 1) {
    int peer = peer_at(world, exchange->sent + 1);
    transport_t *route = world->routes[peer];
    transport_head_t head = {.call = exchange->call.id, .bytes = sizeof *message};
    bool sent;
    COLL_TRY(route->ops->send(port_to(exchange, peer), message, &head, &sent));
    if (!sent) return COLL_OK;
    exchange->sent++;
    *moved = true;
  }
  return COLL_OK;
}

/* Maps a buffer of the peer, or notes its address for get, or NULL if the peer has none. It is
 * called even if the exchange has failed for another buffer, because address resources that the
 * peer has handed over must be taken. A peer that needs nothing more from this rank may have
 * finished the call and freed its buffer before this rank maps it. Then no step of this rank
 * accesses the buffer, so a failed mapping is ignored here, and a step that needs the buffer
 * reports it. */
static coll_status_t map_buffer(engine_world_t *world, int peer, plan_buffer_t buffer,
                                const transport_address_t *address) {
  engine_view_t *view = &world->views[peer];
  void *ptr = (void *)(uintptr_t)address->offset;
  view->is_remote[buffer] = address->segment == 0;
  if (address->segment != 0) {
    transport_t *route = world->routes[peer];
    COLL_TRY(route->ops->map(route, peer, address, &ptr));
  }
  view->buffers[buffer] = ptr;
  return COLL_OK;
}

/* Receives the peer's address message if it has arrived. */
static coll_status_t receive_message(const engine_exchange_t *exchange, int peer,
                                     address_message_t *message, transport_head_t *head,
                                     bool *got) {
  transport_t *route = exchange->world->routes[peer];
  const void *sent_message;
  if (!is_multicast(exchange->world)) {
    return route->ops->recv(port_to(exchange, peer), message, sizeof *message, head, got);
  }
  COLL_TRY(route->ops->mcast_peek(route, peer, &sent_message, head, got));
  if (!*got) return COLL_OK;
  memcpy(message, sent_message, head->bytes < sizeof *message ? head->bytes : sizeof *message);
  return route->ops->mcast_take(route, peer);
}

static coll_status_t receive_addresses(engine_exchange_t *exchange, bool *moved) {
  engine_world_t *world = exchange->world;
  int peer = peer_at(world, world->size - 1 - exchange->received);
  address_message_t message = {0};
  transport_head_t head;
  bool got;
  COLL_TRY(receive_message(exchange, peer, &message, &head, &got));
  if (!got) return COLL_OK;
  if (!flight_call_is(head.call, exchange->call.id) || head.bytes != sizeof message) {
    return engine_mismatch(world, &exchange->call, exchange->call.id, peer, head.call);
  }
  exchange->mapped = exchange->mapped && message.mapped != 0;
  exchange->gets = exchange->gets && message.gets != 0;
  COLL_TRY(map_buffer(world, peer, PLAN_INPUT, &message.input));
  COLL_TRY(map_buffer(world, peer, PLAN_OUTPUT, &message.output));
  exchange->received++;
  *moved = true;
  return COLL_OK;
}

coll_status_t engine_exchange_advance(engine_exchange_t *exchange, bool *moved, bool *done,
                                      plan_reach_t *reach) {
  int others = exchange->world->size - 1;
  address_message_t message = {.input = exchange->input,
                               .output = exchange->output,
                               .mapped = exchange->own_mapped,
                               .gets = exchange->world->gets};
  *moved = false;
  COLL_TRY(send_addresses(exchange, &message, moved));
  bool took = true;
  while (exchange->received < others && took) {
    took = false;
    COLL_TRY(receive_addresses(exchange, &took));
    *moved = *moved || took;
  }
  *done = exchange->sent == others && exchange->received == others;
  *reach = exchange->mapped ? PLAN_REACH_USER
           : exchange->gets ? PLAN_REACH_READ
                            : PLAN_REACH_SCRATCH;
  return COLL_OK;
}

uint64_t engine_exchange_missing(const engine_exchange_t *exchange) {
  const engine_world_t *world = exchange->world;
  uint64_t missing = 0;
  for (int i = exchange->received; i < world->size - 1; i++) {
    int peer = peer_at(world, world->size - 1 - i);
    transport_t *route = world->routes[peer];
    transport_head_t head;
    const void *message;
    bool here = false;
    if (is_multicast(world)) {
      route->ops->mcast_peek(route, peer, &message, &head, &here);
    } else if (route->peeks) {
      route->ops->peek(port_to(exchange, peer), &message, &head, &here);
    }
    if (!here) missing |= UINT64_C(1) << peer % 64;
  }
  return missing;
}

void engine_exchange_waits_for(const engine_exchange_t *exchange, base_ranks_t *ranks) {
  const engine_world_t *world = exchange->world;
  if (exchange->received < world->size - 1) {
    base_ranks_add(ranks, peer_at(world, world->size - 1 - exchange->received));
  } else if (is_multicast(world)) {
    base_ranks_add_all_but(ranks, world->rank);
  } else {
    base_ranks_add(ranks, peer_at(world, exchange->sent + 1));
  }
}
