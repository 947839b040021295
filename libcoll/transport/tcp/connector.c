/*
 * Only the thread uses the attempts and the links. The end's lock protects what both sides use:
 * the list of peers that are asked for, and the flags. Of connections from strangers there is a
 * limited number at a time, and the oldest is closed when there is no room for another.
 */
#include "transport/tcp/connector.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "transport/tcp/end.h"

#define RETRY_NS 20000000u
#define UNREACHED_NS 3000000000u /* after which a peer is given up */
#define MISSES_MIN 3             /* and after so many attempts */
#define DOUBLINGS_MAX 6
#define CALLERS_MAX 256 /* incoming connections that have not said who they are */

/* The connection with a peer, as far as this rank is concerned. */
typedef enum link {
  LINK_NONE,
  LINK_CHOSEN, /* this rank has decided for one that the peer has not yet confirmed */
  LINK_MADE,
  LINK_GIVEN_UP
} link_t;

/* A peer that was asked for. */
typedef struct outgoing {
  struct outgoing *next;
  tcp_attempt_t attempt;
  int peer;
  int address;         /* of the peer's */
  uint64_t resume_ns;  /* without an attempt: when the next one is begun */
  uint64_t since_ns;   /* since when nothing but refusal and silence came of it, */
  int misses;          /* and in how many attempts */
  int unanswered;      /* rounds over the addresses in which a host accepted and no rank answered */
  bool is_all_refused; /* in this round over the addresses */
  bool is_all_missed;  /* likewise: nobody has accepted */
} outgoing_t;

/* Somebody who has connected to this rank. */
typedef struct caller {
  tcp_attempt_t attempt;
  bool is_chosen;
} caller_t;

struct tcp_connector {
  tcp_t *end;
  tcp_identity_t own;
  tcp_name_t *names;    /* [size] */
  uint64_t deadline_ns; /* of creation */
  int listener;         /* -1: closed */
  int wakeup;           /* an eventfd, for the thread */
  int made;             /* an eventfd, for the creator */
  pthread_t thread;
  bool has_thread;

  /* under the end's lock */
  outgoing_t *asked;
  bool is_ending, may_give_up;
  int error;

  /* the thread's */
  outgoing_t *outgoing;
  caller_t *callers;     /* [CALLERS_MAX] */
  link_t *links;         /* [size] */
  struct pollfd *polled; /* wakeup, listener, outgoing, callers */
  uint64_t accept_ns;    /* when callers are accepted again, for want of descriptors */
};

static void lock(const tcp_connector_t *c) {
  pthread_mutex_lock(&c->end->lock);
}

static void unlock(const tcp_connector_t *c) {
  pthread_mutex_unlock(&c->end->lock);
}

/* Nothing more is done about the connection with the peer. */
static bool is_settled(const tcp_connector_t *c, int peer) {
  return c->links[peer] == LINK_MADE || c->links[peer] == LINK_GIVEN_UP;
}

static void note_error(tcp_connector_t *c, int error) {
  lock(c);
  c->error = error;
  unlock(c);
}

static void deliver(const tcp_connector_t *c, tcp_attempt_t *attempt) {
  uint64_t one = 1;
  c->links[attempt->peer] = LINK_MADE;
  lock(c);
  (void)tcp_end_connected(c->end, attempt->peer, attempt->fd);
  unlock(c);
  attempt->fd = -1;
  (void)!write(c->made, &one, sizeof one);
}

/* ---- to peers -------------------------------------------------------------------------------*/

/* Whether the peer cannot be reached, which is decided after a round over its addresses. */
static bool is_unreachable(const tcp_connector_t *c, const outgoing_t *to, uint64_t now_ns) {
  if (to->address != 0 || c->links[to->peer] == LINK_CHOSEN) return false;
  lock(c);
  bool may_give_up = c->may_give_up;
  unlock(c);
  if (!may_give_up) return false;
  return to->is_all_refused ||
         (to->is_all_missed && to->misses >= MISSES_MIN && now_ns > to->since_ns + UNREACHED_NS);
}

static void report(const tcp_connector_t *c, const outgoing_t *to) {
  tcp_failure_t failure = to->is_all_refused                         ? TCP_FAILURE_REFUSED
                          : to->attempt.failure == TCP_FAILURE_LOCAL ? TCP_FAILURE_LOCAL
                                                                     : TCP_FAILURE_SILENT;
  struct sockaddr_storage address;
  socklen_t bytes = tcp_sockaddr_of(&c->names[to->peer], 0, &address);
  lock(c);
  tcp_end_unreachable(c->end, to->peer, failure, to->attempt.error, &address, bytes);
  unlock(c);
}

