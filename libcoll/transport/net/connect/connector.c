/*
 * Only the thread uses the attempts and the links. The lock of the pairs protects what both sides
 * use: the list of peers that are asked for, and the flags.
 */
#include "transport/net/connect/connector.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/deadline.h"
#include "base/net/strangers.h"
#include "transport/net/connect/dial.h"
#include "transport/net/connect/state.h"

#define RETRY_NS 20000000u
#define CALLERS_MAX 256 /* incoming connections that are not the caller's yet, with strangers */
#define PROOF_NS UINT64_C(3000000000) /* for a stranger to prove that it is a rank */

/* The connection with a peer on a rail, as far as this rank is concerned. */
typedef enum link_state {
  LINK_NONE,
  LINK_CHOSEN, /* this rank has decided for one that the peer has not yet confirmed */
  LINK_MADE,
  LINK_GIVEN_UP
} link_state_t;

typedef struct link {
  link_state_t state;
  uint16_t made; /* connections so far */
} link_t;

/* A rank that has connected to this one. */
typedef struct caller {
  net_attempt_t attempt;
  bool is_chosen;
} caller_t;

struct net_connector {
  net_pairs_t *pairs;
  net_identity_t own;
  net_name_t *names;    /* [size] */
  int rails;            /* of this rank */
  uint64_t deadline_ns; /* of creation */
  int wakeup;           /* an eventfd, for the thread */
  int made;             /* an eventfd, for the creator */
  pthread_t thread;
  bool has_thread;

  /* under the lock of the pairs */
  net_dial_t *asked;
  bool is_ending, may_give_up;
  int error;

  /* the thread's */
  net_dial_t *dials;
  caller_t *callers; /* [CALLERS_MAX] */
  base_strangers_t strangers;
  link_t *links;         /* [size * rails] */
  struct pollfd *polled; /* wakeup, callers, strangers, dials */
  struct pollfd *strangers_at;
};

static void lock(const net_connector_t *c) {
  pthread_mutex_lock(c->pairs->lock);
}

static void unlock(const net_connector_t *c) {
  pthread_mutex_unlock(c->pairs->lock);
}

static link_t *link_of(const net_connector_t *c, int peer, int rail) {
  return &c->links[peer * c->rails + rail];
}

/* Nothing more is done about the connection. */
static bool is_settled(const link_t *link) {
  return link->state == LINK_MADE || link->state == LINK_GIVEN_UP;
}

/* Whether a count of connections, modulo 2^16, is greater. */
static bool is_later(uint16_t made, uint16_t than) {
  return (int16_t)(made - than) > 0;
}

static void note_error(net_connector_t *c, int error) {
  lock(c);
  c->error = error;
  unlock(c);
}

static bool may_give_up(const net_connector_t *c) {
  lock(c);
  bool may = c->may_give_up;
  unlock(c);
  return may;
}

static void deliver(const net_connector_t *c, net_attempt_t *attempt) {
  uint64_t one = 1;
  link_t *link = link_of(c, attempt->peer, attempt->rail);
  *link = (link_t){.state = LINK_MADE, .made = net_attempt_number(attempt)};
  lock(c);
  (void)net_pair_connected(&c->pairs->pairs[attempt->peer], attempt->rail, link->made, attempt->fd);
  unlock(c);
  attempt->fd = -1;
  (void)!write(c->made, &one, sizeof one);
}

static short events_of(const net_connector_t *c, const net_attempt_t *attempt) {
  return attempt->polled >= 0 ? c->polled[attempt->polled].revents : 0;
}

/* ---- to peers -------------------------------------------------------------------------------*/

/* Whether the peer is given up: it cannot be reached by any rail. */
static bool report(const net_connector_t *c, const net_dial_t *to) {
  const base_address_t *address = &to->addresses.at[0];
  lock(c);
  bool is_given_up = c->may_give_up && net_pair_unreachable(&c->pairs->pairs[to->peer], to->rail,
                                                            net_dial_failure(to), to->error,
                                                            &address->room, address->bytes);
  unlock(c);
  return is_given_up;
}

/* False: the peer is given up. */
static bool end_round(net_connector_t *c, net_dial_t *to) {
  uint64_t now_ns = base_clock_now_ns();
  link_t *link = link_of(c, to->peer, to->rail);
  if (to->failure == NET_FAILURE_LOCAL) note_error(c, to->error);
  bool is_unreachable = link->state != LINK_CHOSEN && net_dial_is_unreachable(to, now_ns);
  if (is_unreachable && report(c, to)) {
    link->state = LINK_GIVEN_UP;
    return false;
  }
  net_dial_begin_round(to, is_unreachable && may_give_up(c), now_ns);
  return true;
}

