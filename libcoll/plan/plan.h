/*
 * A plan: what every rank does to carry out one collective, as plain data. A builder writes it
 * once; the verifier, the engine, the simulator and the printer read it.
 *
 * Each rank has a program of a few lanes. Lanes run concurrently; the steps of one lane run in
 * order. Data is named by spans: runs of chunks of a rank's INPUT, OUTPUT or SCRATCH. A buffer is
 * an array of blocks (a block is the call's count: one for allreduce, one per rank for the
 * gathering side of allgather). Every block is cut into `parts` chunks in the same way, and so is
 * SCRATCH: chunk c of any buffer has the size of part c mod parts. So one plan serves every size,
 * and chunks may be moved between any two places whose numbers are equal modulo parts.
 *
 * In a vector collective (allgatherv, reduce_scatterv) the block of each rank has a size of its
 * own. INPUT or OUTPUT of one block holds the block of the rank, and so do all blocks of SCRATCH if
 * it is own_scratch; block b of any other buffer is that of rank b modulo the number of ranks.
 * Chunks may be moved between places of the same part of the same rank's block (plan_size_class).
 *
 * The canonical expression C over operands [a, b) is the operand itself if there is only one, else
 * C[a, m) op C[m, b), where m - a is the largest power of two below b - a: what a binomial tree at
 * position 0 computes. It defines a reduction of several operands. Plans whose result bits must not
 * depend on the algorithm state that they compute it (plan_order_t). To evaluate it in one pass,
 * push each operand on a stack, combine the top two entries while they cover equally many operands,
 * and at the end combine the remaining entries from the top down. No operand passes through more
 * than ceil(log2 n) operations, so the error of a sum is at most about ceil(log2 n) eps times the
 * sum of the operands' magnitudes; for a chain of additions the factor is (n - 1) eps (Higham, The
 * accuracy of floating point summation, 1993).
 */
#ifndef PLAN_PLAN_H
#define PLAN_PLAN_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/names.h"
#include "base/status.h"
#include "topo/layout.h"

#define PLAN_LANES_MAX 128
#define PLAN_CHANNELS_MAX 128
#define PLAN_DEPTH_MAX 128
/* Signals that a lane may send one peer in a plan, and that every transport buffers per channel. So
 * no signal waits for buffer space forever. Ranks form a Kahn network: whether they all terminate
 * does not depend on the schedule. (A FIFO of bounded depth is two channels of such a network: one
 * of signals, one of free slots.) In the schedule in which every rank ends each pass before any
 * rank begins the next, each pass finds its FIFOs empty, as waits consume all signals of a pass
 * (the verifier proves it), and has room for all its signals. */
#define PLAN_SIGNALS_MAX 8
#define PLAN_FIFO_DEPTH 4 /* messages that every FIFO of a transport holds at least */
#define PLAN_NAME_BYTES 32
#define PLAN_RANKS_MAX 4096

typedef enum plan_buffer {
  PLAN_INPUT,
  PLAN_OUTPUT,
  PLAN_SCRATCH, /* contents are undefined at the start of every pass over the plan */
  PLAN_BUFFER_COUNT
} plan_buffer_t;

typedef struct plan_span {
  int32_t rank;
  plan_buffer_t buffer;
  int32_t first; /* chunk */
  int32_t count; /* chunks, > 0 */
} plan_span_t;

typedef enum plan_step_kind {
  PLAN_COPY,   /* dst = src */
  PLAN_REDUCE, /* dst = the canonical expression over src_0 … src_k, rounded to the dtype once at
                  the end; one pass; dst may equal one of the sources */
  PLAN_SEND,   /* sends src to peer; complete when src may be overwritten */
  PLAN_RECV,   /* receives the next message of (peer, this rank, channel) into dst */
  PLAN_SIGNAL, /* release: what this lane has done so far is visible after the peer's matching
                  wait */
  PLAN_WAIT,   /* acquire: waits for the next signal of (peer, this rank, this lane) */
  PLAN_AFTER,  /* waits until the named step of another lane of this rank is done */
  PLAN_STEP_KIND_COUNT
} plan_step_kind_t;

/* Messages are in one FIFO per (source rank, destination rank, channel): the n-th send matches the
 * n-th recv. Each end of a FIFO belongs to one lane, not necessarily of the same number. Signals
 * are in one FIFO per (source rank, destination rank, lane): the n-th signal matches the n-th wait.
 */
