/*
 * The shape of a collective: the properties that determine its plan. It is packed into two words,
 * so that an API function makes it by two stores, and the plan cache compares it by two
 * comparisons.
 */
#ifndef COMM_SHAPE_H
#define COMM_SHAPE_H

#include "base/inline.h"
#include "base/names.h"
#include "plan/plan.h"

typedef struct comm_shape {
  size_t count;    /* elements of a block; of the largest block if they differ */
  uint64_t traits; /* all other properties, packed; 0: no shape */
} comm_shape_t;

/* Of allgatherv and reduce_scatterv, or at the root of gatherv or scatterv. */
typedef enum comm_blocks {
  COMM_BLOCKS_EVEN,   /* of equal size and packed; so are those of all other collectives */
  COMM_BLOCKS_SPREAD, /* of equal size; with gaps, or not in the order of ranks */
  COMM_BLOCKS_UNEVEN  /* not of equal size; of gatherv and scatterv: not EVEN */
} comm_blocks_t;

typedef struct comm_traits {
  coll_collective_t collective; /* COLL_SENDRECV for sends and receives */
  coll_dtype_t dtype;
  coll_op_t op;       /* a built-in op, or COMM_PREMUL */
  int root;           /* or the peer of a send or receive */
  plan_reach_t reach; /* the furthest reach that the call's memory allows */
  comm_blocks_t blocks;
  bool in_place;
} comm_traits_t;

/* The op of all premul-sums: each rank scales its input, and the rest is a sum. */
#define COMM_PREMUL COLL_OP_BUILTIN_COUNT

enum {
  COMM_OP_SHIFT = 32, /* bits 0 to 31 hold the root */
  COMM_DTYPE_SHIFT = 40,
  COMM_COLLECTIVE_SHIFT = 48,
  COMM_REACH_SHIFT = 56,
  COMM_BLOCKS_SHIFT = 60,
  COMM_IN_PLACE_SHIFT = 62,
  COMM_TRAITS_SHIFT = 63 /* always set, so that traits are never 0 */
};

BASE_INLINE uint64_t comm_traits_pack(comm_traits_t traits) {
  uint64_t in_place = traits.in_place;
  BASE_WHOLE(in_place);
  return (uint64_t)1 << COMM_TRAITS_SHIFT | in_place << COMM_IN_PLACE_SHIFT |
         (uint64_t)traits.blocks << COMM_BLOCKS_SHIFT | (uint64_t)traits.reach << COMM_REACH_SHIFT |
         (uint64_t)traits.collective << COMM_COLLECTIVE_SHIFT |
         (uint64_t)traits.dtype << COMM_DTYPE_SHIFT | (uint64_t)traits.op << COMM_OP_SHIFT |
         (unsigned)traits.root;
}

BASE_INLINE comm_shape_t comm_shape_make(comm_traits_t traits, size_t count) {
  return (comm_shape_t){.count = count, .traits = comm_traits_pack(traits)};
}

BASE_INLINE comm_traits_t comm_traits_of(comm_shape_t shape) {
  uint64_t word = shape.traits;
  return (comm_traits_t){.collective = word >> COMM_COLLECTIVE_SHIFT & 0xff,
                         .dtype = word >> COMM_DTYPE_SHIFT & 0xff,
                         .op = word >> COMM_OP_SHIFT & 0xff,
                         .root = (int)(uint32_t)word,
                         .reach = word >> COMM_REACH_SHIFT & 0xf,
                         .blocks = word >> COMM_BLOCKS_SHIFT & 3,
                         .in_place = word >> COMM_IN_PLACE_SHIFT & 1};
}

/* Whether it is an allgatherv or reduce_scatterv that has arrays of counts and offsets. */
static inline bool comm_has_count_arrays(const comm_traits_t *traits) {
  return base_collective_counts_by_rank(traits->collective) && traits->blocks != COMM_BLOCKS_EVEN;
}

/* Whether it is an average of floats, whose operands are weighted (device/average.h). */
static inline bool comm_averages_floats(const comm_traits_t *traits) {
  return traits->op == COLL_AVG && base_collective_reduces(traits->collective) &&
         !base_dtype_is_integer(traits->dtype);
}

BASE_INLINE bool comm_shape_is(comm_shape_t a, comm_shape_t b) {
  return a.traits == b.traits && a.count == b.count;
}

#endif
