/* The checker must see a single flipped bit anywhere in the region, and must not see any where none
 * is. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "bench/check.h"

#define DATA_AT 70
#define TAIL 50

static void make(size_t elements, coll_dtype_t dtype, bench_buffer_t *buffer, void **scratch) {
  buffer->data_at = DATA_AT;
  buffer->region_bytes = DATA_AT + elements * coll_dtype_bytes(dtype) + TAIL;
  buffer->region = malloc(buffer->region_bytes);
  cr_assert_not_null(buffer->region);
  cr_assert_eq(bench_check_scratch(scratch), COLL_OK);
}

Test(check, sees_every_flipped_bit) {
  bench_values_t values = {COLL_FLOAT16, COLL_SUM, 3, 1};
  bench_segment_t segments[] = {{0, 5, 1, 0}, {5, 4, BENCH_RESULT, 2}, {12, 3, 0, 9}};
  bench_image_t image = {segments, 3};
  bench_buffer_t buffer;
  void *scratch;
  make(20, values.dtype, &buffer, &scratch);
  bench_check_fill(&values, &image, &buffer, scratch);
  bench_mistake_t mistake = {0};
  bench_check_compare(&values, &image, &buffer, scratch, &mistake);
  cr_assert(mistake.elements == 0 && mistake.strays == 0);
  for (size_t byte = 0; byte < buffer.region_bytes; byte++) {
    for (int bit = 0; bit < 8; bit++) {
      mistake = (bench_mistake_t){0};
      buffer.region[byte] ^= (unsigned char)(1 << bit);
      bench_check_compare(&values, &image, &buffer, scratch, &mistake);
      buffer.region[byte] ^= (unsigned char)(1 << bit);
      size_t element = (byte - DATA_AT) / 2;
      bool inside = byte >= DATA_AT && (element < 9 || (element >= 12 && element < 15));
      cr_assert_eq(mistake.elements, inside ? 1 : 0);
      cr_assert_eq(mistake.strays, inside ? 0 : 1);
      cr_assert(inside ? mistake.at == element && mistake.got != mistake.wanted
                       : mistake.stray_at == (int64_t)byte - DATA_AT);
    }
  }
  free(scratch);
  free(buffer.region);
}

Test(check, goes_beyond_a_period) {
  bench_values_t values = {COLL_INT32, BENCH_MOVE, 2, 1};
  size_t count = 3 * BENCH_VALUES_PERIOD + 17;
  bench_segment_t segment = {0, count, 1, 123};
  bench_image_t image = {&segment, 1};
  bench_buffer_t buffer;
  void *scratch;
  make(count, values.dtype, &buffer, &scratch);
  bench_check_fill(&values, &image, &buffer, scratch);
  for (size_t i = 0; i < count; i += 977) {
    uint32_t element;
    memcpy(&element, buffer.region + DATA_AT + 4 * i, 4);
    cr_assert_eq(element, bench_values_input(&values, 1, 123 + i));
  }
  bench_mistake_t mistake = {0};
  size_t places[] = {0, BENCH_VALUES_PERIOD, count - 1};
  for (size_t i = 0; i < 3; i++) buffer.region[DATA_AT + 4 * places[i]] ^= 1;
  bench_check_compare(&values, &image, &buffer, scratch, &mistake);
  cr_assert(mistake.elements == 3 && mistake.at == 0 && mistake.strays == 0);
  free(scratch);
  free(buffer.region);
}

Test(check, an_empty_image_is_all_guard) {
  bench_values_t values = {COLL_INT8, BENCH_MOVE, 2, 1};
  bench_image_t image = {NULL, 0};
  bench_buffer_t buffer;
  void *scratch;
  make(10, values.dtype, &buffer, &scratch);
  bench_check_fill(&values, &image, &buffer, scratch);
  bench_mistake_t mistake = {0};
  bench_check_compare(&values, &image, &buffer, scratch, &mistake);
  cr_assert_eq(mistake.strays, 0);
  buffer.region[DATA_AT + 3] = 0;
  bench_check_compare(&values, &image, &buffer, scratch, &mistake);
  cr_assert(mistake.strays == 1 && mistake.stray_at == 3);
  free(scratch);
  free(buffer.region);
}
