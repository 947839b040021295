/* The size from which streaming pays: where it is kept, and that nothing found there does harm. */
#include <criterion/criterion.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device/host/host.h"

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

/* Opens the only file in the cache folder. */
static FILE *open_kept(const char *mode, char path[512]) {
  char folder[256];
  snprintf(folder, sizeof folder, "%s/libcoll", home);
  DIR *entries = opendir(folder);
  cr_assert_not_null(entries);
  int found = 0;
  for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
    if (entry->d_name[0] == '.') continue;
    snprintf(path, 512, "%s/%s", folder, entry->d_name);
    found++;
  }
  closedir(entries);
  cr_assert_eq(found, 1, "%d files were left behind", found);
  FILE *file = fopen(path, mode);
  cr_assert_not_null(file);
  return file;
}

static void remove_home(void) {
  char path[512];
  fclose(open_kept("r", path));
  unlink(path);
  *strrchr(path, '/') = '\0';
  rmdir(path);
  rmdir(home);
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

Test(calibrate, trusts_no_foreign_file) {
  static const char *const texts[] = {"", "\n", "nonsense\n", "bytes 12345678\n"};
  make_home();
  host_stream_calibrate("test", stream);
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    char path[512];
    FILE *file = open_kept("w", path);
    fputs(texts[i], file);
    fclose(file);
    streamed_copies = 0;
    cr_assert_gt(host_stream_calibrate("test", stream), 0);
    cr_assert_gt(streamed_copies, 0, "believed '%s'", texts[i]);
  }
  remove_home();
}

Test(calibrate, refuses_sizes_that_cannot_be) {
  static const char *const values[] = {"0\n", "-1\n", "99999999999999999999\n", "4194304", "4M\n"};
  char path[512], key[512] = "";
  make_home();
  host_stream_calibrate("test", stream);
  FILE *file = open_kept("r", path);
  size_t length = fread(key, 1, sizeof key - 1, file);
  fclose(file);
  cr_assert_gt(length, 0);
  char *value = strrchr(key, ' ') + 1;
  for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
    snprintf(value, 64, "%s", values[i]);
    file = open_kept("w", path);
    fputs(key, file);
    fclose(file);
    streamed_copies = 0;
    host_stream_calibrate("test", stream);
    cr_assert_gt(streamed_copies, 0, "believed '%s'", values[i]);
  }
  snprintf(value, 64, "4194304\n"); /* the same file with a good value is taken */
  file = open_kept("w", path);
  fputs(key, file);
  fclose(file);
  cr_assert_eq(host_stream_calibrate("test", stream), 4194304);
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
