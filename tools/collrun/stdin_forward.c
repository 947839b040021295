/* One buffer: filled from the terminal when it is empty, written to the pipe otherwise. */
#include "tools/collrun/stdin_forward.h"

#include <errno.h>
#include <unistd.h>

void collrun_stdin_close(collrun_stdin_t *input) {
  if (input->to >= 0) close(input->to);
  input->to = -1;
}

struct pollfd collrun_stdin_pollfd(const collrun_stdin_t *input) {
  if (input->to < 0) return (struct pollfd){.fd = -1};
  if (input->begin < input->end) return (struct pollfd){.fd = input->to, .events = POLLOUT};
  bool foreground = tcgetpgrp(STDIN_FILENO) == getpgrp();
  return (struct pollfd){.fd = foreground ? STDIN_FILENO : -1, .events = POLLIN};
}

void collrun_stdin_forward(collrun_stdin_t *input) {
  if (input->begin == input->end) {
    ssize_t got = read(STDIN_FILENO, input->pending, sizeof input->pending);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (got <= 0) {
      collrun_stdin_close(input);
      return;
    }
    input->begin = 0;
    input->end = (size_t)got;
  }
  ssize_t put = write(input->to, input->pending + input->begin, input->end - input->begin);
  if (put > 0) input->begin += (size_t)put;
  if (put < 0 && errno != EAGAIN && errno != EINTR) collrun_stdin_close(input);
}
