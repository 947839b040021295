/* One table per enumeration, indexed by its values. */
#include "base/names.h"

#include <string.h>

#include "base/status.h"
#include "base/text.h"

static const char *const collective_names[COLL_COLLECTIVE_COUNT] = {
    [COLL_ALLREDUCE] = "allreduce",
    [COLL_REDUCE] = "reduce",
    [COLL_REDUCE_SCATTER] = "reduce_scatter",
    [COLL_ALLGATHER] = "allgather",
    [COLL_BROADCAST] = "broadcast",
    [COLL_GATHER] = "gather",
    [COLL_SCATTER] = "scatter",
    [COLL_ALLTOALL] = "alltoall",
    [COLL_ALLTOALLV] = "alltoallv",
    [COLL_BARRIER] = "barrier",
    [COLL_SENDRECV] = "sendrecv",
    [COLL_ALLGATHERV] = "allgatherv",
    [COLL_REDUCE_SCATTERV] = "reduce_scatterv",
    [COLL_GATHERV] = "gatherv",
    [COLL_SCATTERV] = "scatterv",
};

static const char *const dtype_names[COLL_DTYPE_COUNT] = {
    [COLL_INT8] = "int8",
    [COLL_UINT8] = "uint8",
    [COLL_INT32] = "int32",
    [COLL_UINT32] = "uint32",
    [COLL_INT64] = "int64",
    [COLL_UINT64] = "uint64",
    [COLL_FLOAT16] = "float16",
    [COLL_FLOAT32] = "float32",
    [COLL_FLOAT64] = "float64",
    [COLL_BFLOAT16] = "bfloat16",
    [COLL_FLOAT8_E4M3] = "float8_e4m3",
    [COLL_FLOAT8_E5M2] = "float8_e5m2",
    [COLL_INT16] = "int16",
    [COLL_UINT16] = "uint16",
};

static const char *const op_names[COLL_OP_BUILTIN_COUNT] = {
    [COLL_SUM] = "sum", [COLL_PROD] = "prod", [COLL_MAX] = "max", [COLL_MIN] = "min",
    [COLL_AVG] = "avg", [COLL_BAND] = "band", [COLL_BOR] = "bor", [COLL_BXOR] = "bxor",
};

const char *base_collective_name(coll_collective_t collective) {
  return (unsigned)collective < COLL_COLLECTIVE_COUNT ? collective_names[collective] : NULL;
}

const char *base_dtype_name(coll_dtype_t dtype) {
  return (unsigned)dtype < COLL_DTYPE_COUNT ? dtype_names[dtype] : NULL;
}

const char *base_op_name(coll_op_t op) {
  return (unsigned)op < COLL_OP_BUILTIN_COUNT ? op_names[op] : NULL;
}

bool base_collective_is_rooted(coll_collective_t collective) {
  return collective == COLL_REDUCE || collective == COLL_BROADCAST || collective == COLL_GATHER ||
         collective == COLL_SCATTER || collective == COLL_GATHERV || collective == COLL_SCATTERV;
}

coll_status_t base_collective_find(const char *name, coll_collective_t *collective) {
  for (int i = 0; i < COLL_COLLECTIVE_COUNT; i++) {
    if (strcmp(collective_names[i], name) == 0) {
      *collective = (coll_collective_t)i;
      return COLL_OK;
    }
  }
  return base_fail(COLL_ERROR_INVALID, "no collective is called '%s'; did you mean '%s'?", name,
                   base_text_nearest(name, collective_names, COLL_COLLECTIVE_COUNT));
}
