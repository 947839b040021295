/* The cases. */
#include "transport/net/wire/kit.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "transport/net/wire/ends.h"

#define FULL_BYTES ((size_t)32 << 20) /* more than any system holds for a peer */

static size_t short_ones(uint64_t number, size_t bytes_max) {
  (void)bytes_max;
  return (size_t)(number * 29 % 100);
}

static size_t longest(uint64_t number, size_t bytes_max) {
  (void)number;
  return bytes_max;
}

/* None of the longest ones, of which many take long. */
static size_t any_of(uint64_t number, size_t bytes_max) {
  (void)bytes_max;
  return (size_t)(number % 3 == 0 ? number * 7919 % WIRE_SLOT_BYTES : number * 29 % 100);
}

/* ---- connecting -----------------------------------------------------------------------------*/

static int connect_alone(wire_pair_t *pair) {
  wire_end_t *end = &pair->ends[0];
  uint64_t deadline_ns = kit_deadline_ns();
  coll_status_t status = end->wire->ops->connect(end->wire, end->link);
  KIT_REQUIRE(status == COLL_OK, "does not connect: %s", base_last_error());
  while (!end->is_ready) {
    KIT_REQUIRE(base_clock_now_ns() < deadline_ns, "an end that begins alone does not connect");
    KIT_TRY(ends_serve_both(pair));
    kit_pause();
  }
  return 0;
}

int wire_case_connects(const wire_fixture_t *fixture) {
  wire_pair_t pair;
  bool by_notes = fixture->join == NULL;
  int failed = ends_open(&pair, fixture, short_ones, !by_notes);
  if (!failed && by_notes) failed = connect_alone(&pair);
  if (!failed) failed = ends_send(&pair.ends[0]);
  if (!failed) failed = ends_await(&pair.ends[1], 1);
  ends_close(&pair);
  return failed;
}

/* ---- frames ---------------------------------------------------------------------------------*/

#define SIZES 12

static size_t each_size(uint64_t number, size_t bytes_max) {
  const size_t sizes[SIZES] = {0,    1,    15,        64,    511,           1023,
                               1024, 4097, bytes_max, 30000, bytes_max - 1, 0};
  return sizes[number % SIZES];
}

static int send_sizes(wire_pair_t *pair) {
  for (uint64_t i = 1; i <= (uint64_t)SIZES * 3; i++) {
    KIT_TRY(ends_send(&pair->ends[0]));
    KIT_TRY(ends_send(&pair->ends[1]));
    KIT_TRY(ends_await(&pair->ends[0], i));
    KIT_TRY(ends_await(&pair->ends[1], i));
  }
  return 0;
}

int wire_case_sizes(const wire_fixture_t *fixture) {
  return ends_run(fixture, each_size, send_sizes);
}

static int send_many(wire_pair_t *pair) {
  enum { FRAMES = 1000 };
  unsigned seed = 47;
  while (pair->ends[0].sent < FRAMES || pair->ends[1].sent < FRAMES) {
    wire_end_t *end = &pair->ends[rand_r(&seed) % 2];
    if (end->sent < FRAMES) KIT_TRY(ends_send(end));
    if (rand_r(&seed) % 8 == 0) KIT_TRY(ends_serve(&pair->ends[rand_r(&seed) % 2]));
  }
  KIT_TRY(ends_await(&pair->ends[0], FRAMES));
  return ends_await(&pair->ends[1], FRAMES);
}

int wire_case_order(const wire_fixture_t *fixture) {
  return ends_run(fixture, any_of, send_many);
}

/* Frames of both pairs, whose numbers differ; then of one, as the link of the other is closed. */
static int use_links(wire_pair_t *pair, wire_pair_t *beside) {
  enum { FRAMES = 100, OFFSET = 4711 };
  wire_end_t *const ends[] = {&pair->ends[0], &pair->ends[1], &beside->ends[0], &beside->ends[1]};
  ends[2]->sent = ends[2]->arrived = ends[3]->sent = ends[3]->arrived = OFFSET;
  for (int i = 0; i < FRAMES * 4; i++) KIT_TRY(ends_send(ends[i % 4]));
  for (int i = 0; i < 4; i++) KIT_TRY(ends_await(ends[i], ends[i]->other->sent));
  ends[0]->is_lost = true;
  ends[0]->wire->ops->disconnect(ends[0]->wire, ends[0]->link);
  for (int i = 2; i < 4; i++) KIT_TRY(ends_send(ends[i]));
  for (int i = 2; i < 4; i++) KIT_TRY(ends_await(ends[i], ends[i]->other->sent));
  return 0;
}

