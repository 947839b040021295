/* The cut into buckets and shares, held to its definition element by element for odd sizes. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "libtrain/parallel/shards.h"

#define UNITS 3
#define RANKS_MOST 9

/* Marks what the rank owns of a unit; every element at most once, and only real ones. */
static void mark(const train_shards_t *shards, int unit, int rank, uint8_t *marks) {
  const train_shard_unit_t *cut = &shards->units[unit];
  for (int i = 0; i < cut->bucket_count; i++) {
    const train_bucket_t *bucket = &shards->buckets[cut->first_bucket + i];
    size_t first = bucket->offset + (size_t)rank * bucket->share;
    size_t owned = train_bucket_owned(bucket, rank);
    cr_assert_eq(bucket->unit, unit);
    cr_assert_leq(owned, bucket->share);
    cr_assert(owned == 0 || first + owned <= bucket->offset + bucket->count);
    for (size_t at = first; at < first + owned; at++) {
      cr_assert_eq(marks[at], 0, "element %zu of unit %d has two owners", at, unit);
      marks[at] = 1;
    }
  }
}

static void check_unit(const train_shards_t *shards, int unit, size_t count, size_t bucket_bytes) {
  const train_shard_unit_t *cut = &shards->units[unit];
  uint8_t *marks = calloc(count + 1, 1);
  size_t padded = 0;
  for (int rank = 0; rank < shards->ranks; rank++) mark(shards, unit, rank, marks);
  cr_assert_null(memchr(marks, 0, count), "an element of %zu has no owner", count);
  cr_assert_eq(cut->count, count);
  for (int i = 0; i < cut->bucket_count; i++) {
    const train_bucket_t *bucket = &shards->buckets[cut->first_bucket + i];
    cr_assert_eq(bucket->offset, padded, "padding inside a unit");
    cr_assert_leq(bucket->count * sizeof(float), bucket_bytes);
    cr_assert_eq(bucket->share % TRAIN_SHARE_FLOATS, 0);
    padded += (size_t)shards->ranks * bucket->share;
  }
  cr_assert_eq(cut->padded, padded);
  cr_assert_geq(padded, count);
  cr_assert_lt(padded - count, (size_t)shards->ranks * TRAIN_SHARE_FLOATS);
  free(marks);
}

static void check(const size_t counts[UNITS], size_t bucket_bytes, int ranks) {
  train_unit_t units[UNITS];
  train_shards_t *shards;
  size_t all = 0, padded = 0, owned = 0;
  for (int unit = 0; unit < UNITS; unit++) {
    units[unit] = (train_unit_t){.offset = all, .count = counts[unit]};
    all += counts[unit];
  }
  cr_assert_eq(train_shards_create(units, UNITS, bucket_bytes, ranks, &shards), COLL_OK, "%s",
               base_last_error());
  for (int unit = 0; unit < UNITS; unit++) {
    cr_assert_eq(shards->units[unit].offset, padded, "units overlap");
    check_unit(shards, unit, counts[unit], bucket_bytes);
    padded += shards->units[unit].padded;
  }
  for (int i = 0; i < shards->bucket_count; i++) {
    cr_assert_eq(shards->buckets[i].owned, owned, "shares overlap where they are kept");
    owned += shards->buckets[i].share;
  }
  cr_assert_eq(shards->count, all);
  cr_assert_eq(shards->padded, padded);
  cr_assert_eq(shards->owned, owned);
  cr_assert_eq(shards->owned * (size_t)ranks, padded);
  train_shards_destroy(shards);
}

Test(parallel_shards, every_element_has_one_owner) {
  static const size_t sizes[] = {1, 2, 15, 16, 17, 100, 255, 1023, 4096, 5000};
  enum { SIZES = sizeof sizes / sizeof sizes[0] };
  for (int ranks = 1; ranks <= RANKS_MOST; ranks++) {
    for (size_t i = 0; i < SIZES; i++) {
      const size_t counts[UNITS] = {sizes[i], sizes[(i + 3) % SIZES], sizes[(i + 7) % SIZES]};
      check(counts, (size_t)ranks * TRAIN_SHARE_FLOATS * sizeof(float), ranks);
      check(counts, (size_t)ranks * TRAIN_SHARE_FLOATS * sizeof(float) * 3 + 77, ranks);
      check(counts, 1 << 20, ranks);
    }
  }
}

Test(parallel_shards, more_ranks_than_elements) {
  const train_unit_t unit = {.count = 20};
  train_shards_t *shards;
  cr_assert_eq(train_shards_create(&unit, 1, 4096, 4, &shards), COLL_OK);
  cr_assert_eq(shards->bucket_count, 1);
  const size_t owned[4] = {16, 4, 0, 0};
  for (int rank = 0; rank < 4; rank++) {
    cr_assert_eq(train_bucket_owned(&shards->buckets[0], rank), owned[rank]);
  }
  train_shards_destroy(shards);
}

Test(parallel_shards, buckets_too_small_are_refused) {
  const train_unit_t unit = {.count = 100};
  train_shards_t *shards;
  cr_assert_eq(train_shards_create(&unit, 1, 255, 4, &shards), COLL_ERROR_INVALID);
  cr_assert(strstr(base_last_error(), "buckets of 255 bytes are too small for 4 ranks: 256"));
  cr_assert_eq(train_shards_create(&unit, 1, 256, 4, &shards), COLL_OK);
  train_shards_destroy(shards);
}
