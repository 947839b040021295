/*
 * Arrays of bench/accuracy: allocates and draws the inputs of an operator, allocates its outputs,
 * and writes all of them. index.json is {"dtype": NAME, "cases": [{"op": NAME, "sizes": {NAME: N},
 * "arrays": {NAME: {"dtype": NAME, "shape": [rows, columns], "offset": BYTES, "output": BOOL}}}]};
 * offsets are into data.bin.
 */
#ifndef BENCH_ACCURACY_CASE_H
#define BENCH_ACCURACY_CASE_H

#include <jansson.h>
#include <stdio.h>

#include "base/status.h"
#include "libtrain/ops/ops.h"

#define ACCURACY_ARRAYS_MAX 16

typedef struct accuracy_array {
  const char *name; /* NULL: not written */
  const char *dtype;
  int rows, columns;
  size_t bytes;
  bool output;
  void *data;
} accuracy_array_t;

/* All zero before accuracy_open. */
typedef struct accuracy {
  const train_ops_t *ops;
  train_exec_t exec;
  uint64_t seed, draws;
  const char *folder;
  FILE *data;
  json_t *cases, *now; /* the current case */
  accuracy_array_t arrays[ACCURACY_ARRAYS_MAX];
  int array_count;
  coll_status_t status; /* of the current case's allocations */
} accuracy_t;

/* Creates data.bin in the folder and what executes operators of at most these sizes.
 * COLL_ERROR_MEMORY, COLL_ERROR_SYSTEM. */
coll_status_t accuracy_open(const char *folder, const train_ops_sizes_t *sizes, uint64_t seed,
                            accuracy_t *all);
/* Writes index.json. COLL_ERROR_SYSTEM. */
coll_status_t accuracy_finish(accuracy_t *all);
void accuracy_close(accuracy_t *all);

/* A random number below `limit`. */
uint64_t accuracy_draw(accuracy_t *all, uint64_t limit);

/* Begins a case of that operator. */
void accuracy_case(accuracy_t *all, const char *op);

/* Adds a size that the arrays' shapes do not tell. */
void accuracy_size(accuracy_t *all, const char *name, int value);

/* Add arrays of the case; NULL and all->status if memory runs out. They live until accuracy_write.
 * Inputs are normal random numbers in the operators' element type; outputs start as NaN.
 * accuracy_scratch is not written and has uninitialized elements of 4 bytes. */
const void *accuracy_input(accuracy_t *all, const char *name, int rows, int columns,
                           double deviation);
const int32_t *accuracy_indices(accuracy_t *all, const char *name, int rows, int limit);
void *accuracy_output(accuracy_t *all, const char *name, int rows, int columns);
float *accuracy_float_output(accuracy_t *all, const char *name, int rows, int columns);
float *accuracy_scratch(accuracy_t *all, size_t count);

/* Ends the case: writes its arrays and frees them. COLL_ERROR_SYSTEM. */
coll_status_t accuracy_write(accuracy_t *all);

#endif
