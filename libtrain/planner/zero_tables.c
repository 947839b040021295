/* The formulas of the ZeRO paper's section 5 and its way of rounding. */
#include "libtrain/planner/zero_tables.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>

#define WEIGHT_BYTES 2.0
#define GRADIENT_BYTES 2.0
#define OPTIMIZER_BYTES 12.0
#define FIRST_TRILLIONS 500.0 /* the paper writes 0.5T for 512 billions */

const double train_zero_sizes[TRAIN_ZERO_SIZES] = {7.5, 128, 1000};
const int train_zero_degrees[TRAIN_ZERO_DEGREES] = {1, 4, 16, 64, 256, 1024};
const int train_zero_splits[TRAIN_ZERO_SPLITS] = {1, 2, 4, 8, 16};

double train_zero_bytes_per_parameter(int stage, int ranks) {
  double optimizer = stage >= 1 ? OPTIMIZER_BYTES / ranks : OPTIMIZER_BYTES;
  double gradient = stage >= 2 ? GRADIENT_BYTES / ranks : GRADIENT_BYTES;
  double weight = stage >= 3 ? WEIGHT_BYTES / ranks : WEIGHT_BYTES;
  return weight + gradient + optimizer;
}

double train_zero_largest_model(int stage, int ranks, int split, double memory) {
  return split * memory / train_zero_bytes_per_parameter(stage, ranks);
}

/* Rounds half up, as the paper does: printf would round 41.25 to even. */
static double round_decimals(double value, int decimals) {
  double scale = pow(10, decimals);
  return floor(value * scale + 0.5) / scale;
}

void train_zero_memory_text(double gigabytes, char text[TRAIN_ZERO_TEXT]) {
  double rounded =
      gigabytes >= 100 ? floor(gigabytes) : round_decimals(gigabytes, gigabytes >= 10 ? 1 : 2);
  snprintf(text, TRAIN_ZERO_TEXT, "%.6g", rounded);
}

void train_zero_model_text(int stage, int split, char text[TRAIN_ZERO_TEXT]) {
  double of_one =
      train_zero_largest_model(stage, TRAIN_ZERO_TABLE2_RANKS, 1, TRAIN_ZERO_TABLE2_MEMORY);
  double billions = split * round_decimals(of_one, 1);
  bool trillions = billions >= FIRST_TRILLIONS;
  double printed = trillions ? round_decimals(billions / 1000, 1) : billions;
  snprintf(text, TRAIN_ZERO_TEXT, "%.6g%s", printed, trillions ? "T" : "B");
}
