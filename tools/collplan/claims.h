/* What the papers state of the algorithms: rounds and bytes as formulas (formula.h). */
#ifndef COLLPLAN_CLAIMS_H
#define COLLPLAN_CLAIMS_H

#include <coll.h>

/* Variables: S bytes of the largest buffer of a rank; p ranks; P the largest power of two up to p;
 * H hosts, m ranks of the smallest host; X, Y, Z extents of the grid, X the last one. A formula is
 * NULL where the paper has none that holds for the layout. */
typedef struct claim {
  coll_collective_t collective;
  const char *algorithm;
  const char *layouts; /* "12 hosts:8x8": numbers of ranks without a layout, and layouts */
  const char *rounds;  /* rounds.h */
  const char *sent;    /* bytes, traffic.h */
  const char *slow;    /* bytes over the slowest links, with a layout */
} claim_t;

/* NULL past the last. */
const claim_t *claim_at(int index);

#endif
