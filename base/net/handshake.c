/* Messages are so small that the buffer of a new socket has room for them. */
#include "base/net/handshake.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/deadline.h"
#include "base/net/handshake_proof.h"

static const char magic[] = BASE_HANDSHAKE_MAGIC, retry[] = "collwait";

#define MAGIC_BYTES BASE_HANDSHAKE_MAGIC_BYTES
#define NONCE_BYTES BASE_HANDSHAKE_NONCE_BYTES
#define HELLO_BYTES (MAGIC_BYTES + NONCE_BYTES)
#define ANSWER_BYTES (HELLO_BYTES + BASE_SECRET_BYTES)

_Static_assert(sizeof((base_handshake_t *)NULL)->input == ANSWER_BYTES, "the longest message fits");

static bool send_all(int fd, const void *data, size_t bytes) {
  return send(fd, data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)bytes;
}

base_handshake_state_t base_handshake_begin_caller(base_handshake_t *h, int fd,
                                                   const base_secret_t *secret,
                                                   const char *purpose) {
  uint8_t hello[HELLO_BYTES];
  *h = (base_handshake_t){.secret = secret, .purpose = purpose};
  if (!base_handshake_is_for(fd)) return BASE_HANDSHAKE_REFUSED;
  if (!base_handshake_draw(h)) return BASE_HANDSHAKE_CLOSED;
  memcpy(hello, magic, MAGIC_BYTES);
  memcpy(hello + MAGIC_BYTES, h->own, NONCE_BYTES);
  return send_all(fd, hello, sizeof hello) ? BASE_HANDSHAKE_UNDER_WAY : BASE_HANDSHAKE_CLOSED;
}

void base_handshake_begin_listener(base_handshake_t *h, const base_secret_t *secret,
                                   const char *purpose) {
  *h = (base_handshake_t){.is_listener = true, .secret = secret, .purpose = purpose};
}

static void send_answer(const char *mark, int fd) {
  uint8_t answer[ANSWER_BYTES] = {0};
  memcpy(answer, mark, MAGIC_BYTES);
  (void)send_all(fd, answer, sizeof answer);
}

void base_handshake_decline(const base_handshake_t *h, int fd) {
  if (!h->has_answered) send_answer(retry, fd);
}

/* ---- what has arrived -----------------------------------------------------------------------*/

/* Whether the message is of this protocol: UNDER_WAY if so. */
static base_handshake_state_t check_magic(const base_handshake_t *h) {
  if (memcmp(h->input, magic, MAGIC_BYTES) == 0) return BASE_HANDSHAKE_UNDER_WAY;
  if (!h->is_listener && memcmp(h->input, retry, MAGIC_BYTES) == 0) return BASE_HANDSHAKE_RETRY;
  bool is_other = memcmp(h->input, magic, 5) == 0;
  return is_other ? BASE_HANDSHAKE_VERSION : BASE_HANDSHAKE_REFUSED;
}

static base_handshake_state_t take_hello(base_handshake_t *h, int fd) {
  uint8_t answer[ANSWER_BYTES];
  if (!base_handshake_is_for(fd)) return BASE_HANDSHAKE_REFUSED;
  base_handshake_state_t state = check_magic(h);
  if (state == BASE_HANDSHAKE_VERSION) send_answer(magic, fd);
  if (state != BASE_HANDSHAKE_UNDER_WAY) return state;
  memcpy(h->peer, h->input + MAGIC_BYTES, NONCE_BYTES);
  if (!base_handshake_draw(h)) return BASE_HANDSHAKE_CLOSED;
  memcpy(answer, magic, MAGIC_BYTES);
  memcpy(answer + MAGIC_BYTES, h->own, NONCE_BYTES);
  base_handshake_prove(h, true, answer + HELLO_BYTES);
  h->has_answered = true;
  return send_all(fd, answer, sizeof answer) ? BASE_HANDSHAKE_UNDER_WAY : BASE_HANDSHAKE_CLOSED;
}

static base_handshake_state_t take_answer(base_handshake_t *h, int fd) {
  uint8_t proof[BASE_SECRET_BYTES];
  base_handshake_state_t state = check_magic(h);
  if (state != BASE_HANDSHAKE_UNDER_WAY) return state;
  memcpy(h->peer, h->input + MAGIC_BYTES, NONCE_BYTES);
  h->is_other = !base_handshake_is_proven(h, true, h->input + HELLO_BYTES);
  if (h->is_other) return BASE_HANDSHAKE_REFUSED;
  h->is_proven = true;
  base_handshake_prove(h, false, proof);
  return send_all(fd, proof, sizeof proof) ? BASE_HANDSHAKE_DONE : BASE_HANDSHAKE_CLOSED;
}

static base_handshake_state_t take(base_handshake_t *h, int fd) {
  h->received = 0;
  if (!h->is_listener) return take_answer(h, fd);
  if (!h->has_answered) return take_hello(h, fd);
  return base_handshake_is_proven(h, false, h->input) ? BASE_HANDSHAKE_DONE
                                                      : BASE_HANDSHAKE_REFUSED;
}

static size_t expected_bytes(const base_handshake_t *h) {
  if (!h->is_listener) return ANSWER_BYTES;
  return h->has_answered ? BASE_SECRET_BYTES : HELLO_BYTES;
}

base_handshake_state_t base_handshake_continue(base_handshake_t *h, int fd) {
  base_handshake_state_t state = BASE_HANDSHAKE_UNDER_WAY;
  while (state == BASE_HANDSHAKE_UNDER_WAY) {
    size_t left = expected_bytes(h) - h->received;
    ssize_t got = recv(fd, h->input + h->received, left, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return state;
    if (got <= 0) return BASE_HANDSHAKE_CLOSED;
    h->received += (size_t)got;
    if ((size_t)got == left) state = take(h, fd);
  }
  return state;
}

base_handshake_state_t base_handshake_finish(base_handshake_t *h, int fd, uint64_t deadline_ns) {
  base_handshake_state_t state = base_handshake_continue(h, fd);
  while (state == BASE_HANDSHAKE_UNDER_WAY) {
    if (!base_deadline_poll(fd, POLLIN, deadline_ns)) return BASE_HANDSHAKE_CLOSED;
    state = base_handshake_continue(h, fd);
  }
  return state;
}
