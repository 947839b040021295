/* Full buckets are a multiple of the alignment of all shards, so only the end of a unit needs
 * padding. */
#include "libtrain/parallel/partition.h"

#include <assert.h>
#include <stdlib.h>

#include "base/alloc.h"

static size_t min_size(size_t a, size_t b) {
  return a < b ? a : b;
}

/* The most tensor ranks that hold a unit alike. */
static int most_copies(const train_unit_t *units, int unit_count) {
  int most = 1;
  for (int unit = 0; unit < unit_count; unit++) {
    if (units[unit].copies > most) most = units[unit].copies;
  }
  return most;
}

/* The ranks of a unit, of `ranks` that hold the dense ones. */
static int ranks_of(const train_unit_t *unit, int ranks) {
  return ranks / (unit->groups > 1 ? unit->groups : 1) * (unit->copies > 1 ? unit->copies : 1);
}

/* Elements of a full bucket: a whole number of cache lines per rank. */
static coll_status_t capacity_of(size_t bucket_bytes, int ranks, size_t *capacity) {
  size_t alignment = (size_t)ranks * TRAIN_SHARD_FLOATS;
  size_t fitting = bucket_bytes / sizeof(float) / alignment * alignment;
  if (fitting == 0) {
    return base_fail(COLL_ERROR_INVALID,
                     "buckets of %zu bytes are too small for %d ranks: give at least %zu",
                     bucket_bytes, ranks, alignment * sizeof(float));
  }
  *capacity = fitting;
  return COLL_OK;
}

static int buckets_in(size_t count, size_t capacity) {
  return (int)((count + capacity - 1) / capacity);
}

static void partition_unit(train_partition_t *partition, int unit, size_t capacity) {
  train_partition_unit_t *sharded = &partition->units[unit];
  sharded->first_bucket = partition->bucket_count;
  sharded->bucket_count = buckets_in(sharded->count, capacity);
  sharded->offset = partition->padded;
  for (int i = 0; i < sharded->bucket_count; i++) {
    size_t offset = (size_t)i * capacity, count = min_size(capacity, sharded->count - offset);
    size_t ranks = (size_t)sharded->ranks;
    size_t shard = base_round_up((count + ranks - 1) / ranks, TRAIN_SHARD_FLOATS);
    partition->buckets[partition->bucket_count++] = (train_bucket_t){
        .unit = unit, .offset = offset, .count = count, .shard = shard, .owned = partition->owned};
    partition->owned += shard;
    sharded->padded += ranks * shard;
  }
  partition->count += sharded->count;
  partition->padded += sharded->padded;
}

coll_status_t train_partition_create(const train_unit_t *units, int unit_count, size_t bucket_bytes,
                                     int stage, int ranks, train_partition_t **partition) {
  assert(unit_count >= 1 && ranks >= 1);
  size_t capacity = 0;
  int all = stage == 0 ? 1 : ranks * most_copies(units, unit_count);
  COLL_TRY(capacity_of(bucket_bytes, all, &capacity));
  train_partition_t *made = NULL;
  COLL_TRY(base_alloc(1, sizeof *made, "the partition", (void **)&made));
  made->ranks = stage == 0 ? 1 : ranks;
  made->unit_count = unit_count;
  coll_status_t status =
      base_alloc((size_t)unit_count, sizeof *made->units, "the partition", (void **)&made->units);
  if (status != COLL_OK) goto failed;
  size_t buckets = 0;
  for (int unit = 0; unit < unit_count; unit++) {
    made->units[unit].count = units[unit].count;
    made->units[unit].experts = units[unit].experts;
    made->units[unit].ranks = stage == 0 ? 1 : ranks_of(&units[unit], ranks);
    buckets += (size_t)buckets_in(units[unit].count, capacity);
  }
  status = base_alloc(buckets, sizeof *made->buckets, "the buckets", (void **)&made->buckets);
  if (status != COLL_OK) goto failed;
  for (int unit = 0; unit < unit_count; unit++) partition_unit(made, unit, capacity);
  *partition = made;
  return COLL_OK;
failed:
  train_partition_destroy(made);
  return status;
}

void train_partition_destroy(train_partition_t *partition) {
  if (partition == NULL) return;
  free(partition->buckets);
  free(partition->units);
  free(partition);
}

size_t train_bucket_owned(const train_bucket_t *bucket, int rank) {
  size_t first = (size_t)rank * bucket->shard;
  return first >= bucket->count ? 0 : min_size(bucket->shard, bucket->count - first);
}
