/*
 * Helper functions for the builders.
 */
#include "algo/common.h"

#include <assert.h>
#include <stdlib.h>

#include "base/alloc.h"

int32_t algo_power_below(int32_t size) {
  int32_t power = 1;
  while (power <= size / 2) power *= 2;
  return power;
}

int32_t algo_mod(int32_t value, int32_t size) {
  int32_t rest = value % size;
  return rest < 0 ? rest + size : rest;
}

int algo_wrap(int32_t first, int32_t count, int32_t size, algo_run_t runs[2]) {
  assert(count >= 0 && count <= size);
  if (count == 0) return 0;
  int32_t start = algo_mod(first, size);
  int32_t before_end = size - start;
  if (count <= before_end) {
    runs[0] = (algo_run_t){start, count};
    return 1;
  }
  runs[0] = (algo_run_t){start, before_end};
  runs[1] = (algo_run_t){0, count - before_end};
  return 2;
}

void algo_outline_messages(plan_t *plan, int32_t parts, int32_t scratch_chunks,
                           int32_t message_chunks) {
  plan->reach = PLAN_REACH_OWN;
  plan->parts = parts;
  plan->scratch_chunks = scratch_chunks;
  plan->message_chunks = message_chunks;
  plan->depth = 1;
}

void algo_outline_multicast(plan_t *plan, int32_t parts, int32_t scratch_chunks,
                            int32_t message_chunks) {
  algo_outline_messages(plan, parts, scratch_chunks, message_chunks);
  plan->multicast = plan->shape.size > 2;
}

void algo_outline_mapped(plan_t *plan, plan_reach_t reach, int32_t parts, int32_t scratch_chunks) {
  plan->reach = reach;
  plan->parts = parts;
  plan->scratch_chunks = scratch_chunks;
}

static plan_span_t span_of(int32_t rank, plan_buffer_t buffer, int32_t first, int32_t count) {
  return (plan_span_t){.rank = rank, .buffer = buffer, .first = first, .count = count};
}

plan_span_t algo_own(const plan_emitter_t *e, plan_buffer_t buffer, int32_t first, int32_t count) {
  return span_of(e->rank, buffer, first, count);
}

void algo_copy_through(plan_emitter_t *e) {
  int32_t chunks = plan_chunks(e->plan, e->rank, PLAN_INPUT);
  plan_emit_input_to_output(e, 0, 0, 0, chunks);
}

void algo_reduce_pair(plan_emitter_t *e, int32_t peer, plan_span_t dst, plan_span_t mine,
                      plan_span_t theirs) {
  bool lower = e->rank < peer;
  plan_span_t sources[2] = {lower ? mine : theirs, lower ? theirs : mine};
  plan_emit_reduce(e, 0, dst, sources, 2);
}

void algo_reduce_all(plan_emitter_t *e, plan_span_t dst, plan_buffer_t theirs, plan_buffer_t mine,
                     int32_t chunk) {
  int32_t size = e->plan->shape.size;
  plan_span_t *sources = NULL;
  if (e->status != COLL_OK) return;
  e->status = base_alloc((size_t)size, sizeof *sources, "reduce sources", (void **)&sources);
  if (e->status != COLL_OK) return;
  for (int32_t rank = 0; rank < size; rank++) {
    sources[rank] = span_of(rank, rank == e->rank ? mine : theirs, chunk, dst.count);
  }
  plan_emit_reduce(e, 0, dst, sources, size);
  free(sources);
}

/* Calls emit_piece for successive pieces of `span`, each at most message_chunks long. */
static void emit_pieces(plan_emitter_t *e, int lane, int32_t peer, plan_span_t span,
                        int32_t (*emit_piece)(plan_emitter_t *, int, int32_t, plan_span_t)) {
  int32_t end = span.first + span.count;
  for (int32_t max = e->plan->message_chunks; span.first < end; span.first += span.count) {
    span.count = end - span.first < max ? end - span.first : max;
    emit_piece(e, lane, peer, span);
  }
}

void algo_send_pieces(plan_emitter_t *e, int32_t peer, plan_span_t src) {
  emit_pieces(e, 0, peer, src, plan_emit_send);
}

void algo_recv_pieces(plan_emitter_t *e, int32_t peer, plan_span_t dst) {
  emit_pieces(e, 0, peer, dst, plan_emit_recv);
}

void algo_send_pieces_by(plan_emitter_t *e, int lane, int32_t peer, plan_span_t src) {
  emit_pieces(e, lane, peer, src, plan_emit_send);
}

void algo_recv_pieces_by(plan_emitter_t *e, int lane, int32_t peer, plan_span_t dst) {
  emit_pieces(e, lane, peer, dst, plan_emit_recv);
}

void algo_multicast(plan_emitter_t *e, plan_span_t src) {
  for (int32_t i = 1; i < e->plan->shape.size; i++) plan_emit_send(e, 0, algo_peer(e, i), src);
}

void algo_send_blocks(plan_emitter_t *e) {
  for (int32_t i = 1; i < e->plan->shape.size; i++) {
    plan_emit_send(e, 0, algo_peer(e, i), plan_input(e, algo_peer(e, i), 1));
  }
}

void algo_recv_blocks(plan_emitter_t *e, plan_buffer_t buffer) {
  for (int32_t i = e->plan->shape.size - 1; i > 0; i--) {
    plan_emit_recv(e, 0, algo_peer(e, i), algo_own(e, buffer, algo_peer(e, i), 1));
  }
}

int32_t algo_peer(const plan_emitter_t *e, int32_t i) {
  return (e->rank + i) % e->plan->shape.size;
}

void algo_signal_peers(plan_emitter_t *e) {
  for (int32_t i = 1; i < e->plan->shape.size; i++) plan_emit_signal(e, 0, algo_peer(e, i));
}

void algo_wait_peers(plan_emitter_t *e) {
  for (int32_t i = 1; i < e->plan->shape.size; i++) plan_emit_wait(e, 0, algo_peer(e, i));
}