typedef struct plan_step {
  plan_step_kind_t kind;
  union {
    struct {
      plan_span_t dst, src; /* at most one of them in another rank's memory */
    } copy;
    struct {
      plan_span_t dst;
      int32_t first_source, source_count; /* >= 1 entries of the program's sources[] */
    } reduce;
    struct {
      int32_t peer, channel;
      plan_span_t src; /* this rank's own */
    } send;
    struct {
      int32_t peer, channel;
      plan_span_t dst; /* this rank's own */
    } recv;
    struct {
      int32_t peer;
    } signal, wait;
    struct {
      int32_t lane, step;
    } after;
  };
} plan_step_t;

typedef struct plan_lane {
  plan_step_t *steps;
  size_t count, capacity;
} plan_lane_t;

/* The program of one rank. in_place: its INPUT and OUTPUT overlap in the way that coll.h defines
 * for the collective. It may change only what the rank does to its own buffers, never what its
 * peers observe: ranks that call in place and ranks that do not can take part in the same call. */
typedef struct plan_program {
  bool in_place;
  plan_lane_t *lanes; /* [plan->lanes]; made by plan_set_lanes, in one array of all programs */
  plan_span_t *sources;
  size_t source_count, source_capacity;
} plan_program_t;

/* Which memory of peers a plan accesses. From PLAN_REACH_READ on, no rank starts before all ranks
 * have entered the call (the engine's address exchange). */
typedef enum plan_reach {
  PLAN_REACH_OWN,     /* none: messages only; runs over any transport */
  PLAN_REACH_SCRATCH, /* SCRATCH: where a plan accesses it, the peer must be mapped; user memory
                         need not be; may use signals, to all ranks */
  PLAN_REACH_READ,    /* INPUT or OUTPUT too, but only as sources of copies and reductions (the plan
                         pulls): user memory must be mapped, or readable by the transport's get */
  PLAN_REACH_USER,    /* INPUT or OUTPUT, also as destinations (the plan pushes): user memory must
                         be mapped */
  PLAN_REACH_COUNT
} plan_reach_t;

/* Whether ranks exchange the addresses of their buffers before a plan of this reach starts. */
static inline bool plan_reach_exchanges(plan_reach_t reach) {
  return reach >= PLAN_REACH_READ;
}

/* What a reducing plan guarantees about the order of its reductions; each value includes those
 * before it. It depends on the collective and the number of ranks, not on the root. */
typedef enum plan_order {
  PLAN_ORDER_ANY = -1, /* each rank's operand once, in an order that differs between ranks: they may
                          hold different bits of a float. No builder makes such a plan, and nothing
                          chooses one; a user may import and load it */
  PLAN_ORDER_FIXED,    /* each rank's operand once, in some order that is the same on all ranks */
  PLAN_ORDER_CANONICAL, /* the canonical expression over ranks [0, size) */
  PLAN_ORDER_EXACT, /* the canonical expression; every reduction step is over the operands of all
                       ranks: narrow floats, which a step computes in float32, are rounded once,
                       and a step can average them */
  PLAN_ORDER_COUNT
} plan_order_t;

/* What a plan is built for. */
typedef struct plan_shape {
  coll_collective_t collective;
  int32_t size;                /* ranks, >= 1 */
  int32_t root;                /* the root of a rooted collective; for others, the executor rank
                                  (algo_t.by_executor), or 0 */
  const topo_layout_t *layout; /* where the ranks are; lives as long as the plan. NULL: all of them
                                  share memory, and no rank is nearer to one than to another */
} plan_shape_t;

/* Everything but the programs follows from the shape and the algorithm, so ranks that build only
 * their own program agree on it. */
