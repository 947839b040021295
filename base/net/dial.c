/* Sockets that are being connected are polled for POLLOUT, which failures set, too. */
#include "base/net/dial.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/deadline.h"
#include "base/net/socket.h"

#define NEXT_NS UINT64_C(100000000)
#define LAST_NS UINT64_C(2000000000)

/* ---- one address ----------------------------------------------------------------------------*/

int base_dial_begin_one(int type, const base_address_t *address) {
  int fd = base_socket(address->any.sa_family, type | SOCK_NONBLOCK, 0);
  if (fd < 0 || connect(fd, &address->any, address->bytes) == 0 || errno == EINPROGRESS) return fd;
  base_socket_close(fd);
  return -1;
}

/* While no server listens on a port of the ephemeral range, the kernel may choose that port as the
 * local one of a connection to it: TCP then connects the socket to itself. */
static bool is_connected_to_itself(int fd) {
  base_address_t own = {.bytes = sizeof own.room}, peer = {.bytes = sizeof peer.room};
  return getsockname(fd, &own.any, &own.bytes) == 0 &&
         getpeername(fd, &peer.any, &peer.bytes) == 0 && own.bytes == peer.bytes &&
         memcmp(&own.room, &peer.room, own.bytes) == 0;
}

int base_dial_result(int fd) {
  int error = 0;
  socklen_t bytes = sizeof error;
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0) return errno;
  return error == 0 && is_connected_to_itself(fd) ? ECONNREFUSED : error;
}

/* ---- several --------------------------------------------------------------------------------*/

void base_dial_init(base_dial_t *dial, const base_addresses_t *to, int first, uint64_t due_ns,
                    uint64_t next_ns, uint64_t last_ns) {
  *dial = (base_dial_t){
      .to = to, .first = first, .due_ns = due_ns, .next_ns = next_ns, .last_ns = last_ns};
  for (int i = 0; i < BASE_ADDRESSES_MAX; i++) dial->polled[i].fd = -1;
}

static void begin_next(base_dial_t *dial) {
  int index = dial->begun++;
  const base_address_t *address = &dial->to->at[(dial->first + index) % dial->to->count];
  int fd = base_dial_begin_one(SOCK_STREAM, address);
  dial->polled[index] = (struct pollfd){.fd = fd, .events = POLLOUT};
  dial->errors[index] = fd < 0 ? errno : 0;
  dial->open += fd >= 0;
  bool is_last = dial->begun == dial->to->count;
  dial->due_ns = base_clock_now_ns() + (is_last ? dial->last_ns : dial->next_ns);
}

static void give_up(base_dial_t *dial, int index, int error) {
  base_socket_close(dial->polled[index].fd);
  dial->polled[index].fd = -1;
  dial->errors[index] = error;
  dial->open--;
}

static int take_connected(base_dial_t *dial) {
  for (int i = 0; i < dial->to->count; i++) {
    struct pollfd *polled = &dial->polled[i];
    int fd = polled->fd;
    if (fd < 0 || polled->revents == 0) continue;
    int error = base_dial_result(fd);
    if (error == 0) {
      polled->fd = -1;
      dial->open--;
      return fd;
    }
    give_up(dial, i, error);
  }
  return -1;
}

int base_dial_continue(base_dial_t *dial) {
  bool is_due = base_clock_now_ns() >= dial->due_ns;
  /* This process may have been stopped since it polled. */
  if (is_due && dial->open > 0) (void)poll(dial->polled, (nfds_t)dial->to->count, 0);
  int fd = take_connected(dial);
  if (fd >= 0) return fd;
  if (is_due && dial->begun == dial->to->count) base_dial_end(dial);
  while (dial->begun < dial->to->count && (is_due || (dial->begun > 0 && dial->open == 0))) {
    is_due = false;
    begin_next(dial);
  }
  return -1;
}

bool base_dial_is_over(const base_dial_t *dial) {
  return dial->begun == dial->to->count && dial->open == 0;
}

void base_dial_end(base_dial_t *dial) {
  for (int i = 0; i < dial->to->count; i++) {
    if (dial->polled[i].fd >= 0) give_up(dial, i, ETIMEDOUT);
  }
  dial->begun = dial->to->count;
}

bool base_dial_may_heal(int error) {
  return error != EAFNOSUPPORT && error != EPROTONOSUPPORT && error != EINVAL;
}

static int weight_of(int error) {
  if (error == ECONNREFUSED) return 3;
  return error == 0 ? 0 : 1 + base_dial_may_heal(error);
}

int base_dial_error(const base_dial_t *dial) {
  int best = 0;
  for (int i = 0; i < dial->to->count; i++) {
    if (weight_of(dial->errors[i]) > weight_of(best)) best = dial->errors[i];
  }
  return best != 0 ? best : ETIMEDOUT;
}

int base_dial_connect(const base_addresses_t *to, int first, uint64_t deadline_ns) {
  base_dial_t dial;
  base_dial_init(&dial, to, first, 0, NEXT_NS, LAST_NS);
  int fd = base_dial_continue(&dial);
  bool is_late = false; /* what is connected by then still counts */
  while (fd < 0 && !base_dial_is_over(&dial) && !is_late && !base_cancel_is_requested()) {
    is_late = base_deadline_left_ns(deadline_ns) == 0;
    uint64_t until_ns = dial.due_ns < deadline_ns ? dial.due_ns : deadline_ns;
    (void)base_deadline_poll_any(dial.polled, (nfds_t)to->count, until_ns);
    fd = base_dial_continue(&dial);
  }
  base_dial_end(&dial);
  if (fd >= 0) {
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
  } else {
    errno = base_dial_error(&dial);
  }
  return fd;
}
