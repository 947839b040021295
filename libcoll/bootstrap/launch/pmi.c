/*
 * A client of PMI-1, the line protocol between MPICH's launchers and their processes. It is spoken
 * over a descriptor that the launcher leaves open (PMI_FD), or over a connection that the process
 * makes itself (PMI_PORT, as mpiexec -pmi-port sets). What a process has put can be read by others
 * once all have been in a barrier. A process that has sent init must send finalize before it ends,
 * or the launcher ends the job.
 *
 * An MPI library that the launcher has also started for uses the same descriptor, so it is left
 * alone once MPI_Init has been called.
 *
 * Source: "PMI: A Scalable Parallel Process-Management Interface for Extreme-Scale Systems" (Balaji
 * et al., EuroMPI 2010), and the messages that Hydra 4 and Slurm 22 send.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/deadline.h"
#include "base/fork.h"
#include "base/text.h"
#include "bootstrap/launch/launch.h"
#include "bootstrap/rendezvous/dialer.h"

#define LINE_BYTES 2048 /* a value has at most 1024 */

static struct pmi {
  int fd;    /* 0: not connected */
  pid_t pid; /* of the process that has sent init; forked children have not */
  int rank, size;
  char space[LAUNCH_TEXT_BYTES];
  bool by_port; /* fd was made by this process, not inherited from the launcher */
} pmi;

/* base/net/socket.h closes a connection of the parent in a child. */
static void forget(void) {
  if (pmi.by_port) pmi.fd = 0;
}
BASE_FORK_PART(NULL, forget);

/* ---- lines ----------------------------------------------------------------------------------*/

/* The value of a name in "cmd=put_result rc=0 msg=success". False: there is none, or it is too long
 * for the text. */
static bool find_value(const char *line, const char *name, char *text, size_t bytes) {
  size_t name_bytes = strlen(name);
  for (const char *at = line; *at != '\0'; at += strspn(at, " ")) {
    size_t length = strcspn(at, " \n");
    if (length > name_bytes && strncmp(at, name, name_bytes) == 0 && at[name_bytes] == '=') {
      size_t value_bytes = length - name_bytes - 1;
      if (value_bytes >= bytes) return false;
      memcpy(text, at + name_bytes + 1, value_bytes);
      text[value_bytes] = '\0';
      return true;
    }
    at += length;
    if (*at == '\n') break;
  }
  return false;
}

static bool find_number(const char *line, const char *name, int *number) {
  char text[24];
  int64_t value;
  if (!find_value(line, name, text, sizeof text)) return false;
  if (!base_text_integer(text, INT32_MIN, INT32_MAX, &value)) return false;
  *number = (int)value;
  return true;
}

static coll_status_t fail_connection(void) {
  return base_fail_errno(COLL_ERROR_SYSTEM,
                         "the launcher's PMI connection (descriptor %d) is broken", pmi.fd);
}

static coll_status_t send_line(const char *line) {
  for (size_t sent = 0, bytes = strlen(line); sent < bytes;) {
    ssize_t more = send(pmi.fd, line + sent, bytes - sent, MSG_NOSIGNAL);
    if (more < 0 && errno != EINTR) return fail_connection();
    if (more > 0) sent += (size_t)more;
  }
  return COLL_OK;
}

/* Byte by byte, because what follows the line may be for somebody else. */
static coll_status_t receive_line(uint64_t deadline_ns, char line[LINE_BYTES]) {
  for (size_t got = 0; got < LINE_BYTES - 1;) {
    if (!base_deadline_poll(pmi.fd, POLLIN, deadline_ns)) return COLL_ERROR_TIMEOUT;
    ssize_t more = read(pmi.fd, line + got, 1);
    if (more == 0) errno = ECONNRESET;
    if (more == 0 || (more < 0 && errno != EINTR)) return fail_connection();
    if (more > 0) got++;
    line[got] = '\0';
    if (got > 0 && line[got - 1] == '\n') return COLL_OK;
  }
  return base_fail(COLL_ERROR_SYSTEM, "the launcher sends a PMI line of more than %d bytes",
                   LINE_BYTES - 1);
}

static coll_status_t fail_answer(const char *answer, const char *line) {
  return base_fail(COLL_ERROR_SYSTEM, "the launcher's PMI answered '%.*s' in place of cmd=%s",
                   (int)strcspn(line, "\n"), line, answer);
}

/* Sends a request and receives the answer, whose command is `answer`. COLL_ERROR_TIMEOUT: sets no
 * message. */
static coll_status_t ask(const char *request, const char *answer, uint64_t deadline_ns,
                         char line[LINE_BYTES]) {
  char command[64];
  int rc = 0;
  COLL_TRY(send_line(request));
  COLL_TRY(receive_line(deadline_ns, line));
  bool is_right = find_value(line, "cmd", command, sizeof command) && strcmp(command, answer) == 0;
  if (!is_right || (find_number(line, "rc", &rc) && rc != 0)) return fail_answer(answer, line);
  return COLL_OK;
}

static coll_status_t fail_late(coll_status_t status, const char *what) {
  if (status != COLL_ERROR_TIMEOUT) return status;
  return base_fail(status, "rank %d: the launcher's PMI did not answer in time to %s", pmi.rank,
                   what);
}

/* ---- connecting -----------------------------------------------------------------------------*/

static void finalize(void) {
  char line[LINE_BYTES];
  /* MPI_Finalize says it itself. */
  if (pmi.pid != getpid() || launch_mpi() == LAUNCH_MPI_INITIALIZED) return;
  (void)ask("cmd=finalize\n", "finalize_ack", base_clock_now_ns() + 1000000000u, line);
}