typedef struct plan {
  plan_shape_t shape;
  char algorithm[PLAN_NAME_BYTES];
  int32_t parts;          /* chunks per block, >= 1 */
  int32_t scratch_chunks; /* per rank */
  int32_t lanes;          /* 1..PLAN_LANES_MAX; changed by plan_set_lanes */
  int32_t depth;          /* FIFO depth that the plan needs in order not to deadlock,
                             0..PLAN_DEPTH_MAX */
  int32_t message_chunks; /* largest message, in chunks; 0 without messages */
  bool multicast;   /* every message goes to all peers. Sends come in rows: one span to each of the
                       next ranks in turn. A row starts when all FIFOs have room for it. So the
                       transport may write the message once for all readers */
  bool own_scratch; /* of a vector collective: all blocks of SCRATCH have the size of the rank's */
  plan_reach_t reach;
  plan_order_t order;       /* FIXED if the collective does not reduce */
  plan_program_t *programs; /* [shape.size]; programs that were not built are empty */
} plan_t;

/* Creates an empty plan of one lane with space for every program. Owned by the caller until
 * plan_free. */
coll_status_t plan_create(const plan_shape_t *shape, const char *algorithm, plan_t **plan);

/* Changes the number of lanes (1..PLAN_LANES_MAX) of every program. The steps of lanes that remain
 * are kept, those of others are freed. */
coll_status_t plan_set_lanes(plan_t *plan, int32_t lanes);
void plan_free(plan_t *plan);

/* Exchanges the programs of a rank. Both plans have the same number of lanes. */
void plan_exchange(plan_t *plan, plan_t *other, int32_t rank);

/* How many blocks a rank has of a buffer. */
typedef enum plan_blocks {
  PLAN_BLOCKS_NONE,
  PLAN_BLOCKS_ONE,
  PLAN_BLOCKS_ONE_AT_ROOT,
  PLAN_BLOCKS_PER_RANK,
  PLAN_BLOCKS_PER_RANK_AT_ROOT
} plan_blocks_t;

/* Of INPUT or OUTPUT. */
static inline plan_blocks_t plan_blocks_of(coll_collective_t collective, plan_buffer_t buffer) {
  static const unsigned char blocks_of[COLL_COLLECTIVE_COUNT][2] = {
      /* INPUT, OUTPUT */
      [COLL_ALLREDUCE] = {PLAN_BLOCKS_ONE, PLAN_BLOCKS_ONE},
      [COLL_REDUCE] = {PLAN_BLOCKS_ONE, PLAN_BLOCKS_ONE_AT_ROOT},
      [COLL_REDUCE_SCATTER] = {PLAN_BLOCKS_PER_RANK, PLAN_BLOCKS_ONE},
      [COLL_ALLGATHER] = {PLAN_BLOCKS_ONE, PLAN_BLOCKS_PER_RANK},
      [COLL_BROADCAST] = {PLAN_BLOCKS_ONE_AT_ROOT, PLAN_BLOCKS_ONE},
      [COLL_GATHER] = {PLAN_BLOCKS_ONE, PLAN_BLOCKS_PER_RANK_AT_ROOT},
      [COLL_SCATTER] = {PLAN_BLOCKS_PER_RANK_AT_ROOT, PLAN_BLOCKS_ONE},
      [COLL_ALLTOALL] = {PLAN_BLOCKS_PER_RANK, PLAN_BLOCKS_PER_RANK},
      [COLL_ALLTOALLV] = {PLAN_BLOCKS_PER_RANK, PLAN_BLOCKS_PER_RANK},
      [COLL_BARRIER] = {PLAN_BLOCKS_NONE, PLAN_BLOCKS_NONE},
      [COLL_SENDRECV] = {PLAN_BLOCKS_ONE, PLAN_BLOCKS_ONE},
      [COLL_ALLGATHERV] = {PLAN_BLOCKS_ONE, PLAN_BLOCKS_PER_RANK},
      [COLL_REDUCE_SCATTERV] = {PLAN_BLOCKS_PER_RANK, PLAN_BLOCKS_ONE},
      [COLL_GATHERV] = {PLAN_BLOCKS_ONE, PLAN_BLOCKS_PER_RANK_AT_ROOT},
      [COLL_SCATTERV] = {PLAN_BLOCKS_PER_RANK_AT_ROOT, PLAN_BLOCKS_ONE},
  };
  assert(buffer != PLAN_SCRATCH);
  return (plan_blocks_t)blocks_of[collective][buffer];
}

