/* Paths of a tree are relative to its root. */
#include "tests/topo/tree.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_BYTES 512

void tree_make(char root[TREE_BYTES]) {
  snprintf(root, TREE_BYTES, "/tmp/libcoll-tree-XXXXXX");
  cr_assert_not_null(mkdtemp(root));
}

static void make_folder(const char *path) {
  cr_assert(mkdir(path, 0700) == 0 || errno == EEXIST, "%s: %s", path, strerror(errno));
}

/* The whole path, whose folders are made. */
static void prepare(const char *root, const char *path, char whole[PATH_BYTES]) {
  int length = snprintf(whole, PATH_BYTES, "%s/%s", root, path);
  cr_assert(length > 0 && length < PATH_BYTES);
  for (char *at = whole + strlen(root) + 1; (at = strchr(at, '/')) != NULL; at++) {
    *at = '\0';
    make_folder(whole);
    *at = '/';
  }
}

void tree_add(const char *root, const char *path, const char *text) {
  char whole[PATH_BYTES];
  prepare(root, path, whole);
  FILE *file = fopen(whole, "w");
  cr_assert_not_null(file, "%s: %s", whole, strerror(errno));
  cr_assert(fputs(text, file) >= 0);
  fclose(file);
}

void tree_link(const char *root, const char *path, const char *target) {
  char whole[PATH_BYTES], end[PATH_BYTES];
  prepare(root, path, whole);
  prepare(root, target, end);
  make_folder(end);
  cr_assert_eq(symlink(end, whole), 0, "%s: %s", whole, strerror(errno));
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *info) {
  (void)status, (void)kind, (void)info;
  return remove(path);
}

void tree_remove(const char *root) {
  cr_assert_eq(nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}
