/*
 * Helpers shared by the builders: arithmetic on ranks, header outlines, runs of chunks that wrap
 * around, and phases that more than one algorithm uses.
 */
#ifndef ALGO_COMMON_H
#define ALGO_COMMON_H

#include "algo/algo.h"

/* ---- arithmetic ------------------------------------------------------------------------------*/

/* The largest power of two that is <= size (>= 1). */
int32_t algo_power_below(int32_t size);

/* value modulo size, in 0..size-1; value may be negative. */
int32_t algo_mod(int32_t value, int32_t size);

/* Chunks [first, first + count). */
typedef struct algo_run {
  int32_t first, count;
} algo_run_t;

/* The `count` (<= size) chunks first, first+1, … modulo size as one or two runs. Returns the number
 * of runs (0 for no chunks). first may be any integer. */
int algo_wrap(int32_t first, int32_t count, int32_t size, algo_run_t runs[2]);

/* ---- headers ---------------------------------------------------------------------------------*/

/* A plan that only sends messages. A FIFO depth of one is enough: every exchange sends first, and
 * receives before it sends to the same peer again. */
void algo_outline_messages(plan_t *plan, int32_t parts, int32_t scratch_chunks,
                           int32_t message_chunks);

/* A plan in which every message goes to all ranks. It uses multicast, except where there is only
 * one peer: then a plain message costs less. */
void algo_outline_multicast(plan_t *plan, int32_t parts, int32_t scratch_chunks,
                            int32_t message_chunks);

/* A plan of loads, stores and signals. */
void algo_outline_mapped(plan_t *plan, plan_reach_t reach, int32_t parts, int32_t scratch_chunks);

/* ---- steps -----------------------------------------------------------------------------------*/

/* A span of this rank's own memory, by buffer. */
plan_span_t algo_own(const plan_emitter_t *e, plan_buffer_t buffer, int32_t first, int32_t count);

/* Copies all of INPUT to the start of OUTPUT, unless an in-place call has it there already. */
void algo_copy_through(plan_emitter_t *e);

/* dst = the lower rank's operand op the higher rank's. `mine` is this rank's operand and `theirs`
 * the peer's, so both sides of an exchange compute the same expression. */
void algo_reduce_pair(plan_emitter_t *e, int32_t peer, plan_span_t dst, plan_span_t mine,
                      plan_span_t theirs);

/* dst = the reduction over all ranks in rank order of chunk `chunk` of every peer's buffer `theirs`
 * and this rank's buffer `mine`. */
void algo_reduce_all(plan_emitter_t *e, plan_span_t dst, plan_buffer_t theirs, plan_buffer_t mine,
                     int32_t chunk);

/* Sends or receives a span as messages of at most message_chunks chunks each. */
void algo_send_pieces(plan_emitter_t *e, int32_t peer, plan_span_t src);
void algo_recv_pieces(plan_emitter_t *e, int32_t peer, plan_span_t dst);
void algo_send_pieces_by(plan_emitter_t *e, int lane, int32_t peer, plan_span_t src);
void algo_recv_pieces_by(plan_emitter_t *e, int lane, int32_t peer, plan_span_t dst);

/* Sends the span to every peer: in a multicast plan (plan_t.multicast) one row. */
void algo_multicast(plan_emitter_t *e, plan_span_t src);

/* Sends each peer its block of INPUT; receives each peer's block of OUTPUT or SCRATCH, from the
 * last algo_peer to the first. */
void algo_send_blocks(plan_emitter_t *e);
void algo_recv_blocks(plan_emitter_t *e, plan_buffer_t buffer);

/* The i-th peer of this rank, 1 <= i < size: (rank + i) mod size. The order differs by rank, so
 * that not all ranks access the same peer at once. */
int32_t algo_peer(const plan_emitter_t *e, int32_t i);

void algo_signal_peers(plan_emitter_t *e);
void algo_wait_peers(plan_emitter_t *e);

