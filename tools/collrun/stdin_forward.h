/*
 * Forwards terminal input to rank 0 through a pipe. Used only if standard input is a terminal; rank
 * 0 inherits a file or a pipe directly.
 */
#ifndef COLLRUN_STDIN_FORWARD_H
#define COLLRUN_STDIN_FORWARD_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct collrun_stdin {
  int to;             /* pipe to rank 0; non-blocking; owned; -1: nothing to forward */
  char pending[4096]; /* read from the terminal, not yet written to the pipe */
  size_t begin, end;
} collrun_stdin_t;

/* The entry for poll: the pipe for writing while bytes are pending, else the terminal for reading.
 * fd is -1 while collrun is a background job, which a read would stop (SIGTTIN). */
struct pollfd collrun_stdin_pollfd(const collrun_stdin_t *input);

/* Reads or writes after poll returned an event. Closes `to` at the end of the input, or when rank 0
 * has closed the pipe. */
void collrun_stdin_forward(collrun_stdin_t *input);

void collrun_stdin_close(collrun_stdin_t *input);

#endif
