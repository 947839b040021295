/*
 * The partition of the parameters for communication and for ZeRO (Rajbhandari et al. 2020): each
 * unit is divided into buckets, each bucket into one shard per rank. Gradients, parameters and
 * moments use the same partition at every stage, so one rank owns a shard of all three.
 */
#ifndef LIBTRAIN_PARALLEL_PARTITION_H
#define LIBTRAIN_PARALLEL_PARTITION_H

#include <stddef.h>

#include "base/status.h"
#include "libtrain/model/layout.h"

/* Shards are aligned to cache lines. The padding at the end of a unit is sent and stored, always
 * zero, and not part of the model. */
#define TRAIN_SHARD_FLOATS 16

/* A range of elements of one unit. Rank r of the unit's ranks owns those from r * shard on, at most
 * `shard` of them. */
typedef struct train_bucket {
  int unit;
  size_t offset; /* of its first element in the unit */
  size_t count;  /* elements, without padding */
  size_t shard;  /* elements per rank, with padding: ranks * shard >= count */
  size_t owned;  /* offset of a rank's shard in the concatenation of all shards of the rank */
} train_bucket_t;

typedef struct train_partition_unit {
  int first_bucket, bucket_count; /* in partition->buckets */
  size_t count;                   /* elements, without padding */
  size_t padded;                  /* ranks * shard, summed over the buckets */
  int ranks;                      /* among which it is divided: fewer than all for experts, or more
                                   * where tensor ranks hold the same ones */
  bool experts;
  size_t offset; /* in the concatenation of all padded units */
} train_partition_unit_t;

typedef struct train_partition {
  int ranks; /* of dense units */
  int unit_count, bucket_count;
  train_partition_unit_t *units; /* [unit_count] */
  train_bucket_t *buckets;       /* [bucket_count], ordered by unit */
  size_t count;                  /* elements of all units */
  size_t padded;                 /* elements of all units with padding */
  size_t owned;                  /* elements per rank with padding */
} train_partition_t;

/* Partitions `units` at ZeRO stage `stage` among `ranks`, each unit among those of one of its
 * groups and the copies that these have, with buckets of at most bucket_bytes of float32. At stage
 * 0 nothing is divided: there is one shard. Only the last bucket of a unit may need padding.
 * COLL_ERROR_INVALID if bucket_bytes is less than a cache line per rank. The caller destroys the
 * partition. */
coll_status_t train_partition_create(const train_unit_t *units, int unit_count, size_t bucket_bytes,
                                     int stage, int ranks, train_partition_t **partition);
void train_partition_destroy(train_partition_t *partition);

/* The number of elements of the bucket that the rank owns, without padding: 0 to shard. They start
 * at bucket->offset + rank * bucket->shard of the unit. */
size_t train_bucket_owned(const train_bucket_t *bucket, int rank);

#endif