static int add_link(wire_pair_t *pair) {
  wire_pair_t beside;
  int failed = ends_add(&beside, pair);
  if (!failed) failed = use_links(pair, &beside);
  ends_close(&beside);
  return failed;
}

int wire_case_links(const wire_fixture_t *fixture) {
  return ends_run(fixture, any_of, add_link);
}

/* Sends more than the system holds, to an end that is not served. */
static int fill(wire_end_t *end) {
  size_t frames = FULL_BYTES / end->pair->fixture->bytes_max;
  for (size_t i = 0; i < frames; i++) KIT_TRY(ends_send(end));
  KIT_TRY(ends_serve(end));
  KIT_REQUIRE(ends_is_unsent(end), "says that all has reached a peer that receives nothing");
  return 0;
}

static int fill_and_drain(wire_pair_t *pair) {
  wire_end_t *end = &pair->ends[0];
  KIT_TRY(fill(end));
  uint64_t flushed = end->flushed;
  KIT_TRY(ends_await(&pair->ends[1], end->sent));
  uint64_t deadline_ns = kit_deadline_ns();
  while (ends_is_unsent(end)) {
    KIT_REQUIRE(base_clock_now_ns() < deadline_ns, "says that what has arrived is unsent");
    KIT_TRY(ends_serve_both(pair));
  }
  KIT_REQUIRE(end->stored == 0, "keeps %d frames that have arrived", (int)end->stored);
  KIT_REQUIRE(end->wire->ops->flush == NULL || end->flushed == flushed + 1,
              "says %d times that all is sent", (int)(end->flushed - flushed));
  return 0;
}

int wire_case_full(const wire_fixture_t *fixture) {
  return ends_run(fixture, longest, fill_and_drain);
}

static bool holds(const wire_end_t *end) {
  return end->wire->ops->holds(end->wire, end->link, -1);
}

/* The sender makes no call once it holds nothing. */
static int stop_sending(wire_pair_t *pair) {
  wire_end_t *from = &pair->ends[0], *to = &pair->ends[1];
  KIT_TRY(fill(from));
  KIT_REQUIRE(holds(from), "says that the system has all for a peer that receives nothing");
  uint64_t deadline_ns = kit_deadline_ns();
  while (holds(from)) {
    uint64_t before = to->arrived;
    KIT_REQUIRE(base_clock_now_ns() < deadline_ns, "holds what has arrived");
    KIT_TRY(ends_serve_both(pair));
    if (to->arrived > before) deadline_ns = kit_deadline_ns();
  }
  return ends_await_alone(to, from->sent);
}

int wire_case_holds(const wire_fixture_t *fixture) {
  return ends_run(fixture, longest, stop_sending);
}

static size_t as_they_are_copied(uint64_t number, size_t bytes_max) {
  (void)number, (void)bytes_max;
  return 5000;
}

/* Sends so many frames at most to an end that is not served, one after the other, until what was
 * sent stays with the sender. */
static int send_until_held(wire_pair_t *pair, uint64_t count, bool *is_held) {
  enum { TURNS = 1000 };
  wire_end_t *from = &pair->ends[0];
  *is_held = false;
  while (from->sent < count && !*is_held) {
    KIT_TRY(ends_send(from));
    for (int i = 0; i < TURNS && (i == 0 || *is_held); i++) {
      KIT_TRY(ends_serve(from));
      *is_held = holds(from);
    }
  }
  return 0;
}

static uint64_t frames_held; /* by the first pair of ends, from this one on */

static int find_held(wire_pair_t *pair) {
  bool is_held;
  KIT_TRY(send_until_held(pair, UINT64_MAX, &is_held));
  frames_held = pair->ends[0].sent;
  return 0;
}

/* The last frame of these is the one of which the system may have accepted a part. */
static int stop_before(wire_pair_t *pair) {
  bool is_held;
  KIT_TRY(send_until_held(pair, frames_held - 1, &is_held));
  return is_held ? 0 : ends_await_alone(&pair->ends[1], pair->ends[0].sent);
}

