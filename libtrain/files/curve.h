/*
 * Draws the loss curve of a run as SVG: training loss, its moving average, held-out loss, axes and
 * a title. The colors follow the viewer's light or dark color scheme. Memory is bounded: when a
 * series is full, adjacent points are merged into their means.
 */
#ifndef LIBTRAIN_FILES_CURVE_H
#define LIBTRAIN_FILES_CURVE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define TRAIN_CURVE_POINTS 512 /* even */

typedef enum train_curve_kind {
  TRAIN_CURVE_TRAINING,
  TRAIN_CURVE_HELD_OUT,
  TRAIN_CURVE_KINDS
} train_curve_kind_t;

/* Each point is the mean of up to `merged` samples. */
typedef struct train_series {
  size_t count, merged;
  struct {
    double steps, losses; /* sums over the samples */
    size_t neighbours;
  } points[TRAIN_CURVE_POINTS];
} train_series_t;

/* All zero is the empty curve. */
typedef struct train_curve {
  train_series_t series[TRAIN_CURVE_KINDS];
} train_curve_t;

/* Steps of a kind must be ascending. A loss that is not finite is ignored. */
void train_curve_add(train_curve_t *curve, train_curve_kind_t kind, uint64_t step, double loss);

/* Draws all points so far. `unit` is the unit of the loss ("nats per token"). COLL_ERROR_SYSTEM
 * names the path. */
coll_status_t train_curve_write(const train_curve_t *curve, const char *title, const char *note,
                                const char *unit, const char *path);

#endif
