/*
 * Conformance tests of device_ops_t: what every device table must do, compared with the reference.
 * A device is complete when DEVICE_KIT(suite, table) passes. Buffers are ordinary memory.
 */
#ifndef TESTS_DEVICE_KIT_H
#define TESTS_DEVICE_KIT_H

#include <criterion/criterion.h>

#include "device/ops.h"

/* Each fails the running Criterion test with a message that names dtype, op, sources, count and
 * element. */
void device_kit_copy(const device_ops_t *ops);
void device_kit_empty(const device_ops_t *ops, coll_dtype_t dtype);
void device_kit_reduce(const device_ops_t *ops, coll_dtype_t dtype);
void device_kit_tails(const device_ops_t *ops, coll_dtype_t dtype);
void device_kit_agree(const device_ops_t *ops, const device_ops_t *other, coll_dtype_t dtype);
void device_kit_position(const device_ops_t *ops, coll_dtype_t dtype);
void device_kit_scale(const device_ops_t *ops, coll_dtype_t dtype);
void device_kit_divide(const device_ops_t *ops, coll_dtype_t dtype);
void device_kit_patterns(const device_ops_t *ops, coll_dtype_t dtype);

#define DEVICE_KIT_DTYPE(suite, table, name, dtype)      \
  Test(suite, reduces_##name) {                          \
    device_kit_reduce(&(table), dtype);                  \
  }                                                      \
  Test(suite, reduces_every_tail_of_##name) {            \
    device_kit_tails(&(table), dtype);                   \
  }                                                      \
  Test(suite, computes_##name##_alike_at_any_position) { \
    device_kit_position(&(table), dtype);                \
  }                                                      \
  Test(suite, scales_##name) {                           \
    device_kit_scale(&(table), dtype);                   \
  }                                                      \
  Test(suite, divides_##name) {                          \
    device_kit_divide(&(table), dtype);                  \
  }                                                      \
  Test(suite, accepts_zero_##name##_elements) {          \
    device_kit_empty(&(table), dtype);                   \
  }

/* Defines the kit's tests for one table. */
#define DEVICE_KIT(suite, table)                                \
  Test(suite, copies) {                                         \
    device_kit_copy(&(table));                                  \
  }                                                             \
  DEVICE_KIT_DTYPE(suite, table, int8, COLL_INT8)               \
  DEVICE_KIT_DTYPE(suite, table, uint8, COLL_UINT8)             \
  DEVICE_KIT_DTYPE(suite, table, int16, COLL_INT16)             \
  DEVICE_KIT_DTYPE(suite, table, uint16, COLL_UINT16)           \
  DEVICE_KIT_DTYPE(suite, table, int32, COLL_INT32)             \
  DEVICE_KIT_DTYPE(suite, table, uint32, COLL_UINT32)           \
  DEVICE_KIT_DTYPE(suite, table, int64, COLL_INT64)             \
  DEVICE_KIT_DTYPE(suite, table, uint64, COLL_UINT64)           \
  DEVICE_KIT_DTYPE(suite, table, float16, COLL_FLOAT16)         \
  DEVICE_KIT_DTYPE(suite, table, float32, COLL_FLOAT32)         \
  DEVICE_KIT_DTYPE(suite, table, float64, COLL_FLOAT64)         \
  DEVICE_KIT_DTYPE(suite, table, bfloat16, COLL_BFLOAT16)       \
  DEVICE_KIT_DTYPE(suite, table, float8_e4m3, COLL_FLOAT8_E4M3) \
  DEVICE_KIT_DTYPE(suite, table, float8_e5m2, COLL_FLOAT8_E5M2) \
  Test(suite, takes_every_float16) {                            \
    device_kit_patterns(&(table), COLL_FLOAT16);                \
  }                                                             \
  Test(suite, takes_every_bfloat16) {                           \
    device_kit_patterns(&(table), COLL_BFLOAT16);               \
  }                                                             \
  Test(suite, takes_every_float8_e4m3) {                        \
    device_kit_patterns(&(table), COLL_FLOAT8_E4M3);            \
  }                                                             \
  Test(suite, takes_every_float8_e5m2) {                        \
    device_kit_patterns(&(table), COLL_FLOAT8_E5M2);            \
  }

#endif
