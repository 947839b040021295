/* The dtypes in the order of coll.h. Kernels for CUDA devices are compiled for one each. The
 * assembler reads this, too. */
#ifndef DEVICE_CUDA_DTYPES_H
#define DEVICE_CUDA_DTYPES_H

/* clang-format off */
#define GPU_DTYPES(X)                \
  X(int8, COLL_INT8)                 \
  X(uint8, COLL_UINT8)               \
  X(int32, COLL_INT32)               \
  X(uint32, COLL_UINT32)             \
  X(int64, COLL_INT64)               \
  X(uint64, COLL_UINT64)             \
  X(float16, COLL_FLOAT16)           \
  X(float32, COLL_FLOAT32)           \
  X(float64, COLL_FLOAT64)           \
  X(bfloat16, COLL_BFLOAT16)         \
  X(float8_e4m3, COLL_FLOAT8_E4M3)   \
  X(float8_e5m2, COLL_FLOAT8_E5M2)   \
  X(int16, COLL_INT16)               \
  X(uint16, COLL_UINT16)
/* clang-format on */

#endif
