/* Computes the axis scales, then prints the elements in drawing order. */
#include "libtrain/files/curve.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "libtrain/files/svg.h"

#define WIDTH 760.0
#define HEIGHT 412.0
#define LEFT 62.0
#define RIGHT 128.0 /* space for the labels of the lines */
#define TOP 94.0
#define BOTTOM 48.0
#define LABEL_GAP 30.0 /* between labels of two lines each */
#define TICKS 6
#define SMOOTHING_PARTS 40 /* the moving average covers 1/40 of the points on each side */

static const char style[] =
    ".line { fill: none; stroke-linejoin: round; stroke-linecap: round; stroke-width: 2.2; }\n"
    ".each { stroke-width: 1; opacity: 0.3; }\n"
    ".training { stroke: #0b5fd0; } .training-ink { fill: #0b5fd0; }\n"
    ".held-out { stroke: #d9622b; } .held-out-ink { fill: #d9622b; }\n";

static const char dark_style[] =
    "  .training { stroke: #58a6ee; } .training-ink { fill: #58a6ee; }\n"
    "  .held-out { stroke: #f08a5b; } .held-out-ink { fill: #f08a5b; }\n";

static const struct {
  const char *class, *name;
} kinds[TRAIN_CURVE_KINDS] = {{"training", "training"}, {"held-out", "held out"}};

/* ---- points ---- */

static void merge_neighbours(train_series_t *series) {
  series->count /= 2;
  series->merged *= 2;
  for (size_t i = 0; i < series->count; i++) {
    series->points[i] = series->points[2 * i];
    series->points[i].steps += series->points[2 * i + 1].steps;
    series->points[i].losses += series->points[2 * i + 1].losses;
    series->points[i].neighbours += series->points[2 * i + 1].neighbours;
  }
}

void train_curve_add(train_curve_t *curve, train_curve_kind_t kind, uint64_t step, double loss) {
  train_series_t *series = &curve->series[kind];
  if (!isfinite(loss)) return;
  if (series->merged == 0) series->merged = 1;
  if (series->count == 0 || series->points[series->count - 1].neighbours == series->merged) {
    if (series->count == TRAIN_CURVE_POINTS) merge_neighbours(series);
    memset(&series->points[series->count++], 0, sizeof series->points[0]);
  }
  size_t last = series->count - 1;
  series->points[last].steps += (double)step;
  series->points[last].losses += loss;
  series->points[last].neighbours++;
}

static double step_at(const train_series_t *series, size_t i) {
  return series->points[i].steps / (double)series->points[i].neighbours;
}

static double loss_at(const train_series_t *series, size_t i) {
  return series->points[i].losses / (double)series->points[i].neighbours;
}

/* Moving average. At the steep beginning of the curve the window is symmetric and shrinks; at the
 * end it is cut off. */
static double smooth_at(const train_series_t *series, size_t i) {
  size_t radius = series->count / SMOOTHING_PARTS;
  if (radius > i) radius = i;
  size_t last = i + radius < series->count ? i + radius : series->count - 1;
  double sum = 0;
  for (size_t j = i - radius; j <= last; j++) sum += loss_at(series, j);
  return sum / (double)(last - (i - radius) + 1);
}

/* ---- scales ---- */

typedef struct scale {
  double low, high, tick; /* values at the ends of the axis; tick distance */
  double from, to;        /* coordinates of the ends */
} scale_t;

static double position(const scale_t *scale, double value) {
  double fraction = (value - scale->low) / (scale->high - scale->low);
  return scale->from + fraction * (scale->to - scale->from);
}

/* The smallest of 1, 2, 5 times a power of ten that divides `range` into at most TICKS parts. */
static double tick_for(double range) {
  static const double steps[] = {1, 2, 5, 10};
  double power = pow(10, floor(log10(range / TICKS)));
  int i = 0;
  while (i < 3 && steps[i] * power * TICKS < range) i++;
  return steps[i] * power;
}

/* Both axes end on ticks, except that the horizontal one ends at the last step. */
static void scales_of(const train_curve_t *curve, scale_t *x, scale_t *y) {
  double lowest = INFINITY, highest = -INFINITY, last = 1;
  for (int kind = 0; kind < TRAIN_CURVE_KINDS; kind++) {
    const train_series_t *series = &curve->series[kind];
    for (size_t i = 0; i < series->count; i++) {
      lowest = fmin(lowest, loss_at(series, i));
      highest = fmax(highest, loss_at(series, i));
      last = fmax(last, step_at(series, i));
    }
  }
  if (lowest > highest) lowest = 0, highest = 1; /* no points */
  if (highest - lowest < 1e-6) highest = lowest + 1e-6;
  double tick = tick_for(highest - lowest);
  *y = (scale_t){floor(lowest / tick) * tick, ceil(highest / tick) * tick, tick, HEIGHT - BOTTOM,
                 TOP};
  *x = (scale_t){0, last, tick_for(last), LEFT, WIDTH - RIGHT};
}

/* ---- drawing ---- */

