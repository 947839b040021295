/*
 * Distances, subtrees and the permutation of negabinary communication, in closed form.
 */
#include "algo/negabinary.h"

/* The bits of even and of odd weight: d(s) is the difference of both below bit s + 1. */
#define EVEN_BITS 0x55555555
#define ODD_BITS 0x2AAAAAAA

algo_fold_t algo_fold_of(int32_t size) {
  algo_fold_t fold = {.power = algo_power_below(size)};
  fold.extras = size - fold.power;
  while (1 << fold.steps < fold.power) fold.steps++;
  return fold;
}

bool algo_fold_is_extra(const algo_fold_t *fold, int32_t position) {
  return position < 2 * fold->extras && position % 2 == 1;
}

int32_t algo_fold_member(const algo_fold_t *fold, int32_t position) {
  return position < 2 * fold->extras ? position / 2 : position - fold->extras;
}

/* Of any integer member. */
static int32_t position_of(const algo_fold_t *fold, int32_t member) {
  int32_t within = algo_mod(member, fold->power), rounds = (member - within) / fold->power;
  int32_t extras_before = within < fold->extras ? within : fold->extras;
  return rounds * (fold->power + fold->extras) + within + extras_before;
}

algo_run_t algo_fold_positions(const algo_fold_t *fold, int32_t first, int32_t count) {
  int32_t begin = position_of(fold, first);
  return (algo_run_t){begin, position_of(fold, first + count) - begin};
}

static int32_t distance_of(int step) {
  int32_t below = (2 << step) - 1;
  return (EVEN_BITS & below) - (ODD_BITS & below);
}

int32_t algo_negabinary_peer(int32_t member, int step) {
  return member % 2 == 0 ? member + distance_of(step) : member - distance_of(step);
}

algo_run_t algo_negabinary_subtree(int32_t member, int step) {
  int32_t below = (1 << step) - 1;
  return (algo_run_t){member - (below & (member % 2 == 0 ? ODD_BITS : EVEN_BITS)), below + 1};
}

/* The `count` lowest bits in reverse order. */
static int32_t reverse(int32_t bits, int count) {
  int32_t reversed = 0;
  for (int i = 0; i < count; i++) reversed |= (bits >> i & 1) << (count - 1 - i);
  return reversed;
}

/* Members that a member of even number e reaches by the steps s, s+1, … are e + 2^(s+1) k and their
 * peers of the last step: the bits 1, 2, … of e in this order say in which half of a set it is. The
 * two members of the last step have adjacent numbers. */
int32_t algo_negabinary_number(const algo_fold_t *fold, int32_t member) {
  int32_t odd = member % 2, even = member;
  if (odd == 1) even = algo_mod(algo_negabinary_peer(member, fold->steps - 1), fold->power);
  return 2 * reverse(even / 2, fold->steps - 1) + odd;
}

int32_t algo_negabinary_member(const algo_fold_t *fold, int32_t number) {
  int32_t even = 2 * reverse(number / 2, fold->steps - 1);
  if (number % 2 == 0) return even;
  return algo_mod(algo_negabinary_peer(even, fold->steps - 1), fold->power);
}