/* A sign of life of the peer. */
static void note_sign(outgoing_t *to) {
  to->since_ns = base_clock_now_ns();
  to->misses = 0;
}

/* A rank that is stopped cannot answer. Each attempt that is given up fills its host's queue of
 * connections, and a full one is silent; so attempts become longer. */
static void begin_round(outgoing_t *to) {
  bool was_accepted = !to->is_all_missed;
  if (was_accepted && to->unanswered < DOUBLINGS_MAX) to->unanswered++;
  to->is_all_refused = to->is_all_missed = true;
}

/* The next attempt is made at the peer's next address. False: the peer is given up. */
static bool retry(tcp_connector_t *c, outgoing_t *to) {
  uint64_t now_ns = base_clock_now_ns();
  tcp_failure_t failure = to->attempt.failure;
  if (failure == TCP_FAILURE_LOCAL) note_error(c, to->attempt.error);
  to->misses++;
  if (failure == TCP_FAILURE_OTHER) note_sign(to);
  to->is_all_refused = to->is_all_refused && failure == TCP_FAILURE_REFUSED;
  to->is_all_missed = to->is_all_missed && failure != TCP_FAILURE_OTHER;
  to->address = (to->address + 1) % c->names[to->peer].count;
  to->resume_ns = now_ns + RETRY_NS;
  if (is_unreachable(c, to, now_ns)) {
    c->links[to->peer] = LINK_GIVEN_UP;
    report(c, to);
    return false;
  }
  if (to->address == 0) begin_round(to);
  return true;
}

/* Gives up this attempt because that of the peer is under way. */
static void step_back(outgoing_t *to) {
  note_sign(to);
  tcp_attempt_close(&to->attempt);
  to->resume_ns = base_clock_now_ns() + RETRY_NS;
}

/* False: there is nothing more to do for the peer. */
static bool serve_outgoing(tcp_connector_t *c, outgoing_t *to, short events) {
  if (is_settled(c, to->peer)) return false;
  if (to->attempt.fd < 0) {
    if (base_clock_now_ns() < to->resume_ns) return true;
    bool begun =
        tcp_attempt_begin(&to->attempt, to->peer, &c->names[to->peer], to->address, to->unanswered);
    return begun || retry(c, to);
  }
  tcp_progress_t progress = tcp_attempt_serve(&to->attempt, &c->own, events);
  if (progress == TCP_PROGRESS_FAILED) return retry(c, to);
  if (progress != TCP_PROGRESS_REPLY) return true;
  if (c->links[to->peer] == LINK_NONE && tcp_attempt_confirm(&to->attempt, &c->own)) {
    deliver(c, &to->attempt);
    return false;
  }
  step_back(to);
  return true;
}

static void free_outgoing(outgoing_t *to) {
  tcp_attempt_close(&to->attempt);
  free(to);
}

/* ---- from peers -----------------------------------------------------------------------------*/

static void close_caller(const tcp_connector_t *c, caller_t *caller) {
  link_t *link = caller->is_chosen ? &c->links[caller->attempt.peer] : NULL;
  if (link != NULL && *link == LINK_CHOSEN) *link = LINK_NONE;
  caller->is_chosen = false;
  tcp_attempt_close(&caller->attempt);
}

/* Whether a peer that has said who it is gets a reply. */
static bool choose(const tcp_connector_t *c, caller_t *caller) {
  int peer = caller->attempt.peer;
  for (outgoing_t *to = c->outgoing; to != NULL; to = to->next) {
    if (to->peer == peer) note_sign(to);
  }
  if (is_settled(c, peer) || c->links[peer] == LINK_CHOSEN) return false;
  caller->is_chosen = c->own.rank < peer;
  if (caller->is_chosen) c->links[peer] = LINK_CHOSEN;
  return tcp_attempt_reply(&caller->attempt, &c->own, c->deadline_ns);
}

static void serve_caller(const tcp_connector_t *c, caller_t *caller, short events) {
  tcp_attempt_t *attempt = &caller->attempt;
  tcp_progress_t progress = tcp_attempt_serve(attempt, &c->own, events);
  if (progress == TCP_PROGRESS_NONE) return;
  if (progress == TCP_PROGRESS_HELLO && choose(c, caller)) return;
  if (progress == TCP_PROGRESS_CONFIRM && !is_settled(c, attempt->peer)) deliver(c, attempt);
  close_caller(c, caller);
}

