/* The chosen slices are as good as the best of all possible ones, and take the time that the
 * simulated schedule takes. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "libtrain/schedule/slices.h"
#include "libtrain/schedule/timing.h"

enum { MAX_UNITS = 12 };

/* Attention costs (prefix + length / 2) * length, the rest is linear, and each slice costs extra.
 */
typedef struct price {
  double each, linear, attention;
} price_t;

static double price_of(const void *context, int length, int prefix) {
  const price_t *price = context;
  return price->each + length * (price->linear + price->attention * (prefix + 0.5 * length));
}

static double rough_price(const void *context, int length, int prefix) {
  return price_of(context, length, prefix) + (length * 7919 + prefix * 104729) % 97;
}

/* Least time over all ways to cut, or those into as many slices as are wanted: bit i of `cuts` cuts
 * after unit i. */
static double best_of_all(const train_slices_request_t *request) {
  int units = request->tokens / request->unit;
  double best = INFINITY;
  for (int cuts = 0; cuts < 1 << (units - 1); cuts++) {
    double sum = 0, longest = 0;
    bool wanted = request->slices == 0 || __builtin_popcount((unsigned)cuts) == request->slices - 1;
    if (!wanted) continue;
    for (int start = 0, end = 1; end <= units; end++) {
      if (end < units && !(cuts >> (end - 1) & 1)) continue;
      double time =
          request->cost(request->context, (end - start) * request->unit, start * request->unit);
      sum += time;
      longest = fmax(longest, time);
      start = end;
    }
    best = fmin(best, request->micro_batches * sum + (request->stages - 1) * longest);
  }
  return best;
}

static double time_of(const train_slices_request_t *request, const int lengths[], int count) {
  double sum = 0, longest = 0;
  int prefix = 0;
  for (int i = 0; i < count; i++) {
    double time = request->cost(request->context, lengths[i], prefix);
    sum += time;
    longest = fmax(longest, time);
    prefix += lengths[i];
  }
  cr_assert_eq(prefix, request->tokens);
  return request->micro_batches * sum + (request->stages - 1) * longest;
}

Test(slices, are_the_best_of_all) {
  static const price_t prices[] = {{0, 1, 0}, {3, 1, 0.01}, {20, 1, 0.2}, {1, 0, 1}};
  int lengths[MAX_UNITS], count;
  for (size_t i = 0; i < 8; i++) {
    for (int units = 1; units <= MAX_UNITS; units++) {
      for (int stages = 1; stages <= 8; stages += 3) {
        const train_slices_request_t request = {.tokens = units * 8,
                                                .unit = 8,
                                                .stages = stages,
                                                .micro_batches = 1 + units % 3,
                                                .cost = i < 4 ? price_of : rough_price,
                                                .context = &prices[i % 4]};
        double time;
        cr_assert_eq(train_slices_choose(&request, lengths, &count, &time), COLL_OK);
        double best = best_of_all(&request);
        cr_assert_float_eq(time, best, 1e-9 * best);
        cr_assert_float_eq(time_of(&request, lengths, count), best, 1e-9 * best);
      }
    }
  }
}

Test(slices, of_a_given_number_are_the_best_of_so_many) {
  static const price_t prices[] = {{0, 1, 0}, {3, 1, 0.01}, {20, 1, 0.2}, {1, 0, 1}};
  int lengths[MAX_UNITS], count;
  for (size_t i = 0; i < 8; i++) {
    for (int slices = 1; slices <= MAX_UNITS; slices++) {
      const train_slices_request_t request = {.tokens = MAX_UNITS * 8,
                                              .unit = 8,
                                              .slices = slices,
                                              .stages = 4,
                                              .micro_batches = 2,
                                              .cost = i < 4 ? price_of : rough_price,
                                              .context = &prices[i % 4]};
      double time;
      cr_assert_eq(train_slices_choose(&request, lengths, &count, &time), COLL_OK);
      cr_assert_eq(count, slices);
      double best = best_of_all(&request);
      cr_assert_float_eq(time, best, 1e-9 * best);
      cr_assert_float_eq(time_of(&request, lengths, count), best, 1e-9 * best);
    }
  }
}

Test(slices, get_shorter_where_attention_is_dear) {
  static const price_t price = {.each = 1, .linear = 1, .attention = 0.05};
  const train_slices_request_t request = {.tokens = 2048,
                                          .unit = 8,
                                          .stages = 8,
                                          .micro_batches = 1,
                                          .cost = price_of,
                                          .context = &price};
  int lengths[256], count;
  cr_assert_eq(train_slices_choose(&request, lengths, &count, NULL), COLL_OK);
  cr_assert_gt(count, 8);
  cr_assert_gt(lengths[0], 2 * lengths[count - 1]);
}

/* Forward takes a third of each slice, so the schedule takes the time of the formula. */
Test(slices, take_the_time_of_the_schedule) {
  static const price_t price = {.each = 5, .linear = 1, .attention = 0.02};
  const train_slices_request_t request = {.tokens = 96,
                                          .unit = 8,
                                          .stages = 4,
                                          .micro_batches = 3,
                                          .cost = price_of,
                                          .context = &price};
  int lengths[MAX_UNITS], count;
  double time, parts[MAX_UNITS];
  cr_assert_eq(train_slices_choose(&request, lengths, &count, &time), COLL_OK);
  for (int i = 0, prefix = 0; i < count; prefix += lengths[i++]) {
    parts[i] = price_of(&price, lengths[i], prefix);
  }
  const train_schedule_shape_t shape = {TRAIN_SCHEDULE_TERAPIPE, 4, 3, 1, 1, count};
  const train_schedule_costs_t costs = {
      .forward = 1.0 / 3, .input = 1.0 / 3, .weight = 1.0 / 3, .slice_parts = parts};
  train_schedule_t *schedule;
  train_timing_t timing;
  cr_assert_eq(train_schedule_create(&shape, &schedule), COLL_OK);
  cr_assert_eq(train_schedule_time(schedule, &costs, &timing), COLL_OK);
  cr_assert_float_eq(timing.end, time, 1e-9 * time);
  train_timing_free(&timing);
  train_schedule_destroy(schedule);
}

Test(slices, of_a_unit_that_does_not_divide_are_refused) {
  static const price_t price = {1, 1, 1};
  train_slices_request_t request = {.tokens = 100,
                                    .unit = 8,
                                    .stages = 1,
                                    .micro_batches = 1,
                                    .cost = price_of,
                                    .context = &price};
  int lengths[MAX_UNITS], count;
  cr_assert_eq(train_slices_choose(&request, lengths, &count, NULL), COLL_ERROR_INVALID);
  cr_assert(strstr(base_last_error(), "must divide the length") != NULL);
  request.tokens = 8 * 513;
  cr_assert_eq(train_slices_choose(&request, lengths, &count, NULL), COLL_ERROR_INVALID);
  request.tokens = 8 * 3;
  request.slices = 4;
  cr_assert_eq(train_slices_choose(&request, lengths, &count, NULL), COLL_ERROR_INVALID);
  cr_assert(strstr(base_last_error(), "at most 3") != NULL);
}
