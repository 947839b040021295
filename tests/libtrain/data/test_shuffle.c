/* Every window occurs once per epoch, in an order without a visible pattern. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "libtrain/data/shuffle.h"

#define MAX_WINDOWS 5000

Test(shuffle, every_window_occurs_once_per_epoch) {
  static const uint64_t windows[] = {1, 2, 3, 4, 5, 16, 17, 63, 64, 65, 1000, 4096, MAX_WINDOWS};
  static uint8_t seen[MAX_WINDOWS];
  for (size_t i = 0; i < sizeof windows / sizeof windows[0]; i++) {
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
      memset(seen, 0, sizeof seen);
      for (uint64_t at = 0; at < windows[i]; at++) {
        uint64_t window = train_shuffle_window(7, windows[i], epoch * windows[i] + at);
        cr_assert_lt(window, windows[i]);
        cr_assert_eq(seen[window]++, 0, "%lu of %lu twice", window, windows[i]);
      }
    }
  }
}

Test(shuffle, order_depends_on_seed_and_epoch) {
  int same_epoch = 0, same_seed = 0, in_place = 0;
  for (uint64_t at = 0; at < 1000; at++) {
    uint64_t window = train_shuffle_window(7, 1000, at);
    same_epoch += window == train_shuffle_window(7, 1000, 1000 + at);
    same_seed += window == train_shuffle_window(8, 1000, at);
    in_place += window == at;
  }
  cr_assert(same_epoch < 10 && same_seed < 10 && in_place < 10, "%d, %d and %d of 1000", same_epoch,
            same_seed, in_place);
}

/* In a random permutation adjacent values differ by n / 3 on average, rise as often as they fall,
 * and position and value do not correlate. */
Test(shuffle, has_no_pattern) {
  const uint64_t count = 100000;
  double distance = 0, rises = 0, product = 0, middle = (double)(count - 1) / 2;
  uint64_t before = train_shuffle_window(3, count, count - 1);
  for (uint64_t at = 0; at < count; at++) {
    uint64_t window = train_shuffle_window(3, count, at);
    distance += fabs((double)window - (double)before) / (double)count;
    rises += window > before;
    product += ((double)at - middle) * ((double)window - middle);
    before = window;
  }
  double correlation = product / ((double)count * (double)count * (double)count / 12);
  cr_assert_float_eq(distance / (double)count, 1.0 / 3, 0.003);
  cr_assert_float_eq(rises / (double)count, 0.5, 0.005);
  cr_assert_float_eq(correlation, 0, 0.015);
}

/* All orders of four windows occur about equally often. */
Test(shuffle, produces_every_order_of_four_windows) {
  int orders[256] = {0}, different = 0;
  for (uint64_t seed = 0; seed < 2400; seed++) {
    unsigned order = 0;
    for (uint64_t at = 0; at < 4; at++) {
      order = order << 2 | (unsigned)train_shuffle_window(seed, 4, at);
    }
    orders[order]++;
  }
  for (int i = 0; i < 256; i++) {
    different += orders[i] > 0;
    cr_assert_lt(orders[i], 200, "order %x came %d times of 2400", (unsigned)i, orders[i]);
  }
  cr_assert_eq(different, 24, "%d orders of 24", different);
}

Test(shuffle, works_for_huge_window_counts) {
  const uint64_t count = UINT64_C(1) << 50;
  for (uint64_t at = 0; at < 100; at++) {
    cr_assert_lt(train_shuffle_window(1, count + 1, at * 12345678901u), count + 1);
  }
}
