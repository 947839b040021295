/* Checks the partition into buckets and shards element by element, for odd sizes. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "libtrain/parallel/partition.h"

#define UNITS 3
#define MAX_RANKS 9

/* Marks the elements of a unit that the rank owns: each at most once, and no padding. */
static void mark(const train_partition_t *partition, int unit, int rank, uint8_t *marks) {
  const train_partition_unit_t *sharded = &partition->units[unit];
  for (int i = 0; i < sharded->bucket_count; i++) {
    const train_bucket_t *bucket = &partition->buckets[sharded->first_bucket + i];
    size_t first = bucket->offset + (size_t)rank * bucket->shard;
    size_t owned = train_bucket_owned(bucket, rank);
    cr_assert_eq(bucket->unit, unit);
    cr_assert_leq(owned, bucket->shard);
    cr_assert(owned == 0 || first + owned <= bucket->offset + bucket->count);
    for (size_t at = first; at < first + owned; at++) {
      cr_assert_eq(marks[at], 0, "element %zu of unit %d has two owners", at, unit);
      marks[at] = 1;
    }
  }
}

static void check_unit(const train_partition_t *partition, int unit, size_t count,
                       size_t bucket_bytes) {
  const train_partition_unit_t *sharded = &partition->units[unit];
  uint8_t *marks = calloc(count + 1, 1);
  size_t padded = 0;
  for (int rank = 0; rank < partition->ranks; rank++) mark(partition, unit, rank, marks);
  cr_assert_null(memchr(marks, 0, count), "an element of %zu has no owner", count);
  cr_assert_eq(sharded->count, count);
  for (int i = 0; i < sharded->bucket_count; i++) {
    const train_bucket_t *bucket = &partition->buckets[sharded->first_bucket + i];
    cr_assert_eq(bucket->offset, padded, "padding inside a unit");
    cr_assert_leq(bucket->count * sizeof(float), bucket_bytes);
    cr_assert_eq(bucket->shard % TRAIN_SHARD_FLOATS, 0);
    padded += (size_t)partition->ranks * bucket->shard;
  }
  cr_assert_eq(sharded->padded, padded);
  cr_assert_geq(padded, count);
  cr_assert_lt(padded - count, (size_t)partition->ranks * TRAIN_SHARD_FLOATS);
  free(marks);
}

static void check(const size_t counts[UNITS], size_t bucket_bytes, int ranks) {
  train_unit_t units[UNITS];
  train_partition_t *partition;
  size_t all = 0, padded = 0, owned = 0;
  for (int unit = 0; unit < UNITS; unit++) {
    units[unit] = (train_unit_t){.offset = all, .count = counts[unit]};
    all += counts[unit];
  }
  cr_assert_eq(train_partition_create(units, UNITS, bucket_bytes, 1, ranks, &partition), COLL_OK,
               "%s", base_last_error());
  for (int unit = 0; unit < UNITS; unit++) {
    cr_assert_eq(partition->units[unit].offset, padded, "units overlap");
    check_unit(partition, unit, counts[unit], bucket_bytes);
    padded += partition->units[unit].padded;
  }
  for (int i = 0; i < partition->bucket_count; i++) {
    cr_assert_eq(partition->buckets[i].owned, owned, "shards overlap");
    owned += partition->buckets[i].shard;
  }
  cr_assert_eq(partition->count, all);
  cr_assert_eq(partition->padded, padded);
  cr_assert_eq(partition->owned, owned);
  cr_assert_eq(partition->owned * (size_t)ranks, padded);
  train_partition_destroy(partition);
}

Test(parallel_partition, every_element_has_one_owner) {
  static const size_t sizes[] = {1, 2, 15, 16, 17, 100, 255, 1023, 4096, 5000};
  enum { SIZES = sizeof sizes / sizeof sizes[0] };
  for (int ranks = 1; ranks <= MAX_RANKS; ranks++) {
    for (size_t i = 0; i < SIZES; i++) {
      const size_t counts[UNITS] = {sizes[i], sizes[(i + 3) % SIZES], sizes[(i + 7) % SIZES]};
      check(counts, (size_t)ranks * TRAIN_SHARD_FLOATS * sizeof(float), ranks);
      check(counts, (size_t)ranks * TRAIN_SHARD_FLOATS * sizeof(float) * 3 + 77, ranks);
      check(counts, 1 << 20, ranks);
    }
  }
}

Test(parallel_partition, more_ranks_than_elements) {
  const train_unit_t unit = {.count = 20};
  train_partition_t *partition;
  cr_assert_eq(train_partition_create(&unit, 1, 4096, 1, 4, &partition), COLL_OK);
  cr_assert_eq(partition->bucket_count, 1);
  const size_t owned[4] = {16, 4, 0, 0};
  for (int rank = 0; rank < 4; rank++) {
    cr_assert_eq(train_bucket_owned(&partition->buckets[0], rank), owned[rank]);
  }
  train_partition_destroy(partition);
}

Test(parallel_partition, rejects_buckets_that_are_too_small) {
  const train_unit_t unit = {.count = 100};
  train_partition_t *partition;
  cr_assert_eq(train_partition_create(&unit, 1, 255, 1, 4, &partition), COLL_ERROR_INVALID);
  cr_assert(strstr(base_last_error(),
                   "buckets of 255 bytes are too small for 4 ranks: give at least 256"));
  cr_assert_eq(train_partition_create(&unit, 1, 256, 1, 4, &partition), COLL_OK);
  train_partition_destroy(partition);
}
