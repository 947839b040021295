/* The size from which streaming pays: where it is kept, and that nothing found there does harm. */
#include <criterion/criterion.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/host/host.h"
#include "topo/kept.h"

static char home[] = "/tmp/libcoll-calibrate-XXXXXX";
static int streamed_copies;

static void stream(void *dst, const void *src, size_t bytes) {
  streamed_copies++;
  memcpy(dst, src, bytes / 2); /* always faster */
}

static void clumsy(void *dst, const void *src, size_t bytes) {
  streamed_copies++;
  for (int i = 0; i < 4; i++) memmove(dst, src, bytes);
}

static void make_home(void) {
  cr_assert_not_null(mkdtemp(home));
  setenv("XDG_CACHE_HOME", home, 1);
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *place) {
  (void)status, (void)kind, (void)place;
  return remove(path);
}

static void remove_home(void) {
  cr_assert_eq(nftw(home, remove_one, 4, FTW_DEPTH | FTW_PHYS), 0);
}

Test(calibrate, keeps_what_it_measured) {
  make_home();
  size_t found = host_stream_calibrate("test", stream);
  cr_assert_gt(streamed_copies, 0);
  streamed_copies = 0;
  cr_assert_eq(host_stream_calibrate("test", stream), found);
  cr_assert_eq(streamed_copies, 0, "measured again");
  remove_home();
}

Test(calibrate, refuses_sizes_that_cannot_be) {
  static const char *const name = "stream_bytes";
  int64_t value = 4096;
  make_home();
  topo_kept_save("test", &name, 1, &value);
  cr_assert_gt(host_stream_calibrate("test", stream), 0);
  cr_assert_gt(streamed_copies, 0, "believed 4096");
  value = 4194304;
  topo_kept_save("test", &name, 1, &value);
  streamed_copies = 0;
  cr_assert_eq(host_stream_calibrate("test", stream), 4194304);
  cr_assert_eq(streamed_copies, 0);
  remove_home();
}

Test(calibrate, works_where_nothing_can_be_kept) {
  setenv("XDG_CACHE_HOME", "/proc/nowhere", 1);
  cr_assert_gt(host_stream_calibrate("test", stream), 0);
  unsetenv("XDG_CACHE_HOME");
  unsetenv("HOME");
  cr_assert_gt(host_stream_calibrate("test", stream), 0);
}

Test(calibrate, streams_late_when_streaming_is_slow) {
  setenv("XDG_CACHE_HOME", "/proc/nowhere", 1);
  cr_assert_gt(host_stream_calibrate("test", clumsy), 16 << 20);
}

Test(calibrate, asks_nothing_of_small_destinations) {
  setenv("XDG_CACHE_HOME", "/proc/nowhere", 1);
  cr_assert_not(host_stream_pays(4096, "test", stream));
  cr_assert_eq(streamed_copies, 0);
  host_stream_set(4096);
  cr_assert(host_stream_pays(4096, "test", stream));
  cr_assert_not(host_stream_pays(4095, "test", stream));
  cr_assert_eq(streamed_copies, 0);
  host_stream_set(0);
  cr_assert(host_stream_pays(SIZE_MAX, "test", stream));
  cr_assert_gt(streamed_copies, 0);
}

Test(calibrate, measures_nothing_for_several_destinations) {
  setenv("XDG_CACHE_HOME", "/proc/nowhere", 1);
  host_stream_set(0);
  size_t least = host_scatter_least;
  cr_assert(host_stream_pays(SIZE_MAX, "test", stream));
  cr_assert_eq(host_scatter_least, least, "became %zu with what was measured for one",
               (size_t)host_scatter_least);
  host_stream_set(4096);
  cr_assert_eq(host_scatter_least, 4096, "is not what was asked for");
}
