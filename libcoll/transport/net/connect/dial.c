/* A rank that is stopped cannot answer. Each attempt that is given up fills its host's queue of
 * connections, and a full one is silent; so attempts become longer. */
#include "transport/net/connect/dial.h"

#include <errno.h>

#include "base/clock.h"

#define CONNECT_NS UINT64_C(1000000000) /* for a host to accept a connection */
#define RETRY_NS UINT64_C(20000000)
#define UNREACHED_NS 3000000000u /* after which a peer is given up */
#define MISSES_MIN 3             /* and after so many attempts */
#define STRANGERS_MAX 100        /* then the port is no rank's any more: ranks close few callers */
#define DOUBLINGS_MAX 6          /* of the time that a peer has to answer */
#define IDLE_DOUBLINGS_MAX 8     /* of RETRY_NS, where it is not urgent */

static void start(net_dial_t *dial, uint64_t due_ns) {
  base_dial_init(&dial->round, &dial->addresses, 0, due_ns, CONNECT_NS, CONNECT_NS);
  dial->is_all_refused = dial->is_all_missed = true;
}

void net_dial_init(net_dial_t *dial, int peer, int rail, int rails, uint16_t made,
                   const net_name_t *name) {
  *dial = (net_dial_t){.attempt = {.fd = -1, .polled = -1},
                       .peer = peer,
                       .rail = rail,
                       .made = made,
                       .since_ns = base_clock_now_ns()};
  for (int i = 0; i < name->count; i++) {
    if (rails > 1 && name->addresses[i].rail != rail) continue;
    dial->addresses.at[dial->addresses.count++] = net_address_of(name, i);
  }
  start(dial, 0);
}

void net_dial_note_sign(net_dial_t *dial) {
  dial->since_ns = base_clock_now_ns();
  dial->misses = 0;
}

void net_dial_hurry(net_dial_t *dial) {
  net_dial_note_sign(dial);
  if (dial->round.begun == 0) dial->round.due_ns = 0;
}

/* ---- a round --------------------------------------------------------------------------------*/

/* Of connect. What keeps this host from making connections may pass. */
static net_failure_t failure_of(int error) {
  switch (error) {
    case ECONNREFUSED: return NET_FAILURE_REFUSED;
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case EHOSTDOWN:
    case ENETDOWN:
    case ENETUNREACH:
    case EAFNOSUPPORT:
    case EPERM:
    case EACCES: return NET_FAILURE_SILENT;
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
    case EADDRNOTAVAIL: return NET_FAILURE_LOCAL;
    default: return NET_FAILURE_OTHER;
  }
}

/* is_known: a rank has answered. */
static void note(net_dial_t *dial, net_failure_t failure, int error, bool is_known) {
  bool is_closed = failure == NET_FAILURE_OTHER && error != ETIMEDOUT;
  dial->failure = failure;
  dial->error = error;
  dial->misses++;
  dial->strangers = is_closed && !is_known ? dial->strangers + 1 : 0;
  if (failure == NET_FAILURE_OTHER) net_dial_note_sign(dial);
  dial->is_all_refused = dial->is_all_refused && failure == NET_FAILURE_REFUSED;
  dial->is_all_missed = dial->is_all_missed && failure != NET_FAILURE_OTHER;
}

void net_dial_note_failure(net_dial_t *dial) {
  note(dial, dial->attempt.failure, dial->attempt.error, dial->attempt.is_known);
}

bool net_dial_continue(net_dial_t *dial, uint16_t made, const net_identity_t *own) {
  int fd;
  while ((fd = base_dial_continue(&dial->round)) >= 0) {
    if (net_attempt_begin(&dial->attempt, fd, dial->peer, dial->rail, made, dial->unanswered,
                          own)) {
      return true;
    }
    net_dial_note_failure(dial);
  }
  for (int i = 0; i < dial->addresses.count && base_dial_is_over(&dial->round); i++) {
    int error = dial->round.errors[i];
    if (error != 0) note(dial, failure_of(error), error, false);
  }
  return false;
}

void net_dial_step_back(net_dial_t *dial) {
  net_dial_note_sign(dial);
  net_dial_close(dial);
  start(dial, base_clock_now_ns() + RETRY_NS);
}

/* ---- what came of it ------------------------------------------------------------------------*/

bool net_dial_is_unreachable(const net_dial_t *dial, uint64_t now_ns) {
  if (net_dial_is_given_up(dial)) return true;
  if (dial->is_all_refused || dial->strangers >= STRANGERS_MAX) return true;
  return dial->is_all_missed && dial->misses >= MISSES_MIN &&
         now_ns > dial->since_ns + UNREACHED_NS;
}

net_failure_t net_dial_failure(const net_dial_t *dial) {
  if (net_dial_is_given_up(dial)) return NET_FAILURE_GIVEN_UP;
  if (dial->is_all_refused || dial->strangers >= STRANGERS_MAX) return NET_FAILURE_REFUSED;
  return dial->failure == NET_FAILURE_LOCAL ? NET_FAILURE_LOCAL : NET_FAILURE_SILENT;
}

void net_dial_begin_round(net_dial_t *dial, bool is_idle, uint64_t now_ns) {
  bool was_accepted = !dial->is_all_missed;
  if (was_accepted && dial->unanswered < DOUBLINGS_MAX) dial->unanswered++;
  int doublings = dial->misses < IDLE_DOUBLINGS_MAX ? dial->misses : IDLE_DOUBLINGS_MAX;
  base_dial_end(&dial->round); /* a peer that refuses by one address is asked at no other */
  start(dial, now_ns + (is_idle ? RETRY_NS << doublings : RETRY_NS));
}

void net_dial_close(net_dial_t *dial) {
  net_attempt_close(&dial->attempt);
  base_dial_end(&dial->round);
}
