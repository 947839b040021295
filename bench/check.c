/* The values of a segment repeat with BENCH_VALUES_PERIOD. One period is computed, and the segment
 * is filled with copies of it or compared with it, at memory speed. */
#include "bench/check.h"

#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "bench/numbers.h"

#define UNTOUCHED 0xa5

coll_status_t bench_check_scratch(void **scratch) {
  return base_alloc(BENCH_VALUES_PERIOD, sizeof(uint64_t), "a period of values", scratch);
}

/* Computes the first elements of the segment, at most one period; returns their number. */
static size_t first_period(const bench_values_t *values, const bench_segment_t *segment,
                           unsigned char *scratch) {
  size_t bytes = coll_dtype_bytes(values->dtype);
  size_t count = segment->count < BENCH_VALUES_PERIOD ? segment->count : BENCH_VALUES_PERIOD;
  for (size_t i = 0; i < count; i++) {
    size_t index = segment->index + i;
    uint64_t bits = segment->rank == BENCH_REDUCED
                        ? bench_values_result(values, index)
                        : bench_values_input(values, segment->rank, index);
    bench_element_store(values->dtype, bits, scratch + i * bytes);
  }
  return count;
}

void bench_check_fill(const bench_values_t *values, const bench_contents_t *contents,
                      const bench_buffer_t *buffer, void *scratch) {
  size_t bytes = coll_dtype_bytes(values->dtype);
  memset(buffer->region, UNTOUCHED, buffer->region_bytes);
  for (size_t s = 0; s < contents->count; s++) {
    const bench_segment_t *segment = &contents->segments[s];
    unsigned char *data = buffer->region + buffer->data_offset + segment->at * bytes;
    size_t period = first_period(values, segment, scratch);
    for (size_t done = 0; done < segment->count; done += period) {
      size_t left = segment->count - done;
      memcpy(data + done * bytes, scratch, (left < period ? left : period) * bytes);
    }
  }
}

static void compare_elements(const bench_values_t *values, const unsigned char *data,
                             const unsigned char *expected, size_t count, size_t at,
                             bench_mismatch_t *mismatch) {
  size_t bytes = coll_dtype_bytes(values->dtype);
  for (size_t i = 0; i < count; i++) {
    if (memcmp(data + i * bytes, expected + i * bytes, bytes) == 0) continue;
    if (mismatch->elements++ > 0) continue;
    mismatch->at = at + i;
    mismatch->got = bench_element_load(values->dtype, data + i * bytes);
    mismatch->expected = bench_element_load(values->dtype, expected + i * bytes);
  }
}

static void compare_segment(const bench_values_t *values, const bench_segment_t *segment,
                            const unsigned char *data, void *scratch, bench_mismatch_t *mismatch) {
  size_t bytes = coll_dtype_bytes(values->dtype);
  size_t period = first_period(values, segment, scratch);
  for (size_t done = 0; done < segment->count; done += period) {
    size_t left = segment->count - done;
    size_t count = left < period ? left : period;
    if (memcmp(data + done * bytes, scratch, count * bytes) == 0) continue;
    compare_elements(values, data + done * bytes, scratch, count, segment->at + done, mismatch);
  }
}

/* Checks bytes [begin, end) of the region, which belong to no segment. */
static void compare_untouched(const bench_buffer_t *buffer, size_t begin, size_t end,
                              bench_mismatch_t *mismatch) {
  const unsigned char *region = buffer->region;
  if (begin >= end) return;
  /* All bytes are equal if the range equals itself shifted by one byte. */
  if (region[begin] == UNTOUCHED &&
      memcmp(region + begin, region + begin + 1, end - begin - 1) == 0) {
    return;
  }
  for (size_t i = begin; i < end; i++) {
    if (region[i] == UNTOUCHED) continue;
    if (mismatch->stray_bytes++ == 0)
      mismatch->stray_offset = (int64_t)i - (int64_t)buffer->data_offset;
  }
}

void bench_check_compare(const bench_values_t *values, const bench_contents_t *contents,
                         const bench_buffer_t *buffer, void *scratch, bench_mismatch_t *mismatch) {
  size_t bytes = coll_dtype_bytes(values->dtype), checked = 0;
  for (size_t s = 0; s < contents->count; s++) {
    const bench_segment_t *segment = &contents->segments[s];
    size_t begin = buffer->data_offset + segment->at * bytes;
    compare_untouched(buffer, checked, begin, mismatch);
    compare_segment(values, segment, buffer->region + begin, scratch, mismatch);
    checked = begin + segment->count * bytes;
  }
  compare_untouched(buffer, checked, buffer->region_bytes, mismatch);
}
