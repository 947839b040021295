/*
 * Expands a path given by the user to the list of token shards it names: one file, a folder, a glob
 * pattern, or a comma-separated list of these.
 */
#ifndef LIBTRAIN_DATA_SHARD_LIST_H
#define LIBTRAIN_DATA_SHARD_LIST_H

#include <stddef.h>

#include "base/status.h"
#include "libtrain/data/text_files.h"

typedef struct train_shard_list {
  char **paths; /* [count], in the order given; those of a folder or pattern sorted by name */
  size_t count, capacity;
} train_shard_list_t;

/* Expands `path`: a .bin file; a folder, of which only token shards are taken; a glob(7) pattern;
 * or several of these separated by commas. The list is empty when the path names no shards. */
coll_status_t train_shard_list_find(const char *path, train_shard_list_t *list);
void train_shard_list_free(train_shard_list_t *list);

/* The split a shard belongs to by its name: held out if the name contains the word "val". */
train_split_t train_shard_split(const char *path);

#endif
