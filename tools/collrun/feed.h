/*
 * What is typed at the terminal, carried to rank 0. Used only when standard input is a terminal; a
 * file or a pipe is inherited by rank 0 as it is.
 */
#ifndef COLLRUN_FEED_H
#define COLLRUN_FEED_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct collrun_feed {
  int to;             /* non-blocking; owned; -1 when there is nothing to feed */
  char pending[4096]; /* read, not yet taken by rank 0 */
  size_t begin, end;
} collrun_feed_t;

/* What to poll for now: room at rank 0 while something is pending, else what is typed. fd is -1
 * while collrun is in the background, where a read would stop it. */
struct pollfd collrun_feed_wish(const collrun_feed_t *feed);

/* Moves bytes after that poll said so. Closes `to` at the end of the input or when rank 0 is gone.
 */
void collrun_feed_move(collrun_feed_t *feed);

void collrun_feed_close(collrun_feed_t *feed);

#endif
