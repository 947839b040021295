/*
 * Which token shards a user means by a path: one, a folder of them, a pattern, or several of these.
 */
#ifndef LIBTRAIN_DATA_SHARD_LIST_H
#define LIBTRAIN_DATA_SHARD_LIST_H

#include <stddef.h>

#include "base/status.h"
#include "libtrain/data/texts.h"

typedef struct train_shard_list {
  char **paths; /* [count], in the order given; those of a folder or a pattern by name */
  size_t count, capacity;
} train_shard_list_t;

/* What `path` means: a .bin file; a folder, of which its shards are taken and nothing else; a
 * pattern of glob(7); several of these with commas between them. An empty list when it means no
 * shards. */
coll_status_t train_shard_list_find(const char *path, train_shard_list_t *list);
void train_shard_list_free(train_shard_list_t *list);

/* The side that the name of a shard tells: held out when it has the word "val". */
train_side_t train_shard_side(const char *path);

#endif
