/*
 * The part of a model that a rank holds: the layers of its pipeline stage, cut over the ranks of
 * tensor parallelism (Shoeybi et al. 2019), with some of the experts of each layer (Lepikhin et al.
 * 2020). Otherwise ranks of data and context parallelism hold the same part.
 *
 * Experts are cut over the tensor ranks like dense layers, or stay whole: then all tensor ranks
 * hold the same experts, and each applies them to its share of the rows.
 */
#ifndef LIBTRAIN_SHARD_PART_H
#define LIBTRAIN_SHARD_PART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How a tensor is cut over the tensor ranks. */
typedef enum train_cut {
  TRAIN_CUT_NONE,    /* every rank holds all of it */
  TRAIN_CUT_ROWS,    /* consecutive rows, or elements of a vector: output features, tokens */
  TRAIN_CUT_COLUMNS, /* consecutive columns: input features */
  TRAIN_CUT_QKV      /* as rows, but of queries, keys and values each, so that heads stay whole */
} train_cut_t;

/* Consecutive layers. With virtual pipeline stages a rank holds several such ranges. */
typedef struct train_layer_range {
  int first_layer, layers;
} train_layer_range_t;

#define TRAIN_CHUNKS_MAX 16

/* The part that begins with layer 0 holds both embedding tables; the one that ends with the last
 * layer holds the final layernorm and the token table, to which the classifier is tied. A stage may
 * have nothing but one of these: a range of no layers, before the first one or after the last. */
typedef struct train_part {
  int tensor_rank, tensor_ranks;
  int expert_rank, expert_ranks; /* over which the experts of each layer are divided; 0 ranks: not
                                  * at all */
  bool whole_experts;            /* tensor ranks do not cut experts */
  bool embedded_before;          /* an earlier stage embeds, maybe one without layers */
  bool classified_after;         /* a later stage classifies */
  int chunk_count;
  train_layer_range_t chunks[TRAIN_CHUNKS_MAX]; /* in ascending order */
} train_part_t;

/* Over how many tensor ranks each expert is cut; and the tensor ranks that hold the same experts.
 */
static inline int train_part_expert_cuts(const train_part_t *part) {
  return part->whole_experts ? 1 : part->tensor_ranks;
}
static inline int train_part_expert_copies(const train_part_t *part) {
  return part->whole_experts ? part->tensor_ranks : 1;
}

/* Whether a rank shares its experts with other ranks than its dense tensors. */
static inline bool train_part_groups_experts(const train_part_t *part) {
  return part->expert_ranks > 1 || train_part_expert_copies(part) > 1;
}

/* The whole model of that many layers. */
static inline train_part_t train_part_whole(int layers) {
  return (train_part_t){.tensor_ranks = 1, .chunk_count = 1, .chunks = {{0, layers}}};
}

/* The layers of range `range` of `ranges`: blocks[ranges] says how many each has; NULL: as evenly
 * as possible. */
static inline train_layer_range_t train_layers_of_range(int layers, int range, int ranges,
                                                        const int *blocks) {
  int first = layers * range / ranges;
  if (blocks == NULL) {
    return (train_layer_range_t){first, layers * (range + 1) / ranges - first};
  }
  first = 0;
  for (int i = 0; i < range; i++) first += blocks[i];
  return (train_layer_range_t){first, blocks[range]};
}

/* The part of stage `stage` of `stages`, for tensor rank 0 of 1: the layers are divided into stages
 * * chunks ranges, of which the stage holds every stages-th. `blocks` as above. */
static inline train_part_t train_part_cut(int layers, int stage, int stages, int chunks,
                                          const int *blocks) {
  train_part_t part = {.tensor_ranks = 1,
                       .chunk_count = chunks,
                       .embedded_before = stage > 0,
                       .classified_after = stage < stages - 1};
  for (int chunk = 0; chunk < chunks; chunk++) {
    int range = chunk * stages + stage;
    part.chunks[chunk] = train_layers_of_range(layers, range, stages * chunks, blocks);
  }
  return part;
}

/* The same, as evenly as possible. */
static inline train_part_t train_part_of_stage(int layers, int stage, int stages, int chunks) {
  return train_part_cut(layers, stage, stages, chunks, NULL);
}

static inline bool train_part_embeds(const train_part_t *part) {
  return part->chunks[0].first_layer == 0 && !part->embedded_before;
}

static inline bool train_part_classifies(const train_part_t *part, int layers) {
  const train_layer_range_t *last = &part->chunks[part->chunk_count - 1];
  return last->first_layer + last->layers == layers && !part->classified_after;
}

/* Of `count` rows, columns or elements, tensor rank `rank` of `ranks` holds *length from *first on:
 * ceil(count / ranks), the last ranks fewer. */
static inline void train_cut_range(int count, int rank, int ranks, int *first, int *length) {
  int each = (count + ranks - 1) / ranks, begin = rank * each, end = begin + each;
  *first = begin < count ? begin : count;
  *length = (end < count ? end : count) - *first;
}

#endif
