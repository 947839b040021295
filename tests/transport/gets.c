/* Cases about get: reading the ordinary memory of peers that are other processes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "transport/kit.h"
#include "transport/kit_steps.h"

#define PAGE ((size_t)4096)
#define LARGE_BYTES ((size_t)3 << 20)
#define MARGIN ((size_t)64)
#define MARGIN_BYTE 0xa5

/* Addresses in the processes of all ranks, on the board. */
typedef struct places {
  uint64_t large[HARNESS_RANKS_MAX];     /* LARGE_BYTES and a page, filled by `fill` */
  uint64_t untouched[HARNESS_RANKS_MAX]; /* two pages that nobody has written or read */
  uint64_t read_only[HARNESS_RANKS_MAX]; /* a page, filled, then PROT_READ */
  uint64_t forbidden[HARNESS_RANKS_MAX]; /* PROT_NONE, after a page that can be read */
  uint64_t unmapped[HARNESS_RANKS_MAX];  /* not mapped, after a page that can be read */
} places_t;

static uint64_t address_of(const void *ptr) {
  return (uint64_t)(uintptr_t)ptr;
}

static void *map_pages(size_t pages) {
  void *base = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) abort();
  return base;
}

/* Memory of every kind. The end of the process frees it. */
static void offer(int rank, places_t *places) {
  char *large = malloc(LARGE_BYTES + PAGE), *fixed = map_pages(1);
  char *forbidden = map_pages(2), *unmapped = map_pages(3);
  if (large == NULL) abort();
  kit_fill_own(large, rank, 0, LARGE_BYTES + PAGE);
  kit_fill_own(fixed, rank, 0, PAGE);
  mprotect(fixed, PAGE, PROT_READ);
  mprotect(forbidden + PAGE, PAGE, PROT_NONE);
  munmap(unmapped + PAGE, PAGE); /* the page after it keeps other mappings away */
  places->large[rank] = address_of(large);
  places->untouched[rank] = address_of(map_pages(2));
  places->read_only[rank] = address_of(fixed);
  places->forbidden[rank] = address_of(forbidden + PAGE);
  places->unmapped[rank] = address_of(unmapped + PAGE);
}

static int require_probe(transport_t *t) {
  char why[TRANSPORT_WHY_BYTES] = "";
  KIT_REQUIRE(t->ops->probe_get(t, why), "rank %d cannot get: %s", t->rank, why);
  return 0;
}

/* ---- exact bytes ----------------------------------------------------------------------------*/

/* Gets bytes of the peer's large buffer, and compares them and the margins around them. */
static int get_exactly(transport_t *t, int peer, size_t offset, size_t bytes, unsigned char *own) {
  const places_t *places = harness_board();
  bool done = false;
  memset(own, MARGIN_BYTE, bytes + 2 * MARGIN);
  coll_status_t status =
      t->ops->get(t, peer, own + MARGIN, places->large[peer] + offset, bytes, &done);
  KIT_REQUIRE(status == COLL_OK && done, "%zu bytes at %zu of rank %d: done %d: %s", bytes, offset,
              peer, done, base_last_error());
  KIT_REQUIRE(kit_is_own(own + MARGIN, peer, offset, bytes),
              "%zu bytes at %zu of rank %d: some are wrong", bytes, offset, peer);
  KIT_REQUIRE(
      kit_is_all(own, MARGIN_BYTE, MARGIN) && kit_is_all(own + MARGIN + bytes, MARGIN_BYTE, MARGIN),
      "%zu bytes at %zu of rank %d: memory beside them was written", bytes, offset, peer);
  return 0;
}

static int get_every_size(transport_t *t, int peer) {
  static const size_t sizes[] = {1,          2,     3,     63,   64, 65, 4095,   4096,
                                 4097,       65535, 65537, 1000, 8,  7,  100003, (1 << 20) + 1,
                                 LARGE_BYTES};
  static const size_t offsets[] = {0, 1, 7, 63, 4095};
  unsigned char *own = malloc(LARGE_BYTES + 2 * MARGIN + 16);
  if (own == NULL) abort();
  int code = 0;
  for (size_t s = 0; s < sizeof sizes / sizeof sizes[0] && code == 0; s++) {
    size_t count = sizes[s] < LARGE_BYTES / 4 ? sizeof offsets / sizeof offsets[0] : 2;
    for (size_t i = 0; i < count && code == 0; i++) {
      code = get_exactly(t, peer, offsets[i], sizes[s], own + (s + i) % 16);
    }
  }
  free(own);
  return code;
}

int transport_case_gets(const transport_fixture_t *fixture, transport_t **end) {
  (void)fixture;
  transport_t *t = *end;
  offer(t->rank, harness_board());
  harness_barrier();
  KIT_TRY(require_probe(t));
  for (int peer = 0; peer < t->size; peer++) {
    if (peer != t->rank) KIT_TRY(get_every_size(t, peer));
  }
  harness_barrier();
  return 0;
}

/* ---- kinds of memory ------------------------------------------------------------------------*/

static int get_page(transport_t *t, int peer, uint64_t address, unsigned char page[PAGE]) {
  bool done = false;
  memset(page, MARGIN_BYTE, PAGE);
  coll_status_t status = t->ops->get(t, peer, page, address, PAGE, &done);
  KIT_REQUIRE(status == COLL_OK && done, "a page of rank %d: done %d: %s", peer, done,
              base_last_error());
  return 0;
}

