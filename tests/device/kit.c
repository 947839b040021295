/*
 * Every case fills guarded buffers with seeded values (ordinary ones, random bits, and corner cases
 * of the type), runs the device, and compares every element with the reference, every source with
 * its original content, and every guard byte.
 */
#include "device/kit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "device/reference.h"
#include "harness/sample.h"

#define SOURCES_MAX 15 /* 8 + 4 + 2 + 1: groups of all sizes */
#define DSTS_MAX 3
#define COUNT_MAX 4099
#define GUARD_BYTES 64
#define GUARD 0xa5

/* A buffer with guard bytes on both sides. `data` starts `skew` elements after a cache line. */
typedef struct buffer {
  unsigned char *memory, *data;
  size_t bytes, lead;
} buffer_t;

static buffer_t buffer_create(size_t bytes, size_t skew_bytes) {
  buffer_t buffer = {.bytes = bytes, .lead = GUARD_BYTES + skew_bytes};
  size_t total = (buffer.lead + bytes + GUARD_BYTES + 63) / 64 * 64;
  buffer.memory = aligned_alloc(64, total);
  cr_assert_not_null(buffer.memory);
  memset(buffer.memory, GUARD, total);
  buffer.data = buffer.memory + buffer.lead;
  return buffer;
}

static void buffer_destroy(buffer_t *buffer, const char *what) {
  for (size_t i = 0; i < buffer->lead; i++) {
    cr_assert_eq(buffer->memory[i], GUARD, "%s: wrote %zu bytes before it", what, buffer->lead - i);
  }
  for (size_t i = 0; i < GUARD_BYTES; i++) {
    cr_assert_eq(buffer->data[buffer->bytes + i], GUARD, "%s: wrote %zu bytes past its end", what,
                 i + 1);
  }
  free(buffer->memory);
}

/* ---- values ---------------------------------------------------------------------------------*/

static uint64_t random_next(uint64_t *state) { /* splitmix64 (Steele, Lea and Flood, 2014) */
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

static const double corners[] = {0.0,     -0.0,     1.0,       -1.0,   INFINITY, -INFINITY,
                                 NAN,     448.0,    65504.0,   -65520, 0x1p-149, -0x1p-24,
                                 0x1p-14, 0x1p-126, 0x1p-1074, 3.4e38, 1e300,    0.5};

static void fill(coll_dtype_t dtype, unsigned char *data, size_t count, uint64_t seed) {
  size_t bytes = base_dtype_bytes(dtype);
  for (size_t i = 0; i < count; i++) {
    uint64_t bits = random_next(&seed);
    unsigned kind = (unsigned)(random_next(&seed) % 4);
    double ordinary = (double)(int64_t)(bits >> 11) / 0x1p50 - 4.0;
    if (!reference_is_float(dtype)) {
      /* small integers, from which corner cases arise */
      if (kind == 0) bits = (uint64_t)((int64_t)(bits % 5) - 2);
      if (kind == 1) bits = bits % 2 == 0 ? UINT64_MAX >> 1 : (uint64_t)1 << (bytes * 8 - 1);
      memcpy(data + i * bytes, &bits, bytes);
    } else if (kind == 0) {
      memcpy(data + i * bytes, &bits, bytes);
    } else {
      size_t corner = bits % (sizeof corners / sizeof corners[0]);
      reference_encode(dtype, kind == 1 ? corners[corner] : ordinary, data, i);
    }
  }
}

/* A nontemporal_hint for a part of `bytes`, in turn: the whole operation, a small part of it, and a
 * result that is loaded again soon. */
static size_t hint_for(size_t turn, size_t bytes) {
  const size_t hints[] = {bytes, bytes * 1000, 0};
  return hints[turn % (sizeof hints / sizeof hints[0])];
}

/* Whether a device reduces the type with the op: averages of integers are sums for it. */
static bool is_reduced(int op, coll_dtype_t dtype) {
  return base_op_takes((coll_op_t)op, dtype) && (op != COLL_AVG || !base_dtype_is_integer(dtype));
}

/* Reduces to one destination, in one part. */
static coll_status_t reduce(const device_ops_t *ops, void *dst, const void *const sources[],
                            int source_count, size_t count, coll_dtype_t dtype, int op) {
  return ops->reduce(&dst, 1, 0, sources, source_count, count, dtype, (coll_op_t)op,
                     count * base_dtype_bytes(dtype));
}

/* ---- copy -----------------------------------------------------------------------------------*/

static void check_copies(const device_ops_t *ops, size_t bytes) {
  for (size_t skew = 0; skew < 4; skew++) {
    buffer_t src = buffer_create(bytes, skew % 2), dst = buffer_create(bytes, skew / 2 * 5);
    fill(COLL_UINT8, src.data, bytes, bytes);
    cr_assert_eq(ops->copy(dst.data, src.data, bytes, hint_for(skew, bytes)), COLL_OK, "%s",
                 base_last_error());
    ops->store_fence();
    cr_assert_eq(memcmp(dst.data, src.data, bytes), 0, "copy of %zu bytes", bytes);
    cr_assert_eq(ops->copy(src.data, src.data, bytes, bytes), COLL_OK, "%s", base_last_error());
    cr_assert_eq(memcmp(dst.data, src.data, bytes), 0, "copy of %zu bytes to itself", bytes);
    memset(dst.data, 0, bytes);
    cr_assert_eq(ops->fetch(dst.data, src.data, bytes, hint_for(skew, bytes)), COLL_OK, "%s",
                 base_last_error());
    ops->store_fence();
    cr_assert_eq(memcmp(dst.data, src.data, bytes), 0, "fetch of %zu bytes", bytes);
    buffer_destroy(&src, "copy source");
    buffer_destroy(&dst, "copy destination");
  }
}

void device_kit_copy(const device_ops_t *ops) {
  static const size_t sizes[] = {4095, 4096, 4097, 8191, 100003};
  cr_assert_eq(ops->copy(NULL, NULL, 0, 0), COLL_OK);
  cr_assert_eq(ops->fetch(NULL, NULL, 0, 0), COLL_OK);
  for (size_t bytes = 1; bytes <= 130; bytes++) check_copies(ops, bytes);
  for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) check_copies(ops, sizes[s]);
}

