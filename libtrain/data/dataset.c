/* A window may span two shards. */
#include "libtrain/data/dataset.h"

#include <assert.h>
#include <string.h>

uint64_t train_dataset_windows(const train_dataset_t *dataset, int length) {
  return dataset->count > 0 ? (dataset->count - 1) / (uint64_t)length : 0;
}

static coll_status_t copy(const train_dataset_t *dataset, const train_shard_t *shard, uint64_t at,
                          uint64_t count, int32_t *tokens) {
  int32_t highest = 0;
  for (uint64_t i = 0; i < count; i++) {
    tokens[i] = shard->tokens[at + i];
    highest = tokens[i] > highest ? tokens[i] : highest;
  }
  if ((uint32_t)highest < dataset->vocabulary) return COLL_OK;
  for (uint64_t i = 0; i < count; i++, at++) {
    if ((uint32_t)tokens[i] >= dataset->vocabulary) break;
  }
  return base_fail(COLL_ERROR_INVALID,
                   "%s: token %u at %llu is beyond the vocabulary of %u: it was made with another "
                   "tokenizer",
                   shard->name, shard->tokens[at], (unsigned long long)at, dataset->vocabulary);
}

static coll_status_t read_tokens(const train_dataset_t *dataset, uint64_t offset, uint64_t count,
                                 int32_t *tokens) {
  const train_shard_t *shard = dataset->shards;
  uint64_t at = dataset->first + offset;
  for (; at >= shard->count; shard++) at -= shard->count;
  for (; count > 0; shard++, at = 0) {
    uint64_t here = shard->count - at < count ? shard->count - at : count;
    COLL_TRY(copy(dataset, shard, at, here, tokens));
    tokens += here;
    count -= here;
  }
  return COLL_OK;
}

coll_status_t train_dataset_sequence(const train_dataset_t *dataset, uint64_t offset, int length,
                                     int32_t *tokens, int32_t *targets) {
  assert(length > 0 && offset + (uint64_t)length < dataset->count);
  size_t shared = (size_t)length - 1;
  COLL_TRY(read_tokens(dataset, offset, (uint64_t)length, tokens));
  memcpy(targets, tokens + 1, shared * sizeof *targets);
  return read_tokens(dataset, offset + (uint64_t)length, 1, targets + shared);
}
