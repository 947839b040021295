/* The socket has an abstract name, so that nothing is left in a file system. */
#include "tools/collrun/secret.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/net/listen.h"
#include "base/net/peer.h"
#include "base/net/socket.h"

#define RETRY_NS 10000000u /* where there are no descriptors for a caller that waits */

static coll_status_t fail_input(void) {
  return base_fail(
      COLL_ERROR_SYSTEM,
      "standard input has no secret of the job: an agent is started by collrun --hosts");
}

/* No byte behind the line is read. */
static coll_status_t read_line(base_secret_t *secret) {
  char line[BASE_SECRET_HEX_BYTES + 1];
  size_t got = 0;
  while (got < sizeof line) {
    ssize_t more = read(STDIN_FILENO, line + got, sizeof line - got);
    if (more < 0 && errno == EINTR) continue;
    if (more <= 0) return fail_input();
    got += (size_t)more;
  }
  bool good = base_secret_from_hex(line, secret) && line[BASE_SECRET_HEX_BYTES] == '\n';
  explicit_bzero(line, sizeof line);
  return good ? COLL_OK : fail_input();
}

void collrun_secret_send(const collrun_secret_t *secret, int to) {
  char line[BASE_SECRET_HEX_BYTES + 1];
  base_secret_to_hex(&secret->secret, line);
  line[BASE_SECRET_HEX_BYTES] = '\n';
  (void)!write(to, line, sizeof line); /* an agent that has ended is noticed by its exit code */
  explicit_bzero(line, sizeof line);
}

/* The kernel chooses the name. */
static coll_status_t listen_for_ranks(collrun_secret_t *secret) {
  base_address_t address = {.bytes = sizeof(sa_family_t), .local = {.sun_family = AF_UNIX}};
  secret->listener = base_listen(SOCK_STREAM, &address, 0);
  if (secret->listener < 0) {
    return base_fail_errno(COLL_ERROR_SYSTEM, "cannot listen for ranks that ask for the secret");
  }
  size_t bytes = address.bytes - offsetof(struct sockaddr_un, sun_path) - 1;
  snprintf(secret->name, sizeof secret->name, "@%.*s", (int)bytes, address.local.sun_path + 1);
  return COLL_OK;
}

coll_status_t collrun_secret_open(bool is_agent, bool starts_ranks, collrun_secret_t *secret) {
  *secret = (collrun_secret_t){.listener = -1};
  COLL_TRY(is_agent ? read_line(&secret->secret) : base_secret_create(&secret->secret));
  coll_status_t status = starts_ranks ? listen_for_ranks(secret) : COLL_OK;
  if (status != COLL_OK) collrun_secret_close(secret);
  return status;
}

/* Whether a later call may succeed: there is no room for one now. */
static bool heals(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

coll_status_t collrun_secret_serve(const collrun_secret_t *secret) {
  int fd;
  while ((fd = base_socket_accept(secret->listener)) >= 0) {
    if (base_peer_is_own_user(fd)) {
      (void)send(fd, secret->secret.bytes, sizeof secret->secret.bytes,
                 MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    base_socket_close(fd);
  }
  if (errno == EAGAIN || errno == EWOULDBLOCK) return COLL_OK;
  if (!heals(errno))
    return base_fail_errno(COLL_ERROR_SYSTEM, "cannot give ranks the job's secret");
  base_clock_sleep_ns(RETRY_NS);
  return COLL_OK;
}

void collrun_secret_close(collrun_secret_t *secret) {
  if (secret->listener >= 0) base_socket_close(secret->listener);
  base_secret_wipe(&secret->secret);
  secret->listener = -1;
}
