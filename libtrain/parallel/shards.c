/* Buckets hold a multiple of the shares' granule, so only the end of a unit needs padding. */
#include "libtrain/parallel/shards.h"

#include <assert.h>
#include <stdlib.h>

#include "base/memory.h"

static size_t least(size_t a, size_t b) {
  return a < b ? a : b;
}

/* Elements of a full bucket: a whole number of cache lines per rank. */
static coll_status_t capacity_of(size_t bucket_bytes, int ranks, size_t *capacity) {
  size_t granule = (size_t)ranks * TRAIN_SHARE_FLOATS;
  size_t fitting = bucket_bytes / sizeof(float) / granule * granule;
  if (fitting == 0) {
    return base_fail(COLL_ERROR_INVALID, "buckets of %zu bytes are too small for %d ranks: %zu %s",
                     bucket_bytes, ranks, granule * sizeof(float), "is the least");
  }
  *capacity = fitting;
  return COLL_OK;
}

static int buckets_in(size_t count, size_t capacity) {
  return (int)((count + capacity - 1) / capacity);
}

static void cut_unit(train_shards_t *shards, int unit, size_t capacity) {
  train_shard_unit_t *cut = &shards->units[unit];
  cut->first_bucket = shards->bucket_count;
  cut->bucket_count = buckets_in(cut->count, capacity);
  cut->offset = shards->padded;
  for (int i = 0; i < cut->bucket_count; i++) {
    size_t offset = (size_t)i * capacity, count = least(capacity, cut->count - offset);
    size_t ranks = (size_t)shards->ranks;
    size_t share = base_round_up((count + ranks - 1) / ranks, TRAIN_SHARE_FLOATS);
    shards->buckets[shards->bucket_count++] = (train_bucket_t){
        .unit = unit, .offset = offset, .count = count, .share = share, .owned = shards->owned};
    shards->owned += share;
    cut->padded += ranks * share;
  }
  shards->count += cut->count;
  shards->padded += cut->padded;
}

coll_status_t train_shards_create(const train_unit_t *units, int unit_count, size_t bucket_bytes,
                                  int ranks, train_shards_t **shards) {
  assert(unit_count >= 1 && ranks >= 1);
  size_t capacity = 0;
  COLL_TRY(capacity_of(bucket_bytes, ranks, &capacity));
  train_shards_t *made = NULL;
  COLL_TRY(base_alloc(1, sizeof *made, "the shards", (void **)&made));
  made->ranks = ranks;
  made->unit_count = unit_count;
  coll_status_t status =
      base_alloc((size_t)unit_count, sizeof *made->units, "the shards", (void **)&made->units);
  if (status != COLL_OK) goto failed;
  size_t buckets = 0;
  for (int unit = 0; unit < unit_count; unit++) {
    made->units[unit].count = units[unit].count;
    buckets += (size_t)buckets_in(units[unit].count, capacity);
  }
  status = base_alloc(buckets, sizeof *made->buckets, "the buckets", (void **)&made->buckets);
  if (status != COLL_OK) goto failed;
  for (int unit = 0; unit < unit_count; unit++) cut_unit(made, unit, capacity);
  *shards = made;
  return COLL_OK;
failed:
  train_shards_destroy(made);
  return status;
}

void train_shards_destroy(train_shards_t *shards) {
  if (shards == NULL) return;
  free(shards->buckets);
  free(shards->units);
  free(shards);
}

size_t train_bucket_owned(const train_bucket_t *bucket, int rank) {
  size_t first = (size_t)rank * bucket->share;
  return first >= bucket->count ? 0 : least(bucket->share, bucket->count - first);
}
