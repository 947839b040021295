/* Coordinates of the points, bounded memory, and well-formed XML. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "folder.h"
#include "libtrain/files/curve.h"

static folder_t folder;
static train_curve_t curve;

static void setup(void) {
  folder_make(&folder);
  curve = (train_curve_t){0};
}

static void teardown(void) {
  folder_remove(&folder);
}

TestSuite(curve, .init = setup, .fini = teardown);

/* The SVG as a string. */
static char *draw(const char *title) {
  size_t count;
  const char *path = folder_path(&folder, "curve.svg");
  cr_assert_eq(train_curve_write(&curve, title, "a note", "nats per token", path), COLL_OK, "%s",
               base_last_error());
  char *svg = folder_read(path, &count);
  svg[count] = '\0';
  return svg;
}

/* The points of the first polyline of this class, at most 1024; returns their number. */
static int points_of(const char *svg, const char *class, double points[][2]) {
  char start[64];
  int count = 0;
  snprintf(start, sizeof start, "<polyline class=\"%s\" points=\"", class);
  const char *at = strstr(svg, start);
  cr_assert_not_null(at, "no line of class %s", class);
  at += strlen(start);
  for (char *end; *at != '"' && count < 1024; at = end + (*end == ' '), count++) {
    points[count][0] = strtod(at, &end);
    points[count][1] = strtod(end + 1, &end);
  }
  return count;
}

static int count_of(const char *text, const char *words) {
  int count = 0;
  for (const char *at = text; (at = strstr(at, words)) != NULL; at++) count++;
  return count;
}

Test(curve, points_have_the_right_coordinates) {
  static double points[1024][2];
  for (uint64_t step = 0; step <= 10; step++) {
    train_curve_add(&curve, TRAIN_CURVE_HELD_OUT, step, 10 - (double)step);
  }
  char *svg = draw("a straight line");
  cr_assert_eq(points_of(svg, "line held-out", points), 11);
  for (int i = 1; i < 11; i++) {
    cr_assert_float_eq(points[i][0] - points[i - 1][0], (points[10][0] - points[0][0]) / 10, 0.11);
    cr_assert_float_eq(points[i][1] - points[i - 1][1], (points[10][1] - points[0][1]) / 10, 0.11);
  }
  cr_assert(points[10][0] > points[0][0] && points[10][1] > points[0][1], "down is less loss");
  cr_assert_eq(count_of(svg, "<circle"), 11);
  free(svg);
}

Test(curve, long_run_is_merged_into_means) {
  static double points[1024][2];
  double sum = 0;
  for (uint64_t step = 1; step <= 100000; step++) {
    double loss = 3 + sin((double)step * 0.001) + (double)(step * 7919 % 100) * 0.01;
    train_curve_add(&curve, TRAIN_CURVE_TRAINING, step, loss);
    sum += loss;
  }
  const train_series_t *series = &curve.series[TRAIN_CURVE_TRAINING];
  double merged = 0, neighbours = 0;
  for (size_t i = 0; i < series->count; i++) {
    merged += series->points[i].losses;
    neighbours += (double)series->points[i].neighbours;
  }
  cr_assert_eq(neighbours, 100000);
  cr_assert_float_eq(merged, sum, 1e-6 * sum);
  char *svg = draw("a long run");
  int count = points_of(svg, "line training", points);
  cr_assert(count > TRAIN_CURVE_POINTS / 2 - 2 && count <= TRAIN_CURVE_POINTS, "%d points", count);
  free(svg);
}

Test(curve, draws_zero_points_and_one_point) {
  char *svg = draw("empty");
  cr_assert_eq(count_of(svg, "<polyline"), 0);
  free(svg);
  train_curve_add(&curve, TRAIN_CURVE_TRAINING, 1, NAN);
  train_curve_add(&curve, TRAIN_CURVE_TRAINING, 1, 5.5);
  svg = draw("one");
  cr_assert_eq(count_of(svg, "<polyline"), 2, "each point, and their moving average");
  cr_assert_eq(count_of(svg, "nan"), 0);
  cr_assert_eq(count_of(svg, "inf"), 0);
  free(svg);
}

Test(curve, text_is_escaped) {
  char *svg = draw("<a & b>");
  cr_assert_eq(count_of(svg, "&lt;a &amp; b&gt;</text>"), 1);
  free(svg);
}

Test(curve, full_disk_is_an_error) {
  cr_assert_eq(train_curve_write(&curve, "", "", "", "/dev/full"), COLL_ERROR_SYSTEM);
  cr_assert(strstr(base_last_error(), "/dev/full: No space left"), "%s", base_last_error());
}