/* Without an attempt. False: the peer is given up. */
static bool go_on(net_connector_t *c, net_dial_t *to, uint16_t made) {
  return net_dial_continue(to, made, &c->own) || !base_dial_is_over(&to->round) || end_round(c, to);
}

/* False: there is nothing more to do for the peer. */
static bool serve_dial(net_connector_t *c, net_dial_t *to) {
  const link_t *link = link_of(c, to->peer, to->rail);
  int polled_at = to->attempt.polled;
  if (is_settled(link)) return false;
  if (to->attempt.fd < 0) {
    if (polled_at >= 0) memcpy(to->round.polled, &c->polled[polled_at], sizeof to->round.polled);
    return go_on(c, to, link->made);
  }
  net_handshake_progress_t progress =
      net_attempt_serve(&to->attempt, &c->own, events_of(c, &to->attempt));
  if (progress == NET_HANDSHAKE_FAILED) {
    net_dial_note_failure(to);
    return net_dial_is_given_up(to) ? end_round(c, to) : go_on(c, to, link->made);
  }
  if (progress != NET_HANDSHAKE_REPLY) return true;
  bool is_current = link->state == LINK_NONE && link->made == to->attempt.made;
  if (is_current && net_attempt_confirm(&to->attempt, &c->own)) {
    deliver(c, &to->attempt);
    return false;
  }
  net_dial_step_back(to);
  return true;
}

static void free_dial(net_dial_t *to) {
  net_dial_close(to);
  free(to);
}

/* NULL: none. */
static net_dial_t *find_dial(const net_connector_t *c, int peer, int rail) {
  net_dial_t *to = c->dials;
  while (to != NULL && (to->peer != peer || to->rail != rail)) to = to->next;
  return to;
}

/* ---- from peers -----------------------------------------------------------------------------*/

static void close_caller(const net_connector_t *c, caller_t *caller) {
  const net_attempt_t *attempt = &caller->attempt;
  link_t *link = caller->is_chosen ? link_of(c, attempt->peer, attempt->rail) : NULL;
  if (link != NULL && link->state == LINK_CHOSEN) link->state = LINK_NONE;
  caller->is_chosen = false;
  net_attempt_close(&caller->attempt);
}

/* The attempt for which this rank has decided, if there is one, is dead: the peer makes another. */
static void close_chosen(const net_connector_t *c, int peer, int rail) {
  for (int i = 0; i < CALLERS_MAX; i++) {
    caller_t *caller = &c->callers[i];
    bool is_same = caller->attempt.peer == peer && caller->attempt.rail == rail;
    if (caller->attempt.fd >= 0 && caller->is_chosen && is_same) close_caller(c, caller);
  }
}

/* A peer that connects although there is a connection has lost it. False: the peer began before
 * there was this connection, or the last one. */
static bool note_hello(const net_connector_t *c, const net_attempt_t *attempt) {
  link_t *link = link_of(c, attempt->peer, attempt->rail);
  if (is_later(link->made, attempt->note.made)) return false;
  if (link->state == LINK_CHOSEN) close_chosen(c, attempt->peer, attempt->rail);
  if (link->state == LINK_MADE) link->state = LINK_NONE;
  return link->state == LINK_NONE;
}

/* Refuses a peer that was given up. */
static bool refuse(const net_connector_t *c, net_attempt_t *attempt) {
  const net_pair_t *pair = &c->pairs->pairs[attempt->peer];
  lock(c);
  bool is_closed = pair->is_closed;
  net_loss_t why = pair->loss;
  unlock(c);
  if (is_closed) net_attempt_refuse(attempt, &c->own, (uint16_t)why);
  return is_closed;
}

/* Whether a peer that has said who it is gets a reply. */
static bool choose(const net_connector_t *c, caller_t *caller) {
  net_attempt_t *attempt = &caller->attempt;
  if (attempt->rail >= c->rails || refuse(c, attempt)) return false;
  net_dial_t *to = find_dial(c, attempt->peer, attempt->rail);
  if (to != NULL) net_dial_note_sign(to);
  if (!note_hello(c, attempt)) return false;
  link_t *link = link_of(c, attempt->peer, attempt->rail);
  caller->is_chosen = c->own.rank < attempt->peer;
  if (caller->is_chosen) link->state = LINK_CHOSEN;
  return net_attempt_reply(attempt, &c->own, link->made, c->deadline_ns);
}

