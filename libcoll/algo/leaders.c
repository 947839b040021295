/*
 * Allreduce by one leader per host, its first rank: the ranks of a host reduce to it along a
 * binomial tree, the leaders exchange by recursive doubling (halving.c), and each passes the result
 * down. So only one rank of a host uses the network, in as few rounds as possible: for short calls,
 * where many small messages at once wait for each other. Without a layout every rank is a host.
 */
#include "algo/common.h"
#include "algo/list.h"

static const char karonis_2000[] =
    "Karonis, de Supinski, Foster, Gropp, Lusk & Bresnahan, Exploiting hierarchy in parallel "
    "computer networks to optimize collective operation performance, 2000";

static bool has_hosts(const plan_shape_t *shape) {
  return shape->layout != NULL && shape->layout->levels > 0;
}

static int32_t host_of(const plan_shape_t *shape, int32_t rank) {
  return has_hosts(shape) ? shape->layout->level[0].group_of[rank] : rank;
}

static int32_t host_count(const plan_shape_t *shape) {
  return has_hosts(shape) ? shape->layout->level[0].groups : shape->size;
}

/* The position-th rank of a host; -1: it has fewer. */
static int32_t member_of(const plan_shape_t *shape, int32_t host, int32_t position) {
  for (int32_t rank = 0; rank < shape->size; rank++) {
    if (host_of(shape, rank) == host && position-- == 0) return rank;
  }
  return -1;
}

static int32_t position_of(const plan_shape_t *shape, int32_t rank) {
  int32_t position = 0;
  for (int32_t other = 0; other < rank; other++) {
    position += host_of(shape, other) == host_of(shape, rank);
  }
  return position;
}

/* Children of a position are less than this behind it; its parent is so far in front of it. */
static int32_t span_of(const plan_shape_t *shape, int32_t position) {
  return position > 0 ? position & -position : 2 * algo_power_below(shape->size);
}

/* Receives the operand of a peer and reduces it with this rank's. Returns the buffer of the sum. */
static plan_buffer_t reduce_from(plan_emitter_t *e, int32_t peer, plan_buffer_t held) {
  plan_emit_recv(e, 0, peer, plan_scratch(e, 0, 1));
  algo_reduce_pair(e, peer, plan_output(e, 0, 1), algo_own(e, held, 0, 1), plan_scratch(e, 0, 1));
  return PLAN_OUTPUT;
}

/* Reduces to the leader. Returns the buffer of what this rank then holds. */
static plan_buffer_t reduce_up(plan_emitter_t *e, int32_t position) {
  const plan_shape_t *shape = &e->plan->shape;
  int32_t host = host_of(shape, e->rank), span = span_of(shape, position);
  plan_buffer_t held = PLAN_INPUT;
  for (int32_t distance = 1; distance < span; distance *= 2) {
    int32_t child = member_of(shape, host, position + distance);
    if (child >= 0) held = reduce_from(e, child, held);
  }
  if (position > 0) {
    plan_emit_send(e, 0, member_of(shape, host, position - span), algo_own(e, held, 0, 1));
  }
  return held;
}

/* Among the leaders. Those beyond a power of two take no part: another acts for each of them. */
static void exchange(plan_emitter_t *e, plan_buffer_t held) {
  const plan_shape_t *shape = &e->plan->shape;
  int32_t hosts = host_count(shape), host = host_of(shape, e->rank);
  int32_t power = algo_power_below(hosts);
  if (host >= power) {
    int32_t member = member_of(shape, host - power, 0);
    plan_emit_send(e, 0, member, algo_own(e, held, 0, 1));
    plan_emit_recv(e, 0, member, plan_output(e, 0, 1));
    return;
  }
  int32_t extra = host + power < hosts ? member_of(shape, host + power, 0) : -1;
  if (extra >= 0) held = reduce_from(e, extra, held);
  for (int32_t distance = 1; distance < power; distance *= 2) {
    int32_t peer = member_of(shape, host ^ distance, 0);
    plan_emit_send(e, 0, peer, algo_own(e, held, 0, 1));
    held = reduce_from(e, peer, held);
  }
  if (extra >= 0) plan_emit_send(e, 0, extra, plan_output(e, 0, 1));
}

/* Passes the result down, farthest child first. */
static void pass_down(plan_emitter_t *e, int32_t position) {
  const plan_shape_t *shape = &e->plan->shape;
  int32_t host = host_of(shape, e->rank);
  int32_t span = span_of(shape, position);
  if (position > 0) {
    plan_emit_recv(e, 0, member_of(shape, host, position - span), plan_output(e, 0, 1));
  }
  for (int32_t distance = span / 2; distance >= 1; distance /= 2) {
    int32_t child = member_of(shape, host, position + distance);
    if (child >= 0) plan_emit_send(e, 0, child, plan_output(e, 0, 1));
  }
}

static void allreduce_outline(plan_t *plan) {
  algo_outline_messages(plan, 1, 1, 1);
}

/* 2 ceil(log2 m) + ceil(log2 H) rounds of the whole vector among H hosts of m ranks. */
static void allreduce_build(plan_emitter_t *e) {
  int32_t position = position_of(&e->plan->shape, e->rank);
  plan_buffer_t held = reduce_up(e, position);
  if (position == 0) exchange(e, held);
  pass_down(e, position);
}

const algo_t algo_allreduce_leaders = {
    .name = "leaders",
    .collective = COLL_ALLREDUCE,
    .paper = karonis_2000,
    .between_hosts = true,
    .outline = allreduce_outline,
    .build = allreduce_build,
};
