/* A rank that is stopped cannot answer. Each attempt that is given up fills its host's queue of
 * connections, and a full one is silent; so attempts become longer. */
#include "transport/tcp/dial.h"

#include <errno.h>

#include "base/clock.h"

#define CONNECT_NS UINT64_C(1000000000) /* for a host to accept a connection */
#define RETRY_NS UINT64_C(20000000)
#define UNREACHED_NS 3000000000u /* after which a peer is given up */
#define MISSES_MIN 3             /* and after so many attempts */
#define STRANGERS_MAX 100        /* then the port is no rank's any more: ranks close few callers */
#define DOUBLINGS_MAX 6          /* of the time that a peer has to answer */
#define IDLE_DOUBLINGS_MAX 8     /* of RETRY_NS, where it is not urgent */

static void start(tcp_dial_t *dial, uint64_t due_ns) {
  base_dial_init(&dial->round, &dial->addresses, 0, due_ns, CONNECT_NS, CONNECT_NS);
  dial->is_all_refused = dial->is_all_missed = true;
}

void tcp_dial_init(tcp_dial_t *dial, int peer, int rail, int rails, uint16_t made,
                   const tcp_name_t *name) {
  *dial = (tcp_dial_t){.attempt = {.fd = -1, .polled = -1},
                       .peer = peer,
                       .rail = rail,
                       .made = made,
                       .since_ns = base_clock_now_ns()};
  for (int i = 0; i < name->count; i++) {
    if (rails > 1 && name->addresses[i].rail != rail) continue;
    dial->addresses.at[dial->addresses.count++] = tcp_address_of(name, i);
  }
  start(dial, 0);
}

void tcp_dial_note_sign(tcp_dial_t *dial) {
  dial->since_ns = base_clock_now_ns();
  dial->misses = 0;
}

void tcp_dial_hurry(tcp_dial_t *dial) {
  tcp_dial_note_sign(dial);
  if (dial->round.begun == 0) dial->round.due_ns = 0;
}

/* ---- a round --------------------------------------------------------------------------------*/

/* Of connect. What keeps this host from making connections may pass. */
static tcp_failure_t failure_of(int error) {
  switch (error) {
    case ECONNREFUSED: return TCP_FAILURE_REFUSED;
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case EHOSTDOWN:
    case ENETDOWN:
    case ENETUNREACH:
    case EAFNOSUPPORT:
    case EPERM:
    case EACCES: return TCP_FAILURE_SILENT;
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
    case EADDRNOTAVAIL: return TCP_FAILURE_LOCAL;
    default: return TCP_FAILURE_OTHER;
  }
}

/* is_known: a rank has answered. */
static void note(tcp_dial_t *dial, tcp_failure_t failure, int error, bool is_known) {
  bool is_closed = failure == TCP_FAILURE_OTHER && error != ETIMEDOUT;
  dial->failure = failure;
  dial->error = error;
  dial->misses++;
  dial->strangers = is_closed && !is_known ? dial->strangers + 1 : 0;
  if (failure == TCP_FAILURE_OTHER) tcp_dial_note_sign(dial);
  dial->is_all_refused = dial->is_all_refused && failure == TCP_FAILURE_REFUSED;
  dial->is_all_missed = dial->is_all_missed && failure != TCP_FAILURE_OTHER;
}

void tcp_dial_note_failure(tcp_dial_t *dial) {
  note(dial, dial->attempt.failure, dial->attempt.error, dial->attempt.is_known);
}

bool tcp_dial_continue(tcp_dial_t *dial, uint16_t made, const tcp_identity_t *own) {
  int fd;
  while ((fd = base_dial_continue(&dial->round)) >= 0) {
    if (tcp_attempt_begin(&dial->attempt, fd, dial->peer, dial->rail, made, dial->unanswered,
                          own)) {
      return true;
    }
    tcp_dial_note_failure(dial);
  }
  for (int i = 0; i < dial->addresses.count && base_dial_is_over(&dial->round); i++) {
    int error = dial->round.errors[i];
    if (error != 0) note(dial, failure_of(error), error, false);
  }
  return false;
}

void tcp_dial_step_back(tcp_dial_t *dial) {
  tcp_dial_note_sign(dial);
  tcp_dial_close(dial);
  start(dial, base_clock_now_ns() + RETRY_NS);
}

/* ---- what came of it ------------------------------------------------------------------------*/

bool tcp_dial_is_unreachable(const tcp_dial_t *dial, uint64_t now_ns) {
  if (dial->is_all_refused || dial->strangers >= STRANGERS_MAX) return true;
  return dial->is_all_missed && dial->misses >= MISSES_MIN &&
         now_ns > dial->since_ns + UNREACHED_NS;
}

tcp_failure_t tcp_dial_failure(const tcp_dial_t *dial) {
  if (dial->is_all_refused || dial->strangers >= STRANGERS_MAX) return TCP_FAILURE_REFUSED;
  return dial->failure == TCP_FAILURE_LOCAL ? TCP_FAILURE_LOCAL : TCP_FAILURE_SILENT;
}

void tcp_dial_begin_round(tcp_dial_t *dial, bool is_idle, uint64_t now_ns) {
  bool was_accepted = !dial->is_all_missed;
  if (was_accepted && dial->unanswered < DOUBLINGS_MAX) dial->unanswered++;
  int doublings = dial->misses < IDLE_DOUBLINGS_MAX ? dial->misses : IDLE_DOUBLINGS_MAX;
  start(dial, now_ns + (is_idle ? RETRY_NS << doublings : RETRY_NS));
}

void tcp_dial_close(tcp_dial_t *dial) {
  tcp_attempt_close(&dial->attempt);
  base_dial_end(&dial->round);
}
