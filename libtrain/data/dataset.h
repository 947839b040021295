/*
 * A dataset: a range of the tokens of consecutive memory-mapped shards. Only the requested windows
 * are read from the disk.
 */
#ifndef LIBTRAIN_DATA_DATASET_H
#define LIBTRAIN_DATA_DATASET_H

#include "libtrain/data/shard.h"

typedef struct train_dataset {
  const train_shard_t *shards; /* [shard_count], owned by the corpus */
  size_t shard_count;
  uint64_t first;      /* offset of the first token in the concatenated shards */
  uint64_t count;      /* tokens */
  uint32_t vocabulary; /* tokens that are not below it are rejected */
  size_t files;        /* text files, or shards */
  uint64_t bytes;      /* bytes of text; 0 for shards */
} train_dataset_t;

/* Number of non-overlapping sequences of `length` tokens that have a target for each token: the
 * range of train_shuffle_window. */
uint64_t train_dataset_windows(const train_dataset_t *dataset, int length);

/* Copies the sequence at `offset` into tokens[length], and the same sequence one token further into
 * targets[length]. offset + length < dataset->count. COLL_ERROR_INVALID: a token beyond the
 * vocabulary; the message names the shard and the offset. */
coll_status_t train_dataset_sequence(const train_dataset_t *dataset, uint64_t offset, int length,
                                     int32_t *tokens, int32_t *targets);

#endif
