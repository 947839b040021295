/*
 * The memory analysis of the ZeRO paper (Rajbhandari et al., "ZeRO: Memory Optimizations Toward
 * Training Trillion Parameter Models", SC 2020): its Tables 1 and 2, left half. Mixed precision
 * with Adam takes 2 bytes per parameter for the float16 weights, 2 for their gradients and 12 for
 * the optimizer's float32 copy and two moments. Each stage divides one more of these among the
 * data-parallel ranks. Activations and buffers are not counted.
 */
#ifndef LIBTRAIN_PLANNER_ZERO_TABLES_H
#define LIBTRAIN_PLANNER_ZERO_TABLES_H

/* The stages: 0 is the paper's baseline, 1 its P_os, 2 P_os+g, 3 P_os+g+p. */
#define TRAIN_ZERO_STAGES 4

/* Length of the longest text of a cell, with its terminator. */
#define TRAIN_ZERO_TEXT 16

#define TRAIN_ZERO_SIZES 3   /* model sizes of Table 1 */
#define TRAIN_ZERO_DEGREES 6 /* its degrees of data parallelism */
#define TRAIN_ZERO_SPLITS 5  /* degrees of model parallelism of Table 2 */

extern const double train_zero_sizes[TRAIN_ZERO_SIZES];  /* parameters, in billions */
extern const int train_zero_degrees[TRAIN_ZERO_DEGREES]; /* data-parallel ranks */
extern const int train_zero_splits[TRAIN_ZERO_SPLITS];   /* model-parallel ranks */

/* Table 2 has this many data-parallel ranks in all rows, each with this memory in GB. */
#define TRAIN_ZERO_TABLE2_RANKS 64
#define TRAIN_ZERO_TABLE2_MEMORY 32.0

/* Bytes per parameter on each of `ranks` data-parallel ranks: 16 at stage 0, 4 + 12 / ranks at
 * stage 1, 2 + 14 / ranks at stage 2, 16 / ranks at stage 3. */
double train_zero_bytes_per_parameter(int stage, int ranks);

/* The largest model, in billions of parameters, for `memory` GB per rank, `ranks` data-parallel and
 * `split` model-parallel ranks. */
double train_zero_largest_model(int stage, int ranks, int split, double memory);

/* A cell of Table 1 as printed there: "41.3" GB. From 100 on without decimals, cut off; below with
 * one, below 10 with two decimals, rounded; without trailing zeros. */
void train_zero_memory_text(double gigabytes, char text[TRAIN_ZERO_TEXT]);

/* A cell of Table 2 as printed there: "14.4B", "0.5T". The paper rounds the value of a single
 * model-parallel rank to one decimal and multiplies it. */
void train_zero_model_text(int stage, int split, char text[TRAIN_ZERO_TEXT]);

#endif
