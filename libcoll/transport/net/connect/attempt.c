/* Notes are so small that the buffer of a new socket has room for them. */
#include "transport/net/connect/attempt.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include "base/clock.h"
#include "base/net/socket.h"

#define MAGIC \
  UINT64_C(0x35706374636c6c31)        /* changes with frames; differs in the other byte order */
#define REPLY_NS UINT64_C(3000000000) /* for a rank to answer */
#define CONFIRM_NS 30000000000u       /* the same, if it ends the connection when it gives up */

enum { NOTE_HELLO = 1, NOTE_REPLY, NOTE_CONFIRM, NOTE_REFUSAL };

/* ---- failures -------------------------------------------------------------------------------*/

void net_attempt_close(net_attempt_t *attempt) {
  if (attempt->fd >= 0) base_socket_close(attempt->fd);
  attempt->fd = -1;
}

static net_handshake_progress_t fail(net_attempt_t *attempt, net_failure_t failure, int error) {
  net_attempt_close(attempt);
  attempt->failure = failure;
  attempt->error = error;
  return NET_HANDSHAKE_FAILED;
}

/* ---- notes ----------------------------------------------------------------------------------*/

static bool send_note(const net_attempt_t *attempt, const net_identity_t *own, int kind) {
  const net_handshake_note_t note = {.magic = MAGIC,
                                     .session = own->session,
                                     .rank = own->rank,
                                     .kind = (uint8_t)kind,
                                     .rail = (uint8_t)attempt->rail,
                                     .made = attempt->made};
  return send(attempt->fd, &note, sizeof note, MSG_NOSIGNAL) == (ssize_t)sizeof note;
}

static void expect(net_attempt_t *attempt, int kind) {
  attempt->expects = kind;
  attempt->received = 0;
  attempt->until_ns = base_clock_now_ns() + attempt->patience_ns;
}

/* Whether the note is the next one, of a rank of this session. */
static bool is_valid(const net_attempt_t *attempt, const net_identity_t *own) {
  const net_handshake_note_t *note = &attempt->note;
  if (note->magic != MAGIC || note->session != own->session) return false;
  bool is_refusal = note->kind == NOTE_REFUSAL && attempt->expects == NOTE_REPLY;
  if (note->kind != attempt->expects && !is_refusal) return false;
  if (note->rank < 0 || note->rank >= own->size) return false;
  if (attempt->peer < 0) return note->rank != own->rank;
  return note->rank == attempt->peer && note->rail == attempt->rail;
}

static net_handshake_progress_t take_note(net_attempt_t *attempt, const net_identity_t *own) {
  if (!is_valid(attempt, own)) return fail(attempt, NET_FAILURE_REFUSED, 0);
  if (attempt->note.kind == NOTE_REFUSAL) {
    return fail(attempt, NET_FAILURE_GIVEN_UP, attempt->note.made);
  }
  attempt->peer = attempt->note.rank;
  attempt->rail = attempt->note.rail;
  if (attempt->expects == NOTE_HELLO) return NET_HANDSHAKE_HELLO;
  return attempt->expects == NOTE_REPLY ? NET_HANDSHAKE_REPLY : NET_HANDSHAKE_CONFIRM;
}

/* No more than the note is read: what follows is the transport's. */
static net_handshake_progress_t receive_note(net_attempt_t *attempt, const net_identity_t *own) {
  ssize_t got = recv(attempt->fd, (char *)&attempt->note + attempt->received,
                     sizeof attempt->note - attempt->received, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
    return NET_HANDSHAKE_NONE;
  }
  if (got <= 0) return fail(attempt, NET_FAILURE_OTHER, got < 0 ? errno : 0);
  attempt->received += (size_t)got;
  return attempt->received == sizeof attempt->note ? take_note(attempt, own) : NET_HANDSHAKE_NONE;
}

bool net_attempt_reply(net_attempt_t *attempt, const net_identity_t *own, uint16_t made,
                       uint64_t until_ns) {
  attempt->made = made;
  expect(attempt, NOTE_CONFIRM);
  attempt->until_ns = base_clock_now_ns() + CONFIRM_NS;
  if (attempt->until_ns < until_ns) attempt->until_ns = until_ns;
  return send_note(attempt, own, NOTE_REPLY);
}

/* One that is lost is repeated: the peer calls again. */
void net_attempt_refuse(net_attempt_t *attempt, const net_identity_t *own, uint16_t why) {
  attempt->made = why;
  (void)send_note(attempt, own, NOTE_REFUSAL);
}

uint16_t net_attempt_number(const net_attempt_t *attempt) {
  bool is_behind = (int16_t)(attempt->note.made - attempt->made) > 0;
  return (uint16_t)((is_behind ? attempt->note.made : attempt->made) + 1);
}

bool net_attempt_confirm(net_attempt_t *attempt, const net_identity_t *own) {
  return base_clock_now_ns() < attempt->until_ns && send_note(attempt, own, NOTE_CONFIRM);
}

/* ---- the handshake --------------------------------------------------------------------------*/

bool net_attempt_begin(net_attempt_t *attempt, int fd, int peer, int rail, uint16_t made,
                       int doublings, const net_identity_t *own) {
  int on = 1; /* the proof and the hello are sent one after the other */
  *attempt = (net_attempt_t){.fd = fd,
                             .peer = peer,
                             .rail = rail,
                             .made = made,
                             .patience_ns = REPLY_NS << doublings,
                             .until_ns = base_clock_now_ns() + (REPLY_NS << doublings)};
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (base_handshake_begin_caller(&attempt->handshake, fd, &own->secret, NET_PURPOSE) ==
      BASE_HANDSHAKE_UNDER_WAY) {
    return true;
  }
  fail(attempt, NET_FAILURE_OTHER, 0);
  return false;
}

void net_attempt_accept(net_attempt_t *attempt, int fd) {
  *attempt =
      (net_attempt_t){.fd = fd, .peer = -1, .rail = -1, .is_known = true, .patience_ns = REPLY_NS};
  expect(attempt, NOTE_HELLO);
}

/* The one that has connected says who it is once the other has proved that it is a rank. */
static net_handshake_progress_t continue_handshake(net_attempt_t *attempt,
                                                   const net_identity_t *own) {
  base_handshake_state_t state = base_handshake_continue(&attempt->handshake, attempt->fd);
  if (state == BASE_HANDSHAKE_UNDER_WAY) return NET_HANDSHAKE_NONE;
  attempt->is_known = state == BASE_HANDSHAKE_DONE;
  bool is_closed = state == BASE_HANDSHAKE_CLOSED || state == BASE_HANDSHAKE_RETRY;
  if (!attempt->is_known) {
    return fail(attempt, is_closed ? NET_FAILURE_OTHER : NET_FAILURE_REFUSED, 0);
  }
  expect(attempt, NOTE_REPLY);
  if (!send_note(attempt, own, NOTE_HELLO)) return fail(attempt, NET_FAILURE_OTHER, errno);
  return receive_note(attempt, own);
}

/* What has arrived counts also where it is late: this process may have been stopped. */
net_handshake_progress_t net_attempt_serve(net_attempt_t *attempt, const net_identity_t *own,
                                           short events) {
  net_handshake_progress_t progress = NET_HANDSHAKE_NONE;
  bool is_late = events == 0 && base_clock_now_ns() > attempt->until_ns;
  if (events != 0 || is_late) {
    progress = attempt->is_known ? receive_note(attempt, own) : continue_handshake(attempt, own);
  }
  if (progress != NET_HANDSHAKE_NONE || !is_late) return progress;
  return fail(attempt, NET_FAILURE_OTHER, ETIMEDOUT);
}
