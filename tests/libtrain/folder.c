/* POSIX calls; any failure fails the test. */
#include "folder.h"

#include <criterion/criterion.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PATHS 8

void folder_make(folder_t *folder) {
  *folder = (folder_t){"/tmp/libtrain-test-XXXXXX"};
  cr_assert_not_null(mkdtemp(folder->path));
}

static int remove_entry(const char *path, const struct stat *found, int kind, struct FTW *walk) {
  (void)found, (void)kind, (void)walk;
  return remove(path);
}

void folder_remove(const folder_t *folder) {
  nftw(folder->path, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

const char *folder_path(const folder_t *folder, const char *name) {
  static _Thread_local char paths[PATHS][256];
  static _Thread_local unsigned used;
  char *path = paths[used++ % PATHS];
  snprintf(path, sizeof paths[0], "%s/%s", folder->path, name);
  return path;
}

const char *folder_write(const folder_t *folder, const char *name, const void *bytes,
                         size_t count) {
  const char *path = folder_path(folder, name);
  const char *slash = strrchr(name, '/');
  if (slash != NULL) {
    char parent[256];
    snprintf(parent, sizeof parent, "%s/%.*s", folder->path, (int)(slash - name), name);
    mkdir(parent, 0755);
  }
  FILE *file = fopen(path, "wb");
  cr_assert_not_null(file, "%s", path);
  cr_assert_eq(fwrite(bytes, 1, count, file), count);
  cr_assert_eq(fclose(file), 0);
  return path;
}

void *folder_read(const char *path, size_t *count) {
  FILE *file = fopen(path, "rb");
  cr_assert_not_null(file, "%s", path);
  fseek(file, 0, SEEK_END);
  *count = (size_t)ftell(file);
  rewind(file);
  void *bytes = malloc(*count + 1);
  cr_assert_eq(fread(bytes, 1, *count, file), *count);
  fclose(file);
  return bytes;
}