/* ---- reduce ---------------------------------------------------------------------------------*/

/* One reduction. alias: the source that is also the last destination, or -1. */
typedef struct reduction {
  coll_dtype_t dtype;
  coll_op_t op;
  int dsts, cached_dsts, sources, alias;
  size_t count;
  bool skewed;
} reduction_t;

static void check_reduction(const device_ops_t *ops, const reduction_t *r) {
  size_t element = base_dtype_bytes(r->dtype), bytes = r->count * element;
  buffer_t given[SOURCES_MAX], original[SOURCES_MAX];
  const void *sources[SOURCES_MAX], *originals[SOURCES_MAX];
  for (int k = 0; k < r->sources; k++) {
    given[k] = buffer_create(bytes, r->skewed ? (size_t)(k % 3 + 1) * element : 0);
    original[k] = buffer_create(bytes, 0);
    fill(r->dtype, given[k].data, r->count, (uint64_t)k * 7919 + r->count);
    if (bytes > 0) memcpy(original[k].data, given[k].data, bytes);
    sources[k] = given[k].data;
    originals[k] = original[k].data;
  }
  buffer_t apart[DSTS_MAX], right = buffer_create(bytes, 0);
  void *dsts[DSTS_MAX];
  for (int d = 0; d < r->dsts; d++) {
    apart[d] = buffer_create(bytes, r->skewed ? (size_t)(d + 1) * element : 0);
    dsts[d] = d == r->dsts - 1 && r->alias >= 0 ? given[r->alias].data : apart[d].data;
  }
  coll_status_t status = ops->reduce(dsts, r->dsts, r->cached_dsts, sources, r->sources, r->count,
                                     r->dtype, r->op, hint_for(r->count, bytes));
  char what[128];
  snprintf(what, sizeof what, "%s %s of %d x %zu to %d, alias %d, skew %d",
           base_dtype_name(r->dtype), base_op_name(r->op), r->sources, r->count, r->dsts, r->alias,
           r->skewed);
  cr_assert_eq(status, COLL_OK, "%s: %s", what, base_last_error());
  for (size_t i = 0; i < r->count; i++) {
    reference_reduce(r->dtype, r->op, originals, r->sources, i, right.data);
    for (int d = 0; d < r->dsts; d++) {
      cr_assert(reference_same(r->dtype, dsts[d], right.data, i), "%s: element %zu is wrong", what,
                i);
    }
  }
  for (int k = 0; k < r->sources; k++) {
    bool same = k == r->alias || memcmp(given[k].data, original[k].data, bytes) == 0;
    cr_assert(same, "%s: source %d was changed", what, k);
    buffer_destroy(&given[k], what);
    buffer_destroy(&original[k], what);
  }
  for (int d = 0; d < r->dsts; d++) buffer_destroy(&apart[d], what);
  buffer_destroy(&right, what);
}