int wire_case_holds_parts(const wire_fixture_t *fixture) {
  int failed = 0;
  for (int i = 0; i < 5 && !failed; i++) {
    failed = ends_run(fixture, as_they_are_copied, find_held);
    if (!failed) failed = ends_run(fixture, as_they_are_copied, stop_before);
  }
  return failed;
}

static size_t short_ones_behind(uint64_t number, size_t bytes_max) {
  return number < FULL_BYTES / bytes_max ? bytes_max : 100;
}

/* The sender makes no other calls than those that queue further frames. */
static int queue_on(wire_pair_t *pair) {
  wire_end_t *from = &pair->ends[0], *to = &pair->ends[1];
  uint64_t deadline_ns = kit_deadline_ns();
  if (from->wire->ops->queue == NULL) return 0;
  KIT_TRY(fill(from));
  uint64_t flushed = from->flushed;
  from->queues_all = true;
  while (holds(from)) {
    KIT_REQUIRE(base_clock_now_ns() < deadline_ns, "does not send what waits");
    KIT_TRY(ends_serve(to));
    KIT_TRY(ends_send(from));
  }
  KIT_REQUIRE(from->flushed == flushed + 1, "says %d times that all is sent",
              (int)(from->flushed - flushed));
  return ends_await_alone(to, from->sent);
}

int wire_case_queues(const wire_fixture_t *fixture) {
  return ends_run(fixture, short_ones_behind, queue_on);
}

/* ---- sleeping -------------------------------------------------------------------------------*/

/* Then nothing needs to end a sleep. */
static bool have_all(const wire_end_t *end) {
  return end->arrived == end->other->sent && end->other->arrived == end->sent;
}

/* Sleeps as a rank does that has armed its wire, while the other end makes progress. */
static int sleep_armed(wire_end_t *end) {
  struct pollfd polled = {.fd = end->wire->descriptor, .events = POLLIN};
  uint64_t deadline_ns = base_clock_now_ns() + kit_wake_ns;
  while (!have_all(end) && poll(&polled, 1, 1) == 0) {
    KIT_REQUIRE(base_clock_now_ns() < deadline_ns, "does not end a sleep");
    KIT_TRY(ends_serve(end->other));
  }
  return ends_serve(end);
}

static int sleep_once(wire_end_t *end) {
  uint64_t before = end->arrived + end->fetched;
  bool is_armed = end->wire->ops->arm(end->wire) && end->arrived + end->fetched == before;
  return is_armed ? sleep_armed(end) : ends_serve(end);
}

/* The frame is sent when the receiver is armed, so that arming cannot find it. */
static int wake_receiver(wire_pair_t *pair) {
  wire_end_t *from = &pair->ends[0], *to = &pair->ends[1];
  for (uint64_t i = 1; i <= 20; i++) {
    uint64_t deadline_ns = kit_deadline_ns();
    while (!to->wire->ops->arm(to->wire)) {
      KIT_REQUIRE(base_clock_now_ns() < deadline_ns, "has something to do without an end");
      KIT_TRY(ends_serve_both(pair));
    }
    KIT_TRY(ends_send(from));
    KIT_TRY(sleep_armed(to));
    while (to->arrived < i) KIT_TRY(sleep_once(to));
  }
  return 0;
}

int wire_case_wakes_receiver(const wire_fixture_t *fixture) {
  return ends_run(fixture, short_ones, wake_receiver);
}

/* The receiver takes what there is, before the sender sleeps. */
static int wake_sender(wire_pair_t *pair) {
  wire_end_t *from = &pair->ends[0], *to = &pair->ends[1];
  KIT_TRY(fill(from));
  for (;;) {
    uint64_t before;
    do {
      before = to->arrived;
      KIT_TRY(ends_serve(to));
    } while (to->arrived > before);
    if (to->arrived == from->sent) return 0;
    KIT_TRY(sleep_once(from));
  }
}

int wire_case_wakes_sender(const wire_fixture_t *fixture) {
  return ends_run(fixture, longest, wake_sender);
}

/* ---- the end of a link ----------------------------------------------------------------------*/

