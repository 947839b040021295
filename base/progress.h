/*
 * A progress bar on a terminal; plain lines at intervals elsewhere. It is written to standard
 * error, so that standard output contains only results.
 */
#ifndef BASE_PROGRESS_H
#define BASE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct base_progress {
  const char *label; /* "train"; the caller keeps it alive */
  double total;      /* final value of `done`, in any unit */
  bool terminal;     /* redraws one line; otherwise prints a line at most every plain_every_ns */
  bool shown;        /* a bar is on the screen and must be ended */
  uint64_t started_ns, drawn_ns, plain_every_ns;
} base_progress_t;

/* Starts the clock. total > 0. */
void base_progress_begin(base_progress_t *progress, const char *label, double total);

/* Shows done/total, elapsed and remaining time and `note` ("loss 2.31 12k tokens/s"). Cheap enough
 * to call in every step: draws at most ten times a second. */
void base_progress_update(base_progress_t *progress, double done, const char *note);

/* Draws the last state regardless of the interval, and ends the line. */
void base_progress_end(base_progress_t *progress, double done, const char *note);

#endif