/* Another connection may have been made since this rank has replied. */
static bool is_current(const net_connector_t *c, const net_attempt_t *attempt) {
  const link_t *link = link_of(c, attempt->peer, attempt->rail);
  return !is_settled(link) && link->made == attempt->made;
}

static void serve_caller(const net_connector_t *c, caller_t *caller, short events) {
  net_attempt_t *attempt = &caller->attempt;
  net_handshake_progress_t progress = net_attempt_serve(attempt, &c->own, events);
  if (progress == NET_HANDSHAKE_NONE) return;
  if (progress == NET_HANDSHAKE_HELLO && choose(c, caller)) return;
  if (progress == NET_HANDSHAKE_CONFIRM && is_current(c, attempt)) deliver(c, attempt);
  close_caller(c, caller);
}

/* A stranger has proved that it is a rank. There is room: strangers.max. */
static void admit(void *owner, int fd) {
  net_connector_t *c = owner;
  caller_t *caller = c->callers;
  while (caller->attempt.fd >= 0) caller++;
  caller->is_chosen = false;
  net_attempt_accept(&caller->attempt, fd);
  serve_caller(c, caller, POLLIN);
}

/* ---- the thread -----------------------------------------------------------------------------*/

/* The last connection is lost, if the peer has not made another one meanwhile. */
static void reopen(const net_connector_t *c, const net_dial_t *to) {
  link_t *link = link_of(c, to->peer, to->rail);
  if (link->state == LINK_MADE && link->made == to->made) link->state = LINK_NONE;
}

/* False: the thread is to end. */
static bool take_asked(net_connector_t *c) {
  uint64_t count;
  (void)!read(c->wakeup, &count, sizeof count);
  lock(c);
  while (c->asked != NULL) {
    net_dial_t *to = c->asked;
    c->asked = to->next;
    reopen(c, to);
    net_dial_t *present = find_dial(c, to->peer, to->rail);
    if (present != NULL) {
      net_dial_hurry(present);
      free(to);
      continue;
    }
    to->next = c->dials;
    c->dials = to;
  }
  bool goes_on = !c->is_ending;
  unlock(c);
  return goes_on;
}

static uint64_t earlier_of(uint64_t a, uint64_t b) {
  return a < b ? a : b;
}

static void add_polled(const net_connector_t *c, net_attempt_t *attempt, nfds_t *count,
                       uint64_t *due_ns) {
  attempt->polled = -1;
  if (attempt->fd < 0) return;
  attempt->polled = (int)*count;
  c->polled[(*count)++] = (struct pollfd){.fd = attempt->fd, .events = POLLIN};
  *due_ns = earlier_of(*due_ns, attempt->until_ns);
}

/* Without an attempt, the addresses of the round. */
static void add_dial(const net_connector_t *c, net_dial_t *to, nfds_t *count, uint64_t *due_ns) {
  add_polled(c, &to->attempt, count, due_ns);
  if (to->attempt.fd >= 0) return;
  *due_ns = earlier_of(*due_ns, to->round.due_ns);
  to->attempt.polled = (int)*count;
  memcpy(&c->polled[*count], to->round.polled, sizeof to->round.polled);
  *count += BASE_ADDRESSES_MAX;
}

/* Fills what is to be polled. Returns when something is due. */
static uint64_t prepare(net_connector_t *c, nfds_t *count) {
  uint64_t due_ns = UINT64_MAX;
  c->polled[0] = (struct pollfd){.fd = c->wakeup, .events = POLLIN};
  *count = 1;
  for (int i = 0; i < CALLERS_MAX; i++) {
    add_polled(c, &c->callers[i].attempt, count, &due_ns);
  }
  c->strangers_at = c->polled + *count;
  *count += (nfds_t)base_strangers_poll(&c->strangers, (int)*count - 1, c->strangers_at, &due_ns);
  for (net_dial_t *to = c->dials; to != NULL; to = to->next) add_dial(c, to, count, &due_ns);
  return due_ns;
}

static void turn(net_connector_t *c) {
  nfds_t count;
  uint64_t due_ns = prepare(c, &count);
  if (poll(c->polled, count, base_deadline_limit_ms(base_deadline_left_ns(due_ns))) < 0) {
    base_clock_sleep_ns(RETRY_NS); /* for want of memory */
    return;
  }
  for (net_dial_t **place = &c->dials; *place != NULL;) {
    net_dial_t *to = *place;
    if (serve_dial(c, to)) {
      place = &to->next;
    } else {
      *place = to->next;
      free_dial(to);
    }
  }
  for (int i = 0; i < CALLERS_MAX; i++) {
    caller_t *caller = &c->callers[i];
    if (caller->attempt.fd >= 0) serve_caller(c, caller, events_of(c, &caller->attempt));
  }
  base_strangers_serve(&c->strangers, c->strangers_at);
  if (c->strangers.error != 0) note_error(c, c->strangers.error);
}

