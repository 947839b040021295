/* A line per kind in each function. p: stages, m: micro-batches of an update, n: of all. */
#include "libtrain/schedule/formula.h"

#include <math.h>

static int smaller(int a, int b) {
  return a < b ? a : b;
}

/* Micro-batches that go through a pipeline of 2BW before it empties. */
static int group_of_2bw(const train_schedule_shape_t *shape) {
  int m = shape->micro_batches, n = train_schedule_total(shape);
  return m + 1 >= shape->stages ? n : smaller(n, 2 * m);
}

int train_schedule_live_limit(const train_schedule_shape_t *shape, int stage) {
  int m = shape->micro_batches, p = shape->stages, v = shape->chunks;
  int n = train_schedule_total(shape), to_end = p - stage;
  switch (shape->kind) {
    case TRAIN_SCHEDULE_NAIVE: return 1;
    case TRAIN_SCHEDULE_1F1B: return smaller(m, to_end);
    case TRAIN_SCHEDULE_INTERLEAVED: return smaller(m * v, 2 * (to_end - 1) + (v - 1) * p + 1);
    case TRAIN_SCHEDULE_ZB_H1: return smaller(m, p);
    case TRAIN_SCHEDULE_PIPEDREAM: return smaller(n, to_end);
    case TRAIN_SCHEDULE_PIPEDREAM_2BW: return smaller(group_of_2bw(shape), to_end);
    default: return m;
  }
}

int train_schedule_staleness_limit(const train_schedule_shape_t *shape) {
  int last = shape->steps - 1;
  switch (shape->kind) {
    case TRAIN_SCHEDULE_PIPEDREAM: return smaller(last, shape->stages - 1);
    case TRAIN_SCHEDULE_PIPEDREAM_2BW: return smaller(last, 1);
    default: return 0;
  }
}

int train_schedule_versions_limit(const train_schedule_shape_t *shape) {
  return train_schedule_staleness_limit(shape) + 1;
}

/* Of 2BW, in units of the time of a micro-batch. */
static double time_of_2bw(const train_schedule_shape_t *shape) {
  int group = group_of_2bw(shape), n = train_schedule_total(shape), p = shape->stages;
  return n + (double)((n + group - 1) / group) * (p - 1);
}

/* Idle time of a stage of ZB-H1. Until its first backward pass stage 0 waits for the input parts of
 * the others. At the end forward passes go down the pipeline while it fills the time with weight
 * parts, as far as these are long and many enough. */
static double idle_of_zb_h1(const train_schedule_shape_t *shape,
                            const train_schedule_costs_t *costs) {
  int p = shape->stages, filled = smaller(shape->micro_batches, p);
  double f = costs->forward, b = costs->input, w = costs->weight;
  return (p - 1) * b + (p - filled) * f + (filled - 1) * fmax(f - w, 0);
}

double train_schedule_bubble(const train_schedule_shape_t *shape,
                             const train_schedule_costs_t *costs) {
  double p = shape->stages, m = shape->micro_batches, n = train_schedule_total(shape);
  double work = costs->forward + costs->input + costs->weight, idle;
  switch (shape->kind) {
    case TRAIN_SCHEDULE_NAIVE: return 1 - 1 / p;
    case TRAIN_SCHEDULE_INTERLEAVED: return (p - 1) / (shape->chunks * m + p - 1);
    case TRAIN_SCHEDULE_TERAPIPE: return (p - 1) / (shape->slices * m + p - 1);
    case TRAIN_SCHEDULE_PIPEDREAM: return (p - 1) / (n + p - 1);
    case TRAIN_SCHEDULE_PIPEDREAM_2BW: return 1 - n / time_of_2bw(shape);
    case TRAIN_SCHEDULE_ZB_H1: idle = idle_of_zb_h1(shape, costs); return idle / (m * work + idle);
    default: return (p - 1) / (m + p - 1);
  }
}

const char *train_schedule_bubble_text(train_schedule_kind_t kind) {
  switch (kind) {
    case TRAIN_SCHEDULE_NAIVE: return "1 - 1/p";
    case TRAIN_SCHEDULE_INTERLEAVED: return "(p-1) / (v m + p-1)";
    case TRAIN_SCHEDULE_TERAPIPE: return "(p-1) / (s m + p-1)";
    case TRAIN_SCHEDULE_PIPEDREAM: return "(p-1) / (n + p-1)";
    case TRAIN_SCHEDULE_PIPEDREAM_2BW: return "(p-1) / (n + p-1) if m >= p-1";
    case TRAIN_SCHEDULE_ZB_H1: return "x / (m (f+b+w) + x), x = (p-1) (f+b-w) if w <= f and m >= p";
    default: return "(p-1) / (m + p-1)";
  }
}
