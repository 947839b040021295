/*
 * A rank's side of the rendezvous. It connects and sends its hello until the server sends a
 * greeting, waits for the records, and later reports and waits for the verdict.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/deadline.h"
#include "base/net/handshake.h"
#include "base/net/socket.h"
#include "bootstrap/rendezvous/dialer.h"
#include "bootstrap/rendezvous/rendezvous.h"

#define RETRY_MIN_NS 200000u /* pause between attempts to connect; doubles each time */
#define RETRY_MAX_NS 20000000u
#define HANG_UP_MIN_NS 5000000u /* pause after the server hung up; doubles each time */
#define HANG_UP_MAX_NS 200000000u
#define ANSWER_SLACK_NS 2000000000u /* the server's own timeout names the missing ranks: wait */
#define REFUSED_NS 100000000u       /* with an address that a server is known to listen at */
#define REFUSED_LATER_NS 1000000000 /* with one that servers come and go at */
#define OTHER_JOB_NS 1000000000u /* a server whose rendezvous is over has left its port by then */
#define ANNOUNCE_NS 500000000u   /* time of a rank that gives up to tell the server */
#define VERDICT_NS 1000000000u   /* wait of a rank that failed for the server to take note */

typedef struct call {
  const rendezvous_address_t *address;
  const rendezvous_rank_t *own;
  dialer_t dialer;
  int turn; /* the target that is tried first */
  char purpose[RENDEZVOUS_PURPOSE_BYTES];
  uint64_t hello_magic;
  base_handshake_state_t state; /* how the last handshake ended */
  bool is_ours;                 /* the listener knew the secret then */
  int other_jobs;               /* servers in a row that know another secret */
  uint64_t other_ns;            /* when the first of these answered */
  uint64_t deadline_ns;
  uint64_t up_ns;      /* the latest time at which a server is known to have been there; 0: never */
  uint64_t refused_ns; /* connections refused for so long after up_ns: the server has died */
} call_t;

/* The connection was closed without an answer, or nobody listens any more, and the server's process
 * has ended or is on another host. */
static coll_status_t fail_server_died(const rendezvous_link_t *link) {
  char pid[32] = "";
  if (link->server_pid != 0) snprintf(pid, sizeof pid, " (pid %d)", link->server_pid);
  if (link->server_rank >= 0) {
    return base_fail(COLL_ERROR_RANK_LOST,
                     "rank %d: rank %d%s died while the communicator was being made", link->rank,
                     link->server_rank, pid);
  }
  return base_fail(COLL_ERROR_RANK_LOST,
                   "rank %d: the rendezvous server's process%s, which is rank 0 unless another "
                   "process made the unique id, died while the communicator was being made",
                   link->rank, pid);
}

/* The server has hung up on this rank. */
static coll_status_t fail_server_lost(const rendezvous_link_t *link) {
  bootstrap_process_state_t state =
      bootstrap_process_settle(&link->server_process, link->server_pid);
  if (state != BOOTSTRAP_PROCESS_LIVES) return fail_server_died(link);
  return base_fail(COLL_ERROR_RANK_LOST,
                   "rank %d: the rendezvous server of process %d, which lives, hung up while the "
                   "communicator was being made",
                   link->rank, link->server_pid);
}

static coll_status_t fail_used(const rendezvous_link_t *link) {
  return base_fail(COLL_ERROR_INVALID,
                   "rank %d: this id has been used: process %d, which made it, waits for no ranks "
                   "any more; make a new unique id for each communicator",
                   link->rank, link->server_pid);
}

/* Nobody listens any more where the server did. */
static coll_status_t fail_server_gone(const call_t *call, const rendezvous_link_t *link) {
  bootstrap_process_state_t state =
      bootstrap_process_settle(&link->server_process, link->server_pid);
  if (state == BOOTSTRAP_PROCESS_LIVES) return fail_used(link);
  if (state == BOOTSTRAP_PROCESS_ENDED || link->server_pid == 0) return fail_server_died(link);
  return base_fail(COLL_ERROR_RANK_LOST,
                   "rank %d: nobody answers at %s port %u any more: this id has been used, or the "
                   "process that made it (pid %d), which is rank 0 unless it was another one, has "
                   "ended",
                   link->rank, call->address->host, (unsigned)call->address->port,
                   link->server_pid);
}

/* The thread's waits were cancelled. */
static coll_status_t fail_cancelled(int rank) {
  return base_fail(COLL_ERROR_SYSTEM, "rank %d: %s", rank, base_cancel_why());
}

