/*
 * Forwards one output stream of one rank line by line, with the rank number in front of each line.
 * An unfinished line is buffered until its end arrives, so lines of different ranks never mix.
 */
#ifndef COLLRUN_OUTPUT_FORWARD_H
#define COLLRUN_OUTPUT_FORWARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/status.h"

typedef struct collrun_output {
  int from;     /* non-blocking; owned; -1 after the end of the stream */
  FILE *to;     /* buffered; borrowed */
  bool is_lost; /* writing to `to` has failed: what the rank writes is read and dropped */
  char prefix[16];
  char *partial; /* an unfinished line */
  size_t partial_bytes, capacity;
} collrun_output_t;

/* Takes ownership of the descriptor. */
void collrun_output_open(int from, FILE *to, int rank, collrun_output_t *output);

/* Reads one block, forwards its lines and flushes. Closes the descriptor at the end of the stream,
 * and when `to` is a pipe that is closed; a rank that writes after that gets SIGPIPE. Lost standard
 * output is reported once; the job goes on. */
coll_status_t collrun_output_forward(collrun_output_t *output);

/* Forwards an unfinished last line, closes and frees. */
void collrun_output_close(collrun_output_t *output);

#endif
