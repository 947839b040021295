/*
 * The arithmetic of the kernel has the bits of the host's: every dtype and operation over random
 * bit patterns, NaNs, infinities and denormals among them, with all numbers of operands and all
 * alignments.
 */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "base/names.h"
#include "device/cuda/compute.h"
#include "device/ops.h"
#include "verify/random.h"

#define COUNT_MAX 67
#define OPERAND_BYTES ((COUNT_MAX + 4) * 8)

typedef struct operand {
  _Alignas(GPU_VECTOR_BYTES) char bytes[OPERAND_BYTES];
} operand_t;

static operand_t operands[GPU_OPERANDS_MAX];

/* Mostly any bits; often the bytes of special values. */
static void fill(uint64_t *random) {
  static const unsigned char special[] = {0x00, 0x80, 0x7f, 0xff, 0x7c, 0xfc, 0x01, 0x78};
  for (int k = 0; k < GPU_OPERANDS_MAX; k++) {
    for (size_t i = 0; i < OPERAND_BYTES; i++) {
      uint64_t bits = random_next(random);
      bool is_special = bits >> 32 & 1;
      operands[k].bytes[i] = (char)(is_special ? special[bits % sizeof special] : bits);
    }
  }
}

static bool is_reduced(coll_dtype_t dtype, int op) {
  return base_dtype_is_integer(dtype) ? op != COLL_AVG : op < COLL_BAND;
}

static void compare(const char *what, coll_dtype_t dtype, int op, int sources, const operand_t *got,
                    const operand_t *right) {
  cr_assert(memcmp(got->bytes, right->bytes, OPERAND_BYTES) == 0, "%s of %s, op %d, %d operands",
            what, base_dtype_name(dtype), op, sources);
}

/* skew: in elements; the operand that it moves differs in alignment from the others. */
static void check_reduce(coll_dtype_t dtype, int op, int sources, size_t count, size_t skew) {
  size_t element = base_dtype_bytes(dtype);
  const char *from[GPU_OPERANDS_MAX];
  operand_t got = {{0}}, right = {{0}};
  void *dst = right.bytes + element;
  for (int k = 0; k < sources; k++) from[k] = operands[k].bytes + element;
  from[sources / 2] += skew * element;
  gpu_reduce(dtype, op, got.bytes + element, from, sources, count, element);
  coll_status_t status = device_host_portable.reduce(&dst, 1, 0, (const void *const *)from, sources,
                                                     count, dtype, (coll_op_t)op, 0);
  cr_assert_eq(status, COLL_OK, "%s", base_last_error());
  compare("reduction", dtype, op, sources, &got, &right);
}

static const int some_sources[] = {1, 2, 3, 4, 5, 7, 8, 9, 12, 17, 31, 64, 100, GPU_OPERANDS_MAX};

Test(gpu, reduces_as_the_host) {
  uint64_t random = 7;
  for (int dtype = 0; dtype < COLL_DTYPE_COUNT; dtype++) {
    fill(&random);
    for (int op = 0; op < COLL_OP_BUILTIN_COUNT; op++) {
      if (!is_reduced((coll_dtype_t)dtype, op)) continue;
      for (size_t i = 0; i < sizeof some_sources / sizeof *some_sources; i++) {
        size_t count = (size_t)random_below(&random, COUNT_MAX);
        check_reduce((coll_dtype_t)dtype, op, some_sources[i], count, i % 3);
        check_reduce((coll_dtype_t)dtype, op, some_sources[i], COUNT_MAX, 0);
      }
    }
  }
}

Test(gpu, scales_and_divides_as_the_host) {
  uint64_t random = 11;
  for (int round = 0; round < 40; round++) {
    coll_dtype_t dtype = (coll_dtype_t)(round % COLL_DTYPE_COUNT);
    size_t element = base_dtype_bytes(dtype);
    operand_t got = {{0}}, right = {{0}};
    uint64_t scalar = 0;
    fill(&random);
    memcpy(&scalar, operands[1].bytes, element);
    gpu_scale(dtype, got.bytes + element, operands[0].bytes + element, COUNT_MAX, &scalar);
    device_host_portable.scale(right.bytes + element, operands[0].bytes + element, COUNT_MAX, dtype,
                               &scalar);
    compare("product", dtype, 0, 1, &got, &right);
    if (device_host_portable.divide(NULL, 0, dtype, 1) != COLL_OK) continue; /* narrow floats */
    got = operands[2];
    right = operands[2];
    gpu_divide(dtype, got.bytes + element, COUNT_MAX, 1 + round % 9);
    device_host_portable.divide(right.bytes + element, COUNT_MAX, dtype, 1 + round % 9);
    compare("quotient", dtype, 0, 1, &got, &right);
  }
}

Test(gpu, copies_at_any_alignment) {
  uint64_t random = 13;
  fill(&random);
  for (int round = 0; round < 4000; round++) {
    operand_t got = {{0}}, right = {{0}};
    size_t to = (size_t)random_below(&random, 33), from = (size_t)random_below(&random, 33);
    size_t bytes = (size_t)random_below(&random, 300);
    gpu_copy(got.bytes + to, operands[0].bytes + from, bytes);
    memcpy(right.bytes + to, operands[0].bytes + from, bytes);
    compare("copy", COLL_UINT8, 0, 1, &got, &right);
  }
}