/* Blocks in a rank's INPUT or OUTPUT; 0 where the collective gives the rank no such buffer. */
static inline int32_t plan_blocks(const plan_shape_t *shape, int rank, plan_buffer_t buffer) {
  assert(rank >= 0 && rank < shape->size);
  switch (plan_blocks_of(shape->collective, buffer)) {
    case PLAN_BLOCKS_NONE: return 0;
    case PLAN_BLOCKS_ONE: return 1;
    case PLAN_BLOCKS_ONE_AT_ROOT: return rank == shape->root ? 1 : 0;
    case PLAN_BLOCKS_PER_RANK: return shape->size;
    case PLAN_BLOCKS_PER_RANK_AT_ROOT: return rank == shape->root ? shape->size : 0;
  }
  return 0;
}

/* Whether a rank has any blocks of INPUT or OUTPUT. */
static inline bool plan_has_blocks(coll_collective_t collective, bool at_root,
                                   plan_buffer_t buffer) {
  switch (plan_blocks_of(collective, buffer)) {
    case PLAN_BLOCKS_NONE: return false;
    case PLAN_BLOCKS_ONE_AT_ROOT:
    case PLAN_BLOCKS_PER_RANK_AT_ROOT: return at_root;
    case PLAN_BLOCKS_ONE:
    case PLAN_BLOCKS_PER_RANK: return true;
  }
  return false;
}

/* Chunks in any of a rank's buffers, SCRATCH included. */
int32_t plan_chunks(const plan_t *plan, int rank, plan_buffer_t buffer);

/* The rank whose block a block of the buffer is, or has the size of, in a vector collective. */
static inline int32_t plan_block_owner(const plan_t *plan, int32_t rank, plan_buffer_t buffer,
                                       int32_t block) {
  bool is_own = buffer == PLAN_SCRATCH
                    ? plan->own_scratch
                    : plan_blocks_of(plan->shape.collective, buffer) == PLAN_BLOCKS_ONE;
  return is_own ? rank : block % plan->shape.size;
}

/* Chunks of equal class have equal sizes in every call. */
static inline int32_t plan_size_class(const plan_t *plan, int32_t rank, plan_buffer_t buffer,
                                      int32_t chunk) {
  int32_t parts = plan->parts, part = chunk % parts;
  if (!base_collective_counts_by_rank(plan->shape.collective)) return part;
  return plan_block_owner(plan, rank, buffer, chunk / parts) * parts + part;
}

/* Chunks of the largest INPUT or OUTPUT of any rank; 0 if there is none. */
int32_t plan_chunks_max(const plan_t *plan);

/* Offset of chunk `part` (0..parts) in a block of `count` elements, in elements. Boundaries are
 * multiples of `grain` elements (>= 1), so that two ranks do not share a cache line. */
size_t plan_part_offset(size_t count, int32_t parts, int32_t part, size_t grain);

/* For an in-place program of `rank`: the OUTPUT chunk that is the same memory as INPUT chunk
 * `chunk`, or -1 if that chunk lies outside OUTPUT. */
int32_t plan_alias(const plan_t *plan, int rank, int32_t chunk);

/* Checks the structure of one rank's program: spans in bounds, on legal ranks and in the rank's
 * mapping domain, chunk numbers congruent, peers, channels, lanes, depth, reach and message sizes
 * within the header's values and limits, each end of a FIFO in one lane, and at most
 * PLAN_SIGNALS_MAX signals of a lane to a peer. Runs after every builder and importer.
 * COLL_ERROR_INVALID names rank, lane, step and the error. It proves nothing about the result: the
 * verifier does. */
coll_status_t plan_check_program(const plan_t *plan, int rank);

/* Checks one step of a plan whose header is valid. */
coll_status_t plan_check_step(const plan_t *plan, int rank, int lane, size_t step);

/* For a multicast plan: whether the send is the first of its row. */
static inline bool plan_begins_row(const plan_t *plan, int rank, const plan_step_t *send) {
  return send->send.peer == (rank + 1) % plan->shape.size;
}

/* Whether two plans are equal in all steps and header fields. Ignores the programs' in_place flags
 * and the layout of sources[]. Both must have passed plan_check_program. */
bool plan_equal(const plan_t *a, const plan_t *b);

const char *plan_buffer_name(plan_buffer_t buffer);     /* "input" */
const char *plan_step_kind_name(plan_step_kind_t kind); /* "copy" */
const char *plan_reach_name(plan_reach_t reach);        /* "own" */
const char *plan_order_name(plan_order_t order);        /* "canonical" */

#endif