/* What is sent to a peer that is gone shows it. */
static int expect_loss(wire_end_t *end) {
  uint64_t deadline_ns = kit_deadline_ns();
  KIT_TRY(ends_send(end));
  while (!end->is_lost) {
    KIT_REQUIRE(base_clock_now_ns() < deadline_ns, "does not lose a peer that is gone");
    KIT_TRY(ends_serve(end));
    if (end->other->wire != NULL) KIT_TRY(ends_serve(end->other));
    kit_pause();
  }
  return 0;
}

/* What the other end still gets are whole frames, and this one gets nothing. Only a
 * connection must show the other end that it is closed; owners of other wires tell each other. */
static int close_unsent(wire_pair_t *pair) {
  wire_end_t *end = &pair->ends[0];
  KIT_TRY(fill(end));
  end->is_lost = true;
  end->wire->ops->disconnect(end->wire, end->link);
  KIT_REQUIRE(end->stored == 0, "keeps %d frames of a link that is closed", (int)end->stored);
  KIT_REQUIRE(!ends_is_unsent(end), "says that something is unsent by a link that is closed");
  if (pair->fixture->join != NULL) return expect_loss(end->other);
  KIT_TRY(ends_send(end->other));
  for (int i = 0; i < 100; i++) KIT_TRY(ends_serve_both(pair));
  return 0;
}

int wire_case_closes(const wire_fixture_t *fixture) {
  return ends_run(fixture, longest, close_unsent);
}

static int lose(wire_pair_t *pair) {
  wire_end_t *end = &pair->ends[0], *gone = &pair->ends[1];
  KIT_TRY(ends_send(end));
  KIT_TRY(ends_await(gone, 1));
  gone->wire->ops->destroy(gone->wire);
  gone->wire = NULL;
  return expect_loss(end);
}

int wire_case_lost(const wire_fixture_t *fixture) {
  return fixture->keeps_gone_peers ? 0 : ends_run(fixture, short_ones, lose);
}

static size_t in_runs(uint64_t number, size_t bytes_max) {
  const size_t sizes[] = {3000, 3000, 3000, 0, 2048, 2048, 100, 2048, 9000, 9000, 9000, 1};
  size_t bytes = sizes[number % (sizeof sizes / sizeof sizes[0])];
  return bytes < bytes_max ? bytes : bytes_max;
}

/* Payloads of which several in a row have the same length, and others: one at a time, or many at
 * once. */
static int send_runs(wire_pair_t *pair) {
  enum { FRAMES = 300, BURST_MAX = 5 };
  wire_end_t *from = &pair->ends[0], *to = &pair->ends[1];
  for (uint64_t sent = 0, burst = 1; sent < FRAMES; burst = burst % BURST_MAX + 1) {
    for (uint64_t i = 0; i < burst; i++, sent++) KIT_TRY(ends_send(from));
    KIT_TRY(ends_await(to, sent));
  }
  return 0;
}

int wire_case_runs(const wire_fixture_t *fixture) {
  return ends_run(fixture, in_runs, send_runs);
}

/* ---- what the peer may not send --------------------------------------------------------------*/

/* A wire that connects by notes leaves it to the owner. */
static int refuse(wire_pair_t *pair) {
  wire_end_t *from = &pair->ends[0], *to = &pair->ends[1];
  int error = pair->fixture->join == NULL ? 0 : EBADMSG;
  uint64_t deadline_ns = kit_deadline_ns();
  const net_frame_t frame = {.kind = ENDS_BAD_KIND};
  for (int i = 0; i < 3; i++) KIT_TRY(ends_send(from));
  KIT_TRY(ends_await(to, 3));
  coll_status_t status = from->wire->ops->send(from->wire, from->link, &frame, NULL, false);
  KIT_REQUIRE(status == COLL_OK, "does not send: %s", base_last_error());
  KIT_TRY(ends_send(from));
  while (!to->is_lost) {
    KIT_REQUIRE(base_clock_now_ns() < deadline_ns, "accepts what the peer may not send");
    KIT_TRY(ends_serve_both(pair));
  }
  KIT_REQUIRE(to->error == error, "loses the link for another reason: %d", to->error);
  KIT_TRY(ends_serve(to));
  KIT_REQUIRE(to->arrived == 3, "passes on what follows");
  return 0;
}