/* Zero elements need no buffers. */
void device_kit_empty(const device_ops_t *ops, coll_dtype_t dtype) {
  const void *sources[] = {NULL, NULL};
  void *dst = NULL;
  uint64_t scalar = 0;
  cr_assert_eq(ops->copy(NULL, NULL, 0, 0), COLL_OK);
  cr_assert_eq(ops->reduce(&dst, 1, 0, sources, 2, 0, dtype, COLL_SUM, 0), COLL_OK);
  cr_assert_eq(ops->scale(NULL, NULL, 0, dtype, &scalar), COLL_OK);
  if (!reference_is_narrow(dtype)) cr_assert_eq(ops->divide(NULL, 0, dtype, 3), COLL_OK);
}

/* A combination that is not supported writes nothing, also where one source is only copied. */
static void check_refusal(const device_ops_t *ops, coll_dtype_t dtype, int op) {
  uint64_t one = 1, two = 2, result = GUARD;
  const void *sources[] = {&one, &two};
  for (int count = 1; count <= 2; count++) {
    cr_assert_eq(reduce(ops, &result, sources, count, 1, dtype, op), COLL_ERROR_UNSUPPORTED);
    cr_assert_not_null(strstr(base_last_error(), base_op_name((coll_op_t)op)));
    cr_assert_eq(result, GUARD);
  }
}

void device_kit_reduce(const device_ops_t *ops, coll_dtype_t dtype) {
  static const size_t counts[] = {0, 1, 3, 17, 1000, COUNT_MAX};
  static const int sources[] = {1, 2, 3, 7, SOURCES_MAX};
  reduction_t r = {.dtype = dtype};
  unsigned number = 0;
  for (int op = 0; op < COLL_OP_BUILTIN_COUNT; op++) {
    if (!is_reduced(op, dtype)) {
      check_refusal(ops, dtype, op);
      continue;
    }
    for (size_t k = 0; k < sizeof sources / sizeof sources[0]; k++) {
      r.op = (coll_op_t)op;
      r.sources = sources[k];
      const int aliases[] = {-1, 0, r.sources / 2, r.sources - 1};
      for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        for (int a = 0; a < 4; a++) {
          if (!harness_takes(HARNESS_VALUES, number++)) continue;
          r.count = counts[c];
          r.dsts = (a + (int)c) % DSTS_MAX + 1;
          r.alias = aliases[a];
          r.skewed = (a + (int)c) % 2 == 1;
          r.cached_dsts = (r.sources + (int)c) % (r.dsts + 1);
          check_reduction(ops, &r);
        }
      }
    }
  }
}

/* Every length of the part after the last full vector, at three alignments. */
void device_kit_tails(const device_ops_t *ops, coll_dtype_t dtype) {
  reduction_t r = {.dtype = dtype, .op = COLL_SUM, .alias = -1};
  for (r.count = 0; r.count <= 130; r.count++) {
    for (r.sources = 2; r.sources <= 4; r.sources++) {
      r.dsts = r.sources - 1;
      r.skewed = r.sources != 3;
      check_reduction(ops, &r);
    }
  }
}

/* Computes the same bits as another table, NaNs included. */
void device_kit_agree(const device_ops_t *ops, const device_ops_t *other, coll_dtype_t dtype) {
  size_t element = base_dtype_bytes(dtype), bytes = COUNT_MAX * element;
  buffer_t in[3], out = buffer_create(bytes, 0), right = buffer_create(bytes, 0);
  const void *sources[3];
  unsigned char *dst = out.data, *expected = right.data;
  for (int k = 0; k < 3; k++) {
    in[k] = buffer_create(bytes, 0);
    fill(dtype, in[k].data, COUNT_MAX, (uint64_t)k + 7);
    sources[k] = in[k].data;
  }
  for (int count = 1; count <= 3; count++) {
    for (int op = 0; op < COLL_OP_BUILTIN_COUNT; op++) {
      if (!is_reduced(op, dtype)) continue;
      cr_assert_eq(reduce(ops, dst, sources, count, COUNT_MAX, dtype, op), COLL_OK);
      cr_assert_eq(reduce(other, expected, sources, count, COUNT_MAX, dtype, op), COLL_OK);
      cr_assert_eq(memcmp(dst, expected, bytes), 0, "%s and %s differ on %s %s of %d", ops->name,
                   other->name, base_dtype_name(dtype), base_op_name((coll_op_t)op), count);
    }
  }
  for (size_t i = 0; i < 64; i++) {
    cr_assert_eq(ops->scale(dst, in[0].data, COUNT_MAX, dtype, in[1].data + i * element), COLL_OK);
    cr_assert_eq(other->scale(expected, in[0].data, COUNT_MAX, dtype, in[1].data + i * element),
                 COLL_OK);
    cr_assert_eq(memcmp(dst, expected, bytes), 0, "%s and %s differ on %s scaled", ops->name,
                 other->name, base_dtype_name(dtype));
    if (reference_is_narrow(dtype)) continue;
    cr_assert_eq(ops->divide(dst, COUNT_MAX, dtype, (int)i + 1), COLL_OK);
    cr_assert_eq(other->divide(expected, COUNT_MAX, dtype, (int)i + 1), COLL_OK);
    cr_assert_eq(memcmp(dst, expected, bytes), 0, "%s and %s differ on %s divided", ops->name,
                 other->name, base_dtype_name(dtype));
  }
  for (int k = 0; k < 3; k++) buffer_destroy(&in[k], "source");
  buffer_destroy(&out, "destination");
  buffer_destroy(&right, "other destination");
}

