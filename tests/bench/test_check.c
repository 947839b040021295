/* The checker must report a single flipped bit anywhere in the region, and nothing for a correct
 * buffer. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "bench/check.h"

#define DATA_AT 70
#define TAIL 50

static void make(size_t elements, coll_dtype_t dtype, bench_buffer_t *buffer, void **scratch) {
  buffer->data_offset = DATA_AT;
  buffer->region_bytes = DATA_AT + elements * coll_dtype_bytes(dtype) + TAIL;
  buffer->region = malloc(buffer->region_bytes);
  cr_assert_not_null(buffer->region);
  cr_assert_eq(bench_check_scratch(scratch), COLL_OK);
}

Test(check, reports_every_flipped_bit) {
  bench_values_t values = {COLL_FLOAT16, COLL_SUM, 3, 1};
  bench_segment_t segments[] = {{0, 5, 1, 0}, {5, 4, BENCH_REDUCED, 2}, {12, 3, 0, 9}};
  bench_contents_t contents = {segments, 3};
  bench_buffer_t buffer;
  void *scratch;
  make(20, values.dtype, &buffer, &scratch);
  bench_check_fill(&values, &contents, &buffer, scratch);
  bench_mismatch_t mismatch = {0};
  bench_check_compare(&values, &contents, &buffer, scratch, &mismatch);
  cr_assert(mismatch.elements == 0 && mismatch.stray_bytes == 0);
  for (size_t byte = 0; byte < buffer.region_bytes; byte++) {
    for (int bit = 0; bit < 8; bit++) {
      mismatch = (bench_mismatch_t){0};
      buffer.region[byte] ^= (unsigned char)(1 << bit);
      bench_check_compare(&values, &contents, &buffer, scratch, &mismatch);
      buffer.region[byte] ^= (unsigned char)(1 << bit);
      size_t element = (byte - DATA_AT) / 2;
      bool inside = byte >= DATA_AT && (element < 9 || (element >= 12 && element < 15));
      cr_assert_eq(mismatch.elements, inside ? 1 : 0);
      cr_assert_eq(mismatch.stray_bytes, inside ? 0 : 1);
      cr_assert(inside ? mismatch.at == element && mismatch.got != mismatch.expected
                       : mismatch.stray_offset == (int64_t)byte - DATA_AT);
    }
  }
  free(scratch);
  free(buffer.region);
}

Test(check, segments_longer_than_a_period) {
  bench_values_t values = {COLL_INT32, BENCH_OP_NONE, 2, 1};
  size_t count = 3 * BENCH_VALUES_PERIOD + 17;
  bench_segment_t segment = {0, count, 1, 123};
  bench_contents_t contents = {&segment, 1};
  bench_buffer_t buffer;
  void *scratch;
  make(count, values.dtype, &buffer, &scratch);
  bench_check_fill(&values, &contents, &buffer, scratch);
  for (size_t i = 0; i < count; i += 977) {
    uint32_t element;
    memcpy(&element, buffer.region + DATA_AT + 4 * i, 4);
    cr_assert_eq(element, bench_values_input(&values, 1, 123 + i));
  }
  bench_mismatch_t mismatch = {0};
  size_t places[] = {0, BENCH_VALUES_PERIOD, count - 1};
  for (size_t i = 0; i < 3; i++) buffer.region[DATA_AT + 4 * places[i]] ^= 1;
  bench_check_compare(&values, &contents, &buffer, scratch, &mismatch);
  cr_assert(mismatch.elements == 3 && mismatch.at == 0 && mismatch.stray_bytes == 0);
  free(scratch);
  free(buffer.region);
}

Test(check, empty_contents_are_all_guard_bytes) {
  bench_values_t values = {COLL_INT8, BENCH_OP_NONE, 2, 1};
  bench_contents_t contents = {NULL, 0};
  bench_buffer_t buffer;
  void *scratch;
  make(10, values.dtype, &buffer, &scratch);
  bench_check_fill(&values, &contents, &buffer, scratch);
  bench_mismatch_t mismatch = {0};
  bench_check_compare(&values, &contents, &buffer, scratch, &mismatch);
  cr_assert_eq(mismatch.stray_bytes, 0);
  buffer.region[DATA_AT + 3] = 0;
  bench_check_compare(&values, &contents, &buffer, scratch, &mismatch);
  cr_assert(mismatch.stray_bytes == 1 && mismatch.stray_offset == 3);
  free(scratch);
  free(buffer.region);
}
