/*
 * Where the secret of a job comes from if its launcher's key-value space has none. What a launcher
 * sets in the environment is not secret, because any user of the host may be able to read it or
 * guess it, so nothing of that goes into a secret.
 */
#include <fcntl.h>
#include <netdb.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/net/handshake.h"
#include "base/net/peer.h"
#include "base/net/socket.h"
#include "bootstrap/rendezvous/rendezvous.h"
#include "bootstrap/rendezvous/secret_source.h"
#include "topo/interfaces.h"

#define FILE_BYTES_MIN 16
#define FILE_BYTES_MAX 4096
#define ANSWER_NS 60000000000u /* collrun answers when it has started all ranks */

static const base_knob_t knobs[] = {
    {.name = "COLL_AUTH_FILE",
     .kind = BASE_KNOB_TEXT,
     .fallback = "",
     .help = "file with the secret of the job, the same on all hosts, readable by its owner only: "
             "for launchers that give no secret (head -c 32 /dev/urandom | base64 >FILE)"},
    {.name = "COLL_SECRET_SOCKET",
     .kind = BASE_KNOB_TEXT,
     .fallback = "",
     .help =
         "UNIX socket (@NAME: an abstract one) at which the secret of the job is given out; set "
         "by collrun"},
    {.name = "COLL_INSECURE",
     .kind = BASE_KNOB_INTEGER,
     .fallback = "0",
     .max = 1,
     .help = "1: ranks of several hosts may do without a secret, so that anyone who reaches their "
             "ports can join"}};

enum { KNOB_FILE, KNOB_SOCKET, KNOB_INSECURE, KNOB_COUNT };

_Static_assert(sizeof knobs / sizeof knobs[0] == KNOB_COUNT, "one name per knob");

const base_knob_t *rendezvous_knob(int index) {
  return index >= 0 && index < KNOB_COUNT ? &knobs[index] : NULL;
}

/* ---- from a file ----------------------------------------------------------------------------*/

static coll_status_t check_file(const char *path, const struct stat *found) {
  if (!S_ISREG(found->st_mode)) {
    return base_fail(COLL_ERROR_INVALID, "COLL_AUTH_FILE=%s is no regular file", path);
  }
  if (found->st_uid != geteuid()) {
    return base_fail(COLL_ERROR_INVALID,
                     "COLL_AUTH_FILE=%s belongs to user %u, not to this process's user %u", path,
                     (unsigned)found->st_uid, (unsigned)geteuid());
  }
  if ((found->st_mode & 077) != 0) {
    return base_fail(COLL_ERROR_INVALID,
                     "COLL_AUTH_FILE=%s can be read or written by others (mode %03o): chmod 600 it",
                     path, (unsigned)found->st_mode & 0777);
  }
  if (found->st_size < FILE_BYTES_MIN || found->st_size > FILE_BYTES_MAX) {
    return base_fail(COLL_ERROR_INVALID,
                     "COLL_AUTH_FILE=%s has %lld bytes: it should have %d to %d", path,
                     (long long)found->st_size, FILE_BYTES_MIN, FILE_BYTES_MAX);
  }
  return COLL_OK;
}

static coll_status_t read_file(const char *path, base_secret_t *secret) {
  char text[FILE_BYTES_MAX];
  struct stat found;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO would wait for a writer */
  if (fd < 0) return base_fail_errno(COLL_ERROR_INVALID, "COLL_AUTH_FILE=%s cannot be read", path);
  coll_status_t status =
      fstat(fd, &found) == 0
          ? check_file(path, &found)
          : base_fail_errno(COLL_ERROR_SYSTEM, "COLL_AUTH_FILE=%s cannot be read", path);
  ssize_t bytes = status == COLL_OK ? read(fd, text, sizeof text) : -1;
  if (status == COLL_OK && bytes != (ssize_t)found.st_size) {
    status = base_fail(COLL_ERROR_SYSTEM, "COLL_AUTH_FILE=%s changes while it is read", path);
  }
  close(fd);
  if (status != COLL_OK) return status;
  status = base_secret_of_text(text, (size_t)bytes, secret);
  explicit_bzero(text, sizeof text);
  return status;
}

/* ---- from collrun ---------------------------------------------------------------------------*/

