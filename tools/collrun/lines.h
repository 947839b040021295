/*
 * One output stream of one rank, passed on in whole lines with the rank in front. Lines of
 * different ranks never mix, since a line is kept back until its end has arrived.
 */
#ifndef COLLRUN_LINES_H
#define COLLRUN_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/status.h"

typedef struct collrun_lines {
  int from; /* non-blocking; owned; -1 once it has ended */
  FILE *to; /* buffered; borrowed */
  char prefix[16];
  char *kept; /* the beginning of a line whose end has not arrived */
  size_t kept_bytes, capacity;
} collrun_lines_t;

/* Takes over the descriptor. */
void collrun_lines_open(int from, FILE *to, int rank, collrun_lines_t *lines);

/* Passes on a block of what has arrived, and flushes. At the end of the stream, or when `to` takes
 * no more, the descriptor is closed: a rank that goes on writing is then told by SIGPIPE. */
coll_status_t collrun_lines_pump(collrun_lines_t *lines);

/* Passes on an unfinished last line, closes and frees. */
void collrun_lines_close(collrun_lines_t *lines);

#endif
