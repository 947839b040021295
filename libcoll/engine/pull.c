/* Operands of a reduction occupy one block of the buffer each, in the order of the action's
 * sources. Sources that are mapped leave their block unused. */
#include "engine/pull.h"

#include <stdatomic.h>

#include "base/alloc.h"

#define BUFFER_BYTES ((size_t)256 << 10) /* a part of the smallest second-level caches */
#define BLOCK_BYTES_MAX ((size_t)64 << 10)
#define BLOCK_BYTES_MIN                                                     \
  ((size_t)4 << 10) /* a page: less costs a system call for hardly any data \
                     */

static const engine_base_t *base_of(const engine_run_t *run, const engine_operand_t *operand) {
  return &run->bound.bases[operand->base];
}

static coll_status_t get(const engine_run_t *run, const engine_operand_t *source, size_t offset,
                         char *dst, size_t bytes, bool *done) {
  int peer = base_of(run, source)->rank;
  transport_t *route = run->world->routes[peer];
  uint64_t address = (uint64_t)(uintptr_t)engine_address(run, source) + offset;
  return route->ops->get(route, peer, dst, address, bytes, done);
}

bool engine_pull_is_here(transport_t *route, int peer) {
  /* the reads come before the checks below */
  atomic_thread_fence(memory_order_acquire);
  /* acquire: pairs with the release of a rank that aborts, before it returns from its call */
  if (atomic_load_explicit(route->abort_word, memory_order_acquire) != 0) return false;
  return route->ops->peer_state(route, peer) == TRANSPORT_PEER_HERE;
}

static bool is_confirmed(const engine_run_t *run, const engine_action_t *action) {
  for (int i = action->dst_count; i < action->operand_count; i++) {
    const engine_base_t *base = base_of(run, &action->operands[i]);
    if (base->is_remote && !engine_pull_is_here(run->world->routes[base->rank], base->rank))
      return false;
  }
  return true;
}

/* A read that failed because the peer has left the call is not the failure to report. */
static coll_status_t confirm(const engine_run_t *run, const engine_action_t *action,
                             coll_status_t status, bool *done) {
  *done = *done && is_confirmed(run, action);
  return *done ? status : COLL_OK;
}

coll_status_t engine_pull_get(const engine_peer_t *peer, void *dst, uint64_t address, size_t bytes,
                              bool *done) {
  transport_t *route = peer->route;
  *done = true;
  coll_status_t status = route->ops->get(route, peer->rank, dst, address, bytes, done);
  *done = *done && engine_pull_is_here(route, peer->rank);
  return *done ? status : COLL_OK;
}

coll_status_t engine_pull_copy(const engine_run_t *run, const engine_action_t *action, bool *done) {
  const engine_operand_t *source = &action->operands[1];
  *done = true;
  if (!base_of(run, source)->is_remote) return engine_compute_copy(run, action);
  coll_status_t status =
      get(run, source, 0, engine_address(run, &action->operands[0]), action->bytes, done);
  return confirm(run, action, status, done);
}

/* ---- reductions -----------------------------------------------------------------------------*/

static bool has_remote_source(const engine_run_t *run, const engine_action_t *action) {
  for (int i = action->dst_count; i < action->operand_count; i++) {
    if (base_of(run, &action->operands[i])->is_remote) return true;
  }
  return false;
}

/* The size of a block, so that all sources of the reduction fit the buffer. */
static size_t block_bytes(const engine_action_t *action) {
  size_t sources = (size_t)(action->operand_count - action->dst_count);
  size_t bytes = BUFFER_BYTES / sources / BLOCK_BYTES_MIN * BLOCK_BYTES_MIN;
  if (bytes < BLOCK_BYTES_MIN) bytes = BLOCK_BYTES_MIN;
  return bytes < BLOCK_BYTES_MAX ? bytes : BLOCK_BYTES_MAX;
}

coll_status_t engine_pull_prepare(engine_bound_t *bound) {
  size_t needed = 0;
  for (size_t i = 0; i < bound->action_count; i++) {
    const engine_action_t *action = &bound->actions[i];
    if (action->kind != ENGINE_PULL_REDUCE) continue;
    size_t sources = (size_t)(action->operand_count - action->dst_count);
    if (sources * block_bytes(action) > needed) needed = sources * block_bytes(action);
  }
  return base_grow((void **)&bound->pulled, &bound->pulled_bytes, needed, 1,
                   "operands of a reduction");
}

/* Reduces [offset, offset + bytes) of the operands. */
static coll_status_t reduce_block(const engine_run_t *run, const engine_action_t *action,
                                  size_t offset, size_t bytes, bool *done) {
  const void *sources[DEVICE_SOURCES_MAX];
  int count = action->operand_count - action->dst_count;
  for (int i = 0; i < count; i++) {
    const engine_operand_t *source = &action->operands[action->dst_count + i];
    sources[i] = engine_address(run, source) + offset;
    if (!base_of(run, source)->is_remote) continue;
    char *block = run->bound.pulled + (size_t)i * block_bytes(action);
    COLL_TRY(get(run, source, offset, block, bytes, done));
    if (!*done) return COLL_OK;
    sources[i] = block;
  }
  void *dst = engine_address(run, &action->operands[0]) + offset;
  return run->world->device->reduce(&dst, 1, action->cached_dsts, sources, count,
                                    bytes / run->call->element_bytes, run->call->dtype,
                                    run->call->op, action->nontemporal_hint);
}

coll_status_t engine_pull_reduce(const engine_run_t *run, const engine_action_t *action,
                                 bool *done) {
  *done = true;
  if (!has_remote_source(run, action)) return engine_compute_reduce(run, action);
  size_t most = block_bytes(action);
  coll_status_t status = COLL_OK;
  for (size_t offset = 0; offset < action->bytes && *done && status == COLL_OK; offset += most) {
    size_t left = action->bytes - offset;
    status = reduce_block(run, action, offset, left < most ? left : most, done);
  }
  return confirm(run, action, status, done);
}

void engine_pull_waits_for(const engine_run_t *run, const engine_action_t *action,
                           base_ranks_t *ranks) {
  for (int i = action->dst_count; i < action->operand_count; i++) {
    const engine_base_t *base = base_of(run, &action->operands[i]);
    if (base->is_remote) base_ranks_add(ranks, base->rank);
  }
}
