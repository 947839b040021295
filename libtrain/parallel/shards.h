/*
 * How the parameters are cut up for communication and shared out among the ranks. Every unit is cut
 * into buckets, every bucket into one share per rank; the same cut serves gradients, parameters and
 * moments at every stage of ZeRO (Rajbhandari et al. 2020), so a share has one owner for all three.
 */
#ifndef LIBTRAIN_PARALLEL_SHARDS_H
#define LIBTRAIN_PARALLEL_SHARDS_H

#include <stddef.h>

#include "base/status.h"
#include "libtrain/model/layout.h"

/* Shares are whole cache lines. What that adds at the end of a unit is padding: it is sent and
 * stored, always zero, and never part of the model. */
#define TRAIN_SHARE_FLOATS 16

/* A run of elements of one unit. Rank r owns those from r * share on, `share` of them or fewer. */
typedef struct train_bucket {
  int unit;
  size_t offset; /* of its first element in the unit */
  size_t count;  /* elements, without padding */
  size_t share;  /* elements per rank, with padding: ranks * share >= count */
  size_t owned;  /* where a rank's share lies among all that the rank owns, in elements */
} train_bucket_t;

typedef struct train_shard_unit {
  int first_bucket, bucket_count; /* in shards->buckets */
  size_t count;                   /* elements, without padding */
  size_t padded;                  /* ranks * share, summed over its buckets */
  size_t offset;                  /* where it lies among all units when all are padded */
} train_shard_unit_t;

typedef struct train_shards {
  int ranks, unit_count, bucket_count;
  train_shard_unit_t *units; /* [unit_count] */
  train_bucket_t *buckets;   /* [bucket_count], unit after unit */
  size_t count;              /* elements of all units */
  size_t padded;             /* the same with padding */
  size_t owned;              /* elements that each rank owns, with padding: padded / ranks */
} train_shards_t;

/* The cut of `units` among `ranks` in buckets of at most bucket_bytes of float32. All buckets of a
 * unit but the last divide without padding. COLL_ERROR_INVALID when bucket_bytes is below a cache
 * line per rank. The caller destroys what it gets. */
coll_status_t train_shards_create(const train_unit_t *units, int unit_count, size_t bucket_bytes,
                                  int ranks, train_shards_t **shards);
void train_shards_destroy(train_shards_t *shards);

/* How many elements of the bucket the rank owns, without padding: 0 to share. They start at
 * bucket->offset + rank * bucket->share of the unit. */
size_t train_bucket_owned(const train_bucket_t *bucket, int rank);

#endif
