/*
 * For each possible longest time, in ascending order, a dynamic programme finds the slices with the
 * least sum of times among those that are not longer. The sum of the best slices of any length
 * bounds what longer ones can still win, which ends the search. Longest times for which there are
 * no slices are skipped by bisection.
 *
 * If the number of slices is given, the programme has a level for each of them.
 */
#include "libtrain/schedule/slices.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

typedef struct search {
  const train_slices_request_t *request;
  int units;
  double *times;   /* [units * (units + 1)]: of the slice from unit i to unit j */
  double *longest; /* candidates, ascending */
  size_t candidates;
  int levels;   /* slices that are wanted; 1 if their number is free */
  double *sums; /* [levels + 1][units + 1]: least sum of times up to a unit */
  int *starts;  /* [levels][units + 1]: of the last slice of that sum */
  int *best;    /* [levels][units + 1]: `starts` of the best time so far */
} search_t;

static double *time_at(const search_t *search, int start, int end) {
  return &search->times[(size_t)start * (size_t)(search->units + 1) + (size_t)end];
}

static int compare_doubles(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void list_times(search_t *search) {
  int unit = search->request->unit;
  for (int start = 0; start < search->units; start++) {
    for (int end = start + 1; end <= search->units; end++) {
      double time =
          search->request->cost(search->request->context, (end - start) * unit, start * unit);
      *time_at(search, start, end) = time;
      search->longest[search->candidates++] = time;
    }
  }
  qsort(search->longest, search->candidates, sizeof search->longest[0], compare_doubles);
}

static size_t ends_of(const search_t *search) {
  return (size_t)search->units + 1;
}

/* Adds a slice of at most `longest` to each of the sums `before`, which may be `after`. */
static void add_slice(const search_t *search, double longest, const double *before, double *after,
                      int *starts) {
  for (int end = 1; end <= search->units; end++) {
    after[end] = INFINITY;
    for (int start = 0; start < end; start++) {
      double time = *time_at(search, start, end), sum = before[start] + time;
      if (time > longest || sum >= after[end]) continue;
      after[end] = sum;
      starts[end] = start;
    }
  }
}

/* The least sum of times of slices that take at most `longest` each; INFINITY: there are none. */
static double least_sum(search_t *search, double longest) {
  double *sums = search->sums;
  sums[0] = 0;
  if (search->request->slices == 0) {
    add_slice(search, longest, sums, sums, search->starts);
    return sums[search->units];
  }
  for (int end = 1; end <= search->units; end++) sums[end] = INFINITY;
  for (int level = 0; level < search->levels; level++, sums += ends_of(search)) {
    double *after = sums + ends_of(search);
    after[0] = INFINITY;
    add_slice(search, longest, sums, after, search->starts + (size_t)level * ends_of(search));
  }
  return sums[search->units];
}

/* The first candidate for which there are slices. */
static size_t first_possible(search_t *search) {
  size_t from = 0, to = search->candidates - 1;
  while (from < to) {
    size_t middle = from + (to - from) / 2;
    bool possible = isfinite(least_sum(search, search->longest[middle]));
    if (possible) {
      to = middle;
    } else {
      from = middle + 1;
    }
  }
  return from;
}

static double find_best(search_t *search) {
  double count = search->request->micro_batches, others = search->request->stages - 1;
  double least = count * least_sum(search, INFINITY), best = INFINITY;
  size_t bytes = (size_t)search->levels * ends_of(search) * sizeof search->best[0];
  size_t first = first_possible(search);
  for (size_t i = first; i < search->candidates; i++) {
    double longest = search->longest[i];
    if (i > first && longest == search->longest[i - 1]) continue;
    if (least + others * longest >= best) break;
    double time = count * least_sum(search, longest) + others * longest;
    if (time >= best) continue;
    best = time;
    memcpy(search->best, search->starts, bytes);
  }
  return best;
}

static void list_lengths(const search_t *search, int lengths[], int *count) {
  bool is_free = search->request->slices == 0;
  *count = search->request->slices;
  for (int end = search->units; is_free && end > 0; end = search->best[end]) ++*count;
  for (int at = *count - 1, end = search->units; at >= 0; at--) {
    int start = search->best[(is_free ? 0 : (size_t)at * ends_of(search)) + (size_t)end];
    lengths[at] = (end - start) * search->request->unit;
    end = start;
  }
}

static coll_status_t allocate(search_t *search) {
  static const char what[] = "the choice of slices";
  size_t ends = ends_of(search), times = (size_t)search->units * ends;
  size_t levels = (size_t)search->levels;
  COLL_TRY(base_alloc(times, sizeof(double), what, (void **)&search->times));
  COLL_TRY(base_alloc(times, sizeof(double), what, (void **)&search->longest));
  COLL_TRY(base_alloc((levels + 1) * ends, sizeof(double), what, (void **)&search->sums));
  COLL_TRY(base_alloc(levels * ends, sizeof(int), what, (void **)&search->starts));
  return base_alloc(levels * ends, sizeof(int), what, (void **)&search->best);
}

coll_status_t train_slices_choose(const train_slices_request_t *request, int lengths[], int *count,
                                  double *time) {
  if (request->unit < 1 || request->tokens < 1 || request->tokens % request->unit != 0 ||
      request->tokens / request->unit > TRAIN_SLICES_MAX_UNITS) {
    return base_fail(
        COLL_ERROR_INVALID,
        "sequences of %d tokens cannot be cut into slices of multiples of %d: the unit "
        "must divide the length, at most %d times",
        request->tokens, request->unit, TRAIN_SLICES_MAX_UNITS);
  }
  search_t search = {.request = request,
                     .units = request->tokens / request->unit,
                     .levels = request->slices > 0 ? request->slices : 1};
  if (search.levels > search.units) {
    return base_fail(COLL_ERROR_INVALID,
                     "sequences of %d tokens cannot be cut into %d slices of multiples of %d: give "
                     "at most %d",
                     request->tokens, request->slices, request->unit, search.units);
  }
  coll_status_t status = allocate(&search);
  if (status == COLL_OK) {
    list_times(&search);
    double best = find_best(&search);
    if (time != NULL) *time = best;
    list_lengths(&search, lengths, count);
  }
  free(search.times);
  free(search.longest);
  free(search.sums);
  free(search.starts);
  free(search.best);
  return status;
}