/* Room for a caller, or the oldest that may be closed for it. NULL: it waits in the system's queue.
 */
static caller_t *free_caller(const tcp_connector_t *c) {
  caller_t *oldest = NULL;
  uint64_t now_ns = base_clock_now_ns();
  for (int i = 0; i < CALLERS_MAX; i++) {
    caller_t *caller = &c->callers[i];
    if (caller->attempt.fd < 0) return caller;
    bool is_older = oldest == NULL || caller->attempt.since_ns < oldest->attempt.since_ns;
    if (is_older && tcp_attempt_is_stranger(&caller->attempt, now_ns)) oldest = caller;
  }
  return oldest;
}

static void accept_callers(tcp_connector_t *c) {
  caller_t *caller;
  while ((caller = free_caller(c)) != NULL) {
    int fd = accept4(c->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
      int error = errno;
      c->accept_ns = error == EAGAIN ? 0 : base_clock_now_ns() + RETRY_NS;
      if (error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM) {
        note_error(c, error);
      }
      return;
    }
    close_caller(c, caller);
    tcp_attempt_accept(&caller->attempt, fd, &c->own);
  }
}

/* ---- the thread -----------------------------------------------------------------------------*/

/* False: the thread is to end. */
static bool take_asked(tcp_connector_t *c) {
  uint64_t count;
  (void)!read(c->wakeup, &count, sizeof count);
  lock(c);
  while (c->asked != NULL) {
    outgoing_t *to = c->asked;
    c->asked = to->next;
    to->next = c->outgoing;
    c->outgoing = to;
  }
  bool goes_on = !c->is_ending;
  unlock(c);
  return goes_on;
}

static uint64_t earlier_of(uint64_t a, uint64_t b) {
  return a < b ? a : b;
}

static void add_polled(const tcp_connector_t *c, tcp_attempt_t *attempt, nfds_t *count,
                       uint64_t *due_ns) {
  attempt->polled = -1;
  if (attempt->fd < 0) return;
  attempt->polled = (int)*count;
  c->polled[(*count)++] =
      (struct pollfd){.fd = attempt->fd, .events = attempt->is_connecting ? POLLOUT : POLLIN};
  *due_ns = earlier_of(*due_ns, attempt->until_ns);
}

static short events_of(const tcp_connector_t *c, const tcp_attempt_t *attempt) {
  return attempt->polled >= 0 ? c->polled[attempt->polled].revents : 0;
}

/* Fills what is to be polled. Returns when something is due. */
static uint64_t prepare(const tcp_connector_t *c, nfds_t *count) {
  uint64_t due_ns = UINT64_MAX, now_ns = base_clock_now_ns();
  const caller_t *room = free_caller(c);
  bool accepts = now_ns >= c->accept_ns && room != NULL;
  if (!accepts) due_ns = room != NULL ? c->accept_ns : now_ns + RETRY_NS;
  c->polled[0] = (struct pollfd){.fd = c->wakeup, .events = POLLIN};
  c->polled[1] = (struct pollfd){.fd = accepts ? c->listener : -1, .events = POLLIN};
  *count = 2;
  for (outgoing_t *to = c->outgoing; to != NULL; to = to->next) {
    if (to->attempt.fd < 0) due_ns = earlier_of(due_ns, to->resume_ns);
    add_polled(c, &to->attempt, count, &due_ns);
  }
  for (int i = 0; i < CALLERS_MAX; i++) {
    add_polled(c, &c->callers[i].attempt, count, &due_ns);
  }
  return due_ns;
}

/* Rounded up; -1: for ever. */
static int ms_until(uint64_t due_ns) {
  uint64_t now_ns = base_clock_now_ns();
  if (due_ns == UINT64_MAX) return -1;
  return due_ns <= now_ns ? 0 : (int)earlier_of((due_ns - now_ns) / 1000000 + 1, 60000);
}

static void turn(tcp_connector_t *c) {
  nfds_t count;
  uint64_t due_ns = prepare(c, &count);
  if (poll(c->polled, count, ms_until(due_ns)) < 0) {
    base_clock_sleep_ns(RETRY_NS); /* for want of memory */
    return;
  }
  for (outgoing_t **place = &c->outgoing; *place != NULL;) {
    outgoing_t *to = *place;
    if (serve_outgoing(c, to, events_of(c, &to->attempt))) {
      place = &to->next;
    } else {
      *place = to->next;
      free_outgoing(to);
    }
  }
  for (int i = 0; i < CALLERS_MAX; i++) {
    caller_t *caller = &c->callers[i];
    if (caller->attempt.fd >= 0) serve_caller(c, caller, events_of(c, &caller->attempt));
  }
  if (c->polled[1].revents != 0) accept_callers(c);
}

