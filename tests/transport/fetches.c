/* Cases about fetches: long messages straight between the buffers of two ranks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "transport/kit.h"
#include "transport/kit_steps.h"
#include "transport/memory.h"

#define CHANNEL 2
#define MARGIN ((size_t)64)
#define MARGIN_BYTE 0xa5
#define BYTES_MAX (((size_t)3 << 20) + 4321)

/* What the ranks tell each other beside the transport. */
typedef struct board {
  transport_exposure_t exposures[HARNESS_RANKS_MAX]; /* each for the next rank */
  bool connected[HARNESS_RANKS_MAX];                 /* with the next rank */
} board_t;

/* The first half is the fixture's. */
static board_t *board(void) {
  return (board_t *)(void *)((char *)harness_board() + HARNESS_BOARD_BYTES / 2);
}

static int next_of(const transport_t *t) {
  return (t->rank + 1) % t->size;
}

static int previous_of(const transport_t *t) {
  return (t->rank + t->size - 1) % t->size;
}

static transport_port_t *port_of(transport_t *t, int peer) {
  return t->ops->port(t, peer, CHANNEL);
}

static int expose_try(transport_t *t, const void *data, size_t bytes, bool *exposed) {
  transport_port_t *port = port_of(t, next_of(t));
  coll_status_t status =
      port->transport->ops->fetch->expose(port, data, bytes, &board()->exposures[t->rank], exposed);
  KIT_REQUIRE(status == COLL_OK, "%s", base_last_error());
  return 0;
}

static void withdraw(transport_t *t, bool is_fetched) {
  transport_port_t *port = port_of(t, next_of(t));
  port->transport->ops->fetch->withdraw(port, &board()->exposures[t->rank], is_fetched);
}

static bool all_are_connected(const transport_t *t) {
  bool all = true;
  for (int rank = 0; rank < t->size; rank++) all = all && board()->connected[rank];
  return all;
}

/* Sends messages both ways until every rank can expose memory to the next one. What wires tell
 * each other goes by the socket, which a rank reads when it asks for the state of a peer. */
static int connect_all(transport_t *t) {
  uint64_t deadline = kit_deadline_ns();
  for (uint64_t number = 0; !all_are_connected(t); number++) {
    harness_barrier(); /* all have seen what `connected` was */
    KIT_TRY(kit_send(t, next_of(t), 0, number, 8));
    KIT_TRY(kit_expect(t, previous_of(t), 0, number, 8));
    KIT_TRY(kit_send(t, previous_of(t), 1, number, 8));
    KIT_TRY(kit_expect(t, next_of(t), 1, number, 8));
    (void)t->ops->peer_state(t, next_of(t));
    (void)t->ops->peer_state(t, previous_of(t));
    bool exposed;
    KIT_TRY(expose_try(t, &deadline, sizeof deadline, &exposed));
    if (exposed) withdraw(t, true);
    board()->connected[t->rank] = exposed;
    KIT_REQUIRE(base_clock_now_ns() < deadline, "rank %d exposes nothing", t->rank);
    harness_barrier();
  }
  return 0;
}

static int expose(transport_t *t, const void *data, size_t bytes) {
  bool exposed;
  KIT_TRY(expose_try(t, data, bytes, &exposed));
  KIT_REQUIRE(exposed, "%zu bytes are not exposed", bytes);
  harness_barrier();
  return 0;
}

/* Begins to fetch what the previous rank has exposed. */
static int begin(transport_t *t, void *dst, size_t offset, size_t bytes,
                 transport_fetch_t **fetch) {
  transport_exposure_t exposure = board()->exposures[previous_of(t)];
  transport_port_t *port = port_of(t, previous_of(t));
  exposure.address += offset;
  coll_status_t status = port->transport->ops->fetch->begin(port, &exposure, dst, bytes, fetch);
  KIT_REQUIRE(status == COLL_OK, "%zu bytes: %s", bytes, base_last_error());
  return 0;
}

static int finish(transport_fetch_t *fetch) {
  const transport_fetch_ops_t *ops = fetch->port->transport->ops->fetch;
  uint64_t deadline = kit_deadline_ns();
  for (bool done = false; !done;) {
    KIT_REQUIRE(ops->advance(fetch, &done) == COLL_OK, "%s", base_last_error());
    KIT_REQUIRE(base_clock_now_ns() < deadline, "a fetch is never done");
    if (!done) kit_pause();
  }
  return 0;
}

static int check(const transport_t *t, const unsigned char *own, size_t offset, size_t bytes) {
  int owner = previous_of(t);
  KIT_REQUIRE(kit_is_own(own + MARGIN, owner, offset, bytes),
              "%zu bytes at %zu of rank %d: some are wrong", bytes, offset, owner);
  KIT_REQUIRE(
      kit_is_all(own, MARGIN_BYTE, MARGIN) && kit_is_all(own + MARGIN + bytes, MARGIN_BYTE, MARGIN),
      "%zu bytes at %zu of rank %d: memory beside them was written", bytes, offset, owner);
  return 0;
}

