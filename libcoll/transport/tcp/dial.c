/* A rank that is stopped cannot answer. Each attempt that is given up fills its host's queue of
 * connections, and a full one is silent; so attempts become longer. */
#include "transport/tcp/dial.h"

#include <errno.h>

#include "base/clock.h"

#define RETRY_NS UINT64_C(20000000)
#define UNREACHED_NS 3000000000u /* after which a peer is given up */
#define MISSES_MIN 3             /* and after so many attempts */
#define STRANGERS_MAX 100        /* then the port is no rank's any more: ranks close few callers */
#define DOUBLINGS_MAX 6          /* of the time that a peer has to answer */
#define IDLE_DOUBLINGS_MAX 8     /* of RETRY_NS, where it is not urgent */

/* The next address of the rail behind `index`. The only rail of a pair uses all. */
static int next_address(const tcp_dial_t *dial, const tcp_name_t *name, int index) {
  do {
    index = (index + 1) % name->count;
  } while (dial->rails > 1 && name->addresses[index].rail != dial->rail);
  return index;
}

static int first_address(const tcp_dial_t *dial, const tcp_name_t *name) {
  return next_address(dial, name, name->count - 1);
}

void tcp_dial_init(tcp_dial_t *dial, int peer, int rail, int rails, uint16_t made,
                   const tcp_name_t *name) {
  *dial = (tcp_dial_t){.attempt = {.fd = -1},
                       .peer = peer,
                       .rail = rail,
                       .rails = rails,
                       .made = made,
                       .since_ns = base_clock_now_ns(),
                       .is_all_refused = true,
                       .is_all_missed = true};
  dial->address = first_address(dial, name);
}

bool tcp_dial_begin(tcp_dial_t *dial, uint16_t made, const tcp_name_t *name) {
  return tcp_attempt_begin(&dial->attempt, dial->peer, dial->rail, made, name, dial->address,
                           dial->unanswered);
}

void tcp_dial_note_sign(tcp_dial_t *dial) {
  dial->since_ns = base_clock_now_ns();
  dial->misses = 0;
}

void tcp_dial_hurry(tcp_dial_t *dial) {
  tcp_dial_note_sign(dial);
  dial->resume_ns = 0;
}

bool tcp_dial_note_failure(tcp_dial_t *dial, const tcp_name_t *name, uint64_t now_ns) {
  tcp_failure_t failure = dial->attempt.failure;
  bool is_closed = failure == TCP_FAILURE_OTHER && dial->attempt.error != ETIMEDOUT;
  dial->misses++;
  dial->strangers = is_closed && !dial->attempt.is_known ? dial->strangers + 1 : 0;
  if (failure == TCP_FAILURE_OTHER) tcp_dial_note_sign(dial);
  dial->is_all_refused = dial->is_all_refused && failure == TCP_FAILURE_REFUSED;
  dial->is_all_missed = dial->is_all_missed && failure != TCP_FAILURE_OTHER;
  dial->address = next_address(dial, name, dial->address);
  dial->resume_ns = now_ns + RETRY_NS;
  return dial->address == first_address(dial, name);
}

void tcp_dial_step_back(tcp_dial_t *dial) {
  tcp_dial_note_sign(dial);
  tcp_attempt_close(&dial->attempt);
  dial->resume_ns = base_clock_now_ns() + RETRY_NS;
}

bool tcp_dial_is_unreachable(const tcp_dial_t *dial, uint64_t now_ns) {
  if (dial->is_all_refused || dial->strangers >= STRANGERS_MAX) return true;
  return dial->is_all_missed && dial->misses >= MISSES_MIN &&
         now_ns > dial->since_ns + UNREACHED_NS;
}

tcp_failure_t tcp_dial_failure(const tcp_dial_t *dial) {
  if (dial->is_all_refused || dial->strangers >= STRANGERS_MAX) return TCP_FAILURE_REFUSED;
  return dial->attempt.failure == TCP_FAILURE_LOCAL ? TCP_FAILURE_LOCAL : TCP_FAILURE_SILENT;
}

void tcp_dial_begin_round(tcp_dial_t *dial, bool is_idle, uint64_t now_ns) {
  bool was_accepted = !dial->is_all_missed;
  if (was_accepted && dial->unanswered < DOUBLINGS_MAX) dial->unanswered++;
  dial->is_all_refused = dial->is_all_missed = true;
  int doublings = dial->misses < IDLE_DOUBLINGS_MAX ? dial->misses : IDLE_DOUBLINGS_MAX;
  if (is_idle) dial->resume_ns = now_ns + (RETRY_NS << doublings);
}