/* ---- binomial trees (tree.c) -----------------------------------------------------------------
 * Over positions 0..size-1, the root at position 0. The subtree of a position is a run of positions
 * that starts with it; its children are position + 1, + 2, + 4, … */

int32_t algo_tree_position(const plan_emitter_t *e); /* of this rank, counted from the root */
int32_t algo_tree_rank(const plan_emitter_t *e, int32_t position);
int32_t algo_tree_parent(int32_t position);                 /* position > 0 */
int32_t algo_tree_span(int32_t position, int32_t size);     /* positions in the subtree */
int32_t algo_tree_distance(int32_t position, int32_t size); /* to the farthest child; 0: a leaf */
int32_t algo_tree_widest(int32_t size);                     /* longest subtree below the root */

/* ---- rings (ring.c) --------------------------------------------------------------------------
 * The part of a lane in an algorithm of one or more rings. The chunk of rank r, of p, is chunk
 * first + stride * r of the p chunks or blocks; of a single block, chunk `first`. */

typedef struct algo_ring {
  int lane;
  int32_t direction;     /* messages go to the next rank of the order, or to the one before: 1 or
                            -1 */
  int32_t first, stride; /* stride: 1, or the plan's parts */
  const int32_t *order;  /* [size]: the ranks in the order of the ring; NULL: by number */
  int32_t position;      /* of this rank in the order */
} algo_ring_t;

void algo_ring_allreduce(plan_emitter_t *e, const algo_ring_t *ring);
void algo_ring_reduce_scatter(plan_emitter_t *e, const algo_ring_t *ring);
void algo_ring_allgather(plan_emitter_t *e, const algo_ring_t *ring);

/* A chain around the ring that ends before the root, of chunk `first` of a broadcast. */
void algo_ring_broadcast(plan_emitter_t *e, const algo_ring_t *ring);

/* ---- recursive halving and doubling (halving.c) ----------------------------------------------
 * Among the ranks base..base+size-1, size a power of two, over the chunks of OUTPUT. */

/* Reduce-scatter of the ranks' `held` buffers (INPUT or OUTPUT). Each rank's segment of the result
 * ends in its OUTPUT. Returns the buffer that holds the segment: OUTPUT, or `held` where size is
 * 1. */
plan_buffer_t algo_halving_reduce_scatter(plan_emitter_t *e, int32_t base, int32_t size,
                                          plan_buffer_t held);

/* Allgather of the segments in OUTPUT. */
void algo_doubling_allgather(plan_emitter_t *e, int32_t base, int32_t size);

/* The segment of the index-th of `size` ranks after recursive halving of `parts` chunks. It
 * contains the segment, among 2*size ranks, of every index that is equal modulo size. */
algo_run_t algo_halving_segment(int32_t parts, int32_t size, int32_t index);

/* Extra ranks, of an allreduce among more ranks than take part in the rounds: receives the vector
 * of rank `extra` and reduces it. Returns the buffer of this rank's operand from then on: OUTPUT.
 */
plan_buffer_t algo_extra_reduce(plan_emitter_t *e, int32_t extra);

/* The whole allreduce program of an extra rank, for which `member` takes part. */
void algo_extra_allreduce(plan_emitter_t *e, int32_t member);

/* Sends or receives the blocks that rank `extra` lacks at the end of an allgather: those on both
 * sides of its own. */
void algo_move_other_blocks(plan_emitter_t *e, int32_t extra, int32_t peer,
                            void (*pieces)(plan_emitter_t *, int32_t, plan_span_t));

/* ---- circulant graphs (circulant.c) ----------------------------------------------------------*/

typedef struct algo_circulant {
  plan_buffer_t partial; /* buffer of partial results, chunk c at index c */
  int32_t arrived;       /* first SCRATCH chunk of received operands, in the same order */
  plan_span_t result;    /* destination of this rank's fully reduced chunk */
} algo_circulant_t;

/* Reduce-scatter of `size` chunks of INPUT: the rank at position v from the root gets chunk v. */
void algo_circulant_reduce_scatter(plan_emitter_t *e, const algo_circulant_t *where);

#endif
