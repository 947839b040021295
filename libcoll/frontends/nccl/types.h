/*
 * Element types and reductions of NCCL in coll.h.
 */
#ifndef FRONTENDS_NCCL_TYPES_H
#define FRONTENDS_NCCL_TYPES_H

#include "frontends/nccl/errors.h"

ncclResult_t nccl_dtype_check(ncclDataType_t dtype, const char *function, coll_dtype_t *found);
ncclResult_t nccl_op_check(ncclRedOp_t op, const char *function, coll_op_t *found);

#endif
