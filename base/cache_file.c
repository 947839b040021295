/* A file is written under a temporary name and renamed. */
#include "base/cache_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

bool base_cache_file(const char *name, char path[BASE_CACHE_PATH_BYTES]) {
  const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  int length;
  if (cache != NULL && cache[0] == '/') {
    length = snprintf(path, BASE_CACHE_PATH_BYTES, "%s", cache);
  } else if (home != NULL && home[0] == '/') {
    length = snprintf(path, BASE_CACHE_PATH_BYTES, "%s/.cache", home);
  } else {
    return false;
  }
  if (length + 128 >= BASE_CACHE_PATH_BYTES) return false;
  mkdir(path, 0700);
  size_t left = (size_t)(BASE_CACHE_PATH_BYTES - length);
  snprintf(path + length, left, "/libcoll");
  if (mkdir(path, 0700) != 0 && errno != EEXIST) return false;
  snprintf(path + length, left, "/libcoll/%s", name);
  return true;
}

void base_cache_write(const char *path, const char *text, size_t bytes) {
  char aside[BASE_CACHE_PATH_BYTES + 32];
  snprintf(aside, sizeof aside, "%s.%ld", path, (long)getpid());
  int file = open(aside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) return;
  bool written = write(file, text, bytes) == (ssize_t)bytes;
  if (close(file) != 0 || !written || rename(aside, path) != 0) unlink(aside);
}
