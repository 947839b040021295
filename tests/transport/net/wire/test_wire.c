/* The kit of wires on sockets and on the tests' own wire, and on both with one fault each, to show
 * that its cases can fail. The fault is a decorator of the table. */
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "transport/net/wire/ends.h"
#include "transport/net/wire/packet_wire.h"
#include "transport/net/wire/socket/socket.h"

/* ---- sockets --------------------------------------------------------------------------------*/

/* Accepts the caller at the other end of `fd`, not another process of the host. -1: it cannot. */
static int accept_from(int listener, int fd) {
  struct sockaddr_in own, peer;
  socklen_t own_bytes = sizeof own, peer_bytes = sizeof peer;
  if (getsockname(fd, (struct sockaddr *)&own, &own_bytes) != 0) return -1;
  for (;;) {
    int accepted = accept(listener, (struct sockaddr *)&peer, &peer_bytes);
    if (accepted < 0 ||
        (peer.sin_port == own.sin_port && peer.sin_addr.s_addr == own.sin_addr.s_addr)) {
      return accepted;
    }
    close(accepted);
  }
}

/* Two sockets that are connected over the loopback interface, and hold little. */
static bool connect_pair(int fds[2]) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof at;
  int bytes = 16384, listener = socket(AF_INET, SOCK_STREAM, 0);
  fds[0] = socket(AF_INET, SOCK_STREAM, 0);
  bool made = bind(listener, (struct sockaddr *)&at, sizeof at) == 0 && listen(listener, 8) == 0 &&
              getsockname(listener, (struct sockaddr *)&at, &length) == 0 &&
              connect(fds[0], (struct sockaddr *)&at, sizeof at) == 0;
  fds[1] = made ? accept_from(listener, fds[0]) : -1;
  if (fds[1] < 0) close(fds[0]);
  close(listener);
  for (int i = 0; fds[1] >= 0 && i < 2; i++) {
    (void)setsockopt(fds[i], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    (void)setsockopt(fds[i], SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
  }
  return fds[1] >= 0;
}

static bool join_sockets(wire_t *const ends[2]) {
  int fds[2], used = 0;
  if (!connect_pair(fds)) return false;
  while (used < 2 && socket_wire_connect(ends[used], ends[1 - used]->rank, fds[used])) used++;
  for (int i = used; i < 2; i++) close(fds[i]);
  return used == 2;
}

static coll_status_t open_sockets(wire_t **wire) {
  return socket_wire_open(3, wire);
}

static const wire_fixture_t sockets = {
    .open = open_sockets, .join = join_sockets, .bytes_max = NET_SLOT_BYTES};

WIRE_KIT(wire_socket, sockets)

/* ---- the tests' own wire --------------------------------------------------------------------*/

static coll_status_t open_packets(wire_t **wire) {
  return packet_wire_open(100, wire);
}

static const wire_fixture_t packets = {.open = open_packets, .bytes_max = WIRE_SLOT_BYTES};

WIRE_KIT(wire_packet, packets)

/* ---- faults ---------------------------------------------------------------------------------*/

typedef enum fault {
  FAULT_NONE,
  FAULT_LOSES_A_FRAME,
  FAULT_REPEATS_A_FRAME,
  FAULT_CHANGES_A_FRAME,
  FAULT_CHANGES_A_BYTE,
  FAULT_MIXES_LINKS,
  FAULT_SENDS_NOTHING_BAD,
  FAULT_IS_ALL_SENT,
  FAULT_IS_UNSENT,
  FAULT_HOLDS_NOTHING,
  FAULT_HOLDS_LITTLE,
  FAULT_HOLDS_ALL,
  FAULT_IS_DEAF,
  FAULT_GOES_ON,
  FAULT_SLEEPS_ON,
  FAULT_KEEPS_A_LINK,
  FAULT_CLOSES_ALL,
  FAULT_KEEPS_A_PLACE,
  FAULT_LOSES_A_NOTE,
  FAULT_FETCHES_LESS,
  FAULT_FETCHES_ON
} fault_t;

static const wire_ops_t *real;
static wire_ops_t faulty;
static fault_t fault;
static int calls;    /* of the faulty slot; the third one fails */
static int asked;    /* what the wire holds */
static bool is_kept; /* a link that was closed */

static coll_status_t faulty_send(wire_t *wire, int link, const net_frame_t *frame,
                                 const void *payload, bool is_lent) {
  net_frame_t sent = *frame;
  bool hits = ++calls == 3;
  if (fault == FAULT_SENDS_NOTHING_BAD && frame->kind == ENDS_BAD_KIND) return COLL_OK;
  if (fault == FAULT_LOSES_A_FRAME && hits) return COLL_OK;
  if (fault == FAULT_REPEATS_A_FRAME && hits) {
    COLL_TRY(real->send(wire, link, frame, payload, is_lent));
  }
  if (fault == FAULT_MIXES_LINKS && hits) link = 3 - link;
  if (fault == FAULT_CHANGES_A_FRAME && hits) sent.channel ^= 1;
  if (fault == FAULT_CHANGES_A_BYTE && frame->bytes > 0) ((char *)(uintptr_t)payload)[0] ^= 1;
  return real->send(wire, link, &sent, payload, is_lent);
}

/* The end of rank 0 only, to which nothing is sent where the other goes. */
static coll_status_t faulty_progress(wire_t *wire, int link) {
  if (fault == FAULT_IS_DEAF && wire->rank == 0) return COLL_OK;
  if (fault == FAULT_GOES_ON) COLL_TRY(real->progress(wire, link));
  return real->progress(wire, link);
}

static bool faulty_is_unsent(const wire_t *wire, int link) {
  if (fault == FAULT_IS_ALL_SENT || is_kept) return false;
  return fault == FAULT_IS_UNSENT || real->is_unsent(wire, link);
}

/* Little: nothing once some has arrived. */
static bool faulty_holds(wire_t *wire, int link, int channel) {
  if (fault == FAULT_HOLDS_NOTHING || (fault == FAULT_HOLDS_LITTLE && ++asked > 3)) return false;
  return fault == FAULT_HOLDS_ALL || real->holds(wire, link, channel);
}

/* Passes on what there is, as it may; then the socket is no longer in the epoll set. */
static bool faulty_arm(wire_t *wire) {
  int fd = socket_wire_fd(wire, 1 - wire->rank);
  if (fault == FAULT_SLEEPS_ON) (void)real->progress(wire, 1 - wire->rank);
  if (fault == FAULT_SLEEPS_ON) (void)epoll_ctl(wire->descriptor, EPOLL_CTL_DEL, fd, NULL);
  return real->arm(wire);
}

static void faulty_disconnect(wire_t *wire, int link) {
  is_kept = fault == FAULT_KEEPS_A_LINK;
  if (!is_kept) real->disconnect(wire, link);
  if (fault == FAULT_CLOSES_ALL && link > 0) real->disconnect(wire, 3 - link);
}

static coll_status_t faulty_leave_place(wire_t *wire, int link, const char *place) {
  return fault == FAULT_KEEPS_A_PLACE ? COLL_OK : real->leave_place(wire, link, place);
}

static coll_status_t faulty_hear(wire_t *wire, int link, const void *note, size_t bytes) {
  return fault == FAULT_LOSES_A_NOTE ? COLL_OK : real->hear(wire, link, note, bytes);
}

static coll_status_t faulty_advance(wire_t *wire, transport_fetch_t *fetch, bool *done) {
  COLL_TRY(real->advance(wire, fetch, done));
  if (fault == FAULT_FETCHES_LESS) *done = true;
  return COLL_OK;
}

static void faulty_stop(wire_t *wire, transport_fetch_t *fetch) {
  if (fault != FAULT_FETCHES_ON) real->stop(wire, fetch);
}

static void decorate(wire_t *wire) {
  real = wire->ops;
  faulty = *real;
  faulty.send = faulty_send;
  faulty.progress = faulty_progress;
  faulty.is_unsent = faulty_is_unsent;
  faulty.holds = faulty_holds;
  faulty.disconnect = faulty_disconnect;
  if (real->leave_place != NULL) faulty.leave_place = faulty_leave_place;
  if (real->leave_place != NULL) faulty.arm = faulty_arm;
  if (real->hear != NULL) faulty.hear = faulty_hear;
  if (real->expose != NULL) faulty.advance = faulty_advance;
  if (real->expose != NULL) faulty.stop = faulty_stop;
  wire->ops = &faulty;
}

static coll_status_t open_faulty_sockets(wire_t **wire) {
  COLL_TRY(open_sockets(wire));
  decorate(*wire);
  return COLL_OK;
}

static coll_status_t open_faulty_packets(wire_t **wire) {
  COLL_TRY(packet_wire_open(0, wire));
  decorate(*wire);
  return COLL_OK;
}

static const wire_fixture_t faulty_sockets = {
    .open = open_faulty_sockets, .join = join_sockets, .bytes_max = NET_SLOT_BYTES};
static const wire_fixture_t faulty_packets = {.open = open_faulty_packets,
                                              .bytes_max = WIRE_SLOT_BYTES};

enum { LIMIT_S = 30 }; /* a case waits no longer for anything */

typedef struct job {
  const wire_fixture_t *fixture;
  wire_case_t body;
} job_t;

static int run_case(int rank, int size, void *context) {
  const job_t *job = context;
  (void)rank, (void)size;
  if (fault != FAULT_NONE) harness_may_leak(true);
  int code = job->body(job->fixture);
  if (fault != FAULT_NONE) harness_may_leak(false);
  return code;
}

/* limit_s: how long the case waits for what does not come. */
static bool passes(const wire_fixture_t *fixture, wire_case_t body, fault_t which, uint64_t limit_s,
                   harness_result_t *result) {
  job_t job = {fixture, body};
  kit_limit_ns = kit_wake_ns = UINT64_C(1000000000) * limit_s;
  fault = which;
  calls = asked = 0;
  is_kept = false;
  return harness_run_threads(1, 120000, run_case, &job, result);
}

/* On a busy machine, what is only late may be missed before what the fault holds back: then it
 * waits for as long as a case without a fault. */
static void expect_failure(const wire_fixture_t *fixture, wire_case_t body, fault_t which,
                           const char *text) {
  harness_result_t result;
  for (uint64_t limit_s = 1;; limit_s = LIMIT_S) {
    cr_assert_not(passes(fixture, body, which, limit_s, &result),
                  "fault %d is not detected: \"%s\"", (int)which, text);
    if (strstr(result.text, text) != NULL) return;
    cr_assert(limit_s < LIMIT_S, "fault %d: not \"%s\": %s", (int)which, text, result.text);
  }
}

Test(wire_kit, detects_every_fault) {
  static const char reorders[] = "loses, repeats or reorders frames";
  static const char goes_on[] = "passes on what came after the loss";
  harness_result_t result;
  static const struct {
    const wire_fixture_t *fixture;
    wire_case_t body;
    fault_t fault;
    const char *text; /* of the case's failure */
  } faults[] = {
      {&faulty_packets, wire_case_connects, FAULT_LOSES_A_NOTE,
       "an end that begins alone does not connect"},
      {&faulty_packets, wire_case_sizes, FAULT_LOSES_A_FRAME, "only 1 of 2 frames arrive"},
      {&faulty_sockets, wire_case_sizes, FAULT_CHANGES_A_BYTE, "changes a payload"},
      {&faulty_sockets, wire_case_sizes, FAULT_CHANGES_A_FRAME, "changes a frame"},
      {&faulty_sockets, wire_case_order, FAULT_LOSES_A_FRAME, reorders},
      {&faulty_sockets, wire_case_order, FAULT_REPEATS_A_FRAME, reorders},
      {&faulty_packets, wire_case_links, FAULT_MIXES_LINKS, reorders},
      {&faulty_sockets, wire_case_links, FAULT_CLOSES_ALL, "frames arrive"},
      {&faulty_sockets, wire_case_full, FAULT_IS_ALL_SENT,
       "says that all has reached a peer that receives nothing"},
      {&faulty_sockets, wire_case_full, FAULT_IS_UNSENT, "says that what has arrived is unsent"},
      {&faulty_sockets, wire_case_holds, FAULT_HOLDS_NOTHING, "says that the system has all"},
      {&faulty_sockets, wire_case_holds, FAULT_HOLDS_LITTLE, "frames arrive"},
      {&faulty_sockets, wire_case_holds, FAULT_HOLDS_ALL, "holds what has arrived"},
      {&faulty_sockets, wire_case_wakes_receiver, FAULT_SLEEPS_ON, "does not end a sleep"},
      {&faulty_sockets, wire_case_wakes_sender, FAULT_SLEEPS_ON, "does not end a sleep"},
      {&faulty_sockets, wire_case_closes, FAULT_KEEPS_A_LINK, "frames of a link that is closed"},
      {&faulty_packets, wire_case_closes, FAULT_KEEPS_A_LINK, goes_on},
      {&faulty_sockets, wire_case_lost, FAULT_IS_DEAF, "does not lose a peer that is gone"},
      {&faulty_sockets, wire_case_places, FAULT_KEEPS_A_PLACE, "has no payload"},
      {&faulty_sockets, wire_case_places, FAULT_GOES_ON,
       "goes on after a payload that has a place"},
      {&faulty_sockets, wire_case_places_one, FAULT_GOES_ON, "brings two payloads to their places"},
      {&faulty_sockets, wire_case_pauses, FAULT_GOES_ON, "brings two long payloads in one turn"},
      {&faulty_sockets, wire_case_refuses, FAULT_SENDS_NOTHING_BAD,
       "accepts what the peer may not send"},
      {&faulty_packets, wire_case_refuses, FAULT_KEEPS_A_LINK, goes_on},
      {&faulty_packets, wire_case_fetches, FAULT_FETCHES_LESS, "fetches something else"},
      {&faulty_packets, wire_case_fetches, FAULT_FETCHES_ON,
       "writes to the memory of a fetch that was stopped"},
  };
  for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
    cr_assert(passes(faults[i].fixture, faults[i].body, FAULT_NONE, LIMIT_S, &result),
              "%zu: fails without its fault: %s", i, result.text);
    expect_failure(faults[i].fixture, faults[i].body, faults[i].fault, faults[i].text);
  }
}