static void *run(void *context) {
  tcp_connector_t *c = context;
  while (take_asked(c)) turn(c);
  return NULL;
}

/* ---- the owner ------------------------------------------------------------------------------*/

static void wake(const tcp_connector_t *c) {
  uint64_t one = 1;
  (void)!write(c->wakeup, &one, sizeof one);
}

coll_status_t tcp_connector_ask(tcp_connector_t *c, int peer) {
  outgoing_t *to = NULL;
  COLL_TRY(base_alloc(1, sizeof *to, "a connection", (void **)&to));
  *to = (outgoing_t){.next = c->asked,
                     .attempt = {.fd = -1},
                     .peer = peer,
                     .since_ns = base_clock_now_ns(),
                     .is_all_refused = true,
                     .is_all_missed = true};
  c->asked = to;
  wake(c);
  return COLL_OK;
}

void tcp_connector_may_give_up(tcp_connector_t *c) {
  c->may_give_up = true;
}

int tcp_connector_error(const tcp_connector_t *c) {
  return c->error;
}

int tcp_connector_descriptor(const tcp_connector_t *c) {
  return c->made;
}

/* Signals are for the threads of the program. */
coll_status_t tcp_connector_start(tcp_connector_t *c) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int error = pthread_create(&c->thread, NULL, run, c);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  c->has_thread = error == 0;
  errno = error;
  return error == 0 ? COLL_OK
                    : base_fail_errno(COLL_ERROR_SYSTEM,
                                      "rank %d: no thread to make connections with", c->own.rank);
}

static coll_status_t fill(tcp_connector_t *c, const tcp_group_t *group) {
  size_t size = (size_t)group->size;
  COLL_TRY(base_alloc(size, sizeof *c->names, "names of ranks", (void **)&c->names));
  COLL_TRY(base_alloc(size, sizeof *c->links, "connections", (void **)&c->links));
  COLL_TRY(base_alloc(CALLERS_MAX, sizeof *c->callers, "connections", (void **)&c->callers));
  for (int i = 0; i < CALLERS_MAX; i++) c->callers[i].attempt.fd = -1;
  COLL_TRY(
      base_alloc(2 + size + CALLERS_MAX, sizeof *c->polled, "connections", (void **)&c->polled));
  memcpy(c->names, group->names, size * sizeof *c->names);
  c->wakeup = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  c->made = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (c->wakeup < 0 || c->made < 0) {
    return base_fail_errno(COLL_ERROR_SYSTEM, "rank %d: cannot make an event", group->rank);
  }
  return COLL_OK;
}

coll_status_t tcp_connector_create(tcp_t *end, tcp_listener_t *listener, const tcp_group_t *group,
                                   tcp_connector_t **connector) {
  tcp_connector_t *made = NULL;
  coll_status_t status = base_alloc(1, sizeof *made, "connections", (void **)&made);
  if (status != COLL_OK) {
    tcp_listener_close(listener);
    return status;
  }
  made->end = end;
  made->own = (tcp_identity_t){.rank = group->rank,
                               .size = group->size,
                               .session = group->session,
                               .secret = *group->secret};
  made->deadline_ns = group->deadline_ns;
  made->listener = listener->fd;
  made->wakeup = made->made = -1;
  listener->fd = -1;
  status = fill(made, group);
  if (status == COLL_OK) {
    *connector = made;
  } else {
    tcp_connector_destroy(made);
  }
  return status;
}

static void free_list(outgoing_t *list) {
  while (list != NULL) {
    outgoing_t *first = list;
    list = first->next;
    free_outgoing(first);
  }
}

void tcp_connector_destroy(tcp_connector_t *c) {
  if (c == NULL) return;
  if (c->has_thread) {
    lock(c);
    c->is_ending = true;
    unlock(c);
    wake(c);
    pthread_join(c->thread, NULL);
  }
  free_list(c->asked);
  free_list(c->outgoing);
  for (int i = 0; c->callers != NULL && i < CALLERS_MAX; i++) {
    tcp_attempt_close(&c->callers[i].attempt);
  }
  if (c->listener >= 0) close(c->listener);
  if (c->wakeup >= 0) close(c->wakeup);
  if (c->made >= 0) close(c->made);
  base_secret_wipe(&c->own.secret);
  free(c->names);
  free(c->links);
  free(c->callers);
  free(c->polled);
  free(c);
}
