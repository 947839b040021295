/*
 * The loss of a run as an SVG: the training loss with its moving average, the held-out loss, axes
 * and a title; it follows the reader's choice of a light or dark page. Memory does not grow with
 * the run: when a series is full, neighbouring points are merged into their means.
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

/* A point is the mean of up to `merged` neighbours. */
typedef struct train_series {
  size_t count, merged;
  struct {
    double steps, losses; /* sums over the neighbours */
    size_t neighbours;
  } points[TRAIN_CURVE_POINTS];
} train_series_t;

/* Zeroed, it is empty. */
typedef struct train_curve {
  train_series_t series[TRAIN_CURVE_KINDS];
} train_curve_t;

/* Steps rise within a kind; a loss that is not finite is left out. */
void train_curve_add(train_curve_t *curve, train_curve_kind_t kind, uint64_t step, double loss);

/* Draws all points so far. `unit` is the loss's ("nats per token"). COLL_ERROR_SYSTEM names the
 * path. */
coll_status_t train_curve_write(const train_curve_t *curve, const char *title, const char *note,
                                const char *unit, const char *path);

#endif