int wire_case_refuses(const wire_fixture_t *fixture) {
  return ends_run(fixture, in_runs, refuse);
}

/* ---- fetches --------------------------------------------------------------------------------*/

#define FETCH_BYTES (((size_t)3 << 19) + 3)

typedef struct fetch {
  char *from, *to; /* [FETCH_BYTES] */
  transport_exposure_t exposure;
  transport_fetch_t *fetch;
} fetch_t;

static int begin_fetch(wire_pair_t *pair, fetch_t *fetch) {
  wire_end_t *sender = &pair->ends[0], *receiver = &pair->ends[1];
  bool exposed = false;
  coll_status_t status = sender->wire->ops->expose(sender->wire, sender->link, fetch->from,
                                                   FETCH_BYTES, &fetch->exposure, &exposed);
  KIT_REQUIRE(status == COLL_OK && exposed, "exposes nothing: %s", base_last_error());
  status = receiver->wire->ops->fetch(receiver->wire, receiver->link, &fetch->exposure, fetch->to,
                                      FETCH_BYTES, &fetch->fetch);
  KIT_REQUIRE(status == COLL_OK, "does not fetch: %s", base_last_error());
  return 0;
}

static int fetch_all(wire_pair_t *pair, fetch_t *fetch) {
  wire_t *sender = pair->ends[0].wire, *receiver = pair->ends[1].wire;
  uint64_t deadline_ns = kit_deadline_ns();
  kit_fill(fetch->from, 4711, FETCH_BYTES);
  KIT_TRY(begin_fetch(pair, fetch));
  for (bool done = false; !done;) {
    KIT_REQUIRE(base_clock_now_ns() < deadline_ns, "a fetch does not end");
    KIT_TRY(ends_serve_both(pair));
    coll_status_t status = receiver->ops->advance(receiver, fetch->fetch, &done);
    KIT_REQUIRE(status == COLL_OK, "a fetch fails: %s", base_last_error());
  }
  KIT_REQUIRE(kit_is(fetch->to, 4711, FETCH_BYTES), "fetches something else");
  sender->ops->withdraw(sender, pair->ends[0].link, &fetch->exposure, true);
  return 0;
}

/* Nothing is written to the memory of a fetch that was stopped. */
static int stop_fetch(wire_pair_t *pair, fetch_t *fetch) {
  wire_t *sender = pair->ends[0].wire, *receiver = pair->ends[1].wire;
  KIT_TRY(begin_fetch(pair, fetch));
  KIT_TRY(ends_serve(&pair->ends[1]));
  receiver->ops->stop(receiver, fetch->fetch);
  memset(fetch->to, 0, FETCH_BYTES);
  for (int i = 0; i < 100; i++) KIT_TRY(ends_serve_both(pair));
  for (size_t i = 0; i < FETCH_BYTES; i++) {
    KIT_REQUIRE(fetch->to[i] == 0, "writes to the memory of a fetch that was stopped");
  }
  sender->ops->withdraw(sender, pair->ends[0].link, &fetch->exposure, false);
  return 0;
}

static int use_fetches(wire_pair_t *pair) {
  if (pair->ends[0].wire->ops->expose == NULL) return 0;
  fetch_t fetch = {.from = malloc(FETCH_BYTES), .to = calloc(1, FETCH_BYTES)};
  int failed = fetch.from == NULL || fetch.to == NULL ? harness_fail("no memory") : 0;
  if (!failed) failed = fetch_all(pair, &fetch);
  if (!failed) failed = stop_fetch(pair, &fetch);
  free(fetch.from);
  free(fetch.to);
  return failed;
}

int wire_case_fetches(const wire_fixture_t *fixture) {
  return ends_run(fixture, short_ones, use_fetches);
}

/* ---- running --------------------------------------------------------------------------------*/

typedef struct job {
  const wire_fixture_t *fixture;
  wire_case_t body;
} job_t;

static int run_case(int rank, int size, void *context) {
  const job_t *job = context;
  (void)rank, (void)size;
  return job->body(job->fixture);
}

void wire_kit_run(const wire_fixture_t *fixture, wire_case_t body) {
  job_t job = {fixture, body};
  harness_result_t result;
  bool passed = harness_run(1, 120000, run_case, &job, &result);
  cr_assert(passed, "%s", result.text);
}