static coll_status_t fail_unreachable(const call_t *call, coll_status_t status) {
  const rendezvous_address_t *address = call->address;
  if (status == COLL_ERROR_INVALID) {
    return base_fail(status, "rank %d: the rendezvous server's address %s port %u is wrong: %s",
                     call->own->rank, address->host, (unsigned)address->port, call->dialer.why);
  }
  return base_fail(COLL_ERROR_TIMEOUT,
                   "rank %d: no rendezvous server answers at %s port %u (%s): is rank 0 running, "
                   "and are the address and port right?",
                   call->own->rank, address->host, (unsigned)address->port, call->dialer.why);
}

static coll_status_t connect_until(call_t *call, rendezvous_link_t *link) {
  for (uint64_t pause_ns = RETRY_MIN_NS;; pause_ns *= pause_ns < RETRY_MAX_NS ? 2 : 1) {
    int on = 1;
    coll_status_t status = dialer_try(&call->dialer, call->turn, call->deadline_ns, &link->fd);
    if (link->fd >= 0) {
      setsockopt(link->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      return COLL_OK;
    }
    bool is_refused = errno == ECONNREFUSED;
    uint64_t now_ns = base_clock_now_ns();
    bool is_last = now_ns >= call->deadline_ns;
    bool is_gone = call->up_ns > 0 && is_refused;
    if (is_gone && (is_last || now_ns > call->up_ns + call->refused_ns)) {
      return fail_server_gone(call, link);
    }
    if (base_cancel_is_requested()) return fail_cancelled(call->own->rank);
    if (is_last || status != COLL_OK) return fail_unreachable(call, status);
    base_clock_sleep_ns(pause_ns);
  }
}

/* Waits for the server's answer until answer_ns, or, once the rank is cancelled, for ANNOUNCE_NS.
 */
static bool receive_greeting(int fd, uint64_t answer_ns, wire_greeting_t *greeting) {
  (void)base_deadline_poll(fd, POLLIN, answer_ns);
  uint64_t announced_ns = base_clock_now_ns() + ANNOUNCE_NS;
  bool is_cut_short = base_cancel_is_requested() && announced_ns < answer_ns;
  const base_cancel_t *cancel = base_cancel_watch(NULL);
  bool received =
      wire_recv(fd, greeting, sizeof *greeting, is_cut_short ? announced_ns : answer_ns);
  base_cancel_watch(cancel);
  return received;
}

/* Sends the hello; greeting->magic is 0 if the connection was closed without a greeting. False: no
 * greeting with WIRE_MAGIC arrived by answer_ns. A rank that is cancelled meanwhile hangs up no
 * sooner than it must: the server would name one that does as one that died. */
static bool exchange_hello(const call_t *call, int fd, uint64_t answer_ns,
                           wire_greeting_t *greeting) {
  int left_ms = base_deadline_left_ms(call->deadline_ns);
  wire_hello_t hello = {.magic = call->hello_magic,
                        .rank = call->own->rank,
                        .size = call->own->size,
                        .timeout_ms = left_ms > 0 ? left_ms : 1,
                        .pid = (int32_t)getpid(),
                        .record_bytes = call->own->record_bytes};
  *greeting = (wire_greeting_t){0};
  const base_cancel_t *cancel = base_cancel_watch(NULL);
  bool sent = wire_send(fd, &hello, sizeof hello, answer_ns) &&
              wire_send(fd, call->own->record, call->own->record_bytes, answer_ns);
  base_cancel_watch(cancel);
  /* A server that hangs up on purpose may do so before it has read the hello: receive anyway. */
  bool received = receive_greeting(fd, answer_ns, greeting);
  return sent && received && greeting->magic == WIRE_MAGIC;
}

static void note_other_job(call_t *call, bool is_other) {
  if (call->other_jobs == 0) call->other_ns = base_clock_now_ns();
  call->other_jobs = is_other ? call->other_jobs + 1 : 0;
}

/* Whether servers with another secret have answered at all addresses. Where servers come and go, an
 * earlier job's may be about to leave the port. */
static bool is_other_job(const call_t *call) {
  bool comes_and_goes = call->address->pid == 0;
  return call->other_jobs > 0 && call->other_jobs >= call->dialer.targets.count &&
         (!comes_and_goes || base_clock_now_ns() > call->other_ns + OTHER_JOB_NS);
}

static bool shake_hands(call_t *call, int fd, uint64_t answer_ns, wire_greeting_t *greeting) {
  base_handshake_t handshake;
  *greeting = (wire_greeting_t){0};
  call->state = base_handshake_begin_caller(&handshake, fd, &call->address->secret, call->purpose);
  if (call->state == BASE_HANDSHAKE_UNDER_WAY) {
    call->state = base_handshake_finish(&handshake, fd, answer_ns);
  }
  call->is_ours = handshake.is_proven;
  if (call->state == BASE_HANDSHAKE_RETRY) greeting->magic = WIRE_RETRY;
  note_other_job(call, call->state == BASE_HANDSHAKE_REFUSED && handshake.is_other);
  return call->state == BASE_HANDSHAKE_DONE;
}

/* Introduces this rank on a new connection, as exchange_hello does. */
static bool introduce(call_t *call, int fd, uint64_t answer_ns, wire_greeting_t *greeting) {
  return shake_hands(call, fd, answer_ns, greeting) &&
         exchange_hello(call, fd, answer_ns, greeting);
}

static coll_status_t fail_version(const call_t *call) {
  return base_fail(COLL_ERROR_INVALID,
                   "rank %d: the rendezvous server at %s port %u has another version of the "
                   "library: install the same one for all ranks",
                   call->own->rank, call->address->host, (unsigned)call->address->port);
}

static coll_status_t fail_secret(const call_t *call, coll_status_t status) {
  return base_fail(status,
                   "rank %d: what listens at %s port %u does not know this job's secret: it is "
                   "another job's or another program, or COLL_AUTH_FILE differs between ranks",
                   call->own->rank, call->address->host, (unsigned)call->address->port);
}

/* Another server may have got the port of one that is done. */
static coll_status_t fail_other_job(const call_t *call, const rendezvous_link_t *link) {
  bool lives =
      bootstrap_process_look(&link->server_process, link->server_pid) == BOOTSTRAP_PROCESS_LIVES;
  return lives ? fail_used(link) : fail_secret(call, COLL_ERROR_INVALID);
}

static coll_status_t fail_no_answer(const call_t *call) {
  if (call->state == BASE_HANDSHAKE_REFUSED) return fail_secret(call, COLL_ERROR_TIMEOUT);
  return base_fail(COLL_ERROR_TIMEOUT,
                   "rank %d: the rendezvous server at %s port %u gave no answer: did rank 0 end, "
                   "or does another program listen there?",
                   call->own->rank, call->address->host, (unsigned)call->address->port);
}

/* Whether the server is known to have been there, from its greeting that did not come. */
static void note_hang_up(call_t *call, const wire_greeting_t *greeting) {
  if (greeting->magic == WIRE_RETRY) {
    call->up_ns = 0; /* the next server may take long */
  } else if (call->is_ours || call->up_ns > 0) {
    call->up_ns = base_clock_now_ns();
  }
  dialer_failed(&call->dialer, call->state == BASE_HANDSHAKE_REFUSED
                                   ? "what listens there does not know this job's secret"
                                   : "what listens there hung up");
}

/* Calls until the server sends its greeting. The server hangs up to make room for other callers,
 * and while it still serves an earlier rendezvous. So does a service without anyone behind it. */
static coll_status_t call_until_greeted(call_t *call, rendezvous_link_t *link) {
  for (uint64_t pause_ns = HANG_UP_MIN_NS;; pause_ns *= pause_ns < HANG_UP_MAX_NS ? 2 : 1) {
    wire_greeting_t greeting;
    COLL_TRY(connect_until(call, link));
    bool greeted = introduce(call, link->fd, call->deadline_ns + ANSWER_SLACK_NS, &greeting);
    if (greeting.magic == WIRE_MAGIC) link->server_pid = (int)greeting.pid;
    if (greeted) return COLL_OK;
    base_socket_close(link->fd);
    if (base_cancel_is_requested()) return fail_cancelled(call->own->rank);
    if (call->state == BASE_HANDSHAKE_VERSION) return fail_version(call);
    if (is_other_job(call)) return fail_other_job(call, link);
    note_hang_up(call, &greeting);
    if (base_clock_now_ns() + pause_ns >= call->deadline_ns) return fail_no_answer(call);
    call->turn++; /* another of its addresses may be the right one */
    base_clock_sleep_ns(pause_ns);
  }
}

static coll_status_t fail_verdict(rendezvous_link_t *link, const wire_answer_t *answer) {
  return base_fail((coll_status_t)answer->status, "rank %d: %.*s", link->rank,
                   (int)sizeof answer->text - 1, answer->text);
}

/* The server adds who reports: the text goes without this rank's own "rank 1: ". */
static void write_report(const rendezvous_link_t *link, coll_status_t status, const char *text,
                         wire_report_t *report) {
  char prefix[32];
  size_t length = (size_t)snprintf(prefix, sizeof prefix, "rank %d: ", link->rank);
  if (strncmp(text, prefix, length) == 0) text += length;
  *report = (wire_report_t){.status = (int32_t)status};
  snprintf(report->text, sizeof report->text, "%.*s", WIRE_TEXT_BYTES - 1, text);
}

/* Tells the server, so that it names the cause to the other ranks. */
static coll_status_t report_cancelled(const rendezvous_link_t *link) {
  wire_report_t report;
  coll_status_t status = fail_cancelled(link->rank);
  write_report(link, status, base_last_error(), &report);
  const base_cancel_t *cancel = base_cancel_watch(NULL);
  (void)wire_send(link->fd, &report, sizeof report, base_clock_now_ns() + VERDICT_NS);
  base_cancel_watch(cancel);
  return status;
}

/* The same for a rank that the server does not know yet; tried once. Its hello has the rank's own
 * time limit, until which the server informs later ranks. */
static void announce_cancelled(call_t *call, rendezvous_link_t *link) {
  wire_greeting_t greeting;
  const base_cancel_t *cancel = base_cancel_watch(NULL);
  uint64_t end_ns = base_clock_now_ns() + ANNOUNCE_NS;
  call->hello_magic = WIRE_GIVES_UP;
  (void)dialer_try(&call->dialer, call->turn, end_ns, &link->fd);
  bool known = link->fd >= 0 && introduce(call, link->fd, end_ns + ANSWER_SLACK_NS, &greeting);
  base_cancel_watch(cancel);
  if (known) report_cancelled(link);
  if (link->fd >= 0) base_socket_close(link->fd);
  link->fd = -1;
}

static coll_status_t receive_records(const call_t *call, rendezvous_link_t *link, void *records,
                                     uint64_t *session) {
  uint64_t deadline_ns = call->deadline_ns + ANSWER_SLACK_NS;
  size_t bytes = (size_t)call->own->size * call->own->record_bytes;
  wire_answer_t answer;
  bool received = wire_recv(link->fd, &answer, sizeof answer, deadline_ns);
  if (received && answer.status != COLL_OK) return fail_verdict(link, &answer);
  if (received) link->server_rank = answer.server_rank;
  if (received && wire_recv(link->fd, records, bytes, deadline_ns)) {
    *session = answer.session;
    return COLL_OK;
  }
  if (base_cancel_is_requested()) return report_cancelled(link);
  if (base_clock_now_ns() >= deadline_ns) return fail_no_answer(call);
  return fail_server_lost(link);
}

static void prepare(const rendezvous_address_t *address, const rendezvous_rank_t *own,
                    int timeout_ms, call_t *call, rendezvous_link_t *link) {
  char who[DIALER_TEXT_BYTES];
  snprintf(who, sizeof who, "rank %d waits for the rendezvous server of rank 0 at %s port %u",
           own->rank, address->host, (unsigned)address->port);
  *call = (call_t){.address = address,
                   .own = own,
                   .dialer = dialer_begin(address, NULL, 0, who),
                   .hello_magic = WIRE_MAGIC,
                   .deadline_ns = base_clock_now_ns() + (uint64_t)timeout_ms * 1000000u,
                   .up_ns = address->pid != 0 ? base_clock_now_ns() : 0,
                   .refused_ns = address->pid != 0 ? REFUSED_NS : REFUSED_LATER_NS};
  *link = (rendezvous_link_t){.fd = -1,
                              .rank = own->rank,
                              .server_pid = (int)address->pid,
                              .server_process = address->process,
                              .server_rank = -1};
  rendezvous_purpose(address, call->purpose);
}

void rendezvous_announce_cancelled(const rendezvous_address_t *address,
                                   const rendezvous_rank_t *own, int timeout_ms) {
  call_t call;
  rendezvous_link_t link;
  prepare(address, own, timeout_ms, &call, &link);
  announce_cancelled(&call, &link);
}

coll_status_t rendezvous_join(const rendezvous_address_t *address, const rendezvous_rank_t *own,
                              int timeout_ms, void *records, uint64_t *session,
                              rendezvous_link_t *link) {
  call_t call;
  prepare(address, own, timeout_ms, &call, link);
  coll_status_t status = call_until_greeted(&call, link);
  if (status != COLL_OK) {
    if (!base_cancel_is_requested()) return status;
    announce_cancelled(&call, link);
    return fail_cancelled(own->rank);
  }
  status = receive_records(&call, link, records, session);
  if (status != COLL_OK) {
    base_socket_close(link->fd);
    link->fd = -1;
  }
  return status;
}

/* ---- until the communicator is made ---------------------------------------------------------*/

coll_status_t rendezvous_check(rendezvous_link_t *link) {
  wire_answer_t *verdict = &link->verdict;
  bool open = wire_recv_some(link->fd, verdict, sizeof *verdict, &link->verdict_received);
  if (link->verdict_received == sizeof *verdict) {
    return verdict->status == COLL_OK ? COLL_OK : fail_verdict(link, verdict);
  }
  return open ? COLL_OK : fail_server_lost(link);
}

/* *known: the verdict arrived, or the server is lost; then returns what rendezvous_check does. */
static coll_status_t await_verdict(rendezvous_link_t *link, uint64_t deadline_ns, bool *known) {
  coll_status_t status = rendezvous_check(link);
  *known = status != COLL_OK || link->verdict_received == sizeof link->verdict;
  while (!*known && base_deadline_poll(link->fd, POLLIN, deadline_ns)) {
    status = rendezvous_check(link);
    *known = status != COLL_OK || link->verdict_received == sizeof link->verdict;
  }
  return status;
}

/* *cancelled: the rank must report that, too. */
static coll_status_t report_success(rendezvous_link_t *link, uint64_t deadline_ns,
                                    bool *cancelled) {
  const wire_report_t report = {.status = COLL_OK};
  bool known;
  (void)wire_send(link->fd, &report, sizeof report, deadline_ns); /* a failure shows below */
  coll_status_t status = await_verdict(link, deadline_ns + ANSWER_SLACK_NS, &known);
  *cancelled = !known && base_cancel_is_requested();
  if (known || *cancelled) return status;
  return base_fail(COLL_ERROR_TIMEOUT,
                   "rank %d: the rendezvous server (pid %d) did not confirm in time that all ranks "
                   "have made the communicator: is its process stopped?",
                   link->rank, link->server_pid);
}

/* Waits for the verdict also after its own failure: if the server runs in this process, the process
 * must not exit before the others are told. */
static coll_status_t report_failure(rendezvous_link_t *link, coll_status_t status) {
  char text[WIRE_TEXT_BYTES + 64];
  wire_report_t report;
  bool known = false;
  snprintf(text, sizeof text, "%s", base_last_error());
  write_report(link, status, text, &report);
  if (status == COLL_ERROR_RANK_LOST) {
    coll_status_t verdict = await_verdict(link, base_clock_now_ns() + VERDICT_NS, &known);
    if (known && verdict != COLL_OK) return verdict;
  }
  uint64_t deadline_ns = base_clock_now_ns() + VERDICT_NS;
  if (wire_send(link->fd, &report, sizeof report, deadline_ns)) {
    (void)await_verdict(link, deadline_ns, &known);
  }
  return base_fail(status, "%s", text);
}

static int failed_rank_of(const rendezvous_link_t *link) {
  bool known = link->verdict_received == sizeof link->verdict;
  int rank = known ? link->verdict.failed_rank : link->server_rank;
  return rank >= 0 ? rank : link->rank;
}

coll_status_t rendezvous_finish(rendezvous_link_t *link, coll_status_t status, uint64_t deadline_ns,
                                int *failed_rank) {
  bool cancelled = base_cancel_is_requested(), succeeds = status == COLL_OK && !cancelled;
  if (succeeds) status = report_success(link, deadline_ns, &cancelled);
  if (cancelled) status = fail_cancelled(link->rank);
  if (!succeeds || cancelled) {
    const base_cancel_t *cancel = base_cancel_watch(NULL); /* or it could not be reported */
    status = report_failure(link, status);
    base_cancel_watch(cancel);
  }
  if (status != COLL_OK) {
    *failed_rank = base_cancel_is_requested() ? link->rank : failed_rank_of(link);
  }
  base_socket_close(link->fd);
  link->fd = -1;
  return status;
}