/* Reduces the same values one by one, at an odd alignment and all together: the same bits, NaNs
 * included. */
void device_kit_position(const device_ops_t *ops, coll_dtype_t dtype) {
  enum { COUNT = 1021, SKEW = 3 };
  size_t element = base_dtype_bytes(dtype), bytes = COUNT * element;
  for (int sources = 2; sources <= 3; sources++) {
    for (int op = 0; op < COLL_OP_BUILTIN_COUNT; op++) {
      if (!is_reduced(op, dtype)) continue;
      buffer_t in[3], shifted[3];
      const void *all[3], *off[3], *one[3];
      buffer_t out = buffer_create(bytes, 0), out_off = buffer_create(bytes, SKEW * element);
      for (int k = 0; k < 3; k++) {
        in[k] = buffer_create(bytes, 0);
        shifted[k] = buffer_create(bytes, SKEW * element);
        fill(dtype, in[k].data, COUNT, (uint64_t)k + 99);
        memcpy(shifted[k].data, in[k].data, bytes);
        all[k] = in[k].data;
        off[k] = shifted[k].data + element;
      }
      cr_assert_eq(reduce(ops, out.data, all, sources, COUNT, dtype, op), COLL_OK);
      cr_assert_eq(reduce(ops, out_off.data + element, off, sources, COUNT - 1, dtype, op),
                   COLL_OK);
      for (size_t i = 0; i < COUNT; i++) {
        unsigned char single[8] __attribute__((aligned(8)));
        for (int k = 0; k < sources; k++) one[k] = in[k].data + i * element;
        cr_assert_eq(reduce(ops, single, one, sources, 1, dtype, op), COLL_OK);
        cr_assert_eq(memcmp(single, out.data + i * element, element), 0,
                     "%s %s of %d: element %zu depends on its neighbours", base_dtype_name(dtype),
                     base_op_name((coll_op_t)op), sources, i);
      }
      cr_assert_eq(memcmp(out_off.data + element, out.data + element, bytes - element), 0,
                   "%s %s of %d depends on the position", base_dtype_name(dtype),
                   base_op_name((coll_op_t)op), sources);
      for (int k = 0; k < 3; k++) {
        buffer_destroy(&in[k], "reduce source");
        buffer_destroy(&shifted[k], "shifted reduce source");
      }
      buffer_destroy(&out, "reduce destination");
      buffer_destroy(&out_off, "shifted reduce destination");
    }
  }
}

/* ---- scale and divide -----------------------------------------------------------------------*/

static void check_scale(const device_ops_t *ops, coll_dtype_t dtype, size_t count,
                        const void *scalar, bool in_place) {
  size_t element = base_dtype_bytes(dtype), bytes = count * element;
  buffer_t src = buffer_create(bytes, element), original = buffer_create(bytes, 0);
  buffer_t dst = buffer_create(bytes, 0), right = buffer_create(bytes, 0);
  fill(dtype, src.data, count, count + 5);
  if (bytes > 0) memcpy(original.data, src.data, bytes);
  void *out = in_place ? src.data : dst.data;
  cr_assert_eq(ops->scale(out, src.data, count, dtype, scalar), COLL_OK, "%s", base_last_error());
  for (size_t i = 0; i < count; i++) {
    reference_scale(dtype, scalar, original.data, i, right.data);
    cr_assert(reference_same(dtype, out, right.data, i), "%s scale of %zu: element %zu is wrong",
              base_dtype_name(dtype), count, i);
  }
  cr_assert(in_place || memcmp(src.data, original.data, bytes) == 0, "scale changed its source");
  buffer_destroy(&src, "scale source");
  buffer_destroy(&original, "copy of the source");
  buffer_destroy(&dst, "scale destination");
  buffer_destroy(&right, "reference");
}