static int get_readable(transport_t *t, int peer, const places_t *places) {
  static const unsigned char zeros[PAGE];
  unsigned char page[PAGE];
  KIT_TRY(get_page(t, peer, places->untouched[peer] + PAGE / 2, page));
  KIT_REQUIRE(memcmp(page, zeros, PAGE) == 0, "pages that were never touched are not zero");
  KIT_TRY(get_page(t, peer, places->read_only[peer], page));
  KIT_REQUIRE(kit_is_own(page, peer, 0, PAGE), "some bytes of a read-only page are wrong");
  return 0;
}

/* `before`: bytes in front of the address that can be read. */
static int get_unreadable(transport_t *t, int peer, uint64_t address, size_t before) {
  unsigned char *own = malloc(2 * PAGE);
  char name[24];
  bool done = false;
  if (own == NULL) abort();
  coll_status_t status = t->ops->get(t, peer, own, address - before, before + 100, &done);
  free(own);
  snprintf(name, sizeof name, "rank %d", peer);
  KIT_REQUIRE(status == COLL_ERROR_SYSTEM, "memory of rank %d that is not there: status %d", peer,
              (int)status);
  KIT_REQUIRE(
      strstr(base_last_error(), "cannot read") != NULL && strstr(base_last_error(), name) != NULL,
      "it names not what cannot be read and %s: %s", name, base_last_error());
  return 0;
}

int transport_case_get_kinds(const transport_fixture_t *fixture, transport_t **end) {
  (void)fixture;
  transport_t *t = *end;
  places_t *places = harness_board();
  offer(t->rank, places);
  harness_barrier();
  KIT_TRY(require_probe(t));
  for (int peer = 0; peer < t->size; peer++) {
    if (peer == t->rank) continue;
    KIT_TRY(get_readable(t, peer, places));
    for (size_t before = 0; before <= PAGE; before += PAGE / 2) {
      KIT_TRY(get_unreadable(t, peer, places->forbidden[peer], before));
      KIT_TRY(get_unreadable(t, peer, places->unmapped[peer], before));
    }
    KIT_TRY(get_exactly(t, peer, 5, 1000, (unsigned char[1000 + 2 * MARGIN]){0}));
  }
  harness_barrier();
  return 0;
}

/* ---- peers that die -------------------------------------------------------------------------*/

/* Gets from rank 0 until that is no longer possible. Whatever was got is exact. */
static int get_until_gone(transport_t *t, uint64_t address, unsigned char *own, size_t bytes) {
  unsigned char *expected = malloc(bytes);
  uint64_t deadline = kit_deadline_ns();
  bool done = true;
  if (expected == NULL) abort();
  kit_fill_own(expected, 0, 0, bytes);
  for (long gets = 0; done; gets++) {
    memset(own, MARGIN_BYTE, bytes);
    coll_status_t status = t->ops->get(t, 0, own, address, bytes, &done);
    KIT_REQUIRE(status == COLL_OK, "after %ld gets: %s", gets, base_last_error());
    KIT_REQUIRE(!done || memcmp(own, expected, bytes) == 0, "get %ld has wrong bytes", gets);
    KIT_REQUIRE(base_clock_now_ns() < deadline, "rank 0 can still be read");
  }
  free(expected);
  return 0;
}

/* Rank 0 is killed while the others read its memory; then it stays unreadable. */
int transport_case_get_death(const transport_fixture_t *fixture, transport_t **end) {
  enum { ALIVE_NS = 20000000 };
  (void)fixture;
  transport_t *t = *end;
  const places_t *places = harness_board();
  unsigned char *own = malloc(LARGE_BYTES);
  bool done;
  if (own == NULL) abort();
  offer(t->rank, harness_board());
  harness_barrier(); /* all ranks have created their transports */
  KIT_TRY(require_probe(t));
  harness_barrier();
  if (t->rank == 0) {
    base_clock_sleep_ns(ALIVE_NS);
    harness_kill(0);
  }
  KIT_TRY(get_until_gone(t, places->large[0], own, LARGE_BYTES));
  while (t->ops->peer_state(t, 0) == TRANSPORT_PEER_HERE) kit_pause();
  KIT_REQUIRE(t->ops->peer_state(t, 0) == TRANSPORT_PEER_LOST, "rank 0 has left");
  for (int i = 0; i < 3; i++) {
    done = true;
    coll_status_t status = t->ops->get(t, 0, own, places->large[0], 100, &done);
    KIT_REQUIRE(status == COLL_OK && !done, "a dead rank is read: %s", base_last_error());
  }
  free(own);
  int other = 3 - t->rank; /* the survivors wait for each other before they leave */
  KIT_TRY(kit_signal(t, other, 0, 1));
  KIT_TRY(kit_wait(t, other, 0, 1));
  t->ops->destroy(t);
  *end = NULL; /* skips the runner's barrier, which rank 0 cannot reach */
  return 0;
}

/* ---- where there is nothing to get ----------------------------------------------------------*/

int transport_case_no_gets(const transport_fixture_t *fixture, transport_t **end) {
  (void)fixture;
  transport_t *t = *end;
  char why[TRANSPORT_WHY_BYTES] = "";
  KIT_REQUIRE(!t->ops->probe_get(t, why), "it can get from ranks of this process");
  KIT_REQUIRE(strchr(why, ' ') != NULL && why[strlen(why) - 1] != '.', "no reason: '%s'", why);
  return 0;
}
