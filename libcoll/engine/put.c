/* Both ends count the calls without an offer alike, as both know the size of every message. */
#include "engine/put.h"

#include "engine/mismatch.h"

/* A question and an offer that are of no use cost as much as a small message, so after a refusal
 * there is none in this many calls. Few, so that memory that can be mapped is soon used as such. */
#define REFUSED_CALLS 15

static engine_large_t *state_of(const engine_run_t *run, const engine_action_t *action) {
  return &run->large[action->peer.rank];
}

bool engine_put_applies(const engine_world_t *world, const plan_t *plan,
                        const engine_action_t *action) {
  return plan->shape.collective == COLL_GATHERV && action->peer.route->maps &&
         topo_layout_shares_memory(world->layout, world->rank, action->peer.rank);
}

/* Whether both ends know that this call has no offer. Counts the call, so once per call and pair.
 */
static bool is_without_offer(const engine_run_t *run, const engine_action_t *action) {
  engine_view_t *view = &run->world->views[action->peer.rank];
  if (view->refused_calls == 0) return false;
  view->refused_calls--;
  state_of(run, action)->flags |= ENGINE_LARGE_REFUSED;
  return true;
}

static void refuse(const engine_run_t *run, const engine_action_t *action) {
  run->world->views[action->peer.rank].refused_calls = REFUSED_CALLS;
  state_of(run, action)->flags |= ENGINE_LARGE_REFUSED;
}

static coll_status_t check(const engine_run_t *run, const engine_action_t *action,
                           const transport_head_t *head, size_t bytes) {
  const flight_call_t id = engine_message_id(run->call, action);
  if (flight_call_is(head->call, id) && head->bytes == bytes) return COLL_OK;
  return engine_mismatch(run->world, run->call, id, action->peer.rank, head->call);
}

static coll_status_t send(const engine_run_t *run, const engine_action_t *action,
                          const engine_offer_t *offer, bool *done) {
  const engine_peer_t *peer = &action->peer;
  const transport_head_t head = {.call = engine_message_id(run->call, action),
                                 .bytes = offer == NULL ? 0 : sizeof *offer};
  return peer->route->ops->send(peer->port, offer, &head, done);
}

/* ---- the receiver ---------------------------------------------------------------------------*/

coll_status_t engine_put_offer(engine_run_t *run, const engine_action_t *action, bool *done) {
  engine_large_t *state = state_of(run, action);
  const engine_peer_t *peer = &action->peer;
  engine_offer_t offer = {0};
  *done = true;
  if (run->pass.first > 0 || is_without_offer(run, action)) return COLL_OK;
  COLL_TRY(peer->route->ops->address(peer->route, engine_address(run, action->operands),
                                     engine_large_bytes(run->call, action), &offer.address));
  COLL_TRY(send(run, action, &offer, done));
  if (!*done) return COLL_OK;
  state->flags |= ENGINE_LARGE_OFFERED;
  if (offer.address.segment == 0) refuse(run, action);
  return COLL_OK;
}

bool engine_put_is_expected(const engine_run_t *run, const engine_action_t *action) {
  const unsigned char both = ENGINE_LARGE_OFFERED | ENGINE_LARGE_REFUSED;
  return (state_of(run, action)->flags & both) == ENGINE_LARGE_OFFERED;
}

coll_status_t engine_put_asked(engine_run_t *run, const engine_action_t *action, bool *done) {
  engine_large_t *state = state_of(run, action);
  const engine_peer_t *peer = &action->peer;
  transport_head_t head;
  *done = true;
  if ((state->flags & (ENGINE_LARGE_OFFERED | ENGINE_LARGE_ASKED)) != ENGINE_LARGE_OFFERED) {
    return COLL_OK;
  }
  COLL_TRY(peer->route->ops->recv(peer->port, NULL, 0, &head, done));
  if (!*done) return COLL_OK;
  state->flags |= ENGINE_LARGE_ASKED;
  return check(run, action, &head, 0);
}

/* ---- the sender -----------------------------------------------------------------------------*/

static coll_status_t ask(engine_run_t *run, const engine_action_t *action, bool *done) {
  engine_large_t *state = state_of(run, action);
  *done = true;
  if ((state->flags & ENGINE_LARGE_ASKED) != 0) return COLL_OK;
  COLL_TRY(send(run, action, NULL, done));
  if (*done) state->flags |= ENGINE_LARGE_ASKED;
  return COLL_OK;
}

static coll_status_t store_at(engine_run_t *run, const engine_action_t *action,
                              const engine_offer_t *offer) {
  const engine_peer_t *peer = &action->peer;
  size_t bytes = engine_large_bytes(run->call, action);
  void *dst;
  COLL_TRY(peer->route->ops->map(peer->route, peer->rank, &offer->address, &dst));
  if (dst == NULL) {
    return base_fail(COLL_ERROR_SYSTEM, "rank %d: cannot map the buffer in which rank %d receives",
                     run->world->rank, peer->rank);
  }
  state_of(run, action)->flags |= ENGINE_LARGE_STORED;
  return run->world->device->copy(dst, engine_address(run, action->operands), bytes, bytes);
}

/* Takes the offer, and stores the data if it can. */
static coll_status_t take_offer(engine_run_t *run, const engine_action_t *action, bool *done) {
  const engine_peer_t *peer = &action->peer;
  engine_offer_t offer = {0};
  transport_head_t head;
  COLL_TRY(peer->route->ops->recv(peer->port, &offer, sizeof offer, &head, done));
  if (!*done) return COLL_OK;
  COLL_TRY(check(run, action, &head, sizeof offer));
  state_of(run, action)->flags |= ENGINE_LARGE_OFFERED;
  if (offer.address.segment != 0) return store_at(run, action, &offer);
  refuse(run, action);
  return COLL_OK;
}

/* Says that the data is stored. */
static coll_status_t tell(engine_run_t *run, const engine_action_t *action, bool *done) {
  const engine_offer_t stored = {.is_stored = 1};
  COLL_TRY(send(run, action, &stored, done));
  if (*done) state_of(run, action)->flags |= ENGINE_LARGE_SENT | ENGINE_LARGE_READ_BY;
  return COLL_OK;
}

static bool is_begun(const engine_large_t *state) {
  return (state->flags & (ENGINE_LARGE_ASKED | ENGINE_LARGE_REFUSED)) != 0;
}

coll_status_t engine_put_store(engine_run_t *run, const engine_action_t *action, bool *done) {
  engine_large_t *state = state_of(run, action);
  *done = true;
  if (run->pass.first > 0) return COLL_OK;
  if (!is_begun(state) && is_without_offer(run, action)) return COLL_OK;
  if ((state->flags & ENGINE_LARGE_REFUSED) != 0) return COLL_OK;
  COLL_TRY(ask(run, action, done));
  if (*done && (state->flags & ENGINE_LARGE_OFFERED) == 0) COLL_TRY(take_offer(run, action, done));
  if (!*done || (state->flags & ENGINE_LARGE_REFUSED) != 0) return COLL_OK;
  return tell(run, action, done);
}