/* @NAME: an abstract name. */
static coll_status_t dial(const char *path, int *fd) {
  struct sockaddr_un to = {.sun_family = AF_UNIX};
  if (strlen(path) >= sizeof to.sun_path) {
    return base_fail(COLL_ERROR_INVALID, "COLL_SECRET_SOCKET=%s is too long a path", path);
  }
  size_t bytes = strlen(path);
  memcpy(to.sun_path, path, bytes);
  if (path[0] == '@') to.sun_path[0] = '\0';
  int made = base_socket(AF_UNIX, SOCK_STREAM, 0);
  if (made < 0) return base_fail_errno(COLL_ERROR_SYSTEM, "no socket for the secret of the job");
  if (connect(made, (struct sockaddr *)&to,
              (socklen_t)(offsetof(struct sockaddr_un, sun_path) + bytes)) != 0) {
    coll_status_t status = base_fail_errno(
        COLL_ERROR_SYSTEM, "COLL_SECRET_SOCKET=%s: collrun does not answer there", path);
    base_socket_close(made);
    return status;
  }
  if (base_peer_is_own_user(made)) {
    *fd = made;
    return COLL_OK;
  }
  base_socket_close(made);
  return base_fail(COLL_ERROR_INVALID, "COLL_SECRET_SOCKET=%s is another user's", path);
}

static coll_status_t ask(const char *path, base_secret_t *secret) {
  int fd = -1;
  uint64_t deadline_ns = base_clock_now_ns() + ANSWER_NS;
  COLL_TRY(dial(path, &fd));
  bool is_given = wire_recv(fd, secret->bytes, sizeof secret->bytes, deadline_ns);
  base_socket_close(fd);
  if (is_given) return COLL_OK;
  return base_fail(COLL_ERROR_SYSTEM, "COLL_SECRET_SOCKET=%s: collrun gave no secret", path);
}

/* ---- without one ----------------------------------------------------------------------------*/

int rendezvous_stays_on_host(const char *host, bool *stays) {
  struct addrinfo *found, hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
  *stays = true;
  int error = getaddrinfo(host, NULL, &hints, &found);
  if (error != 0) return error;
  for (const struct addrinfo *each = found; each != NULL; each = each->ai_next) {
    *stays = *stays && topo_address_is_loopback(each->ai_addr);
  }
  freeaddrinfo(found);
  return 0;
}

coll_status_t rendezvous_is_guarded(const rendezvous_address_t *address, bool *is_guarded) {
  int64_t insecure;
  COLL_TRY(base_knob_integer(&knobs[KNOB_INSECURE], &insecure));
  *is_guarded = insecure == 1 || !base_secret_is_none(&address->secret);
  return COLL_OK;
}

static coll_status_t go_without(const rendezvous_address_t *address) {
  const char *host = address->host;
  bool is_insecure, stays;
  COLL_TRY(rendezvous_is_guarded(address, &is_insecure));
  if (is_insecure) return COLL_OK;
  /* A name that is not known yet will be that of another host. */
  if (rendezvous_stays_on_host(host, &stays) == 0 && stays) return COLL_OK;
  COLL_TRY(base_handshake_check_hosts());
  return base_fail(COLL_ERROR_INVALID,
                   "the ranks meet at %s, which other hosts reach, but have no secret that keeps "
                   "strangers out: start them with collrun, or set COLL_AUTH_FILE to a file with "
                   "the same random text on all hosts (mode 600), or COLL_INSECURE=1",
                   host);
}

coll_status_t rendezvous_secret_has_file(bool *has_file) {
  const char *file;
  COLL_TRY(base_knob_text(&knobs[KNOB_FILE], &file));
  *has_file = file[0] != '\0';
  return COLL_OK;
}

coll_status_t rendezvous_secret_find(rendezvous_address_t *address) {
  const char *file, *path;
  if (!base_secret_is_none(&address->secret)) return COLL_OK;
  COLL_TRY(base_knob_text(&knobs[KNOB_FILE], &file));
  COLL_TRY(base_knob_text(&knobs[KNOB_SOCKET], &path));
  if (file[0] != '\0') return read_file(file, &address->secret);
  if (path[0] != '\0') return ask(path, &address->secret);
  return go_without(address);
}

void rendezvous_purpose(const rendezvous_address_t *address,
                        char purpose[RENDEZVOUS_PURPOSE_BYTES]) {
  snprintf(purpose, RENDEZVOUS_PURPOSE_BYTES, "rendezvous %016llx",
           (unsigned long long)address->job);
}
