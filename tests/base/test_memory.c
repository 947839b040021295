/* Allocation: zeroed, grown without loss, and rejected with a message if it is impossible. */
#include "base/alloc.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

Test(memory, detects_overflow_of_products) {
  size_t product = 77;
  cr_assert(base_size_multiply(3, 5, &product) && product == 15);
  cr_assert(base_size_multiply(0, SIZE_MAX, &product) && product == 0);
  cr_assert_not(base_size_multiply(SIZE_MAX / 2, 3, &product));
}

Test(memory, rounds_up) {
  cr_assert_eq(base_round_up(0, 64), 0);
  cr_assert_eq(base_round_up(1, 64), 64);
  cr_assert_eq(base_round_up(64, 64), 64);
  cr_assert_eq(base_round_up(10, 3), 12);
}

Test(memory, allocates_zeroed_memory_even_for_zero_elements) {
  unsigned char *bytes = NULL;
  cr_assert_eq(base_alloc(1000, 3, "a test", (void **)&bytes), COLL_OK);
  for (int i = 0; i < 3000; i++) cr_assert_eq(bytes[i], 0);
  free(bytes);
  void *nothing = NULL;
  cr_assert_eq(base_alloc(0, 8, "a test", &nothing), COLL_OK);
  cr_assert_not_null(nothing);
  free(nothing);
}

Test(memory, rejects_sizes_that_overflow) {
  void *original = &original;
  size_t many = SIZE_MAX / 2;
  cr_assert_eq(base_alloc(many, 3, "a huge array", &original), COLL_ERROR_MEMORY);
  cr_assert_eq(original, &original);
  cr_assert_not_null(strstr(base_last_error(), "a huge array"), "%s", base_last_error());
}

Test(memory, grows_and_keeps_the_contents) {
  int *numbers = NULL;
  size_t capacity = 0;
  for (int i = 0; i < 1000; i++) {
    size_t needed = (size_t)i + 1;
    cr_assert_eq(base_grow((void **)&numbers, &capacity, needed, sizeof *numbers, "numbers"),
                 COLL_OK);
    cr_assert_geq(capacity, needed);
    numbers[i] = i;
  }
  for (int i = 0; i < 1000; i++) cr_assert_eq(numbers[i], i);
  int *before = numbers;
  size_t capacity_before = capacity;
  cr_assert_eq(base_grow((void **)&numbers, &capacity, SIZE_MAX / 2, sizeof *numbers, "numbers"),
               COLL_ERROR_MEMORY);
  cr_assert(numbers == before && capacity == capacity_before && numbers[999] == 999);
  free(numbers);
}