static void *run(void *context) {
  net_connector_t *c = context;
  while (take_asked(c)) turn(c);
  return NULL;
}

/* ---- the owner ------------------------------------------------------------------------------*/

static void wake(const net_connector_t *c) {
  uint64_t one = 1;
  (void)!write(c->wakeup, &one, sizeof one);
}

coll_status_t net_connector_ask(net_connector_t *c, int peer, int rail, uint16_t made) {
  net_dial_t *to = NULL;
  COLL_TRY(base_alloc(1, sizeof *to, "a connection", (void **)&to));
  net_dial_init(to, peer, rail, c->pairs->pairs[peer].rail_count, made, &c->names[peer]);
  to->next = c->asked;
  c->asked = to;
  wake(c);
  return COLL_OK;
}

void net_connector_may_give_up(net_connector_t *c) {
  c->may_give_up = true;
}

int net_connector_error(const net_connector_t *c) {
  return c->error;
}

int net_connector_descriptor(const net_connector_t *c) {
  return c->made;
}

/* Signals are for the threads of the program. */
coll_status_t net_connector_start(net_connector_t *c) {
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

static coll_status_t fill(net_connector_t *c, const net_group_t *group) {
  size_t size = (size_t)group->size;
  COLL_TRY(base_alloc(size, sizeof *c->names, "names of ranks", (void **)&c->names));
  size_t links = size * group->names[group->rank].rails;
  c->rails = group->names[group->rank].rails;
  COLL_TRY(base_alloc(links, sizeof *c->links, "connections", (void **)&c->links));
  COLL_TRY(base_alloc(CALLERS_MAX, sizeof *c->callers, "connections", (void **)&c->callers));
  for (int i = 0; i < CALLERS_MAX; i++) c->callers[i].attempt.fd = -1;
  COLL_TRY(base_strangers_init(&c->strangers));
  COLL_TRY(base_alloc(2 + links * BASE_ADDRESSES_MAX + CALLERS_MAX, sizeof *c->polled,
                      "connections", (void **)&c->polled));
  memcpy(c->names, group->names, size * sizeof *c->names);
  c->wakeup = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  c->made = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (c->wakeup < 0 || c->made < 0) {
    return base_fail_errno(COLL_ERROR_SYSTEM, "rank %d: cannot make an event", group->rank);
  }
  return COLL_OK;
}

coll_status_t net_connector_create(net_pairs_t *pairs, net_listener_t *listener,
                                   const net_group_t *group, net_connector_t **connector) {
  net_connector_t *made = NULL;
  coll_status_t status = base_alloc(1, sizeof *made, "connections", (void **)&made);
  if (status != COLL_OK) {
    net_listener_close(listener);
    return status;
  }
  made->pairs = pairs;
  made->own = (net_identity_t){.rank = group->rank,
                               .size = group->size,
                               .session = group->session,
                               .secret = *group->secret};
  made->deadline_ns = group->deadline_ns;
  made->strangers = (base_strangers_t){.listener = listener->fd,
                                       .secret = &made->own.secret,
                                       .purpose = NET_PURPOSE,
                                       .limit_ns = PROOF_NS,
                                       .max = CALLERS_MAX,
                                       .admit = admit,
                                       .owner = made};
  made->wakeup = made->made = -1;
  listener->fd = -1;
  status = fill(made, group);
  if (status == COLL_OK) {
    *connector = made;
  } else {
    net_connector_destroy(made);
  }
  return status;
}

static void free_list(net_dial_t *list) {
  while (list != NULL) {
    net_dial_t *first = list;
    list = first->next;
    free_dial(first);
  }
}

void net_connector_destroy(net_connector_t *c) {
  if (c == NULL) return;
  if (c->has_thread) {
    lock(c);
    c->is_ending = true;
    unlock(c);
    wake(c);
    pthread_join(c->thread, NULL);
  }
  free_list(c->asked);
  free_list(c->dials);
  for (int i = 0; c->callers != NULL && i < CALLERS_MAX; i++) {
    net_attempt_close(&c->callers[i].attempt);
  }
  base_strangers_close(&c->strangers);
  if (c->wakeup >= 0) close(c->wakeup);
  if (c->made >= 0) close(c->made);
  base_secret_wipe(&c->own.secret);
  free(c->names);
  free(c->links);
  free(c->callers);
  free(c->polled);
  free(c);
}
