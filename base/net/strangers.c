/* Processes of ours send the handshake as soon as they are connected and answer at once; so those
 * that have sent nothing are the first to go. */
#include "base/net/strangers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/net/socket.h"

#define SILENT_NS 20000000u     /* without a word, after which one may be hung up on */
#define UNPROVEN_NS 1000000000u /* the same without a proof */
#define RETRY_NS 20000000u      /* between looks for room */

struct base_stranger {
  int fd;
  uint64_t since_ns;
  base_handshake_t handshake;
};

coll_status_t base_strangers_init(base_strangers_t *s) {
  return base_alloc((size_t)s->max, sizeof *s->callers, "callers", (void **)&s->callers);
}

static void hang_up(const base_strangers_t *s, const base_stranger_t *caller) {
  base_handshake_decline(&caller->handshake, caller->fd);
  if (caller->handshake.has_answered && s->retry_bytes > 0) {
    (void)send(caller->fd, s->retry, s->retry_bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  base_socket_close(caller->fd);
}

/* The first that may be hung up on; -1: none. */
static int find_oldest(const base_strangers_t *s, uint64_t now_ns) {
  for (int i = 0; i < s->count; i++) {
    const base_stranger_t *caller = &s->callers[i];
    uint64_t allowed_ns = caller->handshake.has_answered ? UNPROVEN_NS : SILENT_NS;
    if (now_ns > caller->since_ns + allowed_ns) return i;
  }
  return -1;
}

static bool is_full(const base_strangers_t *s) {
  return s->count + s->others >= s->max;
}

/* False: there is none that may be. */
static bool hang_up_on_oldest(base_strangers_t *s, uint64_t now_ns) {
  int index = find_oldest(s, now_ns);
  if (index < 0) return false;
  base_stranger_t *caller = &s->callers[index];
  hang_up(s, caller);
  s->count--;
  memmove(caller, caller + 1, (size_t)(s->count - index) * sizeof *caller);
  return true;
}

static uint64_t earlier_of(uint64_t a, uint64_t b) {
  return a < b ? a : b;
}

int base_strangers_poll(base_strangers_t *s, int others, struct pollfd polled[], uint64_t *due_ns) {
  uint64_t now_ns = base_clock_now_ns();
  s->others = others;
  bool has_room = !is_full(s) || find_oldest(s, now_ns) >= 0;
  bool accepts = has_room && now_ns >= s->accept_ns;
  if (s->listener >= 0 && !accepts) {
    *due_ns = earlier_of(*due_ns, has_room ? s->accept_ns : now_ns + RETRY_NS);
  }
  polled[0] = (struct pollfd){.fd = accepts ? s->listener : -1, .events = POLLIN};
  for (int i = 0; i < s->count; i++) {
    const base_stranger_t *caller = &s->callers[i];
    polled[1 + i] = (struct pollfd){.fd = caller->fd, .events = POLLIN};
    if (s->limit_ns != UINT64_MAX) *due_ns = earlier_of(*due_ns, caller->since_ns + s->limit_ns);
  }
  return 1 + s->count;
}

/* False: it is no stranger any more. What has arrived counts also where it is late: this process
 * may have been stopped. */
static bool serve_one(base_strangers_t *s, base_stranger_t *caller, bool is_late) {
  base_handshake_state_t state = base_handshake_continue(&caller->handshake, caller->fd);
  if (state == BASE_HANDSHAKE_UNDER_WAY && !is_late) return true;
  if (state == BASE_HANDSHAKE_UNDER_WAY) {
    hang_up(s, caller);
  } else if (state == BASE_HANDSHAKE_DONE) {
    s->others++;
    s->admit(s->owner, caller->fd);
  } else {
    base_socket_close(caller->fd);
  }
  return false;
}

/* One at a time: where there is no descriptor left, accept4(2) says so also if nobody calls. */
static void accept_one(base_strangers_t *s) {
  uint64_t now_ns = base_clock_now_ns();
  if (is_full(s) && !hang_up_on_oldest(s, now_ns)) return;
  int fd = base_socket_accept(s->listener);
  s->error = fd >= 0 || errno == EAGAIN ? 0 : errno;
  bool pauses = s->error != 0 && !hang_up_on_oldest(s, now_ns);
  s->accept_ns = pauses ? now_ns + RETRY_NS : 0;
  if (fd < 0) return;
  base_stranger_t *caller = &s->callers[s->count++];
  *caller = (base_stranger_t){.fd = fd, .since_ns = now_ns};
  base_handshake_begin_listener(&caller->handshake, s->secret, s->purpose);
}

void base_strangers_serve(base_strangers_t *s, const struct pollfd polled[]) {
  uint64_t now_ns = base_clock_now_ns();
  int count = s->count;
  s->count = 0;
  for (int i = 0; i < count; i++) {
    base_stranger_t *caller = &s->callers[i];
    bool is_late = now_ns - caller->since_ns >= s->limit_ns;
    if ((polled[1 + i].revents != 0 || is_late) && !serve_one(s, caller, is_late)) continue;
    int index = s->count++;
    if (index != i) s->callers[index] = *caller;
  }
  if (polled[0].revents != 0) accept_one(s);
}

void base_strangers_close(base_strangers_t *s) {
  if (s->listener >= 0) base_socket_close(s->listener);
  for (int i = 0; i < s->count; i++) hang_up(s, &s->callers[i]);
  free(s->callers);
  s->callers = NULL;
  s->count = 0;
  s->listener = -1;
}