static void draw_axes(FILE *out, const scale_t *x, const scale_t *y, const char *unit) {
  char words[64];
  int digits = y->tick < 1 ? (int)ceil(-log10(y->tick)) : 0;
  int marks = (int)lround((y->high - y->low) / y->tick);
  for (int i = 0; i <= marks; i++) {
    double value = y->low + i * y->tick;
    train_svg_line(out, LEFT, position(y, value), WIDTH - RIGHT, position(y, value), "grid");
    snprintf(words, sizeof words, "%.*f", digits, value);
    train_svg_text(out, LEFT - 9, position(y, value) + 4, "tick", "end", words);
  }
  train_svg_line(out, LEFT, y->from, WIDTH - RIGHT, y->from, "axis");
  for (double value = 0; value <= x->high * (1 + 1e-9); value += x->tick) {
    bool thousands = x->tick >= 1000;
    snprintf(words, sizeof words, "%g%s", thousands ? value / 1000 : value,
             thousands && value > 0 ? "k" : "");
    train_svg_line(out, position(x, value), y->from, position(x, value), y->from + 4, "axis");
    train_svg_text(out, position(x, value), y->from + 18, "tick", "middle", words);
  }
  train_svg_text(out, (x->from + x->to) / 2, HEIGHT - 12, "tick", "middle", "step");
  snprintf(words, sizeof words, "loss, %s", unit);
  train_svg_text(out, LEFT - 44, TOP - 16, "tick", "start", words);
}

static void draw_series(FILE *out, const train_series_t *series, const scale_t *x, const scale_t *y,
                        const char *classes, bool smooth) {
  fprintf(out, "<polyline class=\"%s\" points=\"", classes);
  for (size_t i = 0; i < series->count; i++) {
    double loss = smooth ? smooth_at(series, i) : loss_at(series, i);
    fprintf(out, "%s%.1f,%.1f", i > 0 ? " " : "", position(x, step_at(series, i)),
            position(y, loss));
  }
  fputs("\"/>\n", out);
}

static void draw_lines(FILE *out, const train_curve_t *curve, const scale_t *x, const scale_t *y) {
  const train_series_t *training = &curve->series[TRAIN_CURVE_TRAINING];
  const train_series_t *held_out = &curve->series[TRAIN_CURVE_HELD_OUT];
  if (training->count > 0) {
    draw_series(out, training, x, y, "line each training", false);
    draw_series(out, training, x, y, "line training", true);
  }
  if (held_out->count > 0) draw_series(out, held_out, x, y, "line held-out", false);
  for (size_t i = 0; i < held_out->count && held_out->count <= 64; i++) {
    fprintf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" class=\"held-out-ink\"/>\n",
            position(x, step_at(held_out, i)), position(y, loss_at(held_out, i)));
  }
}

/* Name and last value of each line at its right end, moved apart if they would overlap. */
static void draw_labels(FILE *out, const train_curve_t *curve, const scale_t *y) {
  double at[TRAIN_CURVE_KINDS], last[TRAIN_CURVE_KINDS];
  for (int kind = 0; kind < TRAIN_CURVE_KINDS; kind++) {
    const train_series_t *series = &curve->series[kind];
    if (series->count == 0) continue;
    size_t end = series->count - 1;
    last[kind] = kind == TRAIN_CURVE_TRAINING ? smooth_at(series, end) : loss_at(series, end);
    at[kind] = position(y, last[kind]);
  }
  if (curve->series[0].count > 0 && curve->series[1].count > 0) {
    int upper = at[0] <= at[1] ? 0 : 1;
    double middle = (at[0] + at[1]) / 2, half_gap = fmax(fabs(at[0] - at[1]), LABEL_GAP) / 2;
    middle = fmin(fmax(middle, TOP + half_gap), HEIGHT - BOTTOM - half_gap - LABEL_GAP / 2);
    at[upper] = middle - half_gap;
    at[1 - upper] = middle + half_gap;
  }
  for (int kind = 0; kind < TRAIN_CURVE_KINDS; kind++) {
    if (curve->series[kind].count == 0) continue;
    char class[64], words[32];
    snprintf(class, sizeof class, "label %s-ink", kinds[kind].class);
    snprintf(words, sizeof words, "%.4g", last[kind]);
    train_svg_text(out, WIDTH - RIGHT + 12, at[kind], class, "start", kinds[kind].name);
    train_svg_text(out, WIDTH - RIGHT + 12, at[kind] + 13, class, "start", words);
  }
}

coll_status_t train_curve_write(const train_curve_t *curve, const char *title, const char *note,
                                const char *unit, const char *path) {
  scale_t x, y;
  FILE *out;
  COLL_TRY(train_svg_open("--curve", path, WIDTH, HEIGHT, style, dark_style, &out));
  scales_of(curve, &x, &y);
  train_svg_text(out, LEFT - 44, 28, "title", "start", title);
  train_svg_text(out, LEFT - 44, 46, "note", "start", note);
  draw_axes(out, &x, &y, unit);
  draw_lines(out, curve, &x, &y);
  draw_labels(out, curve, &y);
  return train_svg_close("--curve", path, out);
}
