/*
 * Settings that determine plans or results: all ranks of a communicator have equal values, which
 * are compared when it is created or split from another one.
 */
#ifndef COMM_AGREED_H
#define COMM_AGREED_H

#include <coll.h>
#include <stdint.h>

typedef struct comm_agreed {
  int32_t reproducible; /* COLL_REPRODUCIBLE: 0 or 1 */
  uint64_t layout;      /* digest of the layout that COLL_TOPO_FILE gives, and of whether its
                           links are paced; 0 without a file */
  uint64_t algorithms;  /* digest of those that COLL_ALGO forces */
} comm_agreed_t;

/* COLL_ERROR_MISMATCH, which names the setting and both ranks: theirs differ. rank: this one. */
coll_status_t comm_agreed_compare(int rank, int first, const comm_agreed_t *ones, int other,
                                  const comm_agreed_t *others);

#endif
