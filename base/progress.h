/*
 * A progress bar on a terminal; plain lines now and then elsewhere. Goes to standard error, so
 * that standard output stays clean.
 */
#ifndef BASE_PROGRESS_H
#define BASE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct base_progress {
  const char *label; /* "train"; the caller keeps it alive */
  double total;      /* what `done` runs up to, any unit */
  bool terminal;     /* redraws one line; else a new line at most every plain_every_ns */
  bool shown;        /* there is a bar on the screen to be ended */
  uint64_t started_ns, drawn_ns, plain_every_ns;
} base_progress_t;

/* Starts the clock. total > 0. */
void base_progress_begin(base_progress_t *progress, const char *label, double total);

/* Shows done/total, elapsed and remaining time and `note` ("loss 2.31  12k tokens/s"). Cheap
 * enough for every step: draws at most ten times a second. */
void base_progress_update(base_progress_t *progress, double done, const char *note);

/* Draws the last state whatever the time and ends the line. */
void base_progress_end(base_progress_t *progress, double done, const char *note);

#endif
