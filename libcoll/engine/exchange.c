/* A small message to every peer and one from each: a post where there are several peers and the
 * transport carries posts, else on the first lane's channel. */
#include "engine/exchange.h"

#include <string.h>

#include "engine/mismatch.h"

/* Small enough to travel in the cache line of its flag. */
typedef struct offer {
  transport_address_t input, output;
  uint64_t mappable;
} offer_t;

static int peer_at(const engine_world_t *world, int distance) {
  return (world->rank + distance) % world->size;
}

/* Where offers go that are no posts. */
static transport_port_t *port_to(const engine_exchange_t *shake, int peer) {
  transport_t *route = shake->world->routes[peer];
  return route->ops->port(route, peer, shake->call.channel);
}

/* A single peer is better told by a message, here as in plans. */
static bool is_multicast(const engine_world_t *world) {
  return world->size > 2 && world->room.mcast_bytes >= sizeof(offer_t);
}

static coll_status_t own_address(const engine_world_t *world, const void *ptr, size_t bytes,
                                 transport_address_t *address, bool *mappable) {
  *address = (transport_address_t){0};
  if (bytes == 0 || world->size == 1) return COLL_OK;
  transport_t *route = world->routes[peer_at(world, 1)];
  COLL_TRY(route->ops->address(route, ptr, bytes, address));
  if (address->segment == 0) *mappable = false;
  return COLL_OK;
}

coll_status_t engine_exchange_begin(engine_exchange_t *shake, engine_world_t *world,
                                    const engine_call_t *call, size_t input_bytes,
                                    size_t output_bytes) {
  *shake = (engine_exchange_t){.world = world, .call = *call, .own_mappable = true};
  COLL_TRY(own_address(world, call->input, input_bytes, &shake->input, &shake->own_mappable));
  COLL_TRY(own_address(world, call->output, output_bytes, &shake->output, &shake->own_mappable));
  shake->mappable = shake->own_mappable;
  return COLL_OK;
}

static coll_status_t mcast_offer(engine_exchange_t *shake, const offer_t *offer, bool *moved) {
  transport_t *route = shake->world->routes[peer_at(shake->world, 1)];
  transport_head_t head = {.call = shake->call.id, .bytes = sizeof *offer};
  bool multicast;
  COLL_TRY(route->ops->mcast_send(route, offer, &head, &multicast));
  if (!multicast) return COLL_OK;
  shake->sent = shake->world->size - 1;
  *moved = true;
  return COLL_OK;
}

static coll_status_t send_offers(engine_exchange_t *shake, const offer_t *offer, bool *moved) {
  engine_world_t *world = shake->world;
  if (is_multicast(world)) {
    return shake->sent == 0 ? mcast_offer(shake, offer, moved) : COLL_OK;
  }
  while (shake->sent < world->size - 1) {
    int peer = peer_at(world, shake->sent + 1);
    transport_t *route = world->routes[peer];
    transport_head_t head = {.call = shake->call.id, .bytes = sizeof *offer};
    bool sent;
    COLL_TRY(route->ops->send(port_to(shake, peer), offer, &head, &sent));
    if (!sent) return COLL_OK;
    shake->sent++;
    *moved = true;
  }
  return COLL_OK;
}

/* Also where the meeting fails for another buffer's sake: what the peer has handed over is taken,
 * or it would pile up on the way. A peer that needs nothing more from this rank may have finished
 * the call and freed its buffer before this rank gets to map it. Then no step of this rank touches
 * it either, so a buffer that is gone is left out here, and a step that does want it says so. */
static coll_status_t map_buffer(engine_world_t *world, int peer, plan_buffer_t buffer,
                                const transport_address_t *address) {
  void *ptr = NULL;
  if (address->segment != 0) {
    transport_t *route = world->routes[peer];
    COLL_TRY(route->ops->map(route, peer, address, &ptr));
  }
  world->views[peer].buffers[buffer] = ptr;
  return COLL_OK;
}

/* The peer's offer, once it is there. */
static coll_status_t get_offer(const engine_exchange_t *shake, int peer, offer_t *offer,
                               transport_head_t *head, bool *got) {
  transport_t *route = shake->world->routes[peer];
  const void *post;
  if (!is_multicast(shake->world)) {
    return route->ops->recv(port_to(shake, peer), offer, sizeof *offer, head, got);
  }
  COLL_TRY(route->ops->mcast_peek(route, peer, &post, head, got));
  if (!*got) return COLL_OK;
  memcpy(offer, post, head->bytes < sizeof *offer ? head->bytes : sizeof *offer);
  return route->ops->mcast_take(route, peer);
}

static coll_status_t take_offer(engine_exchange_t *shake, bool *moved) {
  engine_world_t *world = shake->world;
  int peer = peer_at(world, world->size - 1 - shake->received);
  offer_t offer = {0};
  transport_head_t head;
  bool got;
  COLL_TRY(get_offer(shake, peer, &offer, &head, &got));
  if (!got) return COLL_OK;
  if (!flight_call_is(head.call, shake->call.id) || head.bytes != sizeof offer) {
    return engine_mismatch(world, &shake->call, shake->call.id, peer, head.call);
  }
  if (offer.mappable == 0) shake->mappable = false;
  COLL_TRY(map_buffer(world, peer, PLAN_INPUT, &offer.input));
  COLL_TRY(map_buffer(world, peer, PLAN_OUTPUT, &offer.output));
  shake->received++;
  *moved = true;
  return COLL_OK;
}

coll_status_t engine_exchange_advance(engine_exchange_t *shake, bool *moved, bool *done,
                                      bool *mappable) {
  int others = shake->world->size - 1;
  offer_t offer = {.input = shake->input, .output = shake->output, .mappable = shake->own_mappable};
  *moved = false;
  COLL_TRY(send_offers(shake, &offer, moved));
  bool took = true;
  while (shake->received < others && took) {
    took = false;
    COLL_TRY(take_offer(shake, &took));
    *moved = *moved || took;
  }
  *done = shake->sent == others && shake->received == others;
  *mappable = shake->mappable;
  return COLL_OK;
}

uint64_t engine_exchange_missing(const engine_exchange_t *shake) {
  const engine_world_t *world = shake->world;
  uint64_t missing = 0;
  for (int i = shake->received; i < world->size - 1; i++) {
    int peer = peer_at(world, world->size - 1 - i);
    transport_t *route = world->routes[peer];
    transport_head_t head;
    const void *message;
    bool here = false;
    if (is_multicast(world)) {
      route->ops->mcast_peek(route, peer, &message, &head, &here);
    } else if (route->peeks) {
      route->ops->peek(port_to(shake, peer), &message, &head, &here);
    }
    if (!here) missing |= UINT64_C(1) << peer % 64;
  }
  return missing;
}

void engine_exchange_waits_for(const engine_exchange_t *shake, base_ranks_t *ranks) {
  const engine_world_t *world = shake->world;
  if (shake->received < world->size - 1) {
    base_ranks_add(ranks, peer_at(world, world->size - 1 - shake->received));
  } else if (is_multicast(world)) {
    base_ranks_add_all_but(ranks, world->rank);
  } else {
    base_ranks_add(ranks, peer_at(world, shake->sent + 1));
  }
}
