/* Cases about file descriptors that ranks pass to each other. */
#include <dirent.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "transport/kit.h"
#include "transport/kit_steps.h"

enum { EACH = 3 }; /* descriptors per peer and tag */

static const uint64_t tags[] = {UINT64_C(1) << 63, 7};

static bool reaches(transport_t *t, int peer) {
  void *scratch;
  size_t bytes;
  t->ops->scratch(t, peer, &scratch, &bytes);
  return peer != t->rank && scratch != NULL;
}

/* A file that holds one number. */
static int make_file(uint64_t number, int *descriptor) {
  *descriptor = memfd_create("test", MFD_CLOEXEC);
  KIT_REQUIRE(*descriptor >= 0, "no file");
  KIT_REQUIRE(pwrite(*descriptor, &number, sizeof number, 0) == (ssize_t)sizeof number, "no room");
  return 0;
}

static uint64_t number_of(int source, int destination, size_t tag, int index) {
  return (uint64_t)(1000 * source + 100 * destination + 10 * index) + tag;
}

static int pass(transport_t *t, int peer, uint64_t tag, uint64_t number) {
  uint64_t deadline_ns = kit_deadline_ns();
  bool done = false;
  int descriptor;
  KIT_TRY(make_file(number, &descriptor));
  while (!done && base_clock_now_ns() < deadline_ns) {
    coll_status_t status = t->ops->pass_descriptor(t, peer, tag, descriptor, &done);
    KIT_REQUIRE(status == COLL_OK, "cannot pass: %s", base_last_error());
    if (!done) kit_pause();
  }
  close(descriptor);
  KIT_REQUIRE(done, "rank %d has no room", peer);
  return 0;
}

static int take(transport_t *t, int peer, uint64_t tag, uint64_t expected) {
  uint64_t deadline_ns = kit_deadline_ns(), number = 0;
  bool done = false;
  int descriptor = -1;
  while (!done && base_clock_now_ns() < deadline_ns) {
    coll_status_t status = t->ops->take_descriptor(t, peer, tag, &descriptor, &done);
    KIT_REQUIRE(status == COLL_OK, "cannot take: %s", base_last_error());
    if (!done) kit_pause();
  }
  KIT_REQUIRE(done, "nothing came from rank %d", peer);
  KIT_REQUIRE(pread(descriptor, &number, sizeof number, 0) == (ssize_t)sizeof number, "no number");
  close(descriptor);
  KIT_REQUIRE(number == expected, "rank %d passed %llu instead of %llu", peer,
              (unsigned long long)number, (unsigned long long)expected);
  return 0;
}

static int refuses(transport_t *t, int peer) {
  bool done;
  int descriptor;
  KIT_REQUIRE(t->ops->pass_descriptor(t, peer, 1, STDOUT_FILENO, &done) == COLL_ERROR_UNSUPPORTED,
              "passes to rank %d", peer);
  KIT_REQUIRE(t->ops->take_descriptor(t, peer, 1, &descriptor, &done) == COLL_ERROR_UNSUPPORTED,
              "takes from rank %d", peer);
  return 0;
}

/* All pass to all, and take by tag in the other order of tags. */
int transport_case_descriptors(const transport_fixture_t *fixture, transport_t **end) {
  transport_t *t = *end;
  (void)fixture;
  harness_barrier(); /* all have created their transports */
  for (int index = 0; index < EACH; index++) {
    for (int peer = 0; peer < t->size; peer++) {
      if (!reaches(t, peer)) continue;
      for (size_t tag = 0; tag < 2; tag++) {
        KIT_TRY(pass(t, peer, tags[tag], number_of(t->rank, peer, tag, index)));
      }
    }
  }
  for (int peer = 0; peer < t->size; peer++) {
    if (peer != t->rank && !reaches(t, peer)) KIT_TRY(refuses(t, peer));
    if (!reaches(t, peer)) continue;
    for (size_t tag = 2; tag-- > 0;) {
      for (int index = 0; index < EACH; index++) {
        KIT_TRY(take(t, peer, tags[tag], number_of(peer, t->rank, tag, index)));
      }
    }
  }
  return 0;
}

static int count_files(void) {
  DIR *folder = opendir("/proc/self/fd");
  int files = 0;
  while (folder != NULL && readdir(folder) != NULL) files++;
  if (folder != NULL) closedir(folder);
  return files;
}

/* Rank 0 passes as many as a peer has room for, and the peers take only the last of another tag. */
int transport_case_descriptors_left(const transport_fixture_t *fixture, transport_t **end) {
  transport_t *t = *end;
  int size = t->size;
  (void)fixture;
  harness_barrier();
  int files = count_files();
  harness_barrier();
  for (int peer = 1; t->rank == 0 && peer < t->size; peer++) {
    if (!reaches(t, peer)) continue;
    for (int i = 0; i + 1 < TRANSPORT_PASSES; i++) KIT_TRY(pass(t, peer, 1, 0));
    KIT_TRY(pass(t, peer, 2, 5));
  }
  if (t->rank > 0 && reaches(t, 0)) KIT_TRY(take(t, 0, 2, 5));
  harness_barrier();
  t->ops->destroy(t);
  *end = NULL;
  harness_barrier();
  KIT_REQUIRE(count_files() <= files + size, "%d open files became %d", files, count_files());
  harness_barrier();
  return 0;
}

/* Rank 1 sleeps before rank 0 passes anything. */
int transport_case_descriptor_wakes(const transport_fixture_t *fixture, transport_t **end) {
  const uint64_t long_ns = UINT64_C(60000000000);
  transport_t *t = *end;
  (void)fixture;
  if (!reaches(t, 1 - t->rank)) return 0;
  if (t->rank == 0) {
    harness_barrier();
    base_clock_sleep_ns(100000000u);
    return pass(t, 1, 1, 9);
  }
  t->ops->arm(t);
  harness_barrier();
  uint64_t begin_ns = base_clock_now_ns();
  t->ops->sleep(t, long_ns);
  t->ops->disarm(t);
  KIT_REQUIRE(base_clock_now_ns() - begin_ns < long_ns / 2, "nothing woke it");
  return take(t, 0, 1, 9);
}