void device_kit_scale(const device_ops_t *ops, coll_dtype_t dtype) {
  static const size_t counts[] = {0, 1, 3, 17, 1000, COUNT_MAX};
  size_t element = base_dtype_bytes(dtype);
  unsigned char scalars[24 * 8] __attribute__((aligned(8))), scalar[1 + 8];
  unsigned number = 0;
  fill(dtype, scalars, 24, 11);
  for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
    for (size_t s = 0; s < 24; s++) {
      if (!harness_takes(HARNESS_VALUES, number++)) continue;
      memcpy(scalar + 1, scalars + s * element, element); /* unaligned */
      check_scale(ops, dtype, counts[c], scalar + 1, s % 2 == 1);
    }
  }
}

void device_kit_divide(const device_ops_t *ops, coll_dtype_t dtype) {
  static const size_t counts[] = {0, 1, 3, 17, 1000, COUNT_MAX};
  static const int divisors[] = {1, 2, 3, 7, 127, 128, 255, 256, 4095, 4096};
  size_t element = base_dtype_bytes(dtype);
  unsigned number = 0;
  if (reference_is_narrow(dtype)) {
    cr_assert_eq(ops->divide(NULL, 0, dtype, 3), COLL_ERROR_UNSUPPORTED);
    return;
  }
  for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
    for (size_t d = 0; d < sizeof divisors / sizeof divisors[0]; d++) {
      if (!harness_takes(HARNESS_VALUES, number++)) continue;
      size_t bytes = counts[c] * element;
      buffer_t buffer = buffer_create(bytes, d % 2 * element), original = buffer_create(bytes, 0);
      buffer_t right = buffer_create(bytes, 0);
      fill(dtype, buffer.data, counts[c], c + d);
      if (bytes > 0) memcpy(original.data, buffer.data, bytes);
      cr_assert_eq(ops->divide(buffer.data, counts[c], dtype, divisors[d]), COLL_OK, "%s",
                   base_last_error());
      for (size_t i = 0; i < counts[c]; i++) {
        reference_divide(dtype, divisors[d], original.data, i, right.data);
        cr_assert(reference_same(dtype, buffer.data, right.data, i),
                  "%s divide of %zu by %d: element %zu is wrong", base_dtype_name(dtype), counts[c],
                  divisors[d], i);
      }
      buffer_destroy(&buffer, "divide");
      buffer_destroy(&original, "copy of the buffer");
      buffer_destroy(&right, "reference");
    }
  }
}

/* ---- every pattern of the narrow floats -----------------------------------------------------*/

/* Sets sources[0][i] to pattern i and sources[1] to one pattern throughout. */
static void fill_patterns(size_t element, size_t count, size_t partner, unsigned char *all,
                          unsigned char *same) {
  for (size_t i = 0; i < count; i++) {
    if (element == 1) {
      all[i] = (unsigned char)i;
      same[i] = (unsigned char)partner;
    } else {
      ((uint16_t *)(void *)all)[i] = (uint16_t)i;
      ((uint16_t *)(void *)same)[i] = (uint16_t)partner;
    }
  }
}

/* Reduces every pair of float8 patterns; every 16-bit pattern with some 40 others. */
void device_kit_patterns(const device_ops_t *ops, coll_dtype_t dtype) {
  size_t element = base_dtype_bytes(dtype), count = (size_t)1 << (8 * element);
  size_t stride = (element == 1 ? 1 : 1627) * harness_stride(HARNESS_VALUES);
  buffer_t all = buffer_create(count * element, 0), same = buffer_create(count * element, 0);
  buffer_t dst = buffer_create(count * element, 0), right = buffer_create(count * element, 0);
  const void *sources[] = {all.data, same.data};
  for (size_t partner = 0; partner < count; partner += stride) {
    fill_patterns(element, count, partner, all.data, same.data);
    for (int op = 0; op < COLL_OP_BUILTIN_COUNT; op++) {
      if (!is_reduced(op, dtype)) continue;
      cr_assert_eq(reduce(ops, dst.data, sources, 2, count, dtype, op), COLL_OK, "%s",
                   base_last_error());
      for (size_t i = 0; i < count; i++) {
        reference_reduce(dtype, (coll_op_t)op, sources, 2, i, right.data);
        cr_assert(reference_same(dtype, dst.data, right.data, i), "%s: 0x%zx %s 0x%zx is wrong",
                  base_dtype_name(dtype), i, base_op_name((coll_op_t)op), partner);
      }
    }
  }
  buffer_destroy(&all, "patterns");
  buffer_destroy(&same, "partner");
  buffer_destroy(&dst, "destination");
  buffer_destroy(&right, "reference");
}
