/* One buffer, filled from the terminal when empty and drained into the pipe otherwise. */
#include "tools/collrun/feed.h"

#include <errno.h>
#include <unistd.h>

void collrun_feed_close(collrun_feed_t *feed) {
  if (feed->to >= 0) close(feed->to);
  feed->to = -1;
}

struct pollfd collrun_feed_wish(const collrun_feed_t *feed) {
  if (feed->to < 0) return (struct pollfd){.fd = -1};
  if (feed->begin < feed->end) return (struct pollfd){.fd = feed->to, .events = POLLOUT};
  bool foreground = tcgetpgrp(STDIN_FILENO) == getpgrp();
  return (struct pollfd){.fd = foreground ? STDIN_FILENO : -1, .events = POLLIN};
}

void collrun_feed_move(collrun_feed_t *feed) {
  if (feed->begin == feed->end) {
    ssize_t got = read(STDIN_FILENO, feed->pending, sizeof feed->pending);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (got <= 0) {
      collrun_feed_close(feed);
      return;
    }
    feed->begin = 0;
    feed->end = (size_t)got;
  }
  ssize_t put = write(feed->to, feed->pending + feed->begin, feed->end - feed->begin);
  if (put > 0) feed->begin += (size_t)put;
  if (put < 0 && errno != EAGAIN && errno != EINTR) collrun_feed_close(feed);
}
