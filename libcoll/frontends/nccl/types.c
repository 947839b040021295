/*
 * Element types and reductions have the same numbers on both sides. coll.h has more of them, where
 * NCCL may have others one day: these are refused.
 */
#include "frontends/nccl/types.h"

_Static_assert((int)ncclInt8 == COLL_INT8 && (int)ncclUint8 == COLL_UINT8 &&
                   (int)ncclInt32 == COLL_INT32 && (int)ncclUint32 == COLL_UINT32 &&
                   (int)ncclInt64 == COLL_INT64 && (int)ncclUint64 == COLL_UINT64,
               "integers have NCCL's numbers");
_Static_assert((int)ncclFloat16 == COLL_FLOAT16 && (int)ncclFloat32 == COLL_FLOAT32 &&
                   (int)ncclFloat64 == COLL_FLOAT64 && (int)ncclBfloat16 == COLL_BFLOAT16 &&
                   (int)ncclFloat8e4m3 == COLL_FLOAT8_E4M3 &&
                   (int)ncclFloat8e5m2 == COLL_FLOAT8_E5M2,
               "floats have NCCL's numbers");
_Static_assert((int)ncclSum == COLL_SUM && (int)ncclProd == COLL_PROD && (int)ncclMax == COLL_MAX &&
                   (int)ncclMin == COLL_MIN && (int)ncclAvg == COLL_AVG,
               "reductions have NCCL's numbers");
_Static_assert((int)ncclNumOps <= (int)COLL_OP_CREATED_MIN, "created ops are none of NCCL's");
_Static_assert((int)ncclScalarDevice == COLL_SCALAR_DEVICE &&
                   (int)ncclScalarHostImmediate == COLL_SCALAR_HOST_IMMEDIATE,
               "residences have NCCL's numbers");

ncclResult_t nccl_dtype_check(ncclDataType_t dtype, const char *function, coll_dtype_t *found) {
  if ((unsigned)dtype >= ncclNumTypes) {
    return nccl_fail(ncclInvalidArgument, "%s: datatype %d: give 0 (ncclInt8) to %d", function,
                     (int)dtype, ncclNumTypes - 1);
  }
  *found = (coll_dtype_t)dtype;
  return ncclSuccess;
}

ncclResult_t nccl_op_check(ncclRedOp_t op, const char *function, coll_op_t *found) {
  if ((unsigned)op >= ncclNumOps && (int)op < (int)COLL_OP_CREATED_MIN) {
    return nccl_fail(ncclInvalidArgument,
                     "%s: op %d: give 0 (ncclSum) to %d, or one of ncclRedOpCreatePreMulSum",
                     function, (int)op, ncclNumOps - 1);
  }
  *found = (coll_op_t)op;
  return ncclSuccess;
}
