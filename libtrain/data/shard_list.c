/* A file in a folder counts as a shard if it ends in .bin and starts with the magic number. */
#include "libtrain/data/shard_list.h"

#include <ctype.h>
#include <dirent.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "libtrain/data/shard.h"
#include "libtrain/files/io.h"

static coll_status_t add(train_shard_list_t *list, const char *path) {
  void *paths = list->paths;
  char *copy = strdup(path);
  coll_status_t status = copy != NULL
                             ? base_grow(&paths, &list->capacity, list->count + 1,
                                         sizeof *list->paths, "a list of shards")
                             : base_fail(COLL_ERROR_MEMORY, "out of memory for a list of shards");
  if (status != COLL_OK) {
    free(copy);
    return status;
  }
  list->paths = paths;
  list->paths[list->count++] = copy;
  return COLL_OK;
}

static int is_bin(const struct dirent *entry) {
  return train_path_ends_in(entry->d_name, ".bin");
}

static coll_status_t add_folder(train_shard_list_t *list, const char *folder) {
  struct dirent **entries;
  char path[PATH_MAX];
  coll_status_t status = COLL_OK;
  int count = scandir(folder, &entries, is_bin, alphasort);
  for (int i = 0; i < count; i++) {
    int length = snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
    if (status == COLL_OK && length < PATH_MAX && train_shard_detect(path)) {
      status = add(list, path);
    }
    free(entries[i]);
  }
  if (count >= 0) free(entries);
  return status;
}

static coll_status_t add_pattern(train_shard_list_t *list, const char *pattern) {
  glob_t found;
  coll_status_t status = COLL_OK;
  if (glob(pattern, 0, NULL, &found) != 0) return COLL_OK;
  for (size_t i = 0; status == COLL_OK && i < found.gl_pathc; i++) {
    if (train_path_ends_in(found.gl_pathv[i], ".bin")) status = add(list, found.gl_pathv[i]);
  }
  globfree(&found);
  return status;
}

static coll_status_t add_path(train_shard_list_t *list, const char *path) {
  struct stat found;
  if (stat(path, &found) != 0) return add_pattern(list, path);
  if (S_ISDIR(found.st_mode)) return add_folder(list, path);
  return train_path_ends_in(path, ".bin") ? add(list, path) : COLL_OK;
}

/* Adds each part of the comma-separated list. A part that names no shards empties the list. */
static coll_status_t add_paths(train_shard_list_t *list, const char *path) {
  char entry[PATH_MAX];
  for (;;) {
    size_t length = strcspn(path, ","), before = list->count;
    if (length >= sizeof entry) return COLL_OK;
    snprintf(entry, sizeof entry, "%.*s", (int)length, path);
    COLL_TRY(add_path(list, entry));
    if (list->count == before) {
      train_shard_list_free(list);
      return COLL_OK;
    }
    if (path[length] == '\0') return COLL_OK;
    path += length + 1;
  }
}

coll_status_t train_shard_list_find(const char *path, train_shard_list_t *list) {
  struct stat found;
  train_shard_list_t made = {0};
  coll_status_t status = stat(path, &found) == 0 ? add_path(&made, path) : add_paths(&made, path);
  if (status != COLL_OK) {
    train_shard_list_free(&made);
    return status;
  }
  *list = made;
  return COLL_OK;
}

void train_shard_list_free(train_shard_list_t *list) {
  for (size_t i = 0; i < list->count; i++) free(list->paths[i]);
  free(list->paths);
  *list = (train_shard_list_t){0};
}

train_split_t train_shard_split(const char *path) {
  const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
  for (const char *at = strstr(name, "val"); at != NULL; at = strstr(at + 1, "val")) {
    bool starts = at == name || !isalpha((unsigned char)at[-1]);
    if (starts && !isalpha((unsigned char)at[strlen("val")])) return TRAIN_SPLIT_HELD_OUT;
  }
  return TRAIN_SPLIT_TRAINING;
}
