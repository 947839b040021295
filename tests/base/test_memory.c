/* Allocation: zeroed, grown without loss, and refused in words when it cannot be. */
#include "base/memory.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

Test(memory, multiplies_with_care) {
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

Test(memory, allocates_zeroed_and_never_nothing) {
  unsigned char *bytes = NULL;
  cr_assert_eq(base_alloc(1000, 3, "a test", (void **)&bytes), COLL_OK);
  for (int i = 0; i < 3000; i++) cr_assert_eq(bytes[i], 0);
  free(bytes);
  void *nothing = NULL;
  cr_assert_eq(base_alloc(0, 8, "a test", &nothing), COLL_OK);
  cr_assert_not_null(nothing);
  free(nothing);
}

Test(memory, refuses_what_does_not_fit) {
  void *kept = &kept;
  size_t many = SIZE_MAX / 2;
  cr_assert_eq(base_alloc(many, 3, "the moon", &kept), COLL_ERROR_MEMORY);
  cr_assert_eq(kept, &kept);
  cr_assert_not_null(strstr(base_last_error(), "the moon"), "%s", base_last_error());
}

Test(memory, grows_and_keeps) {
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
