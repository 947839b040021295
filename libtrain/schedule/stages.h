/*
 * Partition of layers into pipeline stages by PipeDream's dynamic programme (Narayanan et al. 2019,
 * section 3.1): consecutive layers form a stage, and the slowest stage is as fast as possible. The
 * embedding and the head are layers like the others: the first and the last one.
 */
#ifndef LIBTRAIN_SCHEDULE_STAGES_H
#define LIBTRAIN_SCHEDULE_STAGES_H

#include "base/status.h"

/* Measured or estimated, in any unit of time. NULL arrays mean 0. */
typedef struct train_stage_profile {
  int layers;
  const double *times; /* [layers]: forward and backward pass of a micro-batch */
  const double
      *transfers; /* [layers - 1]: activations from layer i to i + 1, and the gradient back */
  const double *weights; /* [layers]: time to send the gradient of the weights once */
} train_stage_profile_t;

typedef struct train_stage_cut {
  int first, layers; /* of the stage */
  int replicas;      /* ranks that take its micro-batches in turn */
  double time;       /* per micro-batch of the whole pipeline */
} train_stage_cut_t;

/* Cuts the layers over exactly `ranks` ranks. max_replicas 1: each rank is a stage. Otherwise
 * stages may have up to that many ranks, of different numbers: a stage of r ranks takes the larger
 * of 1/r of the sum of its times and 1/r of a ring allreduce of its weights, 2 (r - 1) / r times
 * their time. cuts[min(layers, ranks)] gets *count stages; *slowest, which may be NULL, the time of
 * the slowest stage or transfer. Of several best partitions it is the one with the least sum of
 * squares of stage times. COLL_ERROR_INVALID: more ranks than the layers can use. */
coll_status_t train_stages_cut(const train_stage_profile_t *profile, int ranks, int max_replicas,
                               train_stage_cut_t cuts[], int *count, double *slowest);

/* Cuts an embedding, blocks and a head over stages of one rank each, as above: costs[blocks + 2]
 * are their times. counts[stages] gets the blocks of each stage: the first may have none beside the
 * embedding, the last none beside the head. */
coll_status_t train_stages_blocks(const double costs[], int blocks, int stages, int counts[]);

/* The counts as a list in which "4*5" means four times 5: "3,4*5,2". Cut off if it is too long.
 * Returns `text`. */
#define TRAIN_STAGES_TEXT_BYTES 512
const char *train_stages_text(const int counts[], int stages, char text[TRAIN_STAGES_TEXT_BYTES]);

#endif