static coll_status_t dial(const char *at, uint64_t deadline_ns) {
  char host[256], who[DIALER_TEXT_BYTES];
  const char *colon = strrchr(at, ':');
  int64_t port;
  if (colon == NULL || colon == at || (size_t)(colon - at) >= sizeof host ||
      !base_text_integer(colon + 1, 1, UINT16_MAX, &port)) {
    return base_fail(COLL_ERROR_INVALID, "PMI_PORT=%s: the launcher should set HOST:PORT", at);
  }
  memcpy(host, at, (size_t)(colon - at));
  host[colon - at] = '\0';
  snprintf(who, sizeof who, "PMI_PORT=%s: waits for the launcher", at);
  dialer_t dialer = dialer_begin(NULL, host, (uint16_t)port, who);
  coll_status_t status = dialer_connect(&dialer, deadline_ns, &pmi.fd);
  pmi.by_port = status == COLL_OK;
  if (status == COLL_OK) return COLL_OK;
  pmi.fd = 0;
  return base_fail(status == COLL_ERROR_TIMEOUT ? COLL_ERROR_SYSTEM : status,
                   "PMI_PORT=%s: cannot reach the launcher: %s", at, dialer.why);
}

/* The launcher answers with lines of size, rank and debug, in this order. */
static coll_status_t connect_by_port(uint64_t deadline_ns) {
  char line[LINE_BYTES], request[64];
  const char *id = launch_value("PMI_ID");
  COLL_TRY(dial(launch_value("PMI_PORT"), deadline_ns));
  snprintf(request, sizeof request, "cmd=initack pmiid=%.20s\n", id != NULL ? id : "0");
  COLL_TRY(ask(request, "initack", deadline_ns, line));
  COLL_TRY(receive_line(deadline_ns, line));
  if (!find_number(line, "size", &pmi.size)) return fail_answer("set", line);
  COLL_TRY(receive_line(deadline_ns, line));
  if (!find_number(line, "rank", &pmi.rank)) return fail_answer("set", line);
  return receive_line(deadline_ns, line);
}

static coll_status_t connect_by_descriptor(void) {
  int64_t fd, rank, size;
  COLL_TRY(launch_number("PMI_FD", 1, INT32_MAX, &fd));
  COLL_TRY(launch_number("PMI_SIZE", 1, INT32_MAX, &size));
  COLL_TRY(launch_number("PMI_RANK", 0, size - 1, &rank));
  pmi.rank = (int)rank;
  pmi.size = (int)size;
  if (fcntl((int)fd, F_GETFD) < 0) {
    return base_fail(COLL_ERROR_UNSUPPORTED,
                     "descriptor PMI_FD=%d is closed: a program between the launcher and this "
                     "process has closed it",
                     (int)fd);
  }
  pmi.fd = (int)fd;
  return COLL_OK;
}

static coll_status_t begin(uint64_t deadline_ns) {
  char line[LINE_BYTES];
  COLL_TRY(launch_value("PMI_FD") != NULL ? connect_by_descriptor() : connect_by_port(deadline_ns));
  COLL_TRY(ask("cmd=init pmi_version=1 pmi_subversion=1\n", "response_to_init", deadline_ns, line));
  if (pmi.pid == 0) atexit(finalize);
  pmi.pid = getpid();
  COLL_TRY(ask("cmd=get_my_kvsname\n", "my_kvsname", deadline_ns, line));
  if (find_value(line, "kvsname", pmi.space, sizeof pmi.space)) return COLL_OK;
  return fail_answer("my_kvsname", line);
}

static coll_status_t pmi_open(uint64_t deadline_ns, int *rank, int *size) {
  if (launch_mpi() == LAUNCH_MPI_INITIALIZED) {
    return base_fail(COLL_ERROR_UNSUPPORTED,
                     "MPI_Init has been called, so that the connection to the launcher is MPI's: "
                     "pass the id of coll_unique_id_create to the other ranks by MPI_Bcast");
  }
  if (pmi.pid != 0 && pmi.pid != getpid()) {
    return base_fail(COLL_ERROR_UNSUPPORTED,
                     "the connection to the launcher is that of the process that forked this one");
  }
  if (pmi.pid == 0) COLL_TRY(fail_late(begin(deadline_ns), "its first request"));
  *rank = pmi.rank;
  *size = pmi.size;
  return COLL_OK;
}

/* ---- sharing --------------------------------------------------------------------------------*/

static coll_status_t pmi_share(const char *key, uint64_t deadline_ns,
                               char text[LAUNCH_TEXT_BYTES]) {
  char line[LINE_BYTES], request[LINE_BYTES];
  if (pmi.rank == 0) {
    snprintf(request, sizeof request, "cmd=put kvsname=%s key=%s value=%s\n", pmi.space, key, text);
    COLL_TRY(fail_late(ask(request, "put_result", deadline_ns, line), "put"));
  }
  coll_status_t status = ask("cmd=barrier_in\n", "barrier_out", deadline_ns, line);
  if (status == COLL_ERROR_TIMEOUT) {
    return base_fail(status,
                     "rank %d: not all of the %d ranks have called coll_comm_create_env in time: "
                     "the launcher's barrier, which does not name those that are missing, has not "
                     "ended",
                     pmi.rank, pmi.size);
  }
  if (status != COLL_OK || pmi.rank == 0) return status;
  snprintf(request, sizeof request, "cmd=get kvsname=%s key=%s\n", pmi.space, key);
  COLL_TRY(fail_late(ask(request, "get_result", deadline_ns, line), "get"));
  return find_value(line, "value", text, LAUNCH_TEXT_BYTES) ? COLL_OK
                                                            : fail_answer("get_result", line);
}

const launch_store_t launch_store_pmi = {
    .name = "the launcher's PMI", .open = pmi_open, .share = pmi_share};