/* Several fetches of one exposure, at the same time. */
static int fetch_sizes(transport_t *t, size_t bytes) {
  enum { COUNT = 5 };
  const size_t sizes[COUNT] = {1, 4097, bytes - 100, 65537, bytes};
  const size_t offsets[COUNT] = {0, 63, 7, 4095, 0};
  unsigned char *own[COUNT];
  transport_fetch_t *fetches[COUNT];
  int code = 0;
  for (int i = 0; i < COUNT; i++) {
    own[i] = malloc(sizes[i] + 2 * MARGIN);
    if (own[i] == NULL) abort();
    memset(own[i], MARGIN_BYTE, sizes[i] + 2 * MARGIN);
    KIT_TRY(begin(t, own[i] + MARGIN, offsets[i], sizes[i], &fetches[i]));
  }
  for (int i = COUNT - 1; i >= 0; i--) KIT_TRY(finish(fetches[i]));
  for (int i = 0; i < COUNT; i++) {
    if (code == 0) code = check(t, own[i], offsets[i], sizes[i]);
    free(own[i]);
  }
  return code;
}

static int lend_and_fetch(transport_t *t, const void *data, size_t bytes) {
  KIT_TRY(expose(t, data, bytes));
  KIT_TRY(fetch_sizes(t, bytes));
  KIT_TRY(kit_signal(t, previous_of(t), CHANNEL, 1));
  KIT_TRY(kit_wait(t, next_of(t), CHANNEL, 1));
  withdraw(t, true);
  harness_barrier();
  return 0;
}

/* Memory of every kind: of malloc, of pages that cannot be written to, and of coll_mem_alloc, also
 * after an earlier allocation at the same address was freed. */
int transport_case_fetches(const transport_fixture_t *fixture, transport_t **end) {
  (void)fixture;
  transport_t *t = *end;
  unsigned char *data = malloc(BYTES_MAX);
  if (data == NULL) abort();
  kit_fill_own(data, t->rank, 0, BYTES_MAX);
  KIT_TRY(connect_all(t));
  KIT_TRY(lend_and_fetch(t, data, BYTES_MAX));
  kit_fill_own(data + 3, t->rank, 0, 100003);
  KIT_TRY(lend_and_fetch(t, data + 3, 100003));
  free(data);
  data = mmap(NULL, BYTES_MAX, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) abort();
  kit_fill_own(data, t->rank, 0, BYTES_MAX);
  mprotect(data, BYTES_MAX, PROT_READ);
  KIT_TRY(lend_and_fetch(t, data, BYTES_MAX));
  munmap(data, BYTES_MAX);
  for (int i = 0; i < 3; i++) {
    void *memory;
    KIT_REQUIRE(transport_memory_alloc(BYTES_MAX, &memory) == COLL_OK, "%s", base_last_error());
    kit_fill_own(memory, t->rank, 0, BYTES_MAX);
    KIT_TRY(lend_and_fetch(t, memory, BYTES_MAX));
    KIT_TRY(lend_and_fetch(t, (char *)memory, 100003));
    transport_memory_free(memory);
  }
  return 0;
}

/* Ranks whose call fails stop what they fetch, and withdraw what they have exposed. */
int transport_case_stopped_fetches(const transport_fixture_t *fixture, transport_t **end) {
  enum { SETTLED_NS = 30000000 };
  (void)fixture;
  transport_t *t = *end;
  const transport_reason_t reason = {
      .failed_rank = 0, .status = COLL_ERROR_TIMEOUT, .text = "late"};
  transport_reason_t found;
  transport_fetch_t *fetch;
  unsigned char *data = malloc(BYTES_MAX), *own = calloc(1, BYTES_MAX), *then = malloc(BYTES_MAX);
  uint64_t deadline = kit_deadline_ns();
  if (data == NULL || own == NULL || then == NULL) abort();
  kit_fill_own(data, t->rank, 0, BYTES_MAX);
  KIT_TRY(connect_all(t));
  KIT_TRY(expose(t, data, BYTES_MAX));
  KIT_TRY(begin(t, own, 0, BYTES_MAX, &fetch));
  if (t->rank % 2 == 1) base_clock_sleep_ns(SETTLED_NS / 100);
  fetch->port->transport->ops->fetch->stop(fetch);
  memcpy(then, own, BYTES_MAX);
  withdraw(t, false);
  if (t->rank == 0) t->ops->abort(t, &reason);
  while (!t->ops->aborted(t, &found) && base_clock_now_ns() < deadline) kit_pause();
  KIT_REQUIRE(t->ops->aborted(t, &found), "rank %d does not hear of the abort", t->rank);
  KIT_REQUIRE(strcmp(found.text, "late") == 0, "it hears '%s'", found.text);
  base_clock_sleep_ns(SETTLED_NS);
  KIT_REQUIRE(memcmp(then, own, BYTES_MAX) == 0, "a fetch that was stopped still writes");
  free(data);
  free(own);
  free(then);
  return 0;
}
