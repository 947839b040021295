/*
 * Communication among ranks whose distances are the negabinary numbers of ones, 1, -1, 3, -5, 11, …
 * (swing.c, bine.c). They are about a third shorter than powers of two on a ring.
 *
 * Members are numbered 0..power-1, a power of two. In step s an even member m exchanges with
 * m + d(s) and an odd one with m - d(s), modulo power, where d(s) = 1 - 2 + 4 - … + (-2)^s. The
 * members that member m reaches directly or indirectly
 * - by the steps s, s+1, … in this order are those with m's or its peer's rest modulo 2^(s+1);
 * - by the steps s-1, …, 0 in this order are a run of 2^s members (De Sensi et al. 2025).
 */
#ifndef ALGO_NEGABINARY_H
#define ALGO_NEGABINARY_H

#include "algo/common.h"

/* Any number of ranks: position 2m + 1 is the extra of member m < extras, at position 2m. An extra
 * gives its data to its member first and receives the result last. Other members are at position
 * m + extras. */
typedef struct algo_fold {
  int32_t power, extras; /* power + extras = size */
  int steps;             /* log2 power */
} algo_fold_t;

algo_fold_t algo_fold_of(int32_t size);
bool algo_fold_is_extra(const algo_fold_t *fold, int32_t position);

/* The member at the position or whose extra is there. */
int32_t algo_fold_member(const algo_fold_t *fold, int32_t position);

/* The positions of the members [first, first + count) and their extras. first may be any integer:
 * member power + m follows member power - 1, and is at position size + (position of m). */
algo_run_t algo_fold_positions(const algo_fold_t *fold, int32_t first, int32_t count);

/* The position of a member. */
static inline int32_t algo_fold_position(const algo_fold_t *fold, int32_t member) {
  return algo_fold_positions(fold, member, 1).first;
}

/* The peer of an integer member in a step, not taken modulo power. */
int32_t algo_negabinary_peer(int32_t member, int step);

/* The members that `member` reaches by the steps step-1, …, 0: a run of 2^step. */
algo_run_t algo_negabinary_subtree(int32_t member, int step);

/* A permutation of the members, in which those that a member reaches by the steps s, s+1, … have
 * the numbers that are equal to its own in the highest s bits: recursive halving by the steps 0, 1,
 * … splits runs of numbers. */
int32_t algo_negabinary_number(const algo_fold_t *fold, int32_t member);
int32_t algo_negabinary_member(const algo_fold_t *fold, int32_t number);

#endif
