/*
 * Tokens to train on, or held out: a run of those in mapped shards, one shard after the other.
 * Nobody reads more of it than the windows that are asked for.
 */
#ifndef LIBTRAIN_DATA_DATASET_H
#define LIBTRAIN_DATA_DATASET_H

#include "libtrain/data/shard.h"

typedef struct train_dataset {
  const train_shard_t *shards; /* [shard_count], owned by the corpus */
  size_t shard_count;
  uint64_t first;      /* where in the shards it begins */
  uint64_t count;      /* tokens */
  uint32_t vocabulary; /* every token is below it, or is refused */
  size_t files;        /* of text, or shards */
  uint64_t bytes;      /* of text; 0 for shards */
} train_dataset_t;

/* Whole sequences of `length` tokens with a target each: what train_order_window draws from. */
uint64_t train_dataset_windows(const train_dataset_t *dataset, int length);

/* The sequence at `offset` and, one token further, what is to be predicted: [length] each.
 * offset + length < dataset->count. COLL_ERROR_INVALID: a token beyond the vocabulary; the sentence
 * names the shard and the place. */
coll_status_t train_dataset_sequence(const train_dataset_t *dataset, uint64_t offset, int length,
                                     int32_t *tokens, int32_t *targets);

#endif
