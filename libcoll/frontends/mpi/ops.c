/*
 * Reductions. The product of complex numbers is not that of their parts; their sum is.
 */
#include "frontends/mpi/ops.h"

typedef struct row {
  MPI_Op handle;
  coll_op_t op;
  unsigned ops; /* the sets of types that it reduces */
} row_t;

#define ROW_COUNT 7

static row_t rows[ROW_COUNT];

void layer_ops_start(void) {
  const unsigned numbers = LAYER_INTEGER | LAYER_FLOAT;
  const row_t filled[ROW_COUNT] = {{MPI_SUM, COLL_SUM, numbers | LAYER_COMPLEX},
                                   {MPI_PROD, COLL_PROD, numbers},
                                   {MPI_MAX, COLL_MAX, numbers},
                                   {MPI_MIN, COLL_MIN, numbers},
                                   {MPI_BAND, COLL_BAND, LAYER_BITS},
                                   {MPI_BOR, COLL_BOR, LAYER_BITS},
                                   {MPI_BXOR, COLL_BXOR, LAYER_BITS}};
  for (int i = 0; i < ROW_COUNT; i++) rows[i] = filled[i];
}

bool layer_op_find(MPI_Op op, const layer_type_t *type, coll_op_t *found) {
  for (int i = 0; i < ROW_COUNT; i++) {
    if (rows[i].handle != op) continue;
    *found = rows[i].op;
    return (rows[i].ops & type->ops) != 0;
  }
  return false;
}
